"""What each process of a test begins with: JAX over all processes, a mesh, arrays, reports."""

import json
import os
import pathlib

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

RANK = next(
    int(os.environ[name])
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")
    if name in os.environ
)
PROCESSES = int(os.environ["PROCESSES"])

jax.distributed.initialize(
    f"127.0.0.1:{os.environ['PORT']}", PROCESSES, RANK, shutdown_timeout_seconds=10
)
# The devices of all processes.
SIZE = jax.device_count()


def mesh_of(order=None, kind=AxisType.Auto) -> Mesh:
    """A mesh over all devices, in an order of its own."""
    devices = np.array(jax.devices())[list(order or range(SIZE))]
    return Mesh(devices, ("x",), axis_types=(kind,))


def put(mesh, x, *spec) -> jax.Array:
    """An array that all processes have alike, as a sharded one."""
    x = np.asarray(x)
    return jax.make_array_from_callback(x.shape, NamedSharding(mesh, P(*spec)), lambda at: x[at])


def whole(x) -> np.ndarray:
    """All of an array, on every process."""
    if getattr(x, "is_fully_addressable", True):
        return np.asarray(x)
    if x.is_fully_replicated:
        return np.asarray(x.addressable_data(0))
    return np.asarray(multihost_utils.process_allgather(x, tiled=True))


def report(*values) -> None:
    """A line for the test: values that JSON can have."""
    path = pathlib.Path(os.environ["REPORTS"]) / f"{RANK}.jsonl"
    with path.open("a") as file:
        file.write(json.dumps(values) + "\n")
