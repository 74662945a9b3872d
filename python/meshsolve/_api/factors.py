"""The common parts of factor objects: leaves, storage, representation."""

import abc
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from meshsolve import _core
from meshsolve._execute import dispatch, eager, meshes, rectangles
from meshsolve._library.errors import wrong_type
from meshsolve._prepare.pipeline import Call, run


class Pair(abc.ABC):
    """Objects that unpack to scipy's pair, and support ``len`` and ``factor[i]`` like a pair."""

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """The parts of the pair."""

    def __len__(self) -> int:
        """The length of the pair."""
        return 2

    def __getitem__(self, i: int | slice) -> Any:
        """A part of the pair, or parts by a slice."""
        return tuple(self)[i]


def used(factor, call: Call, *sides, own: bool = False, by=dispatch.call) -> Any:
    """The result of a call with the leaves of a factor that it names, and with right-hand sides,
    which it may overwrite if they are its ``own``.
    """
    rectangles.expect_none(call.op.public, factor)
    rest = {name: getattr(factor, name) for name in factor.RANKS}
    leaves = [rest.pop(name) for name in call.names if name in rest]
    n = factor.n if call.n is None else call.n
    made = {"engine": factor.engine, "n": n, "factor": type(factor).__name__}
    owned = (*(False,) * len(leaves), *(own,) * len(sides))
    return run(call._replace(**made), (*leaves, *sides), owned, by, rest)


def pair(operation: str, argument: str, expected: str, given) -> tuple[Any, Any]:
    """Both parts of a factor in scipy's form."""
    if isinstance(given, Pair):
        other = "cho_solve" if operation == "lu_solve" else "lu_solve"
        remedy = f"use {other}, or the factor's own method solve"
        raise wrong_type(operation, argument, expected, type(given).__name__, remedy)
    if isinstance(given, str):
        remedy = f"pass what {operation.replace('solve', 'factor')} returned"
        raise wrong_type(operation, argument, expected, "str", remedy)
    try:
        first, second = given
    except (TypeError, ValueError) as error:
        raise wrong_type(
            operation,
            argument,
            expected,
            type(given).__name__,
            f"pass what {operation.replace('solve', 'factor')} returned",
        ) from error
    return first, second


def describe(factor, operation: str, *more: str) -> str:
    """Class, n, dtype, mesh and tile of a factor."""
    name, work, n = type(factor).__name__, factor.work, factor.n
    if not hasattr(work, "shape"):  # another pytree, as in tree.map
        return f"{name}(n={n}, work={work!r}, info={factor.info!r})"
    order = f"n={n}" + (f" (padded to {work.shape[-1]})" if work.shape[-1] > n else "")
    if work.ndim > 2:
        order = f"{work.shape[:-2]} of {order}"
    if not (isinstance(work, jax.Array) and meshes.platforms(work)) or work.ndim > 2:
        return f"{name}({order}, {work.dtype}, {type(work).__name__})"
    at = None if n == 0 else eager.eager_placement(operation, work)
    where = f"mesh {dict(at.mesh.shape)}" if at else "one device"
    tile = _core.widest_tile(work.shape[0], at.world if at else 1, work.dtype.name)
    parts = (order, work.dtype, where, f"storage={factor.storage!r}", f"tile={tile}", *more)
    if factor.engine:
        parts = (*parts[:4], f"engine={factor.engine!r}", *more)
    return f"{name}({', '.join(map(str, parts))})"


def unknown_norm(dtype) -> jax.Array:
    """The norm of a matrix of which only a factor is given: NaN."""
    return jnp.full((), jnp.nan, jnp.finfo(dtype).dtype)
