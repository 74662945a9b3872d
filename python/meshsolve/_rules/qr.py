"""Q and R of any matrix as one function, with its derivatives.

For a tall A, with M = Q^H A' R^-1 and S = L - L^H, L the strict lower triangle of M and, if it is
complex, the imaginary part of its diagonal:

    Q' = A' R^-1 - Q (M - S)
    R' = (M - S) R

A wide A = [A1 A2] has the Q of A1, so Q' = Q S, and R' = Q^H A' - S R.

Source: Walter and Lehmann, Algorithmic differentiation of linear algebra functions, 2012; Roberts
and Roberts, QR and LQ decomposition matrix backpropagation algorithms, 2020.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.sharding import NamedSharding, PartitionSpec

from meshsolve._execute import dispatch, eager, meshes
from meshsolve._execute.placements import devices_along
from meshsolve._execute.typed import replicated, resharded
from meshsolve._library.ffi import Operation, operation
from meshsolve._rules.derivatives import zero
from meshsolve._rules.linear import triangle as part
from meshsolve._rules.products import adjoint, matmul

_FACTOR = ("factor", "coefficients", "info")


def both(op: Operation, operands, own, signatures):
    """(Q, R, info) of A, in place of the results of ``op``."""
    return _results(op, operands, own, signatures, _both_traced, _both)


def by_reflectors(op: Operation, operands, own, signatures):
    """(V, R, T, info) of a tall A by rows, with the padding of A."""
    return dispatch.call(operation("tsqrf", op.public), operands, own, signatures)


def triangle(op: Operation, operands, own, signatures):
    """(R, info) of A, in place of the results of ``op``."""
    return _results(op, operands, own, signatures, _triangle_traced, _triangle)


def _results(op: Operation, operands, own, signatures, traced, of_factor):
    (a,) = operands
    if dispatch.executor(a) is not eager:
        return traced(op, a)
    if op.takes_tall:
        return dispatch.call(op, operands, own, signatures)
    storage = _storage(op, a, signatures)
    return of_factor(op, storage, _factor(op, operands, own, signatures), a.shape, leading)


def _storage(op: Operation, a, signatures) -> str:
    """The storage of Q: that of A, where it can be."""
    signature = signatures[0] if signatures else eager.signature(a)
    at = eager.placement_of(op.public, signature, op.divided(a.shape))
    storage = at.storage if at else "rows"
    return "columns" if storage == "rows" and a.shape[0] != a.shape[1] else storage


def _factor(op: Operation, operands, own=(), signatures=()):
    """(work, tau, info) of A."""
    return dispatch.call(op._replace(results=_FACTOR), operands, own, signatures)


def _both(op: Operation, storage: str, factor, shape, cut):
    """(Q, R, info) of a matrix of this shape, from its factor, of which ``cut`` takes parts."""
    work, tau, _ = factor
    q = _orthogonal(op, storage, work, tau, shape, cut)
    return q, *_triangle(op, storage, factor, shape, cut)


def _triangle(op: Operation, storage: str, factor, shape, cut):
    """(R, info)"""
    (work, tau, info), m, n = factor, shape[0], op.order or shape[1]
    (r,) = dispatch.call(operation("qr_triangle", op.public, storage=storage), (work, tau))
    return cut(r, (min(m, n), n)), info


def _orthogonal(op: Operation, storage: str, work, tau, shape, cut):
    """The first columns of Q, as many as R has rows, from the factor of a matrix of this shape."""
    m, n = shape
    if m >= n:
        (q,) = dispatch.call(operation("orgqr", op.public, storage=storage), (work, tau))
        return cut(q, (m, op.order or n))
    unit = unit_like(work, m, min(m, op.order or n))
    product = operation("ormqr", op.public, storage=storage)
    return dispatch.call(product, (work, tau, unit), (False, False, True))[0]


def unit_like(work, m: int, columns: int):
    """Columns of the unit matrix of order m, distributed by columns to the devices of a factor, if
    they divide these.
    """
    unit, there = jnp.eye(m, columns, dtype=work.dtype), meshes.of_array(work)
    if there is None or columns % devices_along(there.spec, there.mesh):
        return unit
    axes = next((entry for entry in there.spec if entry is not None), None)
    return jax.device_put(unit, NamedSharding(there.mesh, PartitionSpec(None, axes)))


def leading(x, shape):
    """The leading part of what a padded matrix gives, or those of a batch."""
    if x.shape[-2:] == shape or x.ndim > 2:
        return _cut(x, shape)
    return dispatch.executor(x).cut(x, shape)


def _cut(x, shape):
    """The same on the devices of X, where derivatives need all arrays, outside of programs too."""
    return x if x.shape[-2:] == shape else replicated(x)[..., : shape[0], : shape[1]]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _both_traced(op: Operation, a):
    a = jnp.asarray(a)  # under derivatives it may be NumPy's
    if op.takes_tall:
        return dispatch.call(operation("tsqr", op.public), (a,))
    return _both(op, "columns", _factor(op, (a,)), a.shape, _cut)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _triangle_traced(op: Operation, a):
    a = jnp.asarray(a)
    if op.takes_tall:
        return dispatch.call(op, (a,))
    return _triangle(op, "columns", _factor(op, (a,)), a.shape, _cut)


@_triangle_traced.defjvp
def _(op: Operation, primals, tangents):
    results, changes = jax.jvp(functools.partial(_both_traced, op), primals, tangents)
    return results[1:], changes[1:]


@functools.partial(_both_traced.defjvp, symbolic_zeros=True)
def _(op: Operation, primals, tangents):
    (a,), (da,) = primals, tangents
    q, r, info = _both_traced(op, a)
    change = _of_tall if len(q) >= r.shape[1] else _of_wide
    da = _cut(da, (len(q), r.shape[1]))
    return (q, r, info), (*change(op, q, r, da), zero(info))


def _of_tall(op: Operation, q, r, da):
    x = resharded(_divided(op, da, r), jax.typeof(q).sharding)
    inner = matmul(adjoint(q), x, r)
    skew = _skew(inner)
    return x - matmul(q, inner - skew, q), matmul(inner - skew, r, r)


def _of_wide(op: Operation, q, r, da):
    m = r.shape[0]
    product = matmul(adjoint(q), da, r)
    first = resharded(replicated(r)[:, :m], jax.typeof(q).sharding)
    inner = _divided(op, resharded(replicated(product)[:, :m], jax.typeof(q).sharding), first)
    skew = _skew(inner)
    return matmul(q, skew, q), product - matmul(skew, r, r)


def _divided(op: Operation, x, r):
    """X R^-1"""
    if op.takes_tall:  # where X lies: R and its inverse are small
        r = replicated(r)
        inverse = solve_triangular(r, jnp.eye(len(r), dtype=r.dtype))
        return matmul(x, resharded(inverse, jax.typeof(r).sharding), x)
    if op.order:  # the devices do not divide R, so each solves
        y = solve_triangular(replicated(r), adjoint(replicated(x)), trans=2)
        return resharded(adjoint(y), jax.typeof(x).sharding)
    solve = operation("trtrs", op.public, lower=False, trans=2)
    return adjoint(dispatch.linear(solve, r, adjoint(x))[0], like=x)


def _skew(x):
    lower = part(x, lower=True, without_diagonal=True)
    skew = lower - adjoint(lower, like=x)
    if jnp.iscomplexobj(x):
        diagonal = resharded(jnp.eye(len(x), dtype=bool), jax.typeof(x).sharding)
        turn = lax.complex(jnp.zeros_like(x.imag), x.imag)
        skew = skew + lax.select(diagonal, turn, jnp.zeros_like(x))
    return skew
