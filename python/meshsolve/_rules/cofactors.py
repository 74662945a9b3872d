"""The cofactors of a singular matrix, which are the derivatives of its determinant.

If det A = 0, no A^-1 gives them. The adjugate of an A of rank n - 1 is adj A = g v u^T. Here
A v = 0 and u^T A = 0. Below that rank it is 0. Let P A = L U, and let i and j be the first and the
last zero on the diagonal of U:

    U' v = e_i,   (L U')^T P u = e_j,   g = det(P) det(U + e_j e_i^T),

U' is U with ones for its zeros. v ends with v_i = 1. y of U'^T y = e_j, the left null vector of U,
begins with y_j = 1. So the cofactor of U at (j, i) is det(P) g itself.
"""

import jax
import jax.numpy as jnp
from jax import lax

from meshsolve._execute import dispatch
from meshsolve._execute.typed import replicated, resharded
from meshsolve._library.ffi import Operation, operation


def of_singular(op: Operation, work, pivots):
    """The cofactor matrix, adj(A)^T, from the factor of a singular A that ``op`` takes."""
    run = dispatch.traced
    there = jax.typeof(work).sharding
    unpack = operation("lu_to_scipy", op.public, storage=op.storage, engine=op.engine)
    (lu,) = run(unpack, work)
    here, n = jax.typeof(lu).sharding, lu.shape[0]
    i = jnp.arange(n)
    eye = resharded(i[:, None] == i, here)
    diagonal = replicated(jnp.where(eye, lu, 0).sum(1))
    is_zero = diagonal == 0
    first, last = jnp.argmax(is_zero), n - 1 - jnp.argmax(is_zero[::-1])

    zeros = resharded(jnp.broadcast_to(is_zero, (n, n)), here)
    one = jnp.ones((), lu.dtype)
    regular = jnp.where(eye & zeros, one, lu)
    below = resharded(i[:, None] > i, here)
    corner = resharded((i[:, None] == last) & (i == first), here)
    bordered = jnp.where(corner, one, jnp.where(below, jnp.zeros_like(lu), lu))

    matrix, interchanges, _, _ = run(operation("getrf", op.public), bordered)
    g, _, _ = run(operation("det", op.public), matrix, interchanges)
    swaps = jnp.sum(pivots != jnp.arange(n, dtype=pivots.dtype))
    g = jnp.where(swaps % 2 == 0, g, -g)

    def solved(lower, trans, unit, b):
        fields = {"lower": lower, "trans": trans, "unit_diagonal": unit}
        return run(operation("trtrs", op.public, **fields), regular, b)[0]

    unit_vector = lambda k: (i == k).astype(lu.dtype)[:, None]  # noqa: E731
    v = solved(False, 0, False, unit_vector(first))
    u = solved(True, 1, True, solved(False, 1, False, unit_vector(last)))
    order = lax.linalg.lu_pivots_to_permutation(pivots, n)
    u = replicated(u)[jnp.argsort(order)]
    cofactors = g * u * replicated(v)[:, 0]
    return resharded(cofactors, there)
