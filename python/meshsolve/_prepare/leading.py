"""Leading axes: batches of matrices, factors and right-hand sides, which broadcast as in NumPy."""

from typing import Any

import jax
import jax.numpy as jnp

from meshsolve._execute import eager
from meshsolve._execute.dispatch import executor
from meshsolve._execute.rows import Rows
from meshsolve._execute.typed import spec_of
from meshsolve._library import failures
from meshsolve._library.errors import mistake


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
    if not raises or executor(*arrays) is not eager:
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
    specs = [(spec_of(x) or (), len(shape)) for x, shape in zip(arrays, shapes, strict=True)]
    given = [(*spec, *(None,) * n)[:n] for spec, n in specs]
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
