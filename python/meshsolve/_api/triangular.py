"""Linear systems with a sharded triangular matrix: ``solve_triangular``."""

import jax
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api.types import OnFailure, Trans
from meshsolve._execute.rows import Rows
from meshsolve._library.ffi import operation
from meshsolve._prepare.operands import check_trans
from meshsolve._prepare.pipeline import Call, run


def solve_triangular(
    a: ArrayLike | Rows,
    b: ArrayLike,
    trans: Trans = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    *,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> jax.Array:
    """Solve A X = B, A^T X = B or A^H X = B, A triangular, with all devices that hold A.

    The signature is that of ``jax.scipy.linalg.solve_triangular``; shardings and ``mesh`` are those
    of ``meshsolve.solve``. The call moves, copies and writes nothing of A, by rows or by columns,
    row-major or column-major. Inside ``jax.jit`` XLA copies a column-major A. Derivatives are of
    every order and in both modes; the gradient with respect to A is zero outside of its triangle.
    ``jax.vmap`` is as for ``meshsolve.solve``.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128. Only one
        triangle is read.
      b: [n], [n, k] or [..., n, k] right-hand sides in any sharding, on A's devices or elsewhere.
      trans: 0 or "N", 1 or "T", 2 or "C": solve with A, A^T, A^H.
      lower: whether A is its lower triangle instead of its upper one.
      unit_diagonal: the diagonal is all ones, and not read.
      overwrite_b: donate B.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      on_failure: "nan", or "raise" where A is singular; see ``meshsolve.solve``.
      mesh: the devices to solve on, for an A that is not sharded over them, whatever n.

    Returns:
      x of the shape and sharding of b, replicated over A's devices if b is elsewhere. x is NaN if
      an entry of the diagonal is zero, or subnormal next to others that are not.

    Raises:
      ValueError: wrong shapes or ``trans``, n not divisible by the devices.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: substitution by tile columns; the owner of each column solves for it
    (docs/design/algorithms.md).

    Examples:
      >>> x = ms.solve_triangular(a, b, lower=True)
      >>> print(x[:3].round(3))
      [0.333 0.222 0.148]
    """
    del check_finite
    code = check_trans("solve_triangular", trans)
    how = {"lower": bool(lower), "unit_diagonal": bool(unit_diagonal), "trans": code}
    op = operation("trtrs", "solve_triangular", **how)
    call = Call(op, on_failure=on_failure, mesh=mesh)
    return run(call, (a, b), (False, bool(overwrite_b)))
