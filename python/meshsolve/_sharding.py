"""Where a matrix lies: which mesh axes its rows are dealt to, and each device's place on them."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from meshsolve._errors import mistake


class Rows(NamedTuple):
    """Rows of a matrix dealt to the devices along ``axes`` of ``mesh``.

    Devices that differ only in the other axes hold the same rows and make calls of their own, side
    by side.
    """

    mesh: Mesh | AbstractMesh
    axes: tuple[str, ...]

    @property
    def world(self) -> int:
        """Number of devices that hold one copy of the matrix."""
        return math.prod(self.mesh.shape[axis] for axis in self.axes)

    @property
    def matrix(self) -> PartitionSpec:
        """Spec of the matrix."""
        return PartitionSpec(self._entry, None)

    def rhs(self, mode: str) -> PartitionSpec:
        """Spec of the right-hand sides: "replicated", by "columns" or by "rows"."""
        specs = {
            "replicated": PartitionSpec(),
            "columns": PartitionSpec(None, self._entry),
            "rows": self.matrix,
        }
        return specs[mode]

    def place(self) -> jax.Array:
        """int32[2] (rank, group) of the calling device, where mesh axes have names."""
        others = tuple(axis for axis in self.mesh.axis_names if axis not in self.axes)
        rank = lax.axis_index(self.axes) if self.axes else 0
        group = lax.axis_index(others) if others else 0
        return jnp.stack([jnp.asarray(i, dtype=np.int32) for i in (rank, group)])

    @property
    def _entry(self):
        if not self.axes:
            return None
        return self.axes[0] if len(self.axes) == 1 else self.axes


def rows_for(operation: str, mesh: Mesh | AbstractMesh, spec: PartitionSpec, n: int) -> Rows:
    """Choose the axes for an n x n matrix of sharding ``spec``: those that it is sharded over
    already, all axes if it is replicated. n must be divisible by the number of devices on them.
    """
    entries = [e if isinstance(e, tuple) else (e,) for e in spec if e is not None]
    axes = tuple(axis for entry in entries for axis in entry) or tuple(mesh.axis_names)
    rows = Rows(mesh, axes)
    if isinstance(mesh, Mesh) and len({d.process_index for d in mesh.devices.flat}) > 1:
        raise mistake(
            operation,
            "a",
            "devices of one process",
            "a mesh over several processes",
            "use the devices of one process; several are not supported in this version",
        )
    if n % rows.world:
        raise mistake(
            operation,
            "a",
            f"n divisible by the {rows.world} devices on mesh axes {axes}",
            f"n = {n}",
            f"pad A with an identity corner to n = {-(-n // rows.world) * rows.world}, use a mesh "
            "whose size divides n, or put A on one device",
        )
    return rows


def ambient_rows(n: int) -> Rows | None:
    """Rows over all axes of the mesh that the user has set, if there is one and it divides n."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or AxisType.Manual in mesh.axis_types or n % mesh.size:
        return None
    return Rows(mesh, tuple(mesh.axis_names))


def traced_sharding(operation: str, argument: str, x) -> NamedSharding | None:
    """The sharding of a tracer if its type carries one (Explicit axes), else None (Auto axes)."""
    sharding = jax.typeof(x).sharding
    types = set(sharding.mesh.axis_types) if not sharding.mesh.empty else set()
    if AxisType.Manual in types:
        raise mistake(
            operation,
            argument,
            "an array of the whole mesh",
            "the shard of one device, inside shard_map",
            "call it outside of shard_map, or use jax.ffi.ffi_call with meshsolve.ffi_target()",
        )
    return sharding if types == {AxisType.Explicit} else None
