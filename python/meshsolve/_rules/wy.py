"""Products with the Q of a tall matrix by rows, and least squares. Q = I - V T V^H. V has its rows
where those of the matrix are.

Source: Schreiber and Van Loan, SIAM J. Sci. Stat. Comput. 10, 1989.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.sharding import NamedSharding, PartitionSpec

from meshsolve._execute import dispatch, eager, meshes
from meshsolve._execute.typed import replicated, spec_of


class Reflectors(NamedTuple):
    """V [m, n] by rows, maybe with rows of zeros, and T [n, n] and R [n, n] on all its devices.

    Info is not 0 where a column depends on others.
    """

    v: jax.Array
    t: jax.Array
    r: jax.Array
    info: jax.Array


def times(by: Reflectors, x, adjoint: bool):
    """Q X, or Q^H X, for X [m, k], in the sharding of X if that is on the devices of V."""
    rows, home = x.shape[0], None
    if dispatch.executor(*by, x) is eager and (there := meshes.of_array(by.v)):
        home = meshes.home(x, there.mesh)
    y = _leading(_product(by, x, adjoint), rows)
    return y if home is None else jax.device_put(y, home)


def columns(by: Reflectors, rows: int):
    """The first n columns of Q, by rows, of which there may be fewer than of V."""
    return _leading(meshes.where_it_lies(_columns, by.v, by.t), rows)


def _product(by: Reflectors, x, adjoint: bool):
    run = functools.partial(_times, adjoint)
    return meshes.where_it_lies(run, by.v, by.t, _beside(by.v, x))


def least_squares(by: Reflectors, b):
    """The X [n, k] that minimises |B - A X|."""
    return meshes.where_it_lies(_least_squares, *by, _beside(by.v, b))


def least_norm(by: Reflectors, b, rows: int):
    """The X [m, k] of least norm with A^H X = B, for B [n, k]."""
    if dispatch.executor(*by, b) is eager:
        there = meshes.of_array(by.v)
        b = jax.device_put(
            b, NamedSharding(there.mesh, PartitionSpec()) if there else by.v.sharding
        )
    return _leading(meshes.where_it_lies(_least_norm, *by, b), rows)


def _leading(x, rows: int):
    return x if x.shape[0] == rows else meshes.where_it_lies(lambda x: replicated(x)[:rows], x)


def _beside(v, x):
    """X with the rows of V."""
    if missing := v.shape[0] - x.shape[0]:
        x = meshes.where_it_lies(lambda x: jnp.pad(replicated(x), ((0, missing), (0, 0))), x)
    if dispatch.executor(v, x) is not eager:
        return x
    there = meshes.of_array(v)
    return jax.device_put(x, NamedSharding(there.mesh, _rows(there.spec)) if there else v.sharding)


def _rows(spec) -> PartitionSpec:
    return PartitionSpec(*spec[:1], None)


@functools.partial(jax.jit, static_argnums=0)
def _times(adjoint: bool, v, t, x):
    if (spec := spec_of(v)) is not None:
        x = jax.sharding.reshard(x, NamedSharding(jax.typeof(v).sharding.mesh, _rows(spec)))
    # No conjugate of V is made.
    inner = _dot(v, x.conj(), rows=0).conj()
    inner = _dot(t.conj().T if adjoint else t, inner, rows=1)
    return x - _dot(v, inner, rows=1, like=v)


@jax.jit
def _columns(v, t):
    return _times(False, v, t, jnp.eye(*v.shape, dtype=v.dtype))


@jax.jit
def _least_squares(v, t, r, info, b):
    y = replicated(_times(True, v, t, b))[: len(r)]
    return jnp.where(info == 0, solve_triangular(replicated(r), y), jnp.nan)


@jax.jit
def _least_norm(v, t, r, info, b):
    y = solve_triangular(replicated(r), replicated(b), trans=2)
    y = jnp.pad(y, ((0, v.shape[0] - len(r)), (0, 0)))
    return jnp.where(info == 0, _times(False, v, t, y), jnp.nan)


def _dot(a, b, rows: int, like=None):
    """A B or, with ``rows`` 0, A^T B; with Explicit axes by rows as an array, or on all devices."""
    out = None
    if (spec := spec_of(a if like is None else like)) is not None:
        spec = PartitionSpec(None, None) if like is None else _rows(spec)
        out = NamedSharding(jax.typeof(a).sharding.mesh, spec)
    axes = (((rows,), (0,)), ((), ()))
    return lax.dot_general(a, b, axes, precision="highest", out_sharding=out)
