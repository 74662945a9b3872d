"""Derivatives of all functions: to second order by finite differences, against jnp's, where their
results lie, and what they cost.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads

import meshsolve as ms
from derivatives import FUNCTIONS, THOROUGHLY, hermitian, number, operands
from helpers import DTYPES, mesh_of, put, put_matrix, told_of

pytestmark = pytest.mark.versions

PLACES = tuple(itertools.product(("auto", "explicit"), ("rows", "columns")))


def lay(mesh, x, *spec):
    """Inside of functions: with Explicit axes jax 0.8 cannot transpose a device_put."""
    explicit = AxisType.Explicit in mesh.axis_types
    return (jax.sharding.reshard if explicit else jax.device_put)(x, NamedSharding(mesh, P(*spec)))


@pytest.mark.parametrize(("i", "name"), list(enumerate(FUNCTIONS)))
def test_two_orders_by_differences(i, name):
    """In both modes; mesh, storage and complexity change from function to function."""
    function = FUNCTIONS[name]
    kind, storage = PLACES[i % 4]
    if function.prepare is hermitian and jax.__version_info__ < (0, 10):
        kind = "auto"  # a @ a.T has no second derivative in reverse with Explicit axes there
    mesh = mesh_of(range(4), kind)
    a, b = operands(("float64", "complex128")[i // 2 % 2], k=2)

    @jax.jit
    def run(a, b):
        spec = ("x", None) if storage == "rows" else (None, "x")
        x = function.ours(lay(mesh, function.prepare(a), *spec), b)
        return jax.tree.map(lambda y: lay(mesh, y), x)

    with told_of(mesh):
        check_grads(run, (jnp.asarray(a), jnp.asarray(b)), 2, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("name", "kind", "storage"),
    [
        (name, *place)
        for i, name in enumerate(FUNCTIONS)
        for j, place in enumerate(PLACES)
        if name in THOROUGHLY or (i + j) % 2 == i // 2 % 2
    ],
)
def test_gradients_are_those_of_jnp_and_lie_as_their_matrix_does(name, kind, storage):
    """Eagerly and in jit and for all dtypes by turns."""
    function, mesh = FUNCTIONS[name], mesh_of((2, 0, 1, 3), kind)
    i, j = list(FUNCTIONS).index(name), PLACES.index((kind, storage))
    jit, dtype = (i // 2 + j // 2) % 2, DTYPES[(i + j) % 4]
    if name == "solve refined":
        dtype = ("float64", "complex128")[j % 2]
    a, b = operands(dtype)
    a = np.asarray(function.prepare(jnp.asarray(a)))
    wanted = jax.grad(lambda a, b: number(function.jnps(a, b)), (0, 1))(a, b)
    gradient = jax.grad(lambda a, b: number(function.ours(a, b)), (0, 1))
    on_mesh = (put_matrix(mesh, a, storage), put(mesh, b))
    with told_of(mesh):
        got = (jax.jit(gradient) if jit else gradient)(*on_mesh)
    bound = 2e3 * float(np.finfo(dtype).eps)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=bound * max(1, np.abs(y).max()))
    assert got[0].sharding.is_equivalent_to(on_mesh[0].sharding, 2)


@pytest.mark.parametrize("storage", ["replicated", "column-major"])
@pytest.mark.parametrize("name", ["solve", "solve pos", "lu_solve", "logdet", "inv"])
def test_matrices_that_lie_otherwise(name, storage):
    function, mesh = FUNCTIONS[name], mesh_of(range(4))
    a, b = operands("float64")
    a = np.asarray(function.prepare(jnp.asarray(a)))
    wanted = jax.grad(lambda a: number(function.jnps(a, b)))(a)
    got = jax.grad(lambda a: number(function.ours(a, put(mesh, b))))(put_matrix(mesh, a, storage))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize("n", [7, 8])
@pytest.mark.parametrize("name", ["solve", "cho_solve", "logdet", "slogdet", "inv"])
def test_matrices_that_are_padded_for_their_mesh(name, n):
    mesh = mesh_of(range(4))
    a, b = operands("float64", n)
    function = FUNCTIONS[name]
    a = jnp.asarray(function.prepare(jnp.asarray(a)))
    ours = {
        "solve": lambda a: ms.solve(a, b, mesh=mesh),
        "cho_solve": lambda a: ms.cho_factor(a, mesh=mesh).solve(b),
        "logdet": lambda a: ms.cho_factor(a, mesh=mesh).logdet(),
        "slogdet": lambda a: tuple(ms.slogdet(a, mesh=mesh)),
        "inv": lambda a: ms.inv(a, mesh=mesh),
    }[name]
    wanted = jax.grad(lambda a: number(function.jnps(a, b)))(a)
    for transform in (lambda f: f, jax.jit):
        got = transform(jax.grad(lambda a: number(ours(a))))(a)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize("k", [40, 41, 700])
@pytest.mark.parametrize(("kind", "storage"), PLACES)
def test_many_right_hand_sides(kind, storage, k):
    """Dealt to the devices, and exchanged where these do not divide their number."""
    mesh = mesh_of(range(4), kind)
    a, b = operands("float64", 8, k)
    wanted = jax.grad(lambda a, b: number(jnp.linalg.solve(a, b)), (0, 1))(a, b)
    with told_of(mesh):
        got = jax.jit(jax.grad(lambda a, b: number(ms.solve(a, b)), (0, 1)))(
            put_matrix(mesh, a, storage), put(mesh, b)
        )
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-11 * np.abs(y).max())


def test_a_vector_and_a_factor_in_between():
    """b of one dimension; the factor crosses the border of a jit, and is used more than once."""
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
        with told_of(mesh):
            got = jax.jit(lambda _, way=way: put(mesh, way(ours)))(0)
        wanted = way(jnps)
        scale = max(1, np.abs(wanted).max())
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-10 * scale, err_msg=name)


def calls(hlo: str, *routines: str) -> int:
    lines = [line for line in hlo.splitlines() if 'custom_call_target="meshsolve"' in line]
    return sum(f'routine = "{name}"' in line for line in lines for name in routines)


FACTORING = ("posv", "gesv", "potrf", "getrf", "poinv", "geinv", "posvx", "gesvx")


@pytest.mark.parametrize("name", ["solve", "solve pos", "cho_solve", "lu_solve", "slogdet", "inv"])
@pytest.mark.parametrize(("kind", "storage"), PLACES)
def test_one_factorisation_and_nothing_gathered(name, kind, storage):
    n, mesh = 256, mesh_of(range(4), kind)
    a, b = operands("float64", n)
    a = a / 8 + np.eye(n)
    function = FUNCTIONS[name]
    a = put_matrix(mesh, np.asarray(function.prepare(jnp.asarray(a))), storage)

    def run(a, b):
        value = lambda a, b: number(function.ours(a, b))  # noqa: E731
        tangents = jax.jvp(jax.grad(value), (a, b), (a, b))
        return jax.value_and_grad(value, (0, 1))(a, b), tangents

    with told_of(mesh):
        hlo = jax.jit(run).lower(a, put(mesh, b)).compile().as_text()
        first = jax.jit(jax.value_and_grad(lambda a: number(function.ours(a, b))))
        of_gradient = first.lower(a).compile().as_text()
    assert calls(of_gradient, *FACTORING) == 1
    if name in ("solve", "solve pos"):  # the factor and the gradient stay where A lies
        assert "all-to-all(" not in of_gradient
    # Second derivatives of inverses multiply full matrices. XLA gathers one of them for inv, and
    # with jax before 0.10 for slogdet.
    gathers = name == "inv" or (name == "slogdet" and jax.__version_info__ < (0, 10))
    for text in (of_gradient,) if gathers else (hlo, of_gradient):
        assert not [line for line in text.splitlines() if f"f64[{n},{n}]" in line]


def test_what_is_not_differentiated_costs_nothing():
    """B alone: no product with A; and no derivative at all: the fused routine."""
    mesh = mesh_of(range(4))
    a, b = operands("float64", 64)
    a, b = put(mesh, a, "x", None), put(mesh, b)
    hlo = jax.jit(jax.grad(lambda b: number(ms.solve(a, b)))).lower(b).compile().as_text()
    assert "dot(" not in hlo and calls(hlo, *FACTORING) == 1
    plain = jax.jit(ms.solve).lower(a, b).compile().as_text()
    assert calls(plain, "gesv") == 1 == calls(plain, *FACTORING, "getrs")


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
    """Eagerly, too, where transformations make new functions in every call."""
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
    with told_of(mesh), jax.log_compiles():
        gradient(a, b)
        assert "Compiling" in caplog.text
        caplog.clear()
        gradient(a, b)
    assert "Compiling" not in caplog.text
