"""The rules of operations for ``jax.vmap``. Right-hand sides become columns of one call. Matrices
are solved one after another by the devices that hold them. If the batch itself is distributed to
devices, each group of them solves its part.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec


class Batch(NamedTuple):
    """The leading axis that some operands and all results have.

    Attributes:
      operands: for each operand, whether it has the axis; empty without a batch.
      entry: the mesh axes of the batch, as in a PartitionSpec.
    """

    operands: tuple[bool, ...] = ()
    entry: str | tuple[str, ...] | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that the batch is distributed to."""
        return (self.entry,) if isinstance(self.entry, str) else self.entry or ()

    @property
    def name(self) -> tuple[str, ...]:
        """The operands that have the axis, for the name of a program."""
        return ("".join("01"[x] for x in self.operands),) if self.operands else ()

    def on(self, spec: PartitionSpec, operand: int) -> tuple["Batch", PartitionSpec]:
        """The batch with the distribution of an operand that has it and this spec, and the spec of
        one element.
        """
        if not self.operands or not self.operands[operand]:
            return self, spec
        entry, *rest = spec if spec else (None,)
        return self._replace(entry=entry), PartitionSpec(*rest)

    def specs(self, operands, results):
        """Specs with the leading axis, from specs without it."""
        if not self.operands:
            return operands, results
        pairs = zip(operands, self.operands, strict=True)
        given = tuple(PartitionSpec(self.entry, *s) if has else s for s, has in pairs)
        return given, tuple(PartitionSpec(self.entry, *s) for s in results)

    def result(self, spec: PartitionSpec, operand: int | None) -> PartitionSpec:
        """The spec of a result that goes back to where its operand of that spec was."""
        if not self.operands or operand is None or self.operands[operand]:
            return spec
        return PartitionSpec(self.entry, *spec)

    def terms(self, operands, results):
        """The terms of a sharding rule with the letter of the batch."""
        if not self.operands:
            return operands, results
        pairs = zip(operands, self.operands, strict=True)
        given = [f"z {term}".strip() if has else term for term, has in pairs]
        return given, [f"z {term}".strip() for term in results]

    def each(self, function):
        """``function`` of one element for the whole batch, one after another."""
        if not self.operands:
            return function

        def run(*operands):
            def one(mapped):
                rest = iter(mapped)
                pairs = zip(operands, self.operands, strict=True)
                return function(*(next(rest) if has else x for x, has in pairs))

            return lax.map(one, [x for x, has in zip(operands, self.operands, strict=True) if has])

        return run


ONE = Batch()


class CustomVmap:
    """``jax.custom_batching.custom_vmap``, traced anew in each call.

    JAX 0.12 finds a traced ``custom_vmap`` by the types of its operands alone. These are equal for
    two meshes of the same devices in another order, but a program inside keeps the mesh that was
    set. Programs inside are not compiled anew.
    """

    def __init__(self, function):
        self._function = function
        self._rule: Any = None

    def def_vmap(self, rule):
        """Set the rule, as a decorator."""
        self._rule = rule
        return rule

    def __call__(self, *operands) -> Any:
        run = jax.custom_batching.custom_vmap(functools.partial(self._function))
        run.def_vmap(self._rule)
        return run(*operands)


def batchable(function, rhs: int | None, solutions: tuple[bool, ...], many=None):
    """Give ``function`` a rule for ``jax.vmap``. Right-hand sides alone (operand ``rhs``) become
    columns of one call; ``solutions`` says which of its results are solutions. All others go one
    after another, by ``many(batched)`` if that gives a function.
    """
    run = CustomVmap(function)

    @run.def_vmap
    def _(size, batched, *operands):
        if size and rhs is not None and batched[rhs] and sum(batched) == 1:
            operands = [folded(x) if i == rhs else x for i, x in enumerate(operands)]
            pairs = zip(run(*operands), solutions, strict=True)
            results = tuple(unfolded(x, size) if is_x else x for x, is_x in pairs)
            # None where there is no result, as for a factor that is dropped.
            pairs = zip(results, solutions, strict=True)
            return results, tuple(None if x is None else is_x for x, is_x in pairs)

        together = many and many(tuple(batched))
        results = (together or one_by_one(tuple(batched)))(*operands)
        return results, jax.tree.map(lambda _: True, results)

    # Eagerly a loop over a new function would be compiled in every call.
    @functools.cache
    def one_by_one(batched):
        each = Batch(batched).each(run)
        return jax.jit(lambda *operands: each(*map(_leading_whole, operands, batched)))

    return run


def _leading_whole(x, has: bool):
    """With Explicit axes: replicate the leading axis, so that a loop can go along it."""
    sharding = jax.typeof(x).sharding
    if not has or AxisType.Explicit not in sharding.mesh.axis_types or sharding.spec[0] is None:
        return x
    target = NamedSharding(sharding.mesh, PartitionSpec(None, *sharding.spec[1:]))
    return jax.sharding.reshard(x, target)


def folded(b):
    """A batch [m, n, k] as columns [n, m k]."""
    b = by_rows(jnp.moveaxis(b, 0, 1))
    return b.reshape(b.shape[0], -1)


def unfolded(b, m: int):
    """Columns [n, m k] as a batch [m, n, k]."""
    b = by_rows(b)
    return jnp.moveaxis(b.reshape(b.shape[0], m, -1), 1, 0)


def by_rows(x):
    """With Explicit axes: distribute at most by rows, so that columns can be split and joined."""
    sharding = jax.typeof(x).sharding
    if AxisType.Explicit not in sharding.mesh.axis_types or x.ndim < 2:
        return x
    target = NamedSharding(sharding.mesh, PartitionSpec(sharding.spec[0]))
    return jax.sharding.reshard(x, target)
