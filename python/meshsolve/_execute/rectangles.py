"""LU of matrices that are not square: by JAX, on each device that holds them in full."""

import jax
import jax.numpy as jnp
from jax.core import Tracer

from meshsolve._execute import meshes
from meshsolve._execute.typed import spec_of
from meshsolve._library import failures
from meshsolve._library.errors import mistake

STORAGE = "rectangle"


def is_one(a) -> bool:
    """Whether ``a`` is a matrix that is not square, or a batch of such matrices."""
    return len(a.shape) >= 2 and a.shape[-1] != a.shape[-2]


def expect_alone(a, **chosen) -> None:
    """Refuse a choice of a mesh or an engine."""
    for argument, given in chosen.items():
        if given is not None:
            got = f"{given!r}, and a of shape {a.shape}"
            remedy = "leave it out: JAX factors a rectangle, on one device"
            raise mistake("lu_factor", argument, "None for a rectangle", got, remedy)


def factored(a, raises: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(lu, piv, info), the first two those of ``jax.scipy.linalg.lu_factor``."""
    _expect_whole(a)
    lu, piv, info = meshes.where_it_lies(_factored, a)
    if raises and info.size:
        if isinstance(info, Tracer):
            expected, got = '"nan" for a rectangle inside of jax.jit', '"raise"'
            remedy = "look at the factor's info, or call it eagerly"
            raise mistake("lu_factor", "on_failure", expected, got, remedy)
        failures.expect_pivots("lu_factor", int(info.max()))
    return lu, piv, info


def expect_none(operation: str, factor) -> None:
    """Refuse the factor of a rectangle."""
    if factor.storage == STORAGE:
        raise mistake(
            operation,
            "a",
            "a square matrix [n, n]",
            f"the factor of one of shape {factor.work.shape[-2:]}",
            "of such a factor there are lu, piv = factor alone",
        )


def _expect_whole(a) -> None:
    whole = not any(spec_of(a) or ()) if isinstance(a, Tracer) else a.sharding.is_fully_replicated
    if not whole:
        raise mistake(
            "lu_factor",
            "a",
            "a square matrix [n, n], or one that each of its devices holds in full",
            f"shape {a.shape}, sharded",
            "put it on one device with jax.device_put(a, jax.devices()[0])",
        )


@jax.jit
def _factored(a):
    lu, piv = jax.scipy.linalg.lu_factor(a)
    pivots = jnp.diagonal(lu, axis1=-2, axis2=-1)
    wrong = (pivots == 0) | ~jnp.isfinite(pivots)
    if not wrong.shape[-1]:
        return lu, piv, jnp.zeros(wrong.shape[:-1], jnp.int32)
    info = jnp.where(wrong.any(-1), jnp.argmax(wrong, -1) + 1, 0)
    return lu, piv.astype(jnp.int32), info.astype(jnp.int32)
