"""General matrices: solve by LU, lu_factor, lu_solve, LUFactor, for every storage and operation."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from grids import Grid
from helpers import (
    DTYPES,
    ORDERS,
    REDUCED,
    SIZES,
    SOME_KINDS,
    STORAGES,
    WELL_CONDITIONED,
    WHOLE,
    general,
    lu_ratio,
    mesh_of,
    mesh_set,
    normal,
    one_triangle,
    put,
    put_matrix,
    solve_ratio,
    unit_roundoff,
)


def operated(a, trans):
    return (a, a.T, a.conj().T)[trans]


def structured(kind, n, dtype, assume, rng):
    a = general(kind, n, dtype, rng)
    if assume == "her":
        return ((a + a.conj().T) / 2).astype(dtype)
    return ((a + a.T) / 2).astype(dtype) if assume == "sym" else a


SOLVES = Grid(
    **WHOLE,
    k=[(), (1,), (3,), (40,)],
    kind=SOME_KINDS,
    assume=["gen", "her", "sym"],
    lower=[False, True],
    transposed=[False, True],
    jit=[False, True],
    over=[False, True],
)


def check_solve(dtype, p, size, k, kind, storage, assume, lower, transposed, axis_type, jit, over):
    n = SIZES[size] * p - (storage == "padded")
    rng = np.random.default_rng([n, p])
    a = structured(kind, n, dtype, assume, rng)
    b = normal(rng, (n, *k), dtype) * np.abs(a).max(initial=0)
    given = a if assume == "gen" else one_triangle(a, lower)
    mesh = mesh_of(ORDERS[p], axis_type)
    onto = mesh if storage == "padded" else None
    a_dev = jnp.asarray(given) if onto else put_matrix(mesh, given, storage)
    b_dev = jnp.asarray(b) if onto else put(mesh, b)

    def call(a, b):
        options = {"overwrite_a": over, "transposed": transposed, "return_info": True}
        return ms.solve(a, b, lower, assume_a=assume, mesh=onto, **options)

    with mesh_set(onto if jit else None):
        x, info = (jax.jit(call) if jit else call)(a_dev, b_dev)
    assert x.shape == b.shape and x.dtype == a.dtype
    assert int(info.info) == 0
    ratio = solve_ratio(a.T if transposed else a, x, b)
    limit = 3 if kind in WELL_CONDITIONED and n > 1 else 30
    assert np.isfinite(ratio) and ratio <= limit
    in_place = storage in STORAGES[:3] or (storage == "replicated" and p == 1)
    assert a_dev.is_deleted() == (over and not jit and n > 0 and in_place)


@pytest.mark.parametrize("case", SOLVES.pairs(**REDUCED), ids=str)
def test_solve(case):
    check_solve(**case)


FACTORS = Grid(
    **WHOLE,
    k=[1, 3, 40],
    kind=SOME_KINDS,
    trans=[0, 1, 2],
    how=["eager", "jit", "outside jit", "pair", "pair in jit"],
    overwrite=[False, True],
)


def check_factor(dtype, p, size, k, kind, storage, trans, axis_type, how, overwrite):
    n = SIZES[size] * p - (storage == "padded")
    rng = np.random.default_rng([n, p])
    a = general(kind, n, dtype, rng)
    b = normal(rng, (n, k), dtype) * np.abs(a).max(initial=0)
    mesh = mesh_of(ORDERS[p], axis_type)
    over = mesh if storage == "padded" else None
    a_dev = a if over else put_matrix(mesh, a, storage)
    b_dev = b if over else put(mesh, b)

    factorise = lambda a: ms.lu_factor(a, overwrite, mesh=over)  # noqa: E731
    solve = lambda f, b: f.solve(b, trans)  # noqa: E731
    if how == "jit":
        with mesh_set(over):
            x = jax.jit(lambda a, b: solve(factorise(a), b))(a_dev, b_dev)
            factor = jax.jit(factorise)(a_dev)
    else:
        factor = factorise(a_dev)
        if how == "outside jit":
            solve = jax.jit(solve)
        elif how == "pair":
            solve = lambda f, b: ms.lu_solve(tuple(f), b, trans)  # noqa: E731
        elif how == "pair in jit" and not over:
            solve = jax.jit(lambda f, b: ms.lu_solve(tuple(f), b, trans))
        x = solve(factor, b_dev)

    assert int(factor.info) == 0 and factor.n == n
    limit = 3 if kind in WELL_CONDITIONED and n > 1 else 30
    assert x.shape == b.shape and x.dtype == a.dtype
    ratio = solve_ratio(operated(a, trans), x, b)
    assert np.isfinite(ratio) and ratio <= limit

    lu, piv = factor
    assert lu.shape == a.shape and piv.shape == (n,) and piv.dtype == np.int32
    assert lu_ratio(a, lu, piv) <= 1 or (n == 1 and lu_ratio(a, lu, piv) <= 2)
    if n and not over and how != "jit":
        assert lu.sharding.is_equivalent_to(factor.work.sharding, 2)
    if storage in ("rows", "columns", "column-major") and n:
        assert a_dev.is_deleted() == (overwrite and how != "jit")


@pytest.mark.parametrize("case", FACTORS.pairs(**REDUCED), ids=str)
def test_factor(case):
    check_factor(**case)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_and_factors_are_lapacks(dtype, storage):
    """For every sharding they are those of A, not of a transpose in memory."""
    a = general("random", 96, dtype, np.random.default_rng(0))
    lu, piv = ms.lu_factor(put_matrix(mesh_of(range(4)), a, storage))
    expected, rows = scipy.linalg.lu_factor(a)
    np.testing.assert_array_equal(piv, rows)
    tolerance = 500 * unit_roundoff(dtype)
    np.testing.assert_allclose(lu, expected, rtol=tolerance, atol=tolerance * 20)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("singular", [0, 1, 40, 63])
def test_info_is_the_first_zero_pivot(singular, storage):
    a = general("random", 64, "float64", np.random.default_rng(1))
    a[:, singular] = 0
    a[:, 63] = 0
    mesh = mesh_of(range(4))
    factor = ms.lu_factor(put_matrix(mesh, a, storage))
    (getrf,) = scipy.linalg.get_lapack_funcs(("getrf",), (a,))
    assert int(factor.info) == getrf(a)[2] == singular + 1
    lu, piv = factor
    assert lu_ratio(a, lu, piv) < 3
    assert np.isnan(factor.solve(np.ones(64))).all()
    assert np.isnan(ms.lu_solve((lu, piv), np.ones(64))).all()
    assert float(factor.det()) == 0
    assert (float(factor.slogdet().sign), float(factor.slogdet().logabsdet)) == (0, -np.inf)
    # A solve by rows factors A^T, whose pivots are others; it shows in any case that A is singular.
    x, info = ms.solve(put_matrix(mesh, a, storage), np.ones(64), return_info=True)
    assert np.isnan(x).all() and int(info.info) > 0
    oriented = a if storage in ("columns", "column-major") else a.T.copy()
    assert int(info.info) == getrf(oriented)[2]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("transposed", [False, True])
def test_growth_is_that_of_lapack(transposed, storage):
    """Partial pivoting itself loses digits here; the library loses at most twice LAPACK's."""
    n = 48
    a, b = general("growth", n, "float64", None), np.linspace(-1, 1, n)
    x = ms.solve(put_matrix(mesh_of(range(4)), a, storage), b, transposed=transposed)
    target = a.T if transposed else a
    by_rows = storage in ("rows", "replicated")
    lapack = scipy.linalg.lu_factor(a.T if by_rows else a)
    expected = scipy.linalg.lu_solve(lapack, b, trans=int(transposed != by_rows))
    assert solve_ratio(target, x, b) <= 2 * max(solve_ratio(target, expected, b), 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_entries_that_are_no_numbers(dtype):
    """Any kind in any place: no solution is left, where LAPACK divides by an infinite pivot."""
    mesh, b = mesh_of(range(2)), np.ones(32, dtype)
    for value in (np.nan, np.inf):
        for place in ((0, 0), (3, 7), (31, 31), (31, 0)):
            a = general("random", 32, dtype, np.random.default_rng(2))
            a[place] = value
            x, stated = ms.solve(put(mesh, a, "x", None), b, return_info=True)
            assert np.isnan(x).all() and int(stated.info) > 0 and np.isnan(stated.rcond)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_near_overflow(dtype):
    """Pivots whose reciprocals are subnormal."""
    a = np.diag(np.full(8, np.finfo(dtype).max / 2)).astype(dtype)
    a[3:5, 3:5] = a[3:5, 3:5][::-1]
    b = np.full(8, np.finfo(dtype).max / 4, dtype)
    for storage in STORAGES:
        given = put_matrix(mesh_of(range(2)), a, storage)
        np.testing.assert_allclose(ms.solve(given, b), np.full(8, 0.5), rtol=1e-6)


@pytest.mark.parametrize("storage", [*STORAGES, "padded"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants(dtype, storage):
    mesh, n = mesh_of(range(4)), 128 - (storage == "padded")
    a = general("random", n, dtype, np.random.default_rng(3))
    given = a if storage == "padded" else put_matrix(mesh, a, storage)
    over = mesh if storage == "padded" else None
    wide = a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)
    sign, log = np.linalg.slogdet(wide)
    tolerance = 1e3 * n * unit_roundoff(dtype)
    got = ms.slogdet(given, mesh=over)
    np.testing.assert_allclose(got.sign, sign, atol=tolerance)
    np.testing.assert_allclose(got.logabsdet, log, atol=tolerance)
    jitted = jax.jit(lambda a: ms.lu_factor(a).slogdet())(a if over else given)
    np.testing.assert_allclose(jitted.logabsdet, log, atol=tolerance)
    # In range although partial products are not.
    order = np.argsort(-np.abs(np.arange(n) - n / 2))
    extreme = np.diag(np.where(order % 2, 1e20, 1e-20) * (1 + (np.arange(n) == 3))).astype(dtype)
    extreme = extreme[:64, :64]
    expected = np.linalg.slogdet(extreme.astype(wide.dtype))
    value = expected[0] * np.exp(expected[1])
    if 1e-30 < abs(value) < 1e30:
        np.testing.assert_allclose(ms.det(put(mesh, extreme, "x", None)), value, rtol=1e-4)
    identity = ms.det(put(mesh, np.diag([1e30, 1e30, 1e-30, 1e-30]).astype(dtype), "x", None))
    np.testing.assert_allclose(identity, 1, rtol=1e-5)


def test_a_determinant_too_large_is_infinite_and_one_too_small_is_zero():
    for entry, expected in ((1e30, np.inf), (1e-30, 0)):
        for dtype in ("float32", "complex64"):
            got = ms.det(np.diag(np.full(4, entry)).astype(dtype))
            assert np.real(got) == expected and np.imag(got) == 0
    assert ms.det(np.diag([-1e30, 1e30]).astype("float32")) == -np.inf


@pytest.mark.parametrize("storage", STORAGES)
def test_a_factor_is_a_pytree_that_can_be_saved_and_restored(storage, tmp_path):
    a = general("random", 64, "complex128", np.random.default_rng(4))
    factor, b = ms.lu_factor(put_matrix(mesh_of((2, 0, 3, 1)), a, storage)), np.ones(64)
    leaves, structure = jax.tree.flatten(factor)
    np.savez(tmp_path / "factor.npz", *leaves)
    saved = np.load(tmp_path / "factor.npz")
    shardings = [leaf.sharding for leaf in leaves]
    back = [jax.device_put(saved[name], s) for name, s in zip(saved, shardings, strict=True)]
    restored = jax.tree.unflatten(structure, back)
    np.testing.assert_array_equal(restored.solve(b), factor.solve(b))
    # As they were saved, then on one device.
    plain = jax.tree.unflatten(structure, [saved[name] for name in saved])
    for trans in (0, 1, 2):
        np.testing.assert_allclose(plain.solve(b, trans), factor.solve(b, trans), rtol=1e-10)
    np.testing.assert_allclose(plain.det(), factor.det(), rtol=1e-12)
    assert "LUFactor(n=64, complex128, mesh {'x': 4}" in repr(factor)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("jit", [False, True])
def test_a_factor_moves_to_another_mesh(storage, jit):
    """It does not depend on the number of devices that made it."""
    a = general("random", 64, "complex128", np.random.default_rng(5))
    factor, b = ms.lu_factor(put_matrix(mesh_of(range(4)), a, storage)), np.ones((64, 2))
    solve = lambda f, b: f.solve(b, 2)  # noqa: E731
    solve = jax.jit(solve) if jit else solve
    for devices in (range(8), (5, 2)):
        mesh = mesh_of(devices)
        for spec in (("x", None), (None, "x"), (None, None)):
            leaves = {name: put(mesh, getattr(factor, name)) for name in ("pivots", "info")}
            moved = dataclasses.replace(factor, work=put(mesh, factor.work, *spec), **leaves)
            assert solve_ratio(a.conj().T, solve(moved, put(mesh, b)), b) < 3, (devices, spec)
            assert lu_ratio(a, *moved) < 1
            np.testing.assert_allclose(moved.det(), factor.det(), rtol=1e-12)


def test_a_factor_crosses_loops_and_branches():
    mesh = mesh_of(range(4))
    a = general("random", 64, "float64", np.random.default_rng(6))
    factor, b = ms.lu_factor(put(mesh, a, None, "x")), put(mesh, np.ones((64, 2)))
    power = jax.jit(lambda f, b: jax.lax.fori_loop(0, 3, lambda _, x: f.solve(x), b))
    expected = np.linalg.matrix_power(np.linalg.inv(a), 3) @ np.asarray(b)
    np.testing.assert_allclose(power(factor, b), expected, rtol=1e-6)
    choose = jax.jit(lambda p, a, f: jax.lax.cond(p, lambda: ms.lu_factor(a), lambda: f))
    other = choose(True, put(mesh, np.eye(64), "x", None), factor)
    np.testing.assert_array_equal(other.solve(np.ones(64)), np.ones(64))
    target = jax.eval_shape(ms.lu_factor, factor.work)
    assert jax.tree.structure(target) == jax.tree.structure(factor)


def test_no_copy_of_the_matrix_is_gathered_under_jit_on_an_auto_mesh():
    n, mesh = 256, mesh_of(range(4))
    for spec in (P("x", None), P(None, "x")):
        a = jax.ShapeDtypeStruct((n, n), jnp.float64, sharding=NamedSharding(mesh, spec))
        b = jax.ShapeDtypeStruct((n, 1), jnp.float64, sharding=NamedSharding(mesh, P("x", None)))
        program = Program(jax.jit(lambda a, b: ms.solve(2 * a, b)), a, b)
        assert program.routines() == ["gesv"]
        assert not program.makes(n, n)


def test_bit_identical_from_run_to_run():
    rng = np.random.default_rng(7)
    for k in (3, 64):
        a, b = general("random", 768, "float64", rng), normal(rng, (768, k), "float64")
        mesh = mesh_of((2, 0, 3, 1))
        a, b = put(mesh, a, "x", None), put(mesh, b)
        first = np.asarray(ms.solve(a, b))
        for _ in range(5):
            np.testing.assert_array_equal(np.asarray(ms.solve(a, b)), first)


def test_empty_systems_and_promotion():
    empty = ms.lu_factor(np.zeros((0, 0)))
    assert empty.solve(np.zeros((0, 2))).shape == (0, 2)
    assert float(empty.det()) == 1 and [part.size for part in empty] == [0, 0]
    assert ms.solve(np.zeros((0, 0)), np.zeros(0)).shape == (0,)
    x = ms.solve(2 * np.eye(4, dtype=np.int32), np.ones(4, np.int32))
    assert x.dtype == jnp.float64 and np.allclose(x, 0.5)
    factor = ms.lu_factor(np.eye(4, dtype=np.float32))
    assert factor.solve(np.ones(4, np.complex64)).dtype == np.complex64


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_diagonal_of_a_hermitian_matrix_is_taken_as_real(dtype, lower):
    a = structured("random", 130, dtype, "her", np.random.default_rng(8))
    b = np.ones((130, 2), dtype)
    stored = (a + 1j * np.diag(np.arange(130))).astype(dtype)
    for storage in STORAGES:
        given = put_matrix(mesh_of(range(2)), stored, storage)
        assert solve_ratio(a, ms.solve(given, b, lower, assume_a="her"), b) < 3


MISTAKES = [
    (
        lambda a: ms.solve(a, np.ones(8), assume_a="banded"),
        'meshsolve.solve: assume_a: expected one of "gen", "pos", "her", "sym", got \'banded\'; ',
    ),
    (
        lambda a: ms.lu_solve(ms.lu_factor(a), np.ones(8), 3),
        "meshsolve.lu_solve: trans: expected 0, 1 or 2, got 3; 0 solves with A",
    ),
    (
        lambda a: ms.lu_solve(ms.lu_factor(a), np.ones(7)),
        "meshsolve.lu_solve: b: expected shape [8] or [8, k]",
    ),
    (
        lambda a: ms.lu_solve(a, np.ones(8)),
        "meshsolve.lu_solve: lu_and_piv: expected an LUFactor or a pair (lu, piv), got",
    ),
    (
        lambda a: ms.lu_solve((a, np.arange(7)), np.ones(8)),
        "meshsolve.lu_solve: piv: expected integers of shape [8], to go with lu of shape (8, 8)",
    ),
    (lambda a: ms.lu_factor(a[0]), "meshsolve.lu_factor: a: expected a square matrix [n, n]"),
    (lambda a: ms.det(a[:4]), "meshsolve.det: a: expected a square matrix [n, n]"),
    (lambda a: ms.lu_factor(a, mesh="x"), "meshsolve.lu_factor: mesh: expected"),
]


@pytest.mark.parametrize("call, message", MISTAKES, ids=lambda x: x[:40] if x is str else None)
def test_mistakes(call, message):
    with pytest.raises((ValueError, TypeError)) as error:
        call(put(mesh_of(range(2)), np.eye(8), "x", None))
    assert message in str(error.value)


def test_n_that_the_devices_do_not_divide():
    """The function supports the remedy of its message."""
    mesh = jax.make_mesh((2, 4), ("y", "x"))
    a = put(mesh, np.eye(12), "y", "x")
    functions = [ms.lu_factor, ms.det, ms.slogdet, ms.inv, ms.solve_triangular]
    for function in functions:
        arguments = (a, np.ones(12))[: 1 + (function is ms.solve_triangular)]
        with pytest.raises(ValueError, match=r"n divisible by the 8 devices .* give mesh="):
            function(*arguments)
        assert function(*arguments, mesh=mesh) is not None
    factor = dataclasses.replace(ms.lu_factor(np.eye(12)), work=a)
    for call in (lambda: factor.solve(np.ones(12)), factor.det, factor.rcond, factor.inv):
        with pytest.raises(ValueError, match=r"n divisible by the 8 devices .* put the factor"):
            call()


@pytest.mark.parametrize("row", [-1, 8])
def test_pivots_that_name_no_row(row):
    a = put(mesh_of(range(2)), np.eye(8), "x", None)
    piv = np.arange(8)
    piv[3] = row
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"from 0 to 7, got {row} at position 3"):
        jax.block_until_ready(ms.lu_solve((a, piv), np.ones(8)))
    np.testing.assert_array_equal(ms.lu_solve((a, np.arange(8)), np.ones(8)), np.ones(8))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_random_cases_of_the_grids(seed):
    """A seeded sample of both grids, of which the tests above take a pairwise selection."""
    check_solve(**SOLVES.draw([2, seed]))
    check_factor(**FACTORS.draw([2, seed]))
