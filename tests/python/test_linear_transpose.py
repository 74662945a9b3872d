"""``jax.linear_transpose`` of solutions, which are linear in their right-hand sides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshsolve as ms
from helpers import mesh_of, mesh_set, normal, positive_definite, put

pytestmark = pytest.mark.versions

N = 8


def matrix(dtype):
    return positive_definite("random", N, dtype, np.random.default_rng(0))


def lower(a):
    return jnp.tril(a)


def pair(a):
    return jnp.asarray(np.linalg.cholesky(np.asarray(a))), True


# The solve, and its dense matrix.
SOLVES = {
    "solve": (lambda a, b: ms.solve(a, b), lambda a: a),
    "solve transposed": (lambda a, b: ms.solve(a, b, transposed=True), lambda a: a.T),
    "solve pos": (lambda a, b: ms.solve(a, b, assume_a="pos"), lambda a: a),
    "solve her": (lambda a, b: ms.solve(a, b, lower=True, assume_a="her"), lambda a: a),
    "refine": (lambda a, b: ms.solve(a, b, refine=True), lambda a: a),
    "padded": (lambda a, b: ms.solve(np.asarray(a), b, mesh=mesh_of(range(3))), lambda a: a),
    "lu_solve": (lambda a, b: ms.lu_solve(ms.lu_factor(a), b, 2), lambda a: a.conj().T),
    "lu pair": (lambda a, b: ms.lu_solve(tuple(ms.lu_factor(a)), b), lambda a: a),
    "cho_solve": (lambda a, b: ms.cho_solve(ms.cho_factor(a), b), lambda a: a),
    "cho pair": (lambda a, b: ms.cho_solve(pair(a), b), lambda a: a),
    "triangular": (lambda a, b: ms.solve_triangular(a, b, lower=True), np.tril),
    "half": (lambda a, b: ms.cho_factor(a).solve_triangular(b), np.linalg.cholesky),
    "method": (lambda a, b: ms.lu_factor(a).solve(b, trans=1), lambda a: a.T),
}


@pytest.mark.parametrize(
    ("name", "where", "dtype"),
    [
        (name, ("one device", "auto", "explicit")[(i + j) % 3], ("float64", "complex128")[i % 2])
        for i, name in enumerate(SOLVES)
        for j in range(3 if name == "solve" else 1)
    ],
)
def test_transposed_solves(name, where, dtype):
    """Vectors and columns, also under vmap, and inside of jit."""
    solve, applied = SOLVES[name]
    a = matrix(dtype)
    mesh = None if where == "one device" else mesh_of(range(4), where)
    at = put(mesh, a, "x", None) if mesh else jnp.asarray(a)
    with mesh_set(mesh if name != "padded" else None):
        check(solve, at, applied(a), dtype)


def check(solve, at, applied, dtype):
    rng = np.random.default_rng(1)
    for shape in ((N,), (N, 3), (2, N)):
        ct = normal(rng, shape, dtype)
        like = jax.ShapeDtypeStruct(shape[-1:] if shape == (2, N) else shape, dtype)
        transposed = jax.linear_transpose(lambda b: solve(at, b), like)
        run = lambda ct, t=transposed: t(ct)[0]  # noqa: E731
        if shape == (2, N):
            run = jax.vmap(run)
        wanted = np.linalg.solve(applied.T, ct.T if shape == (2, N) else ct)
        wanted = wanted.T if shape == (2, N) else wanted
        for transform in (lambda f: f, jax.jit):
            np.testing.assert_allclose(transform(run)(ct), wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["solve", "solve pos", "triangular", "half", "refine"])
def test_derivatives_by_the_matrix_of_a_transposed_solve(name):
    solve, _ = SOLVES[name]
    a, ct = jnp.asarray(matrix("float64")), jnp.arange(1.0, N + 1)
    weights = jnp.linspace(1, 2, N)

    def ours(a):
        (x,) = jax.linear_transpose(lambda b: solve(a, b), ct)(ct)
        return x @ weights

    def jnps(a):
        a = jnp.linalg.cholesky(a) if name == "half" else jnp.tril(a) if name == "triangular" else a
        return jnp.linalg.solve(a.T, ct) @ weights

    half = lambda g: (g + g.T) / 2  # noqa: E731
    got, wanted = jax.grad(ours)(a), jax.grad(jnps)(a)
    np.testing.assert_allclose(half(got), half(wanted), rtol=0, atol=1e-12)


def test_the_transpose_of_a_lineax_operator():
    lx = pytest.importorskip("lineax")
    a = matrix("float64") + np.triu(np.ones((N, N)))
    at = put(mesh_of(range(4)), a, "x", None)
    operator = lx.FunctionLinearOperator(
        lambda b: ms.solve(at, b), jax.ShapeDtypeStruct((N,), np.float64)
    )
    b = np.arange(1.0, N + 1)
    np.testing.assert_allclose(operator.T.mv(b), np.linalg.solve(a.T, b), rtol=0, atol=1e-12)
    np.testing.assert_allclose(operator.T.T.mv(b), np.linalg.solve(a, b), rtol=0, atol=1e-12)
