"""The rules of operations for ``jax.vmap``. Right-hand sides become columns of one call. Matrices
are solved one after another by the devices that hold them. If the batch itself is distributed to
devices, each group of them solves its part.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from meshsolve._execute.batches import Batch
from meshsolve._execute.typed import by_rows, respecified, spec_of


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
    spec = spec_of(x) if has else None
    return respecified(x, None, *spec[1:]) if spec and spec[0] is not None else x


def folded(b):
    """A batch [m, n, k] as columns [n, m k]."""
    b = by_rows(jnp.moveaxis(b, 0, 1))
    return b.reshape(b.shape[0], -1)


def unfolded(b, m: int):
    """Columns [n, m k] as a batch [m, n, k], or numbers of columns [m k] as [m, k]."""
    if b.ndim == 1:
        return b.reshape(m, -1)
    b = by_rows(b)
    return jnp.moveaxis(b.reshape(b.shape[0], m, -1), 1, 0)
