"""Eager calls are prepared once: later ones only run the program."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshsolve as ms
from helpers import mesh_of, positive_definite, put, put_matrix, solve_ratio

PACKAGE = str(Path(ms.__file__).parent)
N, MOST = 24, 15


def entered(call) -> list[str]:
    """The functions of the package that a warm call enters."""
    call(), call()
    names = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


@pytest.fixture
def a():
    return positive_definite("random", N, np.float32, np.random.default_rng(1))


@pytest.mark.parametrize("columns", [None, 2, 40], ids=["vector", "replicated", "distributed"])
@pytest.mark.parametrize("storage", ["rows", "columns", "column-major", "one device"])
def test_a_warm_solve_enters_few_functions(a, storage, columns):
    mesh = mesh_of(range(4))
    given = jnp.asarray(a) if storage == "one device" else put_matrix(mesh, a, storage)
    b = np.ones(N if columns is None else (N, columns), np.float32)
    for there in (jnp.asarray(b), put(mesh, b)) if given.sharding.num_devices > 1 else (b,):
        there = jnp.asarray(there)
        for options in ({}, {"assume_a": "pos", "return_info": True}, {"on_failure": "raise"}):
            names = entered(lambda: ms.solve(given, there, **options))  # noqa: B023
            raises = "on_failure" in options  # it also looks at `info`
            assert len(names) <= MOST + raises, names


# Of a vector b, and a matrix by rows.
OTHERS = {
    "lu_factor": (16, lambda a, b, *_: ms.lu_factor(a)),
    "cho_factor": (16, lambda a, b, *_: ms.cho_factor(a)),
    "LUFactor.solve": (24, lambda a, b, lu, cholesky: lu.solve(b)),
    "CholeskyFactor.solve": (22, lambda a, b, lu, cholesky: cholesky.solve(b)),
    "lu_solve": (24, lambda a, b, lu, cholesky: ms.lu_solve(lu, b)),
    "cho_solve": (22, lambda a, b, lu, cholesky: ms.cho_solve(cholesky, b)),
    "solve_triangular": (18, lambda a, b, *_: ms.solve_triangular(a, b)),
    "inv": (18, lambda a, b, *_: ms.inv(a)),
    "det": (34, lambda a, b, *_: ms.det(a)),
    "logdet": (32, lambda a, b, *_: ms.logdet(a)),
    "norm": (18, lambda a, b, *_: ms.norm(a)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_warm_calls_enter_few_functions(a, name):
    most, call = OTHERS[name]
    given, b = put_matrix(mesh_of(range(4)), a, "rows"), jnp.ones(N, jnp.float32)
    factors = ms.lu_factor(given), ms.cho_factor(given)
    names = entered(lambda: call(given, b, *factors))
    assert len(names) <= most, names


def test_what_is_prepared_belongs_to_its_operands_and_options(a):
    """One call after another, with something else each: none takes over what another prepared."""
    mesh, other = mesh_of(range(4)), mesh_of(range(4, 8))
    b = np.ones((N, 3), np.float32)
    for matrix in (put_matrix(mesh, a, "rows"), put_matrix(mesh, a, "columns"), jnp.asarray(a)):
        for sides in (jnp.asarray(b), put(mesh, b), put(other, b, "x"), put(mesh, b, "x")):
            for _ in range(2):
                found = ms.solve(matrix, sides)
                assert solve_ratio(a, found, b) < 30
            info = ms.solve(matrix, sides, return_info=True)[1]
            assert int(info.info) == 0 and float(info.rcond) > 0
    singular, sides = put_matrix(mesh, 0 * a, "rows"), put(mesh, b)
    for _ in range(2):
        assert bool(jnp.isnan(ms.solve(singular, sides)).all())
        with pytest.raises(np.linalg.LinAlgError, match="pivot 1 is zero"):
            ms.solve(singular, sides, on_failure="raise")


def test_a_prepared_call_takes_memory_only_where_it_may(a):
    mesh, b = mesh_of(range(4)), np.ones((N, 2), np.float32)
    for _ in range(2):
        kept, sides = put_matrix(mesh, a, "rows"), put(mesh, b)
        ms.solve(kept, sides)
        assert not kept.is_deleted() and not sides.is_deleted()
        ms.solve(kept, sides, overwrite_a=np.array(False))
        assert not kept.is_deleted()
        ms.solve(kept, sides, overwrite_a=True, overwrite_b=True)
        assert kept.is_deleted() and sides.is_deleted()
        with pytest.raises(ValueError, match="solve: a: expected an array that still has its mem"):
            ms.solve(kept, put(mesh, b))


def test_a_prepared_call_may_be_inside_of_a_traced_function(a):
    mesh, b = mesh_of(range(4)), np.ones((N, 2), np.float32)
    matrix, sides = put_matrix(mesh, a, "rows"), put(mesh, b)
    x = ms.solve(matrix, sides)
    inside = jax.jit(lambda y: ms.solve(matrix, sides) + y)
    assert np.array_equal(inside(jnp.zeros_like(x)), x)


def test_options_that_cannot_be_hashed_are_named(a):
    sides = jnp.ones(N, jnp.float32)
    for given in (["raise"], ("raise", [])):
        with pytest.raises(ValueError, match="solve: on_failure: expected"):
            ms.solve(jnp.asarray(a), sides, on_failure=given)
        with pytest.raises(TypeError, match="solve: mesh: expected"):
            ms.solve(jnp.asarray(a), sides, mesh=given)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
def test_results_have_the_precision_that_jax_allows(a):
    with jax.enable_x64(True):
        wide, sides = jnp.asarray(a, jnp.float64), jnp.ones(N, jnp.float64)
    for allowed, dtype in ((False, "float32"), (True, "float64"), (False, "float32")):
        with jax.enable_x64(allowed):
            assert ms.solve(wide, sides).dtype == dtype


def test_a_mesh_that_is_set_changes_no_result(a):
    mesh, other = mesh_of(range(4)), mesh_of(range(2), "explicit")
    matrix, sides = put_matrix(mesh, a, "rows"), put(mesh, np.ones(N, np.float32))
    x = ms.solve(matrix, sides)
    for there in (mesh, other):
        with jax.set_mesh(there):
            again = ms.solve(matrix, sides)
        assert again.sharding == x.sharding and np.array_equal(again, x)
