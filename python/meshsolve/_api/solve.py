"""Linear systems with a sharded matrix: ``solve``."""

import functools
from typing import Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._api.types import AssumeA, Engine, OnFailure
from meshsolve._execute import dispatch
from meshsolve._execute.rows import Rows
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import Operation, operation
from meshsolve._prepare.pipeline import Call, Request, run
from meshsolve._rules import refinement


class SolveInfo(NamedTuple):
    """The second result of ``solve(..., return_info=True)``.

    A pytree. Its fields are counts and estimates, so that their derivatives are zero. Under
    ``jax.vmap`` each system has its own. The estimate of the condition costs a few solves with the
    factor.

    Attributes:
      info: int32 scalar. 0: solved. i > 0: there is no solution, x is NaN. With "pos" the leading
        minor of order i of A is not positive definite (LAPACK's ``info`` of ``potrf``). Otherwise
        pivot i is zero, as A is singular, or not finite (``info`` of ``getrf``, of A^T if A is
        sharded by rows).
      rcond: real scalar. An estimate of the reciprocal of A's condition number in the 1-norm: see
        ``LUFactor.rcond``. 0 where info > 0, NaN where A has an entry that is not finite.
      refinements: None without ``refine``. Otherwise int32 scalar: the number of refinement steps
        of the solution from half precision, or -1 if the full factorisation was needed.

    Examples:
      >>> x, info = ms.solve(a - a, b, return_info=True)
      >>> int(info.info), float(info.rcond), bool(jnp.isnan(x).all())
      (1, 0.0, True)
    """

    info: jax.Array
    rcond: jax.Array
    refinements: jax.Array | None = None


@overload
def solve(
    a: ArrayLike | Rows,
    b: ArrayLike,
    lower: bool = ...,
    *,
    assume_a: AssumeA = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    check_finite: bool = ...,
    transposed: bool = ...,
    refine: bool = ...,
    return_info: Literal[False] = ...,
    on_failure: OnFailure = ...,
    mesh: Mesh | None = ...,
    engine: Engine | None = ...,
) -> jax.Array: ...


@overload
def solve(
    a: ArrayLike | Rows,
    b: ArrayLike,
    lower: bool = ...,
    *,
    assume_a: AssumeA = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    check_finite: bool = ...,
    transposed: bool = ...,
    refine: bool = ...,
    return_info: Literal[True],
    on_failure: OnFailure = ...,
    mesh: Mesh | None = ...,
    engine: Engine | None = ...,
) -> tuple[jax.Array, SolveInfo]: ...


@overload
def solve(
    a: ArrayLike | Rows,
    b: ArrayLike,
    lower: bool = ...,
    *,
    assume_a: AssumeA = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    check_finite: bool = ...,
    transposed: bool = ...,
    refine: bool = ...,
    return_info: bool = ...,
    on_failure: OnFailure = ...,
    mesh: Mesh | None = ...,
    engine: Engine | None = ...,
) -> jax.Array | tuple[jax.Array, SolveInfo]: ...


def solve(
    a: ArrayLike | Rows,
    b: ArrayLike,
    lower: bool = False,
    *,
    assume_a: AssumeA = "gen",
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    transposed: bool = False,
    refine: bool = False,
    return_info: bool = False,
    on_failure: OnFailure = "nan",
    mesh: Mesh | None = None,
    engine: Engine | None = None,
) -> jax.Array | tuple[jax.Array, SolveInfo]:
    """Solve A X = B with all devices that hold A, in the memory of A.

    The signature is that of ``jax.scipy.linalg.solve``. A is sharded over one mesh axis by rows,
    ``P('x', None)``, or by columns, ``P(None, 'x')``. The call reads mesh and spec from the array.
    It gathers nothing: each device needs its shard, a little scratch, and the right-hand sides. An
    A by columns is first transposed within the memory of each shard. An array that is column-major
    already, ``Format(Layout((1, 0)), sharding)``, is solved as it is. Inside ``jax.jit`` layouts
    are not known, and XLA copies it. XLA reshards a replicated or two-way sharded A to rows, which
    takes a copy. It does the same with every A that is traced under ``jax.set_mesh`` with Auto
    axes. ``meshsolve.plan`` reports all this beforehand.

    The call works eagerly and inside ``jax.jit``, on meshes with Auto and with Explicit axes.
    Derivatives of every order and in both modes use one factorisation. That is of A itself, so that
    an A by rows is transposed across its shards. The gradient with respect to A is sharded as A. If
    one triangle of A is read, its tangent has to be Hermitian (symmetric). Under ``jax.vmap``
    right-hand sides become columns of one call, and matrices are solved one after another. Leading
    axes work alike; they broadcast as in NumPy. Subnormal entries of A are kept if all of A is
    small. Next to normal entries they count as zeros, and such a zero may be a pivot
    (docs/design/adr/0009-subnormal-numbers.md).

    Args:
      a: [n, n], or [..., n, n] for a batch; float32, float64, complex64 or complex128. The number
        of devices on the axis must divide n, unless ``mesh`` is given.
      b: [n], [n, k] or [..., n, k] right-hand sides in any sharding, on A's devices or elsewhere.
      lower: whether to read A's lower triangle instead of its upper one, if one triangle is enough
        for ``assume_a``.
      assume_a: the structure of A. "gen" ("general"): none; LU with partial pivoting. "pos"
        ("positive definite"): Hermitian positive definite; Cholesky reads one triangle, at half the
        work of LU. "her" ("hermitian") and "sym" ("symmetric"): also indefinite; one triangle is
        read, the other one is filled in, and LU does the rest. They cost as much as "gen".
      overwrite_a: donate A: the call makes no copy, and A is deleted. Without it, the call makes
        one copy. It has no effect inside ``jax.jit``, where XLA decides about copies.
      overwrite_b: donate B, likewise.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      transposed: solve A^T X = B.
      refine: factor A in half its precision (float64 in float32, complex128 in complex64).
        Residuals in full precision refine X until it is as good as a solution in full precision. If
        A is too ill-conditioned (a condition of 1e7 and more), the full factorisation follows
        automatically. Memory: A and half of it, and a few arrays of the size of B. An A in blocks
        or replicated also needs its copy by rows. ``overwrite_a`` matters for the full
        factorisation only. Derivatives use the full factorisation from the start.
      return_info: also return a ``SolveInfo``, which takes an estimate of A's condition.
      on_failure: "nan": if there is no answer the result is NaN. "raise": it is an error, and the
        call waits until A is factored. Inside ``jax.jit`` it is an error of the program.
      mesh: the devices to solve on, for an A that is not sharded over them, whatever n. A can be a
        NumPy array, an array on one device or on other devices, or a function for its rows
        (``Rows``). The call copies A to shards of rows, padded with an identity corner to a
        multiple of the number of devices. Memory: that copy, and the rows of one device while they
        are made. An A that is sharded over ``mesh`` already is used as it is. Inside ``jax.jit`` a
        mesh with Explicit axes needs ``jax.set_mesh(mesh)``.
      engine: None: this library's own algorithms. "cusolvermg", on CUDA devices only: NVIDIA's
        cuSolverMg factors and solves, on the same shards. n over the number of devices must have a
        divisor from 128 to 1024 (with LU 512), or be at most that. cuSolverMg has no transposed
        solves: with LU and an A by rows it factors, and this library solves. Not with ``refine``.
        Derivatives of ``solve`` and ``inv`` use this library's own algorithms.

    Returns:
      x of the shape and sharding of b, replicated over A's devices if b is elsewhere. x is NaN if A
      is singular, or not positive definite ("pos"). With ``return_info`` the pair (x, SolveInfo): x
      has derivatives, and where they are taken, ``info`` is that of A itself.

    Raises:
      ValueError: wrong shapes, an unknown ``assume_a``, n not divisible by the devices; inside
        ``jax.jit`` a mesh with both Auto and Explicit axes.
      TypeError: a dtype that is not supported, also float32 and complex64 with ``refine``.
      numpy.linalg.LinAlgError: no answer, with ``on_failure="raise"``; of a traced call
        jax.errors.JaxRuntimeError.
      jax.errors.JaxRuntimeError: a device did not take part in the call; see ``set_timeout``.

    Source: right-looking Cholesky and LU by tile columns with lookahead
    (docs/design/algorithms.md); ``info`` is LAPACK's.

    Examples:
      >>> x = ms.solve(a, b, assume_a="pos")
      >>> x, info = ms.solve(a, jnp.stack([b, b], axis=1), return_info=True)
      >>> x.shape, int(info.info)
      ((8, 2), 0)
      >>> ms.solve(a, jnp.ones(7))
      Traceback (most recent call last):
      ValueError: meshsolve.solve: b: expected shape [8] or [8, k], ...
    """
    del check_finite
    result = (_refined if refine else _informed) if return_info else _solution
    op = solving("solve", assume_a, bool(lower), bool(transposed), bool(return_info))
    call = Call(op, ("a", "b"), result, on_failure, mesh, engine)
    by = refinement.solve if refine else dispatch.call
    return run(call, (a, b), (bool(overwrite_a), bool(overwrite_b)), by)


@functools.lru_cache(maxsize=256)
def solving(
    public: str, assume_a: AssumeA, lower: bool, transposed: bool, condition: bool
) -> Operation:
    """The operation that solves with an A of this structure."""
    structure, more = structure_of(public, assume_a), "_rcond" if condition else ""
    fields = {"lower": lower, "trans": int(transposed)}
    if structure == "positive definite":
        return operation("posv" + more, public, **fields)
    return operation("gesv" + more, public, structure=structure, **fields)


def _solution(request: Request, results) -> jax.Array:
    del request
    return results[1]


def _informed(request: Request, results) -> tuple[jax.Array, SolveInfo]:
    del request
    _, x, *info = results
    return x, SolveInfo(*info)


def _refined(request: Request, results) -> tuple[jax.Array, SolveInfo]:
    del request
    _, x, *info = results
    return x, SolveInfo(*info[:2], *(info[2:] or [jnp.int32(0)]))


_STRUCTURES = {
    "gen": "general",
    "pos": "positive definite",
    "her": "hermitian",
    "sym": "symmetric",
}


def structure_of(operation: str, assume_a: AssumeA) -> str:
    """The long name of the structure of A."""
    known = _STRUCTURES.get(assume_a, assume_a)
    if known not in _STRUCTURES.values():
        names = ", ".join(f'"{name}"' for name in _STRUCTURES)
        raise mistake(
            operation,
            "assume_a",
            f"one of {names}",
            repr(assume_a),
            'for other structures use "gen", which is right for every matrix',
        )
    return known
