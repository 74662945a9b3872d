"""Derivatives of all functions: to second order against jnp's (slow: by finite differences), the
shardings of their results, and their cost.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads

import meshsolve as ms
from compiled import Program
from derivatives import (
    FUNCTIONS,
    PLACES,
    THOROUGHLY,
    by_rule,
    hermitian,
    number,
    operands,
)
from helpers import DTYPES, mesh_of, mesh_set, put, put_matrix

pytestmark = pytest.mark.versions


def lay(mesh, x, *spec):
    """A sharding inside of functions: jax 0.8 cannot transpose a device_put with Explicit axes."""
    explicit = AxisType.Explicit in mesh.axis_types
    return (jax.sharding.reshard if explicit else jax.device_put)(x, NamedSharding(mesh, P(*spec)))


def laid_out(i, name):
    """A function, its mesh, and its operands in the i-th of the placements."""
    function = FUNCTIONS[name]
    kind, storage = PLACES[i % 4]
    if function.prepare is hermitian and jax.__version_info__ < (0, 10):
        kind = "auto"  # a @ a.T has no second derivative in reverse with Explicit axes there
    mesh = mesh_of(range(4), kind)
    spec = ("x", None) if storage == "rows" else (None, "x")

    def run(a, b):
        x = function.ours(lay(mesh, function.prepare(a), *spec), b)
        return jax.tree.map(lambda y: lay(mesh, y), x)

    return run, mesh, operands(("float64", "complex128")[i // 2 % 2], k=2)


def derivatives(function, turn, a, b, along):
    """Derivatives of both orders along the given direction; of the second two of four pairs of
    modes.
    """
    value = lambda a, b: number(function(a, b))  # noqa: E731
    gradient = jax.grad(value, (0, 1))
    tangent = lambda *x: jax.jvp(function, x, along)[1]  # noqa: E731
    product = lambda *x: sum(  # noqa: E731
        jnp.sum(g * d).real for g, d in zip(gradient(*x), along, strict=True)
    )
    first = {"jvp": tangent(a, b), "grad": gradient(a, b)}
    if turn % 2:
        return first | {
            "jvp of jvp": jax.jvp(tangent, (a, b), along)[1],
            "grad of grad": jax.grad(product, (0, 1))(a, b),
        }
    return first | {
        "jvp of grad": jax.jvp(gradient, (a, b), along)[1],
        "grad of jvp": jax.grad(lambda *x: number(tangent(*x)), (0, 1))(a, b),
    }


@pytest.mark.parametrize(
    ("i", "name"), [by_rule(i, name, name=name) for i, name in enumerate(FUNCTIONS)]
)
def test_two_orders_are_those_of_jnp(i, name):
    """Modes, mesh, storage and complexity change from function to function."""
    function = FUNCTIONS[name]
    run, mesh, (a, b) = laid_out(i, name)
    along = tuple(map(np.asarray, operands(a.dtype, k=2, seed=1)))
    with mesh_set(mesh):
        got = jax.jit(functools.partial(derivatives, run, i))(a, b, along)
    jnps = lambda a, b: function.jnps(function.prepare(a), b)  # noqa: E731
    wanted = jax.jit(functools.partial(derivatives, jnps, i))(a, b, along)
    for what, values in wanted.items():
        for x, y in zip(jax.tree.leaves(got[what]), jax.tree.leaves(values), strict=True):
            scale = max(1, np.abs(y).max())
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-10 * scale, err_msg=what)


@pytest.mark.slow
@pytest.mark.parametrize(("i", "name"), list(enumerate(FUNCTIONS)))
def test_two_orders_by_differences(i, name):
    run, mesh, given = laid_out(i, name)
    with mesh_set(mesh):
        check_grads(jax.jit(run), tuple(map(jnp.asarray, given)), 2, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("name", "kind", "storage"),
    [
        (name, *place)
        for i, name in enumerate(FUNCTIONS)
        for j, place in enumerate(PLACES)
        if name in THOROUGHLY or j == (i + 2) % 4  # not those of both orders
    ],
)
def test_gradients_are_those_of_jnp_and_lie_as_their_matrix_does(name, kind, storage):
    """Eagerly, where operations are separate programs. They use complex numbers where those of both
    orders use real ones, and the reverse.
    """
    function, mesh = FUNCTIONS[name], mesh_of((2, 0, 1, 3), kind)
    j = PLACES.index((kind, storage))
    dtype = ("float64", "complex128")[j // 2] if name == "solve refined" else DTYPES[j]
    a, b = operands(dtype)
    a = np.asarray(function.prepare(a))
    wanted = jax.jit(jax.grad(lambda a, b: number(function.jnps(a, b)), (0, 1)))(a, b)
    on_mesh = (put_matrix(mesh, a, storage), put(mesh, b))
    with mesh_set(mesh):
        got = jax.grad(lambda a, b: number(function.ours(a, b)), (0, 1))(*on_mesh)
    bound = 2e3 * float(np.finfo(dtype).eps)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=bound * max(1, np.abs(y).max()))
    assert got[0].sharding.is_equivalent_to(on_mesh[0].sharding, 2)


@pytest.mark.parametrize(
    ("name", "storage"),
    list(
        zip(
            ("solve", "solve", "solve pos", "lu_solve", "logdet", "inv"),
            itertools.cycle(("replicated", "column-major")),
        )
    ),
)
def test_matrices_that_lie_otherwise(name, storage):
    function, mesh = FUNCTIONS[name], mesh_of(range(4))
    a, b = operands("float64")
    a = np.asarray(function.prepare(a))
    wanted = jax.jit(jax.grad(lambda a: number(function.jnps(a, b))))(a)
    got = jax.grad(lambda a: number(function.ours(a, put(mesh, b))))(put_matrix(mesh, a, storage))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("name", "n"),
    [("solve", 8), *((f, 7) for f in ("solve", "cho_solve", "logdet", "slogdet", "inv"))],
)
def test_matrices_that_are_padded_for_their_mesh(name, n):
    mesh = mesh_of(range(4))
    a, b = operands("float64", n)
    function = FUNCTIONS[name]
    a = jnp.asarray(function.prepare(a))
    ours = {
        "solve": lambda a: ms.solve(a, b, mesh=mesh),
        "cho_solve": lambda a: ms.cho_factor(a, mesh=mesh).solve(b),
        "logdet": lambda a: ms.cho_factor(a, mesh=mesh).logdet(),
        "slogdet": lambda a: tuple(ms.slogdet(a, mesh=mesh)),
        "inv": lambda a: ms.inv(a, mesh=mesh),
    }[name]
    wanted = jax.jit(jax.grad(lambda a: number(function.jnps(a, b))))(a)
    for transform in (lambda f: f, jax.jit):
        got = transform(jax.grad(lambda a: number(ours(a))))(a)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("kind", "storage", "k"),
    [(*place, k) for place, k in zip(PLACES, (40, 41, 700, 41), strict=True)],
)
def test_many_right_hand_sides(kind, storage, k):
    """Distributed to the devices, and exchanged if these do not divide their number."""
    mesh = mesh_of(range(4), kind)
    a, b = operands("float64", 8, k)
    wanted = jax.jit(jax.grad(lambda a, b: number(jnp.linalg.solve(a, b)), (0, 1)))(a, b)
    with mesh_set(mesh):
        got = jax.jit(jax.grad(lambda a, b: number(ms.solve(a, b)), (0, 1)))(
            put_matrix(mesh, a, storage), put(mesh, b)
        )
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-11 * np.abs(y).max())


def test_a_vector_and_a_factor_in_between():
    """b has one dimension; the factor crosses the border of a jit, and is used more than once."""
    mesh = mesh_of(range(4))
    a, b = operands("float64")
    a, b = put(mesh, a @ a.T, "x", None), put(mesh, b[:, 0])
    factor = jax.jit(ms.cho_factor)

    def evidence(solve, logdet, a, b):
        x = solve(a, b)
        return -0.5 * (b @ x + logdet(a)) + jnp.sum(solve(a, x) ** 3)

    def ours(a, b):
        f = factor(a)
        return evidence(lambda _, b: f.solve(b), lambda _: f.logdet(), a, b)

    wanted = jax.grad(evidence, (2, 3))(
        jnp.linalg.solve, lambda a: jnp.linalg.slogdet(a)[1], np.asarray(a), np.asarray(b)
    )
    for x, y in zip(jax.grad(ours, (0, 1))(a, b), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.abs(y).max())


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_all_ways_to_ask_for_derivatives(kind):
    mesh = mesh_of(range(4), kind)
    a, b = operands("float64", k=1)
    b, v = b[:, 0], np.linspace(-1, 1, 8)

    ours = lambda p: ms.solve(lay(mesh, jnp.outer(p, p) * 0.1 + a, "x", None), p * b)  # noqa: E731
    jnps = lambda p: jnp.linalg.solve(jnp.outer(p, p) * 0.1 + a, p * b)  # noqa: E731
    p = jnp.linspace(1, 2, 8)
    total = lambda f: lambda p: jnp.sum(f(p) ** 3)  # noqa: E731
    ways = {
        "jvp": lambda f: jax.jvp(f, (p,), (v,))[1],
        "linearize": lambda f: jax.linearize(f, p)[1](v),
        "vjp": lambda f: jax.vjp(f, p)[1](v)[0],
        "jacfwd": lambda f: jax.jacfwd(f)(p),
        "jacrev": lambda f: jax.jacrev(f)(p),
        "hessian": lambda f: jax.hessian(total(f))(p),
        "Hessian times vector": lambda f: jax.jvp(jax.grad(total(f)), (p,), (v,))[1],
        "checkpoint": lambda f: jax.grad(jax.checkpoint(total(f)))(p),
        "grad of a scan": lambda f: jax.grad(
            lambda p: jax.lax.scan(lambda c, _: (f(c), c.sum()), p, None, 3)[1].sum()
        )(p),
        "forward through fori_loop": lambda f: jax.jvp(
            lambda p: jax.lax.fori_loop(0, 3, lambda _, c: f(c), p), (p,), (v,)
        )[1],
        "forward through while_loop": lambda f: jax.jvp(
            lambda p: jax.lax.while_loop(lambda c: jnp.sum(c) > 1e9, f, p), (p,), (v,)
        )[1],
        "grad of a cond": lambda f: jax.grad(
            lambda p: jax.lax.cond(p[0] > 0, total(f), jnp.sum, p)
        )(p),
    }
    for name, way in ways.items():
        with mesh_set(mesh):
            got = jax.jit(lambda _, way=way: put(mesh, way(ours)))(0)
        wanted = way(jnps)
        scale = max(1, np.abs(wanted).max())
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-10 * scale, err_msg=name)


@pytest.mark.parametrize(
    ("name", "kind", "storage"),
    [
        (name, *PLACES[(i + j) % 4])
        for i, name in enumerate(("solve", "solve pos", "cho_solve", "lu_solve", "slogdet", "inv"))
        for j in range(4 if name == "solve" else 2)
    ],
)
def test_one_factorisation_and_nothing_gathered(name, kind, storage):
    n, mesh = 256, mesh_of(range(4), kind)
    a, b = operands("float64", n)
    a = a / 8 + np.eye(n)
    function = FUNCTIONS[name]
    a = put_matrix(mesh, np.asarray(function.prepare(a)), storage)

    def run(a, b):
        value = lambda a, b: number(function.ours(a, b))  # noqa: E731
        tangents = jax.jvp(jax.grad(value), (a, b), (a, b))
        return jax.value_and_grad(value, (0, 1))(a, b), tangents

    with mesh_set(mesh):
        both = Program(jax.jit(run), a, put(mesh, b))
        first = Program(jax.jit(jax.value_and_grad(lambda a: number(function.ours(a, b)))), a)
    assert first.factorisations() == 1
    if name in ("solve", "solve pos"):  # the factor and the gradient stay in A's sharding
        assert not first.has("all-to-all")
    # Second derivatives of inverses multiply full matrices. XLA gathers one of them for inv, and
    # with jax before 0.10 for slogdet.
    gathers = name == "inv" or (name == "slogdet" and jax.__version_info__ < (0, 10))
    assert not first.makes(n, n)
    assert gathers or not both.makes(n, n)


def test_what_is_not_differentiated_costs_nothing():
    """B alone: no product with A; and no derivative at all: the fused routine."""
    mesh = mesh_of(range(4))
    a, b = operands("float64", 64)
    a, b = put(mesh, a, "x", None), put(mesh, b)
    gradient = Program(jax.jit(jax.grad(lambda b: number(ms.solve(a, b)))), b)
    assert not gradient.has("dot") and gradient.factorisations() == 1
    assert Program(jax.jit(ms.solve), a, b).routines() == ["gesv"]


def test_unpacked_factors_of_lu_have_none_and_say_so():
    message = (
        "meshsolve.lu_factor: a: expected an array that is not differentiated, got a request for a "
        "derivative; use the factor object itself: what it is unpacked to has none"
    )
    with pytest.raises(ValueError, match=message):
        jax.grad(lambda a: next(iter(ms.lu_factor(a))).sum())(jnp.eye(4))


def test_estimates_and_info_have_none():
    a, b = operands("float64")
    value = lambda a: ms.lu_factor(a).rcond() + ms.cho_factor(a @ a.T).rcond()  # noqa: E731
    np.testing.assert_array_equal(jax.grad(value)(jnp.asarray(a)), 0)
    info = jax.grad(lambda b: ms.solve(a, b, return_info=True)[0].sum())(jnp.asarray(b))
    np.testing.assert_allclose(info, np.linalg.solve(a.T, np.ones_like(b)))


def test_a_singular_matrix_gives_nan():
    a, b = jnp.ones((4, 4)), jnp.arange(4.0)
    for f in (lambda a: ms.solve(a, b).sum(), lambda a: ms.slogdet(a)[1]):
        assert np.isnan(jax.grad(f)(a)).all()


def test_a_determinant_that_underflows():
    a = 1e-3 * jnp.eye(200)
    np.testing.assert_allclose(jax.grad(lambda a: ms.slogdet(a)[1])(a), 1e3 * np.eye(200))


@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize(
    "what", ["gradient", "many right-hand sides", "matrices", "gradients", "refined"]
)
def test_nothing_is_compiled_twice(kind, what, caplog):
    """Also eagerly, where transformations make new functions in every call."""
    mesh = mesh_of(range(4), kind)
    a, b = operands("float64", 20, k=300 if what == "many right-hand sides" else 3)
    a, b = put(mesh, a, "x", None), put(mesh, b)
    gradient = jax.grad(lambda a, b: number(ms.solve(a, b)) + ms.slogdet(a)[1])
    if what == "matrices":
        gradient = jax.vmap(ms.solve, (0, None))
    if what == "refined":
        gradient = lambda a, b: ms.solve(a, b, refine=True)  # noqa: E731
    if what in ("gradients", "refined"):
        gradient = jax.vmap(gradient, (None, 0))
        b = put(mesh, np.stack([b, b]))
    if what == "matrices":
        a = put(mesh, np.stack([a, a]), None, "x", None)
    with mesh_set(mesh), jax.log_compiles():
        gradient(a, b)
        assert "Compiling" in caplog.text
        caplog.clear()
        gradient(a, b)
    assert "Compiling" not in caplog.text
