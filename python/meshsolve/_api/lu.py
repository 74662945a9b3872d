"""LU factors of sharded matrices: ``lu_factor``, ``lu_solve``, ``det``, ``slogdet``."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api import factors
from meshsolve._api.types import Engine, OnFailure, Trans
from meshsolve._execute import dispatch, eager, rectangles
from meshsolve._execute.rows import Rows
from meshsolve._execute.typed import replicated
from meshsolve._library import failures
from meshsolve._library.errors import mistake, wrong_type
from meshsolve._library.ffi import Operation, operation
from meshsolve._prepare.operands import (
    as_array,
    as_typed,
    check_trans,
    common_dtype,
    expect_alive,
    promoted,
    real_dtype_of,
)
from meshsolve._prepare.pipeline import Call, Request, run


class SlogdetResult(NamedTuple):
    """The determinant as sign * exp(logabsdet), as ``jnp.linalg.slogdet`` gives it.

    A pytree; its derivatives are those of ``slogdet``.

    Attributes:
      sign: scalar of A's dtype: 1, -1, a complex number of modulus 1, or 0 if A is singular.
      logabsdet: real scalar: the logarithm of |det A|; -inf if A is singular.

    Examples:
      >>> ms.slogdet(a).sign.item()
      1.0
    """

    sign: jax.Array
    logabsdet: jax.Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["work", "pivots", "info", "anorm"],
    meta_fields=["n", "storage", "engine"],
)
@dataclasses.dataclass(frozen=True, repr=False)
class LUFactor(factors.Pair):
    """The factors P A = L U of a matrix, in the solver's layout; ``lu_factor`` makes it.

    A pytree: it passes in and out of ``jax.jit``. You can save and restore its leaves, also as
    NumPy arrays. It unpacks to scipy's pair, ``lu, piv = factor``, also by index and ``len``; lu is
    a new array each time.

    Its methods have derivatives of every order, which use the same factor: the tangent of ``work``
    is that of A, not of L and U. So the pair has no derivatives, and a request for them is a
    ``ValueError``. Under ``jax.vmap`` right-hand sides of ``solve`` become columns of one call.
    Over matrices ``lu_factor`` gives a batch of factors, whose methods work on one factor after
    another.

    Attributes:
      work: [m, m] in the solver's layout, m >= n (larger if A was padded for its mesh). It is the
        transpose of scipy's ``lu``, sharded by rows. If ``storage`` is "column-major", it is ``lu``
        itself, sharded by columns. On CPU devices it does not depend on the number of devices. On
        several CUDA devices the distribution of columns depends on their number, kind and engine:
        use it on as many of the same kind.
      pivots: int32 [m], replicated: row i of A was interchanged with row pivots[i], in order.
      info: int32 scalar. 0, or i > 0: U[i-1, i-1] is zero, so that A is singular, or not finite.
        Solutions are then NaN.
      anorm: real scalar: the 1-norm of A, for ``rcond``; NaN if the factor stands for a pair.
      n: order of A.
      storage: "column-major" if A was sharded by columns and column-major in memory. "rectangle" if
        A was not square: work is then scipy's ``lu``, and n the shorter side. Else "rows".
      engine: "", or the engine that ``lu_factor`` got, or "scalapack" over several processes. It
        then decides the layout of ``work``.

    Examples:
      >>> factor = ms.lu_factor(a)
      >>> x, inverse = factor.solve(b), factor.inv()
      >>> round(float(factor.det())), 0 < float(factor.rcond()) < 1
      (1280, True)
    """

    work: jax.Array
    pivots: jax.Array
    info: jax.Array
    anorm: jax.Array
    n: int
    storage: str
    engine: str = ""

    RANKS: ClassVar[dict[str, int]] = {"work": 2, "pivots": 1, "info": 0, "anorm": 0}

    def solve(self, b: ArrayLike, trans: Trans = 0, *, overwrite_b: bool = False) -> jax.Array:
        """X with A X = B (``trans`` 0), A^T X = B (1) or A^H X = B (2). B has shape [n] or [n, k];
        X is NaN if A is singular. See ``lu_solve``.
        """
        return _solved(self, b, trans, overwrite_b, "LUFactor.solve")

    def det(self) -> jax.Array:
        """The determinant of A, a scalar of its dtype; 0 if A is singular. It over- and underflows
        where ``slogdet`` does not. Derivatives are those of ``meshsolve.det``.
        """
        return self._determinant("LUFactor.det", False)[0]

    def slogdet(self) -> SlogdetResult:
        """Sign and logarithm of the determinant of A; (0, -inf) if A is singular."""
        return SlogdetResult(*self._determinant("LUFactor.slogdet", True)[1:])

    def rcond(self) -> jax.Array:
        """An estimate of the reciprocal of A's condition number, 1 / (norm1(A) norm1(A^-1)).

        A real scalar, near 1 if A is well conditioned; X of ``solve`` loses about -log10(rcond) of
        its digits. A few solves for 4 vectors each give an estimate of norm1(A^-1). Except for
        rounding it is never too large, and it is seldom below half of the norm. So the result is
        the true number or slightly larger. It is 0 if A is singular, or if the condition number or
        norm1(A) overflows. It is NaN if A has an entry that is not finite, and 1 if n = 0. Its
        derivative is 0.

        Source: Higham and Tisseur, SIAM J. Matrix Anal. Appl. 21 (2000), Algorithm 2.4; the
        estimate of LAPACK's ``gecon``.
        """
        op = operation("gecon", "LUFactor.rcond", storage=self.storage)
        return factors.used(self, Call(op, ("work", "pivots", "info", "anorm")))

    def _determinant(self, public: str, logarithmic: bool):
        op = operation("det", public, storage=self.storage, logarithmic=logarithmic)
        return factors.used(self, Call(op, ("work", "pivots"), _parts))

    def inv(self) -> jax.Array:
        """The inverse of A [n, n]; NaN if A is singular.

        A new array, sharded as ``work``. If A was padded it is on one device, which needs two more
        arrays of that size meanwhile. See ``meshsolve.inv``.
        """
        op = operation("getri", "LUFactor.inv", storage=self.storage)
        return factors.used(self, Call(op, ("work", "pivots", "info")))

    def __iter__(self) -> Iterator[jax.Array]:
        """Scipy's pair (lu, piv): L below the diagonal of lu, U on and above it; row i of A was
        interchanged with row piv[i]. lu [n, n] is a new array, sharded by rows, or as ``work`` if
        that is column-major. If A was padded it is on one device, which needs two more arrays of
        that size meanwhile.
        """
        if self.storage == rectangles.STORAGE:
            expect_alive("LUFactor.__iter__", **{name: getattr(self, name) for name in self.RANKS})
            return iter((self.work, self.pivots))
        op = operation("lu_to_scipy", "lu_factor", storage=self.storage)
        lu = factors.used(self, Call(op, ("work",), method="LUFactor.__iter__"))
        return iter((lu, self.pivots[..., : self.n]))

    def __repr__(self) -> str:
        """N, dtype, mesh and tile."""
        return factors.describe(self, "lu_factor")


def lu_factor(
    a: ArrayLike | Rows,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
    engine: Engine | None = None,
) -> LUFactor:
    """Factor P A = L U with all devices that hold A, in its memory, for reuse.

    The signature is that of ``jax.scipy.linalg.lu_factor``; shardings, ``overwrite_a`` and ``mesh``
    are those of ``meshsolve.solve``. Pivots, ``info`` and factors are those of A itself for every
    sharding. An A by rows is first transposed across the shards, in its memory.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128. An A on one
        device or replicated may be [m, n]: JAX factors it, and the result only gives its pair (lu,
        piv).
      overwrite_a: donate A: its memory becomes that of the factor. Without it, the call makes one
        copy.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      on_failure: "nan", or "raise" where A is singular; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.
      engine: None, or "cusolvermg" on CUDA devices; see ``meshsolve.solve``.

    Returns:
      An ``LUFactor``; ``lu, piv = lu_factor(a)`` unpacks it to scipy's pair.

    Raises:
      ValueError: a is not square and sharded, or the devices do not divide n.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: right-looking LU by tile columns with lookahead, and a recursive panel (Toledo, SIAM J.
    Matrix Anal. Appl. 18, 1997; docs/design/algorithms.md). ``info`` is that of LAPACK's ``getrf``.

    Examples:
      >>> factor = ms.lu_factor(a)
      >>> print(factor.solve(b, trans=1).round(3))
      [0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1]
      >>> lu, piv = factor
    """
    del check_finite
    a = a if hasattr(a, "shape") else as_typed("lu_factor", "a", a)
    if rectangles.is_one(a):
        return _of_rectangle(a, on_failure, mesh, engine)
    return factored("lu_factor", a, overwrite_a, on_failure, mesh, engine)


def factored(public: str, a, overwrite_a: bool, *chosen, **structure) -> LUFactor:
    """The factor for a public function; ``structure`` are fields of its operation."""
    call = Call(operation("getrf", public, **structure), ("a",), _factor, *chosen)
    return run(call, (a,), (bool(overwrite_a),))


def _factor(request: Request, results) -> LUFactor:
    work, pivots, info, anorm = results
    return LUFactor(work, pivots, info, anorm, request.n, request.form, request.op.engine)


def _parts(request: Request, results) -> tuple[jax.Array, ...]:
    del request
    return tuple(results)


def _of_rectangle(a, on_failure: OnFailure, mesh: Mesh | None, engine: Engine | None) -> LUFactor:
    raises = failures.raises("lu_factor", on_failure)
    rectangles.expect_alone(a, mesh=mesh, engine=engine)
    a = as_array("lu_factor", "a", a)
    a = promoted(a, common_dtype("lu_factor", "a", a))
    lu, piv, info = rectangles.factored(a, raises)
    anorm = jnp.full(info.shape, jnp.nan, real_dtype_of(lu))
    return LUFactor(lu, piv, info, anorm, min(lu.shape[-2:]), rectangles.STORAGE)


def lu_solve(
    lu_and_piv: LUFactor | tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: Trans = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> jax.Array:
    """Solve A X = B, A^T X = B or A^H X = B with the LU factors of A.

    The signature is that of ``jax.scipy.linalg.lu_solve``. Derivatives are of every order. Under
    ``jax.vmap`` right-hand sides become columns of one call, and factors are used one after
    another.

    Args:
      lu_and_piv: an ``LUFactor``, which is not copied, or scipy's pair (lu, piv): lu [n, n] in any
        sharding that ``lu_factor`` takes, piv int [n]. The call makes one copy of the pair's lu. A
        traced lu is instead used as two triangles, and has derivatives with respect to L and U.
      b: [n], [n, k] or [..., n, k] right-hand sides in any sharding.
      trans: 0, 1, 2: solve with A, A^T, A^H.
      overwrite_b: donate B.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.

    Returns:
      x of the shape and sharding of b, replicated over the factor's devices if b is elsewhere. x is
      NaN if A is singular.

    Raises:
      ValueError: wrong shapes or ``trans``, n not divisible by the devices of lu.
      TypeError: a dtype that is not supported, neither a factor nor a pair, or a piv that does not
        fit lu.

    Source: two triangular solves by tile columns (LAPACK's ``getrs``;
    docs/design/algorithms.md).

    Examples:
      >>> lu, piv = ms.lu_factor(a)
      >>> print(ms.lu_solve((lu, piv), b).round(3))
      [0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1]
    """
    del check_finite
    if isinstance(lu_and_piv, LUFactor):
        return _solved(lu_and_piv, b, trans, overwrite_b)
    code = check_trans("lu_solve", trans)
    expected = "an LUFactor or a pair (lu, piv)"
    lu, piv = factors.pair("lu_solve", "lu_and_piv", expected, lu_and_piv)
    lu, piv = as_array("lu_solve", "lu", lu), as_array("lu_solve", "piv", piv)
    _check_pivots(lu, piv)
    op = operation("getrs", "lu_solve", trans=code)
    call = Call(op._replace(operands=("matrix", "pivots", "rhs")), ("lu", "piv", "b"))
    return run(call, (lu, piv, b), (False, False, bool(overwrite_b)), _by_pair)


def det(
    a: ArrayLike | Rows,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    mesh: Mesh | None = None,
) -> jax.Array:
    """The determinant of A [n, n] by LU, a scalar of its dtype; 0 if A is singular.

    It over- and underflows where ``slogdet`` does not. Shardings are those of ``meshsolve.solve``.
    Derivatives are of every order. The first one also exists at a singular matrix, where it is the
    matrix of cofactors; second ones are NaN there. Under ``jax.vmap`` matrices are factored one
    after another.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128.
      overwrite_a: donate A: its memory becomes that of the factor. Without it, the call makes one
        copy.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Raises:
      ValueError: a is not square, or the devices do not divide n.
      TypeError: a dtype that is not supported.

    Source: the product of the pivots of ``lu_factor``, with a separate exponent
    (docs/design/algorithms.md).

    Examples:
      >>> round(float(ms.det(a)))
      1280
    """
    del check_finite
    return factored("det", a, overwrite_a, "nan", mesh).det()


def slogdet(
    a: ArrayLike | Rows,
    overwrite_a: bool = False,
    *,
    method: Literal["lu", "qr"] | None = None,
    mesh: Mesh | None = None,
) -> SlogdetResult:
    """Sign and logarithm of the determinant of A [n, n] by LU; (0, -inf) if A is singular.

    Shardings are those of ``meshsolve.solve``. Derivatives are of every order; the gradient makes
    A^-T in the memory of the factor. Under ``jax.vmap`` matrices are factored one after another.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128.
      overwrite_a: donate A: its memory becomes that of the factor. Without it, the call makes one
        copy.
      method: None, "lu" or "qr", for ``jnp.linalg.slogdet``: accepted for compatibility; the method
        is always LU.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Returns:
      A ``SlogdetResult``, (sign, logabsdet), of replicated scalars.

    Raises:
      ValueError: a is not square, an unknown ``method``, or the devices do not divide n.
      TypeError: a dtype that is not supported.

    Source: as ``det``.

    Examples:
      >>> sign, logabsdet = ms.slogdet(-1 * a)
      >>> float(sign), round(float(jnp.exp(logabsdet)))
      (1.0, 1280)
    """
    if method not in (None, "lu", "qr"):
        expected, remedy = 'None, "lu" or "qr"', "leave it out: LU is used in any case"
        raise mistake("slogdet", "method", expected, repr(method), remedy)
    return factored("slogdet", a, overwrite_a, "nan", mesh).slogdet()


def _solved(factor: LUFactor, b, trans: Trans, overwrite_b: bool, method: str = "") -> jax.Array:
    code = check_trans("lu_solve", trans)
    op = operation("getrs", "lu_solve", storage=factor.storage, trans=code)
    call = Call(op, ("work", "pivots", "info", "b"), method=method)
    return factors.used(factor, call, b, own=bool(overwrite_b))


def _by_pair(op: Operation, operands, own, signatures):
    """(X,) by a factor that stands for the pair or, if lu is traced, by two triangles."""
    del signatures
    lu, piv, b = operands
    if dispatch.executor(lu) is not eager:
        return _substituted(lu, piv, b, op.trans)
    factor = _packed(lu, piv, own[0])
    back = operation("getrs", op.public, storage=factor.storage, trans=op.trans)
    operands = (factor.work, factor.pivots, factor.info, b)
    return dispatch.call(back, operands, (False, False, False, own[-1]))


def _substituted(lu, piv, b, trans: int):
    """(X,) with scipy's (lu, piv) as two triangles, which have derivatives."""
    order = jax.lax.linalg.lu_pivots_to_permutation(piv.astype(np.int32), piv.shape[0])
    if trans == 0:
        b = replicated(b)[order]
    for lower in (True, False) if trans == 0 else (False, True):
        fields = {"lower": lower, "trans": trans, "unit_diagonal": lower}
        op = operation("trtrs", "lu_solve", **fields)
        b, _ = dispatch.call(op, (lu, b), (False, True))
    return (replicated(b)[jnp.argsort(order)] if trans else b,)


def _check_pivots(lu, piv) -> None:
    n = lu.shape[-1] if lu.ndim > 1 else -1
    if lu.shape[-2:] != (n, n):
        return  # refused later
    if piv.shape[-1:] != (n,) or (n and not np.issubdtype(piv.dtype, np.integer)):
        expected = f"integers of shape [{n}], to go with lu of shape {(n, n)}"
        got = f"{piv.dtype} of shape {piv.shape}"
        raise wrong_type("lu_solve", "piv", expected, got, "pass both parts of scipy's pair")


def _packed(lu, piv, own: bool) -> LUFactor:
    """A factor that stands for scipy's (lu, piv)."""
    work, info = dispatch.call(operation("lu_from_scipy", "lu_solve"), (lu,), (own,))
    anorm, form = factors.unknown_norm(lu.dtype), eager.form(operation("getrf", "lu_solve"), lu)
    return LUFactor(work, piv.astype(np.int32), info, anorm, lu.shape[0], form)
