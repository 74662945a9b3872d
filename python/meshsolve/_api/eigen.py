"""Eigenvalues and eigenvectors of sharded Hermitian matrices: ``eigvalsh``, ``eigh``."""

import operator
from typing import Literal, NamedTuple

import jax
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api import pencil
from meshsolve._api.types import Engine, OnFailure
from meshsolve._execute import meshes
from meshsolve._execute.dispatch import described
from meshsolve._execute.rows import Rows
from meshsolve._execute.typed import by_rows
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import operation
from meshsolve._prepare.operands import as_array
from meshsolve._prepare.pipeline import Call, Request, run
from meshsolve._rules import eigen  # noqa: F401 - its rules for derivatives

Degenerate = Literal["nan", "zero"]
"""What derivatives have of pairs of equal eigenvalues."""


class EighResult(NamedTuple):
    """The result of ``eigh``, as ``jnp.linalg.eigh`` gives it. A pytree.

    Attributes:
      eigenvalues: [n], real, ascending, replicated over the devices of A.
      eigenvectors: [n, n], or [n, k] of a subset: a column for each eigenvalue, orthonormal, in the
        sharding of A if it has A's shape.

    Examples:
      >>> w, v = ms.eigh(a)
      >>> bool(jnp.allclose(a @ v, v * w, atol=1e-4))
      True
    """

    eigenvalues: jax.Array
    eigenvectors: jax.Array


def eigvalsh(
    a: ArrayLike | Rows,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
    engine: Engine | None = None,
) -> jax.Array:
    """The eigenvalues of a Hermitian A, ascending, with all devices that hold it, in its memory.

    ``jnp.linalg.eigvalsh`` and ``scipy.linalg.eigvalsh`` without a second matrix. Shardings,
    ``overwrite_a`` and ``mesh`` are those of ``meshsolve.solve``. Works eagerly and inside
    ``jax.jit``. Under ``jax.vmap`` matrices are reduced one after another. Derivatives in both
    modes use the eigenvectors and their memory, as those of ``eigh``. Second derivatives are NaN
    where two eigenvalues are equal.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128. Only one
        triangle is read. Imaginary parts of the diagonal count as zero.
      lower: whether to read A's lower triangle instead of its upper one.
      overwrite_a: donate A: the call works in its memory. Without it, the call makes one copy. It
        has no effect inside ``jax.jit``, where XLA decides about copies.
      on_failure: "nan", or "raise" where the triangle has an entry that is not finite; see
        ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.
      engine: None, or "cusolvermg" on CUDA devices; see ``meshsolve.solve``.

    Returns:
      The eigenvalues [n], real, ascending, replicated over the devices of A. NaN if an entry of the
      triangle is not finite. Their errors are a small multiple of eps times the norm of A, for all
      of them alike.

    Raises:
      ValueError: a is not square, n not divisible by the devices.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: reduction to a tridiagonal matrix (Dongarra, Sorensen and Hammarling, J. Comput. Appl.
    Math. 27, 1989), of a large a by way of a band (Bischof, Lang and Sun, ACM Trans. Math. Softw.
    26, 2000; Haidar, Ltaief and Dongarra, SC 2011). Its values: the QL iteration of
    Pal, Walker and Kahan (Parlett, The Symmetric Eigenvalue Problem, 1980;
    docs/design/algorithms.md).

    Examples:
      >>> print(ms.eigvalsh(a).round(3))
      [ 2.  2.  2.  2.  2.  2.  2. 10.]
    """
    return values("eigvalsh", a, lower, overwrite_a, on_failure, mesh, engine)


def values(public: str, a, lower: bool, overwrite_a: bool, *chosen) -> jax.Array:
    """The eigenvalues of A, for a public function; ``chosen`` are on_failure, mesh and engine."""
    op = operation("eigenvalues", public, lower=bool(lower))
    return run(Call(op, ("a",), _values, *chosen), (a,), (bool(overwrite_a),))


def _values(request: Request, results) -> jax.Array:
    """Those of A without its padding."""
    return results[1][: request.n]


def eigh(
    a: ArrayLike | Rows,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    type: pencil.Kind = 1,
    subset_by_index: tuple[int, int] | None = None,
    degenerate: Degenerate = "nan",
    overwrite_a: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
    engine: Engine | None = None,
) -> EighResult:
    """Eigenvalues and eigenvectors of a Hermitian A = V diag(w) V^H, with all devices that hold it.

    With a positive definite B, those of the pair: A V = B V diag(w), by a Cholesky factor of B.

    ``jnp.linalg.eigh`` and ``scipy.linalg.eigh`` on sharded matrices, in the memory of A and V and
    some scratch. Shardings, ``overwrite_a`` and ``mesh`` are those of ``meshsolve.solve``. Works
    eagerly and inside ``jax.jit``. Under ``jax.vmap`` matrices are decomposed one after another.

    Derivatives in both modes take the Hermitian part of a change of A. That of an eigenvector has a
    division by the distance of its eigenvalue from each other one. ``degenerate`` is for distances
    up to 2 sqrt(n) eps |A|, which may be rounding. Derivatives are products of matrices that XLA
    distributes, and each device may have several matrices of A's size at a time.

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128. Only one
        triangle is read. Imaginary parts of the diagonal count as zero.
      b: [n, n], Hermitian positive definite, of which the same triangle is read. Then A is one
        matrix, too. Copies of its size are made, and inside ``jax.jit`` XLA may gather them on
        each device. For batches use ``jax.vmap``.
      lower: whether to read A's lower triangle instead of its upper one.
      type: the problem of a pair: 1 for A V = B V diag(w), 2 for A B V = V diag(w), 3 for
        B A V = V diag(w). V^H B V = I, and of type 3 V^H B^-1 V = I.
      subset_by_index: (first, last), both counted from 0: only these eigenvalues and eigenvectors.
        Derivatives and other engines compute all. Each pair compiles a program of its own.
      degenerate: "nan": derivatives of eigenvectors are NaN if two eigenvalues are equal. "zero":
        such pairs give nothing to the first derivative. That is right for functions of projectors
        on the whole space of equal eigenvalues, and wrong for others, such as V f(w) V^H. Second
        derivatives are NaN.
      overwrite_a: donate A: the call works in its memory. Without it, the call makes one copy. It
        has no effect with B, and inside ``jax.jit``, where XLA decides about copies.
      on_failure: "nan", or "raise" where the triangle has an entry that is not finite, or B is not
        positive definite, which ``cho_factor`` finds; see ``meshsolve.solve``.
      mesh: the devices to work on, for an A that is not sharded over them, whatever n.
      engine: None, or "cusolvermg" on CUDA devices, which then factors B, too; see
        ``meshsolve.solve``.

    Returns:
      An ``EighResult``, which unpacks as ``w, v``. Both are NaN if an entry of the triangle is not
      finite, or B is not positive definite. Without B, |A V - V diag(w)| and |V^H V - I| are small
      multiples of n eps, the first one times |A|; with it they grow with B's condition. Signs of
      eigenvectors, or phases, are not fixed. The same A on the same devices gives the same bits.

    Raises:
      ValueError: a is not square, n not divisible by the devices, a subset that A does not have,
        another word for ``degenerate``, another ``type``, b of another shape.
      TypeError: a dtype that is not supported.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.

    Source: as ``eigvalsh``; eigenvectors by divide and conquer (Cuppen, Numer. Math. 36, 1981; Gu
    and Eisenstat, SIAM J. Matrix Anal. Appl. 16, 1995; docs/design/algorithms.md).

    Examples:
      >>> w, v = ms.eigh(a)
      >>> print(w.round(3))
      [ 2.  2.  2.  2.  2.  2.  2. 10.]
    """
    if not isinstance(degenerate, str) or degenerate not in ("nan", "zero"):
        got = described(degenerate)
        raise mistake("eigh", "degenerate", '"nan" or "zero"', got, "use one of these words")
    pencil.check_kind(type)
    chosen = (subset_by_index, degenerate, on_failure, mesh, engine)
    if b is None:
        a = a if isinstance(a, Rows) else as_array("eigh", "a", a)
        return _of_one(a, bool(lower), bool(overwrite_a), *chosen)
    a, b = pencil.prepared(as_array("eigh", "a", a), as_array("eigh", "b", b), mesh)
    factor = pencil.factor_of(b, bool(lower), on_failure, mesh, engine)
    w, y = _of_one(pencil.reduced(a, factor, type, bool(lower)), True, False, *chosen)
    return EighResult(w, pencil.restored(y, a, factor, type))


def _of_one(a, lower: bool, overwrite_a: bool, asked, degenerate: str, *chosen) -> EighResult:
    """The eigenvalues and eigenvectors of a matrix, or those that are asked for. ``chosen`` are
    on_failure, mesh and engine.
    """
    subset = _subset(asked, a.shape)
    some = {} if subset is None else {"first": subset.start, "vectors": subset.stop - subset.start}
    op = operation("eigenvectors", "eigh", lower=lower, degenerate=degenerate, **some)
    found = run(Call(op, ("a",), _both, *chosen), (a,), (overwrite_a,))
    return found if subset is None else _part(found, subset)


def _both(request: Request, results) -> EighResult:
    _, v, w, _ = results
    return EighResult(w[: request.n], v)


def _subset(asked, shape: tuple[int, ...]) -> slice | None:
    """The columns from the first to the last one."""
    if asked is None:
        return None
    n = shape[-1] if shape else 0
    try:
        first, last = map(operator.index, asked)
    except (TypeError, ValueError):  # JAX's error of a tracer is a TypeError, too
        first, last = -1, -1
    if not 0 <= first <= last < n:
        expected = f"two integers (first, last) with 0 <= first <= last < {n}"
        remedy = "count eigenvalues from 0, the last one included"
        raise mistake("eigh", "subset_by_index", expected, described(asked), remedy)
    return slice(first, last + 1)


def _part(found: EighResult, columns: slice) -> EighResult:
    # JAX cuts an axis only where each device has all of it.
    part = lambda x: by_rows(x)[..., columns]  # noqa: E731
    return EighResult(*(meshes.where_it_lies(part, x) for x in found))
