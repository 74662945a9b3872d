"""LU factors of sharded matrices: ``lu_factor``, ``lu_solve``, ``det``, ``slogdet``."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api import factors
from meshsolve._api.solve import solved
from meshsolve._api.types import Engine, OnFailure, Trans
from meshsolve._execute import dispatch, rectangles
from meshsolve._library import engines, ffi
from meshsolve._library.errors import mistake, wrong_type
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
      engine: "", or the engine that ``lu_factor`` got, which then decides the layout of ``work``.

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
        factors.expect_alive("LUFactor.solve", self, b=b)
        return lu_solve(self, b, trans, overwrite_b)

    def det(self) -> jax.Array:
        """The determinant of A, a scalar of its dtype; 0 if A is singular. It over- and underflows
        where ``slogdet`` does not. Derivatives are those of ``meshsolve.det``.
        """
        factors.expect_alive("LUFactor.det", self)
        rectangles.expect_none("LUFactor.det", self)
        return self._determinant(False)[0]

    def slogdet(self) -> SlogdetResult:
        """Sign and logarithm of the determinant of A; (0, -inf) if A is singular."""
        factors.expect_alive("LUFactor.slogdet", self)
        rectangles.expect_none("LUFactor.slogdet", self)
        return SlogdetResult(*self._determinant(True)[1:])

    @leading.each
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
        rectangles.expect_none("LUFactor.rcond", self)
        return factors.rcond(ffi.gecon, self, "pivots", "info")

    @leading.each
    def _determinant(self, logarithmic: bool):
        if self.n == 0:
            one = jnp.ones((), self.work.dtype)
            return one, one, jnp.zeros((), factors.real_dtype(self.work.dtype))
        operands = (factors.array(self, "work"), factors.array(self, "pivots"))
        op = factors.of_engine(ffi.det(self.storage, logarithmic), self)
        return dispatch.call(op, operands, (False, False))

    @leading.each
    def inv(self) -> jax.Array:
        """The inverse of A [n, n]; NaN if A is singular.

        A new array, sharded as ``work``. If A was padded it is on one device, which needs two more
        arrays of that size meanwhile. See ``meshsolve.inv``.
        """
        rectangles.expect_none("LUFactor.inv", self)
        if self.n == 0:
            return factors.array(self, "work")
        order = self.n if self.work.shape[0] != self.n else 0
        op = factors.of_engine(ffi.getri(self.storage, order), self)
        operands = tuple(factors.array(self, name) for name in ("work", "pivots", "info"))
        (inverse,) = dispatch.call(op, operands, (False, False, False))
        return padding.cut(inverse, self.n)

    def __iter__(self) -> Iterator[jax.Array]:
        """Scipy's pair (lu, piv): L below the diagonal of lu, U on and above it; row i of A was
        interchanged with row piv[i]. lu [n, n] is a new array, sharded by rows, or as ``work`` if
        that is column-major. If A was padded it is on one device, which needs two more arrays of
        that size meanwhile.
        """
        factors.expect_alive("LUFactor.__iter__", self)
        if self.storage == rectangles.STORAGE:
            return iter((self.work, self.pivots))
        return iter((self._unpacked(), self.pivots[..., : self.n]))

    @leading.each
    def _unpacked(self) -> jax.Array:
        if self.n == 0:
            return self.work
        op = factors.of_engine(ffi.lu_to_scipy(self.storage), self)
        (lu,) = dispatch.call(op, (factors.array(self, "work"),), (False,))
        return padding.cut(lu, self.n)

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
    raises = failures.raises("lu_factor", on_failure)
    a = as_typed("lu_factor", "a", a)
    if rectangles.is_one(a):
        lu, piv, info = rectangles.factored(a, mesh, raises, engine)
        anorm = jnp.full(info.shape, jnp.nan, factors.real_dtype(lu.dtype))
        return LUFactor(lu, piv, info, anorm, min(lu.shape[-2:]), rectangles.STORAGE)
    return _factored("lu_factor", a, overwrite_a, mesh, raises, engine)


def _factored(
    public: str,
    a,
    overwrite_a: bool,
    mesh: Mesh | None,
    raises: bool = False,
    engine: Engine | None = None,
) -> LUFactor:
    given, a = a, as_typed(public, "a", a)
    n = check_square(public, a)
    if leading.has_leading((a, 2)):
        one = lambda a: _factored(public, a, False, mesh, raises, engine)  # noqa: E731
        return leading.over(public, one, (a, 2), raises=raises)
    dtype = common_dtype(public, "a", a)
    padding.check_mesh(public, mesh)
    a, moved = padding.on_mesh(public, a, mesh, dtype)
    maker = engines.checked(public, engine, a)
    if n == 0:
        anorm = jnp.zeros((), factors.real_dtype(dtype))
        return LUFactor(a, jnp.zeros(0, jnp.int32), jnp.int32(0), anorm, 0, "rows")
    form, own = factors.form(public, a), overwrite_a or moved or a is not given
    op = ffi.getrf(public, n if a.shape[0] != n else 0)._replace(raises=raises, engine=maker)
    work, pivots, info, anorm = dispatch.call(op, (a,), (own,))
    return LUFactor(work, pivots, info, anorm, n, form, maker)


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
    code = check_trans("lu_solve", trans)
    b_array = as_array("lu_solve", "b", b)
    if isinstance(lu_and_piv, LUFactor):
        given = lu_and_piv
        rectangles.expect_none("lu_solve", given)
        factors.expect_alive("lu_solve", given)
        leaves, sides = leading.leaves(given), (b_array, leading.rank_of_rhs(b_array))
        if leading.has_leading(*leaves, sides):
            check_rhs("lu_solve", b_array, given.n)
            one = lambda *x: lu_solve(leading.remade(given, x[:-1]), x[-1], code)  # noqa: E731
            return leading.over("lu_solve", one, *leaves, sides)
        leaves = {name: factors.array(given, name) for name in ("work", "pivots", "info")}
        factor = dataclasses.replace(given, **leaves)
        dtype = common_dtype("lu_solve", "the factor and b", factor.work, b_array)
        factor = dataclasses.replace(factor, work=promoted(factor.work, dtype))
    else:
        expected = "an LUFactor or a pair (lu, piv)"
        lu, piv = factors.pair("lu_solve", "lu_and_piv", expected, lu_and_piv)
        lu, piv = as_array("lu_solve", "lu", lu), as_array("lu_solve", "piv", piv)
        n = check_square("lu_solve", lu, "lu")
        matrices, sides = (lu, 2), (b_array, leading.rank_of_rhs(b_array))
        if leading.has_leading(matrices, (piv, 1), sides):
            check_rhs("lu_solve", b_array, n)
            one = lambda lu, piv, b: lu_solve((lu, piv), b, code)  # noqa: E731
            return leading.over("lu_solve", one, matrices, (piv, 1), sides)
        dtype = common_dtype("lu_solve", "lu and b", lu, b_array)
        _check_pivots(piv, lu.shape[0])
        lu, own = promoted(lu, dtype), lu.dtype != dtype
        if isinstance(lu, Tracer):
            check_rhs("lu_solve", b_array, lu.shape[0])
            run = lambda b, _: _substituted(lu, piv, b, code)  # noqa: E731
            return solved(run, promoted(b_array, dtype), True, lu)[0]
        factor = _packed(lu, piv, own)
    check_rhs("lu_solve", b_array, factor.n)
    x, _ = solved(
        lambda b, own_b: _solve(factor, b, code, own_b),
        promoted(b_array, dtype),
        overwrite_b or b_array is not b or b_array.dtype != dtype,
        factor.work,
        vectors=True,
    )
    return x


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
    return _factored("det", a, overwrite_a, mesh).det()


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
    return _factored("slogdet", a, overwrite_a, mesh).slogdet()


def _solve(factor: LUFactor, b, trans: int, own_b: bool):
    operands = (factor.work, factor.pivots, factor.info, b)
    order = factor.n if factor.work.shape[0] != factor.n else 0
    op = factors.of_engine(ffi.getrs(factor.storage, order, trans), factor)
    (x,) = dispatch.call(op, operands, (False, False, False, own_b))
    return x, factor.info


def _substituted(lu, piv, b, trans: int):
    """(X, info) with scipy's (lu, piv) as two triangles, which have derivatives."""
    order = jax.lax.linalg.lu_pivots_to_permutation(piv.astype(np.int32), piv.shape[0])
    if trans == 0:
        b = padding.replicated(b)[order]
    info = None
    for lower in (True, False) if trans == 0 else (False, True):
        op = ffi.trtrs(lower, 0, trans, lower)._replace(public="lu_solve")
        b, info = dispatch.call(op, (lu, b), (False, True))
    return (padding.replicated(b)[jnp.argsort(order)] if trans else b), info


def _check_pivots(piv, n: int) -> None:
    if piv.shape != (n,) or (n and not np.issubdtype(piv.dtype, np.integer)):
        expected = f"integers of shape [{n}], to go with lu of shape {(n, n)}"
        got = f"{piv.dtype} of shape {piv.shape}"
        raise wrong_type("lu_solve", "piv", expected, got, "pass both parts of scipy's pair")


def _packed(lu, piv, own: bool) -> LUFactor:
    """A factor that stands for scipy's (lu, piv)."""
    n = lu.shape[0]
    piv, anorm = piv.astype(np.int32), factors.unknown_norm(lu.dtype)
    if n == 0:
        return LUFactor(lu, piv, jnp.int32(0), anorm, 0, "rows")
    work, info = dispatch.call(ffi.lu_from_scipy(), (lu,), (own,))
    return LUFactor(work, piv, info, anorm, n, factors.form("lu_solve", lu))
