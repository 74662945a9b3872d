"""The mesh that the user has set, in addition to the meshes of arrays."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
)

from meshsolve._library import processes


def mesh_is_set() -> bool:
    """Whether the user has set a mesh."""
    return not jax.sharding.get_abstract_mesh().empty


# Its result is on the mesh that is set.
_anything = jax.jit(lambda: jnp.zeros(()), out_shardings=PartitionSpec())


def mesh_that_is_set() -> Mesh | None:
    """The mesh with its devices; None if there is none, or inside of programs."""
    if not mesh_is_set():
        return None
    try:
        return jax.sharding.get_mesh()
    except ValueError:  # JAX does not give it while it maps or differentiates
        x = _anything()
        return None if isinstance(x, Tracer) else x.sharding.mesh


def mesh_context(mesh: Mesh | AbstractMesh):
    """A context with the array's own mesh, if the user has set another one."""
    assert isinstance(mesh, Mesh), "an array that is not traced is on devices"
    try:
        if not mesh_is_set() or jax.sharding.get_mesh() == mesh:
            return contextlib.nullcontext()
    except ValueError:  # no mesh can be set while a function is traced
        return contextlib.nullcontext()
    return jax.set_mesh(mesh)


def own_context(a):
    """The same for any array; for one that is traced or not on a mesh it changes nothing."""
    sharding = of_array(a)
    return contextlib.nullcontext() if sharding is None else mesh_context(sharding.mesh)


def device_context(a):
    """A context with the one device of an array, if the user has set a mesh."""
    (device,) = a.sharding.device_set
    return mesh_context(_mesh_of_one(device))


@functools.cache
def _mesh_of_one(device) -> Mesh:
    return Mesh(np.array([device]), ("device",))


def anchored(a):
    """An array that is not traced. If it is not committed to a device, it is on all devices of the
    mesh that is set, as JAX assumes.
    """
    mesh = None if a.committed else mesh_that_is_set()
    return jax.device_put(a, NamedSharding(mesh, PartitionSpec())) if mesh else a


def is_gone(x) -> bool:
    """Whether an array has lost its memory."""
    return isinstance(x, jax.Array) and not isinstance(x, Tracer) and x.is_deleted()


def platforms(x) -> set[str]:
    """The platforms of the devices that an array is on; none if it is traced or not JAX's."""
    sharding = None if isinstance(x, Tracer) else getattr(x, "sharding", None)
    return {device.platform for device in sharding.device_set} if sharding else set()


def of_array(x) -> NamedSharding | None:
    """The sharding of an array over a mesh; None if it is not on one, or traced."""
    sharding = None if isinstance(x, Tracer) else getattr(x, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


def home(b, mesh: Mesh | AbstractMesh) -> NamedSharding:
    """The sharding that the solution goes back to."""
    if isinstance(b.sharding, NamedSharding) and b.sharding.mesh == mesh:
        return b.sharding
    return NamedSharding(mesh, PartitionSpec())


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
    # No result stays on a mesh of this module.
    return jax.device_put(results, x.sharding)


def engine_of(x, divided: int) -> str:
    """The engine that makes the factor of a matrix, if its mesh shows that several processes do.
    They divide so many of its rows or columns.
    """
    sharding = of_array(x)
    if sharding is None or not processes.several(sharding.mesh):
        return ""
    # Each process works for itself on a matrix that all have, and that they do not divide.
    alone = sharding.is_fully_replicated and divided % sharding.mesh.size
    return "" if alone else processes.ENGINE
