"""sqrtm, logm, expm, inv_sqrtm, pinv, cond of Hermitian matrices: every storage, dtype and way of
calling, where there is no value, derivatives at equal eigenvalues.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from allpairspy import AllPairs

import meshsolve as ms
from eigen_cases import ORDER, N, hermitian, wide
from helpers import DTYPES, STORAGES, mesh_of, mesh_set, one_triangle, put, put_matrix

HER = {"assume_a": "her"}
FUNCTIONS = {
    "sqrtm": (functools.partial(ms.sqrtm, **HER), scipy.linalg.sqrtm),
    "logm": (functools.partial(ms.logm, **HER), scipy.linalg.logm),
    "expm": (functools.partial(ms.expm, **HER), scipy.linalg.expm),
    "inv_sqrtm": (ms.inv_sqrtm, lambda a: np.linalg.inv(scipy.linalg.sqrtm(a))),
    "pinv": (functools.partial(ms.pinv, hermitian=True), np.linalg.inv),
}


def positive(n: int, dtype=np.float64) -> np.ndarray:
    """Eigenvalues on both sides of 1."""
    a = hermitian(n, dtype)
    return (0.9 * a / np.linalg.norm(a, 2) + np.eye(n)).astype(dtype)


def assert_close(found, expected, bar=100):
    found, expected = np.asarray(found), np.asarray(expected)
    limit = bar * len(expected) * np.finfo(found.dtype).eps * np.abs(expected).max(initial=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit)


@pytest.mark.versions
@pytest.mark.parametrize(
    ("name", "storage", "dtype", "kind", "lower"),
    list(AllPairs([[*FUNCTIONS], STORAGES, DTYPES, ["auto", "explicit"], [True, False]])),
)
def test_wherever_a_is(name, storage, dtype, kind, lower):
    """One triangle is read: the other one has no numbers. X lies as A does."""
    function, reference = FUNCTIONS[name]
    a, mesh = positive(N, dtype), mesh_of(ORDER, kind)
    given = one_triangle(a, lower)
    sharded = put_matrix(mesh, given, storage)
    found = function(sharded, lower=lower)
    assert found.dtype == a.dtype and found.sharding.is_equivalent_to(sharded.sharding, 2)
    assert_close(found, reference(wide(a)))
    np.testing.assert_array_equal(found, np.asarray(found).conj().T, err_msg="Hermitian")
    traced = jax.jit(lambda a: function(a, lower=lower))(sharded)
    np.testing.assert_array_equal(traced, found, err_msg="the same bits in a program")
    np.testing.assert_array_equal(sharded, given, err_msg="A is kept")


@pytest.mark.parametrize("n", [1, 2, 5, 19])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_any_order_over_a_mesh(n, dtype):
    """The identity corner of padded matrices has no part in it."""
    a = positive(n, dtype)
    for name, kind in zip(FUNCTIONS, ["auto", "explicit"] * 3, strict=False):
        function, reference = FUNCTIONS[name]
        mesh, expected = mesh_of(ORDER, kind), reference(wide(a))
        assert_close(function(a, mesh=mesh), expected)
        with mesh_set(mesh):
            assert_close(jax.jit(lambda a: function(a, mesh=mesh))(jnp.asarray(a)), expected)  # noqa: B023
    rows = ms.Rows(lambda first, end: a[first:end], n, dtype)
    assert_close(ms.expm(rows, **HER, mesh=mesh_of(ORDER)), scipy.linalg.expm(wide(a)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_nothing_of_numbers_and_of_lists(name):
    function, reference = FUNCTIONS[name]
    assert function(np.zeros((0, 0), np.complex64)).shape == (0, 0)
    assert function([[4, 0], [0, 1]]).dtype == jnp.result_type(float)
    assert_close(function([[4, 0], [0, 1]]), reference(np.diag([4.0, 1.0])))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_batches(name, kind):
    function, reference = FUNCTIONS[name]
    many = np.stack([positive(N), 2 * positive(N), np.eye(N)])
    sharded = put(mesh_of(ORDER, kind), many, None, "x", None)
    for found in (function(many), function(sharded), jax.vmap(function)(sharded)):
        for x, a in zip(found, many, strict=True):
            assert_close(x, reference(a))


def test_a_donated_matrix_is_gone():
    """X has its memory."""
    kept = put(mesh_of(ORDER), positive(N), "x", None)
    given = jnp.copy(kept)  # memory of JAX's
    memory = [shard.data.unsafe_buffer_pointer() for shard in given.addressable_shards]
    found = ms.sqrtm(given, **HER, overwrite_a=True)
    assert [x.data.unsafe_buffer_pointer() for x in found.addressable_shards] == memory
    np.testing.assert_array_equal(found, ms.sqrtm(kept, **HER))
    assert given.is_deleted() and not kept.is_deleted()


def test_larger_than_a_tile():
    """Of both signs: the logarithm, and an inverse of less than full rank."""
    n = 400
    a = positive(n)
    q, values = np.linalg.qr(hermitian(n))[0], np.linspace(-1, 1, n)
    values[100:140] = 0
    broken = (q * values) @ q.T
    for spec in (("x", None), (None, "x")):
        sharded = put(mesh_of(range(2)), a, *spec)
        assert_close(ms.logm(sharded, **HER), scipy.linalg.logm(a))
        np.testing.assert_array_equal(ms.logm(sharded, **HER), ms.logm(sharded, **HER))
    found = ms.pinv(put(mesh_of(range(2)), broken, "x", None), hermitian=True)
    assert_close(found, np.linalg.pinv(broken, hermitian=True, rcond=1e-10), bar=1000)
    call = ms.last_call()
    assert call["routine"] == "hermitian_function"
    assert {"divide", "weigh", "back", "assemble"} <= call["seconds"].keys()


def test_the_rank_of_an_inverse():
    a = np.diag([4.0, 1e-3, -2.0, 0.0])
    expected = np.diag([0.25, 0.0, -0.5, 0.0])
    for rcond in (1e-2, jnp.float32(1e-2), np.float64(1e-2)):
        np.testing.assert_allclose(ms.pinv(a, rcond, True), expected, atol=1e-15)
        np.testing.assert_allclose(
            ms.pinv(a, rcond=rcond, hermitian=np.True_), expected, atol=1e-15
        )
    traced = jax.jit(lambda rcond: ms.pinv(a, rtol=rcond, hermitian=True))
    np.testing.assert_allclose(traced(1e-2), expected, atol=1e-15)
    np.testing.assert_allclose(traced(1e-4)[1, 1], 1e3)
    both = ms.pinv(np.stack([a, a]), np.array([1e-2, 1e-4]), hermitian=True)
    np.testing.assert_allclose(both[:, 1, 1], [0, 1e3], atol=1e-15)


@pytest.mark.parametrize("name", ["sqrtm", "logm", "inv_sqrtm"])
def test_where_there_is_no_value(name):
    function, _ = FUNCTIONS[name]
    kind = "positive semidefinite" if name == "sqrtm" else "positive definite"
    a = put(mesh_of(ORDER), np.diag([-2.0, *np.arange(N - 2), -1.0]), "x", None)
    count = 2 if name == "sqrtm" else 3
    assert np.isnan(function(a)).all()
    message = f"a: expected a {kind} matrix, got one whose {count} lowest eigenvalues are "
    with pytest.raises(np.linalg.LinAlgError, match=rf"meshsolve\.{name}: {message}"):
        function(a, on_failure="raise")
    traced = jax.jit(lambda a: function(a, on_failure="raise"))
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(traced(a))
    # The same with a derivative.
    for wrap in (lambda f: f, jax.jit):
        x, dx = wrap(lambda a: jax.jvp(function, (a,), (a,)))(a)
        assert np.isnan(x).all() and np.isnan(dx).all()
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(jax.jit(jax.grad(lambda a: traced(a).sum()))(a))


def test_singular_matrices_have_a_root():
    """Rounding makes some of their eigenvalues negative."""
    x = hermitian(N)[:, :5]
    a = put(mesh_of(ORDER), x @ x.T, "x", None)
    assert np.asarray(ms.eigvalsh(a))[0] < 0
    root = np.asarray(ms.sqrtm(a, **HER, on_failure="raise"))
    np.testing.assert_allclose(root @ root, a, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_entries_that_are_not_finite(name):
    function, _ = FUNCTIONS[name]
    a = positive(N)
    a[17, 3] = a[3, 17] = np.inf
    sharded = put(mesh_of(ORDER), a, None, "x")
    assert np.isnan(function(sharded)).all()
    with pytest.raises(np.linalg.LinAlgError, match=f"{name}: a: expected a finite matrix"):
        function(sharded, on_failure="raise")


def equal_eigenvalues(n: int, dtype) -> np.ndarray:
    """Some are equal, some close, some far apart."""
    q = np.linalg.qr(hermitian(n, dtype))[0]
    values = np.array([1e-3, 0.5, 0.5, 0.5 + 1e-9, 0.52, 0.7, 4, 4])[:n]
    a = (q * values) @ q.conj().T
    return (a + a.conj().T) / 2


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("storage", "kind", "dtype"),
    [("rows", "auto", np.float64), ("columns", "explicit", np.complex128)],
)
def test_derivatives(name, storage, kind, dtype):
    """Both ways, at equal eigenvalues, too, against differences of A + t A'."""
    function, reference = FUNCTIONS[name]
    a, change = equal_eigenvalues(8, dtype), 1e-2 * hermitian(8, dtype)[::-1, ::-1].conj()
    change = a @ change @ a  # in proportion to the small ones
    weights = hermitian(8, dtype)
    step = 0.1
    at = lambda t: reference(a + t * change)  # noqa: E731
    expected = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)
    mesh = mesh_of(ORDER, kind)
    given, tangent = (put_matrix(mesh, x, storage) for x in (a, change))
    along = lambda a, t: jax.jvp(function, (a,), (t,))  # noqa: E731

    def number(a):
        x = function(a)
        there = jax.typeof(x).sharding
        spread = jnp.asarray(weights)
        return (
            (x * (jax.sharding.reshard(spread, there) if kind == "explicit" else spread)).sum().real
        )

    with mesh_set(mesh):
        # Eagerly each operation is a program.
        for wrap in (jax.jit, lambda f: f)[: 1 + (name == "logm")]:
            x, forward = wrap(along)(given, tangent)
            gradient = wrap(jax.grad(number))(given)
            np.testing.assert_allclose(x, at(0), rtol=0, atol=1e-9 * np.abs(at(0)).max())
            size = np.abs(expected).max()
            np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-7 * size)
            backward = (np.asarray(gradient) * change).sum().real
            np.testing.assert_allclose(backward, (expected * weights).sum().real, rtol=1e-6)
            np.testing.assert_allclose(gradient, np.asarray(gradient).conj().T, atol=1e-9)


def test_derivatives_of_padded_matrices_and_of_batches():
    many = np.stack([positive(7), equal_eigenvalues(7, np.float64)])
    for name in ("logm", "pinv"):
        function, _ = FUNCTIONS[name]
        sums = lambda a, **more: (function(a, **more) * jnp.arange(7.0)).sum()  # noqa: B023, E731
        expected = [jax.jit(jax.grad(sums))(a) for a in many]
        padded = [jax.jit(jax.grad(lambda a: sums(a, mesh=mesh_of(ORDER))))(a) for a in many]  # noqa: B023
        for found in (padded, jax.grad(lambda a: sums(a).sum())(jnp.asarray(many))):  # noqa: B023
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-8 * np.abs(other).max())


def test_derivatives_of_small_padded_matrices_of_less_than_full_rank():
    """What counts as zero is a part of |A|, not of what padding adds. A grows along itself."""
    q = np.linalg.qr(hermitian(7))[0]
    a = (q * np.array([-3e-9, 0, 0, 2e-9, 3e-9, 1e-8, 1e-8])) @ q.T
    a = jnp.asarray((a + a.T) / 2)
    inverse = lambda a: ms.pinv(a, 1e-2, hermitian=True, mesh=mesh_of(ORDER))  # noqa: E731
    x, dx = jax.jit(lambda a: jax.jvp(inverse, (a,), (a,)))(a)
    size = np.abs(x).max()
    np.testing.assert_array_equal(x, x.T, err_msg="Hermitian to the last bit")
    np.testing.assert_allclose(x, inverse(a), atol=1e-12 * size)
    np.testing.assert_allclose(dx, -x, atol=1e-12 * size)
    root = lambda a: ms.sqrtm(a, **HER, mesh=mesh_of(ORDER))  # noqa: E731
    negative = jnp.diag(jnp.array([-1e-7, *[1e-2] * 6], np.float32))
    assert np.isnan(root(negative)).all()
    assert np.isnan(jax.jit(lambda a: jax.jvp(root, (a,), (a,))[0])(negative)).all()


def test_exponentials_that_leave_the_range():
    a = np.diag([800.0, 0, 0, 1])
    assert np.isnan(ms.expm(a, **HER)).all()
    message = "a: expected a less extreme matrix, got one whose 1 eigenvalues give numbers that are"
    with pytest.raises(np.linalg.LinAlgError, match=f"expm: {message}"):
        ms.expm(a, **HER, on_failure="raise")
    with pytest.raises(np.linalg.LinAlgError, match=message):
        ms.expm((a / 8).astype(np.float32), **HER, on_failure="raise")
    assert np.isnan(jax.jvp(lambda a: ms.expm(a, **HER), (a,), (a,))[0]).all()


def test_zeros_are_not_negative():
    for x in (ms.sqrtm(4 * np.eye(3), **HER), ms.expm(np.zeros((3, 3)), **HER)):
        assert not np.signbit(x).any()


def test_second_derivatives():
    """Those of the trace of exp(A) along a line; NaN where two eigenvalues are equal."""
    a, t = hermitian(6), hermitian(6)[::-1, ::-1]
    trace = lambda a: jnp.trace(ms.expm(a, **HER))  # noqa: E731
    along = lambda f: lambda a: jax.jvp(f, (a,), (jnp.asarray(t),))[1]  # noqa: E731
    found = jax.jit(along(along(trace)))(jnp.asarray(a))
    step = 1e-4
    at = lambda s: np.trace(scipy.linalg.expm(a + s * t))  # noqa: E731
    np.testing.assert_allclose(found, (at(step) - 2 * at(0) + at(-step)) / step**2, rtol=1e-5)
    assert np.isnan(along(along(trace))(jnp.eye(6)))


def test_the_derivative_of_an_inverse_keeps_the_rank():
    """Along a rotation of A, against differences."""
    q = np.linalg.qr(hermitian(6))[0]
    a = (q * np.array([-2.0, 0, 0, 1, 1, 3])) @ q.T
    turn = np.triu(hermitian(6), 1)
    at = lambda s: (lambda r: r @ a @ r.T)(scipy.linalg.expm(s * (turn - turn.T)))  # noqa: E731
    inverse = lambda s: np.linalg.pinv(at(s), hermitian=True, rcond=1e-8)  # noqa: E731
    step = 1e-6
    change, expected = ((f(step) - f(-step)) / (2 * step) for f in (at, inverse))
    found = jax.jvp(lambda a: ms.pinv(a, hermitian=True), (jnp.asarray(a),), (change,))[1]
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_condition(dtype, kind):
    a = hermitian(N, dtype)
    expected = np.linalg.cond(wide(a))
    sharded = put(mesh_of(ORDER, kind), a, "x", None)
    for found in (ms.cond(sharded, **HER), jax.jit(lambda a: ms.cond(a, 2, **HER))(sharded)):
        assert found.shape == () and found.dtype == np.finfo(dtype).dtype
        np.testing.assert_allclose(found, expected, rtol=100 * N * expected * np.finfo(dtype).eps)
    both = ms.cond(np.stack([a, np.eye(N, dtype=dtype)]), **HER)
    assert both.shape == (2,) and np.isclose(both[1], 1)
    assert np.isnan(ms.cond(np.full((2, 2), np.nan), **HER))
    assert np.isinf(ms.cond(np.zeros((2, 2)), **HER))
    assert_close(
        ms.cond(hermitian(5), **HER, mesh=mesh_of(ORDER))[None], [np.linalg.cond(hermitian(5))]
    )


def test_the_gradient_of_a_condition():
    a, t = positive(6), hermitian(6)
    step = 1e-6
    expected = (np.linalg.cond(a + step * t) - np.linalg.cond(a - step * t)) / (2 * step)
    gradient = jax.grad(lambda a: ms.cond(a, **HER))(put(mesh_of(range(2)), a, "x", None))
    np.testing.assert_allclose((np.asarray(gradient) * t).sum(), expected, rtol=1e-6)


def test_messages():
    a = np.eye(3)
    for name in ("sqrtm", "logm", "expm", "cond"):
        function = getattr(ms, name)
        with pytest.raises(
            TypeError, match=f'{name}: assume_a: expected assume_a="her", got no arg'
        ):
            function(a)
        with pytest.raises(
            ValueError, match=f"{name}: assume_a: expected assume_a=.her., got 'gen'"
        ):
            function(a, assume_a="gen")
    for function, _ in FUNCTIONS.values():
        with pytest.raises(ValueError, match=r"a: expected a square matrix"):
            function(np.ones((2, 3)))
        with pytest.raises(ValueError, match="on_failure: expected"):
            function(a, on_failure="stop")
        with pytest.raises(TypeError, match="a: expected a dtype"):
            function(np.eye(2, dtype=np.float16))
    with pytest.raises(
        ValueError, match=r"pinv: hermitian: expected True, got False; .*jnp.linalg.pinv"
    ):
        ms.pinv(a)
    for rcond in (-1.0, np.nan, "1"):
        with pytest.raises(
            ValueError, match="pinv: rtol: expected real numbers that are not negative"
        ):
            ms.pinv(a, rcond, hermitian=True)
    with pytest.raises(ValueError, match="pinv: rcond: expected None, as rtol is given"):
        ms.pinv(a, 0.1, hermitian=True, rcond=0.1)
    for function in (functools.partial(ms.pinv, hermitian=True), functools.partial(ms.logm, **HER)):
        with pytest.raises(TypeError, match="a: expected a dtype"):
            function(jnp.eye(2, dtype=jnp.bfloat16))
    with pytest.raises(ValueError, match="cond: a: expected a matrix with rows"):
        ms.cond(np.zeros((0, 0)), **HER)
    for p in (1, -2, "fro", np.inf):
        with pytest.raises(ValueError, match=r"cond: p: expected None or 2, got .*rcond"):
            ms.cond(a, p, **HER)
