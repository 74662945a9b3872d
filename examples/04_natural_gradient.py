"""The ground state of a quantum spin chain by natural gradients (stochastic reconfiguration).

A small network is the logarithm of the wave function of the transverse-field Ising chain, H = -sum
Z Z - h sum X. With more parameters than samples a step is O^T (O O^T + shift I)^-1 e ("minSR", Chen
and Heyl 2024). O are the derivatives at the samples, e their energies. Each device makes the rows
of the Gram matrix O O^T that belong to its samples.

Run: python examples/04_natural_gradient.py [--samples 1024] [--steps 60]
"""

import argparse
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import meshsolve as ms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--samples", type=int, default=1024)
parser.add_argument("--steps", type=int, default=60)
options = parser.parse_args()
jax.config.update("jax_enable_x64", True)
mesh = Mesh(np.array(jax.devices()), ("x",))
by_samples, by_rows = (NamedSharding(mesh, PartitionSpec(*s)) for s in ("x", ("x", None)))
spins, field, hidden = 12, 1.0, 96
states = jnp.arange(2**spins)
bits = 1.0 - 2.0 * (states[:, None] >> jnp.arange(spins) & 1)  # +1, -1
momenta = (2 * np.arange(spins) + 1) * np.pi / spins
exact = -np.sqrt(1 + field**2 - 2 * field * np.cos(momenta)).sum()  # free fermions

keys = jax.random.split(jax.random.key(0), 3)
weights = jax.random.normal(keys[0], (spins, hidden)) / spins, jnp.zeros(hidden)
start, unravel = ravel_pytree((*weights, jax.random.normal(keys[1], hidden) / hidden))


def log_psi(parameters, spin):
    """A network with one hidden layer."""
    weights, bias, out = unravel(parameters)
    return jnp.log(jnp.cosh(spin @ weights + bias)) @ out


def local_energies(table, drawn):
    """(H psi)(s) / psi(s) at each drawn state s, from a table of log psi."""
    flipped, s = drawn[:, None] ^ (1 << jnp.arange(spins)), bits[drawn]
    hops = jnp.exp(table[flipped] - table[drawn][:, None]).sum(1)
    return -(s * jnp.roll(s, 1, axis=1)).sum(1) - field * hops


@jax.jit
def energy_and_step(parameters, key):
    """The energy of psi, over all states, and the step, from states drawn with psi^2."""
    table = jax.vmap(log_psi, (None, 0))(parameters, bits)
    drawn = jax.random.categorical(key, 2 * table, shape=(options.samples,))
    drawn = jax.lax.with_sharding_constraint(drawn, by_samples)
    e, o = local_energies(table, drawn), jax.vmap(gradient, (None, 0))(parameters, bits[drawn])
    e, o = ((x - x.mean(0)) / jnp.sqrt(options.samples) for x in (e, o))
    gram = jax.lax.with_sharding_constraint(o @ o.T, by_rows)
    x = ms.solve(gram + 1e-3 * jnp.eye(options.samples), e, assume_a="pos")
    return jax.nn.softmax(2 * table) @ local_energies(table, states), x @ o


parameters, gradient, energies = start, jax.grad(log_psi), []
for key in jax.random.split(keys[2], options.steps):
    energy, step = energy_and_step(parameters, key)
    parameters -= 0.1 * step
    energies.append(float(energy))
error = (energies[-1] - exact) / abs(exact)
print(f"{len(start)} parameters, {options.samples} samples, {mesh.size} CPU devices")
for i in range(0, options.steps, 10):
    print(f"step {i:3}   energy {energies[i]:.6f}")
print(f"at last    energy {energies[-1]:.6f}, exactly {exact:.6f}: {error:.1e} above")
assert 0 < error < 1e-3  # a variational energy is never below the exact one
