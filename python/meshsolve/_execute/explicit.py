"""Traced calls on meshes with Explicit axes: the types of arrays show their shardings."""

import jax
from jax.sharding import NamedSharding

from meshsolve._execute import shards
from meshsolve._execute.batches import ONE, Batch
from meshsolve._execute.traced import (
    as_given,
    cut,
    form,
    lengthened,
    lengthened_on,
    spread,
    traced_placement,
    widened,
)
from meshsolve._library.ffi import Operation

__all__ = ["as_given", "cut", "form", "lengthened", "lengthened_on", "run", "spread", "widened"]


def run(op: Operation, operands, own=(), signatures=(), batch: Batch = ONE):
    """The results of ``op``; XLA decides what it overwrites."""
    del own, signatures
    at, batch = traced_placement(op, operands[op.matrix], batch)
    assert at is not None, "a type with Explicit axes shows it"
    op, at = shards.settled(op, at, operands[op.matrix].shape)
    mode = shards.mode(op, operands, at.world)
    specs, _ = batch.specs(*shards.specs(op, at, mode))
    given = (_resharded(x, at.mesh, spec) for x, spec in zip(operands, specs, strict=True))
    results = shards.sharded(op, at, mode, batch)(*given)
    back = None if op.rhs is None else jax.typeof(operands[op.rhs]).sharding
    if back is None or back.mesh.empty:
        return results
    spec = batch.result(back.spec, op.rhs)
    pairs = zip(op.results, results, strict=True)
    return tuple(_resharded(x, at.mesh, spec) if kind == "rhs" else x for kind, x in pairs)


def _resharded(x, mesh, spec):
    return jax.sharding.reshard(x, NamedSharding(mesh, spec))
