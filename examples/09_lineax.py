"""Deblurring by normal equations in lineax; a derivative finds how much to smooth.

There are two observations of a signal f, blurred and with noise, d = K f + noise. The estimate from
the first solves (K^T K + lambda + mu D^T D) f = K^T d with D second differences. That is a
`lineax.linear_solve` with meshsolve's Cholesky on the shards of the matrix. Gradients through it
find the lambda and mu that minimise the misfit to the second observation.

Run: python examples/09_lineax.py [--n 1024]
"""

import argparse
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA warns of a callback of lineax

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import scipy.optimize
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import meshsolve as ms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, default=1024, help="points of the signal")
n = parser.parse_args().n
jax.config.update("jax_enable_x64", True)
mesh = Mesh(np.array(jax.devices()), ("x",))
by_rows = NamedSharding(mesh, PartitionSpec("x", None))

t = np.linspace(0, 1, n)
blur = np.exp(-(((t[:, None] - t) / 0.03) ** 2) / 2)
blur /= blur.sum(1, keepdims=True)
steps = np.where(t < 0.35, 0.0, np.where(t < 0.6, 1.0, 0.3))
truth = steps + np.exp(-(((t - 0.8) / 0.03) ** 2)) + 0.5 * np.exp(-(((t - 0.15) / 0.05) ** 2))
noise = 0.02 * np.random.default_rng(0).normal(size=(2, n))
first, second = blur @ truth + noise
rough = np.diff(np.eye(n), 2, axis=0) * (n / 100) ** 2
normal, roughness = (jax.device_put(m.T @ m, by_rows) for m in (blur, rough))
blurred = jnp.asarray(blur.T @ first)


def estimate(parameters, normal, roughness, solver):
    """The signal, for the logarithms of lambda and mu."""
    ridge, smoothing = jnp.exp(parameters)
    matrix = normal + ridge * jnp.eye(n) + smoothing * roughness
    operator = lx.MatrixLinearOperator(matrix, lx.positive_semidefinite_tag)
    return lx.linear_solve(operator, blurred, solver, throw=False).value


@jax.jit
@jax.value_and_grad
def misfit(parameters, normal, roughness):
    """The misfit to the second observation, with noise that the estimate has not seen; 1 is the
    noise.
    """
    f = estimate(parameters, normal, roughness, ms.lineax.Cholesky())
    return jnp.mean((blur @ f - second) ** 2) / 0.02**2


start, shards = np.log([1e-5, 1e-5]), (normal, roughness)
fit = scipy.optimize.minimize(misfit, start, args=shards, jac=True, method="BFGS")
value, gradient = (lambda p, i=i: misfit(p, *shards)[i] for i in (0, 1))
slopes = [(value(start + h) - value(start - h)) / 2e-3 for h in 1e-3 * np.eye(2)]
wrong = np.abs(gradient(start) - np.array(slopes)).max() / np.abs(slopes).max()
before, after = (np.asarray(estimate(p, *shards, ms.lineax.Cholesky())) for p in (start, fit.x))
whole = (jnp.asarray(np.asarray(m)) for m in shards)
apart = np.abs(after - estimate(fit.x, *whole, lx.Cholesky())).max()
errors = [np.sqrt(np.mean((f - truth) ** 2)) for f in (first, before, after)]
print(f"n = {n}, {mesh.size} CPU devices; misfit {value(start):.3f} -> {fit.fun:.3f}")
print("lambda      {:.1e}, mu {:.1e}".format(*np.exp(fit.x)))
print(f"gradient    {wrong:.1e} from differences of the misfit")
print(f"estimate    {apart:.1e} from that of lineax.Cholesky on one device")
print("off truth   {:.3f} seen, {:.3f} estimated at first, {:.3f} at last".format(*errors))
assert wrong < 1e-4 and apart < 1e-8 and errors[2] < min(errors[:2])
