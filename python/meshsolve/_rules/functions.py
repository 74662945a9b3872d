"""Derivatives of functions of a Hermitian A = V diag(w) V^H by divided differences.

With M = V^H A' V of the Hermitian part of A':

    f(A)' = V (F * M) V^H,  F_ij = (f(w_i) - f(w_j)) / (w_i - w_j), f'(w_i) where these are equal

Here F comes from formulas without cancellation, which are right for equal eigenvalues, too.

Source: Daleckii and Krein, 1965; N. Higham, Functions of Matrices, 2008, theorem 3.11.
"""

import jax
import jax.numpy as jnp

from meshsolve._execute import dispatch
from meshsolve._execute.typed import resharded
from meshsolve._library.ffi import Operation, operation
from meshsolve._rules.derivatives import is_zero, rule, zero
from meshsolve._rules.eigen import turned
from meshsolve._rules.products import adjoint, matmul


@rule("hermitian_function")
def _function(op: Operation, primals, tangents):
    (a, tolerance), (da, _) = primals, tangents
    if is_zero(da):
        results = dispatch.traced(op, a, tolerance)
        return results, (zero(results[0]), None, *map(zero, results[2:]))
    fields = {"lower": op.lower, "order": op.order, "raises": op.raises}
    both = operation("eigenvectors", op.public, **fields)
    _, v, w, info = dispatch.traced(both, a)
    inside = jnp.arange(len(a)) < (op.order or len(a))
    zeros = tolerance * jnp.max(jnp.abs(jnp.where(inside, w, 0)))
    # 1 is where each function has a value.
    values, exist, differences = _FUNCTIONS[op.function](jnp.where(inside, w, 1), zeros)
    missing = jnp.sum(inside & ~exist, dtype=info.dtype)
    info = jnp.where(info == 0, missing, info)
    if op.raises:  # only the routine fails where there is no value
        x, _, w, info = dispatch.traced(op, a, tolerance)
    else:
        x = _composed(v, jnp.where(info == 0, jnp.where(inside, values, 0), jnp.nan))
    m = turned(v, da)
    differences = jnp.where(inside[:, None] & inside, differences, 0)
    differences = jnp.where(info == 0, differences, jnp.nan).astype(m.dtype)
    change = matmul(v, resharded(differences, jax.typeof(m).sharding) * m, like=v)
    dx = matmul(change, adjoint(v, like=v), like=v)
    return (x, None, w, info), (dx, None, zero(w), zero(info))


def _composed(v, values):
    """V diag(f) V^H, Hermitian to the last bit."""
    half = v * values.astype(v.dtype)
    x = matmul(half, adjoint(v, like=v), like=v)
    return (x + adjoint(x, like=x)) / 2


def _sqrt(w, zeros):
    exist = w >= -zeros
    root = jnp.sqrt(jnp.maximum(w, 0))
    return root, exist, 1 / (root[:, None] + root)


def _inverse_sqrt(w, zeros):
    del zeros
    exist = w > 0
    root = jnp.sqrt(jnp.where(exist, w, 1))
    return 1 / root, exist, -1 / (root[:, None] * root * (root[:, None] + root))


def _log(w, zeros):
    """F = 2 artanh(z) / (w_i - w_j), z = (w_i - w_j) / (w_i + w_j), for small z."""
    del zeros
    exist = w > 0
    w = jnp.where(exist, w, 1)
    log, total, gaps = jnp.log(w), w[:, None] + w, w[:, None] - w
    z = gaps / total
    near = jnp.abs(z) < 0.03
    square = jnp.where(near, z, 0) ** 2
    series = 1 + square * (1 / 3 + square * (1 / 5 + square * (1 / 7 + square / 9)))
    ratios = w[:, None] / w
    exact = jnp.isfinite(ratios) & (ratios > jnp.finfo(w.dtype).tiny)
    changes = jnp.where(exact, jnp.log(jnp.where(exact, ratios, 1)), log[:, None] - log)
    return log, exist, jnp.where(near, 2 * series / total, changes / jnp.where(near, 1, gaps))


def _exp(w, zeros):
    """F = exp((w_i + w_j) / 2) sinh(z) / z, z = (w_i - w_j) / 2."""
    del zeros
    z = jnp.abs(w[:, None] - w) / 2
    near = z < 0.1
    far = jnp.where(near, 1, z)
    square = jnp.where(near, z, 0) ** 2
    series = 1 + square / 6 * (1 + square / 20 * (1 + square / 42 * (1 + square / 72)))
    most = jnp.maximum(w[:, None], w)
    # exp((w_i + w_j) / 2) sinh(z) = exp(most) sinh.
    sinh = -jnp.expm1(-2 * far) / 2
    values = jnp.exp(w)
    exist = jnp.isfinite(values)
    near_values = jnp.exp((w[:, None] + w) / 2) * series
    return values, exist, jnp.where(near, near_values, jnp.exp(most) * sinh / far)


def _inverse(w, zeros):
    """The rank is constant: F_ij = 1 / w_i^2 if w_j counts as zero, and 0 if both do."""
    counts = jnp.abs(w) > zeros
    inverse = jnp.where(counts, 1 / jnp.where(counts, w, 1), 0)
    one = counts[:, None] ^ counts
    differences = jnp.where(one, (inverse[:, None] + inverse) ** 2, -inverse[:, None] * inverse)
    return inverse, jnp.isfinite(inverse), differences


_FUNCTIONS = {
    "sqrt": _sqrt,
    "log": _log,
    "exp": _exp,
    "inverse_sqrt": _inverse_sqrt,
    "inverse": _inverse,
}
