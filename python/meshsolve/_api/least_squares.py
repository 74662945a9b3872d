"""Least squares with tall sharded matrices: ``lstsq``."""

from typing import NamedTuple

import jax
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api.types import OnFailure
from meshsolve._library.ffi import operation
from meshsolve._prepare.pipeline import Call, Request, run


class LeastSquares(NamedTuple):
    """The result of ``lstsq``. A pytree.

    Attributes:
      x: [n] or [n, k]: the solutions, on all devices of A.
      residuals: real, a scalar or [k]: the sums |b - A x|^2, as in ``jnp.linalg.lstsq``.
      info: int32 scalar. 0: solved. i > 0: column i of A is not finite, or depends on the columns
        before it: |R_ii| is at most min(m, n sqrt(m)) eps times its norm. x and the residuals are
        then NaN.

    Examples:
      >>> x, residuals, info = ms.lstsq(a, b)
      >>> print(x.round(3), int(info))
      [0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1] 0
    """

    x: jax.Array
    residuals: jax.Array
    info: jax.Array


def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    *,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> LeastSquares:
    """Minimise |B - A X| for a tall A whose rows are distributed.

    By the triangle R of A = Q R: every device reads its rows once. The call neither writes nor
    copies A. In addition to A and B each thread (or GPU) needs n (n + k) elements, and some rows of
    A and B. The normal equations hold as for LAPACK's ``gels``.

    Derivatives of x and of the residuals are of every order, in both modes, from the one R. A
    gradient is sharded as A. They use R alone (semi-normal equations), so their relative error
    grows with the square of A's condition number. Under ``jax.vmap`` right-hand sides become
    columns of one call; matrices are reduced one after another.

    Args:
      a: [m, n] with m >= n in any sharding, or a batch [..., m, n]; float32, float64, complex64 or
        complex128. By columns or by blocks it is moved to rows, a copy. Elsewhere than on CPU
        devices see docs/gpu.md.
      b: [m] or [m, k], or a batch [..., m, k]. Where it is not sharded as the rows of A, it is
        moved.
      on_failure: "nan": x and the residuals are NaN if a column depends on others, and info tells
        which; "raise": an error instead.
      mesh: the devices to work on, for an A that is not sharded over them, whatever m.

    Returns:
      A ``LeastSquares`` (x, residuals, info).

    Raises:
      ValueError: fewer rows than columns, m not divisible by the devices and no ``mesh``, shapes
        that do not fit.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: with ``on_failure="raise"``, if a column depends on others.

    Source: Demmel, Grigori, Hoemmen and Langou, SIAM J. Sci. Comput. 34, 2012; LAPACK's ``tpqrt``
    (docs/design/algorithms.md).

    Examples:
      >>> t = jnp.linspace(0.0, 1.0, 8)
      >>> line = jax.device_put(jnp.stack([t, t**0], 1), NamedSharding(mesh, P("x", None)))
      >>> print(ms.lstsq(line, 2 * t + 1).x.round(3))
      [2. 1.]
    """
    call = Call(operation("gels", "lstsq"), result=_result, on_failure=on_failure, mesh=mesh)
    return run(call, (a, b))


def _result(request: Request, results) -> LeastSquares:
    x, residuals, _, info = results
    del request
    return LeastSquares(x, residuals[..., 0] if x.ndim == 1 else residuals, info)
