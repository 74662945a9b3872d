"""Matrices for tests of qr, and the ratios of their factors."""

import jax
import numpy as np
import scipy.linalg
from jax.sharding import NamedSharding

from helpers import normal

ORDER = (2, 0, 3, 1)


def matrix(shape, dtype=np.float64):
    return normal(np.random.default_rng(sum(shape)), shape, dtype)


def eps_of(x):
    return np.finfo(x.dtype).eps


def assert_factors(q, r, a, same_signs=True):
    """The ratios of LAPACK's tests, and LAPACK's Q and R."""
    q, r, a = map(np.asarray, (q, r, a))
    (m, n), least = a.shape, min(a.shape)
    eps = eps_of(a) * max(m, n)
    assert q.shape == (m, least) and r.shape == (least, n)
    assert np.all(np.tril(r, -1) == 0)
    assert np.linalg.norm(q @ r - a, 1) <= 10 * eps * np.linalg.norm(a, 1)
    assert np.linalg.norm(q.conj().T @ q - np.eye(least), 1) <= 10 * eps
    if same_signs:
        expected = scipy.linalg.qr(a, mode="r")[0][:least]
        assert np.abs(expected - r).max() <= 1e3 * eps * np.abs(a).max()


def put(a, mesh, spec):
    """A in a sharding, if it can have that."""
    for size, entry in zip(a.shape, tuple(spec) + (None,) * 2, strict=False):
        if entry is not None and size % mesh.size:
            return None
    return jax.device_put(a, NamedSharding(mesh, spec))
