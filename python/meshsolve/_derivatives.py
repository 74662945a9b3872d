"""Derivatives of the routines: what JAX needs for jvp, grad and all that is made of them.

The tangent of a factor is the tangent of the matrix that it stands for: ``work`` has A's shape, and
only this library reads it. So one factor serves the solution and all its derivatives:

    A = L U                work' = A'
    op(A) X = B            X' = op(A)^-1 (B' - op(A') X)
    log |det A|            tr(A^-1 A'), its real part
    Y = A^-1               Y' = -Y A' Y, by two solves
    ||A||_F                Re <A / ||A||_F, A'>

``lax.custom_linear_solve`` does the second one, to all orders and in both directions. Of the
product op(A) X it only uses the derivative, in which A' stands where A does: so ``work`` may stand
for A.

Where A is Hermitian or symmetric A' has to be, too: it is read in full.

Nothing of A's size is gathered. A's cotangent is the product of two blocks of vectors, and lies as
A does because they do: see ``Sides``.

Source: M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic
differentiation, 2008.
"""

import functools
import sys
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero, zero_from_primal
from jax.sharding import AxisType, NamedSharding

from meshsolve import _dispatch, _ffi
from meshsolve._batched import folded, unfolded
from meshsolve._dispatch import traced
from meshsolve._errors import mistake
from meshsolve._ffi import Operation
from meshsolve._sharding import expect_mesh_that_is_set
from meshsolve._sides import Sides, resharded

# Right-hand sides of a product that all devices hold at a time: so many at least, and in so many
# parts at most. Before 0.10 JAX fails to transpose a loop over parts.
_LEAST_COLUMNS = 128 if jax.__version_info__ >= (0, 10) else sys.maxsize
_MOST_PARTS = 64


@functools.partial(traced.defjvp, symbolic_zeros=True)
def _rule(op: Operation, primals, tangents):
    if op.routine not in _RULES:
        raise mistake(
            op.public,
            "a",
            "an array that is not differentiated",
            "a request for a derivative",
            "unpacking a factor has none: use the factor object itself, which has",
        )
    expect_mesh_that_is_set(op.public, "a", primals[op.matrix])
    return _RULES[op.routine](op, primals, tangents)


def _is_zero(tangent) -> bool:
    return isinstance(tangent, SymbolicZero) or tangent.dtype == jax.dtypes.float0


# A tangent of what has no derivative: a number of steps, a norm, an estimate.
_zero = functools.partial(zero_from_primal, symbolic_zeros=True)


def by(function):
    """The rule of an operation that is ``function(op, *operands)`` in other words: its results as a
    pair (what has derivatives, what has none).
    """

    def rule(op, primals, tangents):
        moves = [not _is_zero(t) for t in tangents]

        def of_moving(*moving):
            rest = iter(moving)
            pairs = zip(primals, moves, strict=True)
            return function(op, *(next(rest) if m else x for x, m in pairs))

        def select(values):
            return [x for x, m in zip(values, moves, strict=True) if m]

        if any(moves):
            x, dx, more = jax.jvp(of_moving, select(primals), select(tangents), has_aux=True)
        else:
            x, more = function(op, *primals)
            dx = jax.tree.map(_zero, x)
        return (*x, *more), (*dx, *map(_zero, more))

    return rule


def _constant(op: Operation, primals, tangents):
    del tangents
    results = traced(op, *primals)
    return results, tuple(map(_zero, results))


# Factors.


def _factor(op: Operation, primals, tangents):
    (a,), (da,) = primals, tangents
    work, *more = traced(op, a)
    return (work, *more), (_tangent_of_factor(work, a, da), *map(_zero, more))


def _tangent_of_factor(work, a, da):
    """A' where the factor lies; on the way back, a cotangent of the factor where A lies."""
    there, here = Sides.of(work), Sides.of(a)
    if there.is_explicit:
        return jax.sharding.reshard(da, jax.typeof(work).sharding)
    return lax.custom_linear_solve(
        lambda x: x, da, lambda _, x: there.both(x), lambda _, x: here.both(x)
    )


# Solutions.


def _solve(op: Operation, *operands, matrix=None):
    """((X,), what else there is) of a solve with a factor or a triangle, which stands for
    ``matrix`` or, in its own layout, for itself.
    """
    *leaves, b = operands
    fixed = tuple(map(lax.stop_gradient, leaves))
    matrix = leaves[0] if matrix is None else matrix
    sides = Sides.of(matrix)
    if sides.is_explicit and jax.typeof(b).sharding.mesh.empty:
        b = sides.replicated(b)

    def run(trans, r):
        x, *more = traced(op._replace(trans=trans), *fixed, r)
        return x, tuple(more)

    def solve(_, r):
        return run(op.trans, r)

    def solve_transposed(_, r):
        if op.trans == 2:  # conj(A) X = R
            x, more = run(0, r.conj())
            return x.conj(), more
        return run(1 - op.trans, r)

    product = functools.partial(_product, op, sides, matrix)
    solved: Any = lax.custom_linear_solve(product, b, solve, solve_transposed, has_aux=True)
    x, more = solved
    return (x,), more


def _product(op: Operation, sides: Sides, a, x):
    """Op(A) X, where X lies; by some columns at a time, as each device needs all rows of these."""
    if op.routine == "trtrs":
        a = _triangle(op, a)
    a = a.conj() if op.trans == 2 else a

    n, k = x.shape
    parts = max(1, -(-k // max(_LEAST_COLUMNS, n // _MOST_PARTS)))
    if parts == 1:
        y = _columns(op, sides, a, x)
    else:
        y = _by_parts(op, parts, sides.shardings, sides.marks, a, x)
    y = resharded(y, jax.typeof(x).sharding)
    return y + x if op.unit_diagonal else y


def _columns(op: Operation, sides: Sides, a, x):
    if op.trans:
        return sides.columns(_dot(a, sides.rows(x), 0, sides.shardings[1]))
    return sides.rows(_dot(a, sides.columns(x), 1, sides.shardings[0]))


# In jit, because eagerly a loop over a new function would be compiled in every call.
@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _by_parts(op: Operation, parts: int, shardings, marks, a, x):
    sides, k = Sides(shardings, marks), x.shape[1]
    some = unfolded(jnp.pad(sides.dealt(x), ((0, 0), (0, -k % parts))), parts)
    # Without a checkpoint what each device was given would be kept for the way back.
    columns = jax.checkpoint(lambda x: _columns(op, sides, a, x))
    return sides.dealt(folded(lax.map(columns, some))[:, :k])


def _triangle(op: Operation, a):
    ones = jnp.ones(a.shape, bool)
    kept = jnp.tril(ones, -op.unit_diagonal) if op.lower else jnp.triu(ones, op.unit_diagonal)
    return lax.select(resharded(kept, jax.typeof(a).sharding), a, jnp.zeros_like(a))


def _dot(a, x, contracted: int, sharding):
    """A X or A^T X; with Explicit axes in the sharding that is given."""
    axes = (((contracted,), (0,)), ((), ()))
    return lax.dot_general(a, x, axes, precision="highest", out_sharding=sharding)


def _said(op: Operation) -> dict:
    """What the factorisation that stands for ``op`` has of it."""
    return {"public": op.public, "raises": op.raises}


def _factor_and_solve(op: Operation, a, b):
    if op.routine.startswith("posv"):
        factor = _ffi.potrf(op.lower, op.order)
        back, condition = _ffi.potrs("rows", op.order, op.trans), _ffi.pocon
    else:
        factor = _ffi.getrf("solve", op.order, op.structure, op.lower)
        back, condition = _ffi.getrs("rows", op.order, op.trans), _ffi.gecon
    *leaves, norm = traced(factor._replace(**_said(op)).held, lax.stop_gradient(a))
    # The gradient is made where A lies.
    (x,), _ = _solve(back._replace(public="solve").held, *leaves, b, matrix=a)
    more = (leaves[-1],)
    if op.routine.endswith("x"):
        more += traced(condition("rows", op.order).held, *leaves, norm)
    return (None, x), more


# Determinants and inverses.


def _logdet(op: Operation, primals, tangents):
    (work, info), (da, _) = primals, tangents
    (inverse,) = traced(_ffi.potri(op.storage, 0)._replace(engine=op.engine), work, info)
    return traced(op, work, info), (jnp.sum((inverse.conj() * da).real),)


def _det(op: Operation, primals, tangents):
    (work, pivots), (da, _) = primals, tangents
    det, sign, logabs = traced(op, work, pivots)
    info = (sign == 0).astype(jnp.int32)  # unlike det, it does not underflow
    if op.storage == "rows":
        (transposed,) = traced(_ffi.getrit(0)._replace(engine=op.engine), work, pivots, info)
    else:
        back = _ffi.getri(op.storage, 0)._replace(engine=op.engine)
        (inverse,) = traced(back, work, pivots, info)
        transposed = _transposed(inverse, jax.typeof(work).sharding)
    trace = jnp.sum(transposed * da)
    turn = _zero(sign)
    if jnp.iscomplexobj(sign):
        turn = sign * lax.complex(jnp.zeros_like(trace.imag), trace.imag)
    return (det, sign, logabs), (det * trace, turn, trace.real)


def _inverse(op: Operation, primals, tangents):
    (inverse,) = traced(op, *primals)
    here = jax.typeof(inverse).sharding
    form = _ffi.potrs if op.routine == "potri" else _ffi.getrs
    solve = form(op.storage, op.order, 0)._replace(engine=op.engine)
    (right,), _ = _solve(solve, *primals, tangents[0])
    (left,), _ = _solve(solve._replace(trans=1), *primals, _transposed(right, here))
    if op.routine == "getrit":
        return (inverse,), (-resharded(left, here),)
    return (inverse,), (-_transposed(left, here),)


def _transposed(x, sharding):
    """X^T; with Explicit axes in the sharding that is given."""
    return resharded(x.T, sharding)


def _factor_and_invert(op: Operation, a):
    if op.routine == "poinv":
        *leaves, _ = traced(_ffi.potrf(op.lower, op.order)._replace(**_said(op)), a)
        back = _ffi.potri("rows", op.order)
    else:
        factor = _ffi.getrf("inv", op.order, op.structure, op.lower)
        *leaves, _ = traced(factor._replace(**_said(op)), a)
        back = _ffi.getri("rows", op.order)
    (inverse,) = traced(back._replace(public="inv"), *leaves)
    at, _ = _dispatch.traced_placement(op, a)
    if at and AxisType.Explicit in at.mesh.axis_types:
        inverse = jax.sharding.reshard(inverse, NamedSharding(at.mesh, at.spec("matrix", "")))
    return (inverse,), (leaves[-1],)


# Norms.


def _norm(op: Operation, primals, tangents):
    (a,), (da,) = primals, tangents
    (value,) = traced(op, a)
    if op.norm == "fro":
        return (value,), (jnp.sum((a.conj() / value * da).real),)
    _, tangent = jax.jvp(functools.partial(_largest_sum, op), (a,), (da,))
    return (value,), (tangent,)


def _largest_sum(op: Operation, a):
    sums = jnp.sum(jnp.abs(a), axis=0 if op.norm == "1" else 1)
    if op.order:  # the identity corner counts for nothing
        sums = jnp.where(jnp.arange(len(sums)) < op.order, sums, 0)
    return jnp.max(sums)


_RULES = {
    **dict.fromkeys(("potrf", "getrf"), _factor),
    **dict.fromkeys(("potrs", "getrs", "trtrs"), by(_solve)),
    **dict.fromkeys(("posv", "posvx", "gesv", "gesvx"), by(_factor_and_solve)),
    **dict.fromkeys(("poinv", "geinv"), by(_factor_and_invert)),
    **dict.fromkeys(("potri", "getri", "getrit"), _inverse),
    **dict.fromkeys(("pocon", "gecon"), _constant),
    "logdet": _logdet,
    "det": _det,
    "lange": _norm,
}
