"""What is made with the inverse of a sharded matrix: ``inv``, ``trace_solve``."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api import cholesky, lu
from meshsolve._api.cholesky import CholeskyFactor
from meshsolve._api.factors import used
from meshsolve._api.lu import LUFactor
from meshsolve._api.solve import structure_of
from meshsolve._api.types import AssumeA, Engine, OnFailure
from meshsolve._execute.dispatch import traced
from meshsolve._execute.rows import Rows
from meshsolve._execute.typed import resharded
from meshsolve._library import failures
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import operation
from meshsolve._prepare.operands import as_typed, check_square, common_dtype, promoted
from meshsolve._prepare.pipeline import Call, first, run
from meshsolve._rules import derivatives


def inv(
    a: ArrayLike | Rows,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: AssumeA = "gen",
    lower: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
    engine: Engine | None = None,
) -> jax.Array:
    """The inverse of A with all devices that hold it, in its memory.

    The signature is that of ``jax.scipy.linalg.inv``; shardings and ``mesh`` are those of
    ``meshsolve.solve``. If you want A^-1 B, ``solve`` is faster and more accurate. Works eagerly
    and inside ``jax.jit``; derivatives and ``jax.vmap`` are as for ``solve``. In second derivatives
    XLA gathers a matrix of the size of A.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128. The number
        of devices on the axis must divide n, unless ``mesh`` is given.
      overwrite_a: donate A: its memory becomes that of the inverse. Without it, the call makes one
        copy. It has no effect inside ``jax.jit``, where XLA decides about copies.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      assume_a: the structure of A, as for ``solve``. "gen": none. "pos": Hermitian positive
        definite; one triangle is read, at half the work, and the inverse is Hermitian to the last
        bit. "her" and "sym": also indefinite; one triangle is read, the other one is filled in, and
        the rest is that of "gen". That inverse is symmetric up to rounding.
      lower: whether to read A's lower triangle instead of its upper one, if one triangle is enough
        for ``assume_a``.
      on_failure: "nan", or "raise" if there is no inverse; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.
      engine: None, or "cusolvermg" on CUDA devices: it inverts positive definite matrices and
        factors others; see ``meshsolve.solve``.

    Returns:
      A^-1 [n, n] in the sharding of A, and column-major if A is (outside of ``jax.jit``). With
      ``mesh`` it is by rows over that. If ``mesh`` does not divide n it is on one device, which
      needs two more matrices of that size meanwhile. NaN if A is singular, or not positive definite
      ("pos").

    Raises:
      ValueError: a is not square, an unknown ``assume_a``, n not divisible by the devices.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: factors as in ``solve``, then U^-1 and X L = U^-1, or L^-1 and L^-H L^-1, by tile
    columns in place. These are LAPACK's ``getri`` and ``potri`` (Du Croz and Higham, IMA J. Numer.
    Anal. 12, 1992; docs/design/algorithms.md).

    Examples:
      >>> inverse = ms.inv(a, assume_a="pos")
      >>> print(np.asarray(inverse)[0].round(3), inverse.sharding == a.sharding)
      [ 0.45 -0.05 -0.05 -0.05 -0.05 -0.05 -0.05 -0.05] True
    """
    del check_finite
    structure = structure_of("inv", assume_a)
    if structure == "positive definite":
        op = operation("cholesky_inverse", "inv", lower=bool(lower))
    else:
        op = operation("lu_inverse", "inv", lower=bool(lower), structure=structure)
    call = Call(op, ("a",), first, on_failure, mesh, engine)
    return run(call, (a,), (bool(overwrite_a),))


def trace_solve(
    a: ArrayLike | Rows | CholeskyFactor | LUFactor,
    b: ArrayLike | Rows,
    lower: bool = False,
    *,
    assume_a: AssumeA = "gen",
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> jax.Array:
    """The trace of A^-1 B, from a factor of A.

    Gradients of log-likelihoods of Gaussian processes have one such trace for each parameter: give
    the factor of the covariance instead of A. Each device solves for the part of B that it has,
    some columns at a time, and keeps one entry of each. So A^-1 B takes no memory but that of a few
    columns for each worker. Works eagerly and inside ``jax.jit``, with derivatives of every order,
    which need three more matrices of the size of A. Matrices of a batch are solved one after
    another.

    Args:
      a: [n, n], or [..., n, n] for a batch, as for ``meshsolve.solve``; or a factor of A.
      b: [n, n] or [..., n, n], best in the sharding of the factor's ``work``: by rows, unless A is
        column-major. Any other one is resharded, which takes a copy.
      lower: whether to read A's lower triangle, if one triangle is enough for ``assume_a``.
      assume_a: the structure of A, as for ``meshsolve.solve``. A factor has its own.
      overwrite_a: donate A: its memory becomes that of the factor. Without it, the call makes one
        copy of A. A factor is kept.
      on_failure: "nan", or "raise" if there is no inverse; see ``meshsolve.solve``. For a factor
        only "nan".
      mesh: the devices to work on, for an A that is not sharded over them, whatever n. Inside
        ``jax.jit`` a factor that was padded needs it, too.

    Returns:
      A scalar of the dtype of A and B. NaN if A is singular, or not positive definite ("pos").

    Raises:
      ValueError: a or b is not [n, n], n not divisible by the devices, an unknown ``assume_a``.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: two triangular solves by tile columns for groups of columns of B, or of B^T with A^T if
    the factor is by rows: tr(A^-1 B) = tr(A^-T B^T).

    Examples:
      >>> round(float(ms.trace_solve(a, a)), 4)
      8.0
      >>> factor = ms.cho_factor(a)
      >>> bool(jnp.isclose(ms.trace_solve(factor, jnp.eye(8)), jnp.trace(factor.inv())))
      True
    """
    structure, given = structure_of("trace_solve", assume_a), _as_large(a, b)
    if not isinstance(a, CholeskyFactor | LUFactor):
        factor = _factored(structure, a, given.dtype, lower, overwrite_a, on_failure, mesh)
    elif failures.raises("trace_solve", on_failure):
        remedy = "ask for it where the factor is made"
        raise mistake("trace_solve", "on_failure", '"nan" with a factor', '"raise"', remedy)
    else:
        factor = a
    names = ("work", "pivots", "info") if isinstance(factor, LUFactor) else ("work", "info")
    name = "lu_trace" if isinstance(factor, LUFactor) else "cholesky_trace"
    op = operation(name, "trace_solve", storage=factor.storage)
    return used(factor, Call(op, (*names, "b"), mesh=mesh), given)


def _as_large(a, b) -> Any:
    """B, which has to be as large as A or its factor, as an array or Rows."""
    b = as_typed("trace_solve", "b", b)
    is_factor = isinstance(a, CholeskyFactor | LUFactor)
    n = a.n if is_factor else check_square("trace_solve", as_typed("trace_solve", "a", a))
    if list(b.shape[-2:]) != [n, n]:
        remedy = "give B as many rows and columns as A has"
        raise mistake("trace_solve", "b", f"shape [..., {n}, {n}]", str(list(b.shape)), remedy)
    return b


def _factored(structure: str, a, of_b, lower: bool, overwrite_a: bool, *chosen):
    """The factor of A, in the common dtype of A and B."""
    a = as_typed("trace_solve", "a", a)
    dtype = common_dtype("trace_solve", "a and b", a, jax.ShapeDtypeStruct((), of_b))
    if dtype != a.dtype:
        overwrite_a = not isinstance(a, Rows)
        a = dataclasses.replace(a, dtype=dtype) if isinstance(a, Rows) else promoted(a, dtype)
    if structure == "positive definite":
        return cholesky.factored("trace_solve", a, bool(lower), overwrite_a, *chosen)
    how = {"structure": structure, "lower": bool(lower)}
    return lu.factored("trace_solve", a, overwrite_a, *chosen, **how)


@derivatives.rule("cholesky_trace", "lu_trace")
def _trace(op, primals, tangents):
    """tr(A^-1 B') - tr(A^-1 A' A^-1 B), as sums over entries of A^-T and of (A^-1 B A^-1)^T."""
    *leaves, b = primals
    da, db = tangents[0], tangents[-1]
    results = traced(op, *primals)
    changes = []
    if not derivatives.is_zero(db):
        inverse = derivatives.inverse_transposed(op, *leaves)
        changes.append(jnp.sum(resharded(inverse, jax.typeof(db).sharding) * db))
    if not derivatives.is_zero(da):
        between = derivatives.between_inverses(op, leaves, b)
        changes.append(-jnp.sum(resharded(between, jax.typeof(da).sharding) * da))
    return results, (sum(changes) if changes else derivatives.zero(results[0]),)
