"""The distribution of the rows and columns of a matrix, to give vectors and matrices the same."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from meshsolve._execute import lowered
from meshsolve._rules.batching import CustomVmap, folded, unfolded


class Sides(NamedTuple):
    """The distribution of the rows and the columns of a traced matrix.

    With Explicit axes the types of arrays show it. With Auto axes only the partitioner knows it. A
    vector of zeros for each side carries it from the matrix to its use.

    Attributes:
      shardings: of [rows, k] and [columns, k]; empty with Auto axes.
      marks: the vectors; empty with Explicit axes.
    """

    shardings: tuple
    marks: tuple

    @classmethod
    def of(cls, a) -> "Sides":
        sharding = jax.typeof(a).sharding
        if AxisType.Explicit not in sharding.mesh.axis_types:
            a = lowered.expect_not_exported(
                lax.stop_gradient(a),
                "derivatives",
                "Explicit axes",
                "put it on a mesh with Explicit axes",
            )
            return cls((None, None), _marks(a))
        specs = (PartitionSpec(entry, None) for entry in sharding.spec)
        return cls(tuple(NamedSharding(sharding.mesh, spec) for spec in specs), ())

    @property
    def is_explicit(self) -> bool:
        """Whether the types of arrays show the distribution."""
        return not self.marks

    def rows(self, x):
        """X [rows, k] distributed as the rows of the matrix."""
        return self._placed(0, x)

    def columns(self, x):
        """X [columns, k] distributed as the columns of the matrix."""
        return self._placed(1, x)

    def distributed(self, x):
        """X by rows, over the axes of the matrix (with Auto axes: over those of its rows)."""
        by_row = not self.is_explicit or self.shardings[0].spec[0] is not None
        return self._placed(0 if by_row else 1, x)

    def replicated(self, x):
        """X on all devices of the matrix; Explicit axes."""
        return jax.sharding.reshard(x, NamedSharding(self.shardings[0].mesh, PartitionSpec()))

    def both(self, x):
        """X distributed as this matrix; Auto axes."""
        return _matrix_like(*self.marks, x)

    def _placed(self, side: int, x):
        if self.is_explicit:
            return jax.sharding.reshard(x, self.shardings[side])
        move = lambda _, x: _rows_like(self.marks[side], x)  # noqa: E731
        return lax.custom_linear_solve(lambda x: x, x, move, move)


def _partitioned(rule: str, specs):
    """Make an operation for Auto axes that every device does on its part. ``specs`` gives the specs
    of results and operands from those of the given operands.
    """

    def decorate(function):
        def partition(mesh, operands, results):
            given = []
            for x in operands:
                spec = getattr(x.sharding, "spec", ())
                given.append((*spec, *(None,) * (len(x.shape) - len(spec))))
            made, taken = (
                tuple(NamedSharding(mesh, PartitionSpec(*spec)) for spec in some)
                for some in specs(*given)
            )
            many = isinstance(results, tuple | list)
            return mesh, function, made if many else made[0], taken

        whole = custom_partitioning(function)
        whole.def_partition(partition=partition, sharding_rule=rule)
        return CustomVmap(jax.jit(whole))

    return decorate


# In the rules only marks share letters with the result: they alone decide its sharding.


@_partitioned("i j -> i, j", lambda a: (((a[0],), (a[1],)), (a,)))
def _marks(a):
    return tuple(jnp.zeros(m, jnp.int8) for m in a.shape)


@_marks.def_vmap
def _(size, batched, a):
    del size, batched  # all have the same sharding
    return _marks(a[0]), (False, False)


@_partitioned("i, m l -> i k", lambda i, _: (((*i, None),), (i, (*i, None))))
def _rows_like(mark, x):
    del mark
    return x


# A mark can become a batch, as in a cond with a batch of predicates; it is zeros in any case.


@_rows_like.def_vmap
def _(size, batched, mark, x):
    mark = mark[0] if batched[0] else mark
    if not batched[1]:
        return _rows_like(mark, x), False
    if not size:
        return x, True
    return unfolded(_rows_like(mark, folded(x)), size), True


@_partitioned("i, j, m k -> i j", lambda i, j, _: (((*i, *j),), (i, j, (*i, *j))))
def _matrix_like(i, j, x):
    del i, j
    return x


@_matrix_like.def_vmap
def _(size, batched, i, j, x):
    i, j = (mark[0] if many else mark for mark, many in zip((i, j), batched, strict=False))
    return (_matrices_like(i, j, x), True) if batched[2] else (_matrix_like(i, j, x), False)


@jax.jit
def _matrices_like(i, j, x):
    return lax.map(lambda x: _matrix_like(i, j, x), x)
