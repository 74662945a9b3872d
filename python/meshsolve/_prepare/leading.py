"""Leading axes: batches of matrices, factors and right-hand sides, which broadcast as in NumPy."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.sharding import AxisType

from meshsolve._library.errors import mistake
from meshsolve._prepare import failures
from meshsolve._prepare.operands import expect_alive
from meshsolve._prepare.rows import Rows

Method = TypeVar("Method", bound=Callable[..., Any])


def rank_of_rhs(b) -> int:
    """Number of axes of one right-hand side: 1 for [n], otherwise 2 for [..., n, k]."""
    return min(b.ndim, 2)


def has_leading(*operands) -> bool:
    """Whether one of the (array, rank) has axes before its last ``rank`` ones."""
    return any(len(x.shape) > rank for x, rank in operands)


def systems(function, a, b, **kept) -> Any:
    """``function(a, b, **kept)`` of each system if a or b has leading axes; otherwise None."""
    operands = (a, 2), (b, rank_of_rhs(b))
    if not has_leading(*operands):
        return None
    raises = kept["on_failure"] == "raise"
    return over(function.__name__, functools.partial(function, **kept), *operands, raises=raises)


def over(operation: str, function, *operands, raises: bool = False) -> Any:
    """``function`` of arrays of their ranks, for operands (array, rank) with leading axes.

    By ``jax.vmap``: right-hand sides alone become columns of one call, all else goes one by one. If
    ``raises``, wait for the result and raise a failure as a LinAlgError; inside programs the error
    is that of the program.
    """
    if any(isinstance(x, Rows) for x, _ in operands):
        expected, remedy = "shape [n] or [n, k], to go with Rows", "give them as columns"
        raise mistake(operation, "b", expected, "a batch", remedy)
    arrays = [jnp.asarray(x) for x, _ in operands]
    shapes = [x.shape[: x.ndim - rank] for x, (_, rank) in zip(arrays, operands, strict=True)]
    try:
        batch = jnp.broadcast_shapes(*shapes)
    except ValueError as error:
        given = " and ".join(str(x.shape) for x in arrays if x.ndim)
        raise mistake(
            operation,
            "the leading axes",
            "axes that broadcast",
            given,
            "b is a vector only if it has one axis: otherwise append one, b[..., None]",
        ) from error
    _expect_alike(operation, arrays, shapes)
    run = function
    for size, position in zip(reversed(batch), range(-1, -len(batch) - 1, -1), strict=True):
        mapped = [len(shape) >= -position and shape[position] == size for shape in shapes]
        run = jax.vmap(run, in_axes=[0 if m else None for m in mapped], axis_size=size)
    # An axis that broadcasts along the batch is dropped.
    for i, (x, shape) in enumerate(zip(arrays, shapes, strict=True)):
        ones = [j for j, size in enumerate(shape) if size != batch[j - len(shape)]]
        arrays[i] = x.reshape([size for j, size in enumerate(x.shape) if j not in ones])
    if 0 in batch:
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(run, *arrays))
    if not raises or any(isinstance(x, Tracer) for x in arrays):
        return run(*arrays)
    try:
        return jax.block_until_ready(run(*arrays))
    except jax.errors.JaxRuntimeError as error:
        if reported := failures.of_program(operation, error):
            raise reported from error
        raise


def _expect_alike(operation: str, arrays, shapes) -> None:
    """Refuse operands with Explicit axes whose leading axes differ in distribution: ``jax.vmap``
    does not take them.
    """
    given = []
    for x, shape in zip(arrays, shapes, strict=True):
        sharding, n = jax.typeof(x).sharding, len(shape)
        explicit = AxisType.Explicit in sharding.mesh.axis_types
        given.append((*sharding.spec, *(None,) * n)[:n] if explicit else (None,) * n)
    for position in range(-max(map(len, shapes)), 0):
        some = {
            spec[position]
            for spec, shape in zip(given, shapes, strict=True)
            if len(shape) >= -position and shape[position] > 1
        }
        if len(some) > 1:
            raise mistake(
                operation,
                "the leading axes",
                "axes that are on the same devices, for a mesh with Explicit axes",
                " and ".join(str(spec) for spec in given if spec),
                "use jax.device_put or jax.sharding.reshard, or a mesh with Auto axes",
            )


def each(method: Method) -> Method:
    """Make a method of a factor also work on a batch; ``RANKS`` gives its leaves and ranks."""

    @functools.wraps(method)
    def run(self, *arguments):
        name = f"{type(self).__name__}.{method.__name__}"
        expect_alive(name, **{leaf: getattr(self, leaf) for leaf in self.RANKS})
        if len(self.work.shape) == 2:
            return method(self, *arguments)
        return over(name, lambda *x: method(remade(self, x), *arguments), *leaves(self))

    return cast(Method, run)


def leaves(factor):
    """The arrays of a factor object and their ranks."""
    return [(getattr(factor, name), rank) for name, rank in factor.RANKS.items()]


def remade(factor, arrays):
    """The factor object with other arrays."""
    return dataclasses.replace(factor, **dict(zip(factor.RANKS, arrays, strict=True)))
