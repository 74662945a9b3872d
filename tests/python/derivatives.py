"""The functions that have derivatives, of a general matrix and right-hand sides, and their equals
in jnp. If one triangle is read the argument is a Hermitian (symmetric) function of A.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest

import meshsolve as ms
from helpers import normal


class Function(NamedTuple):
    ours: Callable
    jnps: Callable
    prepare: Callable = lambda a: a


def hermitian(a):
    return a @ a.conj().T


def real_on_the_diagonal(a):
    """A with a real diagonal, as a Cholesky factor has."""
    return jnp.where(jnp.eye(len(a), dtype=bool), a.real, a)


def _tri(a, lower, unit):
    t = jnp.tril(a) if lower else jnp.triu(a)
    return t - jnp.diag(jnp.diag(t)) + jnp.eye(len(a), dtype=a.dtype) if unit else t


PIVOTS = (2, 1, 3, 3, 4, 7, 6, 7)  # of the pair for an LU factor


def _permuted(lu):
    """A of the pair (lu, PIVOTS)."""
    rows = list(range(len(lu)))
    for i, p in enumerate(PIVOTS):
        rows[i], rows[p] = rows[p], rows[i]
    eye = jnp.eye(len(lu), dtype=lu.dtype)
    return eye[:, jnp.array(rows)] @ (jnp.tril(lu, -1) + eye) @ jnp.triu(lu)


FUNCTIONS = {
    "solve": Function(ms.solve, jnp.linalg.solve),
    "solve transposed": Function(
        lambda a, b: ms.solve(a, b, transposed=True), lambda a, b: jnp.linalg.solve(a.T, b)
    ),
    "solve pos": Function(lambda a, b: ms.solve(a, b, assume_a="pos"), jnp.linalg.solve, hermitian),
    "solve pos transposed": Function(
        lambda a, b: ms.solve(a, b, assume_a="pos", transposed=True, lower=True),
        lambda a, b: jnp.linalg.solve(a.T, b),
        hermitian,
    ),
    "solve her": Function(
        lambda a, b: ms.solve(a, b, assume_a="her"), jnp.linalg.solve, lambda a: a + a.conj().T
    ),
    "solve sym": Function(
        lambda a, b: ms.solve(a, b, assume_a="sym"), jnp.linalg.solve, lambda a: a + a.T
    ),
    "solve with info": Function(lambda a, b: ms.solve(a, b, return_info=True)[0], jnp.linalg.solve),
    "solve refined": Function(lambda a, b: ms.solve(a, b, refine=True), jnp.linalg.solve),
    "cho_solve": Function(
        lambda a, b: ms.cho_solve(ms.cho_factor(a, lower=True), b), jnp.linalg.solve, hermitian
    ),
    "cho_solve of a pair": Function(
        lambda a, b: ms.cho_solve((a, True), b),
        lambda a, b: jsl.cho_solve((a, True), b),
        real_on_the_diagonal,
    ),
    "cho_solve of an upper pair": Function(
        lambda a, b: ms.cho_solve((a, False), b),
        lambda a, b: jsl.cho_solve((a, False), b),
        real_on_the_diagonal,
    ),
    "lu_solve": Function(lambda a, b: ms.lu_solve(ms.lu_factor(a), b), jnp.linalg.solve),
    "lu_solve transposed": Function(
        lambda a, b: ms.lu_factor(a).solve(b, 1), lambda a, b: jnp.linalg.solve(a.T, b)
    ),
    "lu_solve adjoint": Function(
        lambda a, b: ms.lu_factor(a).solve(b, 2), lambda a, b: jnp.linalg.solve(a.conj().T, b)
    ),
    "lu_solve of a pair": Function(
        lambda a, b: ms.lu_solve((a, jnp.array(PIVOTS)), b),
        lambda a, b: jnp.linalg.solve(_permuted(a), b),
    ),
    "lu_solve of a pair, adjoint": Function(
        lambda a, b: ms.lu_solve((a, jnp.array(PIVOTS)), b, 2),
        lambda a, b: jnp.linalg.solve(_permuted(a).conj().T, b),
    ),
    "cholesky": Function(
        lambda a, b: ms.cholesky(a, lower=True), lambda a, b: jnp.linalg.cholesky(a), hermitian
    ),
    "half of a solve": Function(
        lambda a, b: ms.cho_factor(a).solve_triangular(b),
        lambda a, b: jnp.linalg.solve(jnp.linalg.cholesky(a), b),
        hermitian,
    ),
    "product with half": Function(
        lambda a, b: ms.cho_factor(a, lower=True).dot_triangular(b, 2),
        lambda a, b: jnp.linalg.cholesky(a).conj().T @ b,
        hermitian,
    ),
    "inv": Function(lambda a, b: ms.inv(a), lambda a, b: jnp.linalg.inv(a)),
    "inv pos": Function(
        lambda a, b: ms.inv(a, assume_a="pos"), lambda a, b: jnp.linalg.inv(a), hermitian
    ),
    "inverse of a factor": Function(
        lambda a, b: ms.lu_factor(a).inv(), lambda a, b: jnp.linalg.inv(a)
    ),
    "det": Function(lambda a, b: ms.det(a), lambda a, b: jnp.linalg.det(a)),
    "slogdet": Function(
        lambda a, b: tuple(ms.slogdet(a)), lambda a, b: tuple(jnp.linalg.slogdet(a))
    ),
    "norm": Function(lambda a, b: ms.norm(a), lambda a, b: jnp.linalg.norm(a)),
    "norm 1": Function(lambda a, b: ms.norm(a, 1), lambda a, b: jnp.linalg.norm(a, 1)),
    "norm inf": Function(
        lambda a, b: ms.norm(a, jnp.inf), lambda a, b: jnp.linalg.norm(a, jnp.inf)
    ),
    "norms of columns": Function(
        lambda a, b: ms.norm(a, 3, 0), lambda a, b: jnp.linalg.norm(a, 3, 0)
    ),
    "logdet": Function(
        lambda a, b: ms.cho_factor(a).logdet(),
        lambda a, b: jnp.linalg.slogdet(a)[1],
        hermitian,
    ),
    **{
        f"solve_triangular {trans} {lower} {unit}": Function(
            lambda a, b, t=trans, lower=lower, u=unit: ms.solve_triangular(a, b, t, lower, u),
            lambda a, b, t=trans, lower=lower, u=unit: jnp.linalg.solve(
                (lambda m: {0: m, 1: m.T, 2: m.conj().T}[t])(_tri(a, lower, u)), b
            ),
        )
        for trans, lower, unit in ((0, False, False), (1, True, False), (2, True, True))
    },
}

PLACES = tuple(itertools.product(("auto", "explicit"), ("rows", "columns")))
# All combinations of these are tested; the others take turns.
THOROUGHLY = ("solve", "slogdet")
# These follow another function through the rules, with another triangle, operation or axis.
# `make test-slow` tests their second orders and batches.
ALIKE = (
    "solve transposed", "solve pos", "cho_solve of an upper pair", "lu_solve",
    "lu_solve transposed", "lu_solve of a pair", "norm 1", "solve_triangular 0 False False",
)  # fmt: skip


def by_rule(*values, name: str):
    """A parameter set, marked as slow for functions that are like others."""
    return pytest.param(*values, marks=[pytest.mark.slow] if name in ALIKE else [])


def operands(dtype, n: int = 8, k: int = 3, seed: int = 0):
    """A well-conditioned A [n, n] and B [n, k]."""
    rng = np.random.default_rng(seed)
    a = 0.2 * normal(rng, (n, n), dtype) + 1.5 * np.eye(n)
    return a.astype(dtype), normal(rng, (n, k), dtype)


@jax.jit  # one program, otherwise each operation would be one
def number(x):
    """A real number that depends on every entry of the results."""
    return sum(jnp.sum(y.real / (1 + jnp.abs(y) ** 2) + y.imag) for y in jax.tree.leaves(x))
