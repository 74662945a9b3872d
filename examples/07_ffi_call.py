"""A direct call of the registered target, without meshsolve's Python functions.

Inside shard_map every device passes its rank along the axis (`place`), its rows of A and the
right-hand sides. `input_output_aliases` lets the solver work in the operands' memory.
docs/design/ffi.md lists the routines. Their names before 0.1.0 have no aliases.

Run: python examples/07_ffi_call.py
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms

n, k = 512, 2
mesh = Mesh(np.array(jax.devices()), ("x",))
target = ms.ffi_target()  # registers the handlers on first use


def local(a, b):
    """One device's part: a [n/P, n] are its rows of A, b [n, k] all right-hand sides."""
    place = jnp.stack([lax.axis_index("x"), 0]).astype(jnp.int32)  # (rank, group)
    results = (
        jax.ShapeDtypeStruct(a.shape, a.dtype),  # work: A's memory, overwritten by the factor
        jax.ShapeDtypeStruct(b.shape, b.dtype),  # x
        jax.ShapeDtypeStruct((), jnp.int32),  # info
    )
    call = jax.ffi.ffi_call(target, results, input_output_aliases={1: 0, 2: 1})
    _, x, info = call(
        place, a, b, routine="posv", world=np.int64(mesh.size), rhs="replicated", lower=np.int64(0)
    )
    return x, info


solve = jax.jit(
    jax.shard_map(
        local, mesh=mesh, in_specs=(P("x", None), P()), out_specs=(P(), P()), check_vma=False
    )
)

i = np.arange(n)
A = np.exp(-np.abs(i[:, None] - i) / 20).astype(np.float32)  # exponential kernel
B = np.stack([np.sin(i / 30), np.cos(i / 50)], axis=1).astype(np.float32)
a = jax.device_put(A, NamedSharding(mesh, P("x", None)))
b = jax.device_put(B, NamedSharding(mesh, P()))
x, info = solve(a, b)
X = np.asarray(x)
unit = np.finfo(np.float32).eps / 2
ratio = np.abs(A @ X - B).sum(0).max() / (
    n * np.abs(A).sum(0).max() * np.abs(X).sum(0).max() * unit
)
print(f"info {int(info)}, residual ratio {ratio:.3f} on {mesh.size} devices (at most 3 is right)")
assert info == 0 and ratio <= 3
