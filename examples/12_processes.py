"""A positive definite system over the processes that MPI has started, or over four devices of one.

Each process makes its rows of A. ScaLAPACK solves in their memory, by a call that is the same with
one process. The derivative with respect to a parameter of A is the same, too.

Run: mpirun -n 2 python examples/12_processes.py [--n 2048] [--coordinator host:port]
     python examples/12_processes.py
"""

import argparse
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import meshsolve as ms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n", type=int, default=2048)
parser.add_argument("--coordinator", default="127.0.0.1:12345", help="port of the first process")
options = parser.parse_args()
# As Open MPI and MPICH number their processes. For Slurm, jax.distributed.initialize() is enough.
numbers = [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")]
ranks = [(int(os.environ[r]), int(os.environ[s])) for r, s in numbers if r in os.environ]
rank, size = ranks[0] if ranks else (0, 1)
jax.config.update("jax_enable_x64", True)
if size > 1:
    jax.distributed.initialize(options.coordinator, size, rank)
else:
    jax.config.update("jax_num_cpu_devices", 4)
mesh = Mesh(np.array(jax.devices()), ("x",))
rows, n = NamedSharding(mesh, PartitionSpec("x", None)), options.n


@jax.jit
def energy(length):
    """b^T A^-1 b for A = exp(-|i - j| / length), with rows on all devices."""
    i = jnp.arange(n, dtype=float)
    a = jnp.exp(-jnp.abs(i[:, None] - i) / length)
    a, b = jax.lax.with_sharding_constraint(a, rows), jnp.ones(n)
    return b @ ms.solve(a, b, assume_a="pos")


def exact(length):
    """The same by a formula: the inverse is tridiagonal."""
    q = jnp.exp(-1 / length)
    return (n - (n - 2) * q) / (1 + q)


for name, of in (("b^T A^-1 b", lambda f: f), ("its derivative", jax.grad)):
    found, expected = of(energy), of(exact)
    value = float(found(50.0))
    start = time.perf_counter()
    value = float(found(50.0))
    seconds = time.perf_counter() - start
    error = abs(value / float(expected(50.0)) - 1)
    assert error < 1e-9, f"{name}: {value}, relative error {error}"
    if rank == 0:
        devices = f"{size} process(es), {len(jax.devices())} devices"
        print(f"{devices}, n = {n}: {name} = {value:.6f} in {seconds:.3f} s, error {error:.0e}")
