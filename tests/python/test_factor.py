"""Factors: cho_factor, cho_solve, CholeskyFactor, for every storage and triangle."""

import dataclasses

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
    ORDERS,
    REDUCED,
    SIZES,
    SOME_KINDS,
    STORAGES,
    WELL_CONDITIONED,
    WHOLE,
    factor_ratio,
    mesh_of,
    mesh_set,
    normal,
    one_triangle,
    positive_definite,
    put,
    put_matrix,
    solve_ratio,
    unit_roundoff,
)

GRID = Grid(
    **WHOLE,
    k=[1, 3, 40],
    kind=SOME_KINDS,
    lower=[False, True],
    how=["eager", "jit", "outside jit", "pair"],
    overwrite=[False, True],
)


def check_factor(dtype, p, size, k, kind, storage, lower, axis_type, how, overwrite):
    n = SIZES[size] * p - (storage == "padded")
    rng = np.random.default_rng([n, p])
    a = positive_definite(kind, n, dtype, rng)
    b = normal(rng, (n, k), dtype) * np.abs(a).max(initial=0)
    given, mesh = one_triangle(a, lower), mesh_of(ORDERS[p], axis_type)
    over = mesh if storage == "padded" else None
    a_dev = given if over else put_matrix(mesh, given, storage)
    b_dev = b if over else put(mesh, b)

    factorise = lambda a: ms.cho_factor(a, lower, overwrite, mesh=over)  # noqa: E731
    solve = lambda f, b: f.solve(b)  # noqa: E731
    if how == "jit":
        with mesh_set(over):
            x = jax.jit(lambda a, b: solve(factorise(a), b))(a_dev, b_dev)
            factor = jax.jit(factorise)(a_dev)
    else:
        factor = factorise(a_dev)
        if how == "outside jit":
            solve = jax.jit(solve)
        elif how == "pair":
            solve = lambda f, b: ms.cho_solve(tuple(f), b)  # noqa: E731
        x = solve(factor, b_dev)

    assert int(factor.info) == 0 and factor.n == n
    limit = 3 if kind in WELL_CONDITIONED and n > 1 else 30
    assert x.shape == b.shape and x.dtype == a.dtype
    assert np.isfinite(solve_ratio(a, x, b)) and solve_ratio(a, x, b) <= limit

    c, triangle = factor
    assert triangle == lower and c.shape == a.shape
    assert factor_ratio(a, c, lower) <= 3
    if n and not over and how != "jit":
        assert c.sharding.is_equivalent_to(factor.work.sharding, 2)
    if kind in WELL_CONDITIONED and kind not in ("tiny", "huge"):
        expected = np.linalg.slogdet(a.astype(np.result_type(dtype, np.float64)))[1]
        unit = 4 * (n + 1) * unit_roundoff(dtype)
        np.testing.assert_allclose(factor.logdet(), expected, rtol=unit, atol=unit)
    if storage in ("rows", "columns", "column-major") and n:
        assert a_dev.is_deleted() == (overwrite and how != "jit")


@pytest.mark.parametrize("case", GRID.pairs(**REDUCED), ids=str)
def test_factor(case):
    check_factor(**case)


def random_factor(mesh, storage="rows", n=64, dtype="complex128", **options):
    a = positive_definite("random", n, dtype, np.random.default_rng(n))
    return a, ms.cho_factor(put_matrix(mesh, a, storage), **options)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_factor_is_a_pytree_that_can_be_saved_and_restored(storage, tmp_path):
    mesh = mesh_of((2, 0, 3, 1))
    _, factor = random_factor(mesh, storage)
    b = np.ones(64)
    leaves, structure = jax.tree.flatten(factor)
    np.savez(tmp_path / "factor.npz", *leaves)
    saved = np.load(tmp_path / "factor.npz")
    shardings = [leaf.sharding for leaf in leaves]
    back = [jax.device_put(saved[name], s) for name, s in zip(saved, shardings, strict=True)]
    restored = jax.tree.unflatten(structure, back)
    assert isinstance(restored, ms.CholeskyFactor) and restored.storage == factor.storage
    np.testing.assert_array_equal(restored.solve(b), factor.solve(b))
    np.testing.assert_array_equal(restored.logdet(), factor.logdet())
    # As they were saved, then on one device.
    plain = jax.tree.unflatten(structure, [saved[name] for name in saved])
    np.testing.assert_allclose(plain.solve(b), factor.solve(b), rtol=1e-12)
    np.testing.assert_allclose(plain.logdet(), factor.logdet(), rtol=1e-14)
    np.testing.assert_array_equal(plain._unpacked().shape, (64, 64))
    with pytest.raises(AttributeError):
        factor.n = 3


@pytest.mark.parametrize("storage", STORAGES)
def test_a_factor_crosses_jit_and_loops(storage):
    mesh = mesh_of(range(4))
    a, factor = random_factor(mesh, storage)
    b = put(mesh, np.ones((64, 2), a.dtype))

    @jax.jit
    def refine(factor, b):
        step = lambda _, x: factor.solve(x)  # noqa: E731
        return jax.lax.fori_loop(0, 3, step, b), factor

    x, same = refine(factor, b)
    expected = b
    for _ in range(3):
        expected = np.linalg.solve(a, expected)
    np.testing.assert_allclose(x, expected, rtol=1e-9)
    np.testing.assert_array_equal(same.solve(b), factor.solve(b))
    kept = jax.checkpoint(lambda f, b: f.solve(b))(factor, b)
    np.testing.assert_array_equal(kept, factor.solve(b))


@pytest.mark.parametrize(
    ("storage", "spec", "devices", "jit"),
    list(
        AllPairs(
            [STORAGES, [("x", None), (None, "x"), ()], [tuple(range(8)), (5, 2)], [False, True]]
        )
    ),
)
def test_a_factor_moves_to_another_mesh(storage, spec, devices, jit):
    """It does not depend on the number of devices that made it."""
    a, factor = random_factor(mesh_of(range(4)), storage)
    b, mesh = np.ones((64, 2)), mesh_of(devices)
    solve = jax.jit(lambda f, b: f.solve(b)) if jit else lambda f, b: f.solve(b)
    work, info = put(mesh, factor.work, *spec), put(mesh, factor.info)
    moved = dataclasses.replace(factor, work=work, info=info)
    assert solve_ratio(a, solve(moved, put(mesh, b)), b) < 3
    assert factor_ratio(a, next(iter(moved)), factor.lower) < 3
    np.testing.assert_allclose(moved.logdet(), factor.logdet(), rtol=1e-14)


@pytest.mark.parametrize("where", ["one device", "replicated", "three devices", "two axes"])
def test_a_padded_factor_moves(where):
    n, mesh = 61, mesh_of(range(4))
    a = positive_definite("random", n, "float64", np.random.default_rng(n))
    factor, b = ms.cho_factor(a, mesh=mesh), np.ones((n, 2))
    target = {
        "one device": jax.devices()[5],
        "replicated": NamedSharding(mesh, P()),
        "three devices": NamedSharding(mesh_of((7, 0, 3)), P()),  # these do not divide 64
        "two axes": NamedSharding(jax.make_mesh((2, 4), ("y", "x")), P("y", "x")),
    }[where]
    moved = dataclasses.replace(factor, work=jax.device_put(factor.work, target))
    assert solve_ratio(a, moved.solve(b), b) < 3
    c, lower = moved
    assert c.shape == (n, n) and factor_ratio(a, c, lower) < 3


@pytest.mark.parametrize("storage", [*STORAGES, "padded"])
def test_what_a_jitted_function_closes_over(storage):
    n, mesh = 64 - (storage == "padded"), mesh_of(range(4))
    a = positive_definite("random", n, "float64", np.random.default_rng(n))
    given = a if storage == "padded" else put_matrix(mesh, a, storage)
    over = mesh if storage == "padded" else None
    b = np.ones((n, 2))
    for program in (
        lambda b: ms.cho_factor(given, mesh=over).solve(b),
        lambda b: ms.solve(given, b, assume_a="pos", mesh=over),
        lambda b: ms.solve(given, np.ones((n, 2)), assume_a="pos", mesh=over) + 0 * b,
    ):
        assert solve_ratio(a, jax.jit(program)(b), b) < 3


def test_branches_that_factor_differently_have_one_structure():
    mesh = mesh_of(range(4))
    eager = ms.cho_factor(put_matrix(mesh, 4 * np.eye(64), "columns"))
    choose = jax.jit(lambda p, a, f: jax.lax.cond(p, lambda: ms.cho_factor(a), lambda: f))
    factor = choose(True, put(mesh, np.eye(64), "x", None), eager)
    np.testing.assert_array_equal(factor.solve(np.ones(64)), np.ones(64))
    target = jax.eval_shape(ms.cho_factor, eager.work)
    assert jax.tree.structure(target) == jax.tree.structure(eager)


@pytest.mark.parametrize("storage", STORAGES[:2])
def test_nothing_is_gathered_under_jit_on_an_auto_mesh(storage):
    n, mesh = 256, mesh_of(range(4))
    spec = P("x", None) if storage == "rows" else P(None, "x")
    a = jax.ShapeDtypeStruct((n, n), jnp.float64, sharding=NamedSharding(mesh, spec))
    b = jax.ShapeDtypeStruct((n, 2), jnp.float64, sharding=NamedSharding(mesh, P()))

    def run(a, b):
        factor = ms.cho_factor(2 * a)
        return factor.solve(b), factor.logdet(), factor

    program = Program(jax.jit(run), a, b)
    assert not program.makes(n, n)
    assert not program.has("all-gather")
    # XLA keeps the factor of columns by columns, so it is exchanged there.
    assert program.has("all-to-all") == (storage == "columns")


def test_a_factor_prints_what_it_is():
    mesh = mesh_of(range(4))
    factor = jax.block_until_ready(random_factor(mesh, "columns", n=520)[1])
    assert repr(factor) == (
        "CholeskyFactor(n=520, complex128, mesh {'x': 4}, storage='rows', tile=44, lower=False)"
    )
    assert ms.last_call()["tile"] == 44
    factor = ms.cho_factor(np.eye(2001, dtype=np.float32), True, mesh=mesh)
    assert repr(factor) == (
        "CholeskyFactor(n=2001 (padded to 2004), float32, mesh {'x': 4}, storage='rows', tile=126, "
        "lower=True)"
    )
    assert "one device" in repr(ms.cho_factor(np.eye(3)))
    assert repr(jax.eval_shape(ms.cho_factor, np.eye(3))) == (
        "CholeskyFactor(n=3, float64, ShapeDtypeStruct)"
    )
    shown = []
    jax.jit(lambda a: shown.append(repr(ms.cho_factor(a))))(np.eye(3))
    assert "Tracer" in shown[0]
    assert "n=3" in repr(jax.tree.map(lambda x: None, ms.cho_factor(np.eye(3))))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("lower", [False, True])
def test_the_pair_is_scipys(storage, lower):
    """c works with scipy and jax.scipy, and their pairs work here."""
    a, factor = random_factor(mesh_of(range(4)), storage, lower=lower)
    b = np.arange(64.0)
    c, triangle = factor
    x = np.linalg.solve(a, b)
    for solve in (scipy.linalg.cho_solve, jax.scipy.linalg.cho_solve, ms.cho_solve):
        np.testing.assert_allclose(solve((np.asarray(c), triangle), b), x, rtol=1e-10)
    theirs = scipy.linalg.cho_factor(a, lower)[0]
    other = np.tri(64, k=-1, dtype=bool)
    theirs = np.where(other.T if lower else other, np.nan, theirs)  # scipy leaves A there
    c_dev = put_matrix(mesh_of(range(4)), theirs, storage)
    np.testing.assert_allclose(ms.cho_solve((c_dev, lower), b), x, rtol=1e-10)
    assert not c_dev.is_deleted()
    solve = jax.jit(lambda c, b: ms.cho_solve((c, lower), b))
    np.testing.assert_allclose(solve(c_dev, b), x, rtol=1e-10)


@pytest.mark.parametrize("storage", [*STORAGES, "padded"])
@pytest.mark.parametrize("lower", [False, True])
def test_a_failed_factor_gives_nan(storage, lower):
    mesh = mesh_of(range(4))
    a = np.eye(60)
    a[41, 41] = -1
    if storage == "padded":
        factor = ms.cho_factor(a[:59, :59], lower, mesh=mesh)
    else:
        factor = ms.cho_factor(put_matrix(mesh, a, storage), lower)
    assert int(factor.info) == 42
    b = np.ones((factor.n, 40))
    assert np.isnan(factor.solve(b)).all() and np.isnan(factor.logdet())
    assert np.isnan(next(iter(factor))).all()
    # A padded matrix fails at the pivot of A, never in its corner.
    a[41, 41] = 1
    a[-2, -2] = 0
    if storage == "padded":
        assert int(ms.cho_factor(a[:59, :59], lower, mesh=mesh).info) == 59


def test_promotion_of_factor_and_right_hand_sides():
    mesh = mesh_of(range(2))
    for storage in STORAGES:
        factor = ms.cho_factor(put_matrix(mesh, 4 * np.eye(8, dtype=np.int32), storage))
        assert factor.work.dtype == jnp.float64
        x = factor.solve(1j * np.ones(8))
        assert x.dtype == jnp.complex128
        np.testing.assert_allclose(x, 0.25j)


def test_empty():
    factor = ms.cho_factor(np.zeros((0, 0)))
    assert factor.solve(np.zeros((0, 3))).shape == (0, 3) and factor.logdet() == 0
    c, lower = factor
    assert c.shape == (0, 0) and lower is False
    assert ms.cho_solve((np.zeros((0, 0)), True), np.zeros(0)).shape == (0,)
