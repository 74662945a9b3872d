"""Kernel ridge regression with a kernel matrix that is sharded over four CPU host devices.

Run: python examples/01_solve.py                the handwritten digits of scikit-learn
     python examples/01_solve.py --n 8192       a synthetic Matern kernel of that size
"""

import argparse
import os
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, help="size of a synthetic system; digits if left out")
parser.add_argument("--samples", type=int, default=1796, help="digits to use, of 1797")
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
problem = matern(options.n) if options.n else digits(options.samples, options.devices)
n = len(problem.points)


def kernel_matrix():
    """The regularised kernel matrix, each device making its own rows."""
    make = jax.jit(lambda x: problem.kernel(x, x) + problem.ridge * jnp.eye(n), out_shardings=rows)
    return jax.block_until_ready(make(problem.points))


def solve(a, b):
    """Solve in the memory of a, or with jax.scipy for comparison."""
    if options.solver == "jnp":
        return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b).block_until_ready()
    return ms.solve(a, b, assume_a="pos", overwrite_a=True).block_until_ready()


b = jax.device_put(problem.targets, NamedSharding(mesh, PartitionSpec()))
small = jax.device_put(np.eye(64), rows)
solve(
    small, jax.device_put(np.ones((64, b.shape[1])), b.sharding)
)  # compile what does not depend on n
a = kernel_matrix()
before = reset_peak()
x = solve(a, b)
above = (peak() - before) / (8 * n * n)
if options.solver == "jnp":
    print(f"{above:.2f}")
    sys.exit()

print(f"{problem.name}: n = {n}, {b.shape[1]} right-hand sides, {mesh.size} host devices")
if problem.test_points is not None:
    scores = problem.kernel(problem.test_points, problem.points) @ x
    right = np.asarray(jnp.argmax(scores, axis=1)) == problem.test_labels
    print(f"test accuracy   {100 * right.mean():.1f} % of {len(right)} held-out digits")
a = kernel_matrix()
norm = lambda m: float(jnp.abs(m).sum(0).max())  # noqa: E731
ratio = norm(b - a @ x) / (n * norm(a) * norm(x) * 2.0**-53)
print(f"residual ratio  {ratio:.1e}  (norm(B - A X) / (n norm(A) norm(X) u); at most 3 is right)")
seconds = ms.last_call()["seconds"]
parts = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in seconds.items() if name != "total")
gflops = n**3 / 3 / 1e9 / seconds["total"]
print(f"time            {1e3 * seconds['total']:.1f} ms, {gflops:.1f} GFLOP/s ({parts} ms)")
print(f"peak memory     {above:.3f} x A above the arrays themselves")
if not options.no_compare:
    command = [sys.executable, __file__, *sys.argv[1:], "--solver", "jnp"]
    other = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    print(f"                {other} x A with jax.scipy.linalg.cho_solve on the same shards")
