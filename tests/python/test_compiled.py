"""The tests of compiled.py: it finds operations in compiled programs."""

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType

import meshsolve as ms
from compiled import Program
from helpers import mesh_of, put

pytestmark = pytest.mark.versions
N = 16


def test_operations_shapes_and_exchanges():
    mesh = mesh_of(range(4))
    whole = jax.NamedSharding(mesh, jax.P())
    gathered = jax.jit(lambda a: 2 * lax.with_sharding_constraint(2 * a, whole))
    program = Program(gathered, put(mesh, np.eye(N), "x", None))
    assert program.collectives() == {"all-gather"} and program.has("all-gather")
    assert program.makes(N, N) and program.makes(N // 4, N) and not program.makes(N, N // 4)
    assert "all-gather" in program.makers(N * N) and not program.routines()


def test_loops_and_products():
    program = Program(jax.jit(lambda a: lax.fori_loop(0, 9, lambda _, x: x @ a, a)), np.eye(N))
    assert program.has("while") and program.has("dot")


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_routines(kind):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(kind,))
    a, b = put(mesh, np.eye(N), "x", None), put(mesh, np.ones(N))

    def both(a, b):
        return ms.solve(a, b), ms.cho_factor(a).solve(b)

    with jax.set_mesh(mesh):
        program = Program(jax.jit(both), a, b)
    assert sorted(program.routines()) == ["gesv", "potrf", "potrs"]
    assert program.factorisations() == 2
