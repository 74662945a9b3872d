"""Matrices that are not dealt to a mesh yet, or that its devices do not divide: padded with an
identity corner to the next order that they do, and sharded by rows.

The padded matrix is [[A, 0], [0, I]]: its factor and solutions are those of A, bordered by I and 0,
and `info` is the same.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshsolve._errors import wrong_type
from meshsolve._sharding import devices_dealt_to


def on_mesh(operation: str, a, mesh: Mesh | None):
    """(A for the devices of ``mesh``, whether that is memory of its own).

    A itself if no mesh is given, or if it is sharded over that mesh already. Otherwise a copy, made
    one device's rows at a time: beside A and the copy no more than that is needed.
    """
    if mesh is None:
        return a, False
    if not isinstance(mesh, Mesh):
        raise wrong_type(
            operation, "mesh", "a jax.sharding.Mesh", type(mesh).__name__, "see jax.make_mesh"
        )
    n, size = a.shape[0], mesh.size
    order = -(-n // size) * size
    axes = tuple(mesh.axis_names)
    target = NamedSharding(mesh, PartitionSpec(axes[0] if len(axes) == 1 else axes, None))
    if isinstance(a, Tracer):
        return _traced(a, order, target), True
    if lies_on(getattr(a, "sharding", None), mesh, n):
        return a, False
    return _dealt(a, order, target), True


def lies_on(sharding, mesh: Mesh, n: int) -> bool:
    """Whether a matrix of order n is dealt to devices of ``mesh`` already that divide n."""
    if not isinstance(sharding, NamedSharding) or sharding.mesh != mesh:
        return False
    return not sharding.is_fully_replicated and n % devices_dealt_to(sharding.spec, mesh) == 0


def padded_rows(b, order: int):
    """B with rows of zeros up to ``order``; itself if it has that many."""
    missing = order - b.shape[0]
    return jnp.pad(b, ((0, missing), (0, 0))) if missing else b


def cut(c, n: int):
    """The leading n x n part of a padded matrix, replicated over its devices if it is a part."""
    if c.shape[0] == n:
        return c
    if not isinstance(c, Tracer):
        c = jax.device_put(c, NamedSharding(c.sharding.mesh, PartitionSpec()))
    return c[:n, :n]


def _traced(a, order: int, target: NamedSharding):
    missing, i = order - a.shape[0], jnp.arange(order)
    # Chosen, not added: XLA's arithmetic would flush subnormal entries of A.
    corner = (i[:, None] == i) & (i >= a.shape[0])
    padded = jnp.where(corner, jnp.ones((), a.dtype), jnp.pad(a, (0, missing)))
    if jax.sharding.AxisType.Explicit in target.mesh.axis_types:
        return jax.sharding.reshard(padded, target)
    return jax.lax.with_sharding_constraint(padded, target)


def _dealt(a, order: int, target: NamedSharding) -> jax.Array:
    n = a.shape[0]
    indices = target.addressable_devices_indices_map((order, order))
    pieces = []
    for device, index in indices.items():
        assert index is not None, "devices of one process"
        first, end, _ = index[0].indices(order)
        piece = np.zeros((end - first, order), a.dtype)
        _read_rows(a, first, piece[: max(min(end, n) - first, 0), :n])
        for i in range(max(first, n), end):
            piece[i - first, i] = 1
        pieces.append(jax.device_put(piece, device, may_alias=False))
        jax.block_until_ready(pieces[-1])
    return jax.make_array_from_single_device_arrays((order, order), target, pieces)


def _read_rows(a, first: int, to: np.ndarray) -> None:
    """Rows of A from ``first`` on, shard by shard if it has shards."""
    rows = len(to)
    if not isinstance(a, jax.Array):
        to[:] = a[first : first + rows]
        return
    for shard in a.addressable_shards:
        (top, bottom, _), (left, right, _) = (
            i.indices(m) for i, m in zip(shard.index, a.shape, strict=True)
        )
        low, high = max(top, first), min(bottom, first + rows)
        if shard.replica_id == 0 and low < high:
            values = np.asarray(shard.data)
            to[low - first : high - first, left:right] = values[low - top : high - top]
