"""Functions of sharded Hermitian matrices, by their eigenvalues and eigenvectors."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api import eigen
from meshsolve._api.types import OnFailure
from meshsolve._execute import meshes
from meshsolve._execute.dispatch import described
from meshsolve._execute.rows import Rows
from meshsolve._library.errors import mistake, wrong_type
from meshsolve._library.ffi import operation
from meshsolve._prepare.operands import as_typed, check_square, not_negative, real_dtype_of
from meshsolve._prepare.pipeline import Call, first, run
from meshsolve._rules import functions  # noqa: F401 - its rules for derivatives

Hermitian = Literal["her"]
"""The structure of A that these functions need."""


def sqrtm(
    a: ArrayLike | Rows,
    *,
    assume_a: Hermitian | None = None,
    lower: bool = True,
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> jax.Array:
    """The square root of a Hermitian positive semidefinite A, with all devices that hold it.

    ``scipy.linalg.sqrtm`` for these matrices, of which it has another domain: X is Hermitian and
    positive semidefinite itself, X X = A. Shardings, ``overwrite_a`` and ``mesh`` are those of
    ``meshsolve.solve``. Works eagerly and inside ``jax.jit``. Matrices of a batch are taken one
    after another.

    Derivatives in both modes take the Hermitian part of a change of A, and have a value where
    eigenvalues are equal. Second derivatives are NaN there. Of a singular A there is none. They are
    products of matrices that XLA distributes, as for ``eigh``.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128. Only one
        triangle is read. Imaginary parts of the diagonal count as zero.
      assume_a: "her", which you have to say: A is Hermitian, or symmetric and real.
      lower: whether to read A's lower triangle instead of its upper one.
      overwrite_a: donate A: its memory becomes that of the result. Without it, the call makes one
        copy. It has no effect inside ``jax.jit``, where XLA decides about copies. Another matrix of
        A's size is scratch.
      on_failure: "nan", or "raise" where there is no answer; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Returns:
      X [n, n] in the sharding of A, Hermitian to the last bit. NaN if A has an entry that is not
      finite, or an eigenvalue below -n eps |A|; those between that and zero count as zero.

    Raises:
      ValueError: a is not square, n not divisible by the devices, another ``assume_a``.
      TypeError: no ``assume_a``, a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: as ``eigh``, then X = V diag(sqrt(w)) V^H by the updates of ``cho_factor``. Derivatives
    by divided differences (Daleckii and Krein; Higham, Functions of Matrices, 2008, theorem 3.11).

    Examples:
      >>> x = ms.sqrtm(a, assume_a="her")
      >>> bool(jnp.allclose(x @ x, a, atol=1e-4)), x.sharding == a.sharding
      (True, True)
    """
    _expect_hermitian("sqrtm", assume_a)
    return _of("sqrt", "sqrtm", a, None, lower, overwrite_a, on_failure, mesh)


def logm(
    a: ArrayLike | Rows,
    *,
    assume_a: Hermitian | None = None,
    lower: bool = True,
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> jax.Array:
    """The logarithm of a Hermitian positive definite A, with all devices that hold it.

    ``scipy.linalg.logm`` for these matrices, of which it has another domain. All else is as for
    ``sqrtm``.

    Args:
      a: [n, n], or [..., n, n] for a batch; of which one triangle is read.
      assume_a: "her", which you have to say: A is Hermitian, or symmetric and real.
      lower: whether to read A's lower triangle instead of its upper one.
      overwrite_a: donate A: its memory becomes that of the result, as for ``sqrtm``.
      on_failure: "nan", or "raise" where there is no answer; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Returns:
      X [n, n] with exp(X) = A, in the sharding of A, Hermitian to the last bit. NaN if A has an
      entry that is not finite, or an eigenvalue that is not positive.

    Raises:
      ValueError, TypeError, numpy.linalg.LinAlgError: as ``sqrtm``.

    Source: as ``sqrtm``.

    Examples:
      >>> x = ms.logm(a, assume_a="her")
      >>> bool(jnp.isclose(jnp.trace(x), ms.logdet(a)))
      True
    """
    _expect_hermitian("logm", assume_a)
    return _of("log", "logm", a, None, lower, overwrite_a, on_failure, mesh)


def expm(
    a: ArrayLike | Rows,
    *,
    assume_a: Hermitian | None = None,
    lower: bool = True,
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> jax.Array:
    """The exponential of a Hermitian A, with all devices that hold it.

    ``jax.scipy.linalg.expm`` for these matrices, without its series and its squarings. All else is
    as for ``sqrtm``.

    Args:
      a: [n, n], or [..., n, n] for a batch; of which one triangle is read.
      assume_a: "her", which you have to say: A is Hermitian, or symmetric and real.
      lower: whether to read A's lower triangle instead of its upper one.
      overwrite_a: donate A: its memory becomes that of the result, as for ``sqrtm``.
      on_failure: "nan", or "raise" where there is no answer; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Returns:
      exp(A) [n, n] in the sharding of A, Hermitian to the last bit. NaN if A has an entry that is
      not finite, or the exponential of an eigenvalue leaves the range. Errors are n eps |A| times
      the largest entry, so small entries may have no right digit.

    Raises:
      ValueError, TypeError, numpy.linalg.LinAlgError: as ``sqrtm``.

    Source: as ``sqrtm``.

    Examples:
      >>> x = ms.expm(-a, assume_a="her")
      >>> bool(jnp.isclose(jnp.trace(x), jnp.exp(-ms.eigvalsh(a)).sum()))
      True
    """
    _expect_hermitian("expm", assume_a)
    return _of("exp", "expm", a, None, lower, overwrite_a, on_failure, mesh)


def inv_sqrtm(
    a: ArrayLike | Rows,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> jax.Array:
    """The inverse square root of a Hermitian positive definite A, with all devices that hold it.

    It whitens symmetrically: X A X = I. Chemists know it as Loewdin's orthogonalisation. For any
    whitening ``cho_factor(a).solve_triangular`` is much faster. All else is as for ``sqrtm``.

    Args:
      a: [n, n], or [..., n, n] for a batch; of which one triangle is read.
      lower: whether to read A's lower triangle instead of its upper one.
      overwrite_a: donate A: its memory becomes that of the result, as for ``sqrtm``.
      on_failure: "nan", or "raise" where there is no answer; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Returns:
      X [n, n] in the sharding of A, Hermitian to the last bit, positive definite. NaN if A has an
      entry that is not finite, or an eigenvalue that is not positive.

    Raises:
      ValueError, TypeError, numpy.linalg.LinAlgError: as ``sqrtm``.

    Source: as ``sqrtm``; P.-O. Loewdin, J. Chem. Phys. 18, 1950.

    Examples:
      >>> x = ms.inv_sqrtm(a)
      >>> bool(jnp.allclose(x @ a @ x, jnp.eye(8), atol=1e-5))
      True
    """
    return _of("inverse_sqrt", "inv_sqrtm", a, None, lower, overwrite_a, on_failure, mesh)


def pinv(
    a: ArrayLike | Rows,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
    lower: bool = True,
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> jax.Array:
    """The pseudo-inverse of a Hermitian A, with all devices that hold it.

    ``jnp.linalg.pinv`` and ``numpy.linalg.pinv`` with ``hermitian=True``. All else is as for
    ``sqrtm``. If A has full rank, ``inv`` is much faster.

    Derivatives take the rank as constant: eigenvalues that count as zero stay zero.

    Args:
      a: [n, n], or [..., n, n] for a batch; of which one triangle is read.
      rtol: eigenvalues up to this times the largest modulus count as zero. It may be traced, and
        an array for a batch. None: 10 n eps, as for ``jnp.linalg.pinv``.
      hermitian: True, which you have to say. There is no pseudo-inverse of other matrices here.
      rcond: another name of ``rtol``.
      lower: whether to read A's lower triangle instead of its upper one.
      overwrite_a: donate A: its memory becomes that of the result, as for ``sqrtm``.
      on_failure: "nan", or "raise" where there is no answer; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Returns:
      A^+ [n, n] in the sharding of A, Hermitian to the last bit. NaN if A has an entry that is not
      finite.

    Raises:
      ValueError: ``hermitian`` is not True, a negative ``rtol``; and as ``sqrtm``.
      TypeError, numpy.linalg.LinAlgError: as ``sqrtm``.

    Source: as ``sqrtm``.

    Examples:
      >>> ones = jax.device_put(jnp.ones((8, 8)), a.sharding)
      >>> print(np.asarray(ms.pinv(ones, hermitian=True))[0, 0].round(6), 1 / 64)
      0.015625 0.015625
    """
    if not isinstance(hermitian, bool | np.bool_) or not hermitian:
        remedy = (
            "for a Hermitian matrix say hermitian=True; of full rank use lstsq(a, b).x; for "
            "another one that one device can hold use jnp.linalg.pinv"
        )
        raise mistake("pinv", "hermitian", "True", described(hermitian), remedy)
    if rtol is not None and rcond is not None:
        raise mistake("pinv", "rcond", "None, as rtol is given", "both", "leave one of them out")
    rtol = rcond if rtol is None else rtol
    return _of("inverse", "pinv", a, rtol, lower, overwrite_a, on_failure, mesh)


def cond(
    a: ArrayLike | Rows,
    p: int | None = None,
    *,
    assume_a: Hermitian | None = None,
    lower: bool = True,
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> jax.Array:
    """The condition number of a Hermitian A in the 2-norm, with all devices that hold it.

    ``jnp.linalg.cond`` for these matrices, from the eigenvalues: max |w| / min |w|. If an estimate
    in the 1-norm is enough, ``1 / lu_factor(a).rcond()`` costs less and takes any A.

    Args:
      a: [n, n], or [..., n, n] for a batch; of which one triangle is read.
      p: None or 2, the 2-norm.
      assume_a: "her", which you have to say: A is Hermitian, or symmetric and real.
      lower: whether to read A's lower triangle instead of its upper one.
      overwrite_a: donate A: the call works in its memory. Without it, the call makes one copy.
        It has no effect inside ``jax.jit``.
      on_failure: "nan", or "raise" where there is no answer; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Returns:
      A real scalar, or one for each matrix of a batch: infinite if an eigenvalue is zero, and NaN
      if A has an entry that is not finite. It is not accurate above 1 / (n eps).

    Raises:
      ValueError: another ``p`` or ``assume_a``; and as ``eigvalsh``.
      TypeError: no ``assume_a``, a dtype that is not supported.
      numpy.linalg.LinAlgError: as ``eigvalsh``.

    Source: as ``eigvalsh``.

    Examples:
      >>> print(ms.cond(a, assume_a="her").round(3))
      5.0
    """
    if p is not None and not (isinstance(p, int) and p == 2):
        remedy = "1 / lu_factor(a).rcond() is an estimate in the 1-norm"
        raise mistake("cond", "p", "None or 2", described(p), remedy)
    _expect_hermitian("cond", assume_a)
    if 0 in (a := as_typed("cond", "a", a)).shape:
        got, remedy = f"shape {a.shape}", "leave such matrices out"
        raise mistake("cond", "a", "a matrix with rows", got, remedy)
    w = eigen.values("cond", a, lower, overwrite_a, on_failure, mesh)
    return meshes.where_it_lies(_condition, w)


@jax.jit
def _condition(w) -> jax.Array:
    sizes = jnp.abs(w)
    most, least = jnp.max(sizes, axis=-1), jnp.min(sizes, axis=-1)
    return jnp.where(least == 0, jnp.inf, most / jnp.where(least == 0, 1, least))


def _expect_hermitian(public: str, assume_a) -> None:
    expected = 'assume_a="her"'
    remedy = 'say assume_a="her" if A is Hermitian; it takes no other matrices'
    if assume_a is None:
        raise wrong_type(public, "assume_a", expected, "no argument of that name", remedy)
    if assume_a != "her":
        raise mistake(public, "assume_a", expected, described(assume_a), remedy)


def _of(
    function: str, public: str, a, tolerance, lower, overwrite_a, on_failure, mesh
) -> jax.Array:
    """A function of A, of which eigenvalues up to ``tolerance`` |A| count as zero."""
    a = as_typed(public, "a", a)
    op = operation("hermitian_function", public, lower=bool(lower), function=function)
    call = Call(op, ("a", "tolerance"), first, on_failure, mesh)
    with meshes.own_context(a):
        tolerance = _tolerance(public, function, tolerance, a)
        return run(call, (a, tolerance), (bool(overwrite_a), False))


def _tolerance(public: str, function: str, rtol, a) -> jax.Array:
    """The tolerance as an array of A's precision."""
    real, n = real_dtype_of(a), check_square(public, a)
    if rtol is None:
        factor = {"sqrt": 1, "inverse": 10}.get(function, 0)
        return jnp.asarray(factor * n * float(jnp.finfo(real).eps), real)
    remedy = "give the part of the largest modulus up to which eigenvalues count as zero, or None"
    return not_negative(public, "rtol", rtol, real, remedy)
