"""The functions against NumPy's and SciPy's of the same names: batches by leading axes, which
broadcast, vectors and columns, dtypes that promote, lists. They run on one device and on four, with
Auto and with Explicit axes.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import meshsolve as ms
from derivatives import number
from helpers import DTYPES, is_complex, mesh_of, mesh_set, normal, put, unit_roundoff

pytestmark = pytest.mark.versions

PLACES = ("one device", ("auto", "rows"), ("explicit", "columns"), ("explicit", "rows"))


def matrices(shape, dtype, seed=0):
    a = 0.2 * normal(np.random.default_rng(seed), shape, dtype)
    return (a + 1.5 * np.eye(shape[-1])).astype(dtype)


def hermitian(a):
    return a @ a.conj().swapaxes(-1, -2)


def placed(place, a, *others):
    """(Mesh or None, operands): the matrices distributed to four devices, or all on one."""
    if place == "one device":
        return None, tuple(map(jnp.asarray, (a, *others)))
    kind, storage = place
    mesh = mesh_of((1, 3, 0, 2), kind)
    spec = ("x", None) if storage == "rows" else (None, "x")
    batch = (None,) * (a.ndim - 2)
    return mesh, (put(mesh, a, *batch, *spec), *(put(mesh, x) for x in others))


def run(place, function, a, *others):
    mesh, operands = placed(place, a, *others)
    with mesh_set(mesh):
        return function(*operands)


def assert_close(got, wanted, dtype):
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert x.shape == np.shape(y)
        bar = 2000 * unit_roundoff(dtype) * max(1, np.abs(y).max(initial=0))
        np.testing.assert_allclose(x, y, rtol=0, atol=bar)


def inverted(t, trans):
    t = (t, t.swapaxes(-1, -2), t.conj().swapaxes(-1, -2))[trans]
    return np.linalg.inv(t)


# Next to NumPy's functions, which define vectors and batches alike. The names say which need a
# Hermitian matrix.
SOLVERS = {
    "solve": (ms.solve, np.linalg.solve),
    "solve, Hermitian": (lambda a, b: ms.solve(a, b, assume_a="pos"), np.linalg.solve),
    "solve transposed, Hermitian": (
        lambda a, b: ms.solve(a, b, True, assume_a="her", transposed=True),
        lambda a, b: np.linalg.solve(a.swapaxes(-1, -2), b),
    ),
    "cho_solve, Hermitian": (
        lambda a, b: ms.cho_solve(ms.cho_factor(a), b),
        np.linalg.solve,
    ),
    "cho_solve of a pair, Hermitian": (
        lambda a, b: ms.cho_solve(tuple(ms.cho_factor(a)), b),
        np.linalg.solve,
    ),
    "lu_solve": (
        lambda a, b: ms.lu_solve(ms.lu_factor(a), b, 2),
        lambda a, b: np.linalg.solve(a.conj().swapaxes(-1, -2), b),
    ),
    "lu_solve of a pair": (
        lambda a, b: ms.lu_solve(tuple(ms.lu_factor(a)), b, trans=1),
        lambda a, b: np.linalg.solve(a.swapaxes(-1, -2), b),
    ),
    "solve_triangular": (
        lambda a, b: ms.solve_triangular(a, b, "T", lower=True),
        lambda a, b: np.linalg.solve(np.tril(a).swapaxes(-1, -2), b),
    ),
}
SHAPES = (
    ((8, 8), (8,)),
    ((8, 8), (8, 3)),
    ((8, 8), (3, 8, 2)),  # columns of one call
    ((8, 8), (2, 3, 8, 2)),
    ((3, 8, 8), (8,)),
    ((3, 8, 8), (8, 2)),
    ((3, 8, 8), (3, 8, 2)),
    ((2, 1, 4, 4), (1, 3, 4, 2)),
    ((2, 4, 4), (3, 1, 4, 1)),
    ((1, 4, 4), (2, 4, 4)),
)


@pytest.mark.parametrize(
    ("name", "i", "shapes"),
    [
        (name, i, shapes)
        for j, name in enumerate(SOLVERS)
        for i, shapes in enumerate(SHAPES)
        if name == "solve" or (i + j) % 4 == 0
    ],
)
def test_solutions_of_batches(name, i, shapes):
    """Placements, dtypes, and eager and jit change from case to case."""
    ours, numpys = SOLVERS[name]
    j = i + list(SOLVERS).index(name)
    dtype, place = DTYPES[j // 2 % 4], PLACES[j % 4]
    a = matrices(shapes[0], dtype)
    a = hermitian(a) if "Hermitian" in name else a
    b = normal(np.random.default_rng(1), shapes[1], dtype)
    x = run(place, jax.jit(ours) if i % 3 == 0 else ours, a, b)
    assert x.dtype == dtype
    assert_close(x, numpys(a, b), dtype)


FUNCTIONS = {
    "inv": (ms.inv, np.linalg.inv),
    "inv, Hermitian": (lambda a: ms.inv(a, assume_a="pos"), np.linalg.inv),
    "det": (ms.det, np.linalg.det),
    "slogdet": (lambda a: tuple(ms.slogdet(a)), lambda a: tuple(np.linalg.slogdet(a))),
    "norm": (lambda a: ms.norm(a, 1, (-2, -1)), lambda a: np.linalg.norm(a, 1, (-2, -1))),
    "logdet, Hermitian": (ms.logdet, lambda a: np.linalg.slogdet(a)[1]),
    "inverses of factors, Hermitian": (
        lambda a: (ms.cho_factor(a).inv(), ms.lu_factor(a).inv()),
        lambda a: (np.linalg.inv(a), np.linalg.inv(a)),
    ),
}


@pytest.mark.parametrize(
    ("name", "i", "shape"),
    [
        (name, i, shape)
        for j, name in enumerate(FUNCTIONS)
        for i, shape in enumerate([(1, 1), (8, 8), (3, 4, 4), (2, 2, 4, 4), (2, 0, 0), (0, 4, 4)])
        if name == "inv" or (i + j) % 2 == 0
    ],
)
def test_functions_of_batches(name, i, shape):
    ours, numpys = FUNCTIONS[name]
    j = i + list(FUNCTIONS).index(name)
    dtype = DTYPES[j % 4]
    place = PLACES[0] if shape[-1] == 1 else PLACES[j // 2 % 4]
    a = matrices(shape, dtype)
    a = hermitian(a) if "Hermitian" in name else a
    x = run(place, jax.jit(ours) if i % 2 else ours, a)
    pairs = zip(jax.tree.leaves(numpys(a)), jax.tree.leaves(x), strict=True)
    wanted = tuple(np.asarray(y, z.dtype) for y, z in pairs)
    assert_close(x, wanted, dtype)


@pytest.mark.parametrize("place", PLACES)
def test_factors_of_batches_unpack_and_tell(place):
    a = matrices((2, 3, 4, 4), "complex128")
    h = hermitian(a)

    def both(a, h):
        return ms.cho_factor(h, lower=True), ms.lu_factor(a)

    cho, lu = run(place, both, a, h)
    mesh, _ = placed(place, a)
    with mesh_set(mesh):
        c, lower = cho
        factors, piv = lu
        assert lower and piv.shape == (2, 3, 4) and cho.info.shape == lu.info.shape == (2, 3)
        rcond = lu.rcond(), cho.rcond()
    assert repr(cho).startswith("CholeskyFactor((2, 3) of n=4, complex128")
    for i in itertools.product(range(2), range(3)):
        np.testing.assert_allclose(np.tril(c[i]), np.linalg.cholesky(h[i]), atol=1e-13)
        wanted, pivots = scipy.linalg.lu_factor(a[i])
        np.testing.assert_allclose(factors[i], wanted, atol=1e-13)
        np.testing.assert_array_equal(piv[i], pivots)
        for got, m in zip(rcond, (a[i], h[i]), strict=True):
            true = 1 / np.linalg.cond(m, 1)
            assert true * 0.99 < got[i] < 4 * true


GRADIENTS = {
    "solve": jnp.linalg.solve,
    "cho_solve, Hermitian": jnp.linalg.solve,
    "solve_triangular": lambda a, b: jnp.linalg.solve(jnp.tril(a).swapaxes(-1, -2), b),
}


def test_factors_are_compared_and_counted_as_pairs():
    factor = ms.lu_factor(np.eye(4))
    shapes = jax.tree.map(jnp.shape, factor)
    assert shapes == jax.tree.map(jnp.shape, ms.lu_factor(2 * np.eye(4)))
    assert shapes != jax.tree.map(jnp.shape, ms.lu_factor(np.eye(2)))
    assert len(factor) == 2 and factor[0].shape == (4, 4) and factor[-1].shape == (4,)
    with pytest.raises(TypeError, match="unhashable"):  # like arrays
        hash(factor)


@pytest.mark.parametrize("place", PLACES[:3])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_batches(name, place):
    a, b = matrices((3, 8, 8), "float64"), normal(np.random.default_rng(1), (8, 2), "float64")
    a = hermitian(a) if "Hermitian" in name else a
    gradient = lambda f: jax.grad(lambda a, b: number(f(a, b)), (0, 1))  # noqa: E731
    got = run(place, gradient(SOLVERS[name][0]), a, b)
    assert_close(got, jax.jit(gradient(GRADIENTS[name]))(a, b), "float64")


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_with_a_mesh_that_pads(mode):
    a, b = matrices((2, 7, 7), "float64"), np.ones(7)
    mesh = mesh_of(range(4))
    solve = lambda a, b: ms.solve(a, b, mesh=mesh)  # noqa: E731
    x = (jax.jit(solve) if mode == "jit" else solve)(a, b)
    assert_close(x, np.linalg.solve(a, b), "float64")


def test_what_is_not_an_array_of_a_floating_dtype():
    x = ms.solve([[3, 1], [1, 2]], [9, 8])
    np.testing.assert_allclose(x, [2, 3], rtol=1e-6)
    assert ms.inv(np.eye(2, dtype=np.int32)).dtype == jnp.asarray(1.0).dtype
    assert ms.solve(np.eye(2, dtype=np.float32), np.ones(2, np.complex64)).dtype == np.complex64
    assert is_complex(ms.det(np.eye(2) * 1j).dtype)
    np.testing.assert_allclose(ms.slogdet(2 * np.eye(2), method="qr")[1], np.log(4), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ms.solve(np.ones((2, 4, 4)), np.ones((3, 4, 1))),
            "meshsolve.solve: the leading axes: expected axes that broadcast, got (2, 4, 4) and "
            "(3, 4, 1); b is a vector only if it has one axis: otherwise append one, b[..., None]",
        ),
        (
            lambda: ms.solve(np.ones((2, 4, 4)), np.ones((2, 4))),
            "meshsolve.solve: b: expected shape [4] or [4, k], to go with a of shape (4, 4), got "
            "shape (2, 4); give one right-hand side per column",
        ),
        (
            lambda: ms.plan(np.ones((2, 4, 4))),
            "meshsolve.plan: a, b: expected one matrix [m, n], and b [m] or [m, k], got a batch; "
            "of a batch ask for one matrix and for its right-hand sides",
        ),
        (
            lambda: ms.slogdet(np.eye(2), method="svd"),
            'meshsolve.slogdet: method: expected None, "lu" or "qr", got \'svd\'; leave it out: LU '
            "is used in any case",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError) as raised:
        call()
    assert str(raised.value) == message
