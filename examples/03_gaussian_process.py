"""A Gaussian process on measured elevations; gradients fit its hyperparameters.

The data are a digital elevation model of the Jacksboro fault, Tennessee, which matplotlib ships.
From the heights at some places the process predicts all others. Scale, two lengths and noise of a
Matern 3/2 kernel maximise the likelihood of the given heights. The gradient uses `logdet` and
`solve` of one factor of the sharded kernel matrix.

Run: python examples/03_gaussian_process.py [--n 1600]
"""

import argparse
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from matplotlib.cbook import get_sample_data
from scipy.interpolate import NearestNDInterpolator

import meshsolve as ms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, default=1600, help="heights that are given")
n = parser.parse_args().n
jax.config.update("jax_enable_x64", True)
mesh = Mesh(np.array(jax.devices()), ("x",))
by_rows = NamedSharding(mesh, PartitionSpec("x", None))
elevation = get_sample_data("jacksboro_fault_dem.npz")["elevation"]
places = np.stack(np.indices(elevation.shape), axis=-1).reshape(-1, 2) / 100
given, held_out = np.split(np.random.default_rng(0).permutation(elevation.size)[: n + 2000], [n])
mean, deviation = elevation.flat[given].mean(), elevation.flat[given].std()
values = (elevation.ravel() - mean) / deviation
x, y, there = jnp.asarray(places[given]), jnp.asarray(values[given]), places[held_out]


def kernel(parameters, p, q):
    """Matern 3/2, with a length for each direction."""
    square = (((p[:, None] - q) / jnp.exp(parameters[1:3])) ** 2).sum(-1)
    r = jnp.sqrt(3 * jnp.where(square == 0, 1e-30, square))  # the root has no gradient at 0
    return jnp.exp(2 * parameters[0]) * (1 + r) * jnp.exp(-r)


def covariance(parameters):
    """The covariance of the given heights; each device makes its own rows."""
    made = kernel(parameters, x, x) + jnp.exp(2 * parameters[3]) * jnp.eye(n)
    return jax.lax.with_sharding_constraint(made, by_rows)


@jax.jit
@jax.value_and_grad
def loss(parameters):
    """Minus the log likelihood of one height."""
    factor = ms.cho_factor(covariance(parameters))
    return (y @ factor.solve(y) + factor.logdet() + n * jnp.log(2 * jnp.pi)) / (2 * n)


start = np.log([1.0, 1.0, 1.0, 0.3])
fit = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B")
wrong = scipy.optimize.check_grad(lambda p: loss(p)[0], lambda p: loss(p)[1], start)
print(f"loss {loss(start)[0]:.3f} -> {fit.fun:.3f} in {fit.nfev} evaluations, n = {n}")
print("scale {:.2f}, lengths {:.2f} {:.2f}, noise {:.3f}".format(*np.exp(fit.x)))

factor = ms.cho_factor(jax.jit(covariance)(fit.x), overwrite_a=True)
predict = jax.jit(lambda p: kernel(fit.x, p, x) @ factor.solve(y))
across = jax.jit(kernel)(fit.x, x, there)
variance = np.exp(2 * fit.x[0]) + np.exp(2 * fit.x[3]) - (across * factor.solve(across)).sum(0)
error = np.asarray(predict(there)) - values[held_out]
inside = np.mean(np.abs(error) < 1.96 * np.sqrt(variance))
nearest = NearestNDInterpolator(x, y)(there) - values[held_out]
rms, nearest = (deviation * np.sqrt(np.mean(e**2)) for e in (error, nearest))
print(f"gradient        {wrong:.1e} from differences of the loss")
print(f"held out        {rms:.1f} m off (nearest given height: {nearest:.1f} m)")
print(f"95 % intervals  hold {100 * inside:.1f} % of what was held out")
assert fit.success and wrong < 1e-5 and rms < nearest and 0.85 < inside < 0.99
