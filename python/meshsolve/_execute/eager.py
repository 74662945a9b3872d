"""Calls with arrays that are not traced: they show their shardings and layouts."""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental.layout import Format, Layout
from jax.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

from meshsolve._execute import meshes
from meshsolve._execute.batches import ONE
from meshsolve._execute.placements import (
    Placement,
    axes_of,
    expect_known,
    is_two_way,
    mapped_axes,
    placement,
)
from meshsolve._execute.rows import distributed, gathered, in_this_process, read
from meshsolve._execute.shards import (
    REPLICATED_RHS,
    mode,
    on_columns,
    one_device,
    settled,
    sharded,
    specs,
)
from meshsolve._library import failures
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import Operation


class Signature(NamedTuple):
    """All of an array that decides how it takes part in a call."""

    shape: tuple[int, ...]
    dtype: np.dtype
    sharding: Sharding
    column_major: bool

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def lies_in(self, target: NamedSharding | Format) -> bool:
        """Whether the array has this sharding and layout."""
        if isinstance(target, Format):
            return self.column_major and self.sharding == target.sharding
        return not self.column_major and self.sharding == target


def signature(x) -> Signature:
    """The signature of an array that is not traced."""
    format = getattr(x, "format", None) if x.ndim == 2 else None
    layout = getattr(format, "layout", None)
    column_major = layout is not None and layout.major_to_minor == (1, 0)
    return Signature(x.shape, x.dtype, x.sharding, column_major)


def plain(options, arrays) -> tuple[Signature, ...]:
    """The signatures of arrays that are not traced and have their memory; none for others, or if
    the options of the call cannot be compared.
    """
    try:
        hash(options)
    except TypeError:
        return ()
    found = []
    for x in arrays:
        if not isinstance(x, jax.Array) or isinstance(x, Tracer) or x.is_deleted():
            return ()
        found.append(signature(x))
    return tuple(found)


def eager_placement(operation: str, a) -> Placement | None:
    """``placement_of`` for an array."""
    return placement_of(operation, signature(a))


def placement_of(
    operation: str, a: Signature, n: int | None = None, extent: str = "n"
) -> Placement | None:
    """The placement of a matrix that is not traced, of which devices divide the rows or ``n`` rows
    or columns, by name ``extent``; None if one device works on it alone.
    """
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
    mesh, n = a.sharding.mesh, a.shape[0] if n is None else n
    assert isinstance(mesh, Mesh), "an array that is not traced is on devices"
    if a.sharding.is_fully_replicated and n % mesh.size:
        return None
    return placement(operation, mesh, a.sharding.spec, n, a.column_major, extent=extent)


class Route(NamedTuple):
    """Where a call runs, decided once for all operands of the same signatures.

    Attributes:
      op: the operation, with the storage of its matrix.
      at: the placement of the matrix; None if one device works alone.
      mode: how right-hand sides are distributed.
      moves: the operands that are elsewhere, where they go, and whether by one device's rows at a
        time.
      together: whether one device has all operands, and no other one does.
      home: the sharding of the solution; None if it stays where it is made.
      made_there: whether the program gives the solution that sharding. JAX otherwise writes the
        same sharding as another spec, and a copy to change that takes as long as a small call.
    """

    op: Operation
    at: Placement | None
    mode: str
    moves: tuple[tuple[int, NamedSharding | Format, bool], ...] = ()
    together: bool = False
    home: NamedSharding | None = None
    made_there: bool = False


@functools.lru_cache(maxsize=512)
def _route(op: Operation, *operands: Signature) -> Route:
    """The route of a call."""
    a = operands[op.matrix]
    at = placement_of(op.public, a, op.divided(a.shape), op.extent)
    if at is None:
        devices = {device for x in operands for device in x.sharding.device_set}
        return Route(op, None, "", together=len(devices) == 1)
    op, at = settled(op, at, a.shape)
    how = mode(op, operands, at.world)
    # A vector has the rows of its column.
    given = [
        PartitionSpec(*s[: x.ndim]) for s, x in zip(specs(op, at, how)[0], operands, strict=True)
    ]
    pairs = zip(op.operands, given, strict=True)
    targets = [_format(op, kind, NamedSharding(at.mesh, spec)) for kind, spec in pairs]
    each = enumerate(zip(operands, targets, strict=True))
    moves = tuple((i, to, goes_by_rows(x, to)) for i, (x, to) in each if not x.lies_in(to))
    if op.rhs is None:
        return Route(op, at, how, moves)
    home = meshes.home(operands[op.rhs], at.mesh)
    made = NamedSharding(at.mesh, at.spec("rhs", how))
    return Route(op, at, how, moves, home=home, made_there=made.is_equivalent_to(home, 2))


def run(op: Operation, operands, own=(), signatures: tuple[Signature, ...] = (), batch=ONE):
    """The results of ``op``; ``own`` are the operands that it may overwrite, ``signatures`` those
    of the operands, if they are known.
    """
    assert batch is ONE, "jax.vmap traces"
    # A traced function that closes over the operands has no known results.
    known = op.raises and not isinstance(jnp.zeros(()), Tracer)
    if known:
        op = op._replace(raises=False)
    if is_set := meshes.mesh_is_set():
        i = op.matrix
        a = meshes.anchored(operands[i])
        _expect_not_mapped(op, a)
        if a is not operands[i]:
            operands, signatures = (*operands[:i], a, *operands[i + 1 :]), ()
    route = _route(op, *(signatures or map(signature, operands)))
    if route.at is not None:
        with meshes.mesh_context(route.at.mesh) if is_set else contextlib.nullcontext():
            results = _on_mesh(route, route.at, operands, own)
    elif route.together and not is_set:
        results = program(op, None, "", tuple(own))(*operands)
    else:
        results = _on_one_device(op, operands, own)
    if known:
        failures.check(op, results)
    return results


def _expect_not_mapped(op: Operation, a) -> None:
    """Refuse a matrix that is closed over under a ``jax.vmap`` over another axis of its mesh. There
    the calling group of devices is not known.
    """
    mesh, here = jax.typeof(a).sharding.mesh, jax.sharding.get_abstract_mesh()
    if here != mesh or AxisType.Explicit not in mesh.axis_types:
        return
    if mapped := mapped_axes(mesh):
        raise mistake(
            op.public,
            "a",
            "a matrix of the batch that jax.vmap maps over, or a mesh with Auto axes",
            f"one for the whole batch, which is distributed to mesh axes {mapped}",
            "factor it outside of jax.vmap, and call the factor's methods inside",
        )


def _on_mesh(route: Route, at: Placement, operands, own):
    op, home = route.op, route.home
    if route.moves:
        operands, own = [*operands], [*own]
        for i, target, by_rows in route.moves:
            operands[i], new = _sent(operands[i], target, by_rows)
            own[i] = own[i] or new
    there = home if route.made_there else None
    results = program(op, at, route.mode, tuple(own), there)(*operands)
    if home is None:
        return results
    i = op.results.index("rhs")
    x = results[i]
    if not isinstance(x, Tracer) and x.sharding == home:
        return results
    there = jax.device_put(x, home) if home.is_fully_addressable else put(x, home)
    return (*results[:i], there, *results[i + 1 :])


def _on_one_device(op: Operation, operands, own):
    a, whole = operands[op.matrix], None
    homes: dict[str, Sharding] = {}
    if not isinstance(a.sharding, SingleDeviceSharding):
        # Replicated over devices that do not divide n: the first one works, all get the answer.
        whole = NamedSharding(a.sharding.mesh, PartitionSpec())
        if op.rhs is not None:
            homes["rhs"] = meshes.home(operands[op.rhs], a.sharding.mesh)
        if op.takes_tall:
            homes |= dict.fromkeys(op.results, whole)
        own = tuple(mine and i != op.matrix for i, mine in enumerate(own))
        operands = [*operands]
        operands[op.matrix] = a.addressable_data(0)
    here = operands[op.matrix].sharding
    stays = [x.sharding.device_set == here.device_set for x in operands]
    pairs = zip(operands, stays, strict=True)
    operands = [x if s else jax.device_put(in_this_process(x), here) for x, s in pairs]
    own = tuple(mine and s for mine, s in zip(own, stays, strict=True))
    with meshes.device_context(operands[op.matrix]):
        results = program(op, None, "", own)(*operands)
    if not any(isinstance(x, Tracer) for x in results) and meshes.mesh_is_set():
        # No result stays on a mesh of this module. The other parts of a factor stay on its device.
        made = [kind for kind, x in zip(op.results, results, strict=True) if x is not None]
        rest = here if whole is None or "factor" in made else whole
        homes = {kind: rest for kind in made} | homes
    return _sent_home(op, results, homes)


def _sent_home(op: Operation, results, homes: Mapping[str, Sharding]):
    """The results in their target shardings, which ``homes`` gives by kind."""

    def sent(kind, x) -> Any:
        to = homes.get(kind)
        if x is None or to is None or (not isinstance(x, Tracer) and x.sharding == to):
            return x
        return put(x, to)

    return tuple(sent(kind, x) for kind, x in zip(op.results, results, strict=True))


@functools.lru_cache(maxsize=256)
def program(
    op: Operation,
    at: Placement | None,
    mode: str,
    own: tuple[bool, ...],
    home: NamedSharding | None = None,
):
    """The program of a call; its solution is in the sharding ``home``, if that is given."""
    run = sharded(op, at, mode) if at else functools.partial(one_device, op)

    def results(*operands):
        made = on_columns(op, run, operands)
        # A donated A is used in place only if its memory is also returned, so the factor is a
        # result. A solve that keeps A has no use for it.
        return op.kept(made) if drop else made

    drop = op.drops_factor and not own[op.matrix]
    formats = {}
    # JAX chooses where none is given.
    out: list[Any] = [home if kind == "rhs" else None for kind in op.results]
    if at is not None and op.storage == "column-major":
        operand_formats, result_formats = (
            [_format(op, kind, NamedSharding(at.mesh, at.spec(kind, mode))) for kind in kinds]
            for kinds in (op.operands, op.results)
        )
        formats["in_shardings"] = tuple(operand_formats)
        out = [x or of_kind for x, of_kind in zip(out, result_formats, strict=True)]
        out[0] = None if drop else out[0]
    if any(out):
        formats["out_shardings"] = tuple(out)
    donated = tuple(i for i in op.taken.values() if own[i])
    return jax.jit(results, donate_argnums=donated, **formats)


def _format(op: Operation, kind: str, sharding: NamedSharding):
    """The sharding with a layout, if it is not JAX's default."""
    if op.storage == "column-major" and kind in ("matrix", "factor"):
        return Format(Layout((1, 0)), sharding)
    return sharding


def moved(x, target: NamedSharding | Format):
    """(x in sharding and layout ``target``, whether that is memory of its own)."""
    if signature(x).lies_in(target):
        return x, False
    return _sent(x, target, goes_by_rows(x, target))


def _sent(x, target: NamedSharding | Format, by_rows: bool):
    """The same for an array that is elsewhere."""
    if isinstance(target, NamedSharding) and not target.is_fully_addressable:
        return put(x, target), not isinstance(x, Tracer) and x.is_fully_addressable
    # A traced function that closes over x has no values.
    if by_rows and isinstance(target, NamedSharding) and not isinstance(jnp.zeros(()), Tracer):
        return distributed(x, x.shape[0], target, x.dtype), True
    y = jax.device_put(x, target)
    if isinstance(y, Tracer):  # closed over by a function that is being traced
        return y, False
    pointers = [{s.data.unsafe_buffer_pointer() for s in z.addressable_shards} for z in (x, y)]
    return y, pointers[0].isdisjoint(pointers[1])


def put(x, to):
    """An array in another sharding. What is on a device of one process, each process has alike."""
    is_here = not isinstance(x, Tracer) and getattr(x, "is_fully_addressable", True)
    if not is_here or to.is_fully_addressable:
        return jax.device_put(x, to)
    values = np.asarray(x)
    return jax.make_array_from_callback(x.shape, to, lambda at: values[at])


def goes_by_rows(x, target: NamedSharding | Format) -> bool:
    """Whether a matrix in blocks is resharded to rows one device at a time: on CPU devices, where
    JAX would gather it in CPU memory.
    """
    if isinstance(target, Format) or not isinstance(x.sharding, NamedSharding):
        return False
    if len(x.shape) != 2 or x.shape[0] != x.shape[1] or not is_two_way(x.sharding.spec):
        return False
    on_cpus = all(device.platform == "cpu" for device in target.device_set)
    return on_cpus and not axes_of(target.spec)[1]


# Padded matrices, and results in the shardings of their operands.


def form(op: Operation, a) -> str:
    """The storage of the factor of A."""
    return form_of(op, signature(a))


def form_of(op: Operation, a: Signature) -> str:
    """The storage of the factor of an A of this signature."""
    at = placement_of(op.public, a, op.divided(a.shape), op.extent)
    if at and at.storage == "column-major":
        return "column-major"
    return "columns" if op.any_shape else "rows"


def spread(operation: str, a, order: int, target: NamedSharding, dtype):
    """A by rows, with an identity corner up to ``order``."""
    del operation
    # At once, also while a function that closes over A is traced.
    with jax.ensure_compile_time_eval():
        return distributed(a, order, target, dtype)


def lengthened(b, a, rows: int):
    """B with zeros up to so many rows, to go with a padded A. On a mesh it is replicated, or by so
    many columns as its devices divide: then any number of rows can be added and cut off.
    """
    if isinstance(a.sharding, NamedSharding):
        mesh, few = a.sharding.mesh, b.ndim == 1 or b.shape[1] <= REPLICATED_RHS
        spec = PartitionSpec() if few else PartitionSpec(None, tuple(mesh.axis_names))
        if missing := 0 if few else -b.shape[1] % mesh.size:
            if isinstance(b.sharding, NamedSharding):
                b = put(b, NamedSharding(b.sharding.mesh, PartitionSpec()))
            b = jnp.pad(b, ((0, 0), (0, missing)))
        b = put(b, NamedSharding(mesh, spec))
    return jnp.pad(b, ((0, rows - b.shape[0]), *((0, 0),) * (b.ndim - 1)))


def widened(operation: str, a, missing: int, target: NamedSharding, dtype):
    """A with so many columns of zeros more, in a sharding by columns."""
    del operation
    if missing:
        a = (np if isinstance(a, np.ndarray) else jnp).pad(a, ((0, 0), (0, missing)))
    return put(a.astype(dtype), target)


def lengthened_on(operation: str, x, missing: int, target: NamedSharding):
    """An array with so many rows of zeros more, in a sharding by rows."""
    del operation
    return put(jnp.pad(x, ((0, missing), *((0, 0),) * (x.ndim - 1))), target)


def cut(x, shape: tuple[int, ...], b=None):
    """The leading part of a padded matrix, on one device, as several may not divide its order, or
    on all devices of several processes; or of a solution for B, in the sharding of B.
    """
    on_mesh = isinstance(x.sharding, NamedSharding)
    if b is not None:
        where = meshes.home(b, x.sharding.mesh) if on_mesh else x.sharding
        if x.shape[1:] == shape[1:]:
            return put(x[: shape[0]], where)
    elif not x.is_fully_addressable:
        return gathered(x, shape)
    else:
        where = next(iter(x.sharding.mesh.devices.flat if on_mesh else x.devices()))
    part = np.empty(shape, x.dtype)
    read(x, 0, part)
    return jax.device_put(part, where)


def as_given(x, a):
    """A result in the sharding of A. If A is not committed to a device and a mesh is set, that is
    the sharding which JAX assumes.
    """
    if not (isinstance(a, jax.Array) and a.committed) and (mesh := meshes.mesh_that_is_set()):
        to = NamedSharding(mesh, PartitionSpec())
    elif isinstance(a, jax.Array):
        to = a.sharding
    else:
        return x
    return x if x.sharding.is_equivalent_to(to, x.ndim) else put(x, to)
