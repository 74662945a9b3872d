"""An array of structures as a structure of arrays, and back, in its own memory.

Particles come as records (x, y, z, vx, vy, vz), one after another; a computation needs a vector of
each quantity. `transpose_inplace` turns [n, 6] into [6, n] in place, then back.

Run: python examples/08_arrays_of_structures.py [--n 4000000]
"""

import argparse
import os
import time

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import meshsolve as ms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, default=4_000_000, help="particles")
options = parser.parse_args()
mesh = Mesh(np.array(jax.devices()), ("particles",))
n = options.n - options.n % mesh.size
by_records = NamedSharding(mesh, PartitionSpec("particles", None))


def records():
    """Particles on circular orbits around a unit mass, in memory that JAX owns."""
    radius, angle = 1 + np.arange(n, dtype=np.float32) / n, np.arange(n, dtype=np.float32)
    cos, sin, v, zero = np.cos(angle), np.sin(angle), 1 / np.sqrt(radius), np.zeros_like(radius)
    made = np.stack([radius * cos, radius * sin, zero, -v * sin, v * cos, zero], axis=1)
    return jax.jit(jnp.copy)(jax.device_put(made, by_records)).block_until_ready()


def timed(function, x):
    """The result and its seconds."""
    start = time.perf_counter()
    y = function(jax.block_until_ready(x)).block_until_ready()
    return y, time.perf_counter() - start


@jax.jit
def leapfrog(vectors, step=0.01):
    """Half a kick, a drift, half a kick, each on whole vectors of positions and velocities."""
    kick = lambda r: -r / (r * r).sum(0) ** 1.5  # noqa: E731
    r, v = vectors[:3], vectors[3:]
    v = v + step / 2 * kick(r)
    r = r + step * v
    return jnp.concatenate([r, v + step / 2 * kick(r)])


@jax.jit
def drift(before, after):
    """The largest relative change of a particle's energy."""
    energy = lambda x: (x[3:] ** 2).sum(0) / 2 - 1 / jnp.sqrt((x[:3] ** 2).sum(0))  # noqa: E731
    return jnp.abs(energy(after) / energy(before) - 1).max()


copied = jax.jit(lambda x: x.T.copy())
copied(records()).block_until_ready()  # compile all programs before timing
ms.transpose_inplace(leapfrog(ms.transpose_inplace(records()))).block_until_ready()
_, copy_seconds = timed(copied, records())
vectors, seconds = timed(ms.transpose_inplace, records())
scratch = ms.last_call()["scratch_bytes"]
moved = leapfrog(vectors)
change = float(drift(vectors, moved))
back, back_seconds = timed(ms.transpose_inplace, moved)
assert bool(jnp.array_equal(back, leapfrog(copied(records())).T))
size = back.nbytes / 1e6
print(f"{n} particles, {size:.1f} MB, on {mesh.size} CPU devices")
print(f"in place  {1e3 * seconds:6.1f} ms to vectors, {1e3 * back_seconds:6.1f} ms to records")
print(f"x.T       {1e3 * copy_seconds:6.1f} ms to vectors")
print(f"memory in addition to the records: {scratch / 1e6:.1f} MB in place, {size:.1f} MB with x.T")
print(f"energy drift {change:.0e}, the same as by copies: True")
