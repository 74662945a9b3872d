"""The generalised Hermitian eigenproblem, reduced to that of one matrix by a Cholesky factor."""

import functools
from typing import Any, Literal

import jax

from meshsolve._api.cholesky import CholeskyFactor
from meshsolve._execute import meshes
from meshsolve._library.errors import mistake
from meshsolve._rules.linear import triangle
from meshsolve._rules.products import adjoint

Kind = Literal[1, 2, 3]
"""A V = B V W, A B V = V W or B A V = V W."""


def check(a, b, kind) -> None:
    """Refuse what is no pair of matrices, or no problem with them."""
    if kind not in (1, 2, 3):
        raise mistake("eigh", "type", "1, 2 or 3", repr(kind), "see the documentation of eigh")
    if a.ndim != 2 or b.shape != a.shape:
        expected = f"one matrix of the shape of a, {a.shape}" if a.ndim == 2 else "one matrix, as a"
        got = f"shape {b.shape}, and a of shape {a.shape}"
        raise mistake("eigh", "b", expected, got, "use jax.vmap for a batch of pairs")


def reduced(a, factor: CholeskyFactor, kind: Kind, lower: bool) -> jax.Array:
    """L^-1 A L^-H, or L^H A L, of a given triangle of A and B = L L^H."""
    a = meshes.where_it_lies(_whole, a, lower)
    by: Any = factor.solve_triangular
    if kind != 1:
        by = functools.partial(factor.dot_triangular, trans=2)
    return by(meshes.where_it_lies(_adjoint, by(a)))


def restored(y, factor: CholeskyFactor, kind: Kind) -> jax.Array:
    """The eigenvectors of the pair from those of the reduced matrix."""
    return factor.dot_triangular(y) if kind == 3 else factor.solve_triangular(y, trans=2)


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
