"""NaN and Inf in a matrix: no answer, whatever the function and the entry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshsolve as ms
from helpers import STORAGES, mesh_of, put_matrix

N = 8
ONES = np.ones(N)
PLACES = ((0, 0), (N - 1, N - 1), (2, 5), (5, 2), (0, N - 1), (N - 1, 0))
CALLS = {
    "solve": lambda a, **o: ms.solve(a, ONES, **o),
    "solve pos": lambda a, **o: ms.solve(a, ONES, assume_a="pos", lower=True, **o),
    "solve refined": lambda a, **o: ms.solve(a, ONES, refine=True, **o),
    "solve with info": lambda a, **o: ms.solve(a, ONES, return_info=True, **o)[0],
    "lu_factor": lambda a, **o: ms.lu_factor(a, **o).solve(ONES),
    "cho_factor": lambda a, **o: ms.cho_factor(a, lower=True, **o).solve(ONES),
    "inv": ms.inv,
    "inv her": lambda a, **o: ms.inv(a, assume_a="her", lower=True, **o),
}


def with_entry(base: str, place: tuple[int, int], value: float) -> np.ndarray:
    dense = 4 * np.eye(N) + 1 / (1 + np.arange(N) + np.arange(N)[:, None])
    a = {"dense": dense, "identity": np.eye(N)}[base]
    a[place] = value
    return a


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("i", "name"), list(enumerate(CALLS)))
def test_no_answer(i, name, value):
    """NaN by default, an error on request: eagerly, and in programs where it is read."""
    call, mesh = CALLS[name], mesh_of(range(4), ("auto", "explicit")[i % 2])
    triangle = "pos" in name or "her" in name or name == "cho_factor"
    places = [(i, j) for i, j in PLACES if i >= j or not triangle]
    for k, (place, base) in enumerate((p, b) for p in places for b in ("dense", "identity")):
        a = put_matrix(mesh, with_entry(base, place, value), STORAGES[(i + k) % 4])
        assert np.isnan(call(a)).all(), (place, base)
        with pytest.raises(np.linalg.LinAlgError, match=r"\(info = [1-8]\)"):
            call(a, on_failure="raise")
    with jax.set_mesh(mesh):
        assert np.isnan(jax.jit(call)(a)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_info_is_the_pivot_that_is_not_finite(value):
    """LU of the identity: an infinite entry is its column's pivot, a NaN that of its row."""
    mesh = mesh_of(range(2))
    for place, expected in (((5, 2), 6 if np.isnan(value) else 3), ((2, 5), 6), ((3, 3), 4)):
        factor = ms.lu_factor(put_matrix(mesh, with_entry("identity", place, value), "rows"))
        assert int(factor.info) == expected
        lu, _ = factor
        values = (lu, factor.det(), *factor.slogdet(), factor.rcond(), factor.inv(), factor.anorm)
        assert all(np.isnan(x).all() for x in values)
        _, stated = ms.solve(with_entry("dense", place, value), ONES, return_info=True)
        assert int(stated.info) > 0 and np.isnan(stated.rcond)


def test_a_singular_matrix_with_an_entry_that_is_not_finite():
    """A zero pivot comes first; the determinant is NaN in any case."""
    for value in (np.nan, np.inf):
        a = np.eye(N)
        a[:, 0], a[4, 6] = 0, value
        factor = ms.lu_factor(a)
        assert int(factor.info) == 1
        assert np.isnan(factor.det()) and np.isnan(ms.slogdet(a)[1])


def test_norms_and_transposition_keep_such_values():
    a = with_entry("dense", (2, 5), np.inf)
    assert np.isinf(ms.norm(a, 1)) and np.isinf(ms.norm(a))
    assert np.isnan(ms.norm(with_entry("dense", (2, 5), np.nan)))
    np.testing.assert_array_equal(ms.transpose_inplace(jnp.asarray(a)), a.T)


def test_sums_that_overflow_are_no_such_entries():
    """Finite entries whose 1-norm and whose |Re| + |Im| are infinite."""
    huge = float(np.finfo(np.float64).max) / 2
    factor = ms.lu_factor(np.full((4, 4), huge) * [[1], [1], [1], [1]])
    assert int(factor.info) == 2 and float(factor.det()) == 0
    a = np.eye(4) * (1.5 * huge * (1 + 1j))
    x, stated = ms.solve(a, a @ np.ones(4), return_info=True)
    assert int(stated.info) == 0 and np.isfinite(x).all()
