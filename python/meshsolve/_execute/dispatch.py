"""How an operation reaches the devices: eagerly (``eager``), traced with Explicit axes, or
partitioned.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, NamedSharding

from meshsolve._execute import eager, lowered, meshes, shards
from meshsolve._execute.placements import (
    Placement,
    ambient_placement,
    mapped_axes,
    placement,
    traced_sharding,
)
from meshsolve._library import ffi
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import Operation
from meshsolve._prepare import failures
from meshsolve._rules.batching import ONE, Batch, batchable
from meshsolve._rules.linear import solution


def call(op: Operation, operands, own, signatures: tuple[eager.Signature, ...] = ()):
    """The results of ``op``, which may overwrite operands that are ``own``. Right-hand sides are
    columns or a vector, and their solution alike.

    The sharding of a matrix sets the storage of ``op`` here. ``signatures`` are those of arrays,
    not of tracers, if they are known.
    """
    if any([isinstance(x, Tracer) for x in operands]):
        operands = [meshes.typed(x) for x in operands]
        return shards.on_columns(op, functools.partial(traced, op), operands)
    return eager.call(op, operands, own, signatures)


# Traced: Explicit axes are part of the types; with Auto axes the partitioner knows mesh and specs.


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def traced(op: Operation, *operands):
    """The results of ``op`` where an operand is traced; derivatives are in ``derivatives``."""
    if not op.solves:
        return _batchable(op)(*operands)
    results = iter(linear(op, *operands))
    x = next(results)
    return tuple(x if kind == "rhs" else next(results) for kind in op.results)


def linear(op: Operation, *operands, matrix=None):
    """(X, the other results) of a solve, which is linear in its last operand ``b``.

    The factor stands for ``matrix`` or, in its own layout, for itself.
    """
    *leaves, b = operands
    fixed = tuple(map(lax.stop_gradient, leaves))
    b = laid_out(op, leaves[0], b)

    def run(trans, r):
        results = [*_batchable(op._replace(trans=trans))(*fixed, r)]
        return results.pop(op.results.index("rhs")), tuple(results)

    a, of = (leaves[0], of_operand) if matrix is None else (matrix, itself)
    x, more = solution(op, run, of, a, b)
    return x, *more


def itself(op: Operation, a):
    """A matrix that ``op`` applies."""
    del op
    return a


def of_operand(op: Operation, a):
    """The matrix that ``op`` applies: the triangle of a Cholesky factor if that is the operand,
    otherwise the matrix that the operand stands for.
    """
    if op.family in ("triangular", "residual") and op.operands[op.matrix] == "factor":
        (a,) = traced(ffi.cholesky_to_scipy(op.storage, op.lower), a, jnp.int32(0))
    return a


def laid_out(op: Operation, a, b):
    """Traced columns ``b`` without a mesh, in the sharding that ``op`` gives its solutions with
    Explicit axes. Both then have one type.
    """
    if not jax.typeof(b).sharding.mesh.empty:
        return b
    at, _ = traced_placement(op, a)
    if at is None or AxisType.Explicit not in at.mesh.axis_types:
        return b
    return _beside(
        NamedSharding(at.mesh, at.spec("rhs", shards.mode_of(b.shape[1], at.world))), a, b
    )


# If no mesh is set, an operand tells the program its devices.
@functools.partial(jax.jit, static_argnums=0, keep_unused=True)
def _beside(sharding: NamedSharding, a, b):
    del a
    return jax.sharding.reshard(b, sharding)


@functools.lru_cache(maxsize=256)
def _batchable(op: Operation):
    return batchable(functools.partial(_traced, op, ONE), op.rhs, _solutions(op), _many(op))


def _solutions(op: Operation) -> tuple[bool, ...]:
    return tuple(kind == "rhs" for kind in op.results)


def _many(op: Operation):
    """The operation on a batch, if some operands have a leading axis."""

    @functools.cache
    def many(batched: tuple[bool, ...]):
        if not batched[op.matrix]:
            return None
        run = functools.partial(_traced, op, Batch(batched))
        return batchable(run, None, _solutions(op))

    return many


def _traced(op: Operation, batch: Batch, *operands):
    results = _program(op, batch)(*operands)
    return (None, *results[1:]) if op.drops_factor else results


@functools.lru_cache(maxsize=256)
def _program(op: Operation, batch: Batch):
    """The program of an operation, in jit also where a transformation runs it outside of a program.

    Its name tells operations apart. JAX's persistent compilation cache knows a program by its text.
    There only the name shows what ``_partitioned`` does.
    """

    def run(*operands):
        return _placed(op, batch, *operands)

    fields = [str(x) for x in op if not isinstance(x, tuple)]
    fields += ["held"] if "held" in (*op.operands, *op.results) else []
    run.__name__ = "_".join(("meshsolve", *fields, *batch.name))
    return jax.jit(run)


def traced_placement(op: Operation, a, batch: Batch = ONE) -> tuple[Placement | None, Batch]:
    """The placement of a traced matrix, or of the matrices of a batch, and the batch with its axes.
    No placement if only the partitioner will know it.
    """
    sharding, n = traced_sharding(op.public, "a", a), a.shape[-2]
    if sharding is None:
        return ambient_placement(op.public, n), batch
    batch, spec = batch.on(sharding.spec, op.matrix)
    if op.raises:
        failures.expect_one_call(op.public, batch.axes)
    taken = batch.axes if any(spec) else (*batch.axes, *mapped_axes(sharding.mesh))
    if jax.__version_info__ < (0, 10) and set(batch.axes) & set(mapped_axes(sharding.mesh)):
        raise mistake(
            op.public,
            "a",
            "a batch that is not distributed to devices with Explicit axes, or JAX 0.10",
            f"one over axes {batch.axes}, with JAX {jax.__version__}",
            "use a mesh with Auto axes, or jax.sharding.reshard",
        )
    return placement(op.public, sharding.mesh, spec, n, taken=taken), batch


def _placed(op: Operation, batch: Batch, *operands):
    at, batch = traced_placement(op, operands[op.matrix], batch)
    if at is None:
        operands = list(operands)
        operands[op.matrix] = lowered.expect_not_exported(
            operands[op.matrix],
            op.public,
            "Explicit axes, or a mesh that is set,",
            "export within jax.set_mesh(mesh), whose devices divide n",
        )
        return _partitioned(op, batch)(*operands)
    op, at = eager.settled(op, at)
    mode = shards.mode(op, operands, at.world)
    call = shards.sharded(op, at, mode, batch)
    if AxisType.Explicit not in at.mesh.axis_types:
        return call(*operands)
    specs, _ = batch.specs(*shards.specs(op, at, mode))
    results = call(*(_reshard(x, at.mesh, s) for x, s in zip(operands, specs, strict=True)))
    back = None if op.rhs is None else jax.typeof(operands[op.rhs]).sharding
    if back is None or back.mesh.empty:
        return results
    spec = batch.result(back.spec, op.rhs)
    return tuple(
        _reshard(x, at.mesh, spec) if kind == "rhs" else x
        for kind, x in zip(op.results, results, strict=True)
    )


def _reshard(x, mesh, spec):
    return jax.sharding.reshard(x, NamedSharding(mesh, spec))


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
        at = placement(op.public, mesh, spec, a.shape[-2], taken=there.axes)
        settled, at = eager.settled(op, at)
        mode = shards.mode(op, operands, at.world)
        shardings = [
            tuple(NamedSharding(mesh, spec) for spec in specs)
            for specs in there.specs(*shards.specs(settled, at, mode))
        ]
        part = functools.partial(shards.local, settled, at, mode, named=tuple(mesh.axis_names))
        return mesh, there.each(part), shardings[1], shardings[0]

    # One letter for each dimension: a factor is distributed as its matrix, a solution as its b.
    letters = {"matrix": "i j", "factor": "i j", "held": "i j", "rhs": "m k", "pivots": "p"}
    terms = batch.terms(
        *([letters.get(k, "") for k in kinds] for kinds in (op.operands, op.results))
    )
    whole = custom_partitioning(batch.each(functools.partial(shards.one_device, op)))
    rule = " -> ".join(", ".join(side) for side in terms)
    whole.def_partition(partition=partition, sharding_rule=rule)
    return whole
