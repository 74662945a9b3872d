"""Cholesky factors of sharded matrices: ``cho_factor``, ``cho_solve``, ``cholesky``, ``logdet``."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api import factors
from meshsolve._api.solve import solved
from meshsolve._api.types import Engine, OnFailure, Trans
from meshsolve._execute import dispatch, eager, meshes
from meshsolve._library import engines, ffi
from meshsolve._library.errors import wrong_type
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
from meshsolve._rules import halves
from meshsolve._rules.linear import triangle


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["work", "info", "anorm"],
    meta_fields=["n", "lower", "storage", "engine"],
)
@dataclasses.dataclass(frozen=True, repr=False)
class CholeskyFactor(factors.Pair):
    """The Cholesky factor of a matrix, in the solver's layout; ``cho_factor`` makes it.

    A pytree: it passes in and out of ``jax.jit``. You can save and restore its leaves, also as
    NumPy arrays. It unpacks to scipy's pair, ``c, lower = factor``, also by index and ``len``; c is
    a new JAX array each time.

    Its methods and that pair have derivatives of every order, which use the same factor. The
    tangent of ``work`` is that of A, and has to be Hermitian. Under ``jax.vmap`` right-hand sides
    of ``solve`` and ``solve_triangular`` become columns of one call. Those of ``dot_triangular``
    are multiplied one after another. Over matrices ``cho_factor`` gives a batch of factors, whose
    methods work on one factor after another.

    Attributes:
      work: [m, m] in the solver's layout, m >= n (larger if A was padded for its mesh). It holds U
        of A = U^H U in its upper triangle and is sharded by rows. If ``storage`` is "column-major",
        it holds L of A = L L^H in its lower triangle, sharded by columns. The other triangle is not
        defined. On CPU devices it does not depend on the number of devices. On several CUDA devices
        the distribution of columns depends on their number, kind and engine: use it on as many of
        the same kind.
      info: int32 scalar. 0, or i > 0: the leading minor of order i of A is not positive definite or
        not finite. All results of the factor are then NaN.
      anorm: real scalar: the 1-norm of A, for ``rcond``; NaN if the factor stands for a pair.
      n: order of A.
      lower: which triangle of A was read, and which one holds the factor in scipy's pair.
      storage: "column-major" if A was sharded by columns and column-major in memory, else "rows".
      engine: "", or the engine that ``cho_factor`` got, which then decides the layout of ``work``.

    Examples:
      >>> factor = ms.cho_factor(a)
      >>> x, inverse = factor.solve(b), factor.inv()
      >>> round(float(jnp.exp(factor.logdet()))), 0 < float(factor.rcond()) < 1
      (1280, True)
      >>> white = factor.solve_triangular(b)  # L^-1 b
      >>> print(factor.dot_triangular(white))  # L (L^-1 b)
      [1. 1. 1. 1. 1. 1. 1. 1.]
    """

    work: jax.Array
    info: jax.Array
    anorm: jax.Array
    n: int
    lower: bool
    storage: str
    engine: str = ""

    RANKS: ClassVar[dict[str, int]] = {"work": 2, "info": 0, "anorm": 0}

    def solve(self, b: ArrayLike, *, overwrite_b: bool = False) -> jax.Array:
        """X with A X = B, for B of shape [n] or [n, k]; NaN if A is not positive definite.

        See ``cho_solve``.
        """
        factors.expect_alive("CholeskyFactor.solve", self, b=b)
        return cho_solve(self, b, overwrite_b)

    def solve_triangular(
        self, b: ArrayLike, trans: Trans = 0, *, overwrite_b: bool = False
    ) -> jax.Array:
        """X with L X = B (``trans`` 0 or "N"), L^T X = B (1, "T") or L^H X = B (2, "C"). L is that
        of A = L L^H, whatever ``lower`` is.

        This is half of ``solve``: X of L X = B is white noise if B has the covariance A. B is [n],
        [n, k] or [..., n, k]; X has its shape and sharding, and is NaN if A is not positive
        definite. CPU devices use the factor in place; CUDA devices unpack it, which takes a copy.
        """
        return _by_half("solve_triangular", "b", halves.solve, self, b, trans, overwrite_b)

    def dot_triangular(self, z: ArrayLike, trans: Trans = 0) -> jax.Array:
        """L Z (``trans`` 0 or "N"), L^T Z (1, "T") or L^H Z (2, "C"). L is that of A = L L^H,
        whatever ``lower`` is.

        L Z is a sample with the covariance A if Z is white noise. Z is [n], [n, k] or [..., n, k];
        the product has its shape and sharding, and is NaN if A is not positive definite. CPU
        devices use the factor in place; CUDA devices unpack it, which takes a copy.
        """
        run = lambda factor, z, trans, own: halves.multiply(factor, z, trans)  # noqa: E731
        return _by_half("dot_triangular", "z", run, self, z, trans, False)

    @leading.each
    def logdet(self) -> jax.Array:
        """The logarithm of det A, a real scalar; NaN if A is not positive definite."""
        if self.n == 0:
            return jnp.zeros((), factors.real_dtype(self.work.dtype))
        op = factors.of_engine(ffi.logdet(self.storage), self)
        return dispatch.call(op, self._arrays, (False, False))[0]

    @leading.each
    def rcond(self) -> jax.Array:
        """An estimate of the reciprocal of A's condition number, 1 / (norm1(A) norm1(A^-1)).

        A real scalar, as ``LUFactor.rcond``; 0 if A is not positive definite, NaN if A has an entry
        that is not finite. Its derivative is 0.

        Source: Higham and Tisseur, SIAM J. Matrix Anal. Appl. 21 (2000), Algorithm 2.4; the
        estimate of LAPACK's ``pocon``.
        """
        return factors.rcond(ffi.pocon, self, "info")

    @leading.each
    def inv(self) -> jax.Array:
        """The inverse of A [n, n], Hermitian to the last bit; NaN if A is not positive definite.

        A new array, sharded as ``work``. If A was padded it is on one device, which needs two more
        arrays of that size meanwhile. See ``meshsolve.inv``.
        """
        if self.n == 0:
            return factors.array(self, "work")
        order = self.n if self.work.shape[0] != self.n else 0
        op = factors.of_engine(ffi.potri(self.storage, order), self)
        return padding.cut(dispatch.call(op, self._arrays, (False, False))[0], self.n)

    def __iter__(self) -> Iterator[Any]:
        """Scipy's pair (c, lower): ``lower`` names the triangle of c that holds the factor; the
        other triangle is not defined. c [n, n] is a new array, sharded as ``work``. If A was padded
        it is on one device, which needs two more arrays of that size meanwhile.
        """
        factors.expect_alive("CholeskyFactor.__iter__", self)
        return iter((self._unpacked(), self.lower))

    @property
    def _arrays(self) -> tuple[jax.Array, jax.Array]:
        """Work and info; restored leaves may be NumPy arrays."""
        return factors.array(self, "work"), factors.array(self, "info")

    @leading.each
    def _unpacked(self) -> jax.Array:
        if self.n == 0:
            return self.work
        op = factors.of_engine(ffi.cholesky_to_scipy(self.storage, self.lower), self)
        return padding.cut(dispatch.call(op, self._arrays, (False, False))[0], self.n)

    def __repr__(self) -> str:
        """N, dtype, mesh and tile."""
        return factors.describe(self, "cho_factor", f"lower={self.lower}")


def cho_factor(
    a: ArrayLike | Rows,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
    engine: Engine | None = None,
) -> CholeskyFactor:
    """Factor A = L L^H with all devices that hold it, in its memory, for reuse.

    The signature is that of ``jax.scipy.linalg.cho_factor``; shardings, ``overwrite_a`` and
    ``mesh`` are those of ``meshsolve.solve``.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128; Hermitian
        positive definite. Only one triangle is read.
      lower: whether A's lower triangle is read instead of its upper one.
      overwrite_a: donate A: its memory becomes that of the factor. Without it, the call makes one
        copy.
      check_finite: accepted for compatibility; entries that are not finite lead to ``info`` > 0.
      on_failure: "nan", or "raise" where A is not positive definite; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.
      engine: None, or "cusolvermg" on CUDA devices; see ``meshsolve.solve``.

    Returns:
      A ``CholeskyFactor``; ``c, lower = cho_factor(a)`` unpacks it to scipy's pair.

    Raises:
      ValueError: a is not square, or the devices do not divide n.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: as ``meshsolve.solve``; ``info`` is that of LAPACK's ``potrf``.

    Examples:
      >>> factor = ms.cho_factor(a)
      >>> print(factor.solve(b).round(3))
      [0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1]
      >>> c, lower = factor
    """
    del check_finite
    raises = failures.raises("cho_factor", on_failure)
    return _factored("cho_factor", a, lower, overwrite_a, mesh, raises, engine)


def _factored(
    public: str,
    a,
    lower: bool,
    overwrite_a: bool,
    mesh: Mesh | None,
    raises: bool,
    engine: Engine | None = None,
) -> CholeskyFactor:
    given, a = a, as_typed(public, "a", a)
    n = check_square(public, a)
    if leading.has_leading((a, 2)):
        one = lambda a: _factored(public, a, lower, False, mesh, raises, engine)  # noqa: E731
        return leading.over(public, one, (a, 2), raises=raises)
    dtype = common_dtype(public, "a", a)
    padding.check_mesh(public, mesh)
    a, moved = padding.on_mesh(public, a, mesh, dtype)
    maker = engines.checked(public, engine, a)
    if n == 0:
        anorm = jnp.zeros((), factors.real_dtype(dtype))
        return CholeskyFactor(a, jnp.int32(0), anorm, 0, bool(lower), "rows")
    form, own = factors.form(public, a), overwrite_a or moved or a is not given
    op = ffi.potrf(bool(lower), n if a.shape[0] != n else 0)
    op = op._replace(public=public, raises=raises, engine=maker)
    work, info, anorm = dispatch.call(op, (a,), (own,))
    return CholeskyFactor(work, info, anorm, n, bool(lower), form, maker)


def cho_solve(
    c_and_lower: CholeskyFactor | tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> jax.Array:
    """Solve A X = B with a Cholesky factor of A.

    The signature is that of ``jax.scipy.linalg.cho_solve``. Derivatives are of every order. Under
    ``jax.vmap`` right-hand sides become columns of one call, and factors are used one after
    another.

    Args:
      c_and_lower: a ``CholeskyFactor``, which is not copied, or a pair (c, lower). c [n, n] holds L
        (``lower``) or U (not) in that triangle, with a real diagonal. Its sharding is any that
        ``cho_factor`` takes. The call makes one copy of c, unless c holds U and is sharded by rows,
        or holds L and is column-major (outside of ``jax.jit``). A traced c is used as two
        triangles, and has derivatives with respect to the triangle that holds the factor.
      b: [n], [n, k] or [..., n, k] right-hand sides in any sharding.
      overwrite_b: donate B.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.

    Returns:
      x of the shape and sharding of b, replicated over the factor's devices if b is elsewhere. x is
      NaN if A was not positive definite.

    Raises:
      ValueError: wrong shapes, n not divisible by the devices of c.
      TypeError: a dtype that is not supported, neither a factor nor a pair, or a traced lower.

    Source: two triangular solves by tile columns (LAPACK's ``potrs``;
    docs/design/algorithms.md).

    Examples:
      >>> c, lower = ms.cho_factor(a, lower=True)
      >>> print(ms.cho_solve((c, lower), b).round(3))
      [0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1]
    """
    del check_finite
    b_array = as_array("cho_solve", "b", b)
    if isinstance(c_and_lower, CholeskyFactor):
        factors.expect_alive("cho_solve", c_and_lower)
        leaves, sides = leading.leaves(c_and_lower), (b_array, leading.rank_of_rhs(b_array))
        if leading.has_leading(*leaves, sides):
            check_rhs("cho_solve", b_array, c_and_lower.n)
            one = lambda *x: cho_solve(leading.remade(c_and_lower, x[:-1]), x[-1])  # noqa: E731
            return leading.over("cho_solve", one, *leaves, sides)
        work, info = c_and_lower._arrays
        factor = dataclasses.replace(c_and_lower, work=work, info=info)
        dtype = common_dtype("cho_solve", "the factor and b", factor.work, b_array)
        if dtype != factor.work.dtype:
            factor = dataclasses.replace(factor, work=factor.work.astype(dtype))
    else:
        c, lower = _pair(c_and_lower)
        n = check_square("cho_solve", c, "c")
        matrices, sides = (c, 2), (b_array, leading.rank_of_rhs(b_array))
        if leading.has_leading(matrices, sides):
            check_rhs("cho_solve", b_array, n)
            one = lambda c, b: cho_solve((c, lower), b)  # noqa: E731
            return leading.over("cho_solve", one, matrices, sides)
        dtype = common_dtype("cho_solve", "c and b", c, b_array)
        c, own = promoted(c, dtype), c.dtype != dtype
        if isinstance(c, Tracer):
            check_rhs("cho_solve", b_array, c.shape[0])
            run = lambda b, _: _substituted(c, lower, b)  # noqa: E731
            return solved(run, promoted(b_array, dtype), True, c)[0]
        factor = _packed(c, lower, own)
    check_rhs("cho_solve", b_array, factor.n)
    x, _ = solved(
        lambda b, own_b: _solve(factor, b, own_b),
        promoted(b_array, dtype),
        overwrite_b or b_array is not b or b_array.dtype != dtype,
        factor.work,
        vectors=True,
    )
    return x


def _by_half(method: str, argument: str, run, factor, b, trans, own_b: bool):
    """The result of ``run(factor, b, trans, own)``, for right-hand sides of a user."""
    name = f"CholeskyFactor.{method}"
    code = check_trans(name, trans)
    given, b = b, as_array(name, argument, b)
    factors.expect_alive(name, factor)
    check_rhs(name, b, factor.n, argument)
    leaves, sides = leading.leaves(factor), (b, leading.rank_of_rhs(b))
    if leading.has_leading(*leaves, sides):
        again = functools.partial(_by_half, method, argument, run)
        one = lambda *x: again(leading.remade(factor, x[:-1]), x[-1], code, False)  # noqa: E731
        return leading.over(name, one, *leaves, sides)
    factor = dataclasses.replace(factor, work=factor._arrays[0], info=factor._arrays[1])
    dtype = common_dtype(name, f"the factor and {argument}", factor.work, b)
    own_b = own_b or b is not given or b.dtype != dtype
    part = lambda b, own: run(factor, b, code, own)  # noqa: E731
    return solved(part, promoted(b, dtype), own_b, factor.work)[0]


def cholesky(
    a: ArrayLike | Rows,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
    engine: Engine | None = None,
) -> jax.Array:
    """The Cholesky factor as an array: U of A = U^H U, or L of A = L L^H if ``lower``.

    The signature is that of ``jax.scipy.linalg.cholesky``; shardings, ``overwrite_a`` and ``mesh``
    are those of ``meshsolve.solve``. Derivatives are of every order, in both modes. They use the
    Hermitian part of a tangent of A, as in ``jnp.linalg.cholesky``. One derivative costs two
    triangular solves with n right-hand sides and a product. Under ``jax.vmap`` matrices are
    factored one after another.

    The result is one more array of the size of A. ``cho_factor`` gives solves, samples and
    determinants without it.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128; Hermitian
        positive definite. Only one triangle is read.
      lower: whether to read A's lower triangle and make L, instead of the upper one and U.
      overwrite_a: donate A: its memory becomes that of the factor. Without it, the call makes one
        copy.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      on_failure: "nan", or "raise" where A is not positive definite; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.
      engine: None, or "cusolvermg" on CUDA devices; see ``meshsolve.solve``.

    Returns:
      U or L [n, n] in the sharding of A, with zeros in the other triangle. With ``mesh`` it is by
      rows over that, or on one device if ``mesh`` does not divide n, as ``CholeskyFactor`` unpacks.
      NaN if A is not positive definite.

    Raises:
      ValueError: a is not square, or the devices do not divide n.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: as ``cho_factor``; derivatives: I. Murray, Differentiation of the Cholesky
    decomposition, 2016.

    Examples:
      >>> l = np.asarray(ms.cholesky(a, lower=True))
      >>> print(np.abs(l @ l.T - a).max() < 1e-5, l[0, 1])
      True 0.0
    """
    del check_finite
    raises = failures.raises("cholesky", on_failure)
    a = as_typed("cholesky", "a", a)
    factor = _factored("cholesky", a, lower, overwrite_a, mesh, raises, engine)
    c = factor._unpacked()
    if factor.n == 0:
        return c
    if isinstance(c, Tracer):
        c = triangle(c, factor.lower)
    else:
        c = meshes.where_it_lies(_cleared, c, factor.lower)
    return c if mesh else meshes.as_given(c, a)


# In the memory of its operand.
_cleared = jax.jit(triangle, static_argnums=1, donate_argnums=0)


def logdet(
    a: ArrayLike | Rows,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    mesh: Mesh | None = None,
) -> jax.Array:
    """The logarithm of det A of a Hermitian positive definite A, by Cholesky. It takes half the
    work of ``slogdet``. A real scalar; NaN if A is not positive definite.

    Shardings are those of ``meshsolve.solve``; the result is replicated. Derivatives are of every
    order and in both modes; the tangent of A has to be Hermitian. Under ``jax.vmap`` matrices are
    factored one after another. If you also want solutions, call ``cho_factor`` once and use
    ``CholeskyFactor.logdet``.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128. Only one
        triangle is read.
      lower: whether A's lower triangle is read instead of its upper one.
      overwrite_a: donate A: its memory becomes that of the factor. Without it, the call makes one
        copy.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Raises:
      ValueError: a is not square, or the devices do not divide n.
      TypeError: a dtype that is not supported.

    Source: the sum of the logarithms of the diagonal of ``cho_factor``'s factor.

    Examples:
      >>> round(float(jnp.exp(ms.logdet(a))))
      1280
    """
    del check_finite
    return _factored("logdet", a, lower, overwrite_a, mesh, False).logdet()


def _substituted(c, lower: bool, b):
    """(X, info) with scipy's (c, lower) as two triangles, which have derivatives."""
    info = None
    for trans in (0, 2) if lower else (2, 0):
        op = ffi.trtrs(lower, 0, trans, False)._replace(public="cho_solve")
        b, info = dispatch.call(op, (c, b), (False, True))
    return b, info


def _solve(factor: CholeskyFactor, b, own_b: bool):
    operands = (factor.work, factor.info, b)
    order = factor.n if factor.work.shape[0] != factor.n else 0
    op = factors.of_engine(ffi.potrs(factor.storage, order), factor)
    (x,) = dispatch.call(op, operands, (False, False, own_b))
    return x, factor.info


def _pair(c_and_lower):
    expected = "a CholeskyFactor or a pair (c, lower)"
    c, lower = factors.pair("cho_solve", "c_and_lower", expected, c_and_lower)
    if isinstance(lower, Tracer):
        raise wrong_type(
            "cho_solve",
            "lower",
            "a Python bool",
            "a traced value",
            "make it static: pass c alone through jax.jit, or a CholeskyFactor",
        )
    if not isinstance(lower, (bool, int, np.bool_)):
        got = f"a {type(lower).__name__}"
        raise wrong_type("cho_solve", "lower", "a bool", got, "pass what cho_factor returned")
    return as_array("cho_solve", "c", c), bool(lower)


def _packed(c, lower: bool, own: bool) -> CholeskyFactor:
    """A factor that stands for scipy's (c, lower)."""
    n, info, anorm = c.shape[0], jnp.int32(0), factors.unknown_norm(c.dtype)
    if n == 0:
        return CholeskyFactor(c, info, anorm, 0, lower, "rows")
    form = factors.form("cho_solve", c)
    at = eager.eager_placement("cho_solve", c)
    # In place: U by rows, or L by column-major columns.
    by_columns = at is not None and at.storage == "columns"
    if by_columns or lower != (form == "column-major"):
        (c,) = dispatch.call(ffi.cholesky_from_scipy(lower), (c,), (own,))
    return CholeskyFactor(c, info, anorm, n, lower, form)
