"""Methods of the factor of a tall matrix by rows, for batches and right-hand sides of any dtype."""

import functools

import jax

from meshsolve._execute import meshes
from meshsolve._prepare import leading
from meshsolve._prepare.operands import as_array, check_rhs, common_dtype, promoted
from meshsolve._rules import wy
from meshsolve._rules.wy import Reflectors


def columns(factor) -> jax.Array:
    """The first n columns of Q."""
    return _over("QRFactor.q", functools.partial(wy.columns, rows=factor.m), _leaves(factor))


def times(public: str, factor, x, adjoint: bool) -> jax.Array:
    """Q X or Q^H X, for X [m] or [m, k]."""
    return _with_sides(public, functools.partial(wy.times, adjoint=adjoint), factor, "x", x, 0)


def solution(public: str, factor, b, trans: int) -> jax.Array:
    """The X that minimises |B - A X|, or that of least norm of a system with the transpose."""

    def one(by: Reflectors, b):
        return wy.least_norm(by, b, factor.m) if trans else wy.least_squares(by, b)

    return _with_sides(public, one, factor, "b", b, trans)


def _leaves(factor) -> list[jax.Array]:
    named = {"work": factor.work, "t": factor.t, "triangle": factor.triangle, "info": factor.info}
    return [as_array("QRFactor", name, x) for name, x in named.items()]


def _with_sides(public: str, one, factor, name: str, b, trans: int) -> jax.Array:
    """``one(reflectors, B)`` for columns B or a vector, with as many rows as op(A); conjugated
    before and after for ``trans`` 1.
    """
    leaves, b = _leaves(factor), as_array(public, name, b)
    check_rhs(public, b, factor.n if trans else factor.m, name, (factor.m, factor.n))
    dtype = common_dtype(public, f"the factor and {name}", leaves[0], b)
    leaves = [*(promoted(x, dtype) for x in leaves[:3]), leaves[3]]

    def of_columns(by: Reflectors, b):
        x = one(by, meshes.where_it_lies(functools.partial(as_columns, trans == 1), b))
        return meshes.where_it_lies(functools.partial(_as_given, trans == 1, b.ndim), x)

    return _over(public, of_columns, leaves, promoted(b, dtype))


def as_columns(conjugated: bool, b):
    """B as columns, or its conjugate."""
    b = b[:, None] if b.ndim == 1 else b
    return b.conj() if conjugated else b


def _as_given(conjugated: bool, axes: int, x):
    x = x[:, 0] if axes == 1 else x
    return x.conj() if conjugated else x


def _over(public: str, one, leaves, *sides) -> jax.Array:
    """The result for a matrix, or for each matrix or right-hand side of a batch."""
    ranks = (2, 2, 2, 0, *(min(b.ndim, 2) for b in sides))
    operands = list(zip((*leaves, *sides), ranks, strict=True))
    run = lambda *x: one(Reflectors(*x[:4]), *x[4:])  # noqa: E731
    if any(x.ndim > rank for x, rank in operands):
        return leading.over(public, run, *operands)
    return run(*(x for x, _ in operands))
