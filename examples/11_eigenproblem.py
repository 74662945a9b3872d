"""The quantum Hall effect with disorder: a Chern number, and the charge that a derivative gives.

Electrons hop on a square lattice with a quarter of a flux quantum in each cell, and fill the states
below a gap. Kitaev's formula (Ann. Phys. 321, 2006) has the Chern number of these states. It is
also the charge, for each flux quantum, that a thin tube of flux attracts (Laughlin, 1981).

Run: python examples/11_eigenproblem.py [--side 24]
"""

import argparse
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import meshsolve as ms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--side", type=int, default=24, help="sites along a side of the lattice")
options = parser.parse_args()
jax.config.update("jax_enable_x64", True)
mesh = Mesh(np.array(jax.devices()), ("x",))
side = options.side - options.side % mesh.size
n, middle, flux, fermi = side**2, side // 2, 0.25, -1.8
potential = np.random.default_rng(0).uniform(-0.5, 0.5, n)


def hamiltonian(flux, tube, potential):
    """[n, n], with `flux` in each cell of the lattice, and `tube` more in the one in the middle."""
    x, y = jnp.divmod(jnp.arange(n), side)
    dx, dy = x[:, None] - x, y[:, None] - y
    along_x, along_y = (dx**2 == 1) & (dy == 0), (dx == 0) & (dy**2 == 1)
    cut = (x >= middle) & (jnp.minimum(y[:, None], y) == middle - 1)
    phase = 2j * np.pi * dy * (flux * x + tube * cut)
    return jnp.diag(potential) - along_x - along_y * jnp.exp(phase)


hamiltonian = jax.jit(hamiltonian, out_shardings=NamedSharding(mesh, PartitionSpec("x", None)))
free = ms.eigvalsh(hamiltonian(0.0, 0.0, np.zeros(n)), overwrite_a=True)
band = -2 * np.cos(np.pi * np.arange(1, side + 1) / (side + 1))
off = np.abs(free - np.sort(np.add.outer(band, band).ravel())).max()
print(f"{n} sites, {mesh.size} CPU devices; free, eigenvalues {off:.1e} off the formula")

w, v = ms.eigh(hamiltonian(flux, 0.0, potential))
k = int((w < fermi).sum())
x, y = np.divmod(np.arange(n), side)
place = x - middle + 0.5 + 1j * (y - middle + 0.5)
inside = np.abs(place) < 0.3 * side
sector = np.where(inside, np.angle(place) // (2 * np.pi / 3) % 3, -1)  # 0, 1, 2, anticlockwise


def density(tube):
    """Electrons on each site, in the k states of the lowest energies."""
    below = ms.eigh(hamiltonian(flux, tube, potential), subset_by_index=(0, k - 1)).eigenvectors
    return (jnp.abs(below) ** 2).sum(axis=1)


def energy(potential):
    """Of all these electrons."""
    return ms.eigvalsh(hamiltonian(flux, 0.0, potential))[:k].sum()


a, b, c = (v[:, :k].conj().T @ (v[:, :k] * (sector == i)[:, None]) for i in range(3))
chern = -24 * np.pi * jnp.trace(a @ b @ c).imag
print(f"{k} states below {fermi}: Chern number {chern:.5f}")
electrons, change = jax.jit(lambda tube: jax.jvp(density, (tube,), (1.0,)))(0.0)
charge, step = change[inside].sum(), 1e-4
wrong = np.abs(change - (density(step) - density(-step)) / (2 * step)).max()
print(f"charge at a tube, per flux quantum: {charge:.5f}; derivative {wrong:.1e} off differences")
lost = np.abs(jax.jit(jax.grad(energy))(potential) - electrons).max()
print(f"gradient of the energy {lost:.1e} off the density of electrons")
assert off < 1e-12 and abs(chern - 1) < 0.02 and abs(charge - 1) < 0.02
assert wrong < 1e-6 and lost < 1e-12
