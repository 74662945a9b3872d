"""How an operation reaches the devices: eagerly, traced with Explicit axes, or partitioned.

The modes of right-hand sides: up to 32 are "replicated", and all devices work on each; more are
distributed by "columns". If the devices do not divide the columns, they enter and leave by "rows".
The call adds zero columns and exchanges them.
"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.layout import Format, Layout
from jax.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

from meshsolve import _failure, _ffi, _lowered, _meshes
from meshsolve._batched import ONE, Batch, batchable
from meshsolve._errors import mistake
from meshsolve._ffi import Operation
from meshsolve._linear import solution
from meshsolve._rows import distributed
from meshsolve._sharding import (
    Placement,
    ambient_placement,
    axes_of,
    expect_known,
    is_two_way,
    mapped_axes,
    placement,
    traced_sharding,
)

# Up to this many right-hand sides are replicated.
REPLICATED_RHS = 32


def mode_of(k: int, world: int) -> str:
    """How k right-hand sides are distributed to the devices."""
    if k <= REPLICATED_RHS:
        return "replicated"
    return "rows" if k % world else "columns"


def _mode(op: Operation, operands, world: int) -> str:
    if op.rhs is None or _is_vector(op, operands):
        return "replicated"
    return mode_of(operands[op.rhs].shape[-1], world)


def _is_vector(op: Operation, operands) -> bool:
    return op.rhs is not None and operands[op.rhs].ndim == 1


def _on_columns(op: Operation, run, operands):
    """The results of ``run``, which takes and gives columns; a vector b gives a vector."""
    if not _is_vector(op, operands):
        return run(*operands)
    operands = [x[:, None] if i == op.rhs else x for i, x in enumerate(operands)]
    pairs = zip(op.results, run(*operands), strict=True)
    return tuple(x[:, 0] if kind == "rhs" else x for kind, x in pairs)


def local(op: Operation, at: Placement, mode: str, *operands, named: tuple[str, ...] | None = None):
    """One device's part, where axes of ``at.mesh`` have names. These are all axes, or in shard_map
    under vmap all but those that are mapped over.
    """
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
    results = list(_ffi.call(op, at.place(named), at.world, columns, operands))
    for i, kind in enumerate(op.results):
        if kind == "rhs" and mode == "rows":
            x = lax.all_to_all(results[i], at.axes, split_axis=0, concat_axis=1, tiled=True)
            results[i] = x[:, :k]
        # The library turns columns into rows in the same memory, and back. XLA adds a copy to a
        # reshape before an in-place call, but none to one after it. So the library takes and gives
        # the shape of the operand.
        is_other = kind in ("matrix", "factor") and kind != op.operands[op.matrix]
        if at.storage == "columns" and is_other:
            results[i] = results[i].reshape(results[i].shape[::-1])
    return tuple(results)


def _specs(op: Operation, at: Placement, mode: str):
    """Specs of operands and of results."""
    return tuple(
        tuple(at.spec(kind, mode) for kind in kinds) for kinds in (op.operands, op.results)
    )


def _sharded(op: Operation, at: Placement, mode: str, batch: Batch = ONE):
    """The operation on whole arrays."""
    in_specs, out_specs = batch.specs(*_specs(op, at, mode))
    part = batch.each(functools.partial(local, op, at, mode))
    return jax.shard_map(
        part, mesh=at.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def _one_device(op: Operation, *operands):
    mode = _mode(op, operands, 1)
    return _ffi.call(op, jnp.zeros(2, jnp.int32), 1, mode, operands, alone=True)


def call(op: Operation, operands, own):
    """The results of ``op``, which may overwrite operands that are ``own``. Right-hand sides are
    columns or a vector, and their solution alike.

    The sharding of a matrix sets the storage of ``op`` here.
    """
    if any(isinstance(x, Tracer) for x in operands):
        operands = [_meshes.typed(x) for x in operands]
        return _on_columns(op, functools.partial(traced, op), operands)
    _expect_not_mapped(op, operands[op.matrix])
    # A traced function that closes over the operands has no known results.
    known = op.raises and not isinstance(jnp.zeros(()), Tracer)
    results = _eager(op._replace(raises=False) if known else op, operands, own)
    if known:
        _failure.check(op, results)
    return results


def _expect_not_mapped(op: Operation, a) -> None:
    """Refuse a matrix that is closed over under a ``jax.vmap`` over another axis of its mesh. There
    the calling group of devices is not known.
    """
    mesh, here = jax.typeof(a).sharding.mesh, jax.sharding.get_abstract_mesh()
    if here.empty or here != mesh or AxisType.Explicit not in mesh.axis_types:
        return
    if mapped := mapped_axes(mesh):
        raise mistake(
            op.public,
            "a",
            "a matrix of the batch that jax.vmap maps over, or a mesh with Auto axes",
            f"one for the whole batch, which is distributed to mesh axes {mapped}",
            "factor it outside of jax.vmap, and call the factor's methods inside",
        )


# Eager: mesh and specs are those of the arrays.


def is_column_major(x) -> bool:
    """Whether a matrix that is not traced is column-major in memory."""
    layout = getattr(getattr(x, "format", None), "layout", None)
    return layout is not None and layout.major_to_minor == (1, 0)


def eager_placement(operation: str, a) -> Placement | None:
    """The placement of a matrix that is not traced; None if one device works on it alone."""
    expect_known(operation, a.sharding.device_set)
    if isinstance(a.sharding, SingleDeviceSharding):
        return None
    if not isinstance(a.sharding, NamedSharding):
        raise mistake(
            operation,
            "a",
            "an array with a NamedSharding, or on one device",
            f"a {type(a.sharding).__name__}",
            "use jax.device_put(x, NamedSharding(mesh, PartitionSpec('x', None)))",
        )
    mesh, n = a.sharding.mesh, a.shape[0]
    assert isinstance(mesh, Mesh), "an array that is not traced is on devices"
    if a.sharding.is_fully_replicated and n % mesh.size:
        return None
    return placement(operation, mesh, a.sharding.spec, n, is_column_major(a))


def _settle(op: Operation, at: Placement) -> tuple[Operation, Placement]:
    """The operation and the placement, both with the storage of the matrix, or of the matrix that
    the factor was made from.
    """
    kind = op.operands[op.matrix]
    if kind == "matrix":
        return op._replace(storage=at.storage), at
    if kind == "held":
        return op, at
    return op, at._replace(storage=op.storage)


def _eager(op: Operation, operands, own):
    operands = [*operands]
    a = operands[op.matrix] = _meshes.anchored(operands[op.matrix])
    at = eager_placement(op.public, a)
    if at is None:
        return _eager_on_one_device(op, operands, own)
    op, at = _settle(op, at)
    mode, mesh = _mode(op, operands, at.world), a.sharding.mesh
    with _meshes.mesh_context(mesh):
        there = [moved(x, to) for x, to in zip(operands, _targets(op, at, mode), strict=True)]
        own = tuple(mine or new for mine, (_, new) in zip(own, there, strict=True))
        results = _eager_call(op, at, mode, own)(*(x for x, _ in there))
        homes = {} if op.rhs is None else {"rhs": _meshes.home(operands[op.rhs], mesh)}
        return _sent_home(op, results, homes)


@functools.lru_cache(maxsize=256)
def _targets(op: Operation, at: Placement, mode: str) -> tuple[NamedSharding | Format, ...]:
    """The sharding that each operand needs."""
    pairs = zip(op.operands, _specs(op, at, mode)[0], strict=True)
    return tuple(_format(op, kind, NamedSharding(at.mesh, spec)) for kind, spec in pairs)


def _eager_on_one_device(op: Operation, operands, own):
    a, whole = operands[op.matrix], None
    homes: dict[str, Sharding] = {}
    if not isinstance(a.sharding, SingleDeviceSharding):
        # Replicated over devices that do not divide n: the first one works, all get the answer.
        whole = NamedSharding(a.sharding.mesh, PartitionSpec())
        if op.rhs is not None:
            homes["rhs"] = _meshes.home(operands[op.rhs], a.sharding.mesh)
        own = tuple(mine and i != op.matrix for i, mine in enumerate(own))
        operands = [*operands]
        operands[op.matrix] = a.addressable_data(0)
    here = operands[op.matrix].sharding
    stays = [x.sharding.device_set == here.device_set for x in operands]
    operands = [x if s else jax.device_put(x, here) for x, s in zip(operands, stays, strict=True)]
    own = tuple(mine and s for mine, s in zip(own, stays, strict=True))
    with _meshes.device_context(operands[op.matrix]):
        results = _eager_call(op, None, "", own)(*operands)
    if not any(isinstance(x, Tracer) for x in results) and _meshes.mesh_is_set():
        # No result stays on a mesh of this module. The other parts of a factor stay on its device.
        made = [kind for kind, x in zip(op.results, results, strict=True) if x is not None]
        rest = here if whole is None or "factor" in made else whole
        homes = {kind: rest for kind in made} | homes
    return _sent_home(op, results, homes)


def _sent_home(op: Operation, results, homes: Mapping[str, Sharding]):
    """The results in their target shardings, which ``homes`` gives by kind."""

    def put(kind, x) -> Any:
        to = homes.get(kind)
        if x is None or to is None or (not isinstance(x, Tracer) and x.sharding == to):
            return x
        return jax.device_put(x, to)

    return tuple(put(kind, x) for kind, x in zip(op.results, results, strict=True))


@functools.lru_cache(maxsize=256)
def _eager_call(op: Operation, at: Placement | None, mode: str, own: tuple[bool, ...]):
    run = _sharded(op, at, mode) if at else functools.partial(_one_device, op)

    def results(*operands):
        made = _on_columns(op, run, operands)
        # A donated A is used in place only if its memory is also returned, so the factor is a
        # result. A solve that keeps A has no use for it.
        return (None, *made[1:]) if drop else made

    drop = op.drops_factor and not own[op.matrix]
    formats = {}
    if at is not None and op.storage == "column-major":
        operand_formats, result_formats = (
            tuple(_format(op, kind, NamedSharding(at.mesh, at.spec(kind, mode))) for kind in kinds)
            for kinds in (op.operands, op.results)
        )
        formats["in_shardings"] = operand_formats
        formats["out_shardings"] = (None, *result_formats[1:]) if drop else result_formats
    donated = tuple(i for i in op.taken.values() if own[i])
    return jax.jit(results, donate_argnums=donated, **formats)


def _format(op: Operation, kind: str, sharding: NamedSharding):
    """The sharding with a layout, if it is not JAX's default."""
    if op.storage == "column-major" and kind in ("matrix", "factor"):
        return Format(Layout((1, 0)), sharding)
    return sharding


def moved(x, target: NamedSharding | Format):
    """(x in sharding and layout ``target``, whether that is memory of its own)."""
    by_format = isinstance(target, Format)
    sharding = target.sharding if by_format else target
    if x.sharding == sharding and by_format == is_column_major(x):
        return x, False
    if isinstance(target, NamedSharding) and goes_by_rows(x, target):
        return distributed(x, x.shape[0], target, x.dtype), True
    y = jax.device_put(x, target)
    if isinstance(y, Tracer):  # closed over by a function that is being traced
        return y, False
    pointers = [{s.data.unsafe_buffer_pointer() for s in z.addressable_shards} for z in (x, y)]
    return y, pointers[0].isdisjoint(pointers[1])


def goes_by_rows(x, target: NamedSharding) -> bool:
    """Whether a matrix in blocks is resharded to rows one device at a time: on CPU devices, where
    JAX would gather it in CPU memory.
    """
    blocks = isinstance(x.sharding, NamedSharding) and is_two_way(x.sharding.spec)
    square = len(x.shape) == 2 and x.shape[0] == x.shape[1]
    if not blocks or not square or axes_of(target.spec)[1]:
        return False
    on_cpus = all(device.platform == "cpu" for device in target.device_set)
    # A traced function that closes over x has no values.
    return on_cpus and not isinstance(jnp.zeros(()), Tracer)


# Traced: Explicit axes are part of the types; with Auto axes the partitioner knows mesh and specs.


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def traced(op: Operation, *operands):
    """The results of ``op`` where an operand is traced; derivatives are in ``_derivatives``."""
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
        (a,) = traced(_ffi.cholesky_to_scipy(op.storage, op.lower), a, jnp.int32(0))
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
    return _beside(NamedSharding(at.mesh, at.spec("rhs", mode_of(b.shape[1], at.world))), a, b)


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
        _failure.expect_one_call(op.public, batch.axes)
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
        operands[op.matrix] = _lowered.expect_not_exported(
            operands[op.matrix],
            op.public,
            "Explicit axes, or a mesh that is set,",
            "export within jax.set_mesh(mesh), whose devices divide n",
        )
        return _partitioned(op, batch)(*operands)
    op, at = _settle(op, at)
    mode = _mode(op, operands, at.world)
    call = _sharded(op, at, mode, batch)
    if AxisType.Explicit not in at.mesh.axis_types:
        return call(*operands)
    specs, _ = batch.specs(*_specs(op, at, mode))
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
            _failure.expect_one_call(op.public, there.axes)
        at = placement(op.public, mesh, spec, a.shape[-2], taken=there.axes)
        settled, at = _settle(op, at)
        mode = _mode(op, operands, at.world)
        shardings = [
            tuple(NamedSharding(mesh, spec) for spec in specs)
            for specs in there.specs(*_specs(settled, at, mode))
        ]
        part = functools.partial(local, settled, at, mode, named=tuple(mesh.axis_names))
        return mesh, there.each(part), shardings[1], shardings[0]

    # One letter for each dimension: a factor is distributed as its matrix, a solution as its b.
    letters = {"matrix": "i j", "factor": "i j", "held": "i j", "rhs": "m k", "pivots": "p"}
    terms = batch.terms(
        *([letters.get(k, "") for k in kinds] for kinds in (op.operands, op.results))
    )
    whole = custom_partitioning(batch.each(functools.partial(_one_device, op)))
    rule = " -> ".join(", ".join(side) for side in terms)
    whole.def_partition(partition=partition, sharding_rule=rule)
    return whole
