"""Operands of users: checks, and promotion to one dtype."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from meshsolve._execute import eager, meshes
from meshsolve._execute.dispatch import described, executor
from meshsolve._execute.rows import Rows
from meshsolve._library import ffi
from meshsolve._library.errors import mistake, wrong_type

DTYPES = ("float32", "float64", "complex64", "complex128")


def as_array(operation: str, argument: str, x) -> jax.Array:
    """``x`` as a jax.Array whose memory exists."""
    ffi.enter()
    expect_alive(operation, **{argument: x})
    return x if isinstance(x, jax.Array) else _converted(operation, argument, jnp.asarray, x)


def expect_alive(operation: str, **arguments) -> None:
    """Refuse arrays whose memory is gone: calls that use it end the process (JAX 0.10.2)."""
    for argument, x in arguments.items():
        if meshes.is_gone(x):
            raise mistake(
                operation,
                argument,
                "an array that still has its memory",
                f"one of shape {x.shape} that was donated to an earlier call, or deleted",
                "use what that call returned, or make that call without overwrite_a, overwrite_b "
                "or donate_argnums, which copies",
            )


def _converted(operation: str, argument: str, convert, x):
    expected, got = "an array, or what makes one", type(x).__name__
    remedy = "give numbers in an array of JAX's or of NumPy's"
    if isinstance(x, Rows):
        remedy = "it may be the matrix of a function that has mesh="
    elif hasattr(x, "RANKS"):
        remedy = "a factor is for its own methods, and for lu_solve or cho_solve"
    elif hasattr(x, "todense"):
        expected, got = "a dense array", f"a sparse one, {got}"
        remedy = "give its todense(), or use jax.experimental.sparse.linalg.spsolve on one device"
    elif x is not None and not isinstance(x, str | bytes):
        try:
            x = convert(x)
        except (TypeError, ValueError) as error:
            got = f"{got} ({error})"
            raise wrong_type(operation, argument, expected, got, remedy) from error
        if x.dtype.kind not in "OSUMm":
            return x
        got = f"{got} with elements of type {x.dtype}"
    raise wrong_type(operation, argument, expected, got, remedy)


def as_typed(operation: str, argument: str, x) -> jax.Array | np.ndarray | Rows:
    """``x``, whose memory exists, with a shape and a dtype of JAX's: a jax.Array, a NumPy array, or
    Rows.
    """
    ffi.enter()
    expect_alive(operation, **{argument: x})
    if isinstance(x, jax.Array | Rows):
        return x
    x = _converted(operation, argument, np.asarray, x)
    # Without 64-bit types JAX replaces them by 32-bit ones.
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


def check_any(operation: str, a, argument: str = "a") -> int:
    """The rows of a matrix, or of the matrices of a batch."""
    if len(a.shape) < 2:
        raise mistake(
            operation,
            argument,
            "a matrix [m, n], or a batch of them",
            f"shape {a.shape}",
            "give a vector as one column, a[:, None]",
        )
    return a.shape[-2]


def check_rhs(operation: str, b, n: int, argument: str = "b", of_a=None) -> None:
    """Refuse right-hand sides, or a batch of them, that do not fit a matrix of n rows, whose shape
    is ``of_a`` or square.
    """
    if not b.shape or b.shape[-min(len(b.shape), 2)] != n:
        raise mistake(
            operation,
            argument,
            f"shape [{n}] or [{n}, k], to go with a of shape {of_a or (n, n)}",
            f"shape {b.shape}",
            "give one right-hand side per column",
        )


def check_trans(operation: str, trans) -> Literal[0, 1, 2]:
    """The code of A, A^T, A^H: 0, 1, 2."""
    codes: dict[Any, Literal[0, 1, 2]] = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}
    if not isinstance(trans, (int, str, np.integer)) or trans not in codes:
        raise mistake(
            operation,
            "trans",
            "0, 1 or 2",
            described(trans),
            "0 solves with A, 1 with its transpose, 2 with its conjugate transpose",
        )
    return codes[trans]


def common_dtype(operation: str, arguments: str, *arrays):
    """The dtype that all promote to, as in jnp; integers become floating point."""
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
    """``x`` in ``dtype``; itself if it has that dtype already."""
    return x if x.dtype == dtype else x.astype(dtype)


def not_negative(operation: str, argument: str, x, dtype, remedy: str) -> jax.Array:
    """Real numbers that are not negative, which may be traced."""
    if executor(x) is eager:
        given = np.asarray(x)
        if given.dtype.kind not in "biuf" or not np.all((given >= 0) & np.isfinite(given)):
            expected = "real numbers that are not negative"
            raise mistake(operation, argument, expected, repr(x), remedy)
    return jnp.asarray(x, dtype)


def real_dtype_of(*arrays) -> np.dtype:
    """The dtype of real numbers for arrays, in floating point."""
    dtype = jnp.result_type(*(x.dtype for x in arrays), 1.0)
    return jnp.finfo(jax.dtypes.canonicalize_dtype(dtype)).dtype
