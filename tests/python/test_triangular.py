"""Triangular systems: solve_triangular for every storage, triangle and operation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from grids import Grid
from helpers import (
    ORDERS,
    REDUCED,
    SIZES,
    STORAGES,
    WHOLE,
    general,
    mesh_of,
    mesh_set,
    normal,
    put,
    put_matrix,
    solve_ratio,
)

GRID = Grid(
    **WHOLE,
    k=[(), (1,), (3,), (40,), (320,)],
    kind=["dominant", "kms", "minij"],
    trans=[0, 1, 2, "N", "T", "C"],
    lower=[False, True],
    unit=[False, True],  # unit_diagonal
    jit=[False, True],
    over=[False, True],  # overwrite_b
)


def triangle(a, lower, unit):
    """(The matrix of the system, the operand: NaN wherever no entry may be read)."""
    t = np.tril(a) if lower else np.triu(a)
    given = np.where(
        np.tri(len(a), dtype=bool) if lower else np.tri(len(a), dtype=bool).T, t, np.nan
    )
    if unit:
        np.fill_diagonal(t, 1)
        np.fill_diagonal(given, np.nan)
    return t.astype(a.dtype), given.astype(a.dtype)


def check_solve_triangular(
    dtype, p, size, k, kind, storage, trans, lower, unit, axis_type, jit, over
):
    n = SIZES[size] * p - (storage == "padded")
    rng = np.random.default_rng([n, p])
    a = general(kind, n, dtype, rng)
    # Rows much larger than the unit diagonal must not let solutions grow beyond all bounds.
    a = a / max(np.abs(a).max(initial=0), 1) / (n if unit and n else 1)
    t, given = triangle(a.astype(dtype), lower, unit)
    b = normal(rng, (n, *k), dtype)
    mesh = mesh_of(ORDERS[p], axis_type)
    onto = mesh if storage == "padded" else None
    a_dev = given if onto else put_matrix(mesh, given, storage)
    b_dev = jnp.asarray(b) if onto else put(mesh, b)
    call = lambda a, b: ms.solve_triangular(  # noqa: E731
        a, b, trans, lower, unit, overwrite_b=over, mesh=onto
    )
    with mesh_set(onto if jit else None):
        x = (jax.jit(call) if jit else call)(a_dev, b_dev)
    assert x.shape == b.shape and x.dtype == a_dev.dtype
    operated = {0: t, "N": t, 1: t.T, "T": t.T, 2: t.conj().T, "C": t.conj().T}[trans]
    ratio = solve_ratio(operated, x, b)
    assert np.isfinite(ratio) and ratio <= 3
    if not onto:
        np.testing.assert_array_equal(a_dev, given)


@pytest.mark.parametrize("case", GRID.pairs(**REDUCED), ids=str)
def test_solve_triangular(case):
    check_solve_triangular(**case)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("k", [1, 40])
def test_a_zero_on_the_diagonal_gives_nan(storage, k):
    t = np.triu(np.ones((64, 64)))
    t[17, 17] = 0
    a, b = put_matrix(mesh_of(range(4)), t, storage), np.ones((64, k))
    assert np.isnan(ms.solve_triangular(a, b)).all()
    assert np.isfinite(ms.solve_triangular(a, b, unit_diagonal=True)).all()


@pytest.mark.parametrize("storage", ["rows", "columns", "column-major"])
def test_the_matrix_is_not_copied(storage):
    """The program's memory has no room for a shard in addition to its operands."""
    n, mesh = 512, mesh_of(range(4))
    a = put_matrix(mesh, np.triu(np.ones((n, n))) + n * np.eye(n), storage)
    if storage == "column-major":
        ms.solve_triangular(a, np.ones(n))
        return
    spec = NamedSharding(mesh, P("x", None) if storage == "rows" else P(None, "x"))
    like = jax.ShapeDtypeStruct((n, n), a.dtype, sharding=spec)
    b = jax.ShapeDtypeStruct((n, 1), a.dtype, sharding=NamedSharding(mesh, P()))
    compiled = jax.jit(ms.solve_triangular).lower(like, b).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < n * n // 4 * 8
    assert "copy" not in Program(compiled).makers(n * n // 4)


def test_mistakes():
    a = put(mesh_of(range(2)), np.eye(8), "x", None)
    with pytest.raises(
        ValueError, match=r"solve_triangular: trans: expected 0, 1 or 2, got 'H'; 0 solves with A"
    ):
        ms.solve_triangular(a, np.ones(8), "H")
    with pytest.raises(ValueError, match=r"solve_triangular: b: expected shape \[8\] or"):
        ms.solve_triangular(a, np.ones(7))
    with pytest.raises(ValueError, match=r"solve_triangular: a: expected a square matrix"):
        ms.solve_triangular(np.ones((8, 4)), np.ones(8))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_random_cases_of_the_grid(seed):
    """A seeded sample of the whole grid."""
    check_solve_triangular(**GRID.draw([3, seed]))
