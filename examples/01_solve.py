"""Kernel ridge regression; four CPU devices solve the system of the kernel matrix.

Run: python examples/01_solve.py                the 1797 handwritten digits of scikit-learn
     python examples/01_solve.py --n 8192       a synthetic Matern kernel of that size

Four devices do not divide 1797, so the call gets the digits' matrix with `mesh=`, which pads it.
Each device makes its own rows of the synthetic matrix, which is solved in place.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "benchmarks"))

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import meshsolve as ms
from memory import peak, reset_peak
from problems import digits, matern

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, help="size of a synthetic system")
parser.add_argument("--samples", type=int, default=1797, help="digits to use")
parser.add_argument("--no-compare", action="store_true", help="leave jax.scipy out")
options = parser.parse_args()
jax.config.update("jax_enable_x64", True)
mesh = Mesh(np.array(jax.devices()), ("x",))
rows = NamedSharding(mesh, PartitionSpec("x", None))
problem = matern(options.n) if options.n else digits(options.samples)
n, sharded = len(problem.points), problem.labels is None
how = {"assume_a": "pos", "overwrite_a": sharded, "mesh": None if sharded else mesh}
kernel_matrix = jax.jit(
    lambda points: problem.kernel(points, points) + problem.ridge * jnp.eye(n),
    out_shardings=rows if sharded else None,
)
points = jnp.asarray(problem.points)
b = jax.device_put(problem.targets, NamedSharding(mesh, PartitionSpec()) if sharded else None)
eye = jax.device_put(np.eye(64), rows if sharded else None)
ms.solve(eye, jnp.ones((64, b.shape[1])), **how)  # compile the programs that do not depend on n
a = jax.block_until_ready(kernel_matrix(points))
before = reset_peak()
x = ms.solve(a, b, **how).block_until_ready()
above, seconds = (peak() - before) / (8 * n * n), ms.last_call()["seconds"]
print(f"{problem.name}: n = {n}, {b.shape[1]} right-hand sides, {mesh.size} CPU devices")
a = kernel_matrix(points)
ms.plan(a, b, **how)
if not sharded:  # each digit's prediction had it been left out is b - x / diag(A^-1)
    inverse = np.diagonal(ms.inv(a, assume_a="pos", mesh=mesh))
    right = np.argmax(b - np.asarray(x) / inverse[:, None], axis=1) == problem.labels
    print(f"accuracy        {100 * right.mean():.1f} % of {n} digits, each left out once")
norm = lambda m: float(jnp.abs(m).sum(0).max())  # noqa: E731
residual = b - a @ (x if sharded else jax.device_put(x, a.sharding))
ratio = norm(residual) / (n * norm(a) * norm(x) * 2.0**-53)
print(f"residual ratio  {ratio:.1e}  (norm(B - A X) / (n norm(A) norm(X) u); at most 3 is right)")
assert ratio <= 3
parts = ", ".join(f"{name} {1e3 * s:.1f} ms" for name, s in seconds.items())
print(f"time            {parts}; {n**3 / 3e9 / seconds['total']:.1f} GFLOP/s")
print(f"peak memory     {above:.3f} x A above A{'' if sharded else ', its sharded copy with it'}")
if not options.no_compare:
    lies = f"--storage rows --n {n}" if sharded else f"--storage padded --n {n + 1}"
    command = f"{sys.path[0]}/memory.py --what jnp --devices {mesh.size} {lies}".split()
    ran = json.loads(subprocess.check_output([sys.executable, *command], text=True))
    where = "the same shards" if sharded else "one device"
    print(
        f"                {ran['above_over_a']:.2f} x A with jax.scipy.linalg.cho_solve on {where}"
    )
