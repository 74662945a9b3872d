"""The mesh that the user has set, beside the meshes that arrays lie on."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
)


def mesh_is_set() -> bool:
    """Whether the user has set one."""
    return not jax.sharding.get_abstract_mesh().empty


# What it makes lies on the mesh that is set.
_anything = jax.jit(lambda: jnp.zeros(()), out_shardings=PartitionSpec())


def mesh_that_is_set() -> Mesh | None:
    """The mesh with its devices; None if there is none, or inside of programs."""
    if not mesh_is_set():
        return None
    try:
        return jax.sharding.get_mesh()
    except ValueError:  # as JAX maps or differentiates, it does not say
        x = _anything()
        return None if isinstance(x, Tracer) else x.sharding.mesh


def mesh_context(mesh: Mesh | AbstractMesh):
    """The array's own mesh where the user has set another one."""
    assert isinstance(mesh, Mesh), "an array that is not traced lies on devices"
    try:
        if not mesh_is_set() or jax.sharding.get_mesh() == mesh:
            return contextlib.nullcontext()
    except ValueError:  # while a function is traced none can be set
        return contextlib.nullcontext()
    return jax.set_mesh(mesh)


def device_context(a):
    """The one device of an array, where the user has set a mesh."""
    (device,) = a.sharding.device_set
    return mesh_context(_mesh_of_one(device))


@functools.cache
def _mesh_of_one(device) -> Mesh:
    return Mesh(np.array([device]), ("device",))


def anchored(a):
    """An array that is not traced; if it is tied to no device, on all devices of the mesh that is
    set, where JAX takes it to be.
    """
    mesh = None if a.committed else mesh_that_is_set()
    return jax.device_put(a, NamedSharding(mesh, PartitionSpec())) if mesh else a


def typed(x):
    """A traced operand that is tied to no device, with the type that JAX gives it on the mesh that
    is set, if its axes are Explicit.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if {*mesh.axis_types} != {AxisType.Explicit} or not jax.typeof(x).sharding.mesh.empty:
        return x
    return jax.sharding.reshard(x, NamedSharding(mesh, PartitionSpec()))


def home(b, mesh: Mesh | AbstractMesh) -> NamedSharding:
    """The sharding that the solution goes back to."""
    if isinstance(b.sharding, NamedSharding) and b.sharding.mesh == mesh:
        return b.sharding
    return NamedSharding(mesh, PartitionSpec())


def as_given(x, a):
    """X, which lies by rows, by columns or on one device, as A lies; as JAX takes A to lie if it is
    tied to no device and a mesh is set.
    """
    if isinstance(x, Tracer):
        here = jax.typeof(a).sharding
        explicit = not here.mesh.empty and AxisType.Explicit in here.mesh.axis_types
        return jax.sharding.reshard(x, here) if explicit else x
    tied = isinstance(a, jax.Array) and a.committed
    if not tied and (mesh := mesh_that_is_set()):
        to = NamedSharding(mesh, PartitionSpec())
    elif isinstance(a, jax.Array):
        to = a.sharding
    else:
        return x
    return x if x.sharding.is_equivalent_to(to, x.ndim) else jax.device_put(x, to)


def where_it_lies(run, x, *more):
    """``run(x, *more)``, a program without calls of the library, whatever mesh the user has set."""
    if isinstance(x, Tracer):
        return run(x, *more)
    x = anchored(x)
    if isinstance(x.sharding, NamedSharding):
        with mesh_context(x.sharding.mesh):
            return run(x, *more)
    if not isinstance(x.sharding, SingleDeviceSharding) or not mesh_is_set():
        return run(x, *more)
    with device_context(x):
        results = run(x, *more)
    # Nothing is left on a mesh of this module's own.
    return jax.device_put(results, x.sharding)
