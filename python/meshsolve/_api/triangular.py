"""Linear systems with a sharded triangular matrix: ``solve_triangular``."""

import jax
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api.solve import solved
from meshsolve._api.types import OnFailure, Trans
from meshsolve._execute import dispatch
from meshsolve._library import ffi
from meshsolve._prepare import failures, leading, padding
from meshsolve._prepare.operands import (
    as_array,
    as_typed,
    check_rhs,
    check_square,
    check_trans,
    common_dtype,
    promoted,
)
from meshsolve._prepare.rows import Rows


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
    raises = failures.raises("solve_triangular", on_failure)
    given_b = b
    name = "solve_triangular"
    a, b = as_typed(name, "a", a), as_array(name, "b", b)
    n = check_square("solve_triangular", a)
    check_rhs("solve_triangular", b, n)
    kept = {"trans": code, "lower": lower, "unit_diagonal": unit_diagonal}
    kept |= {"on_failure": on_failure, "mesh": mesh}
    if (batch := leading.systems(solve_triangular, a, b, **kept)) is not None:
        return batch
    dtype = common_dtype("solve_triangular", "a and b", a, b)
    padding.check_mesh("solve_triangular", mesh)
    a, _ = padding.on_mesh("solve_triangular", a, mesh, dtype)
    order = n if a.shape[0] != n else 0
    op = ffi.trtrs(bool(lower), order, code, bool(unit_diagonal))
    op = op._replace(raises=raises)
    run = lambda b, own_b: dispatch.call(op, (a, b), (False, own_b))  # noqa: E731
    own_b = overwrite_b or b is not given_b or b.dtype != dtype
    return solved(run, promoted(b, dtype), own_b, a, vectors=True)[0]
