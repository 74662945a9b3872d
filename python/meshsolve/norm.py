"""Norms of a sharded matrix: ``norm``."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve import _batch, _dispatch, _factor, _ffi, _padding
from meshsolve._errors import mistake
from meshsolve._operands import as_typed, check_square, common_dtype
from meshsolve._rows import Rows

_NAMES = {1: "1", np.inf: "inf", "fro": "fro", None: "fro"}


def norm(
    a: ArrayLike | Rows, ord: int | float | str | None = None, *, mesh: Mesh | None = None
) -> jax.Array:
    """A norm of A with all devices that hold it: the largest column or row sum, or Frobenius'.

    ``jnp.linalg.matrix_norm`` for these norms; shardings and ``mesh`` are those of
    ``meshsolve.solve``. Nothing of A is moved, copied or written, whether it is sharded by rows or
    by columns, row-major or column-major (which inside ``jax.jit`` XLA copies). Sums are binary64
    whatever A is, and no square over- or underflows.

    Derivatives are of every order, and a gradient is sharded as A is. That of Frobenius' norm is
    NaN where A is zero. That of the others is that of the largest sum; where several are, which is
    no smooth place, they have equal shares, and an entry that is zero has none, as in jnp.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128.
      ord: 1: the largest sum of moduli over a column; ``jnp.inf``: over a row; "fro" or None: the
        root of the sum of all squares.
      mesh: the devices to work on, for an A that is not sharded over them whatever n.

    Returns:
      A real scalar (one for each matrix of a batch), replicated over A's devices; 0 if n = 0, NaN
      if A has a NaN, infinite only where the norm itself is too large for its dtype.

    Raises:
      ValueError: a is not square, another ``ord``, n not divisible by the devices.
      TypeError: a dtype that cannot be used.

    Source: LAPACK's ``lange``; squares as in Blue, ACM Trans. Math. Softw. 4, 1978 (DESIGN.md).

    Examples:
      >>> print(ms.norm(a, 1), ms.norm(a, jnp.inf), ms.norm(a, "fro").round(3))
      10.0 10.0 11.314
    """
    name = _name(ord)
    a = as_typed("norm", "a", a)
    n = check_square("norm", a)
    if _batch.has_leading((a, 2)):
        return _batch.over("norm", functools.partial(norm, ord=ord, mesh=mesh), (a, 2))
    dtype = common_dtype("norm", "a", a)
    _padding.check_mesh("norm", mesh)
    a, _ = _padding.on_mesh("norm", a, mesh, dtype)
    if n == 0:
        return jnp.zeros((), _factor.real_dtype(dtype))
    op = _ffi.lange(name, n if a.shape[0] != n else 0)
    (value,) = _dispatch.call(op, (a,), (False,))
    return value


def _name(ord: int | float | str | None) -> str:
    """The norm as the library calls it."""
    known = ord is None or isinstance(ord, (int, float, str, np.number))
    if not known or ord not in _NAMES:
        raise mistake(
            "norm",
            "ord",
            '1, jnp.inf, "fro" or None',
            "a traced value" if isinstance(ord, Tracer) else repr(ord),
            "others, of singular values or least sums, are in jnp.linalg.norm",
        )
    return _NAMES[ord]
