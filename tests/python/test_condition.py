"""Condition estimates: ``rcond`` of factors and of ``solve(..., return_info=True)``."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import meshsolve as ms
from grids import Grid
from helpers import (
    DTYPES,
    KINDS,
    ORDERS,
    REDUCED,
    SOME_KINDS,
    STORAGES,
    WHOLE,
    is_complex,
    mesh_of,
    mesh_set,
    normal,
    one_triangle,
    positive_definite,
    put,
    put_matrix,
    spectrum,
    unit_roundoff,
)

SPECTRA = ("one small", "one large", "geometric", "arithmetic", "random logarithms")
GENERAL = (
    *(f"{name}:{condition}" for name in SPECTRA for condition in ("2", "sqrt", "full")),
    "random",
    "hilbert",
    "kms",
    "minij",
    "forsythe",
    "kahan",
    "graded rows",
    "graded columns",
    "last entry",
    "tiny",
    "huge",
)
HOW = ["eager", "jit", "outside jit", "solve", "solve in jit"]


def general(kind: str, n: int, dtype, rng) -> np.ndarray:
    """An n x n matrix of the named kind; those with a colon as LAPACK's generators make them."""
    wide = np.complex128 if is_complex(dtype) else np.float64
    i = np.arange(n, dtype=float)
    limits = np.finfo(dtype)
    if ":" in kind:
        name, condition = kind.split(":")
        eps = float(limits.eps)
        condition = {"2": 2.0, "sqrt": np.sqrt(0.1 / eps), "full": 0.1 / eps}[condition]
        u, v = (np.linalg.qr(normal(rng, (n, n), wide))[0] for _ in range(2))
        a = (u * spectrum(name, n, condition, rng)) @ v
    elif kind == "hilbert":  # of order 5 at most, so that binary32 has an inverse, then dominant
        a = np.where(i[:, None] + i < 9, 1 / (i[:, None] + i + 1), 0) + np.diag(
            np.where(i > 4, 1, 0)
        )
    elif kind == "minij":
        a = np.minimum(i[:, None], i) + 1
    elif kind == "kms":
        a = 0.5 ** np.abs(i[:, None] - i)
    elif kind == "forsythe":  # a large inverse in one corner
        a = np.diag(np.full(n, 0.9)) + np.diag(np.ones(n - 1), 1)
    elif kind == "kahan":
        c = 0.2 if np.dtype(dtype).itemsize >= 8 else 0.1
        a = (1 - c * c) ** (i[:, None] / 2) * (np.eye(n) - c * np.triu(np.ones((n, n)), 1))
    elif kind == "last entry":  # A = I with one large entry
        a = np.eye(n)
        a[0, n - 1] = 1e3
    else:
        a = normal(rng, (n, n), wide) + 2 * np.eye(n)
        grades = 10.0 ** (-3 * i / n)
        a = a * {"graded rows": grades[:, None], "graded columns": grades}.get(kind, 1)
        a = a * {"tiny": float(limits.tiny) * 1e6, "huge": float(limits.max) / (1e3 * n**2)}.get(
            kind, 1
        )
    return a.astype(dtype)


def true_rcond(a) -> float:
    """1 / (norm1(A) norm1(A^-1)) in more than twice binary32's or 1.2 times binary64's precision.
    It uses an inverse that is refined until it converges.
    """
    wide = np.clongdouble if is_complex(a.dtype) else np.longdouble
    scale = np.abs(a).max()
    a = a.astype(wide) / scale
    x = np.linalg.inv(a.astype(np.complex128 if is_complex(a.dtype) else np.float64)).astype(wide)
    identity = np.eye(len(a))
    for _ in range(8):
        residual = identity - a @ x
        if np.abs(residual).max() < 1e-3:
            break
        x = x + x @ residual
    assert np.abs(residual).max() < 1e-3, "the true inverse"
    return float(1 / (np.abs(a).sum(0).max() * np.abs(x).sum(0).max()))


def check(rcond, a, what=""):
    """Within a factor 4, and, except for rounding, not below the true value."""
    exact = true_rcond(a)
    rounding = len(a) * unit_roundoff(a.dtype) / exact
    assert rcond.shape == () and rcond.dtype == np.finfo(a.dtype).dtype
    assert max(0.25, 0.98 - rounding) * exact <= float(rcond) <= 4 * exact, (what, rcond, exact)


def placed(mesh, a, storage):
    """(A in its storage, the mesh to give)."""
    return (a, mesh) if storage == "padded" else (put_matrix(mesh, a, storage), None)


def estimated(how, factorise, solve, a, mesh):
    """Rcond from one of the calls that give it; ``mesh`` if A is to be padded for it."""
    if how == "solve":
        return solve(a)[1].rcond
    with mesh_set(mesh):
        if how == "solve in jit":
            return jax.jit(lambda a: solve(a)[1])(a).rcond
        if how == "jit":
            return jax.jit(lambda a: factorise(a).rcond())(a)
    factor = factorise(a)
    return jax.jit(lambda f: f.rcond())(factor) if how == "outside jit" else factor.rcond()


SIZES = [1, 3, 17, 24]  # per device
ESTIMATES = WHOLE | {"size": SIZES, "how": HOW}
GRID = Grid(
    **ESTIMATES,
    kind=["random", "geometric:full", "last entry"],  # `test_agrees_with_lapack` has all of them
    transposed=[False, True],
)


def check_of_general_matrices(kind, dtype, p, size, storage, axis_type, how, transposed):
    n = max(size * p - (storage == "padded"), 1)
    a = general(kind, n, dtype, np.random.default_rng([n, p]))
    given, over = placed(mesh_of(ORDERS[p], axis_type), a, storage)
    factorise = lambda a: ms.lu_factor(a, mesh=over)  # noqa: E731
    options = {"return_info": True, "transposed": transposed, "mesh": over}
    b = np.ones((n, 2), dtype)
    check(estimated(how, factorise, lambda a: ms.solve(a, b, **options), given, over), a, how)


@pytest.mark.parametrize("case", GRID.pairs(**REDUCED | {"size": (1, 17)}), ids=str)
def test_of_general_matrices(case):
    check_of_general_matrices(**case)


CHOLESKY_GRID = Grid(
    **ESTIMATES,
    kind=SOME_KINDS,
    lower=[False, True],
)


def check_of_positive_definite_matrices(kind, dtype, p, size, storage, axis_type, how, lower):
    """One triangle is given."""
    n = max(size * p - (storage == "padded"), 1)
    a = positive_definite(kind, n, dtype, np.random.default_rng([n, p]))
    given, over = placed(mesh_of(ORDERS[p], axis_type), one_triangle(a, lower), storage)
    factorise = lambda a: ms.cho_factor(a, lower, mesh=over)  # noqa: E731
    options = {"assume_a": "pos", "return_info": True, "mesh": over}
    b = np.ones(n, dtype)
    check(
        estimated(how, factorise, lambda a: ms.solve(a, b, lower, **options), given, over), a, how
    )


@pytest.mark.parametrize("case", CHOLESKY_GRID.pairs(**REDUCED | {"size": (1, 17)}), ids=str)
def test_of_positive_definite_matrices(case):
    check_of_positive_definite_matrices(**case)


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_lapack(dtype):
    """And with the true value."""
    mesh = mesh_of(range(4))
    for kind in GENERAL:
        a = general(kind, 48, dtype, np.random.default_rng(5))
        getrf, gecon, lange = scipy.linalg.get_lapack_funcs(("getrf", "gecon", "lange"), (a,))
        norm = lange("1", a)
        theirs = gecon(getrf(a)[0], norm)[0]
        factor = ms.lu_factor(put_matrix(mesh, a, "columns"))
        np.testing.assert_allclose(factor.anorm, norm, rtol=100 * unit_roundoff(dtype))
        ratio = float(factor.rcond()) / theirs
        assert 1 / 3 <= ratio <= 1.5, (kind, ratio)
        check(factor.rcond(), a, kind)
    for kind in KINDS:
        a = positive_definite(kind, 48, dtype, np.random.default_rng(5))
        potrf, pocon = scipy.linalg.get_lapack_funcs(("potrf", "pocon"), (a,))
        norm = np.abs(a).sum(0).max()
        theirs = pocon(potrf(a)[0], norm)[0]
        factor = ms.cho_factor(put_matrix(mesh, a, "rows"))
        np.testing.assert_allclose(factor.anorm, norm, rtol=100 * unit_roundoff(dtype))
        ratio = float(factor.rcond()) / theirs
        assert 1 / 3 <= ratio <= 1.5, (kind, ratio)


@pytest.mark.parametrize("assume_a", ["her", "sym"])
@pytest.mark.parametrize("lower", [False, True])
def test_of_one_triangle_of_an_indefinite_matrix(assume_a, lower):
    a = general("random", 40, "complex128", np.random.default_rng(2))
    a = a + (a.conj().T if assume_a == "her" else a.T)
    for storage in (*STORAGES, "padded"):
        given, over = placed(mesh_of(range(4)), one_triangle(a, lower), storage)
        options = {"assume_a": assume_a, "return_info": True, "mesh": over}
        check(ms.solve(given, np.ones(40), lower, **options)[1].rcond, a)


def all_rconds(a, storage, assume_a="gen"):
    """From the factor and from the solve."""
    given, over = placed(mesh_of(range(4)), a, storage)
    factorise = ms.cho_factor if assume_a == "pos" else ms.lu_factor
    options = {"assume_a": assume_a, "return_info": True, "mesh": over}
    factor = factorise(given, mesh=over)
    x, info = ms.solve(given, np.ones(len(a), a.dtype), **options)
    return [factor.rcond(), info.rcond], info, x


@pytest.mark.parametrize("storage", [*STORAGES, "padded"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_singular_indefinite_and_not_finite(storage, dtype):
    n = 40 - (storage == "padded")
    a = general("random", n, dtype, np.random.default_rng(3))
    a[:, 7] = 0
    rconds, info, x = all_rconds(a, storage)
    assert rconds == [0, 0] and int(info.info) > 0 and np.isnan(x).all()
    a[5, 7] = np.nan
    assert np.isnan(all_rconds(a, storage)[0]).all()
    a[5, 7] = np.inf
    assert np.isnan(all_rconds(a, storage)[0]).all()
    a = positive_definite("random", n, dtype, np.random.default_rng(3))
    a[9, 9] = -1
    rconds, info, _ = all_rconds(a, storage, "pos")
    assert rconds == [0, 0] and int(info.info) == 10
    a[9, 9] = np.nan
    assert np.isnan(all_rconds(a, storage, "pos")[0]).all()
    a = np.eye(n, dtype=dtype)
    for assume_a in ("gen", "pos"):
        np.testing.assert_allclose(all_rconds(a, storage, assume_a)[0], 1, rtol=1e-6)


def test_a_condition_number_that_overflows_is_infinite():
    a = np.diag([1e30, 1, 1e-30, 1, 1, 1, 1, 1]).astype(np.float32)
    for storage in STORAGES:
        rconds = all_rconds(a, storage)[0] + all_rconds(a, storage, "pos")[0]
        assert all(0 <= float(r) <= 1e-38 for r in rconds), rconds


@pytest.mark.parametrize("factorise", [ms.lu_factor, ms.cho_factor])
def test_factors_that_are_saved_and_moved_keep_their_norm(factorise, tmp_path):
    a = positive_definite("minij", 64, "complex64", np.random.default_rng(1))
    factor = factorise(put_matrix(mesh_of(range(4)), a, "columns"))
    expected = factor.rcond()
    leaves, structure = jax.tree.flatten(factor)
    np.savez(tmp_path / "factor.npz", *leaves)
    saved = np.load(tmp_path / "factor.npz")
    plain = jax.tree.unflatten(structure, [saved[name] for name in saved])
    np.testing.assert_allclose(plain.rcond(), expected, rtol=1e-3)
    mesh = mesh_of((7, 5))
    moved = jax.tree.map(lambda x: put(mesh, x), factor)
    np.testing.assert_allclose(moved.rcond(), expected, rtol=1e-3)
    assert float(dataclasses.replace(factor, anorm=jnp.float32(0)).rcond()) == 0


def test_factors_of_scipys_pairs_have_no_norm():
    from meshsolve._api.cholesky import _packed as packed_cholesky
    from meshsolve._api.lu import _packed as packed_lu

    a = np.eye(8)
    for factor in (
        packed_lu(jnp.asarray(a), jnp.arange(8), False),
        packed_cholesky(jnp.asarray(a), True, False),
    ):
        assert np.isnan(factor.anorm) and np.isnan(factor.rcond())
        assert jax.tree.structure(factor) is not None


@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_no_right_hand_sides_and_no_rows(assume_a):
    a = put_matrix(mesh_of(range(4)), 4 * np.eye(64), "columns")
    x, info = ms.solve(a, np.ones((64, 0)), assume_a=assume_a, return_info=True)
    assert x.shape == (64, 0) and int(info.info) == 0
    np.testing.assert_allclose(info.rcond, 1, rtol=1e-12)
    solve = lambda a, b: ms.solve(a, b, assume_a=assume_a, return_info=True)  # noqa: E731
    x, info = jax.jit(solve)(-a, np.ones((64, 0)))
    np.testing.assert_allclose(info.rcond, 1 if assume_a == "gen" else 0, rtol=1e-12)
    assert x.shape == (64, 0)
    x, info = solve(np.zeros((0, 0)), np.zeros((0, 3)))
    assert x.shape == (0, 3) and float(info.rcond) == 1 and int(info.info) == 0
    for factorise in (ms.lu_factor, ms.cho_factor):
        assert float(factorise(np.zeros((0, 0))).rcond()) == 1


@pytest.mark.parametrize("k", [2, 40])
def test_the_same_bits_and_the_same_solution(k):
    """Estimating changes nothing in x, and gives the same number in every run."""
    mesh = mesh_of((2, 0, 3, 1))
    rng = np.random.default_rng(0)
    a, b = normal(rng, (260, 260), "complex64"), normal(rng, (260, k), "complex64")
    for storage in STORAGES:
        a_dev, b_dev = put_matrix(mesh, a, storage), put(mesh, b)
        x, info = ms.solve(a_dev, b_dev, return_info=True)
        np.testing.assert_array_equal(x, ms.solve(a_dev, b_dev))
        for _ in range(3):
            assert ms.solve(a_dev, b_dev, return_info=True)[1].rcond == info.rcond
        check(info.rcond, a)


def test_the_norm_is_whole_however_early_the_factorisation_fails():
    """All workers have measured before any of them may find that A is not positive definite."""
    a = np.eye(256)
    a[0, 0], a[-1, -1] = -1, 1e6
    given = put_matrix(mesh_of(range(4)), a, "rows")
    norms = {float(ms.cho_factor(given).anorm) for _ in range(300)}
    assert norms == {1e6}
