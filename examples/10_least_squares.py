"""Least squares with measured elevations; derivatives of a fit find its regularisation.

Many heights of example 03 determine a polynomial by its monomials, which are close to dependent.
Chebyshev polynomials show how wrong `lstsq` and the normal equations are. Then few heights
determine many cosines. The ridge term, and its growth with i + j, minimise the error elsewhere.

Run: python examples/10_least_squares.py [--m 138632] [--given 2000]
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

import meshsolve as ms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--m", type=int, default=138632, help="heights for polynomials, of 138632")
parser.add_argument("--given", type=int, default=2000, help="heights for cosines")
options = parser.parse_args()
jax.config.update("jax_enable_x64", True)
mesh = Mesh(np.array(jax.devices()), ("x",))
m, n, k = (count - count % mesh.size for count in (options.m, options.given, 2000))
elevation = get_sample_data("jacksboro_fault_dem.npz")["elevation"]
places = np.stack(np.indices(elevation.shape), -1).reshape(-1, 2) / (np.array(elevation.shape) - 1)
heights = elevation.ravel() - elevation.mean()
order = np.random.default_rng(0).permutation(elevation.size)


def columns(f):
    """A function that makes all f(x, i) f(y, j) at places (x, y), in shards of rows."""
    by_rows = NamedSharding(mesh, PartitionSpec("x", None))
    return jax.jit(lambda p, i, j: f(p[:, :1], i) * f(p[:, 1:], j), out_shardings=by_rows)


rms = jax.jit(lambda x: jnp.sqrt(jnp.mean(x**2)))
monomials, chebyshev = columns(lambda x, i: x**i), columns(lambda x, i: jnp.cos(i * jnp.arccos(x)))
print(f"{m} heights, {mesh.size} CPU devices\ndegree  condition  lstsq          normal equations")
for degree in 7, 9, 11, 13:
    i, j = np.argwhere(np.tri(degree + 1)[::-1]).T  # all with i + j <= degree
    there, y = places[order[:m]], heights[order[:m]]
    a, orthogonal = monomials(there, i, j), chebyshev(2 * there - 1, i, j)
    fitted, condition = orthogonal @ ms.lstsq(orthogonal, y).x, 1 / ms.qr(a, "raw", mesh=mesh).rcond
    fit, normal = ms.lstsq(a, y), ms.solve(a.T @ a, a.T @ y, assume_a="pos")
    off, lost = (float(rms(a @ x - fitted)) for x in (fit.x, normal))
    print(f"{degree:6}  {condition:.1e}    {off:.1e} m off  {lost:.1e} m off")

i, j = np.argwhere(np.tri(int(np.sqrt(1.5 * n)))[::-1]).T
parts = np.split(order[: n + 2 * k], [n, n + k])  # given, held out, and others
cosines = columns(lambda x, i: jnp.cos(jnp.pi * i * x))
a, test, last = (cosines(places[part], i, j) for part in parts)
b, tested, truth = (heights[part] for part in parts)


def coefficients(parameters, a, b):
    """The x with the least |b - a x|^2 + ridge |(1 + i + j)^power x|^2."""
    scale = (1.0 + i + j) ** -parameters[1]
    return scale * ms.lstsq(a * scale, b, ridge=jnp.exp(parameters[0])).x


start, operands = np.zeros(2), (a, b, test, tested)
loss = jax.jit(jax.value_and_grad(lambda p, a, b, x, y: rms(x @ coefficients(p, a, b) - y)))
value, slope = (lambda *of, k=k: loss(*of)[k] for k in (0, 1))
fit = scipy.optimize.minimize(loss, start, operands, jac=True, method="L-BFGS-B")
first, size = value(start, *operands), ms.norm(slope(start, *operands))
wrong = scipy.optimize.check_grad(value, slope, start, *operands) / size
plain, best = (float(rms(last @ x - truth)) for x in (ms.lstsq(a, b).x, coefficients(fit.x, a, b)))
print(f"{n} heights, {len(i)} cosines: ridge {np.exp(fit.x[0]):.1e}, power {fit.x[1]:.2f}")
print(f"held out  {first:.1f} -> {fit.fun:.1f} m off; gradient {wrong:.1e} from differences")
print(f"others    {best:.1f} m off, without a ridge term {plain:.1f} m off")
assert off < 1e-4 and not lost < 1 and fit.success and wrong < 1e-5 and best < plain
