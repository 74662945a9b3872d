"""Solvers for lineax: solutions of all, transposes and conjugates, derivatives, failures."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from allpairspy import AllPairs
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from derivatives import number
from helpers import (
    DTYPES,
    STORAGES,
    general,
    is_complex,
    mesh_of,
    mesh_set,
    normal,
    one_triangle,
    positive_definite,
    put,
    put_matrix,
    run_fresh,
    solve_ratio,
)

pytestmark = pytest.mark.versions

N = 96
POSITIVE, NEGATIVE = lx.positive_semidefinite_tag, lx.negative_semidefinite_tag


def matrix(name: str, dtype, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(n)
    made = positive_definite if name == "Cholesky" else general
    return made("one small:2", n, dtype, rng)


def solver_and_tags(name: str, **options):
    solver = getattr(ms.lineax, name)(**options)
    return solver, POSITIVE if name == "Cholesky" else ()


@pytest.mark.parametrize("name", ["LU", "Cholesky", "QR"])
@pytest.mark.parametrize("where", ["one device", "sharded", "batch sharded"])
def test_states_made_under_an_eager_vmap(name, where):
    """The state then solves with each matrix; with many matrices and with one."""
    n = 8
    many = np.stack([matrix(name, "float64", n), 2 * matrix(name, "float64", n)])
    b, (solver, tags) = np.ones((2, n)), solver_and_tags(name)
    at = jnp.asarray(many)
    if where != "one device":
        mesh = mesh_of(range(2))
        at = put(mesh, many, *((None, "x") if where == "sharded" else ("x",)))

    def run(a, b):
        operator = lx.MatrixLinearOperator(a, tags)
        state = solver.init(operator, {})
        return lx.linear_solve(operator, b, solver, state=state).value

    wanted = np.linalg.solve(many, b[..., None])[..., 0]
    for transform in (lambda f: f, jax.jit):
        np.testing.assert_allclose(transform(jax.vmap(run))(at, b), wanted, rtol=0, atol=1e-12)
    one = jax.vmap(run, (None, 0))(at[0], b)
    np.testing.assert_allclose(one, np.linalg.solve(many[0], b.T).T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("name", ["LU", "Cholesky", "QR"])
@pytest.mark.parametrize("with_state", [False, True])
def test_operators_that_a_program_closes_over(name, kind, with_state):
    """JAX does not see their devices: a message if the program is for others."""
    a, mesh = matrix(name, "float64", 8), mesh_of(range(4), kind)
    solver, tags = solver_and_tags(name)
    operator = lx.MatrixLinearOperator(put(mesh, a, "x", None), tags)
    state = {"state": solver.init(operator, {})} if with_state else {}
    run = jax.jit(lambda b: lx.linear_solve(operator, b, solver, **state).value)
    b = np.ones(8)
    with pytest.raises(ValueError) as raised:
        run(b)
    assert (
        f"meshsolve.lineax.{name}: operator: expected an operand of the program, as is its vector, "
        "or both on the same devices, got an operator on 4 devices, which a program for 1 closes "
        "over; pass the operator (or its state) through jax.jit, or set its mesh with jax.set_mesh"
    ) in str(raised.value)
    wanted = np.linalg.solve(a, b)
    with jax.set_mesh(mesh):
        np.testing.assert_allclose(run(b), wanted, rtol=0, atol=1e-12)
    if kind == "auto":
        np.testing.assert_allclose(run(put(mesh, b)), wanted, rtol=0, atol=1e-12)


def two_axes():
    return jax.make_mesh((2, 4), ("y", "x"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def solution(a, b, solver, tags, **options):
    return lx.linear_solve(lx.MatrixLinearOperator(a, tags), b, solver, **options)


@pytest.mark.parametrize(
    ("name", "dtype", "kind", "p", "storage", "jit"),
    list(
        AllPairs(
            [["LU", "Cholesky"], DTYPES, ["auto", "explicit"], [1, 4], STORAGES, [False, True]]
        )
    ),
)
def test_solutions(name, dtype, kind, p, storage, jit):
    """Explicit axes need auto_axes, as lineax itself refuses sharded vectors otherwise."""
    a, b = matrix(name, dtype), normal(np.random.default_rng(0), N, dtype)
    solver, tags = solver_and_tags(name)
    solve = lambda a, b: solution(a, b, solver, tags).value  # noqa: E731
    mesh = mesh_of(range(p), kind)
    given, rhs = put_matrix(mesh, a, storage), put(mesh, b)
    if kind == "explicit":
        solve = jax.sharding.auto_axes(solve, out_sharding=P())
    with mesh_set(mesh):
        x = (jax.jit(solve) if jit else solve)(given, rhs)
    assert x.dtype == dtype and x.shape == (N,)
    assert solve_ratio(a, x, b) < 3
    np.testing.assert_array_equal(given, a)


@pytest.mark.parametrize(
    ("name", "dtype", "storage"),
    [
        ("LU", "complex128", "rows"),
        ("LU", "complex128", "columns"),
        ("LU", "float64", "column-major"),
        ("Cholesky", "complex128", "columns"),
        ("Cholesky", "complex128", "replicated"),
        ("Cholesky", "float64", "rows"),
        ("QR", "complex128", "rows"),
        ("QR", "complex128", "column-major"),
    ],
)
def test_transposes_and_conjugates_use_the_same_factor(name, dtype, storage):
    a, b = matrix(name, dtype), normal(np.random.default_rng(1), N, dtype)
    solver, tags = solver_and_tags(name)
    operator = lx.MatrixLinearOperator(put_matrix(mesh_of(range(4)), a, storage), tags)
    state = solver.init(operator, {})
    transposed = solver.transpose(state, {})[0]
    conjugate = solver.conj(state, {})[0]
    states = {
        "A": (state, a),
        "A^T": (transposed, a.T),
        "conj A": (conjugate, a.conj()),
        "A^H": (solver.conj(transposed, {})[0], a.conj().T),
        "A^H again": (solver.transpose(conjugate, {})[0], a.conj().T),
        "A again": (solver.transpose(transposed, {})[0], a),
    }
    for what, (made, meant) in states.items():
        assert made.factor is state.factor, what
        x, result, _ = solver.compute(made, jnp.asarray(b), {})
        assert solve_ratio(meant, x, b) < 3, what
        assert bool(result == lx.RESULTS.successful)
        # As a primitive of lineax, without any other call of the library in the program.
        operator = lx.MatrixLinearOperator(jnp.asarray(meant), tags)
        x = lx.linear_solve(operator, jnp.asarray(b), solver, state=made).value
        assert solve_ratio(meant, x, b) < 3, what


def test_a_state_is_made_once_and_passes_through_jit():
    a = matrix("LU", "float64")
    operator = lx.MatrixLinearOperator(put(mesh_of(range(4)), a, None, "x"))
    solver = ms.lineax.LU()
    state = jax.block_until_ready(solver.init(operator, {}))
    assert ms.last_call()["routine"] == "getrf"
    solve = jax.jit(lambda s, o, b: lx.linear_solve(o, b, solver, state=s).value)
    for seed in range(3):
        b = normal(np.random.default_rng(seed), N, "float64")
        assert solve_ratio(a, solve(state, operator, b), b) < 3
        assert ms.last_call()["routine"] == "getrs"
    leaves, tree = jax.tree.flatten(state)
    assert len(leaves) == 4 and tree == jax.tree.structure(jax.tree.unflatten(tree, leaves))


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("sign", [1, -1])
def test_definite_operators_and_the_triangle_that_is_read(lower, dtype, sign):
    a = sign * matrix("Cholesky", dtype)
    b, mesh = normal(np.random.default_rng(2), N, dtype), mesh_of(range(2))
    tag = POSITIVE if sign > 0 else NEGATIVE
    half = put(mesh, one_triangle(a, lower), "x", None)
    solver = ms.lineax.Cholesky(lower=lower)
    assert solve_ratio(a, solution(half, put(mesh, b), solver, tag).value, b) < 3
    state = solver.init(lx.MatrixLinearOperator(half, tag), {})
    for made, meant in (solver.transpose(state, {})[0], a.T), (solver.conj(state, {})[0], a.conj()):
        assert solve_ratio(meant, solver.compute(made, jnp.asarray(b), {})[0], b) < 3


@pytest.mark.parametrize(
    ("name", "dtype", "p", "spec", "jit"),
    list(
        AllPairs(
            [["LU", "Cholesky"], ["float32", "complex128"], [1, 4], ["rows", "columns"], [0, 1]]
        )
    ),
)
def test_derivatives_are_those_of_jax(name, dtype, p, spec, jit):
    """Eagerly, where the backward pass is a separate program, and under jit."""
    n = 24
    a, b = matrix(name, dtype, n), normal(np.random.default_rng(3), n, dtype)
    ta, tb = (normal(np.random.default_rng(4), x.shape, dtype) for x in (a, b))
    solver, tags = solver_and_tags(name)
    solve = lambda a, b: solution(a, b, solver, tags).value  # noqa: E731
    gradient = lambda solve: jax.grad(lambda a, b: number(solve(a, b)), (0, 1))  # noqa: E731
    expected = jax.jit(gradient(jnp.linalg.solve))(a, b)
    tangent = np.linalg.solve(a, tb - ta @ np.linalg.solve(a, b))
    tolerance = 1e3 * n * float(np.finfo(dtype).eps)
    close = lambda x, y: np.abs(x - y).max() <= tolerance * np.abs(y).max()  # noqa: E731
    mesh, run = mesh_of(range(p)), jax.jit if jit else lambda f: f
    given, rhs = put_matrix(mesh, a, spec), put(mesh, b)
    assert all(map(close, run(gradient(solve))(given, rhs), expected))
    moved = put_matrix(mesh, ta, spec), put(mesh, tb)
    jvp = run(lambda *x: jax.jvp(solve, x[:2], x[2:])[1])
    assert close(jvp(given, rhs, *moved), tangent)


@pytest.mark.parametrize("name", ["LU", "Cholesky"])
def test_derivatives_of_second_order(name):
    """Along a direction, in all pairs of modes, as those of jnp."""
    solver, tags = solver_and_tags(name)
    a, b = matrix(name, "float64", 8), normal(np.random.default_rng(5), 8, "float64")
    along = tuple(normal(np.random.default_rng(6), x.shape, "float64") for x in (a, b))
    mesh = mesh_of(range(2))
    symmetric = lambda a: (a + a.T) / 2 if name == "Cholesky" else a  # noqa: E731

    def second(solve):
        value = lambda a, b: number(solve(symmetric(a), b))  # noqa: E731
        forward = lambda f: lambda *x: jax.jvp(f, x, along)[1]  # noqa: E731

        def backward(f):
            slopes = jax.grad(f, (0, 1))
            return lambda *x: sum(map(jnp.vdot, slopes(*x), along))

        modes = (forward, backward)
        return jax.jit(lambda *x: [outer(inner(value))(*x) for outer in modes for inner in modes])

    got = second(lambda a, b: solution(a, b, solver, tags).value)(put(mesh, a, "x", None), b)
    wanted = second(jnp.linalg.solve)(a, b)
    np.testing.assert_allclose(got, wanted, rtol=1e-9)
    assert abs(wanted[0]) > 1e-3


@pytest.mark.parametrize(
    "name, routine, others",
    [
        # x, and the solve with A^T
        ("LU", "getrf", ["getrs"] * 2),
        ("Cholesky", "potrf", ["potrs"] * 2),
        ("QR", "geqrf", ["ormqr", "qr_solve", "qr_triangle", "trtrs"]),
    ],
)
def test_one_factorisation_serves_forward_and_backward(name, routine, others):
    solver, tags = solver_and_tags(name)
    mesh = mesh_of(range(4))
    a, b = put(mesh, matrix(name, "float64"), "x", None), put(mesh, np.ones(N))
    gradient = jax.jit(jax.grad(lambda a, b: (solution(a, b, solver, tags).value ** 2).sum()))
    assert sorted(Program(gradient, a, b).routines()) == sorted([routine, *others])


@pytest.mark.parametrize("name", ["LU", "Cholesky"])
def test_vmap(name):
    """Over vectors, over operators, over solves with one state, and with derivatives."""
    n, rng = 16, np.random.default_rng(8)
    a, mesh = matrix(name, "float64", n), mesh_of(range(4))
    many, b = np.stack([a, 2 * a, a + np.eye(n)]), normal(rng, (3, n), "float64")
    solver, tags = solver_and_tags(name)
    given, all_given, rhs = put(mesh, a, "x", None), put(mesh, many, None, "x"), put(mesh, b)
    operator = lx.MatrixLinearOperator(given, tags)
    state = solver.init(operator, {})
    solve = lambda a, b: solution(a, b, solver, tags).value  # noqa: E731
    reuse = lambda b: lx.linear_solve(operator, b, solver, state=state).value  # noqa: E731
    total = lambda solve: lambda a, b: jax.vmap(solve, (None, 0))(a, b).sum()  # noqa: E731
    expected = jax.jit(jax.grad(total(jnp.linalg.solve)))(a, b)
    for run in (lambda f: f, jax.jit):
        for x in (run(jax.vmap(solve, (None, 0)))(given, rhs), run(jax.vmap(reuse))(rhs)):
            assert solve_ratio(a, x.T, b.T) < 3
        x = run(jax.vmap(solve))(all_given, rhs)
        assert all(solve_ratio(*each) < 3 for each in zip(many, x, b, strict=True))
        np.testing.assert_allclose(run(jax.grad(total(solve)))(given, rhs), expected, rtol=1e-9)


def test_gradients_of_matrices_that_are_not_sharded_or_come_from_another_call():
    """The type of a traced matrix does not show its mesh there."""
    a, b = matrix("LU", "float64", 16), np.ones(16)
    solve = lambda a, b: solution(a, b, ms.lineax.LU(), ()).value.sum()  # noqa: E731
    expected = jax.grad(lambda a: jnp.linalg.solve(a, b).sum())(jnp.asarray(a))
    np.testing.assert_allclose(jax.grad(solve)(jnp.asarray(a), b), expected, rtol=1e-9)
    mesh = mesh_of(range(4))
    given, rhs = put(mesh, a, "x", None), put(mesh, b)
    x = jax.jit(lambda a, b: solution(ms.inv(a), b, ms.lineax.LU(), ()).value)(given, rhs)
    assert solve_ratio(np.linalg.inv(a), x, b) < 30
    mesh = two_axes()
    a, b = matrix("LU", "float64", 12), np.ones(12)  # 12 over 4 of 8 devices
    expected = jax.grad(lambda a: jnp.linalg.solve(a, b).sum())(jnp.asarray(a))
    gradient = jax.grad(solve)(put(mesh, a, "x", None), put(mesh, b))
    np.testing.assert_allclose(gradient, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["LU", "Cholesky"])
def test_singular_operators(name):
    solver, tags = solver_and_tags(name)
    a = np.eye(8)
    a[5, 5] = 0
    for p in (1, 2):
        mesh = mesh_of(range(p))
        given, b = put(mesh, a, "x", None), put(mesh, np.ones(8))
        for run in (solution, jax.jit(solution, static_argnums=(2, 3), static_argnames="throw")):
            failed = run(given, b, solver, tags, throw=False)
            assert failed.result == lx.RESULTS.singular and np.isnan(failed.value).all()
            if p == 1:  # on several devices the error of lineax would end the process
                with pytest.raises(RuntimeError, match="non-finite"):
                    jax.block_until_ready(run(given, b, solver, tags).value)
    # The result of compute itself, before lineax has checked the solution.
    state = solver.init(lx.MatrixLinearOperator(given, tags), {})
    assert bool(solver.compute(state, b, {})[1] == lx.RESULTS.singular)


@pytest.mark.parametrize("name", ["LU", "Cholesky"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_orders_that_the_devices_do_not_divide(name, dtype):
    n, mesh = 13, mesh_of(range(4))
    a, b = matrix(name, dtype, n), normal(np.random.default_rng(6), n, dtype)
    solver, tags = solver_and_tags(name, mesh=mesh)
    assert solve_ratio(a, solution(jnp.asarray(a), jnp.asarray(b), solver, tags).value, b) < 3
    operator = lx.MatrixLinearOperator(jnp.asarray(a), tags)
    state = solver.init(operator, {})
    assert state.factor.work.shape == (16, 16)
    x = lx.linear_solve(operator, jnp.asarray(b), solver, state=state).value
    assert solve_ratio(a, x, b) < 3


def test_operators_on_pytrees():
    """Vectors that are pytrees, with another structure before the operator than after it."""
    n = 12
    a, b = matrix("LU", "float64", n), normal(np.random.default_rng(7), n, "float64")
    apart = lambda v: {"first": v[:4].reshape(2, 2), "rest": [v[4:]]}  # noqa: E731
    together = lambda t: jnp.concatenate([t["first"].ravel(), t["rest"][0]])  # noqa: E731
    operator = lx.FunctionLinearOperator(
        lambda t: a @ together(t), jax.eval_shape(lambda: apart(jnp.asarray(b)))
    )
    solver = ms.lineax.LU()
    x = lx.linear_solve(operator, jnp.asarray(b), solver).value
    assert jax.tree.map(jnp.shape, x) == {"first": (2, 2), "rest": [(8,)]}
    assert solve_ratio(a, together(x), b) < 3
    back = solver.transpose(solver.init(operator, {}), {})[0]
    y, _, _ = solver.compute(back, apart(jnp.asarray(b)), {})
    assert solve_ratio(a.T, y, b) < 3


def system(shape, dtype):
    rng = np.random.default_rng(9)
    return normal(rng, shape, dtype), normal(rng, shape[0], dtype)


def gradient(solve):
    return jax.grad(lambda a, b: number(solve(a, b)), (0, 1))


@functools.cache
def gradient_of_lineax(shape, dtype):
    return jax.jit(gradient(lambda a, b: solution(a, b, lx.QR(), ()).value))(*system(shape, dtype))


SHAPES = [(24, 8), (8, 24), (9, 5), (5, 9), (4, 4)]


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "spec", "jit"),
    list(
        AllPairs(
            [
                SHAPES,
                ["float64", "complex128"],
                ["auto", "explicit"],
                [("x", None), (None, "x"), ()],
                [False, True],
            ]
        )
    ),
)
def test_operators_of_any_shape(shape, dtype, kind, spec, jit):
    """Least squares, or the solution of least norm, and derivatives as lineax's own solver has
    them.
    """
    (a, b), mesh = system(shape, dtype), mesh_of(range(4), kind)
    divided = not any(size % 4 for size in shape)
    solver = ms.lineax.QR() if divided else ms.lineax.QR(mesh=mesh)
    given = put(mesh, a, *spec) if divided else jnp.asarray(a)
    rhs = put(mesh, b) if divided else jnp.asarray(b)
    solve = lambda a, b: solution(a, b, solver, ()).value  # noqa: E731

    def run(f):
        if kind == "explicit" and divided:
            f = jax.sharding.auto_axes(f, out_sharding=P())
        with mesh_set(mesh):
            return (jax.jit(f) if jit else f)(given, rhs)

    np.testing.assert_allclose(run(solve), np.linalg.lstsq(a, b)[0], atol=1e-11)
    expected = gradient_of_lineax(shape, dtype)
    for found, wanted in zip(run(gradient(solve)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9 * np.abs(wanted).max())


def test_states_of_any_shape_pass_through_transposes_and_conjugates():
    for shape in ((24, 8), (8, 24), (9, 5)):
        a = normal(np.random.default_rng(10), shape, "complex128")
        solver = ms.lineax.QR(mesh=mesh_of(range(4)))
        state = solver.init(lx.MatrixLinearOperator(jnp.asarray(a)), {})
        other = solver.conj(solver.transpose(state, {})[0], {})[0]
        for made, meant in ((state, a), (other, a.conj().T)):
            b = normal(np.random.default_rng(11), len(meant), "complex128")
            x, result, _ = solver.compute(made, jnp.asarray(b), {})
            np.testing.assert_allclose(x, np.linalg.lstsq(meant, b)[0], atol=1e-11)
            assert bool(result == lx.RESULTS.successful)
    state = solver.init(lx.MatrixLinearOperator(jnp.ones((6, 2))), {})
    x, result, _ = solver.compute(state, jnp.ones(6), {})
    assert np.isnan(x).all() and bool(result == lx.RESULTS.singular)


MISTAKES = [
    (
        lambda: ms.lineax.LU().init(lx.MatrixLinearOperator(jnp.ones((3, 4))), {}),
        "meshsolve.lineax.LU: operator: expected a square one, got one from 4 to 3 elements; use "
        "meshsolve.lineax.QR for least squares",
    ),
    (
        lambda: ms.lineax.Cholesky().init(lx.MatrixLinearOperator(jnp.ones((4, 3))), {}),
        "meshsolve.lineax.Cholesky: operator: expected a square one, got one from 3 to 4 elements; "
        "use meshsolve.lineax.QR for least squares",
    ),
    (
        lambda: ms.lineax.Cholesky().init(lx.MatrixLinearOperator(jnp.eye(4)), {}),
        "meshsolve.lineax.Cholesky: operator: expected one that is known to be positive or "
        "negative definite, got a MatrixLinearOperator tagged with nothing; tag it with "
        "lineax.positive_semidefinite_tag or negative_semidefinite_tag, or use meshsolve.lineax.LU",
    ),
    (
        lambda: solution(jnp.eye(4), jnp.ones(4), ms.lineax.Cholesky(), lx.symmetric_tag),
        "got a MatrixLinearOperator tagged symmetric_tag; tag it",
    ),
    (
        lambda: ms.lineax.LU().init(lx.MatrixLinearOperator(put(two_axes(), np.eye(12), "x")), {}),
        "meshsolve.lineax.LU: operator: expected an order that all 8 devices of its mesh divide, "
        "to make a state of outside of jax.jit, got n = 12; let lineax.linear_solve make it, or "
        "put the matrix on a mesh whose devices divide n",
    ),
]


@pytest.mark.parametrize("call, message", MISTAKES)
def test_mistakes(call, message):
    with pytest.raises(ValueError) as raised:
        call()
    assert message in str(raised.value)


def test_solvers_are_static_and_comparable():
    assert ms.lineax.Cholesky() == ms.lineax.Cholesky()
    assert ms.lineax.Cholesky() != ms.lineax.Cholesky(lower=True)
    assert jax.tree.leaves(ms.lineax.LU(mesh=mesh_of(range(2)))) == []
    state = ms.lineax.LU().init(lx.MatrixLinearOperator(jnp.eye(4)), {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.is_negative = True
    assert not is_complex(state.factor.work.dtype)


def test_lineax_is_imported_when_it_is_used():
    ran = run_fresh(
        """
        assert "lineax" not in sys.modules and "equinox" not in sys.modules
        x = ms.lineax.LU
        assert "lineax" in sys.modules and x is __import__("meshsolve.lineax").lineax.LU
        try:
            ms.linax
        except AttributeError as error:
            tell(str(error))
        """
    )
    assert ran.reported == ["module 'meshsolve' has no attribute 'linax'"]


def test_without_lineax():
    ran = run_fresh(
        """
        sys.modules["lineax"] = None
        try:
            ms.lineax
        except ImportError as error:
            tell(str(error))
        """
    )
    assert ran.reported == [
        "meshsolve.lineax: expected lineax to be installed, got: import of lineax halted; None in "
        "sys.modules; install it with pip install 'meshsolve[lineax]'"
    ]
