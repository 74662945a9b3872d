"""Matrices that a function makes some rows of at a time: the same answers, and never in full."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshsolve as ms
from helpers import DTYPES, mesh_of, run_fresh

pytestmark = pytest.mark.versions

N = 13
POINTS = np.random.default_rng(5).standard_normal((N, 3))


def kernel(dtype, xp=np):
    """A positive definite matrix."""
    far = ((POINTS[:, None] - POINTS) ** 2).sum(-1)
    return xp.asarray(np.exp(-far) + np.eye(N), dtype)


def rows(dtype, xp=np):
    return ms.Rows(lambda first, end: kernel(dtype, xp)[first:end], N, dtype)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize(("i", "dtype"), list(enumerate(DTYPES)))
def test_every_function_with_a_mesh(i, dtype, xp):
    mesh = mesh_of(range(4), ("auto", "explicit")[i % 2])
    a, b, given = kernel(dtype), np.ones((N, 2), dtype), rows(dtype, xp)
    for run in (
        ms.solve,
        functools.partial(ms.solve, assume_a="pos"),
        ms.solve_triangular,
        lambda a, b, **o: ms.inv(a, **o),
        lambda a, b, **o: ms.norm(a, **o),
        lambda a, b, **o: ms.slogdet(a, **o),
        lambda a, b, **o: ms.logdet(a, **o),
        lambda a, b, **o: ms.lu_factor(a, **o).solve(b),
        lambda a, b, **o: ms.cho_factor(a, **o).solve(b),
    ):
        got, wanted = run(given, b, mesh=mesh), run(a, b, mesh=mesh)
        jax.tree.map(np.testing.assert_array_equal, got, wanted)
    with jax.set_mesh(mesh):  # in a program it is a constant
        inside = jax.jit(lambda b: ms.solve(given, b, mesh=mesh))(b)
    np.testing.assert_allclose(a @ np.asarray(inside), b, atol=1e-5)
    assert ms.plan(given, b, mesh=mesh).padded == 16


def test_rows_are_asked_for_once_and_in_blocks():
    asked = []

    def function(first, end):
        asked.append((first, end))
        return np.eye(N)[first:end]

    ms.norm(ms.Rows(function, N, np.float64), mesh=mesh_of(range(4)))
    assert asked == [(0, 4), (4, 8), (8, 12), (12, 13)]


def test_messages():
    mesh = mesh_of(range(4))
    short = ms.Rows(lambda first, end: np.ones((end - first, N - 1)), N, np.float64)
    with pytest.raises(ValueError) as raised:
        ms.norm(short, mesh=mesh)
    assert str(raised.value) == (
        f"meshsolve.Rows: function: expected an array of shape (4, {N}) for rows 0 to 3, got shape "
        f"(4, {N - 1}); give one row of the matrix in each row, all of its columns"
    )
    with pytest.raises(ValueError, match="expected numbers for float32, got complex128; give Rows"):
        ms.norm(ms.Rows(lambda *i: kernel("complex128")[slice(*i)], N, "float32"), mesh=mesh)
    with pytest.raises(ValueError, match=r"go with Rows, got a batch; give them as columns"):
        ms.solve(rows("float64"), np.ones((2, N, 1)), mesh=mesh)
    make = lambda first, end: np.eye(N)[first:end]  # noqa: E731
    for wrong, error, text in (
        ((5, N, "float32"), TypeError, "function: expected a function of two row numbers, got int"),
        ((make, -3, "float32"), ValueError, "n: expected an integer from 0 on, got -3"),
        ((make, 7.0, "float32"), ValueError, "n: expected an integer from 0 on, got 7.0"),
        ((make, N, "float65"), TypeError, "dtype: expected a dtype of NumPy's or JAX's, got 'floa"),
    ):
        with pytest.raises(error) as raised:
            ms.Rows(*wrong)
        assert str(raised.value).startswith(f"meshsolve.Rows: {text}")
    scaled = lambda s: ms.Rows(lambda first, end: s * make(first, end), N, "float64")  # noqa: E731
    with pytest.raises(TypeError, match="expected rows that are not traced, got a traced value"):
        jax.grad(lambda s: ms.solve(scaled(s), np.ones(N), mesh=mesh).sum())(1.0)
    with pytest.raises(ValueError, match=r"meshsolve\.plan: mesh: expected a mesh for a matrix of"):
        ms.plan(rows("float64"))
    with pytest.raises(ValueError) as raised:
        ms.solve(rows("float64"), np.ones(N))
    assert str(raised.value) == (
        "meshsolve.solve: mesh: expected a mesh for a matrix of Rows, got None; tell by mesh= "
        "which devices the rows are for, jax.make_mesh((4,), ('x',))"
    )
    with pytest.raises(TypeError) as raised:
        ms.solve(np.eye(N), rows("float64"))
    assert str(raised.value) == (
        "meshsolve.solve: b: expected an array, or what makes one, got Rows; it may be the matrix "
        "of a function that has mesh="
    )


def test_the_matrix_is_nowhere_in_full():
    """An order that four devices do not divide: the shards, a device's rows, a block."""
    ran = run_fresh(
        """
        sys.path.append(str(ROOT / "benchmarks"))
        from memory import peak, reset_peak
        mesh = mesh_of(range(4))

        def solved(n):
            i = np.arange(n)
            make = lambda first, end: 0.5 ** np.abs(i[first:end, None] - i) * 1.0
            return ms.solve(ms.Rows(make, n, np.float64), np.ones(n), mesh=mesh, assume_a="pos")

        solved(511).block_until_ready()
        before = reset_peak()
        solved(6143).block_until_ready()
        tell((peak() - before) / (6144 * 6144 * 8))
        """
    )
    assert ran.reported[0] < 1.5
