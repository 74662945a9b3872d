"""The least-norm solution of A X = B for a wide A, with its derivatives.

By A^H = Q R, or [A^H; sqrt(l) I] = Q R with a ridge term l: X = (Q [R^-H B; 0])_1. With W, where
R^H R W = B, the solution is A^H W, and B - A X = l W. So

    W' = (R^H R)^-1 (B' - l' W - A' X - A A'^H W)
    X' = A'^H W + A^H W'

Source: Bjorck, Numerical methods for least squares problems, 1996.
"""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from meshsolve._execute import dispatch, eager, meshes
from meshsolve._execute.sides import Sides
from meshsolve._execute.typed import replicated, resharded
from meshsolve._library.ffi import Operation, operation
from meshsolve._rules.derivatives import (
    adjoint_times,
    is_zero,
    solve_normal,
    tangent_of_triangle_of_qr,
    times,
    zero,
)

# A^H by columns has the order of A by rows in memory.
_STORAGE = "column-major"


def found(op: Operation, a, b, ridge):
    """The results of ``minimum_norm`` for arrays that may be anywhere."""
    run = functools.partial(_program, op)
    if dispatch.executor(a, b, ridge) is not eager:
        return meshes.where_it_lies(run, a, b, ridge)
    there = meshes.of_array(a)
    whole = NamedSharding(there.mesh, PartitionSpec()) if there else a.sharding
    b, ridge = (
        x if x is None or x.sharding.device_set == a.sharding.device_set else eager.put(x, whole)
        for x in (b, ridge)
    )
    return meshes.where_it_lies(run, a, b, ridge)


def _longer(h, ridge):
    """[H; sqrt(ridge) I]"""
    root = jnp.sqrt(ridge).astype(h.dtype) * jnp.eye(h.shape[1], dtype=h.dtype)
    return jnp.concatenate([h, resharded(root, jax.typeof(h).sharding)])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def minimum_norm(op: Operation, a, b, ridge):
    """(X, squares of the residuals, R, info) for A [m, n] and B [m, k]; ``ridge`` is None without
    such a term. ``op`` factors A^H.
    """
    # Under derivatives constants may be NumPy's.
    a, b = jnp.asarray(a), jnp.asarray(b)
    m, n = a.shape
    h = a.conj().T
    if ridge is not None:
        h = _longer(h, ridge)
    work, tau, info = dispatch.call(op._replace(storage=_STORAGE), (h,))
    (r,) = dispatch.call(operation("qr_triangle", op.public, storage=_STORAGE), (work, tau))
    solve = operation("trtrs", op.public, lower=False)
    y, _ = dispatch.call(solve._replace(trans=2), (r, b))
    w = None if ridge is None else dispatch.call(solve, (r, y))[0]
    y = jnp.pad(replicated(y), ((0, h.shape[0] - m), (0, 0)))
    (x,) = dispatch.call(operation("ormqr", op.public, storage=_STORAGE), (work, tau, y))
    x = jnp.where(info == 0, x[:n], jnp.nan)
    # Without a ridge term there is none, unless X is no number.
    squares = 0 * jnp.sum(jnp.abs(x), axis=0) if w is None else _squares(w, ridge)
    return x, jnp.where(info == 0, squares, jnp.nan), r, info


_program = jax.jit(minimum_norm, static_argnums=0)


def _squares(w, ridge):
    return ridge**2 * jnp.sum(jnp.abs(w) ** 2, axis=0)


@functools.partial(minimum_norm.defjvp, symbolic_zeros=True)
def _(op: Operation, primals, tangents):
    (a, b, ridge), (da, db, dridge) = primals, tangents
    x, squares, r, info = minimum_norm(op, a, b, ridge)
    sides, here, whole = Sides.of(a), jax.typeof(x).sharding, replicated(r)

    def solved(y):
        """W = (A A^H + l I)^-1 Y and A^H W, with a step of refinement. Without it errors grow as
        the square of A's condition number. In the reverse mode it is one of |X - A^H W|.
        """
        w = solve_normal(whole, y)
        x = resharded(adjoint_times(sides, a, w), here)
        left = y - replicated(times(sides, a, x)) - (0 if ridge is None else ridge * w)
        more = solve_normal(whole, left)
        return w + more, x + resharded(adjoint_times(sides, a, more), here)

    w, _ = solved(replicated(b))
    change = jnp.zeros_like(w) if is_zero(db) else replicated(db)
    dx, products = jnp.zeros_like(x), jnp.zeros_like(whole)
    if not is_zero(da):
        dx = resharded(adjoint_times(sides, da, w), here)
        change = change - replicated(times(sides, da, x)) - replicated(times(sides, a, dx))
        products = replicated(times(sides, a, da.conj().T))
    if dridge is not None and not is_zero(dridge):
        change = change - dridge * w
        products = products + dridge / 2 * jnp.eye(len(r), dtype=r.dtype)
    dw, more = solved(change)
    dx = dx + more
    dsquares = jnp.zeros_like(squares)
    if ridge is not None:
        dsquares = 2 * ridge**2 * jnp.sum((w.conj() * dw).real, axis=0)
        if not is_zero(dridge):
            dsquares = dsquares + 2 * ridge * dridge * jnp.sum((w.conj() * w).real, axis=0)
    dsquares = resharded(dsquares, jax.typeof(squares).sharding)
    dr = resharded(tangent_of_triangle_of_qr(products, whole), jax.typeof(r).sharding)
    return (x, squares, r, info), (dx, dsquares, dr, zero(info))
