"""What both executors of traced calls share: placements of matrices, and their padding."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding

from meshsolve._execute.batches import ONE, Batch
from meshsolve._execute.placements import (
    Placement,
    ambient_placement,
    expect_one_type,
    mapped_axes,
    placement,
    traced_sharding,
)
from meshsolve._execute.shards import mode_of
from meshsolve._execute.typed import replicated, resharded
from meshsolve._library import failures
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import Operation


def traced_placement(op: Operation, a, batch: Batch = ONE) -> tuple[Placement | None, Batch]:
    """The placement of a traced matrix, or of the matrices of a batch, and the batch with its axes.
    No placement if only the partitioner will know it.
    """
    sharding, n = traced_sharding(op.public, "a", a), op.divided(a.shape)
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
    at = placement(op.public, sharding.mesh, spec, n, taken=taken, extent=op.extent)
    return at, batch


def by_type(op: Operation, a, columns: int | None = None) -> NamedSharding | None:
    """The sharding in which ``op`` takes a traced A, or so many right-hand sides, with Explicit
    axes; None with Auto axes.
    """
    at, _ = traced_placement(op, a)
    if at is None or AxisType.Explicit not in at.mesh.axis_types:
        return None
    if columns is None:
        return NamedSharding(at.mesh, at.spec("matrix", ""))
    return NamedSharding(at.mesh, at.spec("rhs", mode_of(columns, at.world, op.rows(a.shape))))


def form(op: Operation, a) -> str:
    """The storage of the factor of A, whose layout in memory is not known."""
    del a
    return "columns" if op.any_shape else "rows"


def spread(operation: str, a, order: int, target: NamedSharding, dtype):
    """A by rows, with an identity corner up to ``order``."""
    explicit = _expect_whole_mesh(operation, target)
    a, missing, i = a.astype(dtype), order - a.shape[0], jnp.arange(order)
    if missing:
        # Selected, not added: XLA's arithmetic would flush subnormal entries of A.
        corner = (i[:, None] == i) & (i >= a.shape[0])
        a = jnp.where(corner, jnp.ones((), a.dtype), jnp.pad(replicated(a), (0, missing)))
    return _constrained(a, target, explicit)


def _constrained(x, target: NamedSharding, explicit: bool):
    return (jax.sharding.reshard if explicit else jax.lax.with_sharding_constraint)(x, target)


def _expect_whole_mesh(operation: str, target: NamedSharding) -> bool:
    """Whether the axes of a mesh are Explicit; refuse one that a batch uses, or of both types."""
    remedy = "give a mesh whose axes are of one type; eagerly both work"
    expect_one_type(operation, "mesh", "a mesh", target.mesh, remedy)
    explicit = AxisType.Explicit in target.mesh.axis_types
    if explicit and mapped_axes(target.mesh):
        raise mistake(
            operation,
            "mesh",
            "None for a batch that is distributed to devices with Explicit axes",
            f"a mesh of which {mapped_axes(target.mesh)} are the batch's",
            "leave mesh out, and distribute matrices of an order that the other devices divide",
        )
    return explicit


def lengthened(b, a, rows: int):
    """B with zeros up to so many rows, to go with a padded A."""
    del a
    return jnp.pad(replicated(b), ((0, rows - b.shape[0]), *((0, 0),) * (b.ndim - 1)))


def widened(operation: str, a, missing: int, target: NamedSharding, dtype):
    """A with so many columns of zeros more, in a sharding by columns."""
    explicit = _expect_whole_mesh(operation, target)
    a = jnp.asarray(a).astype(dtype)
    if missing:
        a = jnp.pad(replicated(a), ((0, 0), (0, missing)))
    return _constrained(a, target, explicit)


def lengthened_on(operation: str, x, missing: int, target: NamedSharding):
    """An array with so many rows of zeros more, in a sharding by rows."""
    explicit = _expect_whole_mesh(operation, target)
    x = jnp.pad(replicated(x), ((0, missing), *((0, 0),) * (x.ndim - 1)))
    return _constrained(x, target, explicit)


def cut(x, shape: tuple[int, ...], b=None):
    """The leading part of a padded matrix, or of a solution for B."""
    del b
    return replicated(x)[tuple(map(slice, shape))]


def as_given(x, a):
    """A result in the sharding of A."""
    return resharded(x, jax.typeof(a).sharding)
