"""Kernel ridge regression with a kernel matrix that is solved on four CPU host devices.

Run: python examples/01_solve.py                the 1797 handwritten digits of scikit-learn
     python examples/01_solve.py --n 8192       a synthetic Matern kernel of that size

Four devices do not divide 1797, so the digits' matrix is handed over as it is, with `mesh=`, which
pads and shards it. The synthetic one is made on the devices, each making its own rows, and solved
in its own memory.
"""

import argparse
import os
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, help="size of a synthetic system; digits if left out")
parser.add_argument("--samples", type=int, default=1797, help="digits to use")
parser.add_argument("--devices", type=int, default=4)
parser.add_argument("--solver", choices=("meshsolve", "jnp"), default="meshsolve")
parser.add_argument("--no-compare", action="store_true", help="leave jax.scipy's memory out")
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
from problems import digits, matern  # noqa: E402

jax.config.update("jax_enable_x64", True)
mesh = Mesh(np.array(jax.devices()), ("x",))
rows = NamedSharding(mesh, PartitionSpec("x", None))
problem = matern(options.n) if options.n else digits(options.samples)
n = len(problem.points)
sharded = problem.labels is None


def kernel_matrix():
    """The regularised kernel matrix, sharded by rows or on one device."""
    make = lambda x: problem.kernel(x, x) + problem.ridge * jnp.eye(n)  # noqa: E731
    return jax.block_until_ready(jax.jit(make, out_shardings=rows if sharded else None)(points))


def solve(a, b):
    """Solve in the memory of a, or of its sharded copy; or with jax.scipy for comparison."""
    if options.solver == "jnp":
        return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b).block_until_ready()
    over = None if sharded else mesh
    return ms.solve(a, b, assume_a="pos", overwrite_a=sharded, mesh=over).block_until_ready()


def leave_one_out(a, b, x):
    """What each sample's prediction would be had it been left out: b - x / diag(A^-1)."""
    factor = ms.cho_factor(a, mesh=mesh)
    inverse = factor.solve(jnp.eye(n))
    return b - x / jnp.diagonal(inverse)[:, None]


points = jnp.asarray(problem.points)
b = jnp.asarray(problem.targets)
if sharded:
    b = jax.device_put(b, NamedSharding(mesh, PartitionSpec()))
eye = jax.device_put(np.eye(64), rows) if sharded else jnp.eye(63)
solve(eye, jnp.ones((len(eye), b.shape[1])))  # compile what does not depend on n
a = kernel_matrix()
before = reset_peak()
x = solve(a, b)
above = (peak() - before) / (8 * n * n)
if options.solver == "jnp":
    print(f"{above:.2f}")
    sys.exit()

seconds = ms.last_call()["seconds"]
print(f"{problem.name}: n = {n}, {b.shape[1]} right-hand sides, {mesh.size} host devices")
ms.plan(kernel_matrix(), b, assume_a="pos", overwrite_a=sharded, mesh=None if sharded else mesh)
a = kernel_matrix()
if problem.labels is not None:
    right = np.argmax(leave_one_out(a, b, x), axis=1) == problem.labels
    print(f"accuracy        {100 * right.mean():.1f} % of {n} digits, each left out once")
norm = lambda m: float(jnp.abs(m).sum(0).max())  # noqa: E731
x_there = x if sharded else jax.device_put(x, a.sharding)
ratio = norm(b - a @ x_there) / (n * norm(a) * norm(x) * 2.0**-53)
print(f"residual ratio  {ratio:.1e}  (norm(B - A X) / (n norm(A) norm(X) u); at most 3 is right)")
parts = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in seconds.items() if name != "total")
gflops = n**3 / 3 / 1e9 / seconds["total"]
print(f"time            {1e3 * seconds['total']:.1f} ms, {gflops:.1f} GFLOP/s ({parts} ms)")
kind = "the arrays themselves" if sharded else "A itself; its sharded copy is 1"
print(f"peak memory     {above:.3f} x A above {kind}")
if not options.no_compare:
    command = [sys.executable, __file__, *sys.argv[1:], "--solver", "jnp"]
    other = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    where = "the same shards" if sharded else "one device"
    print(f"                {other} x A with jax.scipy.linalg.cho_solve on {where}")
