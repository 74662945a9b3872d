"""A positive definite system over all visible GPUs, or over CPU devices if there are none.

Each device makes its rows of A. The solve uses their memory, with all devices, then with fewer. The
table gives the part of A on each device and the memory that the call takes in addition.

Run: python examples/02_multi_gpu.py [--n 4096] [--dtype float64]
"""

import argparse
import os
import re
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import meshsolve as ms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, default=4096)
parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
options = parser.parse_args()
jax.config.update("jax_enable_x64", True)
n, dtype, on_cpu = options.n, jnp.dtype(options.dtype), jax.default_backend() == "cpu"


def peak(reset=False) -> int:
    """The peak of the bytes in use: of the process on CPU devices, of a device on GPUs."""
    if not on_cpu:
        return max(device.memory_stats()["peak_bytes_in_use"] for device in jax.devices())
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(re.findall(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[0])


def solved_by(devices):
    """(devices, seconds, part of A on each, peak above that, residual ratio)."""
    mesh = Mesh(np.array(devices), ("x",))
    rows = NamedSharding(mesh, PartitionSpec("x", None))
    everywhere = NamedSharding(mesh, PartitionSpec())

    @jax.jit
    def system(i):
        """exp(-|i - j| / 50), and one right-hand side."""
        a = jnp.exp(-jnp.abs(i[:, None] - i) / 50).astype(dtype)
        return jax.lax.with_sharding_constraint(a, rows), jnp.ones(len(i), dtype)

    i = jax.device_put(jnp.arange(n, dtype=dtype), everywhere)
    ms.solve(*system(i), assume_a="pos", overwrite_a=True).block_until_ready()  # compiles
    a, b = jax.block_until_ready(system(i))
    product = jax.jit(lambda a, x: (a @ x, jnp.abs(a).sum(0).max()))
    before = peak(reset=True) if on_cpu else a.nbytes // len(devices)
    start = time.perf_counter()
    x = ms.solve(a, b, assume_a="pos", overwrite_a=True).block_until_ready()
    seconds, above = time.perf_counter() - start, peak() - before
    (ax, norm), u = product(system(i)[0], x), jnp.finfo(dtype).eps / 2
    ratio = float(jnp.abs(b - ax).sum() / (n * norm * jnp.abs(x).sum() * u))
    assert ratio < 3, f"residual ratio {ratio}"
    return len(devices), seconds, 1 / len(devices), max(above, 0) / (dtype.itemsize * n**2), ratio


counts = [k for k in (8, 4, 2, 1) if k <= len(jax.devices()) and n % k == 0]
# The peak of a device only grows: begin with the smallest parts.
table = [solved_by(jax.devices()[:k]) for k in counts]
print(
    f"{jax.devices()[0].device_kind}, n = {n}, {dtype.name}, A = {dtype.itemsize * n**2 >> 20} MiB"
)
print("devices   seconds   A on each   peak above it   residual ratio")
for k, seconds, part, above, ratio in table:
    print(f"{k:7}   {seconds:7.3f}   {part:7.3f} A   {above:11.3f} A   {ratio:14.4f}")
