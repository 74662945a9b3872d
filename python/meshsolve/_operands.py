"""What users hand over, checked and brought to one dtype."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from meshsolve import _ffi
from meshsolve._errors import mistake, wrong_type

DTYPES = ("float32", "float64", "complex64", "complex128")


def as_array(x) -> jax.Array:
    """``x`` as a jax.Array."""
    _ffi.enter()
    return x if isinstance(x, jax.Array) else _converted(jnp.asarray, x)


def _converted(convert, x):
    try:
        if hasattr(x, "RANKS"):
            raise TypeError("a factor, which is what functions of factors take")
        return convert(x)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"meshsolve: expected an array, or what makes one, got {type(x).__name__}: {error}; "
            "give numbers in an array of JAX's or of NumPy's"
        ) from error


def as_typed(x) -> jax.Array | np.ndarray:
    """``x`` with a shape and a dtype of JAX's: a jax.Array or an array of NumPy's."""
    _ffi.enter()
    if isinstance(x, jax.Array):
        return x
    x = _converted(np.asarray, x)
    # Without 64-bit types JAX has 32-bit ones for them.
    return x.astype(jax.dtypes.canonicalize_dtype(x.dtype), copy=False)


def check_square(operation: str, a, argument: str = "a") -> int:
    """The order of a square matrix, or of the matrices of a batch."""
    if len(a.shape) < 2 or a.shape[-2] != a.shape[-1]:
        raise mistake(
            operation,
            argument,
            "a square matrix [n, n], or a batch of them",
            f"shape {a.shape}",
            "give as many rows as columns",
        )
    return a.shape[-1]


def check_rhs(operation: str, b, n: int) -> None:
    """Right-hand sides, or those of a batch, fit a matrix of order n."""
    if not b.shape or b.shape[-min(len(b.shape), 2)] != n:
        raise mistake(
            operation,
            "b",
            f"shape [{n}] or [{n}, k], to go with a of shape {(n, n)}",
            f"shape {b.shape}",
            "give one right-hand side per column",
        )


def check_trans(operation: str, trans) -> int:
    """Which of A, A^T, A^H is meant: 0, 1, 2."""
    codes = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}
    if not isinstance(trans, (int, str, np.integer)) or trans not in codes:
        raise mistake(
            operation,
            "trans",
            "0, 1 or 2",
            "a traced value" if isinstance(trans, Tracer) else repr(trans),
            "0 solves with A, 1 with its transpose, 2 with its conjugate transpose",
        )
    return codes[trans]


def common_dtype(operation: str, arguments: str, *arrays):
    """The dtype that all promote to, as jnp has it; integers become floating point."""
    dtype = jnp.result_type(*(x.dtype for x in arrays), 1.0)
    if dtype.name not in DTYPES:
        given = " and ".join(str(x.dtype) for x in arrays)
        raise wrong_type(
            operation,
            arguments,
            f"{'dtypes that promote' if len(arrays) > 1 else 'a dtype that promotes'} to one of "
            + ", ".join(DTYPES),
            f"{given}, which {'promote' if len(arrays) > 1 else 'promotes'} to {dtype}",
            "convert with .astype(jnp.float32)",
        )
    return dtype


def promoted(x, dtype) -> jax.Array:
    """``x`` in ``dtype``; itself if it is that already."""
    return x if x.dtype == dtype else x.astype(dtype)
