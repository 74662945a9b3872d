"""eigh of a pair of matrices: all types, storages, dtypes, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from allpairspy import AllPairs

import meshsolve as ms
from eigen_cases import ORDER, N, hermitian, wide
from helpers import (
    DTYPES,
    STORAGES,
    mesh_of,
    one_triangle,
    put,
    put_matrix,
)


def assert_pair(found, a, b, kind):
    w, v = map(wide, found)
    a, b = wide(a), wide(b)
    left, right = {1: (a, b), 2: (a @ b, np.eye(len(a))), 3: (b @ a, np.eye(len(a)))}[kind]
    size = np.abs(left).max() + np.abs(right).max() * np.abs(w).max()
    eps = np.finfo(found.eigenvectors.dtype).eps
    bar = 200 * len(a) * eps * np.linalg.cond(b)
    assert np.abs(left @ v - right @ v * w).max() <= bar * size * np.abs(v).max()
    metric = np.linalg.inv(b) if kind == 3 else b
    assert np.abs(v.conj().T @ metric @ v - np.eye(v.shape[1])).max() <= bar


@pytest.mark.parametrize(
    ("storage", "dtype", "axes", "kind", "lower"),
    list(AllPairs([STORAGES, DTYPES, ["auto", "explicit", None], [1, 2, 3], [True, False]])),
)
def test_pairs(storage, dtype, axes, kind, lower):
    a, x = hermitian(N, dtype), hermitian(N, dtype)[::-1]
    b = (x @ x.conj().T + N * np.eye(N)).astype(dtype)
    given = [one_triangle(m, lower) for m in (a, b)]
    if axes is not None:
        given = [put_matrix(mesh_of(ORDER, axes), m, storage) for m in given]
    expected = scipy.linalg.eigh(wide(a), wide(b), type=kind, eigvals_only=True)
    for wrap in (lambda f: f, jax.jit):
        found = wrap(lambda a, b: ms.eigh(a, b, type=kind, lower=lower))(*given)
        assert_pair(found, a, b, kind)
        bar = 100 * N * np.finfo(dtype).eps * np.linalg.cond(b) * np.abs(expected).max()
        np.testing.assert_allclose(found.eigenvalues, expected, rtol=0, atol=bar)
    part = ms.eigh(*given, type=kind, lower=lower, subset_by_index=(2, 4))
    np.testing.assert_array_equal(part.eigenvalues, ms.eigh(*given, type=kind, lower=lower)[0][2:5])
    assert_pair(part, a, b, kind)


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_some_eigenvectors_of_larger_pairs(kind):
    """From order 33 on others are not found."""
    a, x = hermitian(72, np.complex128), hermitian(72, np.complex128)[::-1]
    b = x @ x.conj().T + 72 * np.eye(72)
    part = ms.eigh(a, b, type=kind, subset_by_index=(30, 40), mesh=mesh_of(ORDER))
    assert_pair(part, a, b, kind)
    expected = scipy.linalg.eigh(a, b, type=kind, eigvals_only=True, subset_by_index=(30, 40))
    np.testing.assert_allclose(part.eigenvalues, expected, rtol=1e-10)


def test_pairs_on_a_mesh_that_does_not_divide_them():
    a, b = hermitian(7), np.eye(7) * 2 + 0.1 * hermitian(7)
    assert_pair(ms.eigh(a, b, mesh=mesh_of(ORDER)), a, b, 1)


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_derivatives_of_pairs(kind):
    """dw = v^H (dA - w dB) v for A v = w B v."""
    a, b = hermitian(8), np.eye(8) * 8 + hermitian(8)[::-1, ::-1]
    ta, tb = hermitian(8)[::-1, ::-1], hermitian(8)[:, ::-1] + hermitian(8)[::-1]
    ta, tb = ta + ta.T, tb + tb.T
    mesh, weights = mesh_of(range(2)), np.arange(8.0)
    value = lambda a, b: (ms.eigh(a, b, type=kind).eigenvalues * weights).sum()  # noqa: E731
    values = lambda t: scipy.linalg.eigh(a + t * ta, b + t * tb, type=kind)[0]  # noqa: E731
    step = 1e-6
    expected = ((values(step) - values(-step)) / (2 * step) * weights).sum()
    given = [put(mesh, x, "x", None) for x in (a, b, ta, tb)]
    found = jax.jit(lambda a, b, *t: jax.jvp(value, (a, b), t)[1])(*given)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    da, db = jax.jit(jax.grad(value, (0, 1)))(*given[:2])
    np.testing.assert_allclose((da * ta).sum() + (db * tb).sum(), expected, rtol=1e-6)


@pytest.mark.parametrize("storage", ["rows", "columns"])
@pytest.mark.parametrize("axes", ["auto", "explicit"])
@pytest.mark.parametrize("kind", [1, 2, 3])
def test_vectors_lie_as_a_does(storage, axes, kind):
    """Also if B is elsewhere."""
    a, b = hermitian(N), N * np.eye(N) + hermitian(N)[::-1, ::-1]
    given = put_matrix(mesh_of(ORDER, axes), a, storage)
    for other in (b, jnp.asarray(b), put_matrix(mesh_of(ORDER, axes), b, "columns")):
        found = ms.eigh(given, other, type=kind)
        assert found.eigenvectors.sharding.is_equivalent_to(given.sharding, 2)
        assert_pair(found, a, b, kind)


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ("float64", "float32"),
        ("float32", "float64"),
        ("float64", "complex64"),
        ("int64", "float32"),
    ],
)
def test_pairs_of_mixed_dtypes(of_a, of_b):
    """In the precision of the dtype that both promote to."""
    a = np.round(10 * hermitian(N)).astype(of_a)
    b = (np.round(hermitian(N)[::-1, ::-1]) + 20 * np.eye(N)).astype(of_b)
    found = ms.eigh(put(mesh_of(ORDER), a, "x", None), b)
    assert found.eigenvectors.dtype == jnp.result_type(a.dtype, b.dtype)
    assert_pair(found, a, b, 1)
    expected = scipy.linalg.eigh(wide(a), wide(b), eigvals_only=True)
    bar = 1000 * np.finfo(found.eigenvectors.dtype).eps
    np.testing.assert_allclose(found.eigenvalues, expected, rtol=0, atol=bar)


def test_pairs_that_are_none():
    a = np.eye(4)
    w, v = ms.eigh(a, -a)
    assert np.isnan(w).all() and np.isnan(v).all()
    message = (
        "^meshsolve.eigh: b: expected a positive definite matrix, got one whose leading minor "
    )
    with pytest.raises(np.linalg.LinAlgError, match=message + "of order 1 is not"):
        ms.eigh(a, -a, on_failure="raise")
    with pytest.raises(jax.errors.JaxRuntimeError, match="positive definite"):
        jax.block_until_ready(jax.jit(lambda a: ms.eigh(a, -a, on_failure="raise"))(a))
    with pytest.raises(ValueError, match="eigh: type: expected 1, 2 or 3, got 4"):
        ms.eigh(a, a, type=4)
    with pytest.raises(ValueError, match="eigh: type: expected 1, 2 or 3, got 7"):
        ms.eigh(a, type=7)
    with pytest.raises(ValueError, match="eigh: type: expected 1, 2 or 3, got a traced value"):
        jax.jit(lambda kind: ms.eigh(a, a, type=kind))(1)
    with pytest.raises(ValueError, match="eigh: on_failure: expected"):
        ms.eigh(a, a, on_failure="stop")
    with pytest.raises(ValueError, match="eigh: a: expected a square matrix"):
        ms.eigh(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(TypeError, match="eigh: a and b: expected dtypes that promote"):
        ms.eigh(a.astype(np.float16), a.astype(np.float16))
    for x, y in ((a, np.eye(3)), (a[None], a[None]), (a, a[None])):
        with pytest.raises(ValueError, match="eigh: b: expected one matrix"):
            ms.eigh(x, y)
