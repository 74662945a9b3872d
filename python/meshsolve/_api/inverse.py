"""The inverse of a sharded matrix: ``inv``."""

import jax
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api.solve import structure_of
from meshsolve._api.types import AssumeA, Engine, OnFailure
from meshsolve._execute.rows import Rows
from meshsolve._library.ffi import operation
from meshsolve._prepare.pipeline import Call, first, run


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
