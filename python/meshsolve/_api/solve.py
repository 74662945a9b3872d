"""Linear systems with a sharded matrix: ``solve``."""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from meshsolve._api.types import AssumeA, Engine, OnFailure
from meshsolve._execute import dispatch, eager, meshes, shards
from meshsolve._library import engines, ffi
from meshsolve._library.errors import mistake
from meshsolve._prepare import failures, leading, padding
from meshsolve._prepare.operands import (
    DTYPES,
    as_array,
    as_typed,
    check_rhs,
    check_square,
    common_dtype,
    promoted,
)
from meshsolve._prepare.rows import Rows
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
    options = (bool(lower), assume_a, bool(transposed), return_info, on_failure, mesh, engine)
    widest = jax.dtypes.canonicalize_dtype(float)
    signatures = None if refine else eager.plain(options, a, b)
    if signatures and (op := _prepared(widest, *signatures, *options)):
        ffi.enter()
        own = (bool(overwrite_a), bool(overwrite_b))
        _, x, *info = dispatch.call(op, (a, b), own, signatures)
        return (x, SolveInfo(*info)) if return_info else x
    structure = structure_of("solve", assume_a)
    raises = failures.raises("solve", on_failure)
    given_a, given_b = a, b
    a, b = as_typed("solve", "a", a), as_array("solve", "b", b)
    n = check_square("solve", a)
    check_rhs("solve", b, n)
    kept = {"lower": lower, "assume_a": assume_a, "transposed": transposed, "refine": refine}
    kept |= {"return_info": return_info, "on_failure": on_failure, "mesh": mesh, "engine": engine}
    if (batch := leading.systems(solve, a, b, **kept)) is not None:
        return batch
    dtype = common_dtype("solve", "a and b", a, b)
    padding.check_mesh("solve", mesh)
    a, moved = padding.on_mesh("solve", a, mesh, dtype)
    maker = engines.checked("solve", engine, a)
    if maker and refine:
        remedy = "leave one of them out"
        raise mistake("solve", "refine", f'False with engine="{engine}"', "True", remedy)
    own_a = overwrite_a or moved or a is not given_a
    own_b = overwrite_b or b is not given_b or b.dtype != dtype
    order, trans = n if a.shape[0] != n else 0, int(bool(transposed))
    op = _operation(structure, bool(lower), order, trans, return_info)
    op = op._replace(raises=raises, engine=maker)
    run = lambda b, own_b: dispatch.call(op, (a, b), (own_a, own_b))[1:]  # noqa: E731
    if refine:
        refinement.check_dtype(dtype)
        task = refinement.Task(structure, bool(lower), trans, order, return_info)
        given = a  # the user may keep it if another array replaces it

        def full(a, b, own=False):
            return dispatch.call(op, (a, b), (own or (own_a and a is given), False))[1:]

        run = lambda b, own_b: refinement.solve(task, op, a, b, full)  # noqa: E731
    b = promoted(b, dtype)
    if not return_info and b.size == 0 and raises and n:
        solved(run, jnp.zeros((n, 1), dtype), True, a)
    if not return_info:
        return solved(run, b, own_b, a, not refine)[0]
    if n == 0:
        one = jnp.ones((), jnp.finfo(dtype).dtype)
        return b, SolveInfo(jnp.int32(0), one, jnp.int32(0) if refine else None)
    if b.size == 0:  # A is factored in any case
        return b, SolveInfo(*solved(run, jnp.zeros((n, 1), dtype), True, a)[1:])
    x, *info = solved(run, b, own_b, a, not refine)
    return x, SolveInfo(*info)


@functools.lru_cache(maxsize=512)
def _prepared(
    widest: np.dtype,
    a: eager.Signature,
    b: eager.Signature,
    lower: bool,
    assume_a: AssumeA,
    transposed: bool,
    return_info: bool,
    on_failure: OnFailure,
    mesh: Mesh | None,
    engine: Engine | None,
) -> ffi.Operation | None:
    """The operation for A and B that need no conversion, padding or batch; None for others. JAX's
    results have at most the precision of ``widest``.
    """
    n = a.shape[0] if a.shape else 0
    fits = a.shape == (n, n) and b.ndim in (1, 2) and b.shape[0] == n and 0 not in b.shape
    typed = a.dtype == b.dtype and a.dtype.name in DTYPES
    typed = typed and np.finfo(a.dtype).eps >= np.finfo(widest).eps
    there = mesh is None or (isinstance(mesh, Mesh) and padding.lies_on(a.sharding, mesh, n))
    if not (fits and typed and there and n):
        return None
    structure, raises = structure_of("solve", assume_a), failures.raises("solve", on_failure)
    maker = engines.checked("solve", engine, a)
    op = _operation(structure, lower, 0, int(transposed), bool(return_info))
    return op._replace(raises=raises, engine=maker)


def _operation(structure: str, lower: bool, order: int, trans: int, condition: bool):
    if structure == "positive definite":
        return ffi.posv(lower, order, trans, condition)
    return ffi.gesv(structure, lower, order, trans, condition)


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


def solved(
    run: Callable[..., Any], b: jax.Array, own_b: bool, a: Any, vectors: bool = False
) -> tuple[Any, ...]:
    """Run ``run(b, own)``, which takes columns of full length, for the right-hand sides of a user.
    These may be vectors, empty, or shorter than a padded A. Return (x, info), or (x, its other
    results). ``vectors``: ``run`` also takes vectors, which saves two programs.
    """
    vector, rows = b.ndim == 1, b.shape[0]
    if vector and vectors and b.size and rows == a.shape[0]:
        return run(b, own_b)
    own_b = own_b or vector
    b = _as_column(b) if vector else b
    if b.size == 0:
        x, more = b, (jnp.int32(0),)
    elif rows == a.shape[0]:
        x, *more = run(b, own_b)
    else:
        x, *more = _padded(run, b, a)
    return (_column(x) if vector else x), *more


# Compiled once: indexing outside of programs takes JAX longer than all other steps here.
_to_column = jax.jit(lambda b: b[:, None])
_to_vector = jax.jit(lambda x: x[:, 0])


def _as_column(b):
    return b[:, None] if isinstance(b, Tracer) else _to_column(b)


def _column(x):
    """X [n, 1] as a vector, also if the user has set another mesh."""
    if isinstance(x, Tracer):
        return x[:, 0]
    if not isinstance(x.sharding, NamedSharding):
        return _to_vector(x)
    with meshes.mesh_context(x.sharding.mesh):
        return _to_vector(x)


def _padded(run, b, a):
    n, k = b.shape
    if isinstance(a, Tracer) or isinstance(b, Tracer):
        x, *more = run(padding.padded_rows(padding.replicated(b), a.shape[0]), True)
        return padding.replicated(x)[:n], *more
    if not isinstance(a.sharding, NamedSharding):
        x, *more = run(padding.padded_rows(b, a.shape[0]), True)
        return x[:n], *more
    # Replicated or by columns: any number of rows can be added and cut off.
    mesh, back = a.sharding.mesh, meshes.home(b, a.sharding.mesh)
    few = k <= shards.REPLICATED_RHS
    spec = PartitionSpec() if few else PartitionSpec(None, tuple(mesh.axis_names))
    missing = 0 if few else -k % mesh.size
    if missing:
        if isinstance(b.sharding, NamedSharding):
            b = jax.device_put(b, NamedSharding(b.sharding.mesh, PartitionSpec()))
        b = jnp.pad(b, ((0, 0), (0, missing)))
    b = jax.device_put(b, NamedSharding(mesh, spec))
    x, *more = run(padding.padded_rows(b, a.shape[0]), True)
    if missing:
        return padding.leading(x, (n, k), back), *more
    return jax.device_put(x[:n], back), *more
