"""Shardings in the types of arrays. Only those with Explicit axes show them: with Auto axes these
functions leave an array as it is.
"""

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec


def spec_of(x) -> PartitionSpec | None:
    """The spec in the type of an array; None if no axis is Explicit."""
    sharding = jax.typeof(x).sharding
    return sharding.spec if AxisType.Explicit in sharding.mesh.axis_types else None


def resharded(x, sharding):
    """X in a sharding of Explicit axes."""
    explicit = AxisType.Explicit in sharding.mesh.axis_types
    return jax.sharding.reshard(x, sharding) if explicit else x


def respecified(x, *entries):
    """X with another spec, on its own mesh."""
    return resharded(x, NamedSharding(jax.typeof(x).sharding.mesh, PartitionSpec(*entries)))


def replicated(x):
    """X on all devices of its mesh, so that any part can be cut out."""
    return respecified(x)


def by_rows(x):
    """X distributed at most by rows, so that columns can be split and joined."""
    spec = spec_of(x)
    return x if spec is None or x.ndim < 2 else respecified(x, spec[0])


def typed(x):
    """A traced operand. If it is not committed to a device and the mesh that is set has Explicit
    axes, it gets its type on that mesh.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if {*mesh.axis_types} != {AxisType.Explicit} or not jax.typeof(x).sharding.mesh.empty:
        return x
    return jax.sharding.reshard(x, NamedSharding(mesh, PartitionSpec()))
