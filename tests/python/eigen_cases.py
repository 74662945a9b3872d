"""Hermitian matrices for tests of eigenvalues and eigenvectors."""

import numpy as np
import scipy.linalg

from helpers import is_complex, normal

N = 24
ORDER = [2, 0, 3, 1]


def wide(x) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(np.complex128 if is_complex(x.dtype) else np.float64)


def hermitian(n: int, dtype=np.float64) -> np.ndarray:
    x = normal(np.random.default_rng(n), (n, n), dtype)
    return (x + x.conj().T) / 2


def with_values(values):
    q = np.linalg.qr(np.random.default_rng(1).standard_normal((len(values),) * 2))[0]
    a = (q * values) @ q.T
    return (a + a.T) / 2


def toeplitz(n: int):
    return scipy.linalg.toeplitz([2.0, 1.0] + [0.0] * (n - 2))


def glued(n: int):
    """Blocks of W21+."""
    a = np.diag(np.abs(np.arange(n) % 21 - 10.0))
    off = np.where(np.arange(1, n) % 21, 1.0, 1e-14)
    return a + np.diag(off, 1) + np.diag(off, -1)


HARD = 84
T = np.arange(HARD) / (HARD - 1)
EPS = np.finfo(np.float64).eps
SIGNS = np.where(np.arange(HARD) % 3, 1, -1)
KINDS = {
    "evenly": lambda: with_values(SIGNS * (EPS + T * (1 - EPS))),
    "geometric": lambda: with_values(SIGNS * EPS**T),
    "clustered at 1": lambda: with_values(SIGNS * np.where(T < 1, 1, EPS)),
    "clustered at eps": lambda: with_values(SIGNS * np.where(T > 0, EPS, 1)),
    "near overflow": lambda: with_values(SIGNS * T) * 1e300,
    "near underflow": lambda: with_values(SIGNS * T) * 1e-300,
    "zero": lambda: np.zeros((HARD, HARD)),
    "identity": lambda: np.eye(HARD),
    "diagonal": lambda: np.diag(SIGNS * T),
    "rank 1": lambda: np.ones((HARD, HARD)),
    "glued": lambda: glued(HARD),
    "graded": lambda: with_values(SIGNS * T) * np.outer(10 ** (-20 * T), 10 ** (-20 * T)),
}
