"""Successive meshes of a process: in another order, of other axis types, set or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

import meshsolve as ms
from derivatives import FUNCTIONS, number
from helpers import mesh_of, put

pytestmark = pytest.mark.versions

A, B = 8 * np.eye(8) + np.arange(64).reshape(8, 8) / 64, np.ones((8, 2))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("solve", "auto"),
        ("solve", "explicit"),
        ("solve pos", "auto"),
        ("det", "explicit"),
        ("norm", "auto"),
        ("lu_solve", "explicit"),
    ],
)
def test_eager_gradients_on_the_same_devices_in_another_order(name, kind):
    """JAX 0.12 finds a traced function by types, which are equal for the two meshes."""
    function = FUNCTIONS[name]
    matrix = np.asarray(function.prepare(A))
    wanted = jax.jit(jax.grad(lambda a, b: number(function.jnps(a, b)), (0, 1)))(matrix, B)
    for order in ((0, 1, 2, 3), (2, 0, 1, 3)):
        mesh = mesh_of(order, kind)
        a, b = put(mesh, matrix, "x", None), put(mesh, B)
        with jax.set_mesh(mesh):
            got = jax.grad(lambda a, b: number(function.ours(a, b)), (0, 1))(a, b)
        for x, y in zip(got, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.abs(y).max())
        assert got[0].sharding.mesh == mesh


def test_an_explicit_mesh_that_is_set_and_an_array_on_another():
    """JAX's own functions refuse both; the library takes operands that are not differentiated."""
    devices = np.array(jax.devices()[:4])
    a = put(Mesh(devices, ("x",), axis_types=(AxisType.Auto,)), A, "x", None)
    with jax.set_mesh(Mesh(devices, ("x",), axis_types=(AxisType.Explicit,))):
        np.testing.assert_allclose(A @ np.asarray(ms.solve(a, B)), B, rtol=0, atol=1e-12)
        with pytest.raises(ValueError) as raised:
            jax.grad(lambda a: number(ms.solve(a, jnp.asarray(B))))(a)
    assert str(raised.value) == (
        "meshsolve.solve: a: expected an array on the mesh that jax.set_mesh has set, axes "
        "{'x': 4} of types {'x': 'Explicit'}, got one on axes {'x': 4} of types {'x': 'Auto'}; "
        "differentiate within jax.set_mesh of its own mesh, or put it on the mesh that is set"
    )


def test_what_is_not_differentiated_while_another_mesh_is_set():
    """The programs of JAX in the library: norms, triangles, rectangles."""
    matrix = np.eye(8) * 8 + np.arange(64).reshape(8, 8).T @ np.arange(64).reshape(8, 8) / 1e4
    calls = {
        "norm": lambda a, b: [ms.norm(a, -1), ms.norm(b), ms.norm(b, axis=0)],
        "cholesky": lambda a, b: ms.cholesky(a, lower=True),
        "half": lambda a, b: [ms.cho_factor(a).solve_triangular(b, trans) for trans in (0, 1, 2)],
        "product": lambda a, b: [ms.cho_factor(a).dot_triangular(b, trans) for trans in (0, 1, 2)],
        "rectangle": lambda a, b: tuple(ms.lu_factor(np.asarray(b))),
    }
    devices = np.array(jax.devices()[:4])
    for kinds in ((AxisType.Auto, AxisType.Explicit), (AxisType.Explicit, AxisType.Auto)):
        own, other = (
            Mesh(d, ("x",), axis_types=(k,))
            for d, k in zip((devices, devices[:2]), kinds, strict=True)
        )
        a = put(own, matrix, "x", None)
        for b in (put(own, B), put(own, B, "x", None), jnp.asarray(B)):
            for call in calls.values():
                wanted = call(jnp.asarray(matrix), B)
                with jax.set_mesh(other):
                    got = call(a, b)
                for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
                    np.testing.assert_allclose(x, y, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("solve", "auto"),
        ("solve", "explicit"),
        ("cholesky", "explicit"),
        ("logdet", "auto"),
        ("norm", "explicit"),
    ],
)
def test_derivatives_by_arrays_that_no_device_holds(name, kind):
    """A mesh is set, and A and B are NumPy's: JAX takes them to be on all of it."""
    function = FUNCTIONS[name]
    matrix = np.asarray(function.prepare(A))
    mine, theirs = (lambda a, b, f=f: number(f(a, b)) for f in (function.ours, function.jnps))
    wanted = jax.jit(jax.grad(theirs, (0, 1)))(matrix, B)
    tangent = sum(np.sum(g * d) for g, d in zip(wanted, (np.eye(8), B), strict=True))
    mesh = mesh_of(range(4), kind)
    with jax.set_mesh(mesh):
        for run in (lambda f: f, jax.jit):
            got = run(jax.grad(mine, (0, 1)))(matrix, B)
            for x, y in zip(got, wanted, strict=True):
                np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * max(1, np.abs(y).max()))
            _, moved = run(lambda *x: jax.jvp(mine, x[:2], x[2:]))(matrix, B, np.eye(8), B)
            np.testing.assert_allclose(moved, tangent, rtol=1e-12)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_a_matrix_that_no_device_holds_inside_vmap(kind):
    """All devices of the mesh that is set solve, and the solution is on them."""
    mesh = mesh_of(range(4), kind)
    with jax.set_mesh(mesh):
        x = jax.vmap(lambda b: ms.solve(A, b))(B.T)
        y = jax.vmap(lambda b: ms.lu_factor(A).solve(b))(B.T)
    for got in (x, y):
        np.testing.assert_allclose(got, np.linalg.solve(A, B).T, rtol=0, atol=1e-14)
        assert got.sharding.device_set == {*mesh.devices.flat}
