"""Kernel ridge regression; four CPU devices solve the system of the kernel matrix.

Run: python examples/01_solve.py                the 1797 handwritten digits of scikit-learn
     python examples/01_solve.py --n 8192       a synthetic Matern kernel of that size

Four devices do not divide 1797, so the call gets the digits' matrix with `mesh=`, which pads it.
Each device makes its own rows of the synthetic matrix, which is solved in place. The table at the
end compares with jax.scipy, at n = 4096 or the given size; each row comes from a fresh process.
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
parser.add_argument("--n", type=int, help="size of a synthetic system, and of the table's")
parser.add_argument("--samples", type=int, default=1797, help="digits to use")
parser.add_argument("--no-compare", action="store_true", help="leave the table out")
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
if not sharded:  # each digit's prediction had it been left out is b - x / diag(A^-1)
    inverse = np.diagonal(ms.inv(a, assume_a="pos", mesh=mesh))
    right = np.argmax(b - np.asarray(x) / inverse[:, None], axis=1) == problem.labels
    print(f"accuracy        {100 * right.mean():.1f} % of {n} digits, each left out once")
norm = lambda m: float(jnp.abs(m).sum(0).max())  # noqa: E731
residual = b - a @ (x if sharded else jax.device_put(x, a.sharding))
ratio = norm(residual) / (n * norm(a) * norm(x) * 2.0**-53)
print(f"residual ratio  {ratio:.1e} (b - A x against what rounding may cause; up to 3 is right)")
assert ratio <= 3
print(f"time            {seconds['total']:.3f} s, of these {seconds['factor']:.3f} s to factor A")
print(f"peak memory     {above:.3f} x A above A{'' if sharded else ', with its copy in shards'}")
if not options.no_compare:
    size, devices = options.n or 4096, min(2, mesh.size)
    print(f"\npositive definite, n = {size}, float64, by rows on {devices} CPU devices", flush=True)
    print(f"{'':30}seconds  memory above A  residual ratio")
    lines = {"meshsolve.solve, in place": "meshsolve", "jax.scipy on the same shards": "jnp"}
    for name, what in lines.items():
        case = f"--what {what} --n {size} --devices {devices} --again 1"
        command = [sys.executable, f"{sys.path[0]}/memory.py", *case.split()]
        ran = json.loads(subprocess.check_output(command, text=True))
        memory, ratio = f"{ran['above_over_a']:.3f} x A", ran["residual_ratio"]
        assert ratio <= 3
        print(f"{name:30}{ran['seconds']:7.2f}{memory:>16}{ratio:16.1e}", flush=True)
