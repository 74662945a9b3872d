"""Programs written for ``jnp.linalg`` and ``jax.scipy.linalg``: names, operands, messages,
determinants of singular matrices, rectangles, checks.
"""

import inspect
import types
import typing
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from allpairspy import AllPairs
from jax.experimental import checkify, sparse

import meshsolve as ms
from helpers import mesh_of, mesh_set, positive_definite, put

pytestmark = pytest.mark.versions


def test_names():
    """Only public names are shown, and no module replaces a function."""
    assert sorted([*ms.__all__, "lineax"]) == dir(ms)
    modules = {name for name in dir(ms) if isinstance(getattr(ms, name), types.ModuleType)}
    assert modules == {"lineax", "local"}
    assert callable(ms.cholesky) and callable(ms.solve) and callable(ms.norm)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("svd", "jnp.linalg.svd"),
        ("polar", "jax.scipy.linalg.polar"),
        ("fractional_matrix_power", "sqrtm"),
        ("ldl", "assume_a"),
        ("lu", "lu_factor"),
        ("inverse", "inv"),
        ("transpose", "transpose_inplace"),
        ("triangular", "solve_triangular"),
    ],
)
def test_names_that_there_are_not(name, instead):
    with pytest.raises(
        AttributeError, match=rf"^module 'meshsolve' has no attribute '{name}'; "
    ) as e:
        getattr(ms, name)
    assert instead in str(e.value)
    assert not hasattr(ms, name)


def test_other_names():
    with pytest.raises(AttributeError, match=r"^module 'meshsolve' has no attribute 'nothing'$"):
        ms.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_words_are_literal_types():
    """Those of all arguments that take one of a few words."""
    words = {"assume_a", "on_failure", "engine", "trans", "method"}
    seen = set()
    functions = [getattr(ms, name) for name in ms.__all__] + [ms.local.solve, ms.LUFactor.solve]
    for function in functions:
        if not inspect.isfunction(function):
            continue
        for name, type_ in typing.get_type_hints(function).items():
            if name in words:
                stated = {
                    a for t in (type_, *typing.get_args(type_)) for a in [typing.get_origin(t)]
                }
                assert typing.Literal in stated, (function, name, type_)
                seen.add(name)
    assert seen == words


A = np.eye(4) * 3 + 1
EXPECTED = "an array, or what makes one"
MISTAKES = [
    (
        lambda: ms.lu_solve(ms.cho_factor(A), np.ones(4)),
        "lu_solve: lu_and_piv: expected an LUFactor or a pair (lu, piv), got CholeskyFactor; use "
        "cho_solve, or the factor's own method solve",
    ),
    (
        lambda: ms.cho_solve(ms.lu_factor(A), np.ones(4)),
        "cho_solve: c_and_lower: expected a CholeskyFactor or a pair (c, lower), got LUFactor; use "
        "lu_solve, or the factor's own method solve",
    ),
    (
        lambda: ms.cho_solve("ab", np.ones(4)),
        "cho_solve: c_and_lower: expected a CholeskyFactor or a pair (c, lower), got str; pass "
        "what cho_factor returned",
    ),
    (
        lambda: ms.solve(sparse.BCOO.fromdense(jnp.asarray(A)), np.ones(4)),
        "solve: a: expected a dense array, got a sparse one, BCOO; give its todense(), or use "
        "jax.experimental.sparse.linalg.spsolve on one device",
    ),
    (
        lambda: ms.inv(scipy.sparse.eye_array(4, format="csr")),
        "inv: a: expected a dense array, got a sparse one, csr_array; give its todense(), or use "
        "jax.experimental.sparse.linalg.spsolve on one device",
    ),
    (
        lambda: ms.solve(A, None),
        f"solve: b: expected {EXPECTED}, got NoneType; give numbers in an array of JAX's or of "
        "NumPy's",
    ),
    (
        lambda: ms.det(None),
        f"det: a: expected {EXPECTED}, got NoneType; give numbers in an array of JAX's or of "
        "NumPy's",
    ),
    (
        lambda: ms.solve("a", np.ones(4)),
        f"solve: a: expected {EXPECTED}, got str; give numbers in an array of JAX's or of NumPy's",
    ),
    (
        lambda: ms.cholesky([["a", "b"], ["c", "d"]]),
        f"cholesky: a: expected {EXPECTED}, got list with elements of type <U1; give numbers in an "
        "array of JAX's or of NumPy's",
    ),
    (
        lambda: ms.norm(np.array([None])),
        f"norm: x: expected {EXPECTED}, got ndarray with elements of type object; give numbers in "
        "an array of JAX's or of NumPy's",
    ),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES, ids=lambda x: x[:24] if str(x) == x else "")
def test_operands_of_other_kinds(call, message):
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == f"meshsolve.{message}"


def cofactors(a):
    """The cofactors by their definition."""
    n = len(a)
    c = np.empty_like(a)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(a, i, 0), j, 1)
            c[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return c


def singular(kind, n, dtype):
    """A matrix with pivots that are exactly zero."""
    rng = np.random.default_rng(n)
    a = rng.integers(-3, 4, (n, n)).astype(dtype)
    if dtype == "complex128":
        a += 1j * rng.integers(-3, 4, (n, n))
    if kind == "column":
        a[:, 2] = 0
    elif kind == "row":
        a[1] = 0
    elif kind == "first and last":
        a[:, 0] = a[:, -1] = 0
    elif kind == "shift":
        a = np.eye(n, k=1, dtype=dtype) * np.arange(1, n + 1)
    elif kind == "block":
        a = np.zeros((n, n), dtype)
        a[: n - 2, 2:] = np.triu(np.ones((n - 2, n - 2))) * 2
        a[0, 0] = 1
    else:
        a = np.zeros((n, n), dtype)
    return a


@pytest.mark.parametrize(
    ("kind", "dtype", "where", "jit"),
    [
        *AllPairs(
            [
                ["column", "first and last", "block", "zero"],
                ["float64", "complex128"],
                ["one device", "auto", "explicit", "columns", "padded"],
                [False, True],
            ]
        ),
        ("row", "float64", "one device", True),
        ("shift", "complex128", "one device", True),
    ],
)
def test_gradients_of_determinants_at_singular_matrices(kind, dtype, where, jit):
    """They are the cofactors, whatever the rank."""
    a = singular(kind, 7 if where == "padded" else 8, dtype)
    at, mesh = jnp.asarray(a), mesh_of(range(4), "explicit" if where == "explicit" else "auto")
    if where in ("auto", "explicit", "columns"):
        at = put(mesh, a, *((None, "x") if where == "columns" else ("x", None)))
    options = {"mesh": mesh_of(range(4))} if where == "padded" else {}
    gradient = jax.grad(lambda a: ms.det(a, **options), holomorphic=dtype == "complex128")
    wanted = cofactors(a)
    assert ms.det(at, **options) == 0
    with mesh_set(mesh):
        got = (jax.jit(gradient) if jit else gradient)(at)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12 * max(np.abs(wanted).max(), 1))


def test_determinants_of_singular_matrices_in_other_ways():
    """A batch with regular ones, both modes; second derivatives are NaN there, right elsewhere."""
    regular = np.random.default_rng(0).standard_normal((6, 6))
    many = np.stack([singular("column", 6, "float64"), regular, np.zeros((6, 6))])
    got = jax.vmap(jax.grad(ms.det))(many)
    np.testing.assert_allclose(got, [cofactors(a) for a in many], rtol=0, atol=1e-11)
    direction = np.random.default_rng(1).standard_normal((6, 6))
    _, tangent = jax.jvp(ms.det, (jnp.asarray(many[0]),), (jnp.asarray(direction),))
    np.testing.assert_allclose(tangent, (cofactors(many[0]) * direction).sum(), rtol=1e-12)
    gradient = jax.grad(ms.LUFactor.det, allow_int=True)(ms.lu_factor(many[0])).work
    np.testing.assert_allclose(gradient, cofactors(many[0]), rtol=0, atol=1e-11)
    second = lambda f: jax.grad(lambda a: jnp.sum(jax.grad(f)(a) ** 2))  # noqa: E731
    np.testing.assert_allclose(second(ms.det)(regular), second(jnp.linalg.det)(regular), atol=1e-9)
    assert np.isnan(second(ms.det)(many[0])).all()
    assert np.isnan(jax.grad(lambda a: ms.slogdet(a).logabsdet)(many[0])).all()


@pytest.mark.parametrize("where", ["one device", "auto", "explicit"])
@pytest.mark.parametrize(
    "solve",
    [
        pytest.param(ms.solve, id="solve"),
        pytest.param(partial(ms.solve, assume_a="pos"), id="solve pos"),
        pytest.param(lambda a, b: ms.lu_factor(a).solve(b), id="lu_factor"),
        pytest.param(ms.solve_triangular, id="solve_triangular"),
    ],
)
def test_float_checks_see_a_failed_solve(solve, where):
    at = np.zeros((8, 8)), np.eye(8)
    if where != "one device":
        at = tuple(put(mesh_of(range(4), where), a, "x", None) for a in at)
    checked = jax.jit(checkify.checkify(solve, errors=checkify.float_checks))
    error, x = checked(at[0], jnp.ones(8))
    assert np.isnan(x).all() and "nan generated by primitive" in error.get()
    error, x = checked(at[1], jnp.ones(8))
    assert error.get() is None and not np.isnan(x).any()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((5, 3), "float32"), ((3, 5), "complex128"), ((2, 4, 3), "float64"), ((3, 0), "complex64")],
)
def test_factors_of_rectangles(shape, dtype):
    """As in ``jax.scipy.linalg.lu_factor``; eagerly, in jit, replicated."""
    a = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    wanted = jax.scipy.linalg.lu_factor(a)
    replicated = [put(mesh_of(range(4), kind), a) for kind in ("auto", "explicit")]
    for given in (a, *replicated):
        for factored in (ms.lu_factor, jax.jit(ms.lu_factor)):
            factor = factored(given)
            for x, y in zip(factor, wanted, strict=True):
                np.testing.assert_array_equal(x, y)
            assert not np.any(factor.info)
    assert "LUFactor" in repr(factor)


def test_what_rectangles_are_not_for():
    a = np.ones((4, 2))
    factor = ms.lu_factor(a)
    assert factor.info == 2
    calls = {
        "lu_solve": lambda: factor.solve(np.ones(4)),
        "LUFactor.det": factor.det,
        "LUFactor.slogdet": factor.slogdet,
        "LUFactor.inv": factor.inv,
        "LUFactor.rcond": factor.rcond,
    }
    for name, call in calls.items():
        with pytest.raises(ValueError) as raised:
            call()
        assert str(raised.value) == (
            f"meshsolve.{name}: a: expected a square matrix [n, n], got the factor of one of shape "
            "(4, 2); of such a factor there are lu, piv = factor alone"
        )
    sharded = "meshsolve.lu_factor: a: expected a square matrix [n, n], or one that each of its "
    sharded += "devices holds in full, got shape (4, 2), sharded; put it on one device with "
    sharded += "jax.device_put(a, jax.devices()[0])"
    for kind, transform in (("auto", lambda f: f), ("explicit", jax.jit)):
        with pytest.raises(ValueError) as raised:
            transform(ms.lu_factor)(put(mesh_of(range(4), kind), a, "x", None))
        assert str(raised.value) == sharded
    with pytest.raises(ValueError, match=r"lu_factor: mesh: expected None for a rectangle, got"):
        ms.lu_factor(a, mesh=mesh_of(range(2)))
    with pytest.raises(np.linalg.LinAlgError, match=r"lu_factor: a: expected a nonsingular matrix"):
        ms.lu_factor(a, on_failure="raise")
    with pytest.raises(ValueError, match=r"on_failure: expected \"nan\" for a rectangle inside"):
        jax.jit(lambda a: ms.lu_factor(a, on_failure="raise"))(a)


def test_a_matrix_of_one_triangle_is_positive_definite():
    """The triangle that is not given is never read."""
    a = positive_definite("random", 8, "float64", np.random.default_rng(0))
    given = np.tril(a) + np.triu(np.full((8, 8), np.nan), 1)
    np.testing.assert_allclose(ms.cholesky(given, lower=True), np.linalg.cholesky(a), atol=1e-14)
