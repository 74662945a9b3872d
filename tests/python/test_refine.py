"""solve(refine=True): a factor in half the precision, refined, or the full factorisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from allpairspy import AllPairs
from jax.sharding import AxisType

import meshsolve as ms
from grids import Grid
from helpers import (
    STORAGES,
    general,
    mesh_of,
    mesh_set,
    normal,
    one_triangle,
    positive_definite,
    put,
    put_matrix,
    solve_ratio,
)
from meshsolve._execute import eager

ORDERS = {1: (3,), 2: (5, 2), 4: (2, 0, 3, 1)}
# Well enough conditioned for a factor in half the precision, and within its range.
REFINABLE = ("random", "dominant", "kms", "one small:2")
GRID = Grid(
    dtype=["float64", "complex128"],
    p=ORDERS,
    size=[64, 65],
    k=[(), (3,), (40,), (41,)],
    kind=["dominant", "kms", "one small:2", "tiny", "geometric:full"],
    storage=[*STORAGES, "padded"],
    assume=["gen", "her", "sym", "pos"],
    lower=[False, True],
    transposed=[False, True],
    axis_type=["auto", "explicit"],
    jit=[False, True],
    over=[False, True],
)


def check_refine(dtype, p, size, k, kind, storage, assume, lower, transposed, axis_type, jit, over):
    n = size * p - (storage == "padded")
    rng = np.random.default_rng([n, p])
    if assume == "pos":
        a = positive_definite(kind, n, dtype, rng)
    else:
        a = general(kind, n, dtype, rng)
        a = {"gen": a, "her": (a + a.conj().T) / 2, "sym": (a + a.T) / 2}[assume].astype(dtype)
    b = normal(rng, (n, *k), dtype) * np.abs(a).max()
    given, mesh = a if assume == "gen" else one_triangle(a, lower), mesh_of(ORDERS[p], axis_type)
    onto = mesh if storage == "padded" else None
    a_dev = jnp.asarray(given) if onto else put_matrix(mesh, given, storage)
    b_dev = jnp.asarray(b) if onto else put(mesh, b)

    def call(a, b):
        options = {"overwrite_a": over, "transposed": transposed, "return_info": True}
        return ms.solve(a, b, lower, assume_a=assume, mesh=onto, refine=True, **options)

    with mesh_set(onto if jit else None):
        x, info = (jax.jit(call) if jit else call)(a_dev, b_dev)
    assert x.shape == b.shape and x.dtype == a.dtype and int(info.info) == 0
    ratio = solve_ratio(a.T if transposed else a, x, b)
    assert np.isfinite(ratio) and ratio <= (3 if kind in REFINABLE else 30)
    steps = int(info.refinements)
    assert steps == -1 or 0 <= steps <= 30
    if kind in ("dominant", "kms") or (kind == "one small:2" and assume in ("gen", "pos")):
        assert 1 <= steps <= 4, "refined"
        target = a.T if transposed else a
        true = 1 / np.linalg.cond(target.conj().T if transposed else target, 1)
        assert true / 4 <= float(info.rcond) <= 4 * true
    if kind in ("tiny", "geometric:full"):
        assert steps == -1, "factored in full"
    assert 0 <= float(info.rcond) <= 1.001


@pytest.mark.parametrize("case", GRID.pairs(), ids=str)
def test_refine(case):
    check_refine(**case)


# Pairs of options do not cover these.
CROSSED = [
    # One device with an A that counts as sharded.
    GRID.case(size=65, k=(3,), kind="random", lower=True, axis_type="explicit"),
    # Row sums of a padded matrix.
    GRID.case(p=2, k=(40,), storage="padded", lower=True, axis_type="explicit"),
    # Right-hand sides without a mesh, which the devices do not divide.
    GRID.case(
        **{"dtype": "complex128", "p": 2, "size": 65, "k": (41,), "kind": "random"},
        **{"storage": "padded", "axis_type": "explicit", "jit": True, "over": True},
    ),
    GRID.case(
        **{"dtype": "complex128", "p": 4, "size": 65, "k": (41,), "kind": "kms", "assume": "pos"},
        **{"storage": "padded", "axis_type": "explicit", "jit": True, "transposed": True},
    ),
    # Infinities from the factor in half the precision: no residual is above that size of X.
    GRID.case(
        **{"dtype": "complex128", "p": 4, "size": 65, "k": (40,), "kind": "geometric:full"},
        **{"assume": "pos", "lower": True, "transposed": True, "over": True},
    ),
]


@pytest.mark.parametrize("case", CROSSED, ids=str)
def test_several_options_at_once(case):
    check_refine(**case)


@pytest.mark.parametrize(
    ("storage", "k"),
    [
        ("rows", (40,)),
        ("rows", (41,)),
        ("columns", (1,)),
        ("replicated", (41,)),
        ("padded", ()),
        ("padded", (40,)),
        ("padded", (41,)),
    ],
)
def test_solutions_lie_where_those_of_the_full_factorisation_do(storage, k):
    """With Explicit axes, for right-hand sides without a mesh."""
    mesh, n = mesh_of(range(2), "explicit"), 64 - (storage == "padded")
    rng = np.random.default_rng(9)
    a, b = general("dominant", n, "float64", rng), jnp.asarray(rng.standard_normal((n, *k)))
    onto = mesh if storage == "padded" else None
    given = jnp.asarray(a) if onto else put_matrix(mesh, a, storage)
    with mesh_set(onto):
        call = jax.jit(ms.solve, static_argnames=("mesh", "refine"))
        refined, full = (call(given, b, mesh=onto, refine=refine) for refine in (True, False))
    assert solve_ratio(a, refined, b) < 3
    assert refined.sharding.is_equivalent_to(full.sharding, b.ndim)


@pytest.mark.parametrize(
    ("axis_type", "jit", "transposed"),
    list(AllPairs([["auto", "explicit"], [False, True], [False, True]])),
)
def test_a_matrix_in_blocks(axis_type, jit, transposed):
    """Every residual reads it, and its right-hand sides have no mesh."""
    kinds = ({"auto": AxisType.Auto, "explicit": AxisType.Explicit}[axis_type],) * 2
    mesh, rng = jax.make_mesh((2, 2), ("x", "y"), axis_types=kinds), np.random.default_rng(10)
    a, b = general("dominant", 64, "float64", rng), rng.standard_normal((64, 41))
    given, names = put(mesh, a, "x", "y"), ("refine", "return_info", "transposed")
    solve = jax.jit(ms.solve, static_argnames=names) if jit else ms.solve
    call = lambda **options: solve(given, jnp.asarray(b), transposed=transposed, **options)  # noqa: E731
    x, info = call(refine=True, return_info=True)
    assert solve_ratio(a.T if transposed else a, x, b) < 3 and int(info.refinements) > 0
    assert x.sharding.is_equivalent_to(call().sharding, b.ndim)


@pytest.mark.parametrize("spec", [("x", "y"), (), ("x", None)])
def test_a_matrix_is_moved_once_at_most(spec, monkeypatch):
    """It is not moved for each residual."""
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    a = general("one small:2", 64, "float64", np.random.default_rng(12))
    given, moved, move = put(mesh, a, *spec), [], eager.moved

    def counted(x, target):
        y, own = move(x, target)
        if x.shape == a.shape and y is not x:
            moved.append(x)
        return y, own

    monkeypatch.setattr(eager, "moved", counted)
    _, info = ms.solve(given, np.ones((64, 3)), refine=True, return_info=True)
    assert int(info.refinements) > 0 and len(moved) == (spec != ("x", None))


@pytest.mark.parametrize(
    ("storage", "axis_type", "jit", "k"),
    list(AllPairs([[*STORAGES, "padded"], ["auto", "explicit"], [False, True], [(), (5,)]])),
)
def test_mapped_right_hand_sides_of_no_mesh(storage, axis_type, jit, k):
    mesh, n = mesh_of(range(4), axis_type), 64 - (storage == "padded")
    rng = np.random.default_rng(11)
    a, b = general("dominant", n, "float64", rng), rng.standard_normal((3, n, *k))
    onto = mesh if storage == "padded" else None
    given = jnp.asarray(a) if onto else put_matrix(mesh, a, storage)
    call = lambda a, b: ms.solve(a, b, mesh=onto, refine=True, return_info=True)  # noqa: E731
    solve = jax.vmap(call, (None, 0))
    with mesh_set(onto if jit else None):
        x, info = (jax.jit(solve) if jit else solve)(given, jnp.asarray(b))
    assert (info.refinements > 0).all()
    assert all(solve_ratio(a, *pair) < 3 for pair in zip(x, b, strict=True))


def test_derivatives_where_no_mesh_says_where_right_hand_sides_lie():
    a, mesh = (
        general("dominant", 65, "float64", np.random.default_rng(7)),
        mesh_of(range(2), "explicit"),
    )
    b = jnp.asarray(np.random.default_rng(8).standard_normal((65, 41)))

    def size(refine):
        total = lambda b: (ms.solve(jnp.asarray(a), b, mesh=mesh, refine=refine) ** 2).sum()  # noqa: E731
        return jax.jit(jax.value_and_grad(total))(b)

    with jax.set_mesh(mesh):
        (value, gradient), (other, wanted) = size(refine=True), size(refine=False)
    np.testing.assert_allclose(value, other, rtol=1e-12)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("storage", STORAGES)
def test_good_is_good_in_the_infinity_norm(storage, transposed):
    """Columns of very different sizes: with the 1-norm of A bad solutions would pass."""
    n, unit = 256, 2.0**-53
    for seed in range(4):
        rng = np.random.default_rng(seed)
        a, b = rng.standard_normal((n, n)), rng.standard_normal(n)
        a[:, 0] *= 1e4
        given = put_matrix(mesh_of(range(2)), a, storage)
        x, info = ms.solve(given, b, refine=True, transposed=transposed, return_info=True)
        target, x = (a.T if transposed else a).astype(np.longdouble), np.asarray(x)
        norm = np.abs(target).sum(1).max() * np.abs(x).max()
        assert np.abs(b - target @ x).max() <= 1.1 * np.sqrt(n) * unit * norm
        assert int(info.refinements) > 0


def test_where_the_first_device_works_for_all():
    a = general("dominant", 5, "float64", np.random.default_rng(3))
    mesh = mesh_of(range(4))
    x, info = ms.solve(put(mesh, a), put(mesh, np.ones(5)), refine=True, return_info=True)
    assert solve_ratio(a, x, np.ones(5)) < 3 and int(info.refinements) > 0
    assert x.sharding.device_set == set(mesh.devices.flat)


def test_right_hand_sides_elsewhere():
    a, b = general("dominant", 64, "float64", np.random.default_rng(4)), np.ones(64)
    there = jax.device_put(b, jax.devices()[6])
    for given in (put(mesh_of(range(4)), a, "x", None), jax.device_put(a, jax.devices()[2])):
        assert solve_ratio(a, ms.solve(given, there, refine=True), b) < 3


def test_what_a_jitted_function_closes_over():
    a, b = general("dominant", 64, "float64", np.random.default_rng(5)), np.ones(64)
    given = put(mesh_of(range(4)), a, None, "x")
    assert solve_ratio(a, jax.jit(lambda: ms.solve(given, b, refine=True))(), b) < 3
    assert solve_ratio(a, jax.jit(lambda b: ms.solve(given, b, refine=True))(b), b) < 3


@pytest.mark.parametrize("axis_type", ["auto", "explicit"])
def test_under_a_mesh_that_is_set(axis_type):
    a, b = general("dominant", 64, "float64", np.random.default_rng(6)), np.ones(64)
    given = put(mesh_of(range(4), axis_type), a, "x", None)
    with jax.set_mesh(mesh_of((2, 6), axis_type)):
        assert solve_ratio(a, ms.solve(given, b, refine=True), b) < 3


@pytest.mark.parametrize("jit", [False, True])
def test_singular_and_not_positive_definite(jit):
    mesh, solve = mesh_of(range(4)), ms.solve
    if jit:
        names = ("assume_a", "refine", "return_info")
        solve = jax.jit(ms.solve, static_argnames=names)
    a = np.eye(64)
    a[5, 5] = 0
    for assume, matrix, expected in (("gen", a, 6), ("pos", np.diag(np.arange(64) - 9.0), 1)):
        given = put(mesh, matrix, "x", None)
        x, info = solve(given, np.ones(64), assume_a=assume, refine=True, return_info=True)
        assert np.isnan(x).all()
        assert (int(info.info), int(info.refinements), float(info.rcond)) == (expected, -1, 0)


def test_without_info_and_with_nothing_to_solve():
    a = put(mesh_of(range(2)), 2 * np.eye(8), "x", None)
    np.testing.assert_array_equal(ms.solve(a, np.ones(8), refine=True), np.full(8, 0.5))
    np.testing.assert_array_equal(ms.solve(a, np.zeros(8), refine=True), np.zeros(8))
    x, info = ms.solve(np.zeros((0, 0)), np.zeros(0), refine=True, return_info=True)
    assert x.shape == (0,) and int(info.refinements) == 0
    assert ms.solve(a, np.zeros((8, 0)), refine=True).shape == (8, 0)


def test_right_hand_sides_out_of_range_of_half_the_precision():
    """Residuals are scaled before they are rounded."""
    a = general("dominant", 64, "float64", np.random.default_rng(0))
    given, rng = put(mesh_of(range(2)), a, "x", None), np.random.default_rng(1)
    for size in (1e-200, 1e200):
        b = rng.standard_normal((64, 2)) * size
        x, info = ms.solve(given, b, refine=True, return_info=True)
        assert solve_ratio(a, x, b) < 3 and int(info.refinements) > 0


def test_a_is_kept_whole_whatever_happens():
    rng = np.random.default_rng(2)
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    for kind in ("dominant", "hilbert"):
        a = general(kind, 64, "float64", rng)
        for spec in ((None, "x"), ("x", "y"), ()):
            given = put(mesh, a, *spec)
            _, info = ms.solve(given, np.ones(64), refine=True, return_info=True)
            assert (int(info.refinements) == -1) == (kind == "hilbert")
            np.testing.assert_array_equal(given, a)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_there_must_be_a_lower_precision(dtype):
    message = r"solve: refine: expected False for float32 and complex64, got True for " + dtype
    with pytest.raises(TypeError, match=message):
        ms.solve(np.eye(4, dtype=dtype), np.ones(4, dtype), refine=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_random_cases_of_the_grid(seed):
    """A seeded sample of the whole grid."""
    check_refine(**GRID.draw([4, seed]))
