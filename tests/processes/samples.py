"""Matrices, right-hand sides and comparisons that the cases share."""

import sys

import numpy as np
from begin import whole

DTYPES = ("float32", "float64", "complex64", "complex128")
SPECS = {"rows": ("x", None), "columns": (None, "x")}
RNG = np.random.default_rng(5)
BRIEF = "brief" in sys.argv


def chosen(options):
    """All of these, or the first one of brief cases."""
    return options[:1] if BRIEF else options


def matrix(n, dtype, kind="gen"):
    """A well-conditioned matrix of a kind."""
    a = RNG.standard_normal((n, n))
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * RNG.standard_normal((n, n))
    if kind == "sym":
        a = a + a.T
    if kind in ("pos", "her"):
        a = a + a.conj().T
    if kind == "pos":
        a = a @ a + n * np.eye(n)
    return (a + (4 * np.sqrt(n) * np.eye(n) if kind == "gen" else 0)).astype(dtype)


def half(a, lower):
    """A with NaN in the triangle that is not to be read."""
    other = np.triu(np.ones(a.shape, bool), 1)
    return np.where(other if lower else other.T, np.nan, a)


def sides(n, k, dtype):
    """Right-hand sides; a vector for k = 0."""
    b = RNG.standard_normal((n, k) if k else n)
    return (b + 1j * RNG.standard_normal(b.shape) if dtype.startswith("c") else b).astype(dtype)


def close(x, y, a=None, factor=50):
    """Expect x and y to be alike, relative to the condition of A."""
    x, y = whole(x), np.asarray(y)
    eps = float(np.finfo(x.dtype).eps)
    x, y = (z.astype(np.complex128) for z in (x, y))
    condition = 1.0 if a is None else np.linalg.cond(a.astype(np.complex128))
    error = np.linalg.norm(np.ravel(x - y)) / max(np.linalg.norm(np.ravel(y)), 1e-30)
    assert x.shape == y.shape and error <= factor * eps * condition, f"{x.shape} {y.shape} {error}"
