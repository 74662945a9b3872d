"""One factor, many right-hand sides: implicit time steps of a nonlocal diffusion.

du/dt = -(-d^2/dx^2)^(1/2) u on a ring couples every two points. So the matrix of a Crank-Nicolson
step, I + dt/2 L, is dense. All steps have the same matrix: after one factorisation a step costs a
solve. The result is checked against the Fourier series of the solution.

Run: python examples/06_reuse_factor.py [--n 2048] [--steps 200]
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
parser.add_argument("--n", type=int, default=2048, help="points on the ring")
parser.add_argument("--steps", type=int, default=200)
options = parser.parse_args()
jax.config.update("jax_enable_x64", True)
n, dt = options.n, 0.5 / options.steps
mesh = Mesh(np.array(jax.devices()), ("x",))
by_rows = NamedSharding(mesh, PartitionSpec("x", None))
waves = np.abs(np.fft.fftfreq(n, 1 / n))  # L multiplies a wave by its number
i, first_row = jnp.arange(n), jnp.asarray(np.fft.ifft(waves).real)


def step_matrix(sign):
    """I + sign dt/2 L; each device makes its own rows."""
    return jnp.eye(n) + sign * dt / 2 * first_row[(i[:, None] - i) % n]


implicit, explicit = map(jax.jit(step_matrix, out_shardings=by_rows), (1.0, -1.0))
angle = 2 * np.pi * np.arange(n) / n
start = jnp.asarray(((angle > 2) & (angle < 3)) + np.exp(-50 * (angle - 4.5) ** 2))


@jax.jit
def keeping(implicit, explicit, u):
    """All steps with one factor, and u after each."""
    factor = ms.cho_factor(implicit)
    return jax.lax.scan(lambda u, _: (factor.solve(explicit @ u),) * 2, u, length=options.steps)[1]


@jax.jit
def one_step(implicit, explicit, u):
    """The same step with a solve, which factors the matrix each time."""
    return ms.solve(implicit, explicit @ u, assume_a="pos")


def seconds(function, *arguments):
    """Seconds of the second call; the first compiles."""
    jax.block_until_ready(function(*arguments))
    begin = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - begin


factoring = seconds(jax.jit(ms.cho_factor), implicit)
everything = seconds(keeping, implicit, explicit, start)
solving = seconds(one_step, implicit, explicit, start)
history = np.asarray(keeping(implicit, explicit, start))
damping = ((1 - dt / 2 * waves) / (1 + dt / 2 * waves)) ** options.steps
error = np.abs(history[-1] - np.fft.ifft(damping * np.fft.fft(start)).real).max()
print(f"n = {n}, {options.steps} steps, {mesh.size} CPU devices; largest error {error:.1e}")
print(f"factor          {1e3 * factoring:8.1f} ms, once")
print(f"a step with it  {1e3 * (everything - factoring) / options.steps:8.1f} ms")
print(f"a step without  {1e3 * solving:8.1f} ms")
print(f"all steps       {everything:8.2f} s with it, {options.steps * solving:.2f} s without")
assert error < 1e-11
