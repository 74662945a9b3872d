"""Padding of matrices with an identity corner, and their distribution to a mesh by rows. It is for
matrices that are not on a mesh yet, or whose order its devices do not divide.

The padded matrix is [[A, 0], [0, I]]: its factor and solutions are those of A, bordered by I and 0.
`info` is the same.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from meshsolve._execute.placements import devices_along, expect_one_type, mapped_axes
from meshsolve._library.errors import mistake, wrong_type
from meshsolve._prepare.operands import as_array, promoted
from meshsolve._prepare.rows import Rows, distributed, read


def on_mesh(operation: str, a, mesh: Mesh | None, dtype) -> tuple[jax.Array, bool]:
    """(A in ``dtype`` for the devices of ``mesh``, whether that is memory of its own).

    A itself if no mesh is given, or if it is sharded over that mesh already. Otherwise a copy,
    which needs the rows of one device in addition to A and the copy.
    """
    expect_mesh_of_rows(operation, a, mesh)
    if mesh is None or lies_on(getattr(a, "sharding", None), mesh, a.shape[0]):
        return promoted(as_array(operation, "a", a), dtype), a.dtype != dtype
    n, size = a.shape[0], mesh.size
    order = -(-n // size) * size
    axes = tuple(mesh.axis_names)
    target = NamedSharding(mesh, PartitionSpec(axes[0] if len(axes) == 1 else axes, None))
    if isinstance(a, Tracer):
        return _traced(operation, promoted(a, dtype), order, target), True
    # At once, also while a function that closes over A is traced.
    with jax.ensure_compile_time_eval():
        return distributed(a, order, target, dtype), True


def expect_mesh_of_rows(operation: str, a, mesh: Mesh | None) -> None:
    """Refuse Rows without a mesh."""
    if mesh is None and isinstance(a, Rows):
        remedy = "tell by mesh= which devices the rows are for, jax.make_mesh((4,), ('x',))"
        raise mistake(operation, "mesh", "a mesh for a matrix of Rows", "None", remedy)


def check_mesh(operation: str, mesh: Mesh | None) -> None:
    """Refuse a mesh of another type."""
    if mesh is not None and not isinstance(mesh, Mesh):
        raise wrong_type(
            operation, "mesh", "a jax.sharding.Mesh", type(mesh).__name__, "see jax.make_mesh"
        )


def lies_on(sharding, mesh: Mesh, n: int) -> bool:
    """Whether a matrix of order n is distributed to devices of ``mesh`` already that divide n."""
    if not isinstance(sharding, NamedSharding) or sharding.mesh != mesh:
        return False
    is_distributed = mesh.size == 1 or not sharding.is_fully_replicated
    return is_distributed and n % devices_along(sharding.spec, mesh) == 0


def padded_rows(b, order: int):
    """B with rows of zeros up to ``order``; itself if it has that many."""
    missing = order - b.shape[0]
    return jnp.pad(b, ((0, missing), (0, 0))) if missing else b


def cut(c, n: int):
    """The leading n x n part of a padded matrix, on one device, as several may not divide its
    order.
    """
    if c.shape[0] == n:
        return c
    if isinstance(c, Tracer):
        return replicated(c)[:n, :n]
    (device, *_) = c.sharding.mesh.devices.flat if hasattr(c.sharding, "mesh") else c.devices()
    return leading(c, (n, n), device)


def leading(x, shape: tuple[int, int], where) -> jax.Array:
    """The leading part of a matrix that is not traced, gathered in a NumPy array and put on
    ``where``, a device or sharding.
    """
    part = np.empty(shape, x.dtype)
    read(x, 0, part)
    return jax.device_put(part, where)


def replicated(x):
    """A traced array, with Explicit axes replicated on all devices, so that any part can be cut
    out.
    """
    mesh = jax.typeof(x).sharding.mesh
    if AxisType.Explicit not in mesh.axis_types:
        return x
    return jax.sharding.reshard(x, NamedSharding(mesh, PartitionSpec()))


def _traced(operation: str, a, order: int, target: NamedSharding):
    remedy = "give a mesh whose axes are of one type; eagerly both work"
    expect_one_type(operation, "mesh", "a mesh", target.mesh, remedy)
    if AxisType.Explicit in target.mesh.axis_types and mapped_axes(target.mesh):
        raise mistake(
            operation,
            "mesh",
            "None for a batch that is distributed to devices with Explicit axes",
            f"a mesh of which {mapped_axes(target.mesh)} are the batch's",
            "leave mesh out, and distribute matrices of an order that the other devices divide",
        )
    missing, i = order - a.shape[0], jnp.arange(order)
    if missing:
        a = replicated(a)
        # Selected, not added: XLA's arithmetic would flush subnormal entries of A.
        corner = (i[:, None] == i) & (i >= a.shape[0])
        a = jnp.where(corner, jnp.ones((), a.dtype), jnp.pad(a, (0, missing)))
    if AxisType.Explicit in target.mesh.axis_types:
        return jax.sharding.reshard(a, target)
    return jax.lax.with_sharding_constraint(a, target)
