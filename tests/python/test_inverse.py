"""inv, LUFactor.inv, CholeskyFactor.inv: for every storage, structure and way of calling."""

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
    SOME_KINDS,
    STORAGES,
    WHOLE,
    extreme,
    is_complex,
    mesh_of,
    mesh_set,
    normal,
    one_triangle,
    positive_definite,
    put_matrix,
    spectrum,
    unit_roundoff,
)

SIZES = {"P": 1, "tile-1": 63, "tile+1": 65, "prime": 37}
KINDS = ("random", "tiny", "huge", "one small:sqrt", "geometric:full")
WELL_CONDITIONED = ("random", "tiny", "huge")
GRID = Grid(
    **WHOLE | {"size": SIZES},
    kind=list(KINDS),
    assume_a=["gen", "pos", "her", "sym"],
    lower=[False, True],
    how=["eager", "jit", "factor", "factor in jit"],
    overwrite=[False, True],
)


def matrix(kind: str, assume_a: str, n: int, dtype, rng) -> np.ndarray:
    """A matrix of this structure; unless it is "pos", indefinite, with pivots off the diagonal."""
    if assume_a == "pos":
        return positive_definite(kind, n, dtype, rng)
    wide = np.complex128 if is_complex(dtype) else np.float64
    if kind in WELL_CONDITIONED:
        scale = 1.0 if kind == "random" else extreme(kind, n, dtype)
        a = np.eye(n)[::-1] * 3 * np.sqrt(n) + normal(rng, (n, n), wide)
        return (structured(a, assume_a) * scale).astype(dtype)
    name, condition = kind.split(":")
    eps = float(np.finfo(dtype).eps)
    condition = {"sqrt": np.sqrt(0.1 / eps), "full": 0.01 / eps}[condition]
    values = spectrum(name, n, condition, rng) * rng.choice([-1.0, 1.0], n)
    left, right = (np.linalg.qr(normal(rng, (n, n), wide))[0] for _ in range(2))
    right = {"gen": right, "her": left.conj().T, "sym": left.T}[assume_a]
    return structured((left * values) @ right, assume_a).astype(dtype)


def structured(a, assume_a: str):
    other = {"gen": a, "her": a.conj().T, "sym": a.T}[assume_a]
    return (a + other) / 2


def check(a, x, limit: float):
    """Norm(I - A X) / (n norm(A) norm(X) u) in the 1-norm, computed in double precision."""
    assert x.shape == a.shape and x.dtype == a.dtype
    wide = np.complex128 if is_complex(a.dtype) else np.float64
    dtype, a, x = a.dtype, np.asarray(a).astype(wide), np.asarray(x).astype(wide)
    norm = lambda m: np.abs(m).sum(0).max()  # noqa: E731
    unit = len(a) * norm(a) * norm(x) * unit_roundoff(dtype)
    ratio = norm(np.eye(len(a)) - a @ x) / unit
    assert np.isfinite(ratio) and ratio <= limit


def check_inverse(dtype, p, size, kind, assume_a, storage, lower, axis_type, how, overwrite):
    n = SIZES[size] * p - (storage == "padded")
    n = max(n, 1)
    rng = np.random.default_rng([n, p])
    a = matrix(kind, assume_a, n, dtype, rng)
    by_factor = how.startswith("factor")
    one_is_read = assume_a != "gen" and (assume_a == "pos" or not by_factor)
    given, mesh = one_triangle(a, lower) if one_is_read else a, mesh_of(ORDERS[p], axis_type)
    over = mesh if storage == "padded" else None
    a_dev = given if over else put_matrix(mesh, given, storage)

    def invert(a):
        if not by_factor:
            return ms.inv(a, overwrite, assume_a=assume_a, lower=lower, mesh=over)
        if assume_a == "pos":
            return ms.cho_factor(a, lower, overwrite, mesh=over).inv()
        return ms.lu_factor(a, overwrite, mesh=over).inv()

    in_jit = how in ("jit", "factor in jit")
    with mesh_set(over if in_jit else None):
        x = (jax.jit(invert) if in_jit else invert)(a_dev)

    check(a, x, 3 if kind in WELL_CONDITIONED else 30)
    if assume_a == "pos":
        np.testing.assert_array_equal(x, np.asarray(x).conj().T)
    if not over:
        if storage != "replicated":
            assert a_dev.is_deleted() == (overwrite and not in_jit)
        if how == "eager":
            assert x.sharding.is_equivalent_to(a_dev.sharding, 2)
            order = (1, 0) if storage == "column-major" else (0, 1)
            assert x.format.layout.major_to_minor == order
        if how == "jit" and axis_type == "explicit":
            assert x.sharding.is_equivalent_to(a_dev.sharding, 2)


@pytest.mark.parametrize("case", GRID.pairs(**REDUCED, kind=SOME_KINDS), ids=str)
def test_inverse(case):
    check_inverse(**case)


@pytest.mark.parametrize("dtype", DTYPES)
def test_as_exact_as_lapack(dtype):
    """Forward errors of LAPACK's getri in the same precision and of ours."""
    n, mesh, rng = 120, mesh_of(range(4)), np.random.default_rng(1)
    wide = np.complex128 if is_complex(dtype) else np.float64
    left, right = (np.linalg.qr(normal(rng, (n, n), wide))[0] for _ in range(2))
    condition = 1e-2 / np.sqrt(unit_roundoff(dtype))
    values = condition ** -np.linspace(0, 1, n)
    a = ((left * values) @ right).astype(dtype)
    exact = np.linalg.inv(a.astype(wide))
    if wide == np.dtype(
        dtype
    ):  # one step of Newton's iteration, with the residual in extended precision
        longer = np.clongdouble if is_complex(dtype) else np.longdouble
        residual = np.eye(n) - a.astype(longer) @ exact.astype(longer)
        exact = exact.astype(longer) + exact.astype(longer) @ residual
    error = lambda x: float(np.abs(x - exact).max())  # noqa: E731
    x = ms.inv(put_matrix(mesh, a, "rows"))
    assert error(np.asarray(x)) <= 3 * error(scipy.linalg.inv(a))


@pytest.mark.parametrize("storage", [*STORAGES, "padded"])
@pytest.mark.parametrize("how", ["eager", "jit", "factor"])
def test_where_there_is_no_inverse_all_is_nan(storage, how):
    n, mesh = 60, mesh_of(range(4))
    over = mesh if storage == "padded" else None
    n -= over is not None
    singular = normal(np.random.default_rng(0), (n, n), np.float64)
    singular[:, 41] = 0
    indefinite = np.eye(n)
    indefinite[41, 41] = -1
    for a, assume_a in ((singular, "gen"), (indefinite, "pos")):
        a_dev = a if over else put_matrix(mesh, a, storage)
        if how == "factor":
            make = ms.lu_factor if assume_a == "gen" else ms.cho_factor
            factor = make(a_dev, mesh=over)
            assert int(factor.info) == 42
            x = factor.inv()
        else:
            invert = lambda a: ms.inv(a, assume_a=assume_a, mesh=over)  # noqa: B023, E731
            x = (jax.jit(invert) if how == "jit" else invert)(a_dev)
        assert x.shape == (n, n) and np.isnan(x).all()


@pytest.mark.parametrize("assume_a", ["gen", "pos"])
@pytest.mark.parametrize(
    "where", ["one device", "two axes", "does not divide", "NumPy", "integers"]
)
def test_where_else_a_matrix_can_lie(where, assume_a):
    n = 61 if where == "does not divide" else 64
    a = positive_definite("random", n, "float64", np.random.default_rng(n))
    a = np.rint(100 * a)
    both = jax.make_mesh((2, 4), ("y", "x"))
    target = {
        "one device": jax.devices()[5],
        "two axes": NamedSharding(both, P("y", "x")),
        "does not divide": NamedSharding(mesh_of((7, 0, 3)), P()),
        "integers": NamedSharding(mesh_of(range(4)), P("x", None)),
    }.get(where)
    given = a if target is None else jax.device_put(a, target)
    x = ms.inv(given.astype(np.int32) if where == "integers" else given, assume_a=assume_a)
    check(a, x, 3)
    if target is not None:
        assert x.sharding.is_equivalent_to(given.sharding, 2)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_factor_is_kept_and_moves(storage):
    n, mesh = 64, mesh_of(range(4))
    a = positive_definite("random", n, "complex128", np.random.default_rng(n))
    for factor in (ms.lu_factor(put_matrix(mesh, a, storage)), ms.cho_factor(a, mesh=mesh)):
        before = np.array(factor.work)
        x = factor.inv()
        check(a, x, 3)
        assert x.sharding.is_equivalent_to(factor.work.sharding, 2)
        np.testing.assert_array_equal(factor.work, before)
        check(a, factor.inv(), 3)
        # Its leaves may be restored arrays, and the whole may cross jit.
        plain = jax.tree.map(np.asarray, factor)
        check(a, plain.inv(), 3)
        check(a, jax.jit(lambda f: f.inv())(factor), 3)


def test_what_a_jitted_function_closes_over():
    n, mesh = 64, mesh_of(range(4))
    a = positive_definite("random", n, "float64", np.random.default_rng(n))
    for storage in STORAGES:
        given = put_matrix(mesh, a, storage)
        check(a, jax.jit(lambda t: ms.inv(given) + 0 * t)(0.0), 3)  # noqa: B023


def test_the_same_bits_every_time():
    a = put_matrix(mesh_of(range(4)), normal(np.random.default_rng(3), (520, 520), "f4"), "rows")
    for assume_a in ("gen", "pos"):
        given = a + 60 * jnp.eye(520, dtype="f4") if assume_a == "pos" else a
        first = np.asarray(ms.inv(given, assume_a=assume_a))
        assert np.isfinite(first).all()
        for _ in range(3):
            np.testing.assert_array_equal(ms.inv(given, assume_a=assume_a), first)


def test_nothing_is_gathered_under_jit_on_an_auto_mesh():
    n, mesh = 256, mesh_of(range(4))
    for spec in (P("x", None), P(None, "x")):
        a = jax.ShapeDtypeStruct((n, n), jnp.float64, sharding=NamedSharding(mesh, spec))
        program = Program(jax.jit(lambda a: ms.inv(2 * a)), a)
        assert not program.makes(n, n)
        assert not program.collectives() & {"all-gather", "all-to-all"}


def test_empty():
    assert ms.inv(np.zeros((0, 0))).shape == (0, 0)
    assert ms.lu_factor(np.zeros((0, 0))).inv().shape == (0, 0)
    assert ms.cho_factor(np.zeros((0, 0))).inv().shape == (0, 0)


def test_messages():
    with pytest.raises(ValueError, match=r"meshsolve\.inv: a: expected a square matrix"):
        ms.inv(np.ones((4, 3)))
    with pytest.raises(ValueError, match=r'meshsolve\.inv: assume_a: expected one of "gen"'):
        ms.inv(np.eye(4), assume_a="banded")
