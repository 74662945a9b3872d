"""The inverse of a sharded matrix: ``inv``."""

import functools

import jax
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api.solve import structure_of
from meshsolve._api.types import AssumeA, Engine, OnFailure
from meshsolve._execute import dispatch, meshes
from meshsolve._library import engines, ffi
from meshsolve._prepare import failures, leading, padding
from meshsolve._prepare.operands import as_typed, check_square, common_dtype
from meshsolve._prepare.rows import Rows


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
    raises = failures.raises("inv", on_failure)
    given, a = a, as_typed("inv", "a", a)
    n = check_square("inv", a)
    if leading.has_leading((a, 2)):
        kept = {"assume_a": assume_a, "lower": lower, "on_failure": on_failure, "mesh": mesh}
        kept |= {"engine": engine}
        return leading.over("inv", functools.partial(inv, **kept), (a, 2), raises=raises)
    dtype = common_dtype("inv", "a", a)
    padding.check_mesh("inv", mesh)
    a, moved = padding.on_mesh("inv", a, mesh, dtype)
    maker = engines.checked("inv", engine, a)
    if n == 0:
        return a
    order, own = n if a.shape[0] != n else 0, overwrite_a or moved or a is not given
    if structure == "positive definite":
        op = ffi.cholesky_inverse(bool(lower), order)
    else:
        op = ffi.lu_inverse(structure, bool(lower), order)
    inverse, _ = dispatch.call(op._replace(raises=raises, engine=maker), (a,), (own,))
    return meshes.as_given(inverse, a) if order == 0 else padding.cut(inverse, n)
