"""Memory layouts: transpositions, copies, distribution to a mesh, and the reports of `plan`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from helpers import (
    DTYPES,
    STORAGES,
    mesh_of,
    normal,
    one_triangle,
    positive_definite,
    put,
    put_matrix,
    solve_ratio,
)
from meshsolve import _core
from meshsolve._execute import eager
from meshsolve._library import ffi

pytestmark = pytest.mark.versions

EYE = np.eye(64)
KEPT = "A is copied: overwrite_a is not set"


def pointers(x):
    return [shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards]


def made_by_jax(mesh, a, storage):
    """The same matrix in memory that can be donated, unlike memory that NumPy lends."""
    x = put_matrix(mesh, a, storage)
    return jax.jit(lambda x: x + 0, out_shardings=x.format)(x)


@pytest.mark.parametrize("storage", STORAGES[:3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_factor_takes_the_memory_of_a(storage, dtype):
    mesh = mesh_of((2, 0, 3, 1))
    a = positive_definite("random", 64, dtype, np.random.default_rng(0))
    a_dev = made_by_jax(mesh, a, storage)
    before = sorted(pointers(a_dev))
    factor = ms.cho_factor(a_dev, overwrite_a=True)
    assert a_dev.is_deleted() and sorted(pointers(factor.work)) == before
    assert solve_ratio(a, factor.solve(np.ones(64, dtype)), np.ones(64)) < 3


def program(storage, lower=False, n=64):
    """The compiled program of an eager factorisation, and its array."""
    mesh = mesh_of(range(4))
    a = put_matrix(mesh, np.eye(n), storage)
    at = eager.eager_placement("cho_factor", a)
    op = ffi.operation("potrf", "cho_factor", lower=lower, storage=at.storage)
    return eager.program(op, at, "replicated", (True,)).lower(a).compile(), a


@pytest.mark.parametrize("storage", STORAGES[:3])
def test_the_program_holds_the_call_and_no_copy(storage):
    """XLA neither transposes nor copies the matrix on its way into the call and out of it."""
    compiled, a = program(storage)
    assert compiled.memory_analysis().alias_size_in_bytes == a.nbytes // 4
    allowed = {"parameter", "custom-call", "bitcast", "get-tuple-element", "reshape", "tuple"}
    assert Program(compiled).makers(16 * 64) <= allowed
    ((given,), _) = compiled.input_formats
    assert given.layout.major_to_minor == ((1, 0) if storage == "column-major" else (0, 1))
    local = {"rows": (16, 64), "columns": (64, 16), "column-major": (64, 16)}[storage]
    assert Program(compiled).makes(*local)


def test_what_is_not_given_stays_where_it_is():
    """Nothing of a column-major A, lower, or an A by rows, upper, moves. The solver does not change
    entries outside of its triangle and its diagonal tiles.
    """
    mesh, n, tile = mesh_of(range(4)), 512, 64
    a = positive_definite("random", n, "float64", np.random.default_rng(1))
    block = np.arange(n) // tile
    for storage, lower in (("column-major", True), ("rows", False)):
        outside = block[:, None] < block if lower else block[:, None] > block
        marked = np.where(outside, np.arange(n * n).reshape(n, n) + 0.5, a)
        factor = ms.cho_factor(put_matrix(mesh, marked, storage), lower)
        assert factor.storage == storage
        np.testing.assert_array_equal(np.asarray(factor.work)[outside], marked[outside])
        assert solve_ratio(a, factor.solve(np.ones(n)), np.ones(n)) < 3


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("lower", [False, True])
def test_bit_identical_from_run_to_run(storage, lower):
    """One triangle given, on a permuted mesh."""
    rng = np.random.default_rng(0)
    a, b = positive_definite("random", 516, "complex64", rng), normal(rng, (516, 3), "complex64")
    mesh = mesh_of((2, 0, 3, 1))
    a_dev, b_dev = put_matrix(mesh, one_triangle(a, lower), storage), put(mesh, b)
    solve = lambda: np.asarray(ms.solve(a_dev, b_dev, lower, assume_a="pos"))  # noqa: E731
    first = solve()
    assert solve_ratio(a, first, b) < 3
    for _ in range(5):
        np.testing.assert_array_equal(solve(), first)


def like(mesh, n, *spec, dtype=jnp.float64):
    return jax.ShapeDtypeStruct((n, n), dtype, sharding=NamedSharding(mesh, P(*spec)))


def test_plan_says_what_will_be_done(capsys):
    mesh, donated = mesh_of(range(4)), {"overwrite_a": True, "overwrite_b": True}
    donated["assume_a"] = "pos"
    plan = ms.plan(like(mesh, 8192, "x", None), np.ones(8192), **donated)
    assert str(plan) + "\n" == capsys.readouterr().out
    assert plan.shard == "(2048,8192):(8192,1)" and plan.solves == "A^T"
    assert plan.solver_shard == "(8192,2048):(1,8192)"
    width = 256 if plan.workers <= 2 else 128
    count = 2048 // width
    assert plan.block == f"({width},({count},4)):(1,({width},2048))"
    assert plan.block_cyclic == f"({width},(4,{count})):(1,(2048,{width}))"
    assert plan.widths == [(width, 4 * count)]
    assert plan.transposition is None and plan.moves == []
    assert plan.bytes_per_device == {"A": 8192 * 2048 * 8, "b": 8192 * 8}
    assert plan.scratch_bytes < 0.03 * 8 * 8192**2

    plan = ms.plan(like(mesh, 8192, None, "x"), np.ones((8192, 4096)), **donated)
    assert plan.shard == "(8192,2048):(2048,1)" and plan.solves == "A"
    assert "8192 x 2048" in plan.transposition
    assert plan.moves == [
        "every shard is transposed in its own memory",
        "the upper triangle is mirrored in place",
        "right-hand sides are distributed to the devices by columns",
    ]
    assert plan.bytes_per_device["b"] == 8192 * 1024 * 8

    plan = ms.plan(np.eye(1797), np.ones((1797, 33)), assume_a="pos", overwrite_b=True, mesh=mesh)
    assert (plan.n, plan.padded, plan.devices) == (1797, 1800, 4)
    assert plan.block is None and plan.widths == [(113, 8), (112, 8)]
    assert plan.tiler == "(4,4):(4,1)"
    assert plan.moves == [
        "A is copied to shards of rows, padded",
        "right-hand sides are distributed to the devices by columns",
    ]
    assert "n = 1797, padded to 1800" in str(plan)


def test_plan_of_general_matrices():
    mesh = mesh_of(range(4))
    plan = lambda *spec, **options: ms.plan(  # noqa: E731
        like(mesh, 256, *spec), overwrite_a=True, overwrite_b=True, **options
    )
    b = np.ones(256)
    assert plan("x", None, b=b).moves == [] and plan("x", None, b=b).solves == "A^T"
    assert plan("x", None, b=b, assume_a="sym").moves == ["the upper triangle is mirrored in place"]
    # A factor is that of A itself.
    assert plan("x", None).moves == ["the matrix is transposed across the devices, in their memory"]
    assert plan("x", None).solves == "A"
    assert plan(None, "x").moves == ["every shard is transposed in its own memory"]
    with pytest.raises(ValueError, match=r"meshsolve\.plan: assume_a: expected one of"):
        plan("x", None, assume_a="diagonal")


def column_major(x):
    return jax.device_put(x, Format(Layout((1, 0)), x.sharding))


@pytest.mark.parametrize(
    ("a", "options", "storage", "moves"),
    [
        (lambda m: put_matrix(m, EYE, "column-major"), {"lower": True}, "column-major", [KEPT]),
        (
            lambda m: column_major(put(m, EYE, "x", None)),
            {"overwrite_a": True},
            "rows",
            ["A is copied to row-major order"],
        ),
        (
            lambda m: column_major(jnp.asarray(EYE)),
            {"overwrite_a": True},
            "one device",
            ["A is copied to row-major order"],
        ),
        (lambda m: put(m, EYE), {}, "rows", ["A is resharded to P('x', None)"]),
        (lambda m: EYE, {"overwrite_a": True}, "one device", ["A is brought to a device"]),
        (lambda m: jnp.asarray(EYE), {"overwrite_a": True}, "one device", []),
        (
            lambda m: put(m, np.eye(65)),
            {"overwrite_a": True},
            "one device",
            ["one device solves for all, as they do not divide n"],
        ),
        (
            lambda m: put(m, EYE.astype(np.int32), "x", None),
            {"overwrite_a": True},
            "rows",
            ["A is converted to float64"],
        ),
        (
            lambda m: put(m, EYE, "x", None),
            {"overwrite_a": True, "b": np.ones((64, 33))},
            "rows",
            [
                "b is copied: overwrite_b is not set",
                "right-hand sides are exchanged so that each device has whole columns",
            ],
        ),
    ],
)
def test_plan_lists_every_copy(a, options, storage, moves):
    plan = ms.plan(a(mesh_of(range(4))), assume_a="pos", **options)
    assert plan.storage == storage and plan.moves == moves


def test_plan_takes_no_tracers_and_checks_as_solve_does():
    with pytest.raises(
        TypeError, match=r"meshsolve\.plan: a, b: expected arrays, or .* got traced"
    ):
        jax.jit(ms.plan)(EYE)
    with pytest.raises(ValueError, match=r"meshsolve\.plan: a: expected a square matrix"):
        ms.plan(np.ones((2, 3)), inverse=True)


@pytest.mark.parametrize("assume_a", ["pos", "gen"])
@pytest.mark.parametrize("storage", STORAGES[:3])
def test_the_plan_holds(storage, assume_a):
    """Scratch, workers and tiles of the plan are those of the call."""
    mesh = mesh_of(range(2))
    a = put_matrix(mesh, np.eye(1024) * 2, storage)
    plan = ms.plan(a, np.ones((1024, 2)), assume_a=assume_a)
    ms.solve(a, np.ones((1024, 2)), assume_a=assume_a).block_until_ready()
    call = ms.last_call()
    assert call["scratch_bytes"] == plan.scratch_bytes and call["workers"] == plan.workers
    assert call["tile"] == plan.widths[0][0]


@pytest.mark.parametrize("assume_a", ["pos", "gen"])
@pytest.mark.parametrize("storage", STORAGES[:3])
def test_the_plan_of_an_inverse_holds(storage, assume_a):
    a = put_matrix(mesh_of(range(2)), np.eye(512) * 2, storage)
    plan = ms.plan(a, assume_a=assume_a, overwrite_a=True, inverse=True)
    assert plan.bytes_per_device == {"A": 512 * 512 * 4}
    turned = ["every shard is transposed in its own memory"] * (storage == "columns")
    mirrored = storage != "rows" and assume_a == "pos"
    mirrored = ["the upper triangle is mirrored in place"] * mirrored
    back = ["every shard of the inverse is transposed back"] * (storage == "columns")
    assert plan.moves == turned + mirrored + back
    ms.inv(a, assume_a=assume_a, overwrite_a=True).block_until_ready()
    call = ms.last_call()
    assert call["scratch_bytes"] == plan.scratch_bytes and call["workers"] == plan.workers
    assert call["tile"] == plan.widths[0][0]


@pytest.mark.parametrize("assume_a", ["pos", "gen"])
@pytest.mark.parametrize("storage", STORAGES[:3])
@pytest.mark.parametrize("k", [2, 64])
def test_the_plan_of_a_refinement_holds(storage, assume_a, k):
    """All its calls, as they are logged."""
    a, b = put_matrix(mesh_of(range(2)), np.eye(512) * 3, storage), np.ones((512, k))
    plan = ms.plan(a, b, assume_a=assume_a, refine=True)
    _core.listen(True)
    ms.solve(a, b, assume_a=assume_a, refine=True).block_until_ready()
    _core.listen(False)
    made = list(iter(_core.next_event, None))
    factor = [call for call in made if call["routine"].endswith("trf")]
    assert [call["dtype"] for call in factor] == ["float32"]
    assert factor[0]["workers"] == plan.workers and factor[0]["tile"] == plan.widths[0][0]
    assert {"residual", factor[0]["routine"][:2] + "trs"} < {call["routine"] for call in made}
    assert max(call["scratch_bytes"] for call in made) == plan.scratch_bytes
    shard = 512 * 256 * 8
    assert plan.bytes_per_device["A in float32"] == shard // 2
    assert plan.moves[0] == "A is copied to float32, of which the factor is made"
    again = "if refinement does not converge: A is copied and all is done in float64"
    assert plan.moves[-1] == again


def test_plans_of_refinements_and_inverses_tell_of_every_copy():
    mesh, b = mesh_of(range(4)), np.ones(64)
    plan = ms.plan(put(mesh, EYE, "x", None), b, refine=True, overwrite_a=True)
    across = "the matrix is transposed across the devices, in their memory"
    first = "A is copied to float32, of which the factor is made"
    last = "if refinement does not converge: all is done in float64"
    assert plan.moves == [first, across, last]
    amounts = {"A": 8192, "b": 512, "A in float32": 4096, "solution, residual, correction": 1536}
    assert plan.bytes_per_device == amounts
    plan = ms.plan(put(mesh, EYE), inverse=True)
    resharded = "A is resharded to P('x', None)"
    assert plan.moves == [resharded, "the inverse is resharded as A is"]
    amounts = {"A": 8192, "copy of A": 8192, "resharded inverse": 4 * 8192}
    assert plan.bytes_per_device == amounts
    plan = ms.plan(np.eye(63), inverse=True, mesh=mesh)
    cut = "the inverse is cut to n and comes to one device"
    assert plan.moves == ["A is copied to shards of rows, padded", cut]
    assert plan.bytes_per_device["there, while it is made"] == 2 * 63 * 63 * 8


@pytest.mark.parametrize(
    ("b", "options", "error", "message"),
    [
        (
            np.ones(64),
            {"inverse": True},
            ValueError,
            "meshsolve.plan: inverse: expected A alone, as inv takes it, got right-hand sides; "
            "leave them out, or inverse",
        ),
        (
            None,
            {"refine": True},
            ValueError,
            "meshsolve.plan: refine: expected right-hand sides to solve for, got none; give b; "
            "factors are not refined",
        ),
        (
            np.ones(64, np.float32),
            {"refine": True, "a": EYE.astype(np.float32)},
            TypeError,
            "meshsolve.solve: refine: expected False for float32 and complex64, got True for "
            "float32; float64 and complex128 are factored in half their precision and refined",
        ),
    ],
)
def test_plans_that_cannot_be(b, options, error, message):
    with pytest.raises(error) as raised:
        ms.plan(options.pop("a", EYE), b, **options)
    assert str(raised.value) == message


def test_numpy_arrays_and_other_meshes_are_distributed_to_the_mesh_that_is_given():
    rng = np.random.default_rng(3)
    a, b = positive_definite("random", 61, "float64", rng), normal(rng, (61, 3), "float64")
    small, large = mesh_of((5, 2)), mesh_of(range(8))
    even = np.pad(a, (0, 1)) + np.diag([0.0] * 61 + [1])
    for given, n in (
        (a, 61),
        (jnp.asarray(a), 61),
        (put(small, a), 61),
        (put(small, even, "x", None), 62),
        (put(small, even, None, "x"), 62),
        (put_matrix(small, even, "column-major"), 62),
    ):
        b_n = np.pad(b, ((0, n - 61), (0, 0)))
        x = ms.solve(given, b_n, assume_a="pos", mesh=large)
        assert x.sharding.device_set == set(large.devices.flat)
        assert solve_ratio(np.asarray(given), x, b_n) < 3
        assert not isinstance(given, jax.Array) or not given.is_deleted()
        factor = ms.cho_factor(given, True, mesh=large)
        assert factor.work.shape == (64, 64) and factor.n == n
        assert solve_ratio(np.asarray(given), factor.solve(b_n[:, 0]), b_n[:, 0]) < 3
    # A matrix that is there already is used as it is.
    there = put(large, np.pad(a, (0, 3)) + np.diag([0.0] * 61 + [1] * 3), None, "x")
    assert ms.plan(there, mesh=large).storage == "columns"
    one, order = mesh_of([3]), jnp.eye(61)
    there = put(one, order, "x", None) * 1
    assert ms.cho_factor(there, overwrite_a=True, mesh=one).n == 61 and there.is_deleted()
    x = ms.solve(a.tolist(), b.tolist(), assume_a="pos", mesh=small)
    assert solve_ratio(a, x, b) < 3


def test_two_axes_of_a_mesh_are_one_for_mesh():
    rng = np.random.default_rng(4)
    a, b = positive_definite("random", 61, "complex64", rng), normal(rng, (61, 50), "complex64")
    for kind in (jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit):
        mesh = jax.make_mesh((2, 4), ("y", "x"), axis_types=(kind, kind))
        assert solve_ratio(a, ms.solve(a, b, assume_a="pos", mesh=mesh), b) < 3
