"""An operation on whole arrays, by what each device does with its shards.

The modes of right-hand sides: up to 32 are "replicated", and all devices work on each; more are
distributed by "columns". If the devices do not divide the columns, they enter and leave by "rows".
The call adds zero columns and exchanges them. Where they divide neither, all have all of them.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from meshsolve._execute import tall
from meshsolve._execute.batches import ONE, Batch
from meshsolve._execute.placements import Placement
from meshsolve._library import ffi, processes
from meshsolve._library.ffi import Operation
from meshsolve._library.routines import ROUTINES

# Up to this many right-hand sides are replicated.
REPLICATED_RHS = 32


def mode_of(k: int, world: int, rows: int) -> str:
    """How k right-hand sides of so many rows are distributed to the devices."""
    if k <= REPLICATED_RHS or (k % world and rows % world):
        return "replicated"
    return "rows" if k % world else "columns"


def mode(op: Operation, operands, world: int) -> str:
    if op.rhs is None or is_vector(op, operands):
        return "replicated"
    rows, k = operands[op.rhs].shape[-2:]
    return mode_of(k, world, rows)


def is_vector(op: Operation, operands) -> bool:
    return op.sides is not None and operands[op.sides].ndim == 1


def settled(op: Operation, at: Placement, shape) -> tuple[Operation, Placement]:
    """The operation and the placement, both with the storage of the matrix, or of the matrix that
    the factor was made from. ``shape`` is that of the matrix. A caller may know that a rectangle is
    "column-major".
    """
    kind = op.operands[op.matrix]
    if kind == "matrix" and at.storage != "column-major" and _only_by_columns(op, shape):
        at = at._replace(storage="column-major" if op.storage == "column-major" else "columns")
    if op.takes_tall:
        at = at._replace(storage="rows")
    if kind == "matrix":
        return op._replace(storage=at.storage), at
    if kind == "held":
        return op, at
    return op, at._replace(storage=op.storage)


def _only_by_columns(op: Operation, shape) -> bool:
    return op.any_shape and shape[-1] != shape[-2]


def on_columns(op: Operation, run, operands):
    """The results of ``run``, which takes and gives columns; a vector b gives a vector."""
    if not is_vector(op, operands):
        return run(*operands)
    columns = zip(op.operands, operands, strict=True)
    operands = [x[:, None] if kind in ("rhs", "aligned") else x for kind, x in columns]
    pairs = zip(op.results, run(*operands), strict=True)
    return tuple(x[:, 0] if kind in ("rhs", "solution") else x for kind, x in pairs)


def local(op: Operation, at: Placement, mode: str, *operands, named: tuple[str, ...] | None = None):
    """One device's part, where axes of ``at.mesh`` have names. These are all axes, or in shard_map
    under vmap all but those that are mapped over.
    """
    if at.crosses_processes and tall.joins(op):
        return tall.joined(op, at, *operands)
    named = jax.sharding.get_abstract_mesh().manual_axes if named is None else named
    operands = list(operands)
    columns = "columns" if mode == "rows" else mode
    k = 0 if op.rhs is None else operands[op.rhs].shape[1]
    for i, kind in enumerate(op.operands):
        if kind == "held" and at.storage == "columns":
            operands[i] = operands[i].reshape(operands[i].shape[::-1])
        if kind == "rhs" and mode == "rows":
            b = jnp.pad(operands[i], ((0, 0), (0, -k % at.world)))
            operands[i] = lax.all_to_all(b, at.axes, split_axis=1, concat_axis=0, tiled=True)
    if at.crosses_processes:
        processes.expect_ready(op.public, ROUTINES[op.routine], op.engine)
        op = op._replace(engine=processes.ENGINE)
    else:
        processes.expect_other(op.public, op.engine)
    results = list(ffi.call(op, at.place(named), at.world, columns, operands))
    for i, kind in enumerate(op.results):
        if kind == "rhs" and mode == "rows":
            x = lax.all_to_all(results[i], at.axes, split_axis=0, concat_axis=1, tiled=True)
            results[i] = x[:, :k]
        if at.storage == "columns":
            results[i] = _of_kind(op, kind, results[i])
    return tuple(results)


def _of_kind(op: Operation, kind: str, x):
    """A result of a call by columns. The library turns columns into rows in the same memory, and
    back. XLA adds a copy to a reshape before an in-place call, but none to one after it. So the
    library takes and gives the shape of the operand.
    """
    is_other = kind in ("matrix", "factor") and kind != op.operands[op.matrix]
    return x.reshape(x.shape[::-1]) if is_other else x


def specs(op: Operation, at: Placement, mode: str):
    """Specs of operands and of results."""
    return tuple(
        tuple(at.spec(kind, mode) for kind in kinds) for kinds in (op.operands, op.results)
    )


def sharded(op: Operation, at: Placement, mode: str, batch: Batch = ONE):
    """The operation on whole arrays."""
    in_specs, out_specs = batch.specs(*specs(op, at, mode))
    part = batch.each(functools.partial(local, op, at, mode))
    return jax.shard_map(
        part, mesh=at.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def one_device(op: Operation, *operands):
    processes.expect_other(op.public, op.engine)
    a = operands[op.matrix]
    is_given = op.operands[op.matrix] == "matrix" and op.storage != "column-major"
    if is_given and _only_by_columns(op, a.shape):
        op = op._replace(storage="columns")
    how = mode(op, operands, 1)
    results = ffi.call(op, jnp.zeros(2, jnp.int32), 1, how, operands, alone=True)
    if op.storage != "columns":
        return results
    return tuple(_of_kind(op, kind, x) for kind, x in zip(op.results, results, strict=True))
