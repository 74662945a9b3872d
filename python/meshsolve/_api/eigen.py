"""Eigenvalues of sharded Hermitian matrices: ``eigvalsh``."""

import jax
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api.types import OnFailure
from meshsolve._execute.rows import Rows
from meshsolve._library.ffi import operation
from meshsolve._prepare.pipeline import Call, Request, run


def eigvalsh(
    a: ArrayLike | Rows,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
) -> jax.Array:
    """The eigenvalues of a Hermitian A, ascending, with all devices that hold it, in its memory.

    ``jnp.linalg.eigvalsh`` and ``scipy.linalg.eigvalsh`` without a second matrix. Shardings,
    ``overwrite_a`` and ``mesh`` are those of ``meshsolve.solve``. Works eagerly and inside
    ``jax.jit``. Under ``jax.vmap`` matrices are reduced one after another. There is no derivative
    yet: it needs eigenvectors.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128. Only one
        triangle is read. Imaginary parts of the diagonal count as zero.
      lower: whether to read A's lower triangle instead of its upper one.
      overwrite_a: donate A: the call works in its memory. Without it, the call makes one copy. It
        has no effect inside ``jax.jit``, where XLA decides about copies.
      on_failure: "nan", or "raise" where the triangle has an entry that is not finite; see
        ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.

    Returns:
      The eigenvalues [n], real, ascending, replicated over the devices of A. NaN if an entry of the
      triangle is not finite. Their errors are a small multiple of eps times the norm of A, for all
      of them alike.

    Raises:
      ValueError: a is not square, n not divisible by the devices, a request for a derivative.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: reduction to a band, then to a tridiagonal matrix (Bischof, Lang and Sun, ACM Trans.
    Math. Softw. 26, 2000; Haidar, Ltaief and Dongarra, SC 2011). Its values: the QL iteration of
    Pal, Walker and Kahan (Parlett, The Symmetric Eigenvalue Problem, 1980;
    docs/design/algorithms.md).

    Examples:
      >>> print(ms.eigvalsh(a).round(3))
      [ 2.  2.  2.  2.  2.  2.  2. 10.]
    """
    op = operation("eigenvalues", "eigvalsh", lower=bool(lower))
    call = Call(op, ("a",), _values, on_failure, mesh)
    return run(call, (a,), (bool(overwrite_a),))


def _values(request: Request, results) -> jax.Array:
    """Those of A without its padding."""
    return results[1][: request.n]
