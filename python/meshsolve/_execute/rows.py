"""Matrices that are distributed to devices by rows, one device's rows at a time."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import ArrayLike, DTypeLike

from meshsolve._library.errors import mistake, wrong_type

# Bytes of the rows that a function makes at a time.
_BLOCK = 1 << 25


@dataclasses.dataclass(frozen=True)
class Rows:
    """A matrix [n, n] that a function makes some rows of at a time: it exists nowhere in full.

    Use it with ``mesh=``, whatever n. The function makes the rows of each device in blocks of up to
    32 MiB; they are padded if the devices do not divide n. In addition to the shards the call needs
    the rows of one device and a block.

    Attributes:
      function: called as ``function(first, end)`` for rows first to end - 1, in ascending order for
        each device. It returns an array [end - first, n], of JAX or NumPy.
      n: order of the matrix.
      dtype: its dtype: float32, float64, complex64 or complex128.

    Raises:
      ValueError: n is no order. On use: the function returns another shape, or numbers that do not
        fit the dtype, or ``mesh=`` is missing.
      TypeError: no function, no dtype. On use: the function returns a traced value, as from
        parameters of ``jax.jit`` and ``jax.grad``.

    Examples:
      >>> kernel = lambda first, end: 2 * np.eye(7)[first:end] + 1
      >>> x = ms.solve(ms.Rows(kernel, 7, np.float32), np.ones(7), mesh=mesh)
      >>> print(x.round(3))
      [0.111 0.111 0.111 0.111 0.111 0.111 0.111]
    """

    function: Callable[[int, int], ArrayLike]
    n: int
    dtype: DTypeLike

    def __post_init__(self) -> None:
        if not callable(self.function):
            got, remedy = type(self.function).__name__, "give lambda first, end: ..."
            raise wrong_type("Rows", "function", "a function of two row numbers", got, remedy)
        if not isinstance(self.n, (int, np.integer)) or self.n < 0:
            remedy = "give the order of the matrix"
            raise mistake("Rows", "n", "an integer from 0 on", repr(self.n), remedy)
        try:
            dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        except TypeError as error:
            expected, remedy = "a dtype of NumPy's or JAX's", "give jnp.float32 or the like"
            raise wrong_type("Rows", "dtype", expected, repr(self.dtype), remedy) from error
        object.__setattr__(self, "dtype", dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return (self.n, self.n)

    def _block(self, first: int, end: int) -> np.ndarray:
        """Some rows, of the right shape."""
        made = self.function(first, end)
        if isinstance(made, Tracer):
            raise wrong_type(
                "Rows",
                "function",
                "rows that are not traced",
                "a traced value",
                "make A as an array inside of jax.jit and where derivatives are taken",
            )
        made = np.asarray(made)
        if made.shape != (end - first, self.n):
            raise mistake(
                "Rows",
                "function",
                f"an array of shape {(end - first, self.n)} for rows {first} to {end - 1}",
                f"shape {made.shape}",
                "give one row of the matrix in each row, all of its columns",
            )
        if not np.can_cast(made.dtype, np.dtype(self.dtype), "same_kind"):
            remedy = "give Rows the dtype of what the function makes"
            raise mistake("Rows", "function", f"numbers for {self.dtype}", str(made.dtype), remedy)
        return made


def distributed(a, order: int, target: NamedSharding, dtype) -> jax.Array:
    """A, which is not traced, in ``dtype`` by rows, with an identity corner up to ``order``.

    In addition to the result it needs the rows of one device, as a NumPy array.
    """
    n = a.shape[0]
    indices = target.addressable_devices_indices_map((order, order))
    pieces = []
    for device, index in indices.items():
        assert index is not None, "devices of this process"
        first, end, _ = index[0].indices(order)
        piece = np.zeros((end - first, order), dtype)
        read(a, first, piece[: max(min(end, n) - first, 0), :n])
        for i in range(max(first, n), end):
            piece[i - first, i] = 1
        pieces.append(jax.device_put(piece, device, may_alias=False))
        jax.block_until_ready(pieces[-1])
    return jax.make_array_from_single_device_arrays((order, order), target, pieces)


def in_this_process(a: jax.Array) -> jax.Array:
    """An array whose shards this process has. It gathers one that is sharded over processes."""
    if isinstance(a, Tracer) or a.is_fully_addressable:
        return a
    if not a.is_fully_replicated:
        a = gathered(a, a.shape)
    return a.addressable_data(0)


def gathered(a: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The leading part of an array, on all devices of its mesh."""
    assert isinstance(a.sharding, NamedSharding), "an array over processes is on a mesh"
    return _leading(shape, NamedSharding(a.sharding.mesh, PartitionSpec()))(a)


@functools.lru_cache(maxsize=64)
def _leading(shape: tuple[int, ...], to: NamedSharding):
    return jax.jit(lambda a: a[tuple(map(slice, shape))], out_shardings=to)


def read(a, first: int, to: np.ndarray) -> None:
    """Rows of A from ``first`` on, as many columns as ``to`` has, shard by shard."""
    rows, cols = to.shape
    if isinstance(a, Rows):
        step = max(1, _BLOCK // max(1, cols * to.itemsize))
        for start in range(0, rows, step):
            end = min(start + step, rows)
            to[start:end] = a._block(first + start, first + end)
        return
    if not isinstance(a, jax.Array):
        to[:] = np.asarray(a)[first : first + rows, :cols]
        return
    for shard in in_this_process(a).addressable_shards:
        (top, bottom, _), (left, right, _) = (
            i.indices(m) for i, m in zip(shard.index, a.shape, strict=True)
        )
        low, high, right = max(top, first), min(bottom, first + rows), min(right, cols)
        if shard.replica_id == 0 and low < high and left < right:
            values = np.asarray(shard.data)[low - top : high - top, : right - left]
            to[low - first : high - first, left:right] = values
