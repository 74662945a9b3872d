"""Linear systems with a sharded matrix: ``solve``."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from meshsolve import _ffi
from meshsolve._errors import mistake, wrong_type
from meshsolve._sharding import Rows, concrete_sharding, rows_for, traced_sharding

# Up to this many right-hand sides all devices work on all of them together; more are dealt out.
_FEW = 32

_DTYPES = ("float32", "float64", "complex64", "complex128")


class SolveInfo(NamedTuple):
    """What ``solve(..., return_info=True)`` says beside the solution.

    Attributes:
      info: int32 scalar. 0: solved. i > 0: the leading minor of order i of A is not positive
        definite and the solution is NaN (LAPACK's ``info`` of ``potrf``).
    """

    info: jax.Array


def solve(
    a,
    b,
    lower: bool = False,
    *,
    assume_a: str = "gen",
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    return_info: bool = False,
):
    """Solve A X = B with all devices that hold A, in the memory of A.

    The call of ``jax.scipy.linalg.solve`` for a matrix that is sharded by rows over one mesh axis,
    ``P('x', None)``; mesh and spec are read from the array. Nothing is gathered: on each device the
    call needs its shard, a little scratch, and the right-hand sides. Other shardings of A are right
    too but are first resharded by XLA to rows, which takes a second copy.

    Works eagerly and inside ``jax.jit``, on meshes with Auto and with Explicit axes. Not yet
    differentiable.

    Args:
      a: [n, n], float32, float64, complex64 or complex128; Hermitian positive definite. Only one
        triangle is read. n must be divisible by the number of devices on the axis.
      b: [n] or [n, k] right-hand sides in any sharding, on A's devices or elsewhere.
      lower: whether A's lower triangle is read instead of its upper one.
      assume_a: "pos" ("positive definite"); nothing else in this version.
      overwrite_a: donate A: the call then makes no copy of it and A is deleted. Without, one copy
        is made. Has no effect inside ``jax.jit``, where XLA decides about copies.
      overwrite_b: donate B, likewise.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      return_info: also return a ``SolveInfo``.

    Returns:
      x of the shape and sharding of b (replicated if b does not lie on A's mesh); NaN where A is
      not positive definite. With ``return_info`` the pair (x, SolveInfo).

    Raises:
      ValueError: wrong shapes, an unknown ``assume_a``, n not divisible by the devices.
      TypeError: a dtype that cannot be used.
      jax.errors.JaxRuntimeError: a device did not take part in the call; see ``set_timeout``.

    Source: block-cyclic right-looking Cholesky with lookahead; "info" as LAPACK's posv.
    """
    del check_finite
    if assume_a not in ("pos", "positive definite"):
        raise mistake(
            "solve",
            "assume_a",
            '"pos"',
            repr(assume_a),
            "this version solves positive definite systems only; for others gather the matrix and "
            "use jax.scipy.linalg.solve",
        )
    given_b = b
    a, b = _operands(a, b)
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    if b.size == 0:
        x, info = b, jnp.int32(0)
    elif isinstance(a, Tracer) or isinstance(b, Tracer):
        x, info = _solve_traced(a, b, lower)
    else:
        # An operand made here (promoted, moved from NumPy, reshaped) is nobody else's.
        own_b = overwrite_b or b is not given_b
        x, info = _solve_eager(a, b, lower, overwrite_a, own_b)
        x = x[:, 0] if vector else x
        return (x, SolveInfo(info)) if return_info else x
    x = x[:, 0] if vector else x
    return (x, SolveInfo(info)) if return_info else x


def _operands(a, b):
    """Check shapes and dtypes and promote to one dtype, as jnp would."""
    a, b = (x if isinstance(x, jax.Array) else jnp.asarray(x) for x in (a, b))
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise mistake(
            "solve",
            "a",
            "a square matrix [n, n]",
            f"shape {a.shape}",
            "batches: jax.vmap is not supported yet, loop over them",
        )
    n = a.shape[0]
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise mistake(
            "solve",
            "b",
            f"shape [{n}] or [{n}, k], to go with a of shape {a.shape}",
            f"shape {b.shape}",
            "give one right-hand side per column",
        )
    dtype = jnp.result_type(a.dtype, b.dtype, 1.0)
    if dtype.name not in _DTYPES:
        raise wrong_type(
            "solve",
            "a and b",
            "dtypes that promote to one of " + ", ".join(_DTYPES),
            f"{a.dtype} and {b.dtype}, which promote to {dtype}",
            "convert with .astype(jnp.float32)",
        )
    return (x if x.dtype == dtype else x.astype(dtype) for x in (a, b))


def _rhs_mode(k: int) -> str:
    return "replicated" if k <= _FEW else "columns"


def _padded(b, multiple: int):
    """B with zero columns added until their number is divisible by ``multiple``."""
    missing = -b.shape[1] % multiple
    return jnp.pad(b, ((0, 0), (0, missing))) if missing else b


def _local(rows: Rows, lower: bool, mode: str, a, b):
    """One device's part, where the axes of ``rows.mesh`` have names."""
    return _ffi.posv(rows.place(), a, b, world=rows.world, lower=lower, rhs=mode)


def _sharded(rows: Rows, lower: bool, mode: str):
    """(a, b) -> (work, x, info) on whole arrays."""
    return jax.shard_map(
        functools.partial(_local, rows, lower, mode),
        mesh=rows.mesh,
        in_specs=(rows.matrix, rows.rhs(mode)),
        out_specs=(rows.matrix, rows.rhs(mode), PartitionSpec()),
        check_vma=False,
    )


# Eager: mesh and specs are those of the arrays.


def _solve_eager(a, b, lower: bool, own_a: bool, own_b: bool):
    sharding = concrete_sharding("solve", "a", a)
    rows = rows_for("solve", sharding.mesh, sharding.spec, a.shape[0])
    mode, k = _rhs_mode(b.shape[1]), b.shape[1]
    home = _home(b, rows)
    # Columns can be added and removed where they are not sharded.
    by_rows = NamedSharding(rows.mesh, rows.matrix)
    if mode == "columns" and k % rows.world:
        b = _padded(_moved(b, by_rows)[0], rows.world)
        own_b = True
    a, moved_a = _moved(a, by_rows)
    b, moved_b = _moved(b, NamedSharding(rows.mesh, rows.rhs(mode)))
    run = _eager_call(rows, lower, mode, own_a or moved_a, own_b or moved_b)
    (x, info), _ = run(a, b)
    if x.shape[1] != k:
        x = jax.device_put(x, by_rows)[:, :k]
    return (x if x.sharding == home else jax.device_put(x, home)), info


@functools.lru_cache(maxsize=256)
def _eager_call(rows: Rows, lower: bool, mode: str, donate_a: bool, donate_b: bool):
    call = _sharded(rows, lower, mode)

    def run(a, b):
        work, x, info = call(a, b)
        # A donated A can only be used in place if its memory is also returned; the caller drops it.
        return (x, info), work if donate_a else None

    donated = tuple(i for i, donate in enumerate((donate_a, donate_b)) if donate)
    return jax.jit(run, donate_argnums=donated)


def _moved(x, target: NamedSharding):
    """(x in sharding ``target``, whether that is memory of its own)."""
    if x.sharding == target:
        return x, False
    y = jax.device_put(x, target)
    pointers = [{s.data.unsafe_buffer_pointer() for s in z.addressable_shards} for z in (x, y)]
    return y, pointers[0].isdisjoint(pointers[1])


def _home(b, rows: Rows):
    """The sharding that the solution goes back to."""
    if isinstance(b.sharding, NamedSharding) and b.sharding.mesh == rows.mesh:
        return b.sharding
    return NamedSharding(rows.mesh, PartitionSpec())


# Traced: Explicit axes are part of the types; with Auto axes the partitioner knows mesh and specs.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _solve_traced(a, b, lower: bool):
    sharding = traced_sharding("solve", "a", a)
    if sharding is None:
        return _solve_partitioned(a, b, lower)
    rows = rows_for("solve", sharding.mesh, sharding.spec, a.shape[0])
    mode, k = _rhs_mode(b.shape[1]), b.shape[1]
    home = jax.typeof(b).sharding

    def reshard(x, spec):
        return jax.sharding.reshard(x, NamedSharding(rows.mesh, spec))

    if mode == "columns" and k % rows.world:
        b = _padded(reshard(b, rows.matrix), rows.world)
    a, b = reshard(a, rows.matrix), reshard(b, rows.rhs(mode))
    _, x, info = _sharded(rows, lower, mode)(a, b)
    if x.shape[1] != k:
        x = reshard(x, rows.matrix)[:, :k]
    return (x if home.mesh.empty else reshard(x, home.spec)), info


@_solve_traced.defjvp
def _refuse_derivative(lower, primals, tangents):
    raise mistake(
        "solve",
        "a, b",
        "arrays that are not differentiated",
        "a request for a derivative",
        "solve has no derivative rule in this version; wrap it in jax.lax.custom_linear_solve",
    )


def _solve_partitioned(a, b, lower: bool):
    k = b.shape[1]
    if _rhs_mode(k) == "columns":
        # The number of devices that will take part is not known yet; it divides that of all.
        b = _padded(b, jax.device_count())
    _, x, info = _posv_partitioned(a, b, lower)
    return x[:, :k], info


def _posv_one_device(a, b, lower):
    mode = _rhs_mode(b.shape[1])
    return _ffi.posv(jnp.zeros(2, jnp.int32), a, b, world=1, lower=lower, rhs=mode)


def _partition(lower, mesh, operands, results):
    del results
    a, b = operands
    rows = rows_for("solve", mesh, a.sharding.spec, a.shape[0])
    divisible = b.shape[1] % rows.world == 0
    mode = _rhs_mode(b.shape[1]) if divisible else "replicated"
    matrix, rhs, scalar = (
        NamedSharding(mesh, spec) for spec in (rows.matrix, rows.rhs(mode), PartitionSpec())
    )
    local = functools.partial(_local, rows, lower, mode)
    return mesh, local, (matrix, rhs, scalar), (matrix, rhs)


def _infer_sharding(lower, mesh, operands, results):
    del lower, results
    a, b = operands
    return a.sharding, b.sharding, NamedSharding(mesh, PartitionSpec())


_posv_partitioned = custom_partitioning(_posv_one_device, static_argnums=(2,))
_posv_partitioned.def_partition(
    partition=_partition,
    infer_sharding_from_operands=_infer_sharding,
    sharding_rule="i j, m k -> i j, m k, ",
)
