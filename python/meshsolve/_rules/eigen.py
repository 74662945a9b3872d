"""Derivatives of the eigenvalues and eigenvectors of a Hermitian A = V diag(w) V^H.

With M = V^H A' V of the Hermitian part of A':

    w' = diag M
    V' = V (F * M), F_ij = 1 / (w_j - w_i), and zero on the diagonal

F has no value where two eigenvalues are equal. Rounding moves them by some eps |A|, so those up to
2 sqrt(n) eps |A| apart count as equal. With n eps |A| random matrices of order 2000 would have a
hundred such pairs in float32.

Source: M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic
differentiation, 2008.
"""

import jax
import jax.numpy as jnp

from meshsolve._execute import dispatch
from meshsolve._execute.typed import resharded
from meshsolve._library.ffi import Operation, operation
from meshsolve._rules.derivatives import is_zero, rule, zero
from meshsolve._rules.products import adjoint, matmul


@rule("eigenvalues")
def _values(op: Operation, primals, tangents):
    (a,), (da,) = primals, tangents
    if is_zero(da):
        results = dispatch.traced(op, a)
        return results, (None, *map(zero, results[1:]))
    fields = {"lower": op.lower, "order": op.order, "raises": op.raises, "engine": op.engine}
    both = operation("eigenvectors", op.public, **fields)
    _, v, w, info = dispatch.traced(both, a)
    change = jnp.sum((v.conj() * matmul(da, v, like=v)).real, axis=0)
    return (None, w, info), (None, resharded(change, jax.typeof(w).sharding), zero(info))


@rule("eigenvectors")
def _vectors(op: Operation, primals, tangents):
    (a,), (da,) = primals, tangents
    # What is left out of a first derivative counts in a second one, which is then NaN.
    inner = op._replace(degenerate="nan")
    if is_zero(da):
        results = dispatch.traced(inner, a)
        return results, (None, *map(zero, results[1:]))
    # The derivative of an eigenvector has parts of all others.
    _, v, w, info = results = dispatch.traced(inner._replace(first=0, vectors=0), a)
    m = turned(v, da)
    change = _over_gaps(op, w, len(a)).astype(m.dtype)
    dv = matmul(v, resharded(change, jax.typeof(m).sharding) * m, like=v)
    unit = resharded(jnp.eye(len(m), dtype=w.dtype), jax.typeof(m).sharding)
    dw = resharded(jnp.sum(m.real * unit, axis=0), jax.typeof(w).sharding)
    return results, (None, dv, dw, zero(info))


def turned(v, da):
    """V^H A' V, Hermitian."""
    m = matmul(adjoint(v, like=v), matmul(da, v, like=v), like=v)
    return (m + adjoint(m, like=m)) / 2


def _over_gaps(op: Operation, w, n: int):
    """F of A [n, n], which may be padded."""
    i = jnp.arange(n)
    inside = i < (op.order or n)
    w = jnp.where(inside, w, 0)
    gaps = w[None, :] - w[:, None]
    same = jnp.abs(gaps) <= 2 * n**0.5 * jnp.finfo(w.dtype).eps * jnp.max(jnp.abs(w))
    pairs = (i[:, None] != i) & inside[:, None] & inside
    missing = jnp.nan if op.degenerate == "nan" else 0
    # No division by zero, whose derivative is not a number.
    f = jnp.where(same, missing, 1 / jnp.where(same, 1, gaps))
    return jnp.where(pairs, f, 0)
