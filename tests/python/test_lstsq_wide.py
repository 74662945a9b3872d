"""lstsq of wide matrices and with ridge terms: solutions, derivatives, batches, messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from allpairspy import AllPairs
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from helpers import DTYPES, mesh_of, mesh_set, put
from least_squares_cases import (
    ORDER,
    assert_close,
    system,
    wide,
)


def of_longer(a, b, ridge):
    """(x, residuals) with a ridge term as jnp finds them, for derivatives."""
    adjoint = a.conj().T
    if a.shape[0] >= a.shape[1]:
        x = jnp.linalg.solve(adjoint @ a + ridge * jnp.eye(a.shape[1]), adjoint @ b)
    else:
        x = adjoint @ jnp.linalg.solve(a @ adjoint + ridge * jnp.eye(a.shape[0]), b)
    rest = b - a @ x
    return x, jnp.sum((rest.conj() * rest).real, axis=0)


def with_ridge(a, b, ridge):
    return ms.lstsq(a, b, ridge=ridge)[:2]


@pytest.mark.versions
@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "at", "ridge"),
    list(
        AllPairs(
            [
                [(40, 8), (8, 24), (8, 20)],
                DTYPES,
                ["auto", "explicit"],
                [P("x", None), P(), P(None, "x"), "one device", "mesh"],
                [0.5, None],
            ]
        )
    ),
)
def test_ridge_terms_wherever_a_is(shape, dtype, kind, at, ridge):
    a, b = system(dtype, (3,), m=shape[0], n=shape[1])
    mesh, tolerance = mesh_of(ORDER, kind), 2e3 * np.finfo(dtype).eps
    expected = of_longer(wide(a), wide(b), ridge or 0.0)
    squares = np.sum(np.abs(b) ** 2, axis=0)
    given = a if isinstance(at, str) else jax.device_put(a, NamedSharding(mesh, at))
    options = {"ridge": ridge, "mesh": mesh if at == "mesh" else None}
    run = lambda a, b: ms.lstsq(a, b, **options)  # noqa: E731
    alone = run(given, b)
    with mesh_set(mesh if at == "mesh" else None):
        inside = jax.jit(run)(given, b)
    for found in (alone, inside):
        assert found.x.dtype == dtype and int(found.info) == 0
        assert_close(found.x, expected[0], tolerance)
        assert np.all(np.abs(found.residuals - expected[1]) <= tolerance * squares)
    alone = ms.lstsq(given, b[:, 0], **options)
    assert alone.x.shape == shape[1:] and alone.residuals.shape == ()


def test_wide_matrices_have_the_solution_of_least_norm():
    a, b = system("float64", (2,), m=7, n=19)
    for found in (ms.lstsq(a, b), ms.lstsq(a, b, mesh=mesh_of(ORDER)), jax.jit(ms.lstsq)(a, b)):
        np.testing.assert_allclose(found.x, np.linalg.lstsq(a, b)[0], atol=1e-13)
        assert np.all(found.residuals == 0) and int(found.info) == 0
    # As accurate as the matrix allows, not as its square.
    left, _, right = np.linalg.svd(a, full_matrices=False)
    hard = left @ np.diag(np.logspace(0, -9, 7)) @ right
    x = right.T @ np.arange(1.0, 8.0)
    found = ms.lstsq(hard, hard @ x)
    assert np.linalg.norm(found.x - x) <= 1e-5 * np.linalg.norm(x)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_a_wide_matrix_that_a_function_closes_over(kind):
    a, b = system("float64", m=8, n=40)
    mesh = mesh_of(ORDER, kind)
    given, many = put(mesh, a, "x", None), np.stack([b, 2 * b, b**2])
    solution = lambda b: ms.lstsq(given, b).x  # noqa: E731
    inverse = np.linalg.pinv(a)
    with mesh_set(mesh):
        np.testing.assert_allclose(jax.vmap(solution)(many), many @ inverse.T, atol=1e-12)
        np.testing.assert_allclose(jax.jacfwd(solution)(jnp.asarray(b)), inverse, atol=1e-12)


def test_a_wide_matrix_by_rows_is_copied_once_and_neither_moved_nor_transposed():
    mesh = mesh_of(range(4))
    a = np.random.default_rng(1).standard_normal((32, 4096))
    given = jax.device_put(a, NamedSharding(mesh, P("x", None)))
    program = Program(jax.jit(lambda a, b: ms.lstsq(a, b).x), given, np.ones(32))
    assert sorted(program.routines()) == ["geqrf", "ormqr", "qr_triangle", "trtrs"]
    assert not program.collectives()
    # A^H by columns is A by rows in memory; by "columns" the library would transpose it.
    assert 'routine = "geqrf", storage = "column-major"' in program.compiled.as_text()
    assert program.compiled.memory_analysis().temp_size_in_bytes * 4 <= 1.3 * given.nbytes
    np.testing.assert_allclose(ms.lstsq(given, np.ones(32)).x, np.linalg.pinv(a) @ np.ones(32))


@pytest.mark.parametrize(
    ("m", "n", "dtype", "kind", "wrap"),
    [
        (40, 6, "float64", "auto", jax.jit),
        (40, 6, "complex128", "explicit", jax.jit),
        (8, 24, "float64", "explicit", lambda f: f),
        (8, 24, "complex128", "auto", jax.jit),
    ],
)
def test_derivatives_of_ridge_terms(m, n, dtype, kind, wrap):
    a, b = system(dtype, (2,), m=m, n=n)
    mesh, ridge = mesh_of(ORDER, kind), jnp.float64(0.7)
    given = jax.device_put(a, NamedSharding(mesh, P("x", None)))

    def number(lstsq):
        def of(a, b, ridge):
            x, residuals = lstsq(a, b, ridge)
            return jnp.sum(jnp.abs(x) ** 3) + jnp.sum(residuals**2)

        return of

    gradient = lambda f: jax.grad(number(f), (0, 1, 2))  # noqa: E731
    second = lambda f: lambda a: jax.grad(lambda r: jax.grad(number(f), 2)(a, b, r))(ridge)  # noqa: E731
    with mesh_set(mesh):
        found = wrap(gradient(with_ridge))(given, b, ridge)
        twice = jax.jit(second(with_ridge))(given)
    assert_close(found, jax.jit(gradient(of_longer))(a, b, ridge), 1e-8)
    assert_close(twice, jax.jit(second(of_longer))(a), 1e-8)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives_of_wide_matrices(dtype, kind):
    a, b = system(dtype, (2,), m=8, n=24)
    mesh = mesh_of(ORDER, kind)
    given = jax.device_put(a, NamedSharding(mesh, P("x", None)))
    ours = lambda a, b: jnp.sum(jnp.abs(ms.lstsq(a, b).x) ** 3)  # noqa: E731
    theirs = lambda a, b: jnp.sum(jnp.abs(of_longer(a, b, 0.0)[0]) ** 3)  # noqa: E731
    with mesh_set(mesh):
        found = jax.jit(jax.grad(ours, (0, 1)))(given, b)
    assert_close(found, jax.jit(jax.grad(theirs, (0, 1)))(a, b), 1e-8)
    x, change = np.real(a), np.ones_like(np.real(a))
    twice = lambda f: lambda t: jax.grad(lambda t: f(x + t * change, b.real))(t)  # noqa: E731
    found, expected = (jax.jit(jax.grad(twice(f)))(0.1) for f in (ours, theirs))
    assert_close(found, expected, 1e-7)


def test_batches_of_ridges_and_of_wide_matrices():
    a, b = system("float64", m=12, n=4)
    ridges = np.array([0.0, 0.1, 10.0])
    for found in (
        ms.lstsq(a, b, ridge=ridges),
        jax.vmap(lambda r: ms.lstsq(a, b, ridge=r))(ridges),
    ):
        for i, ridge in enumerate(ridges):
            one = ms.lstsq(a, b, ridge=ridge)
            assert_close((found.x[i], found.residuals[i]), one[:2])
    many = np.stack([system("float64", m=3, n=s)[0][:, :5] for s in (5, 6, 7)])
    sides = np.ones((3, 3, 2))
    found = ms.lstsq(many, sides)
    expected = np.stack([np.linalg.lstsq(x, s)[0] for x, s in zip(many, sides, strict=True)])
    np.testing.assert_allclose(found.x, expected, atol=1e-12)
    assert found.residuals.shape == (3, 2)


def test_wide_matrices_without_full_rank():
    a, b = system("float64", m=6, n=20)
    a[4] = 2 * a[1]
    found = ms.lstsq(a, b)
    assert int(found.info) == 5 and np.isnan(found.x).all() and np.isnan(found.residuals)
    with pytest.raises(
        np.linalg.LinAlgError, match=r"lstsq: a: expected a full-rank .*row 5 depends"
    ):
        ms.lstsq(a, b, on_failure="raise")
    assert int(ms.lstsq(a, b, ridge=0.1).info) == 0
    expected = r"expected a full-rank matrix, got one whose column 5 .* \(info = 5\)"
    for given in (a, put(mesh_of(range(2)), a, "x", None)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=expected):
            run = jax.jit(lambda a, b: ms.lstsq(a, b, on_failure="raise"))
            jax.block_until_ready(run(given, b))


@pytest.mark.parametrize("ridge", [-1.0, 1j, np.inf, np.nan, np.array([1.0, -1.0])])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4)])
def test_wrong_ridges(shape, ridge):
    with pytest.raises(ValueError, match=r"ridge: expected real numbers that are not negative"):
        ms.lstsq(np.ones(shape), np.ones(shape[0]), ridge=ridge)


@pytest.mark.parametrize(("m", "n"), [(40, 8), (8, 40)])
def test_small_residuals_with_a_ridge_term(m, n):
    a, _ = system("float64", m=m, n=n)
    b = a @ np.ones(n)
    given = put(mesh_of(ORDER), a, "x", None)
    for ridge in (1e-3, 1e-6):
        x, residuals, _ = ms.lstsq(given, b, ridge=ridge)
        eps = np.finfo(np.float64).eps
        exact = np.linalg.norm(b - a @ np.asarray(x)) ** 2
        assert abs(np.sqrt(residuals) - np.sqrt(exact)) <= 100 * eps * np.linalg.norm(b)


def test_rows_that_the_devices_do_not_divide():
    a, b = system("float64", m=6, n=12)
    mesh = mesh_of(ORDER)
    whole = put(mesh, a)
    for ridge in (None, 0.5):
        assert_close(ms.lstsq(whole, b, ridge=ridge).x, of_longer(a, b, ridge or 0.0)[0], 1e-10)
    with pytest.raises(
        ValueError, match=r"rows that the 4 devices of a wide .* got m = 6; give me"
    ):
        ms.lstsq(put(mesh, a, None, "x"), b)


def test_what_is_no_number_in_b_of_a_wide_matrix():
    a, b = system("float64", (2,), m=6, n=12)
    b[1, 0] = np.nan
    found = ms.lstsq(a, b)
    assert np.isnan(found.residuals[0]) and found.residuals[1] == 0


@pytest.mark.parametrize(("here", "there"), [("auto", "explicit"), ("explicit", "auto")])
@pytest.mark.parametrize(("m", "n"), [(40, 8), (8, 40)])
def test_another_mesh_may_be_set(m, n, here, there):
    a, b = system("float64", (2,), m=m, n=n)
    given = put(mesh_of(ORDER, there), a, "x", None)
    with mesh_set(mesh_of(ORDER, here)):
        for ridge in (None, 0.5):
            found = ms.lstsq(given, b, ridge=ridge)
            assert_close(found.x, of_longer(a, b, ridge or 0.0)[0], 1e-10)
