"""Numerical failures: info is LAPACK's, and only the solution is NaN."""

import jax
import numpy as np
import pytest
from allpairspy import AllPairs

import meshsolve as ms
from helpers import (
    DTYPES,
    STORAGES,
    lapack_info,
    mesh_of,
    one_triangle,
    positive_definite,
    put,
    put_matrix,
    unit_roundoff,
)

pytestmark = pytest.mark.whole_file


def solve_info(a, p=4, lower=False, k=1, storage="rows"):
    mesh = mesh_of(range(p))
    b = put(mesh, np.ones((len(a), k), a.dtype))
    x, info = ms.solve(put_matrix(mesh, a, storage), b, lower, assume_a="pos", return_info=True)
    return np.asarray(x), int(info.info)


@pytest.mark.parametrize(
    ("dtype", "lower", "storage"), list(AllPairs([DTYPES, [False, True], STORAGES]))
)
def test_info_is_lapacks_on_every_rank_and_in_the_last_tile(dtype, lower, storage):
    n, p = 520, 4  # three tiles a rank
    rng = np.random.default_rng(0)
    good = positive_definite("random", n, dtype, rng)
    # First and last column of the matrix, and a column on each rank.
    for failing in (0, 1, 129, 130, 200, 300, 450, n - 1):
        a = good.copy()
        a[failing, failing] = -1
        x, info = solve_info(one_triangle(a, lower), p, lower, storage=storage)
        assert info == failing + 1 == lapack_info(a, lower)
        assert np.isnan(x).all()


@pytest.mark.parametrize("k", [1, 64])
def test_every_right_hand_side_is_nan(k):
    x, info = solve_info(-np.eye(64), k=k)
    assert info == 1 and x.shape == (64, k) and np.isnan(x).all()


def test_the_first_of_two_failures_counts():
    a = np.eye(64)
    a[40, 40] = a[20, 20] = -1
    assert solve_info(a)[1] == 21


def test_zero_and_semidefinite():
    assert solve_info(np.zeros((64, 64)))[1] == 1 == lapack_info(np.zeros((64, 64)), False)
    a = np.diag([1.0] * 30 + [0.0] + [1.0] * 33)
    assert solve_info(a)[1] == 31 == lapack_info(a, False)


@pytest.mark.parametrize(
    ("value", "where", "storage"),
    list(AllPairs([[np.nan, np.inf, -np.inf], [(5, 5), (3, 50), (63, 63)], STORAGES])),
)
def test_entries_that_are_not_finite_give_nan_and_no_crash(value, where, storage):
    a = np.eye(64)
    a[where] = a[where[::-1]] = value
    x, info = solve_info(a, storage=storage)
    assert np.isnan(x).all()
    # The first pivot that is not a positive number, as in LAPACK's definition (OpenBLAS reports
    # none for NaN). LAPACK continues after an infinite pivot; here it counts as a failure.
    assert info == max(where) + 1


def test_hilbert_either_fails_as_lapack_or_solves():
    for n in (4, 8, 12, 16):
        i = np.arange(n)
        a = 1.0 / (i[:, None] + i + 1)
        x, info = solve_info(a, 2)
        expected = lapack_info(a, False)
        assert (info > 0) == (expected > 0) or abs(info - expected) <= 1
        if info == 0:
            residual = np.abs(a @ x - 1).sum() / (n * np.abs(a).sum(0).max() * np.abs(x).sum())
            assert residual <= 30 * unit_roundoff("float64")


def test_info_under_jit():
    mesh = mesh_of(range(2))
    a = np.eye(8)
    a[6, 6] = 0
    f = jax.jit(lambda a, b: ms.solve(a, b, assume_a="pos", return_info=True))
    x, info = f(put(mesh, a, "x", None), put(mesh, np.ones(8)))
    assert int(info.info) == 7 and np.isnan(x).all()


def test_a_failure_leaves_nothing_behind():
    for _ in range(20):
        assert solve_info(-np.eye(64))[1] == 1
        x, info = solve_info(np.eye(64))
        assert info == 0 and (x == 1).all()
