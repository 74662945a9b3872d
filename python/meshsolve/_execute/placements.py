"""The distribution of a matrix: its mesh axes, rows or columns, and the rank of each device."""

import functools
import math
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from meshsolve._library import ffi, processes
from meshsolve._library.errors import mistake


class Placement(NamedTuple):
    """Rows or columns of a matrix distributed to the devices along ``axes`` of ``mesh``.

    Devices that differ only in the other axes hold the same part and make calls of their own, at
    the same time.
    """

    mesh: Mesh | AbstractMesh
    axes: tuple[str, ...]
    storage: str = "rows"
    """"rows", "columns", or "column-major": by columns, and column-major in memory."""

    @property
    def world(self) -> int:
        """Number of devices that hold one copy of the matrix."""
        return math.prod(self.mesh.shape[axis] for axis in self.axes)

    @property
    def crosses_processes(self) -> bool:
        """Whether several processes share the matrix."""
        return self.world > 1 and processes.several(self.mesh)

    def spec(self, kind: str, mode: str) -> PartitionSpec:
        """Spec of an operand or result: "matrix" as the user has it, "held" likewise, "factor",
        "rhs" or another. Right-hand sides are "replicated", or distributed by "columns" or "rows";
        those "aligned" with the rows of a matrix are distributed as these.
        """
        entry = self.axes[0] if len(self.axes) == 1 else self.axes or None
        rows, columns = PartitionSpec(entry, None), PartitionSpec(None, entry)
        if kind in ("matrix", "held"):
            return rows if self.storage == "rows" else columns
        if kind == "factor":
            return columns if self.storage == "column-major" else rows
        if kind == "aligned":
            return rows
        if kind == "upper":
            return columns
        if kind == "rhs":
            return {"replicated": PartitionSpec(), "columns": columns, "rows": rows}[mode]
        return PartitionSpec()

    def place(self, named: tuple[str, ...]) -> jax.Array:
        """int32[2] (rank, group) of the calling device, with mesh axes ``named``. Over processes
        int32[3], with a ticket.
        """
        others = tuple(axis for axis in named if axis not in self.axes)
        rank = lax.axis_index(self.axes) if self.axes else 0
        numbers = [rank, lax.axis_index(others) if others else 0]
        if self.crosses_processes:
            numbers.append(ticket(rank, self.axes))
        return jnp.stack([jnp.asarray(i, dtype=np.int32) for i in numbers])


def ticket(rank, axes: tuple[str, ...]) -> jax.Array:
    """int32: the first device's ticket. XLA gives it to all devices along the axes, of this very
    call.
    """
    return lax.psum(jnp.where(rank == 0, ffi.ticket(), 0), axes)


def axes_of(spec: PartitionSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The axes that distribute the rows and the columns of a matrix."""
    entries = [e if isinstance(e, tuple) else () if e is None else (e,) for e in spec]
    by_row, by_column = (*entries, (), ())[:2]
    return by_row, by_column


def is_two_way(spec: PartitionSpec) -> bool:
    """Whether rows and columns of a matrix are both distributed: each device has a block."""
    return all(axes_of(spec))


def devices_along(spec: PartitionSpec, mesh: Mesh | AbstractMesh) -> int:
    """Number of devices that share a matrix of this spec."""
    by_row, by_column = axes_of(spec)
    return math.prod(mesh.shape[axis] for axis in by_row + by_column)


def expect_known(operation: str, devices) -> None:
    """Refuse devices of platforms without solvers; warn once about several GPUs."""
    platforms = {device.platform for device in devices}
    if others := platforms - {"cpu", "gpu"}:
        raise mistake(
            operation,
            "a",
            "an array on CPU or CUDA devices",
            f"one on devices of platform {', '.join(sorted(others))}",
            'move it with jax.device_put(a, jax.devices("cpu")[0])',
        )
    if "gpu" in platforms and len(devices) > 1:
        _warn_of_several_gpus()


@functools.cache
def _warn_of_several_gpus() -> None:
    warnings.warn(
        "meshsolve's solvers have run on one GPU; several GPUs have been tested on emulated "
        "devices only: check residuals, and please report how it went. "
        "warnings.filterwarnings('ignore', module='meshsolve') silences this",
        stacklevel=2,
    )


def placement(
    operation: str,
    mesh: Mesh | AbstractMesh,
    spec: PartitionSpec,
    n: int,
    column_major: bool = False,
    taken: tuple[str, ...] = (),
    extent: str = "n",
) -> Placement:
    """Choose axes and direction for a matrix of sharding ``spec``. A matrix by rows or by columns
    keeps its own. A two-way sharded one gets rows over the axes of both. A replicated one gets rows
    over all axes that are not ``taken``. The number of devices on the axes must divide n, which is
    ``extent`` in messages; each device solves by itself if a replicated matrix does not meet that.
    """
    by_row, by_column = axes_of(spec)
    axes = by_row + by_column
    if not axes:
        free = tuple(axis for axis in mesh.axis_names if axis not in taken)
        if n % math.prod(mesh.shape[axis] for axis in free) == 0:
            axes = free
    storage = "rows"
    if by_column and not by_row:
        storage = "column-major" if column_major else "columns"
    at = Placement(mesh, axes, storage)
    if isinstance(mesh, Mesh):
        expect_known(operation, mesh.devices.flat)
    if at.crosses_processes:
        processes.expect_usable(operation, mesh, axes)
        # The devices of a process follow one another in the order of the mesh.
        at = at._replace(axes=tuple(axis for axis in mesh.axis_names if axis in axes))
    if n % at.world:
        raise mistake(
            operation,
            "a",
            f"{extent} divisible by the {at.world} devices on mesh axes {axes}",
            f"{extent} = {n}",
            "put the factor on a number of devices that divides n, or factor A again"
            if "." in operation or operation in ("cho_solve", "lu_solve")
            else "give mesh=, which pads A for you, use a mesh whose size divides "
            f"{extent}, or put A on one device",
        )
    return at


def ambient_placement(operation: str, n: int) -> Placement | None:
    """Rows over all axes of the mesh that the user has set, if there is one and it divides n. For
    arrays that are not sharded the partitioner would not know this mesh. Its axes have one type.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or AxisType.Manual in mesh.axis_types:
        return None
    expect_one_type(operation, "the mesh that is set", "one", mesh)
    return None if n % mesh.size else Placement(mesh, tuple(mesh.axis_names))


def expect_mesh_that_is_set(operation: str, argument: str, x) -> None:
    """Refuse derivatives of an array on another mesh than the one that is set, if either has
    Explicit axes. Programs of derivatives would not know which mesh counts.
    """
    here, mesh = jax.sharding.get_abstract_mesh(), jax.typeof(x).sharding.mesh
    types = {*here.axis_types, *mesh.axis_types}
    if here.empty or mesh.empty or AxisType.Manual in types or AxisType.Explicit not in types:
        return
    if (here.shape, here.axis_types) != (mesh.shape, mesh.axis_types):
        raise mistake(
            operation,
            argument,
            f"an array on the mesh that jax.set_mesh has set, {_described(here)}",
            f"one on {_described(mesh)}",
            "differentiate within jax.set_mesh of its own mesh, or put it on the mesh that is set",
        )


def _described(mesh: AbstractMesh) -> str:
    types = dict(zip(mesh.axis_names, (t.name for t in mesh.axis_types), strict=True))
    return f"axes {dict(mesh.shape)} of types {types}"


def surrounding() -> tuple[AbstractMesh, list[str]]:
    """The mesh here, and its axes if a shard_map over all of them is around."""
    mesh = jax.sharding.get_abstract_mesh()
    return mesh, list(mesh.axis_names) if {*mesh.axis_types} == {AxisType.Manual} else []


def mapped_axes(mesh: Mesh | AbstractMesh) -> list[str]:
    """The axes that a surrounding ``jax.vmap`` maps over; no shard_map can have them."""
    named = []

    def look():
        named.extend(jax.sharding.get_abstract_mesh().manual_axes)
        return jnp.zeros(())

    jax.eval_shape(jax.shard_map(look, mesh=mesh, in_specs=(), out_specs=PartitionSpec()))
    return [axis for axis in mesh.axis_names if axis not in named]


def traced_sharding(operation: str, argument: str, x) -> NamedSharding | None:
    """The sharding of a tracer if its type carries one (Explicit axes), else None (Auto axes)."""
    sharding = jax.typeof(x).sharding
    types = {*sharding.mesh.axis_types}
    if AxisType.Manual in types:
        raise mistake(
            operation,
            argument,
            "an array of the whole mesh",
            "the shard of one device, inside shard_map",
            "call it outside of shard_map, or meshsolve.local.solve inside",
        )
    expect_one_type(operation, argument, "an array on a mesh", sharding.mesh)
    return sharding if types == {AxisType.Explicit} else None


def expect_one_type(
    operation: str, argument: str, expected: str, mesh: Mesh | AbstractMesh, remedy: str = ""
) -> None:
    """Refuse a mesh of Auto and Explicit axes in a traced program."""
    if not {AxisType.Auto, AxisType.Explicit} <= {*mesh.axis_types}:
        return
    raise mistake(
        operation,
        argument,
        f"{expected} whose axes are all Explicit or all Auto",
        f"axis types {dict(zip(mesh.axis_names, mesh.axis_types, strict=True))}",
        remedy
        or "inside jax.jit use jax.sharding.auto_axes or explicit_axes, or such a mesh; eagerly "
        "both work",
    )
