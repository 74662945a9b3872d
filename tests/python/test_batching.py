"""jax.vmap: right-hand sides become columns of one call, matrices go one after another; nested with
grad and jit, on one device and on four.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import meshsolve as ms
from compiled import Program
from derivatives import FUNCTIONS, PLACES, THOROUGHLY, by_rule, number, operands
from helpers import mesh_of, mesh_set, put

pytestmark = pytest.mark.versions


def assert_close(got, wanted):
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-11 * max(1, np.abs(y).max()))


def batches(function, m: int = 3):
    """Some matrices and right-hand sides."""
    pairs = [operands("float64", seed=i) for i in range(m)]
    a = np.stack([np.asarray(function.prepare(a)) for a, _ in pairs])
    return a, np.stack([b for _, b in pairs])


def mapped(function, axes):
    """Its results mapped over those axes, its mapped gradients, and the gradient of the batch."""
    total = lambda a, b: number(jax.vmap(function, axes)(a, b))  # noqa: E731
    gradient = jax.grad(lambda a, b: number(function(a, b)), (0, 1))

    def run(a, b):
        x = jax.vmap(function, axes)(a, b)
        return x, jax.vmap(gradient, axes)(a, b), jax.grad(total, (0, 1))(a, b)

    return run


@pytest.mark.parametrize(
    ("i", "name", "j"),
    [
        by_rule(i, name, j, name=name)
        for i, name in enumerate(FUNCTIONS)
        for j in (range(3) if name in THOROUGHLY else (i % 3,))
    ],
)
def test_over_matrices_and_right_hand_sides(i, name, j):
    """Over both, over A, over B (mostly by turns); eagerly and in jit by turns."""
    function = FUNCTIONS[name]
    kind, storage = PLACES[(i + j) % 4]
    mesh = mesh_of(range(4), kind)
    a, b = batches(function)
    spec = ("x", None) if storage == "rows" else (None, "x")
    many_a, many_b = put(mesh, a, None, *spec), put(mesh, b)
    one_a, one_b = put(mesh, a[0], *spec), put(mesh, b[0])
    axes, given, on_mesh = (
        ((0, 0), (a, b), (many_a, many_b)),
        ((0, None), (a, b[0]), (many_a, one_b)),
        ((None, 0), (a[0], b), (one_a, many_b)),
    )[j]
    run = mapped(function.ours, axes)
    with mesh_set(mesh):
        got = (jax.jit(run) if (i + j) % 2 else run)(*on_mesh)
    assert_close(got, jax.jit(mapped(function.jnps, axes))(*given))


@pytest.mark.parametrize("name", ["solve", "cho_solve", "slogdet", "inv"])
def test_on_one_device_and_nested(name):
    function = FUNCTIONS[name]
    a, b = batches(function, 4)
    a, b = a.reshape(2, 2, 8, 8), b.reshape(2, 2, 8, 3)
    for axes in (((0, 0), (0, 0)), ((0, None), (0, 0)), ((None, 0), (0, 0))):
        outer, inner = axes
        pick = [x if axis == 0 else x[0] for x, axis in zip((a, b), outer, strict=True)]
        got = jax.vmap(jax.vmap(function.ours, inner), outer)(*map(jnp.asarray, pick))
        assert_close(got, jax.jit(jax.vmap(jax.vmap(function.jnps, inner), outer))(*pick))


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_right_hand_sides_are_solved_together(kind):
    """One call of the library for all of them, vectors and columns, along any axis."""
    mesh = mesh_of(range(4), kind)
    a, _ = operands("float64")
    rng = np.random.default_rng(0)
    on_mesh = put(mesh, a, "x", None)
    for shape, axis in (((5, 8), 0), ((8, 5), 1), ((5, 8, 2), 0), ((8, 2, 40), 2)):
        b = rng.standard_normal(shape)
        solve = jax.jit(jax.vmap(ms.solve, (None, axis), axis))
        with mesh_set(mesh):
            x = solve(on_mesh, put(mesh, b))
            program = Program(solve, on_mesh, put(mesh, b))
        assert program.factorisations() == 1 and not program.has("while")
        assert_close(x, jax.vmap(jnp.linalg.solve, (None, axis), axis)(a, b))


def test_a_factor_that_is_batched_or_not():
    mesh = mesh_of(range(4))
    a, b = batches(FUNCTIONS["cho_solve"])
    factors = jax.vmap(ms.cho_factor)(put(mesh, a, None, "x", None))
    x = jax.vmap(ms.cho_solve)(factors, put(mesh, b))
    assert_close(x, np.linalg.solve(a, b))
    factor = ms.lu_factor(put(mesh, a[0], "x", None))
    assert_close(jax.vmap(factor.solve)(put(mesh, b)), np.linalg.solve(a[0], b))


def test_info_of_each_matrix():
    a = np.stack([np.eye(4), np.diag([1.0, 0, 1, 1])])
    x, info = jax.vmap(lambda a: ms.solve(a, jnp.ones(4), return_info=True))(jnp.asarray(a))
    np.testing.assert_array_equal(info.info, [0, 2])
    np.testing.assert_array_equal(np.isnan(x), [[False] * 4, [True] * 4])


@pytest.mark.parametrize("storage", ["rows", "columns"])
def test_gradients_of_a_batch_of_conditions(storage):
    """A switch with a batch of indices becomes a selection, also of its branches' residuals."""
    mesh = mesh_of(range(4))
    a, b = operands("float64")
    on_mesh = put(mesh, a, *(("x", None) if storage == "rows" else (None, "x"))), put(mesh, b)

    def gradients(solve, inv):
        branches = [lambda a, b: number(solve(a, b)), lambda a, b: number(inv(a))]
        value = lambda i, a, b: jax.lax.switch(i, branches, a, b)  # noqa: E731
        return jax.jit(jax.vmap(jax.grad(value, (1, 2)), (0, None, None)))

    got = gradients(ms.solve, ms.inv)(jnp.arange(2), *on_mesh)
    assert_close(got, gradients(jnp.linalg.solve, jnp.linalg.inv)(jnp.arange(2), a, b))


def test_empty_batches():
    mesh = mesh_of(range(4))
    a = put(mesh, operands("float64")[0], "x", None)
    assert jax.vmap(ms.solve, (None, 0))(a, jnp.zeros((0, 8))).shape == (0, 8)
    assert jax.vmap(ms.solve)(jnp.zeros((0, 8, 8)), jnp.zeros((0, 8))).shape == (0, 8)
    gradient = jax.grad(lambda a, b: ms.solve(a, b).sum())
    assert jax.vmap(gradient, (None, 0))(a, jnp.zeros((0, 8))).shape == (0, 8, 8)
    none = put(mesh, np.zeros((0, 8, 8)), None, "x", None)
    assert gradient(none, jnp.zeros((0, 8, 2))).shape == (0, 8, 8)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("storage", ["rows", "columns", "whole"])
def test_a_batch_that_is_distributed_to_devices(kind, storage):
    """Each group of devices solves its part; no data moves, and solutions are distributed as the
    batch.
    """
    axis_type = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}[kind]
    mesh = jax.make_mesh((2, 4), ("g", "x"), axis_types=(axis_type,) * 2)
    a, b = batches(FUNCTIONS["solve"], 4)
    spec = {"rows": ("x", None), "columns": (None, "x"), "whole": (None, None)}[storage]
    many = put(mesh, a, "g", *spec), put(mesh, b, "g", None, None)
    if kind == "explicit" and jax.__version_info__ < (0, 10):
        message = (
            r"meshsolve\.solve: a: expected a batch that is not distributed to devices with "
            r"Explicit axes, or JAX 0\.10, got one over axes \('g',\), with JAX .*; use a mesh "
            r"with Auto axes, or jax\.sharding\.reshard"
        )
        with mesh_set(mesh), pytest.raises(ValueError, match=message):
            jax.jit(jax.vmap(ms.solve))(*many)
        return
    for name in ("solve", "cho_solve", "slogdet", "inv"):
        function = FUNCTIONS[name]
        given = (
            put(mesh, np.stack([function.prepare(x) for x in np.asarray(a)]), "g", *spec),
            many[1],
        )
        run = jax.jit(jax.vmap(function.ours))
        with mesh_set(mesh):
            got = run(*given)
            moved = Program(run, *given).collectives()
        assert_close(got, jax.jit(jax.vmap(function.jnps))(*map(np.asarray, given)))
        # A function of a whole matrix gives a whole one. A factor of columns is by rows, for which
        # XLA exchanges it with Auto axes.
        moves = {"whole": {"all-gather"}, "columns": {"all-to-all"} if kind == "auto" else set()}
        allowed = set() if name == "solve" else moves.get(storage, set())
        assert moved <= allowed, (name, moved)
        for x in jax.tree.leaves(got):
            assert x.sharding.spec[0] == "g"
    gradient = jax.jit(jax.grad(lambda a, b: number(jax.vmap(ms.solve)(a, b))))
    with mesh_set(mesh):
        got = gradient(*many)
    assert_close(got, jax.grad(lambda a, b: number(jnp.linalg.solve(a, b)))(a, b))
    if kind == "explicit":
        assert got.sharding == many[0].sharding
    one = put(mesh, b[0], None, None)
    with mesh_set(mesh):
        x = jax.vmap(ms.solve, (0, None))(many[0], one)  # eagerly, with right-hand sides for all
    assert x.sharding.spec[0] == "g"
    assert_close(x, np.linalg.solve(a, b[0]))


def test_a_batch_that_is_distributed_to_all_devices():
    """Each device solves its own."""
    for kind in ("auto", "explicit"):
        if kind == "explicit" and jax.__version_info__ < (0, 10):
            continue
        mesh = mesh_of(range(4), kind)
        a, b = batches(FUNCTIONS["solve"], 4)
        many = put(mesh, a, "x"), put(mesh, b, "x")
        with mesh_set(mesh):
            x, inverse = ms.solve(*many), jax.jit(jax.vmap(ms.inv))(many[0])
        assert_close((x, inverse), (np.linalg.solve(a, b), np.linalg.inv(a)))


@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="JAX cannot map over a distributed axis")
def test_a_matrix_that_is_closed_over_by_a_distributed_batch():
    """In any order with calls that have no batch."""
    mesh = jax.make_mesh((2, 4), ("g", "x"), axis_types=(AxisType.Explicit,) * 2)
    a, _ = operands("float64")
    b = np.random.default_rng(0).standard_normal((4, 8))
    one, distributed = put(mesh, a, "x", None), put(mesh, b, "g", None)
    wanted = np.linalg.solve(a, b[..., None])[..., 0]
    with jax.set_mesh(mesh):
        for _ in range(3):
            factor = ms.lu_factor(one)
            assert_close(jax.vmap(factor.solve)(distributed), wanted)
            assert_close(factor.solve(b[0]), wanted[0])
            with pytest.raises(ValueError) as raised:
                jax.vmap(lambda b: ms.lu_factor(one).solve(b))(distributed)
    assert str(raised.value) == (
        "meshsolve.lu_factor: a: expected a matrix of the batch that jax.vmap maps over, or a mesh "
        "with Auto axes, got one for the whole batch, which is distributed to mesh axes ['g']; "
        "factor it outside of jax.vmap, and call the factor's methods inside"
    )


def test_leading_axes_that_lie_on_different_devices():
    mesh = jax.make_mesh((2, 4), ("g", "x"), axis_types=(AxisType.Explicit,) * 2)
    a, b = batches(FUNCTIONS["solve"], 4)
    with jax.set_mesh(mesh), pytest.raises(ValueError) as raised:
        ms.solve(put(mesh, a, "g", "x", None), put(mesh, b))
    assert str(raised.value) == (
        "meshsolve.solve: the leading axes: expected axes that are on the same devices, for a mesh "
        "with Explicit axes, got ('g',) and (None,); use jax.device_put or jax.sharding.reshard, "
        "or a mesh with Auto axes"
    )


@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="JAX cannot map over a distributed axis")
def test_a_distributed_batch_with_a_mesh_that_pads():
    mesh = jax.make_mesh((2, 4), ("g", "x"), axis_types=(AxisType.Explicit,) * 2)
    a = put(mesh, np.stack([np.eye(7)] * 4), "g")
    with jax.set_mesh(mesh), pytest.raises(ValueError) as raised:
        ms.inv(a, mesh=mesh)
    assert str(raised.value) == (
        "meshsolve.inv: mesh: expected None for a batch that is distributed to devices with "
        "Explicit axes, got a mesh of which ['g'] are the batch's; leave mesh out, and distribute "
        "matrices of an order that the other devices divide"
    )
