"""Transposition of an array in its own memory: ``transpose_inplace``."""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from meshsolve._execute import eager, meshes
from meshsolve._execute.dispatch import executor
from meshsolve._execute.placements import Placement
from meshsolve._library import ffi
from meshsolve._library.errors import mistake, wrong_type
from meshsolve._prepare.operands import DTYPES, expect_alive

_DTYPES = ("int32", "int64", "uint32", "uint64", *DTYPES)


def transpose_inplace(x: jax.Array) -> jax.Array:
    """Transpose a matrix in its own memory; ``x`` is deleted.

    Each device transposes its own part and sends nothing: an array that is sharded by rows comes
    back sharded by columns. An array of structures [m, s] becomes structures of arrays [s, m].
    Inside ``jax.jit`` memory belongs to XLA: use ``x.T`` there. So there are no derivatives, and
    there is no rule for ``jax.vmap``.

    Memory in addition to x, at most. For each thread: the largest of 256 KiB, max(m, n) elements,
    and one bit for every 512 bytes of x. For each device also 1/32 of its part of x, or 256 KiB;
    for parts below 128 MiB 1/8, but no more than 4 MiB. One side of at most 32, as in arrays of
    structures, takes less. For each thread 256 KiB, or a bit for 4 KiB of x if that is more; for
    each device 2 MiB. On a CUDA device 1/32 of its part of x, for small parts 9/8 but no more than
    4 MiB. The CUDA code has run only on an emulated driver.

    Args:
      x: [m, n], elements of 4, 8 or 16 bytes: int32, int64, uint32, uint64, float32, float64,
        complex64, complex128. On one device, or sharded over any axes of a mesh; not traced.

    Returns:
      The transpose, [n, m], row-major, of the reversed sharding, in the same memory. It is a copy
      if that memory cannot be taken over, such as memory lent by NumPy.

    Raises:
      ValueError: not a matrix, a traced array, or a sharding that is not over a mesh.
      TypeError: elements of another size.

    Source: Catanzaro, Keller, Garland, "A Decomposition for In-place Matrix Transposition" (PPoPP
    2014). docs/design/transposition.md says which algorithm is used when.

    Examples:
      >>> x = jax.device_put(jnp.ones((8, 4)), a.sharding)
      >>> y = ms.transpose_inplace(x)
      >>> y.shape, y.sharding.spec == P(None, "x"), x.is_deleted()
      ((4, 8), True, True)
    """
    ffi.enter()
    _expect_matrix(x)
    if x.size == 0:
        return jnp.zeros(x.shape[::-1], x.dtype)
    if not isinstance(x.sharding, NamedSharding):
        return _transposed(None, PartitionSpec())(x)
    mesh = x.sharding.mesh
    with meshes.mesh_context(mesh):
        return _transposed(mesh, x.sharding.spec)(x)


def _expect_matrix(x) -> None:
    if executor(x) is not eager:
        raise mistake(
            "transpose_inplace",
            "x",
            "an array that is not traced",
            "a tracer",
            "inside jax.jit use x.T, where XLA decides about memory",
        )
    if not isinstance(x, jax.Array) or x.ndim != 2:
        raise mistake(
            "transpose_inplace",
            "x",
            "a jax.Array [m, n]",
            f"{type(x).__name__} of shape {getattr(x, 'shape', None)}",
            "reshape it, or use jnp.asarray",
        )
    if x.dtype.name not in _DTYPES:
        raise wrong_type(
            "transpose_inplace",
            "x",
            "one of " + ", ".join(_DTYPES),
            x.dtype,
            "view it as such elements with jax.lax.bitcast_convert_type",
        )
    expect_alive("transpose_inplace", x=x)
    if x.size == 0 or isinstance(x.sharding, SingleDeviceSharding):
        return
    if not isinstance(x.sharding, NamedSharding) or not isinstance(x.sharding.mesh, Mesh):
        raise mistake(
            "transpose_inplace",
            "x",
            "an array with a NamedSharding, or on one device",
            f"a {type(x.sharding).__name__}",
            "use jax.device_put(x, NamedSharding(mesh, PartitionSpec('x', None)))",
        )


@functools.lru_cache(maxsize=256)
def _transposed(mesh: Mesh | None, spec: PartitionSpec):
    axes = tuple(mesh.axis_names) if mesh else ()
    at = Placement(mesh, axes) if mesh else None

    def local(x):
        place = at.place(tuple(at.mesh.axis_names)) if at else jnp.zeros(2, jnp.int32)
        # The result has the shape of its operand, but its memory holds the transpose.
        return ffi.transpose(place, at.world if at else 1, x).reshape(x.shape[::-1])

    if mesh is None:
        return jax.jit(local, donate_argnums=0)
    row, column = (*spec, None, None)[:2]
    out = PartitionSpec(column, row)
    run = jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=out, check_vma=False)
    return jax.jit(run, donate_argnums=0)
