"""Tall matrices by rows over several processes. Each device reduces its own rows by the library.
Then pairs of devices join their triangles, which XLA exchanges: neither MPI nor ScaLAPACK takes
part, but for errors in a program with other calls.

    A_i = Q_i R_i,  [R_i; R_j] = Q_ij R_ij,  and so on, to the triangle of the first device

For the signs that LAPACK gives R the first n rows of A come last.

Source: Demmel, Grigori, Hoemmen and Langou, SIAM J. Sci. Comput. 34, 2012.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from meshsolve._execute.placements import Placement, ticket
from meshsolve._library import ffi
from meshsolve._library.ffi import Operation, operation


def joins(op: Operation) -> bool:
    """Whether an operation over processes goes this way."""
    return op.routine in _WAYS


def joined(op: Operation, at: Placement, *operands) -> tuple:
    """The results of an operation, from one device's operands, where axes of ``at.mesh`` have
    names.
    """
    return _WAYS[op.routine](op, _Devices(at.axes, at.world, lax.axis_index(at.axes)), *operands)


class _Devices(NamedTuple):
    """The devices that have the rows of a matrix.

    Attributes:
      axes: their mesh axes.
      size: how many there are.
      rank: the number of this one.
    """

    axes: tuple[str, ...]
    size: int
    rank: Any

    @property
    def distances(self) -> list[int]:
        """How far those are apart that join their triangles, step by step."""
        return [1 << step for step in range(math.ceil(math.log2(self.size)))]

    def _pairs(self, distance: int) -> list[tuple[int, int]]:
        """Leaders, each with its follower."""
        leaders = range(0, self.size - distance, 2 * distance)
        return [(leader, leader + distance) for leader in leaders]

    def of_follower(self, x, distance: int):
        """What the follower of this device has; zeros, if there is none."""
        pairs = [(follower, leader) for leader, follower in self._pairs(distance)]
        return jax.tree.map(lambda x: lax.ppermute(x, self.axes, pairs), x)

    def to_follower(self, x, distance: int):
        """What the leader of this device gives it; zeros, if it follows none."""
        return lax.ppermute(x, self.axes, self._pairs(distance))

    def follows(self, distance: int):
        """Whether this device has a leader so far before it."""
        return self.rank % (2 * distance) == distance

    def of_first(self, x):
        """What the first device has."""
        chosen = lambda x: jnp.where(self.rank == 0, x, jnp.zeros_like(x))  # noqa: E731
        return jax.tree.map(lambda x: lax.psum(chosen(x), self.axes), x)

    def call(self, op: Operation, routine: str, *operands, rows: int = 0) -> tuple:
        """The results of a routine on this device alone; A may be what is left of so many rows."""
        raises = op.raises and routine == op.routine
        one = operation(routine, op.public, order=rows, raises=raises)
        # Other devices of the process are calls of their own.
        place = [jnp.int32(0), self.rank.astype(jnp.int32)]
        # An error of all processes comes in the order of their calls. Others know of no other call.
        if raises and self.size == jax.device_count():
            place.append(ticket(self.rank, self.axes))
        alone = self.size == jax.process_count()
        return ffi.call(one, jnp.stack(place), 1, "replicated", operands, alone=alone)


def _rows_of(op: Operation, on: _Devices, a) -> int:
    """The rows of A, without those that pad it."""
    return op.order or on.size * a.shape[0]


def _least_squares(op: Operation, on: _Devices, a, ridge, b):
    missing = ((0, max(a.shape[1] - a.shape[0], 0)), (0, 0))
    z, squares, r = on.call(op, "tsreduce", jnp.pad(a, missing), jnp.pad(b, missing))
    for distance in on.distances:
        z2, squares2, r2 = on.of_follower((z, squares, r), distance)
        z, more, r = on.call(op, "tsreduce", jnp.concatenate([r, r2]), jnp.concatenate([z, z2]))
        squares = squares + squares2 + more
    z, squares, r = on.of_first((z, squares, r))
    rows = _rows_of(op, on, a)
    x, rest, *others = on.call(op, op.routine, r, ridge, z, rows=rows)
    return x, squares + rest, *others


def _triangle(op: Operation, on: _Devices, a):
    top = a[: a.shape[1]]
    (r,) = on.call(op, "tsrest", a)
    both, _ = on.call(op, "geqr", jnp.concatenate([r, top]))
    r = jnp.where(on.rank == 0, r, both)
    for distance in on.distances:
        r, _ = on.call(op, "geqr", jnp.concatenate([r, on.of_follower(r, distance)]))
    last = on.call(op, "geqr", jnp.concatenate([top, r]), rows=_rows_of(op, on, a))
    return on.of_first(last)


def _both(op: Operation, on: _Devices, a):
    (m, n), steps = a.shape, []
    top, rest = a[:n], jnp.pad(a[n:], ((0, max(2 * n - m, 0)), (0, 0)))
    q, r, _ = on.call(op, "tsqr", rest)
    of_top, both, _ = on.call(op, "tsqr", jnp.concatenate([r, top]))
    r = jnp.where(on.rank == 0, r, both)
    for distance in on.distances:
        step, r, _ = on.call(op, "tsqr", jnp.concatenate([r, on.of_follower(r, distance)]))
        steps.append(step)
    last, r, info = on.call(op, "tsqr", jnp.concatenate([top, r]), rows=_rows_of(op, on, a))
    w = last[n:]
    for distance, step in reversed([*zip(on.distances, steps, strict=True)]):
        of_both = _product(step, w)
        sent = on.to_follower(of_both[n:], distance)
        w = jnp.where(on.follows(distance), sent, of_both[:n])
    of_both = _product(of_top, w)
    first = on.rank == 0
    of_rest, top = jnp.where(first, w, of_both[:n]), jnp.where(first, last[:n], of_both[n:])
    return jnp.concatenate([top, _product(q, of_rest)[: m - n]]), *on.of_first((r, info))


def _product(x, y):
    return jnp.matmul(x, y, precision="highest")


_WAYS: dict[str, Callable[..., tuple]] = {
    "gels": _least_squares,
    "gelsr": _least_squares,
    "geqr": _triangle,
    "tsqr": _both,
}
