"""Padding of matrices with an identity corner, and their distribution to a mesh by rows. It is for
matrices that are not on a mesh yet, or whose order its devices do not divide.

The padded matrix is [[A, 0], [0, I]]: its factor and solutions are those of A, bordered by I and 0.
`info` is the same.
"""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshsolve._execute import meshes
from meshsolve._execute.dispatch import executor
from meshsolve._execute.placements import devices_along
from meshsolve._execute.rows import Rows
from meshsolve._library.errors import mistake, wrong_type
from meshsolve._prepare.operands import as_array, promoted


def on_mesh(operation: str, a, mesh: Mesh | None, dtype) -> jax.Array:
    """A in ``dtype`` for the devices of ``mesh``.

    A itself if no mesh is given, or if it is sharded over that mesh already. Otherwise a copy,
    which needs the rows of one device in addition to A and the copy.
    """
    expect_mesh_of_rows(operation, a, mesh)
    if mesh is None or lies_on(getattr(a, "sharding", None), mesh, a.shape[0]):
        return promoted(as_array(operation, "a", a), dtype)
    axes = tuple(mesh.axis_names)
    target = NamedSharding(mesh, PartitionSpec(axes[0] if len(axes) == 1 else axes, None))
    order = -(-a.shape[0] // mesh.size) * mesh.size
    return executor(a).spread(operation, a, order, target, dtype)


def tall_on_mesh(operation: str, a, mesh: Mesh | None, dtype) -> jax.Array:
    """A tall A in ``dtype``. With a mesh it is by rows for its devices, with rows of zeros where
    these do not divide its rows.
    """
    _refuse_rows(operation, a)
    a = promoted(as_array(operation, "a", a), dtype)
    if mesh is None or lies_on(getattr(a, "sharding", None), mesh, a.shape[0]):
        return a
    return _lengthened(operation, a, -a.shape[0] % mesh.size, mesh)


def wide_on_mesh(operation: str, a, b, mesh: Mesh | None):
    """A wide A and its right-hand sides. With a mesh A is by rows for its devices, with an identity
    corner where these do not divide its rows.
    """
    m, n = a.shape
    if mesh is None or lies_on(getattr(a, "sharding", None), mesh, m):
        there = meshes.of_array(a)
        devices = 1 if there is None else devices_along(there.spec, there.mesh)
        if m % devices:
            expected = f"rows that the {devices} devices of a wide matrix divide"
            remedy = "give mesh=, which pads A for you, or put A on one device"
            raise mistake(operation, "a", expected, f"m = {m}", remedy)
        return a, b
    if missing := -m % mesh.size:
        corner = jnp.eye(missing, dtype=a.dtype)
        a = jnp.pad(a, ((0, missing), (0, missing))).at[m:, n:].set(corner)
        b = jnp.pad(b, ((0, missing), (0, 0)))
    return _lengthened(operation, a, 0, mesh), b


def columns_on_mesh(operation: str, a, mesh: Mesh | None, dtype) -> jax.Array:
    """A of any shape in ``dtype``. With a mesh it is by columns for its devices, with columns of
    zeros where these do not divide its columns.
    """
    _refuse_rows(operation, a)
    if mesh is None or lies_on(getattr(a, "sharding", None), mesh, a.shape[1]):
        return promoted(as_array(operation, "a", a), dtype)
    target = NamedSharding(mesh, PartitionSpec(None, tuple(mesh.axis_names)))
    return executor(a).widened(operation, a, -a.shape[1] % mesh.size, target, dtype)


def _refuse_rows(operation: str, a) -> None:
    if isinstance(a, Rows):
        expected, remedy = "an array", "Rows are square: put the rows on the mesh yourself"
        raise wrong_type(operation, "a", expected, "Rows", remedy)


def as_long(operation: str, b, rows: int, mesh: Mesh | None, dtype) -> jax.Array:
    """Right-hand sides in ``dtype`` with as many rows as a tall A, which may have been padded."""
    b = promoted(b, dtype)
    missing = rows - b.shape[0]
    return b if mesh is None or not missing else _lengthened(operation, b, missing, mesh)


def _lengthened(operation: str, x, missing: int, mesh: Mesh) -> jax.Array:
    spec = PartitionSpec(tuple(mesh.axis_names), *(None,) * (x.ndim - 1))
    return executor(x).lengthened_on(operation, x, missing, NamedSharding(mesh, spec))


def like(operation: str, b, work, mesh: Mesh | None, dtype) -> jax.Array:
    """B in ``dtype``, as large as a factor, which may have been padded: then by rows over its
    devices. Traced factors do not show these, and need ``mesh``.
    """
    expect_mesh_of_rows(operation, b, mesh)
    if b.shape[0] == work.shape[0] and not isinstance(b, Rows):
        return promoted(as_array(operation, "b", b), dtype)
    target = meshes.of_array(work)
    if target is None:
        if mesh is None:
            remedy = "give mesh= as to the function that made the factor"
            raise mistake(operation, "mesh", "the mesh of a factor that was padded", "None", remedy)
        target = NamedSharding(mesh, PartitionSpec(tuple(mesh.axis_names), None))
    return executor(b).spread(operation, b, work.shape[0], target, dtype)


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
