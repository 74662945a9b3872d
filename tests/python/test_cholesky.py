"""Cholesky factors as arrays: ``cholesky``, scipy's pair, and a factor as a triangle."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from allpairspy import AllPairs
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from helpers import (
    DTYPES,
    STORAGES,
    is_complex,
    mesh_of,
    mesh_set,
    normal,
    positive_definite,
    put,
    put_matrix,
    unit_roundoff,
)
from meshsolve._rules import halves

pytestmark = pytest.mark.versions

N = 24


def matrix(dtype, n=N):
    return positive_definite("random", n, dtype, np.random.default_rng(n))


def triangle_of(a, lower):
    tri = np.linalg.cholesky(a)
    return tri if lower else tri.conj().T


@pytest.mark.parametrize(
    ("dtype", "lower", "storage", "kind"),
    list(AllPairs([DTYPES, [False, True], STORAGES, ["auto", "explicit"]])),
)
def test_cholesky(dtype, lower, storage, kind):
    """It reads one triangle and gives zeros in the other one, in A's sharding; as numpy's."""
    a, mesh = matrix(dtype), mesh_of(range(4), kind)
    given = np.tril(a) if lower else np.triu(a)
    at = put_matrix(mesh, given, storage)
    for transform in (lambda f: f, jax.jit):
        run = transform(lambda a: ms.cholesky(a, lower))
        if transform is jax.jit and kind == "auto":
            with jax.set_mesh(mesh):
                c = run(at)
        else:
            c = run(at)
        wanted = triangle_of(a, lower)
        np.testing.assert_allclose(c, wanted, rtol=0, atol=100 * unit_roundoff(dtype))
        assert not np.any(np.triu(c, 1) if lower else np.tril(c, -1))
        if transform is not jax.jit or kind == "explicit":
            assert c.sharding.is_equivalent_to(at.sharding, 2)


def test_other_matrices():
    """Batches, lists, one device, padded, in blocks, donated, empty, without an answer."""
    a = matrix("float64")
    many = np.stack([a, 2 * a])
    np.testing.assert_allclose(ms.cholesky(many, True), np.linalg.cholesky(many), atol=1e-14)
    np.testing.assert_allclose(ms.cholesky([[4, 0], [2, 2]], lower=True), [[2, 0], [1, 1]])
    padded = ms.cholesky(a[:7, :7], mesh=mesh_of(range(4)))
    np.testing.assert_allclose(padded, triangle_of(a[:7, :7], False), atol=1e-14)
    square = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    blocks = put(square, a, "x", "y")
    c = ms.cholesky(blocks, lower=True)
    np.testing.assert_allclose(c, triangle_of(a, True), atol=1e-14)
    assert c.sharding == blocks.sharding
    donated = put(mesh_of(range(4)), a, "x", None)
    ms.cholesky(donated, overwrite_a=True)
    assert donated.is_deleted()
    assert ms.cholesky(np.zeros((0, 0))).shape == (0, 0)
    empty = jnp.zeros((0, 0))
    assert ms.cholesky(empty).shape == (0, 0) and not empty.is_deleted()
    bad = put(mesh_of(range(4)), a - 10 * np.eye(N), "x", None)
    c = np.asarray(ms.cholesky(bad, lower=True))
    assert np.isnan(c[np.tril_indices(N)]).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"meshsolve\.cholesky: a: expected a positive"):
        ms.cholesky(bad, on_failure="raise")
    with pytest.raises(ValueError, match=r"meshsolve\.cholesky: a: expected a square matrix"):
        ms.cholesky(np.ones((3, 2)))


@jax.jit
def weighted(c):
    """A number that depends on all entries of a triangle, also on imaginary parts."""
    w = jnp.sin(jnp.arange(c.shape[-1] ** 2, dtype=jnp.float64)).reshape(c.shape[-2:])
    number = jnp.sum(w * c.real)
    return number + jnp.sum(w.T * c.imag) if jnp.iscomplexobj(c) else number


WAYS = {
    "cholesky": lambda a, lower: ms.cholesky(a, lower),
    "pair": lambda a, lower: triangular_part(ms.cho_factor(a, lower)),
}


def triangular_part(factor):
    c, lower = factor
    kept = np.tril if lower else np.triu
    return c * kept(np.ones(c.shape))


PLACES = ["one device", "auto", "explicit", "padded"]


@pytest.mark.parametrize(
    ("way", "dtype", "lower", "where"),
    list(AllPairs([[*WAYS], ["float64", "complex128"], [False, True], PLACES])),
)
def test_derivatives(way, dtype, lower, where):
    """Those of ``jnp.linalg.cholesky``, which takes the Hermitian part; also of second order."""
    n = 7 if where == "padded" else 8
    a = matrix(dtype, n)
    mesh = mesh_of(range(4), "explicit" if where == "explicit" else "auto")
    at = jnp.asarray(a)
    if where in ("auto", "explicit"):
        at = put(mesh, a, "x", None)
    if where == "padded":
        options = {"mesh": mesh}
        ours = {
            "cholesky": lambda a: weighted(ms.cholesky(a, lower, **options)),
            "pair": lambda a: weighted(triangular_part(ms.cho_factor(a, lower, **options))),
        }[way]
    else:
        ours = lambda a: weighted(WAYS[way](a, lower))  # noqa: E731

    def jnps(a):
        c = jnp.linalg.cholesky(a)
        return weighted(c if lower else c.conj().T)

    wanted = jax.jit(jax.grad(jnps))(a)
    direction = matrix(dtype, n) / 3
    moved = put(mesh, direction, "x", None) if where in ("auto", "explicit") else direction
    with mesh_set(mesh):
        got = jax.grad(ours)(at)
        _, tangent = jax.jvp(jax.jit(ours), (at,), (moved,))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)
    if where in ("auto", "explicit"):
        assert got.sharding.is_equivalent_to(at.sharding, 2)
    np.testing.assert_allclose(tangent, np.sum(wanted * direction).real, rtol=1e-10)
    if where in ("one device", "auto"):
        second = lambda f: jax.jit(jax.grad(lambda a: weighted(jax.grad(f)(a))))  # noqa: E731
        np.testing.assert_allclose(second(ours)(at), second(jnps)(a), rtol=0, atol=1e-10)


def test_derivatives_of_a_batch():
    many = np.stack([matrix("float64", 8), 2 * matrix("float64", 8)])
    got = jax.vmap(jax.grad(lambda a: weighted(ms.cholesky(a, lower=True))))(jnp.asarray(many))
    wanted = jax.jit(jax.vmap(jax.grad(lambda a: weighted(jnp.linalg.cholesky(a)))))(many)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


TURNED = {0: lambda tri: tri, "T": lambda tri: tri.T, 2: lambda tri: tri.conj().T}


@pytest.mark.parametrize(
    ("dtype", "storage", "kind", "lower", "trans", "columns"),
    list(
        AllPairs(
            [DTYPES, STORAGES, ["auto", "explicit"], [False, True], list(TURNED), [0, 2, 34, 36]]
        )
    ),
)
def test_half_of_a_solve(dtype, storage, kind, lower, trans, columns):
    """Solves and products with L, L^T and L^H, of vectors and few and many columns."""
    a, mesh = matrix(dtype), mesh_of(range(4), kind)
    tri = TURNED[trans](np.linalg.cholesky(a))
    factor = ms.cho_factor(put_matrix(mesh, a, storage), lower)
    b = normal(np.random.default_rng(1), (N, columns) if columns else (N,), dtype)
    x = factor.solve_triangular(b, trans)
    close = {"rtol": 0, "atol": 500 * unit_roundoff(dtype)}
    np.testing.assert_allclose(x, np.linalg.solve(tri, b), **close)
    y = factor.dot_triangular(put(mesh, b), trans)
    np.testing.assert_allclose(y, tri @ b, **close)
    assert x.shape == y.shape == b.shape
    inside = jax.jit(lambda f, b: f.dot_triangular(f.solve_triangular(b, trans), trans))
    np.testing.assert_allclose(inside(factor, b), b, **close)


@pytest.mark.parametrize(
    ("dtype", "storage"), list(zip(itertools.cycle(("complex128", "float64")), STORAGES))
)
def test_half_of_a_solve_with_an_unpacked_factor(monkeypatch, dtype, storage):
    """As on devices that distribute the factor's columns in their own order."""
    a, mesh = matrix(dtype), mesh_of(range(4), "explicit")
    tri, b = np.linalg.cholesky(a), normal(np.random.default_rng(1), (N, 3), dtype)
    factor = ms.cho_factor(put_matrix(mesh, a, storage), lower=storage == "rows")
    monkeypatch.setattr(halves, "platforms", lambda x: {"cuda"})
    for trans, turned in TURNED.items():
        for run in (lambda f: f, functools.partial(jax.jit, static_argnums=2)):
            x = run(ms.CholeskyFactor.solve_triangular)(factor, b, trans)
            y = run(ms.CholeskyFactor.dot_triangular)(factor, b, trans)
            np.testing.assert_allclose(x, np.linalg.solve(turned(tri), b), rtol=0, atol=1e-12)
            np.testing.assert_allclose(y, turned(tri) @ b, rtol=0, atol=1e-12)


def test_half_of_a_solve_of_other_operands():
    """Padded, batches, under vmap, another dtype, donated, empty; and without a factor."""
    a, rng = matrix("float64", 7), np.random.default_rng(1)
    tri, b = np.linalg.cholesky(a), rng.standard_normal((7, 3))
    factor = ms.cho_factor(a, mesh=mesh_of(range(4)))
    np.testing.assert_allclose(factor.solve_triangular(b), np.linalg.solve(tri, b), atol=1e-13)
    np.testing.assert_allclose(factor.dot_triangular(b), tri @ b, atol=1e-13)
    mapped = jax.vmap(factor.dot_triangular, 1, 1)(b)
    np.testing.assert_allclose(mapped, tri @ b, atol=1e-13)
    many = ms.cho_factor(np.stack([a, 4 * a]))
    np.testing.assert_allclose(many.dot_triangular(b), [tri @ b, 2 * tri @ b], atol=1e-13)
    np.testing.assert_allclose(
        many.solve_triangular(b), np.linalg.solve(np.stack([tri, 2 * tri]), b), atol=1e-13
    )
    complex_b = b + 1j * b[::-1]
    np.testing.assert_allclose(factor.dot_triangular(complex_b), tri @ complex_b, atol=1e-13)
    given = jnp.array(b)
    ms.cho_factor(a).solve_triangular(given, overwrite_b=True)
    assert given.is_deleted()
    assert factor.solve_triangular(np.zeros((7, 0))).shape == (7, 0)
    bad = ms.cho_factor(a - 10 * np.eye(7))
    assert np.isnan(bad.solve_triangular(b)).all() and np.isnan(bad.dot_triangular(b)).all()
    with pytest.raises(ValueError) as raised:
        factor.dot_triangular(np.ones(8))
    assert str(raised.value) == (
        "meshsolve.CholeskyFactor.dot_triangular: z: expected shape [7] or [7, k], to go with a of "
        "shape (7, 7), got shape (8,); give one right-hand side per column"
    )


@pytest.mark.parametrize(
    ("where", "dtype", "jit"),
    [
        ("one device", "float64", False),
        ("auto", "complex128", False),
        ("auto", "float64", True),
        ("explicit", "float64", False),
        ("explicit", "complex128", True),
    ],
)
def test_derivatives_of_half_a_solve(where, dtype, jit):
    """By the matrix and by the right-hand sides; the likelihood of a Gaussian process."""
    a, rng = matrix(dtype, 8), np.random.default_rng(1)
    b = normal(rng, (8, 2), dtype)
    mesh = None if where == "one device" else mesh_of(range(4), where)
    at = put(mesh, a, "x", None) if mesh else jnp.asarray(a)

    def ours(a, b):
        factor = ms.cho_factor(a)
        x = factor.solve_triangular(b)
        return jnp.sum(jnp.abs(x) ** 3) + weighted(factor.dot_triangular(b) @ b.conj().T)

    def jnps(a, b):
        tri = jnp.linalg.cholesky(a)
        x = jnp.linalg.solve(tri, b)
        return jnp.sum(jnp.abs(x) ** 3) + weighted(tri @ b @ b.conj().T)

    wanted = jax.jit(jax.grad(jnps, (0, 1)))(a, b)
    gradient = jax.grad(ours, (0, 1))
    with mesh_set(mesh):
        got = (jax.jit(gradient) if jit else gradient)(at, jnp.asarray(b))
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-11)


def test_nothing_of_the_matrix_is_copied_for_half_a_solve():
    """CPU devices use the factor in place."""
    n, mesh = 512, mesh_of(range(4))
    where = NamedSharding(mesh, P("x", None))
    factor = ms.cho_factor(jax.device_put(matrix("float64", n), where))
    b = jax.ShapeDtypeStruct((n, 2), np.float64, sharding=NamedSharding(mesh, P()))
    with jax.set_mesh(mesh):
        for run in (lambda f, b: f.solve_triangular(b), lambda f, b: f.dot_triangular(b)):
            compiled = jax.jit(run).lower(factor, b).compile()
            assert compiled.memory_analysis().temp_size_in_bytes < n * n * 8 / 4 / 4


def test_complex_triangles_have_a_real_diagonal():
    c = ms.cholesky(matrix("complex128"), lower=True)
    assert is_complex(c.dtype) and not np.any(np.diag(c).imag)


@pytest.mark.parametrize("devices", [1, 2])
def test_products_with_a_large_half_of_many_columns(devices):
    """Products that pack both factors leave the diagonal tile of the half as it is."""
    n, columns, mesh = 1024, 128, mesh_of(range(devices))
    a, b = matrix("float64", n), np.random.default_rng(2).standard_normal((n, columns))
    tri = np.linalg.cholesky(a)
    for storage in ("rows", "columns"):
        factor = ms.cho_factor(put_matrix(mesh, a, storage))
        for trans, turned in TURNED.items():
            y = factor.dot_triangular(b, trans)
            np.testing.assert_allclose(y, turned(tri) @ b, rtol=0, atol=1e-11)
            x = factor.solve_triangular(y, trans)
            np.testing.assert_allclose(x, b, rtol=0, atol=1e-11)
