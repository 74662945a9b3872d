"""Least squares with sharded matrices: ``lstsq``."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api.types import OnFailure
from meshsolve._execute import dispatch, eager, meshes
from meshsolve._library import failures
from meshsolve._library.errors import no_answer
from meshsolve._library.ffi import Operation, operation
from meshsolve._prepare import leading, padding
from meshsolve._prepare.operands import (
    as_array,
    as_typed,
    check_rhs,
    common_dtype,
    not_negative,
    promoted,
    real_dtype_of,
)
from meshsolve._prepare.pipeline import Call, Request, run
from meshsolve._rules import minimum_norm


class LeastSquares(NamedTuple):
    """The result of ``lstsq``. A pytree.

    Attributes:
      x: [n] or [n, k]: the solutions, on all devices of A.
      residuals: real, a scalar or [k]: the sums |b - A x|^2, as in ``jnp.linalg.lstsq``.
      info: int32 scalar. 0: solved. i > 0: column i of A is not finite, or depends on the columns
        before it: |R_ii| is at most min(m, n sqrt(m)) eps times its norm. Of a wide A these are
        rows, and R is that of A^H. x and the residuals are then NaN.

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
    ridge: ArrayLike | None = None,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> LeastSquares:
    """Minimise |B - A X|^2, plus ``ridge`` |X|^2, for an A of full rank.

    A tall A works by the triangle R of A = Q R: every device reads its rows once. The call neither
    writes nor copies A. In addition to A and B a GPU needs n (n + k) elements and some rows of A
    and B. Threads share triangles of half of that (docs/least-squares.md). The normal equations
    hold as for LAPACK's ``gels``. With a ridge term R is that of [A; sqrt(ridge) I], so the
    condition number of A is not squared.

    Of a wide A, with fewer rows than columns, X is the solution of A X = B with the least norm. It
    comes from a QR factorisation of A^H, a copy. An A by rows lies as it has to for that.

    Derivatives of x and of the residuals are of every order, in both modes, from the one R. A
    gradient is sharded as A. They use R alone (semi-normal equations, and a step of refinement),
    and are about as accurate as x (docs/least-squares.md). Under ``jax.vmap`` right-hand sides
    become columns of one call; matrices are reduced one after another.

    Args:
      a: [m, n] in any sharding, or a batch [..., m, n]; float32, float64, complex64 or complex128.
        A tall one by columns or by blocks is moved to rows, a copy. Elsewhere than on CPU devices
        see docs/gpu.md.
      b: [m] or [m, k], or a batch [..., m, k]. Where it is not sharded as the rows of A, it is
        moved.
      ridge: None, or the weight of |X|^2, a real number or a batch of them; it may be traced.
      on_failure: "nan": x and the residuals are NaN if a column depends on others, and info tells
        which; "raise": an error instead. Traced calls say column where they mean a row of a wide A.
      mesh: the devices to work on, for an A that is not sharded over them, whatever m.

    Returns:
      A ``LeastSquares`` (x, residuals, info).

    Raises:
      ValueError: a negative ``ridge``, m not divisible by the devices and no ``mesh``, shapes
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
    given, sides = _shown("a", a), _shown("b", b)
    with meshes.own_context(given):
        weight = ridge_of("lstsq", ridge, given, sides)
        if len(given.shape) > 1 and given.shape[-2] < given.shape[-1]:
            return _of_wide(given, sides, None if ridge is None else weight, on_failure, mesh)
        op = operation("gels", "lstsq")
        call = Call(op, ("a", "ridge", "b"), _result, on_failure=on_failure, mesh=mesh)
        return run(call, (given, weight, sides))


def _shown(name: str, x) -> Any:
    """An operand with a shape and a dtype."""
    return x if hasattr(x, "dtype") else as_typed("lstsq", name, x)


def ridge_of(public: str, ridge, a, b) -> jax.Array:
    """The ridge term as an array of A's precision."""
    remedy = "give the weight of |x|^2, or None"
    weight = 0.0 if ridge is None else ridge
    return not_negative(public, "ridge", weight, real_dtype_of(a, b), remedy)


def _result(request: Request, results) -> LeastSquares:
    x, residuals, info = results
    del request
    return LeastSquares(x, residuals[..., 0] if x.ndim == 1 else residuals, info)


def _of_wide(a, b, ridge, on_failure: OnFailure, mesh: Mesh | None) -> LeastSquares:
    """The same for fewer rows than columns."""
    raises = failures.raises("lstsq", on_failure)
    a, b = as_array("lstsq", "a", a), as_array("lstsq", "b", b)
    check_rhs("lstsq", b, a.shape[-2], of_a=a.shape[-2:])
    dtype = common_dtype("lstsq", "a and b", a, b)
    a, b = promoted(a, dtype), promoted(b, dtype)
    padding.check_mesh("lstsq", mesh)
    # Eager calls look at info.
    is_eager = dispatch.executor(a, b, ridge) is eager
    op = operation("geqrf", "lstsq", raises=raises and not is_eager)
    one = functools.partial(_one_wide, op, mesh)
    operands = [(a, 2), (b, min(b.ndim, 2)), *([] if ridge is None else [(ridge, 0)])]
    if a.ndim > 2 or b.ndim > 2 or (ridge is not None and ridge.ndim):
        found = leading.over("lstsq", one, *operands)
    else:
        found = one(*(x for x, _ in operands))
    if raises and is_eager and found.info.size and (row := int(found.info.max())):
        got = f"row {row} depends on those before it, or is not finite"
        raise no_answer("lstsq", "full-rank", got, row)
    return found


def _one_wide(op: Operation, mesh: Mesh | None, a, b, ridge=None) -> LeastSquares:
    n, columns = a.shape[1], b if b.ndim == 2 else b[:, None]
    if not len(a) or not columns.shape[1]:
        zeros = jnp.zeros(columns.shape[1], real_dtype_of(a))
        x, residuals, info = jnp.zeros((n, columns.shape[1]), a.dtype), zeros, jnp.int32(0)
    else:
        a, columns = padding.wide_on_mesh("lstsq", a, columns, mesh)
        x, residuals, _, info = minimum_norm.found(op, a, columns, ridge)
        x = x[:n]
    if b.ndim == 1:
        x, residuals = x[:, 0], residuals[0]
    return LeastSquares(x, residuals, info)
