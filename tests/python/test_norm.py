"""Norms: for every storage, eagerly and in jit, at the ends of the range, and their cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from derivatives import number, operands
from grids import Grid
from helpers import (
    DTYPES,
    ORDERS,
    REDUCED,
    SIZES,
    STORAGES,
    WHOLE,
    general,
    mesh_of,
    mesh_set,
    normal,
    put,
    put_matrix,
    unit_roundoff,
)

NORMS = (1, np.inf, "fro", None)
GRID = Grid(
    **WHOLE,
    kind=["random", "kms", "minij", "tiny", "huge"],
    which=NORMS,
    jit=[False, True],
)


def exact(a, which) -> np.longdouble:
    moduli = np.abs(a.astype(np.clongdouble))
    if which in (1, np.inf):
        return moduli.sum(0 if which == 1 else 1).max(initial=0)
    return np.sqrt((moduli**2).sum())


def check_norm(dtype, p, size, kind, storage, which, axis_type, jit):
    n = SIZES[size] * p - (storage == "padded")
    # No two rows and columns have the same norm.
    a = general(kind, n, dtype, np.random.default_rng([n, p]))
    a = (a * np.linspace(0.5, 1, n)[:, None]).astype(dtype)
    mesh = mesh_of(ORDERS[p], axis_type)
    onto = mesh if storage == "padded" else None
    on_mesh = a if onto else put_matrix(mesh, a, storage)
    call = lambda a: ms.norm(a, which, mesh=onto)  # noqa: E731
    with mesh_set(onto if jit else None):
        value = (jax.jit(call) if jit else call)(on_mesh)
    assert value.shape == () and value.dtype == np.finfo(dtype).dtype
    wanted = exact(a, which)
    assert abs(np.asarray(value) - wanted) <= 3 * unit_roundoff(dtype) * wanted
    if not onto:
        assert value.sharding.is_fully_replicated
        np.testing.assert_array_equal(on_mesh, a)


@pytest.mark.parametrize("case", GRID.pairs(**REDUCED), ids=str)
def test_norm(case):
    check_norm(**case)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_at_the_ends_of_the_range(dtype, storage):
    """Squares over- and underflow, subnormal numbers are kept, also on XLA's threads."""
    mesh, limits = mesh_of(range(4)), np.finfo(dtype)
    a = np.ones((8, 8), dtype)
    for scale in (limits.max / 10, limits.tiny, limits.smallest_subnormal):
        given = put_matrix(mesh, a * scale, storage)
        for which in NORMS:
            value = np.asarray(ms.norm(given, which))
            np.testing.assert_allclose(value, scale * 8, rtol=4 * unit_roundoff(dtype))
    given = put_matrix(mesh, a * limits.max, storage)
    assert [float(ms.norm(given, which)) for which in NORMS] == [np.inf] * 4


def test_what_is_no_number_and_empty_matrices():
    mesh = mesh_of(range(4))
    a = np.ones((8, 8))
    a[5, 2] = np.nan
    for storage in STORAGES:
        assert all(np.isnan(ms.norm(put_matrix(mesh, a, storage), which)) for which in NORMS)
    for onto in (None, mesh, mesh_of((3,), "explicit")):
        assert [float(ms.norm(np.zeros((0, 0)), which, mesh=onto)) for which in NORMS] == [0] * 4
    assert ms.norm(np.zeros((2, 0, 0)), axis=(-2, -1)).shape == (2,)


def test_what_is_given_as_in_numpy():
    """Lists, integers, norms as numbers of other types, batches."""
    a = [[3, 0], [4, 0]]
    assert (ms.norm(a), ms.norm(a, 1.0), ms.norm(a, float("inf"))) == (5, 7, 4)
    assert ms.norm(a).dtype == jnp.asarray(1.0).dtype
    many = np.random.default_rng(0).standard_normal((2, 3, 4, 4))
    for which in ("fro", np.int64(1), jnp.inf):
        wanted = jnp.linalg.matrix_norm(many, ord=which)
        np.testing.assert_allclose(ms.norm(many, which, (-2, -1)), wanted, rtol=1e-14)


@pytest.mark.parametrize("storage", ["rows", "columns"])
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_the_matrix_is_neither_moved_nor_copied(kind, storage):
    """The same holds for the gradient, which is one more matrix."""
    n, mesh = 512, mesh_of(range(4), kind)
    spec = NamedSharding(mesh, P("x", None) if storage == "rows" else P(None, "x"))
    like = jax.ShapeDtypeStruct((n, n), np.float64, sharding=spec)
    for which in NORMS:
        run = lambda a, which=which: ms.norm(a, which)  # noqa: E731
        with mesh_set(mesh):
            value = Program(jax.jit(run), like)
            gradient = Program(jax.jit(jax.grad(run)), like)
        assert value.compiled.memory_analysis().temp_size_in_bytes < 4096
        assert not value.collectives()
        assert gradient.collectives() <= {"all-reduce", "all-gather"}
        assert not gradient.makes(n, n)


@pytest.mark.parametrize("which", NORMS)
def test_gradients_of_a_padded_matrix(which):
    """The identity corner has no part in it."""
    a = operands("complex128", 7)[0] / 100
    ours = jax.grad(lambda a: number(ms.norm(a, which, mesh=mesh_of(range(4)))))
    wanted = jax.grad(lambda a: number(jnp.linalg.norm(a, which)))(jnp.asarray(a))
    for transform in (lambda f: f, jax.jit):
        np.testing.assert_allclose(transform(ours)(jnp.asarray(a)), wanted, rtol=0, atol=1e-14)


def test_gradients_of_large_and_small_matrices():
    """They do not use squares."""
    a = operands("float64")[0]
    for scale in (1e-200, 1e200):
        got = jax.grad(ms.norm)(put_matrix(mesh_of(range(4)), scale * a, "rows"))
        np.testing.assert_allclose(got, a / np.linalg.norm(a), rtol=1e-13)


SHAPES = {
    (8,): [None, 0],
    (8, 4): [None, 0, 1, -1, (0, 1), (1, 0), (-2, -1)],
    (8, 8): [None, 0, (0, 1), (1, 0)],
    (4, 8, 4): [None, 1, (0, 1), (2, 0)],
    (2, 4, 4): [(1, 2), (2, 1), (0, 2)],
}
ORDERS_OF_NORMS = (None, 1, -1, 2, 0, 3, -2.5, np.inf, -np.inf, "fro")


@pytest.mark.parametrize(
    ("shape", "where", "dtype"),
    [
        ((8,), "explicit", "complex128"),
        ((8, 4), "one device", "float64"),
        ((8, 4), "auto", "complex64"),
        ((8, 4), "explicit", "float32"),
        ((8, 8), "auto", "float64"),
        ((4, 8, 4), "explicit", "float64"),
        ((2, 4, 4), "one device", "complex128"),
    ],
    ids=str,
)
def test_as_numpy_has_them(shape, dtype, where):
    """Vectors, rectangles, axes, orders: numpy's results, and an error where numpy refuses."""
    x = normal(np.random.default_rng(0), shape, dtype)
    x.flat[1] = 0
    at = jnp.asarray(x)
    if where != "one device":
        spec = [None] * len(shape)
        spec[0 if shape[0] > 2 else 1] = "x"
        at = put(mesh_of(range(4), where), x, *spec)
    for axis in SHAPES[shape]:
        rank = len(shape) if axis is None else np.size(axis)
        for i, which in enumerate(ORDERS_OF_NORMS):
            keepdims = i % 2 == 0
            call = lambda x, o=(which, axis, keepdims): ms.norm(x, *o)  # noqa: E731
            singular = rank == 2 and which == 2
            try:
                wide = x.astype(np.clongdouble)
                wanted = None if singular else np.linalg.norm(wide, which, axis, keepdims)
            except ValueError:
                wanted = None
            if wanted is None:
                with pytest.raises(ValueError, match=r"meshsolve\.norm: (ord|axis): expected"):
                    call(at)
                continue
            value = (jax.jit(call) if i % 3 == 0 else call)(at)
            assert value.shape == np.shape(wanted)
            np.testing.assert_allclose(value, wanted, rtol=30 * unit_roundoff(dtype))


@pytest.mark.parametrize("which", [None, 1, np.inf, -np.inf, 3])
def test_gradients_of_vectors_and_rectangles(which):
    mesh = mesh_of(range(4), "explicit")
    rng = np.random.default_rng(0)
    for shape, axis in (((8,), None), ((8, 4), 0), ((8, 4), 1), ((8, 4), None)):
        if which == 3 and (shape, axis) == ((8, 4), None):
            continue
        x = rng.standard_normal(shape)

        def number(norm, o=(which, axis)):
            return lambda y: jnp.sum(norm(y, *o) ** 2)

        at = put(mesh, x, "x", *([None] * (len(shape) - 1)))
        with jax.set_mesh(mesh):
            got = jax.grad(number(ms.norm))(at)
        wanted = jax.grad(number(jnp.linalg.norm))(jnp.asarray(x))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-13)
        assert got.sharding == at.sharding


def test_squares_of_vectors_do_not_overflow():
    for scale in (1e-300, 1e300):
        np.testing.assert_allclose(ms.norm(scale * np.ones(16)), 4 * scale, rtol=1e-15)
        np.testing.assert_allclose(ms.norm(scale * np.ones((8, 2))), 4 * scale, rtol=1e-15)
    assert np.isinf(ms.norm(np.array([1, np.inf]))) and np.isnan(ms.norm(np.array([1, np.nan])))
    assert ms.norm(np.zeros(3)) == 0 and ms.norm(np.zeros(0)) == 0


@pytest.mark.parametrize("which", [2, -2, "nuc", "1", [1], np.ones(2)])
def test_other_norms(which):
    with pytest.raises(ValueError) as raised:
        ms.norm(np.eye(4), which)
    assert str(raised.value) == (
        'meshsolve.norm: ord: expected 1, -1, jnp.inf, -jnp.inf, "fro" or None for matrices, got '
        f"{which!r}; 2, -2 and 'nuc' take singular values, of one device's matrix: jnp.linalg.norm"
    )


def test_other_mistakes():
    with pytest.raises(ValueError, match=r"norm: ord: expected 1, .* got a traced value; 2, -2"):
        jax.jit(ms.norm)(np.eye(4), 1)
    with pytest.raises(ValueError) as raised:
        ms.norm(np.ones((2, 4, 3)), 1)
    assert str(raised.value) == (
        "meshsolve.norm: axis: expected axes of vectors or matrices, got None, and x with 3 axes; "
        "give axis=(-2, -1) for the matrices of a batch"
    )
    for axis in (2, (0, 0), (0, -2), (), (0, 1, 2), "x", 0.5):
        with pytest.raises(ValueError, match=r"norm: axis: expected an axis from -2 to 1, or two"):
            ms.norm(np.eye(4), axis=axis)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"norm: ord: expected a number or None for vectors, got "):
        ms.norm(np.ones(4), "fro")
    with pytest.raises(ValueError, match=r"norm: mesh: expected None for what is not a square"):
        ms.norm(np.ones((4, 3)), mesh=mesh_of(range(2)))
    with pytest.raises(TypeError, match=r"meshsolve\.norm: mesh: expected a jax\.sharding\.Mesh"):
        ms.norm(np.eye(4), mesh="x")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_random_cases_of_the_grid(seed):
    """A seeded sample of the whole grid."""
    check_norm(**GRID.draw([4, seed]))
