"""Records to vectors and back in their own memory: an array of structures as a structure of arrays.

Particles come as records (x, y, z, vx, vy, vz), one after another, as files and other programs have
them. Whole vectors of each quantity are what a computation wants. `transpose_inplace` turns [n, 6]
into [6, n] where it lies, then back.

Run: python examples/03_arrays_of_structures.py [--n 4000000] [--devices 1]
"""

import argparse
import os
import pathlib
import sys
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, default=4_000_000, help="particles")
parser.add_argument("--devices", type=int, default=1, help="CPU host devices that share them")
options = parser.parse_args()
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options.devices}"
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, str(pathlib.Path(__file__).parent / "bench"))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

import meshsolve as ms  # noqa: E402
from memory import peak, reset_peak  # noqa: E402

n = options.n - options.n % options.devices
mesh = Mesh(np.array(jax.devices()), ("particles",))
by_records = NamedSharding(mesh, PartitionSpec("particles", None))


def records():
    """Particles on circular orbits around a unit mass, in memory of JAX's own."""
    radius, angle = 1 + np.arange(n, dtype=np.float32) / n, np.arange(n, dtype=np.float32)
    cos, sin, v, zero = np.cos(angle), np.sin(angle), 1 / np.sqrt(radius), np.zeros_like(radius)
    made = np.stack([radius * cos, radius * sin, zero, -v * sin, v * cos, zero], axis=1)
    return jax.jit(jnp.copy)(jax.device_put(made, by_records)).block_until_ready()


def timed(function, x):
    """The result, its seconds, and the peak of memory above what was there, in sizes of x."""
    size, before, start = x.nbytes, reset_peak(), time.perf_counter()
    y = function(x).block_until_ready()
    return y, time.perf_counter() - start, (peak() - before) / size


@jax.jit
def leapfrog(vectors, step=0.01):
    """Half a kick, a drift, half a kick, each on whole vectors of positions and velocities."""
    kick = lambda r: -r / (r * r).sum(0) ** 1.5  # noqa: E731
    r, v = vectors[:3], vectors[3:]
    v = v + step / 2 * kick(r)
    r = r + step * v
    return jnp.concatenate([r, v + step / 2 * kick(r)])


def energies(r, v):
    """Of each particle, per unit of mass."""
    return (v * v).sum(0) / 2 - 1 / jnp.sqrt((r * r).sum(0))


copied = jax.jit(lambda x: x.T.copy())
copied(records()), ms.transpose_inplace(ms.transpose_inplace(records()))  # compile
_, copy_seconds, copy_above = timed(copied, records())
vectors, seconds, above = timed(ms.transpose_inplace, records())
moved = leapfrog(vectors)
drift = jnp.abs(energies(moved[:3], moved[3:]) / energies(vectors[:3], vectors[3:]) - 1).max()
back, back_seconds, _ = timed(ms.transpose_inplace, moved)
right = bool(jnp.array_equal(back, leapfrog(copied(records())).T))
print(f"{n} particles, {back.nbytes / 1e6:.0f} MB, on {mesh.size} host devices")
print(f"in place  {1e3 * seconds:6.1f} ms to vectors, {1e3 * back_seconds:6.1f} ms to records")
print(f"x.T       {1e3 * copy_seconds:6.1f} ms to vectors")
print(f"peak memory above the records: {above:.2f} of them in place, {copy_above:.2f} with x.T")
print(f"energy drift {drift:.0e}, the same as by copies: {right}")
