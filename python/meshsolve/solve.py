"""Linear systems with a sharded matrix: ``solve``."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer

from meshsolve import _posv
from meshsolve._errors import mistake, wrong_type

_DTYPES = ("float32", "float64", "complex64", "complex128")


class SolveInfo(NamedTuple):
    """What ``solve(..., return_info=True)`` says beside the solution.

    Attributes:
      info: int32 scalar. 0: solved. i > 0: the leading minor of order i of A is not positive
        definite and the solution is NaN (LAPACK's ``info`` of ``potrf``).
    """

    info: jax.Array


def solve(
    a,
    b,
    lower: bool = False,
    *,
    assume_a: str = "gen",
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    return_info: bool = False,
):
    """Solve A X = B with all devices that hold A, in the memory of A.

    The call of ``jax.scipy.linalg.solve`` for a matrix that is sharded by rows over one mesh axis,
    ``P('x', None)``; mesh and spec are read from the array. Nothing is gathered: on each device the
    call needs its shard, a little scratch, and the right-hand sides. Other shardings of A are right
    too but are first resharded by XLA to rows, which takes a second copy.

    Works eagerly and inside ``jax.jit``, on meshes with Auto and with Explicit axes. Not yet
    differentiable.

    Args:
      a: [n, n], float32, float64, complex64 or complex128; Hermitian positive definite. Only one
        triangle is read. n must be divisible by the number of devices on the axis.
      b: [n] or [n, k] right-hand sides in any sharding, on A's devices or elsewhere.
      lower: whether A's lower triangle is read instead of its upper one.
      assume_a: "pos" ("positive definite"); nothing else in this version.
      overwrite_a: donate A: the call then makes no copy of it and A is deleted. Without, one copy
        is made. Has no effect inside ``jax.jit``, where XLA decides about copies.
      overwrite_b: donate B, likewise.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      return_info: also return a ``SolveInfo``.

    Returns:
      x of the shape and sharding of b (replicated over A's devices if b does not lie there); NaN
      where A is not positive definite. With ``return_info`` the pair (x, SolveInfo).

    Raises:
      ValueError: wrong shapes, an unknown ``assume_a``, n not divisible by the devices.
      TypeError: a dtype that cannot be used.
      jax.errors.JaxRuntimeError: a device did not take part in the call; see ``set_timeout``.

    Source: right-looking Cholesky by tile columns with lookahead (DESIGN.md); ``info`` is LAPACK's.
    """
    del check_finite
    if assume_a not in ("pos", "positive definite"):
        raise mistake(
            "solve",
            "assume_a",
            '"pos"',
            repr(assume_a),
            "this version solves positive definite systems only; for others gather the matrix and "
            "use jax.scipy.linalg.solve",
        )
    given_a, given_b = a, b
    a, b = _operands(a, b)
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    if b.size == 0:
        x, info = b, jnp.int32(0)
    elif isinstance(a, Tracer) or isinstance(b, Tracer):
        x, info = _posv.traced(a, b, lower)
    else:
        # An operand made here (promoted, moved from NumPy, reshaped) is nobody else's.
        own_a, own_b = overwrite_a or a is not given_a, overwrite_b or b is not given_b
        x, info = _posv.eager(a, b, lower, own_a, own_b)
    x = x[:, 0] if vector else x
    return (x, SolveInfo(info)) if return_info else x


def _operands(a, b):
    """Check shapes and dtypes and promote to one dtype, as jnp would."""
    a, b = (x if isinstance(x, jax.Array) else jnp.asarray(x) for x in (a, b))
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise mistake(
            "solve",
            "a",
            "a square matrix [n, n]",
            f"shape {a.shape}",
            "batches: jax.vmap is not supported yet, loop over them",
        )
    n = a.shape[0]
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise mistake(
            "solve",
            "b",
            f"shape [{n}] or [{n}, k], to go with a of shape {a.shape}",
            f"shape {b.shape}",
            "give one right-hand side per column",
        )
    dtype = jnp.result_type(a.dtype, b.dtype, 1.0)
    if dtype.name not in _DTYPES:
        raise wrong_type(
            "solve",
            "a and b",
            "dtypes that promote to one of " + ", ".join(_DTYPES),
            f"{a.dtype} and {b.dtype}, which promote to {dtype}",
            "convert with .astype(jnp.float32)",
        )
    return (x if x.dtype == dtype else x.astype(dtype) for x in (a, b))
