"""Solutions: a pairwise selection of the grid of cases, and tests outside of the grid."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from allpairspy import AllPairs
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from grids import Grid
from helpers import (
    DTYPES,
    REDUCED,
    SOME_KINDS,
    STORAGES,
    WELL_CONDITIONED,
    WHOLE,
    mesh_of,
    mesh_set,
    normal,
    one_triangle,
    positive_definite,
    put,
    put_matrix,
    solve_ratio,
)

# Sizes in units that fit every number of devices: multiples of P around P itself and around tile
# borders, a prime multiple, and a larger one. Tiles are 64 wide at these sizes.
SIZES = {
    "P": lambda p: p,
    "2P": lambda p: 2 * p,
    "tile-1": lambda p: 64 * p - p,
    "tile": lambda p: 64 * p,
    "tile+1": lambda p: 64 * p + p,
    "prime": lambda p: 37 * p,
    "300": lambda p: 300 // p * p,
}
ORDERS = {
    1: ((0,), (3,)),
    2: ((0, 1), (5, 2)),
    3: ((0, 1, 2), (7, 0, 3)),
    4: ((0, 1, 2, 3), (2, 0, 3, 1)),
    8: (tuple(range(8)), (7, 6, 5, 4, 3, 2, 1, 0)),
}
GRID = Grid(
    **WHOLE | {"p": ORDERS, "size": SIZES},
    rhs=["vector", "1", "3", "33", "n"],
    kind=SOME_KINDS,
    where=["replicated", "rows", "columns", "elsewhere"],
    lower=[False, True],
    jit=[False, True],
    which=[0, 1],  # which order of devices
    overwrite=[False, True],
)


def place_rhs(mesh, b, where):
    """B on the mesh in the named sharding, if JAX can shard it so, or on a single device."""
    if where == "elsewhere":
        return jnp.asarray(b)
    p = mesh.size
    axes = [None] * b.ndim
    if where == "rows":
        axes[0] = "x"
    elif where == "columns" and b.ndim == 2 and b.shape[1] % p == 0:
        axes[1] = "x"
    return put(mesh, b, *axes)


def check_solve(dtype, p, size, rhs, kind, storage, where, lower, axis_type, jit, which, overwrite):
    # One less than a multiple of P if A is padded to one: also 0, and P - 1.
    n = SIZES[size](p) - (storage == "padded")
    rng = np.random.default_rng([n, p, which])
    a = positive_definite(kind, n, dtype, rng)
    k = {"vector": (), "n": (n,)}.get(rhs) if rhs in ("vector", "n") else (int(rhs),)
    b = normal(rng, (n, *k), dtype) * np.abs(a).max(initial=0)
    given = one_triangle(a, lower)
    mesh = mesh_of(ORDERS[p][which], axis_type)
    if storage == "padded":
        a_dev, over = jnp.asarray(given), mesh
        where = "elsewhere" if where == "rows" else where
    else:
        a_dev, over = put_matrix(mesh, given, storage), None
    b_dev = place_rhs(mesh, b, where)

    def call(a, b):
        options = {"assume_a": "pos", "overwrite_a": overwrite, "return_info": True, "mesh": over}
        return ms.solve(a, b, lower, **options)

    if jit and where == "elsewhere" and storage != "padded":
        b_dev = put(mesh, b)
    home = b_dev.sharding
    with mesh_set(over if jit else None):
        x, info = (jax.jit(call) if jit else call)(a_dev, b_dev)

    assert x.shape == b.shape and x.dtype == a.dtype
    assert int(info.info) == 0
    if not jit and where != "elsewhere":
        assert x.sharding.is_equivalent_to(home, b.ndim), "x comes back in b's sharding"
    ratio = solve_ratio(a, x, b)
    # At order 1 LAPACK's own ratio passes 3, see test_order_one_is_as_good_as_lapack.
    assert np.isfinite(ratio) and ratio <= (3 if kind in WELL_CONDITIONED and n > 1 else 30)
    # A matrix that is replicated over one device is also by rows.
    in_place = storage in STORAGES[:3] or (storage == "replicated" and p == 1)
    assert a_dev.is_deleted() == (overwrite and not jit and n > 0 and in_place)


@pytest.mark.parametrize("case", GRID.pairs(**REDUCED), ids=str)
def test_solve(case):
    check_solve(**case)


def test_bit_identical_from_run_to_run():
    rng = np.random.default_rng(0)
    for k in (3, 64):
        a, b = positive_definite("random", 768, "float64", rng), normal(rng, (768, k), "float64")
        mesh = mesh_of((2, 0, 3, 1))
        a, b = put(mesh, a, "x", None), put(mesh, b)
        first = np.asarray(ms.solve(a, b, assume_a="pos"))
        for _ in range(5):
            np.testing.assert_array_equal(np.asarray(ms.solve(a, b, assume_a="pos")), first)


def test_permuted_meshes_share_one_jitted_function():
    rng = np.random.default_rng(1)
    a, b = positive_definite("random", 96, "float64", rng), normal(rng, (96, 2), "float64")
    solve = jax.jit(lambda a, b: ms.solve(a, b, assume_a="pos"))
    orders = ((0, 1, 2, 3), (2, 0, 3, 1), (7, 5, 1, 3), (1, 3), (3, 1))
    for order, storage, axis_type in AllPairs([orders, STORAGES, ("auto", "explicit")]):
        mesh = mesh_of(order, axis_type)
        x = solve(put_matrix(mesh, a, storage), put(mesh, b))
        assert solve_ratio(a, x, b) < 3, (axis_type, order, storage)


def test_no_copy_of_the_matrix_is_gathered_under_jit_on_an_auto_mesh():
    n = 256
    mesh = mesh_of(range(4))
    specs = (P("x", None), P(None, "x"))
    for k, spec in itertools.product((1, n), specs):
        a = jax.ShapeDtypeStruct((n, n), jnp.float64, sharding=NamedSharding(mesh, spec))
        b = jax.ShapeDtypeStruct((n, k), jnp.float64, sharding=NamedSharding(mesh, P("x", None)))
        solve = jax.jit(lambda a, b: ms.solve(2 * a, b, assume_a="pos"))
        program = Program(solve, a, b)
        assert program.makes(n // 4, n) or program.makes(n, n // 4)
        assert program.routines() == ["posv"]
        # Few right-hand sides may be gathered, the matrix never.
        assert not program.makes(n, n)


def test_two_axes_of_a_mesh():
    """Rows over one axis of a larger mesh: one call per row of devices; over both: one call."""
    rng = np.random.default_rng(2)
    a, b = positive_definite("random", 64, "complex128", rng), normal(rng, (64, 5), "complex128")
    specs = ((("x",), None), (("y", "x"), None), (("x", "y"), None), (None, "x"), ("y", "x"))
    types = (jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit)
    for spec, kind, jit in AllPairs([specs, types, [False, True]]):
        mesh = jax.make_mesh((2, 4), ("y", "x"), axis_types=(kind,) * 2)
        solve = jax.jit(ms.solve, static_argnames="assume_a") if jit else ms.solve
        x = solve(put(mesh, a, *spec), put(mesh, b), assume_a="pos")
        assert solve_ratio(a, x, b) < 3, (kind, spec, jit)


def test_arrays_that_are_not_sharded():
    rng = np.random.default_rng(3)
    a, b = positive_definite("random", 61, "float64", rng), normal(rng, (61,), "float64")
    assert solve_ratio(a, ms.solve(a, b, assume_a="pos"), b) < 3
    solve = jax.jit(lambda a, b: ms.solve(a, b, assume_a="pos"))
    assert solve_ratio(a, solve(jnp.asarray(a), jnp.asarray(b)), b) < 3
    replicated = put(mesh_of(range(4)), np.pad(a, ((0, 3), (0, 3))) + np.diag([0] * 61 + [1] * 3))
    x = ms.solve(replicated, np.pad(b, (0, 3)), assume_a="pos")
    assert solve_ratio(a, np.asarray(x)[:61], b) < 3


def test_promotion_and_empty_systems():
    mesh = mesh_of(range(2))
    a = put(mesh, 2 * np.eye(4, dtype=np.int32), "x", None)
    x = ms.solve(a, np.ones(4, np.int32), assume_a="pos")
    assert x.dtype == jnp.float64 and np.allclose(x, 0.5)
    x = ms.solve(put(mesh, np.eye(4, dtype=np.float32), "x", None), np.ones(4), assume_a="pos")
    assert x.dtype == jnp.float64
    # A lower dtype of A is fine if b promotes it, also on a mesh.
    x = ms.solve(np.eye(4, dtype=np.float16), np.ones(4), assume_a="pos", mesh=mesh)
    assert x.dtype == jnp.float64 and np.array_equal(x, np.ones(4))
    for shape in ((0,), (0, 3)):
        assert ms.solve(np.zeros((0, 0)), np.zeros(shape), assume_a="pos").shape == shape
    assert ms.solve(np.eye(4), np.zeros((4, 0)), assume_a="pos").shape == (4, 0)


@pytest.mark.parametrize("k", [1, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_right_hand_sides_and_solutions_near_underflow(dtype, k):
    """Subnormal numbers are kept where they matter: b tiny, or x tiny because A is huge."""
    rng = np.random.default_rng(5)
    a = positive_definite("random", 150, dtype, rng)
    limits = np.finfo(dtype)
    mesh = mesh_of(range(2))
    for a_scale, b_scale in ((1, 1e3 * limits.tiny), (limits.tiny**-0.4, limits.tiny**0.61)):
        big = (a * a_scale).astype(dtype)
        b = (normal(rng, (150, k), dtype) * b_scale).astype(dtype)
        x = ms.solve(put(mesh, big, "x", None), put(mesh, b), assume_a="pos")
        assert solve_ratio(big, x, b) < 3


def test_overwrite_takes_the_memory_of_a_and_b():
    mesh = mesh_of(range(4))
    rng = np.random.default_rng(4)
    a = put(mesh, positive_definite("random", 64, "float64", rng), "x", None)
    # JAX makes it: memory that a NumPy array lends cannot be taken.
    b = jax.jit(lambda: jnp.ones((64, 1)), out_shardings=NamedSharding(mesh, P()))()
    pointers = [shard.data.unsafe_buffer_pointer() for shard in b.addressable_shards]
    keep = ms.solve(a, b, assume_a="pos")
    assert not a.is_deleted() and not b.is_deleted()
    x = ms.solve(a, b, assume_a="pos", overwrite_a=True, overwrite_b=True)
    assert a.is_deleted() and b.is_deleted()
    assert [shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards] == pointers
    np.testing.assert_array_equal(np.asarray(x), np.asarray(keep))


def test_what_is_not_donated_is_the_users_to_keep():
    mesh = mesh_of(range(2))
    a = put(mesh, np.eye(4) * 2, "x", None)
    vector, column, host = put(mesh, np.ones(4)), jnp.ones((4, 1)), np.ones((4, 1))
    for b in (vector, column, host):
        ms.solve(a, b, assume_a="pos")
        np.testing.assert_array_equal(np.asarray(b), np.ones(b.shape))
    np.testing.assert_array_equal(np.asarray(a), 2 * np.eye(4))


def test_small_entries_give_the_same_bits_every_time():
    """All workers read the magnitude of A before any of them overwrites the diagonal."""
    rng = np.random.default_rng(6)
    a, b = positive_definite("tiny", 256, "float64", rng), np.ones((256, 1)) * 1e-300
    mesh = mesh_of(range(2))
    a_dev, b_dev = put(mesh, a, "x", None), put(mesh, b)
    answers = {np.asarray(ms.solve(a_dev, b_dev, assume_a="pos")).tobytes() for _ in range(100)}
    assert len(answers) == 1
    assert solve_ratio(a, np.frombuffer(answers.pop()).reshape(256, 1), b) < 3


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_diagonal_is_taken_as_real(dtype, lower):
    """As in LAPACK, whatever imaginary parts are stored there."""
    rng = np.random.default_rng(7)
    a, b = positive_definite("random", 130, dtype, rng), normal(rng, (130, 2), dtype)
    stored = (a + 1j * np.diag(rng.standard_normal(130))).astype(dtype)
    x = ms.solve(put(mesh_of(range(2)), stored, "x", None), b, lower, assume_a="pos")
    assert solve_ratio(a, x, b) < 3


@pytest.mark.parametrize("k", [1, 33, 64])
@pytest.mark.parametrize("axis_type", ["auto", "explicit"])
def test_under_a_mesh_that_is_set(axis_type, k):
    rng = np.random.default_rng(8)
    a, b = positive_definite("random", 96, "float64", rng), normal(rng, (96, k), "float64")
    mesh, other = mesh_of(range(4), axis_type), mesh_of((2, 6), axis_type)
    solve = jax.jit(lambda a, b: ms.solve(a, b, assume_a="pos"))
    with jax.set_mesh(mesh):
        for call in (solve, lambda a, b: ms.solve(a, b, assume_a="pos")):
            assert solve_ratio(a, call(a, b), b) < 3
            assert solve_ratio(a, call(put(mesh, a, "x", None), put(mesh, b)), b) < 3
        padded = jax.jit(lambda a, b: ms.solve(a, b, assume_a="pos", mesh=mesh))
        assert solve_ratio(a[1:, 1:], padded(a[1:, 1:], b[1:]), b[1:]) < 3
        # An eager call uses the array's own mesh, also if that has the same axes.
        for own in (other, mesh_of((3, 1, 2, 0), axis_type)):
            x = ms.solve(put(own, a, "x", None), b, assume_a="pos")
            assert solve_ratio(a, x, b) < 3 and x.sharding.mesh == own
            vector = ms.solve(put(own, a, "x", None), b[:, 0], assume_a="pos")
            assert solve_ratio(a, vector, b[:, 0]) < 3


@pytest.mark.parametrize("axis_type", ["auto", "explicit"])
@pytest.mark.parametrize("storage", ["rows", "columns", "column-major"])
@pytest.mark.parametrize("shape, spec", [((96,), ()), ((96, 3), ()), ((96, 64), (None, "x"))])
def test_solutions_are_made_where_they_belong(monkeypatch, axis_type, storage, shape, spec):
    """An eager call with right-hand sides in their place moves nothing outside of its program."""
    a, mesh = 130 * np.eye(96) + np.ones((96, 96)), mesh_of(range(4), axis_type)
    stored, b = put_matrix(mesh, a, storage), put(mesh, np.ones(shape), *spec)
    monkeypatch.setattr(jax, "device_put", lambda *_: pytest.fail("a move"))
    x = ms.solve(stored, b)
    assert x.sharding == b.sharding and solve_ratio(a, x, np.ones(shape)) < 3


@pytest.mark.parametrize("axis_type", ["auto", "explicit"])
@pytest.mark.parametrize("where", ["NumPy", "tied to no device", "tied to a device"])
def test_one_device_works_under_a_mesh_that_is_set(axis_type, where):
    """One device works for all, as they do not divide n, or because A is committed to it."""
    mesh, there, n = mesh_of(range(4), axis_type), jax.devices()[6], 65
    a, b = positive_definite("random", n, "float64", np.random.default_rng(9)), np.ones((n, 3))
    calls = {
        "solve": lambda a, b: ms.solve(a, b, return_info=True),
        "refine": lambda a, b: ms.solve(a, b, refine=True, return_info=True),
        "norm": lambda a, b: [ms.norm(a), ms.norm(a, axis=0), ms.cholesky(a)],
        "inv": lambda a, b: ms.inv(a),
        "slogdet": lambda a, b: ms.slogdet(a),
        "cho_factor": lambda a, b: [
            *((f := ms.cho_factor(a)).solve(b), f.logdet(), f.inv()),
            *(f.solve_triangular(b), f.dot_triangular(b)),
        ],
        "lu_factor": lambda a, b: [(f := ms.lu_factor(a)).solve(b), f.det(), f.rcond()],
    }
    alone = where == "tied to a device"
    given = jax.device_put(a, there) if alone else a if where == "NumPy" else jnp.asarray(a)
    wanted = [call(jax.device_put(a, there), b) for call in calls.values()]
    with jax.set_mesh(mesh):
        got = [call(given, b) for call in calls.values()]
        on_mesh = put(mesh, b)
        np.testing.assert_allclose(ms.solve(given, on_mesh), wanted[0][0], rtol=1e-12)
        if not alone:  # results on the mesh can be used
            assert all((2 * x).sharding.mesh == mesh for x in jax.tree.leaves(got[:4]))
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
        assert not alone or x.devices() == {there}


def test_columns_that_the_devices_do_not_divide_are_distributed_out_under_jit_too():
    """Three of eight devices, 512 right-hand sides: 171 each, not 512 each."""
    rng = np.random.default_rng(9)
    a, b = positive_definite("random", 192, "float64", rng), normal(rng, (192, 512), "float64")
    mesh = mesh_of((7, 0, 3))
    for solve in (ms.solve, jax.jit(ms.solve, static_argnames="assume_a")):
        x = solve(put(mesh, a, "x", None), put(mesh, b), assume_a="pos")
        assert solve_ratio(a, x, b) < 3
        assert ms.last_call()["rhs"] == 171


def test_what_is_on_one_device_stays_there_and_mixes_with_other_arrays():
    x = ms.solve(jnp.eye(8), jnp.ones(8), assume_a="pos")
    np.testing.assert_array_equal(x + put(mesh_of(range(4)), np.ones(8), "x"), 2 * np.ones(8))
    third = jax.device_put(np.eye(8), jax.devices()[3])
    assert ms.solve(third, jnp.ones(8), assume_a="pos").devices() == {jax.devices()[3]}


@pytest.mark.parametrize("dtype", DTYPES)
def test_order_one_is_as_good_as_lapack(dtype):
    """No average over n helps here: LAPACK's own ratio reaches 3.7."""
    rng = np.random.default_rng(10)
    mesh, ours, lapacks = mesh_of([0]), [], []
    for _ in range(60):
        a, b = positive_definite("random", 1, dtype, rng), normal(rng, (1, 1), dtype)
        ours.append(solve_ratio(a, ms.solve(put(mesh, a, "x", None), b, assume_a="pos"), b))
        x = scipy.linalg.cho_solve(scipy.linalg.cho_factor(a), b)
        lapacks.append(solve_ratio(a, x, b))
    assert max(ours) <= 2 * max(lapacks)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_random_cases_of_the_grid(seed):
    """A seeded sample of the whole grid, of which GRID is a pairwise selection."""
    check_solve(**GRID.draw([1, seed]))
