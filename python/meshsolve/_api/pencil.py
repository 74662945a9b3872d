"""The generalised Hermitian eigenproblem, reduced to that of one matrix by a Cholesky factor."""

import functools
from typing import Any, Literal

import jax

from meshsolve._api.cholesky import CholeskyFactor, factored
from meshsolve._execute import dispatch, eager, meshes
from meshsolve._library import failures
from meshsolve._library.errors import mistake, no_answer
from meshsolve._prepare.operands import check_square, common_dtype, promoted
from meshsolve._rules.linear import triangle
from meshsolve._rules.products import adjoint

Kind = Literal[1, 2, 3]
"""A V = B V W, A B V = V W or B A V = V W."""


def check_kind(kind) -> None:
    """Refuse what is no problem."""
    if not isinstance(kind, int) or kind not in (1, 2, 3):
        got = dispatch.described(kind)
        raise mistake("eigh", "type", "1, 2 or 3", got, "see the documentation of eigh")


def prepared(a, b, mesh) -> tuple[Any, Any]:
    """The matrices in their common dtype, B where A is."""
    check_square("eigh", a)
    if a.ndim != 2 or b.shape != a.shape:
        expected = f"one matrix of the shape of a, {a.shape}" if a.ndim == 2 else "one matrix, as a"
        got = f"shape {b.shape}, and a of shape {a.shape}"
        raise mistake("eigh", "b", expected, got, "use jax.vmap for a batch of pairs")
    dtype = common_dtype("eigh", "a and b", a, b)
    a, b = promoted(a, dtype), promoted(b, dtype)
    return a, b if mesh is not None else dispatch.executor(a, b).as_given(b, a)


def factor_of(b, lower: bool, on_failure: str, mesh, engine) -> CholeskyFactor:
    """L of B = L L^H."""
    raises = failures.raises("eigh", on_failure)
    traced = dispatch.executor(b) is not eager
    chosen = (on_failure if traced else "nan", mesh, engine)
    factor = factored("eigh", b, lower, False, *chosen)
    info = 0 if traced or not raises else int(factor.info)
    if info:
        got = f"leading minor of order {info} is not positive definite"
        raise no_answer("eigh", "positive definite", got, info, False, "b")
    return factor


def reduced(a, factor: CholeskyFactor, kind: Kind, lower: bool) -> jax.Array:
    """L^-1 A L^-H, or L^H A L, of a given triangle of A and B = L L^H."""
    whole = _beside(meshes.where_it_lies(_whole, a, lower), a)
    by: Any = factor.solve_triangular
    if kind != 1:
        by = functools.partial(factor.dot_triangular, trans=2)
    half = _beside(by(whole), a)
    return _beside(by(_beside(meshes.where_it_lies(_adjoint, half), a)), a)


def restored(y, a, factor: CholeskyFactor, kind: Kind) -> jax.Array:
    """The eigenvectors of the pair from those of the reduced matrix."""
    v = factor.dot_triangular(y) if kind == 3 else factor.solve_triangular(y, trans=2)
    return _beside(v, a)


def _beside(x, a):
    """X in the sharding of A, if it has A's shape."""
    return dispatch.executor(x, a).as_given(x, a) if x.shape == a.shape else x


@jax.jit
def _adjoint(x):
    return adjoint(x, like=x)


@functools.partial(jax.jit, static_argnums=1)
def _whole(a, lower: bool):
    return _mirrored(lower, a)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _mirrored(lower: bool, a):
    """A from its triangle."""
    strict = triangle(a, lower=lower, without_diagonal=True)
    diagonal = triangle(a, lower=lower) - strict
    return strict + adjoint(strict, like=a) + (diagonal + diagonal.conj()) / 2


@_mirrored.defjvp
def _(lower: bool, primals, tangents):
    (a,), (da,) = primals, tangents
    return _mirrored(lower, a), (da + adjoint(da, like=da)) / 2
