"""Cholesky factors of sharded matrices: ``cho_factor``, ``cho_solve``, ``cholesky``, ``logdet``."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api import factors
from meshsolve._api.types import Engine, OnFailure, Trans
from meshsolve._execute import dispatch, eager, meshes
from meshsolve._execute.rows import Rows
from meshsolve._library.errors import wrong_type
from meshsolve._library.ffi import Operation, operation
from meshsolve._prepare.operands import as_array, as_typed, check_trans
from meshsolve._prepare.pipeline import Call, Request, run
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
      engine: "", or the engine that ``cho_factor`` got, or "scalapack" over several processes. It
        then decides the layout of ``work``.

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
        return _solved(self, b, overwrite_b, "CholeskyFactor.solve")

    def solve_triangular(
        self, b: ArrayLike, trans: Trans = 0, *, overwrite_b: bool = False
    ) -> jax.Array:
        """X with L X = B (``trans`` 0 or "N"), L^T X = B (1, "T") or L^H X = B (2, "C"). L is that
        of A = L L^H, whatever ``lower`` is.

        This is half of ``solve``: X of L X = B is white noise if B has the covariance A. B is [n],
        [n, k] or [..., n, k]; X has its shape and sharding, and is NaN if A is not positive
        definite. CPU devices use the factor in place; CUDA devices unpack it, which takes a copy.
        """
        name = "CholeskyFactor.solve_triangular"
        return _by_half(self, name, "b", b, trans, overwrite_b, halves.solve)

    def dot_triangular(self, z: ArrayLike, trans: Trans = 0) -> jax.Array:
        """L Z (``trans`` 0 or "N"), L^T Z (1, "T") or L^H Z (2, "C"). L is that of A = L L^H,
        whatever ``lower`` is.

        L Z is a sample with the covariance A if Z is white noise. Z is [n], [n, k] or [..., n, k];
        the product has its shape and sharding, and is NaN if A is not positive definite. CPU
        devices use the factor in place; CUDA devices unpack it, which takes a copy.
        """
        name = "CholeskyFactor.dot_triangular"
        return _by_half(self, name, "z", z, trans, False, halves.multiply)

    def logdet(self) -> jax.Array:
        """The logarithm of det A, a real scalar; NaN if A is not positive definite."""
        op = operation("logdet", "CholeskyFactor.logdet", storage=self.storage)
        return factors.used(self, Call(op, ("work", "info")))

    def rcond(self) -> jax.Array:
        """An estimate of the reciprocal of A's condition number, 1 / (norm1(A) norm1(A^-1)).

        A real scalar, as ``LUFactor.rcond``; 0 if A is not positive definite, NaN if A has an entry
        that is not finite. Its derivative is 0.

        Source: Higham and Tisseur, SIAM J. Matrix Anal. Appl. 21 (2000), Algorithm 2.4; the
        estimate of LAPACK's ``pocon``.
        """
        op = operation("pocon", "CholeskyFactor.rcond", storage=self.storage)
        return factors.used(self, Call(op, ("work", "info", "anorm")))

    def inv(self) -> jax.Array:
        """The inverse of A [n, n], Hermitian to the last bit; NaN if A is not positive definite.

        A new array, sharded as ``work``. If A was padded it is on one device, which needs two more
        arrays of that size meanwhile. See ``meshsolve.inv``.
        """
        op = operation("potri", "CholeskyFactor.inv", storage=self.storage)
        return factors.used(self, Call(op, ("work", "info")))

    def __iter__(self) -> Iterator[Any]:
        """Scipy's pair (c, lower): ``lower`` names the triangle of c that holds the factor; the
        other triangle is not defined. c [n, n] is a new array, sharded as ``work``. If A was padded
        it is on one device, which needs two more arrays of that size meanwhile.
        """
        return iter((self._unpacked(), self.lower))

    def _unpacked(self) -> jax.Array:
        fields = {"storage": self.storage, "lower": self.lower}
        op = operation("cholesky_to_scipy", "cho_factor", **fields)
        return factors.used(self, Call(op, ("work", "info"), method="CholeskyFactor.__iter__"))

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
    return factored("cho_factor", a, lower, overwrite_a, on_failure, mesh, engine)


def factored(public: str, a, lower: bool, overwrite_a: bool, *chosen) -> CholeskyFactor:
    """The factor for a public function."""
    call = Call(operation("potrf", public, lower=bool(lower)), ("a",), _factor, *chosen)
    return run(call, (a,), (bool(overwrite_a),))


def _factor(request: Request, results) -> CholeskyFactor:
    op, (work, info, anorm) = request.op, results
    return CholeskyFactor(work, info, anorm, request.n, op.lower, request.form, op.engine)


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
    if isinstance(c_and_lower, CholeskyFactor):
        return _solved(c_and_lower, b, overwrite_b)
    c, lower = _pair(c_and_lower)
    op = operation("potrs", "cho_solve", lower=lower)._replace(operands=("matrix", "rhs"))
    call = Call(op, ("c", "b"))
    return run(call, (c, b), (False, bool(overwrite_b)), _by_pair)


def _solved(factor: CholeskyFactor, b, overwrite_b: bool, method: str = "") -> jax.Array:
    op = operation("potrs", "cho_solve", storage=factor.storage)
    call = Call(op, ("work", "info", "b"), method=method)
    return factors.used(factor, call, b, own=bool(overwrite_b))


def _by_half(factor: CholeskyFactor, name: str, argument: str, b, trans, overwrite_b: bool, by):
    op = operation("potrs", name, storage=factor.storage, trans=check_trans(name, trans))
    call = Call(op, ("work", "info", argument))
    return factors.used(factor, call, b, own=bool(overwrite_b), by=by)


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
    a = as_typed("cholesky", "a", a)
    factor = factored("cholesky", a, lower, overwrite_a, on_failure, mesh, engine)
    c = factor._unpacked()
    if factor.n == 0:
        return c
    by = dispatch.executor(c)
    c = meshes.where_it_lies(_cleared if by is eager else triangle, c, factor.lower)
    return c if mesh else by.as_given(c, a)


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
    return factored("logdet", a, lower, overwrite_a, "nan", mesh).logdet()


def _by_pair(op: Operation, operands, own, signatures):
    """(X,) by a factor that stands for the pair or, if c is traced, by two triangles."""
    del signatures
    c, b = operands
    if dispatch.executor(c) is not eager:
        return _substituted(c, op.lower, b)
    factor = _packed(c, op.lower, own[0])
    back = operation("potrs", op.public, storage=factor.storage)
    return dispatch.call(back, (factor.work, factor.info, b), (False, False, own[-1]))


def _substituted(c, lower: bool, b):
    """(X,) with scipy's (c, lower) as two triangles, which have derivatives."""
    for trans in (0, 2) if lower else (2, 0):
        op = operation("trtrs", "cho_solve", lower=lower, trans=trans)
        b, _ = dispatch.call(op, (c, b), (False, True))
    return (b,)


def _pair(c_and_lower):
    expected = "a CholeskyFactor or a pair (c, lower)"
    c, lower = factors.pair("cho_solve", "c_and_lower", expected, c_and_lower)
    if dispatch.executor(lower) is not eager:
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
    form = eager.form(operation("potrf", "cho_solve"), c)
    at = eager.eager_placement("cho_solve", c)
    # In place: U by rows, or L by column-major columns.
    by_columns = at is not None and at.storage == "columns"
    if by_columns or lower != (form == "column-major"):
        op = operation("cholesky_from_scipy", "cho_solve", lower=lower)
        (c,) = dispatch.call(op, (c,), (own,))
    anorm = factors.unknown_norm(c.dtype)
    return CholeskyFactor(c, jnp.int32(0), anorm, c.shape[0], lower, form)
