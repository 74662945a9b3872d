"""Systems for tests of lstsq, and what their solutions have to meet."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers import normal

ORDER = (2, 0, 3, 1)


M, N = 40, 6


def system(dtype, columns=(), m=M, n=N):
    rng = np.random.default_rng(m + n)
    return normal(rng, (m, n), dtype), normal(rng, (m, *columns), dtype)


def wide(x):
    return np.asarray(x).astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def assert_solved(found, a, b):
    """The normal equations, as LAPACK tests them, the residuals, and info."""
    a, b, x = wide(a), wide(b), wide(found.x)
    eps = np.finfo(found.residuals.dtype).eps
    rest = b - a @ x
    size = np.linalg.norm(a, 1) * np.linalg.norm(b) * max(a.shape) * eps
    assert np.linalg.norm(a.conj().T @ rest) <= 10 * size
    squares = np.sum(np.abs(rest) ** 2, axis=0)
    assert found.residuals.shape == squares.shape
    bound = 10 * max(a.shape) * eps * np.sum(np.abs(b) ** 2, axis=0)
    assert np.all(np.abs(np.asarray(found.residuals) - squares) <= bound)
    assert int(found.info) == 0 and x.shape == (a.shape[1], *b.shape[1:])


def by_normal_equations(a, b):
    """(x, residuals) as jnp finds them, for derivatives."""
    adjoint = a.conj().T
    x = jnp.linalg.solve(adjoint @ a, adjoint @ b)
    rest = b - a @ x
    return x, jnp.sum((rest.conj() * rest).real, axis=0)


def weighed(lstsq):
    """A real number of x and the residuals."""

    def weigh(a, b):
        x, residuals = lstsq(a, b)[:2]
        weights = jnp.arange(1.0, 1.0 + residuals.size).reshape(residuals.shape)
        return jnp.sum(jnp.abs(x) ** 2) + jnp.sum(residuals * weights)

    return weigh


def assert_close(found, expected, tolerance=1e-11):
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for x, y in pairs:
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(y).max())
