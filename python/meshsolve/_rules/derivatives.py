"""Derivatives of the routines, from which JAX makes jvp, grad and the rest.

The tangent of a factor is that of its matrix: ``work`` has A's shape, and only this library reads
it. So one factor serves the solution and all its derivatives:

    A = L U                work' = A'
    op(A) X = B            X' = op(A)^-1 (B' - op(A') X)
    log |det A|            tr(A^-1 A'), its real part
    Y = A^-1               Y' = -Y A' Y, by two solves
    ||A||_F                Re <A / ||A||_F, A'>
    min |B - A X|          X' = (A^H A)^-1 (A^H (B' - A' X) + A'^H (B - A X))
    min that^2 + l |X|^2   X' = (A^H A + l I)^-1 (the same - l' X)
    A = L L^H              L' = L F(L^-1 A' L^-H), F the lower triangle with half of the diagonal

``linear`` does the second one. It uses only the derivative of the product op(A) X, in which A'
takes the place of A: so ``work`` may stand for A.

If A is Hermitian or symmetric A' has to be, too: it is read in full.

Source: M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic
differentiation, 2008.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero, zero_from_primal
from jax.scipy.linalg import solve_triangular

from meshsolve._execute import dispatch
from meshsolve._execute.dispatch import traced
from meshsolve._execute.placements import expect_mesh_that_is_set
from meshsolve._execute.sides import Sides
from meshsolve._execute.traced import by_type
from meshsolve._execute.typed import resharded
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import Operation, operation
from meshsolve._rules import cofactors
from meshsolve._rules.batching import batchable
from meshsolve._rules.linear import dot, product, triangle

_RULES: dict[str, Callable[..., Any]] = {}


def rule(*routines: str):
    """Make a function ``(op, primals, tangents) -> (results, their tangents)`` the rule of these
    routines.
    """

    def adds(function: Callable[..., Any]):
        for name in routines:
            _RULES[name] = function
        return function

    return adds


@functools.partial(traced.defjvp, symbolic_zeros=True)
def _of(op: Operation, primals, tangents):
    if op.routine not in _RULES:
        remedy = "use the factor object itself: what it is unpacked to has none"
        if op.family in ("qr", "tsqr"):
            remedy = "use qr(a) or lstsq(a, b): a QRFactor has none"
        expected, got = "an array that is not differentiated", "a request for a derivative"
        raise mistake(op.public, "a", expected, got, remedy)
    expect_mesh_that_is_set(op.public, "a", primals[op.matrix])
    return _RULES[op.routine](op, primals, tangents)


def is_zero(tangent) -> bool:
    return isinstance(tangent, SymbolicZero) or tangent.dtype == jax.dtypes.float0


# What makes, solves with, inverts and estimates the condition of a factor.
_ROUTINES = {
    "cholesky": ("potrf", "potrs", "potri", "pocon"),
    "lu": ("getrf", "getrs", "getri", "gecon"),
}

# A tangent of results without derivatives: a number of steps, a norm, an estimate.
zero = functools.partial(zero_from_primal, symbolic_zeros=True)


def by(function):
    """The rule of an operation that equals ``function(op, *operands)``. The function gives a pair
    (results with derivatives, results without).
    """

    def by_jvp(op, primals, tangents):
        moves = [not is_zero(t) for t in tangents]

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
            dx = jax.tree.map(zero, x)
        return (*x, *more), (*dx, *map(zero, more))

    return by_jvp


@rule("pocon", "gecon")
def _constant(op: Operation, primals, tangents):
    del tangents
    results = traced(op, *primals)
    return results, tuple(map(zero, results))


# Factors.


@rule("potrf", "getrf")
def _factor(op: Operation, primals, tangents):
    (a,), (da,) = primals, tangents
    work, *more = traced(op, a)
    return (work, *more), (_tangent_of_factor(work, a, da), *map(zero, more))


def _tangent_of_factor(work, a, da):
    """A' in the sharding of the factor; in the backward pass, a cotangent of the factor in that of
    A.
    """
    there, here = Sides.of(work), Sides.of(a)
    if there.is_explicit:
        return jax.sharding.reshard(da, jax.typeof(work).sharding)
    return lax.custom_linear_solve(
        lambda x: x, da, lambda _, x: there.both(x), lambda _, x: here.both(x)
    )


# Solutions.


def solved(op: Operation, *operands, matrix=None):
    """((X,), other results) of a solve with a factor or a triangle, which stands for ``matrix`` or,
    in its own layout, for itself.
    """
    x, *more = dispatch.linear(op, *operands, matrix=matrix)
    return (x,), tuple(more)


rule("potrs", "getrs", "trtrs")(by(solved))


def _factorisation(op: Operation) -> Operation:
    """The factorisation of ``op``."""
    fields = {"lower": op.lower, "order": op.order, "structure": op.structure, "raises": op.raises}
    return operation(_ROUTINES[op.family][0], op.public, **fields)


def with_factor(op: Operation, stage: int, **fields) -> Operation:
    """An operation on the factor of ``op``."""
    return operation(_ROUTINES[op.family][stage], op.public, order=op.order, **fields)


@rule("posv", "posv_rcond", "gesv", "gesv_rcond")
@by
def _factor_and_solve(op: Operation, a, b):
    *leaves, norm = traced(_factorisation(op).held, lax.stop_gradient(a))
    # The gradient gets the sharding of A.
    (x,), _ = solved(with_factor(op, 1, trans=op.trans).held, *leaves, b, matrix=a)
    more = (leaves[-1],)
    if op.has("condition"):
        more += traced(with_factor(op, 3).held, *leaves, norm)
    return (None, x), more


# The triangles of Cholesky factors.


@rule("cholesky_to_scipy")
def _unpack(op: Operation, primals, tangents):
    (work, info), (da, _) = primals, tangents
    (c,) = traced(op, work, info)
    return (c,), (zero(c) if is_zero(da) else _tangent_of_triangle(op, c, da),)


def _tangent_of_triangle(op: Operation, c, da):
    """L' of L = C, or L'^H if C is L^H, for the Hermitian part of A'."""
    here = jax.typeof(c).sharding
    once = operation("trtrs", op.public, lower=op.lower, trans=0 if op.lower else 2)
    solve = lambda x: dispatch.linear(once, c, x)[0]  # noqa: E731
    adjoint = lambda x: transposed(x.conj(), here)  # noqa: E731
    s = resharded(solve(adjoint(resharded(solve(da), here))), here)
    s = (s + adjoint(s)) / 2
    half = (triangle(s, lower=True) + triangle(s, lower=True, without_diagonal=True)) / 2
    dl = resharded(product(once, Sides.of(c), c, half), here)
    return dl if op.lower else adjoint(dl)


@rule("residual")
@by
def _multiply_and_add(op: Operation, a, b, x):
    """B - op(A) X, or with a triangle of A."""
    times = op
    if op.structure == "triangular":
        times = operation("trtrs", op.public, lower=op.lower, trans=op.trans)
    a = dispatch.of_operand(op, a)
    x = product(times, Sides.of(a), a, x)
    return (b - resharded(x, jax.typeof(b).sharding),), ()


# Least squares. With R^H R = A^H A no derivative needs Q.


def times(sides: Sides, a, x):
    """A X in the sharding of A's rows."""
    return sides.rows(dot(a, sides.columns(x), 1, sides.shardings[0]))


def adjoint_times(sides: Sides, a, x):
    """A^H X."""
    x = sides.rows(x.conj())
    return sides.columns(dot(a, x, 0, sides.shardings[1])).conj()


def solve_normal(r, x):
    """(R^H R)^-1 X"""
    y = solve_triangular(r, x, trans=2)
    return solve_triangular(r, y)


def tangent_of_triangle_of_qr(inner, r):
    """R' of A = Q R, whose Q' is orthogonal to Q but for a skew-Hermitian part, from A^H A'."""
    right = solve_triangular(r, solve_triangular(r, inner, trans=2).conj().T, trans=2)
    inner = right.conj().T
    lower = jnp.tril(inner, -1)
    skew = lower - lower.conj().T
    if jnp.iscomplexobj(inner):
        skew = skew + jnp.diag(jnp.diagonal(inner) - jnp.diagonal(inner).real)
    return jnp.matmul(inner - skew, r, precision="highest")


@rule("gels")
def _least_squares(op: Operation, primals, tangents):
    results = operation("gelsr", op.public).results
    with_r = op._replace(routine="gelsr", results=results)
    (x, residuals, _, info), changes = _of_least_squares(with_r, primals, tangents)
    return (x, residuals, info), (*changes, zero(info))


@rule("gelsr")
def _least_squares_and_triangle(op: Operation, primals, tangents):
    (a, _, _), (da, dridge, _) = primals, tangents
    (x, residuals, r, info), changes = _of_least_squares(op, primals, tangents)
    products = jnp.zeros_like(r)
    if not is_zero(da):
        products = resharded(adjoint_times(Sides.of(a), a, da), jax.typeof(r).sharding)
    if not is_zero(dridge):
        products = products + dridge / 2 * jnp.eye(len(r), dtype=r.dtype)
    moves = not (is_zero(da) and is_zero(dridge))
    dr = tangent_of_triangle_of_qr(products, r) if moves else zero(r)
    return (x, residuals, r, info), (*changes, dr, zero(info))


def _of_least_squares(op: Operation, primals, tangents):
    """The results with R, and the tangents of X and of the residuals."""
    (a, ridge, b), (da, dridge, db) = primals, tangents
    x, residuals, r, info = traced(op, a, ridge, b)
    sides = Sides.of(a)
    rest = sides.rows(b) - times(sides, a, x)
    change = jnp.zeros_like(rest) if is_zero(db) else sides.rows(db)
    inner = jnp.zeros_like(x)
    if not is_zero(da):
        change = change - times(sides, da, x)
        inner = adjoint_times(sides, da, rest)
    dresiduals = 2 * jnp.sum((rest.conj() * change).real, axis=0)
    here = jax.typeof(x).sharding
    inner = resharded(inner, here)
    if not is_zero(dridge):
        inner = inner - dridge * x
    dx = solve_normal(r, inner + resharded(adjoint_times(sides, a, change), here))
    # A step of refinement: the error without it grows as the square of A's condition number.
    left = resharded(adjoint_times(sides, a, change - times(sides, a, dx)), here)
    dx = dx + solve_normal(r, inner + left - ridge * dx)
    # A^H (B - A X) is the ridge term times X.
    dresiduals = dresiduals - 2 * ridge * jnp.sum((x.conj() * dx).real, axis=0)
    return (x, residuals, r, info), (dx, dresiduals)


# Determinants and inverses.


@rule("logdet")
def _logdet(op: Operation, primals, tangents):
    (work, info), (da, _) = primals, tangents
    invert = operation("potri", op.public, storage=op.storage, engine=op.engine)
    (inverse,) = traced(invert, work, info)
    return traced(op, work, info), (jnp.sum((inverse.conj() * da).real),)


@rule("det")
def _det(op: Operation, primals, tangents):
    (work, pivots), (da, _) = primals, tangents
    det, sign, logabs = traced(op, work, pivots)
    is_singular = sign == 0  # unlike det, it does not underflow
    if op.logarithmic:
        matrix = _inverse_if_any(op, is_singular, work, pivots)
    else:
        matrix = _cofactors_or_inverse(op, is_singular, work, pivots)
    change = jnp.sum(matrix * da)
    ddet = jnp.where(is_singular, change, det * change)
    # A determinant of 0 has no sign, and its logarithm no derivative.
    change = change * jnp.where(is_singular, jnp.nan, 1)
    turn = zero(sign)
    if jnp.iscomplexobj(sign):
        turn = sign * lax.complex(jnp.zeros_like(change.imag), change.imag)
    return (det, sign, logabs), (ddet, turn, change.real)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _cofactors_or_inverse(op: Operation, is_singular, work, pivots):
    """The cofactors of a singular A, A^-T of another."""
    return _one_of_both(op)(is_singular, work, pivots)


@_cofactors_or_inverse.defjvp
def _(op, primals, tangents):
    """Second derivatives of determinants at singular matrices are NaN."""
    is_singular, work, pivots = primals
    inverse = lambda work: _inverse_if_any(op, is_singular, work, pivots)  # noqa: E731
    _, change = jax.jvp(inverse, (work,), tangents[1:2])
    change = change * jnp.where(is_singular, jnp.nan, 1)
    return _cofactors_or_inverse(op, *primals), change


@functools.lru_cache(maxsize=256)
def _one_of_both(op: Operation):
    """A choice that goes one by one under ``jax.vmap``, which would otherwise make both of each
    matrix.
    """

    @jax.jit
    def run(is_singular, work, pivots):
        of_singular = lambda: cofactors.of_singular(op, work, pivots)  # noqa: E731
        of_regular = lambda: _inverse_if_any(op, is_singular, work, pivots)  # noqa: E731
        return lax.cond(is_singular, of_singular, of_regular)

    return batchable(run, None, (False,))


def _inverse_if_any(op: Operation, is_singular, work, pivots):
    """A^-T from the factor; NaN if A is singular."""
    return inverse_transposed(op, work, pivots, is_singular.astype(jnp.int32))


def inverse_transposed(op: Operation, *leaves):
    """A^-T, in the sharding of the factor that ``op`` takes; NaN if there is none."""
    fields = {"order": op.order, "storage": op.storage, "engine": op.engine}
    if op.family == "cholesky":
        return traced(operation("potri", op.public, **fields), *leaves)[0].conj()
    if op.storage == "rows":
        return traced(operation("getri_transposed", op.public, **fields), *leaves)[0]
    (inverse,) = traced(operation("getri", op.public, **fields), *leaves)
    return transposed(inverse, jax.typeof(leaves[0]).sharding)


def between_inverses(op: Operation, leaves, x):
    """(A^-1 X A^-1)^T by two solves with the factor that ``op`` takes."""
    solve = with_factor(op, 1, storage=op.storage, engine=op.engine)
    (right,), _ = solved(solve, *leaves, x)
    right = transposed(right, jax.typeof(x).sharding)
    return solved(solve._replace(trans=1), *leaves, right)[0][0]


@rule("potri", "getri", "getri_transposed")
def _inverse(op: Operation, primals, tangents):
    (inverse,) = traced(op, *primals)
    here, change = jax.typeof(inverse).sharding, between_inverses(op, primals, tangents[0])
    if op.routine == "getri_transposed":
        return (inverse,), (-resharded(change, here),)
    return (inverse,), (-transposed(change, here),)


def transposed(x, sharding):
    """X^T; with Explicit axes in the given sharding."""
    return resharded(x.T, sharding)


@rule("cholesky_inverse", "lu_inverse")
@by
def _factor_and_invert(op: Operation, a):
    *leaves, _ = traced(_factorisation(op), a)
    (inverse,) = traced(with_factor(op, 2), *leaves)
    if (there := by_type(op, a)) is not None:
        inverse = jax.sharding.reshard(inverse, there)
    return (inverse,), (leaves[-1],)


# Norms.


@rule("lange")
def _norm(op: Operation, primals, tangents):
    (a,), (da,) = primals, tangents
    (value,) = traced(op, a)
    if op.norm == "fro":
        return (value,), (jnp.sum((jnp.conj(a) / value * da).real),)
    _, tangent = jax.jvp(functools.partial(_largest_sum, op), (a,), (da,))
    return (value,), (tangent,)


def _largest_sum(op: Operation, a):
    sums = jnp.sum(jnp.abs(a), axis=0 if op.norm == "1" else 1)
    if op.order:  # the identity corner counts for nothing
        sums = jnp.where(jnp.arange(len(sums)) < op.order, sums, 0)
    return jnp.max(sums)
