"""Traced calls on meshes with Auto axes: the partitioner alone knows the shardings of arrays."""

import functools
import math

from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding

from meshsolve._execute import lowered, shards
from meshsolve._execute.batches import ONE, Batch
from meshsolve._execute.placements import Placement, axes_of, devices_along, placement
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
from meshsolve._library import failures
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import Operation

__all__ = ["as_given", "cut", "form", "lengthened", "lengthened_on", "run", "spread", "widened"]


def run(op: Operation, operands, own=(), signatures=(), batch: Batch = ONE):
    """The results of ``op``; XLA decides what it overwrites."""
    del own, signatures
    at, batch = traced_placement(op, operands[op.matrix], batch)
    if at is not None:  # over the mesh that is set
        op, at = shards.settled(op, at, operands[op.matrix].shape)
        return shards.sharded(op, at, shards.mode(op, operands, at.world), batch)(*operands)
    operands = list(operands)
    operands[op.matrix] = lowered.expect_not_exported(
        operands[op.matrix],
        op.public,
        "Explicit axes, or a mesh that is set,",
        "export within jax.set_mesh(mesh), whose devices divide n",
    )
    return _partitioned(op, batch)(*operands)


def _placement(op: Operation, mesh, spec, shape, taken) -> Placement:
    """The placement of a matrix. Where its devices would have too few rows, each has them all."""
    m, n = shape[-2:]
    if op.needs_tall_shards:
        free = math.prod(mesh.shape[axis] for axis in mesh.axis_names if axis not in taken)
        devices = devices_along(spec, mesh) if any(axes_of(spec)) else free
        if m % devices or m // devices < n:
            return Placement(mesh, ())
    return placement(op.public, mesh, spec, op.divided(shape), taken=taken, extent=op.extent)


@functools.lru_cache(maxsize=256)
def _partitioned(op: Operation, batch: Batch):
    """``op`` with Auto axes, whose shardings are known when the program is partitioned."""

    def partition(mesh, operands, results):
        del results
        a = operands[op.matrix]
        if mesh.empty or not isinstance(a.sharding, NamedSharding):
            raise mistake(
                op.public,
                "a",
                "an array that is sharded over a mesh",
                "one without a sharding in a program for several devices",
                "give A a NamedSharding or mesh=, or set a mesh whose devices divide n with "
                "jax.set_mesh",
            )
        there, spec = batch.on(a.sharding.spec, op.matrix)
        if op.raises:
            failures.expect_one_call(op.public, there.axes)
        at = _placement(op, mesh, spec, a.shape, there.axes)
        settled, at = shards.settled(op, at, a.shape)
        mode = shards.mode(op, operands, at.world)
        shardings = [
            tuple(NamedSharding(mesh, spec) for spec in specs)
            for specs in there.specs(*shards.specs(settled, at, mode))
        ]
        part = functools.partial(shards.local, settled, at, mode, named=tuple(mesh.axis_names))
        return mesh, there.each(part), shardings[1], shardings[0]

    # One letter for each dimension: a factor is distributed as its matrix, a solution as its b.
    letters = {"matrix": "i j", "factor": "i j", "held": "i j", "rhs": "m k", "pivots": "p"}
    letters |= {"aligned": "i k", "solution": "j k", "residuals": "k", "triangle": "j l"}
    letters |= {"upper": "u j", "coefficients": "c", "eigenvalues": "w"}
    if op.any_shape and "factor" in (*op.operands, *op.results):
        # The factor is the transpose.
        letters |= {"factor": "j i"} if op.storage != "column-major" else {}
    terms = batch.terms(
        *([letters.get(k, "") for k in kinds] for kinds in (op.operands, op.results))
    )
    whole = custom_partitioning(batch.each(functools.partial(shards.one_device, op)))
    rule = " -> ".join(", ".join(side) for side in terms)
    whole.def_partition(partition=partition, sharding_rule=rule)
    return whole
