"""A program of processes.py: solves on every process, figures by the first one.

Run: python benchmarks/processes_program.py KIND N DEVICES PORT
"""

import json
import os
import pathlib
import re
import sys
import time

kind, n, size, port = sys.argv[1], *map(int, sys.argv[2:])
numbers = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
rank = next((int(os.environ[name]) for name in numbers if name in os.environ), None)
if rank is None:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={size}"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

import meshsolve as ms  # noqa: E402
from meshsolve._library import processes  # noqa: E402

jax.config.update("jax_enable_x64", True)
if rank is not None:
    jax.distributed.initialize(f"127.0.0.1:{port}", size, rank)
mesh = Mesh(np.array(jax.devices()), ("x",))
rows, everywhere = (NamedSharding(mesh, PartitionSpec(*of)) for of in (("x", None), ()))
# Least squares has a tall matrix of about as many elements.
m, k = (8 * n, n // 4) if kind == "lstsq" else (n, n)


def made():
    """The matrix."""
    i = jnp.arange(n, dtype=float)
    if kind == "pos":
        return jnp.exp(-jnp.abs(i[:, None] - i) / 50)
    return jax.random.normal(jax.random.key(1), (m, k))


def by_jnp(a, b):
    """The competitor."""
    if kind == "pos":
        return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b)
    if kind == "lstsq":
        q, r = jnp.linalg.qr(a)
        return jax.scipy.linalg.solve_triangular(r, q.T @ b)
    if kind == "qr":
        return jnp.linalg.qr(a, "r")
    return jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b)


make = jax.jit(made, out_shardings=rows)
b = jax.jit(lambda: jnp.cos(jnp.arange(m, dtype=float)), out_shardings=everywhere)()
if os.environ.get("WHAT") == "jnp":
    of_result = rows if kind == "qr" else everywhere
    solve = jax.jit(by_jnp, in_shardings=(rows, everywhere), out_shardings=of_result)
elif kind == "lstsq":
    solve = lambda a, b: ms.lstsq(a, b).x  # noqa: E731
elif kind == "qr":
    solve = lambda a, b: ms.qr(a, "r", overwrite_a=True)  # noqa: E731
else:
    solve = lambda a, b: ms.solve(a, b, assume_a=kind, overwrite_a=True)  # noqa: E731


@jax.jit
def ratio(a, x):
    """The scaled residual of A x = b, of the normal equations, or of R^T R y = A^T A y."""
    size, unit = jnp.abs(a).sum(0).max(), jnp.finfo(a.dtype).eps / 2
    if kind == "qr":
        y = jnp.ones(n)
        y = a.T @ (a @ y) - x.T @ (x @ y)
        return jnp.abs(y).max() / (n * size**2 * unit)
    rest, norms = b - a @ x, size * jnp.abs(x).sum()
    if kind == "lstsq":
        rest, norms = a.T @ rest, size * (norms + jnp.abs(b).sum())
    return jnp.abs(rest).sum() / (m * norms * unit)


def resident(name: str) -> int:
    """Bytes of this process: "VmRSS" now, "VmHWM" at most."""
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.findall(rf"{name}:\s*(\d+)", status)[0])


turns = []
for _ in range(3):
    a = jax.block_until_ready(make())
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before, start = resident("VmRSS"), time.perf_counter()
    x = jax.block_until_ready(solve(a, b))
    seconds = time.perf_counter() - start
    call = ms.last_call()
    turns.append((seconds, resident("VmHWM") - before, {} if call is None else call["seconds"]))
    del a
seconds, above, phases = min(turns[1:], key=lambda turn: turn[0])
found = float(ratio(make(), x))
if rank in (None, 0):
    parts = 1 if rank is None else size
    figures = {"seconds": seconds, "above": above / (8 * m * k / parts)}
    # Least squares of tall matrices does without MPI.
    mpi = processes.start() if rank is not None and phases and kind != "lstsq" else ""
    print(json.dumps(figures | {"phases": phases, "ratio": found, "mpi": mpi}), flush=True)
