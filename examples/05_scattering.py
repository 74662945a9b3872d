"""A plane wave meets a cylinder: a boundary integral equation, complex and general.

u = 0 on the boundary: sound-soft in acoustics, a perfect conductor (TM) in electromagnetism. With u
= exp(ikx) + (D - ik S) phi the density phi solves (1/2 + D - ik S) phi = -exp(ikx) there. Nystrom's
method with Kress's weights for the logarithm makes it a dense matrix (Colton and Kress, Inverse
Acoustic and Electromagnetic Scattering Theory). Points are complex numbers x + iy.

Run: python examples/05_scattering.py [--n 1024] [--k 20]
"""

import argparse
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scipy.special import hankel1, jv

import meshsolve as ms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, default=1024, help="points on the boundary, an even number")
parser.add_argument("--k", type=float, default=20.0, help="wave number; the radius is 1")
options = parser.parse_args()
n, k = options.n, options.k
jax.config.update("jax_enable_x64", True)
rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x", None))
step, numbers, orders = 2 * np.pi / n, np.arange(n), np.arange(1, n // 2)
z = np.exp(1j * step * numbers)  # any smooth closed curve, and two derivatives of it:
dz, ddz = 1j * z, -z
normal, speed = -1j * dz, np.abs(dz)
weights = -2 * step * (np.cos(step * np.outer(numbers, orders)) / orders).sum(1)
weights -= (-1.0) ** numbers * 2 * step / n


def kernel(x, bessel):
    """D - ik S from the boundary to points x; Bessel functions give the factor of its logarithm."""
    d = x[:, None] - z
    r = np.where(d == 0, 1, np.abs(d))
    double = bessel(1, k * r) * (normal.conj() * d).real / r
    return 1j * k / 4 * (double - 1j * bessel(0, k * r) * speed)


def matrix_rows(index):
    """The rows of one device; the trapezoidal rule serves all but the logarithm."""
    i = numbers[index[0]]
    apart, here = i[:, None] - numbers, (i - i[0], i)
    log = np.log(4 * np.sin(step / 2 * apart) ** 2 + (apart == 0))
    factor = kernel(z[i], lambda order, x: 1j / np.pi * jv(order, x))
    factor[here] = 1j * k / 4 / np.pi * speed[i]
    smooth = kernel(z[i], hankel1) - factor * log
    curvature = (normal.conj() * ddz)[i].real / speed[i] ** 2
    single = np.pi / 2 * 1j - np.euler_gamma - np.log(k * speed[i] / 2)
    smooth[here] = curvature / 4 / np.pi - 1j * k / 2 / np.pi * single * speed[i]
    return weights[apart] * factor + step * smooth + 0.5 * (apart == 0)


def mie(x):
    """The scattered field of a circle, as a series."""
    m = np.arange(-int(k) - 30, int(k) + 31)[:, None]
    waves = jv(m, k) / hankel1(m, k) * hankel1(m, k * np.abs(x)) * np.exp(1j * m * np.angle(x))
    return -(1j**m * waves).sum(0)


a = jax.make_array_from_callback((n, n), rows, matrix_rows)
plane, source = np.exp(1j * k * z.real), hankel1(0, k * np.abs(z - 0.3))
b = np.stack([-plane, source], axis=1)  # the field of a source inside is its own continuation
phi, info = ms.solve(a, b, return_info=True)
scattered = lambda x: step * kernel(x, hankel1) @ np.asarray(phi)  # noqa: E731
x = (np.linspace(1.5, 3, 7)[:, None] * np.exp(2j * np.pi * np.arange(50) / 50)).ravel()
errors = np.abs(scattered(x) - np.stack([mie(x), hankel1(0, k * np.abs(x - 0.3))], axis=1)).max(0)
print(f"n = {n}, {n / k:.0f} points per wavelength, condition about {1 / float(info.rcond):.0f}")
print(f"off Mie's series  {errors[0]:.1e}\noff a source's    {errors[1]:.1e}")
assert errors.max() < 1e-10
