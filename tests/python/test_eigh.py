"""eigh: eigenvectors for every storage, dtype and way of calling, hard spectra, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from allpairspy import AllPairs
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from eigen_cases import KINDS, ORDER, N, hermitian, toeplitz, wide
from helpers import (
    DTYPES,
    STORAGES,
    mesh_of,
    mesh_set,
    one_triangle,
    put,
    put_matrix,
    run_fresh,
)


def assert_decomposed(found, a, bar=20):
    """The ratios of LAPACK's tests: |A V - V W| and |V^H V - I|."""
    values, v = map(wide, found)
    n, u = len(a), np.finfo(a.dtype).eps
    assert found.eigenvalues.dtype == np.finfo(a.dtype).dtype
    assert found.eigenvectors.dtype == a.dtype
    assert values.shape == v.shape[-1:] and len(v) == n
    assert np.all(np.diff(values) >= 0)
    norm = lambda x: np.abs(x).sum(axis=0).max(initial=0)  # noqa: E731
    size = norm(wide(a))
    assert norm(wide(a) @ v - v * values) <= bar * n * u * size
    assert norm(v.conj().T @ v - np.eye(v.shape[1])) <= bar * n * u


@pytest.mark.versions
@pytest.mark.parametrize(
    ("storage", "dtype", "kind", "lower"),
    list(AllPairs([STORAGES, DTYPES, ["auto", "explicit"], [True, False]])),
)
def test_vectors_wherever_a_is(storage, dtype, kind, lower):
    """One triangle is read: the other one has no numbers. V lies as A does."""
    a, mesh = hermitian(N, dtype), mesh_of(ORDER, kind)
    sharded = put_matrix(mesh, one_triangle(a, lower), storage)
    found = ms.eigh(sharded, lower=lower)
    assert found.eigenvalues.sharding.is_fully_replicated
    assert found.eigenvectors.sharding.is_equivalent_to(sharded.sharding, 2)
    assert_decomposed(found, a)
    traced = jax.jit(lambda a: ms.eigh(a, lower=lower))(sharded)
    if storage != "column-major":  # whose order in memory a program does not know
        np.testing.assert_array_equal(traced.eigenvectors, found.eigenvectors)
    assert_decomposed(traced, a)
    np.testing.assert_array_equal(sharded, one_triangle(a, lower), err_msg="A is kept")


@pytest.mark.parametrize("n", [1, 2, 3, 5, 19])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_any_order_over_a_mesh(n, dtype):
    """The identity corner of padded matrices has no values and no vectors."""
    a = 10 * hermitian(n, dtype) - 100 * np.eye(n, dtype=dtype)
    for kind in ("auto", "explicit"):
        mesh = mesh_of(ORDER, kind)
        assert_decomposed(ms.eigh(a, mesh=mesh), a)
        traced = jax.jit(lambda a: ms.eigh(a, mesh=mesh))  # noqa: B023
        with mesh_set(mesh):
            assert_decomposed(traced(jnp.asarray(a)), a)
    rows = ms.Rows(lambda first, end: a[first:end], n, dtype)
    assert_decomposed(ms.eigh(rows, mesh=mesh_of(ORDER)), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_nothing(dtype):
    w, v = ms.eigh(np.zeros((0, 0), dtype))
    assert w.shape == (0,) and w.dtype == np.finfo(dtype).dtype
    assert v.shape == (0, 0) and v.dtype == dtype


@pytest.mark.parametrize(("n", "devices"), [(63, 1), (64, 1), (130, 1), (192, 3), (512, 4)])
def test_orders_around_the_width_of_panels(n, devices):
    a = hermitian(n)
    sharded = put(mesh_of(range(devices)), a, "x", None)
    found = ms.eigh(sharded)
    assert_decomposed(found, a)
    values = np.asarray(ms.eigvalsh(sharded))
    bar = 20 * n * np.finfo(np.float64).eps * np.abs(values).max()
    np.testing.assert_allclose(found.eigenvalues, values, rtol=0, atol=bar)
    np.testing.assert_array_equal(ms.eigh(sharded).eigenvectors, found.eigenvectors)


def test_by_a_band():
    """More than four threads, or more than there are cores, reduce A to a band first."""
    run_fresh(
        """
        from eigen_cases import hermitian
        n = 520
        a = hermitian(n, np.complex128)
        for storage in ("rows", "columns"):
            axes = ("x", None) if storage == "rows" else (None, "x")
            sharded = put(mesh_of(range(8)), a, *axes)
            w, v = map(np.asarray, ms.eigh(sharded))
            assert ms.last_call()["tile"] == 32 and ms.last_call()["workers"] == 8
            scale = n * np.finfo(np.float64).eps
            assert np.abs(a @ v - v * w).max() <= 20 * scale * np.abs(w).max()
            assert np.abs(v.conj().T @ v - np.eye(n)).max() <= 20 * scale
            values = np.asarray(ms.eigvalsh(sharded))
            assert ms.last_call()["tile"] > 32
            assert np.abs(values - w).max() <= 20 * scale * np.abs(w).max()
        """,
        env={"MESHSOLVE_THREADS": "8"},
    )


@pytest.mark.parametrize("kind", KINDS)
def test_hard_spectra(kind):
    a = KINDS[kind]()
    found = ms.eigh(put(mesh_of(range(2)), a, "x", None))
    scale = {"near overflow": 1e-300, "near underflow": 1e300}.get(kind, 1.0)
    assert_decomposed(ms.eigh(put(mesh_of(range(2)), a * scale, "x", None)), a * scale)
    scaled = found._replace(eigenvalues=found.eigenvalues * scale)
    assert_decomposed(scaled, a * scale)


def test_known_vectors():
    n = 100
    i = np.arange(1, n + 1)
    exact = np.sin(np.outer(i, i) * np.pi / (n + 1)) * np.sqrt(2 / (n + 1))
    # Ascending eigenvalues of (1, 2, 1) are those of alternating signs first.
    exact = exact[:, ::-1]
    _, v = ms.eigh(put(mesh_of(ORDER), toeplitz(n), None, "x"))
    np.testing.assert_allclose(np.abs(v), np.abs(exact), atol=1e-11)


@pytest.mark.parametrize("number", [np.nan, -np.inf])
@pytest.mark.parametrize("storage", ["rows", "columns"])
def test_entries_that_are_not_finite(storage, number):
    a = hermitian(N)
    a[17, 3] = a[3, 17] = number
    sharded = put_matrix(mesh_of(ORDER), a, storage)
    assert all(np.isnan(x).all() for x in ms.eigh(sharded))
    message = r"meshsolve\.eigh: a: expected a finite matrix.*info = 25"
    with pytest.raises(np.linalg.LinAlgError, match=message):
        ms.eigh(sharded, on_failure="raise")
    with pytest.raises(jax.errors.JaxRuntimeError, match="a: expected a finite matrix"):
        jax.block_until_ready(jax.jit(lambda a: ms.eigh(a, on_failure="raise"))(sharded))


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_batches(kind):
    many = np.stack([hermitian(N), 2 * hermitian(N), np.eye(N)])
    mesh = mesh_of(ORDER, kind)
    sharded = put(mesh, many, None, "x", None)
    for found in (ms.eigh(many), ms.eigh(sharded), jax.vmap(ms.eigh)(sharded)):
        for w, v, a in zip(*found, many, strict=True):
            assert_decomposed(ms.EighResult(w, v), a)
    # The batch itself is distributed.
    spread = put(mesh, np.concatenate([many, many[:1]]), "x", None, None)
    with mesh_set(mesh):
        w, v = jax.jit(jax.vmap(ms.eigh))(spread)
    np.testing.assert_allclose(
        many[1] @ np.asarray(v)[1], np.asarray(v)[1] * np.asarray(w)[1], atol=1e-12
    )


def test_a_donated_matrix_is_gone():
    mesh = mesh_of(ORDER)
    a, kept = hermitian(N), put(mesh, hermitian(N), "x", None)
    given = put(mesh, a, "x", None)
    found = ms.eigh(given, overwrite_a=True)
    np.testing.assert_array_equal(found.eigenvectors, ms.eigh(kept).eigenvectors)
    assert given.is_deleted() and not kept.is_deleted()


def test_in_blocks_on_two_axes():
    both = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4])
    a = hermitian(N)
    for spec in (P("x", "y"), P(("x", "y"), None), P(None, "y")):
        sharded = put(both, a, *spec)
        found = ms.eigh(sharded)
        assert_decomposed(found, a)
        assert found.eigenvectors.sharding.is_equivalent_to(sharded.sharding, 2)


@pytest.mark.parametrize("storage", ["rows", "columns"])
@pytest.mark.parametrize("mesh_kind", ["auto", "explicit", None])
def test_subsets(storage, mesh_kind):
    a = hermitian(N, np.complex128)
    given = (
        jnp.asarray(a) if mesh_kind is None else put_matrix(mesh_of(ORDER, mesh_kind), a, storage)
    )
    whole = ms.eigh(given)
    for first, last in [(0, 0), (3, 9), (0, N - 1), (N - 1, N - 1)]:
        for call in (ms.eigh, jax.jit(ms.eigh, static_argnames="subset_by_index")):
            w, v = call(given, subset_by_index=(first, last))
            np.testing.assert_array_equal(w, whole.eigenvalues[first : last + 1])
            np.testing.assert_array_equal(v, np.asarray(whole.eigenvectors)[:, first : last + 1])


@pytest.mark.parametrize(("storage", "kind"), [("rows", "explicit"), ("columns", "auto")])
def test_subsets_find_no_other_eigenvectors(storage, kind):
    """From order 33 on. Derivatives need all."""
    a, mesh = hermitian(72, np.complex128), mesh_of(ORDER, kind)
    given, chosen = put_matrix(mesh, a, storage), {"subset_by_index": (5, 7)}
    whole = ms.eigh(given)
    some = jax.jit(lambda a: ms.eigh(a, **chosen))
    for w, v in (ms.eigh(given, **chosen), some(given), ms.eigh(a, mesh=mesh, **chosen)):
        np.testing.assert_array_equal(w, whole.eigenvalues[5:8])
        np.testing.assert_array_equal(v, np.asarray(whole.eigenvectors)[:, 5:8])
    program = some.lower(given).compile().as_text()
    assert "first = 5 :" in program and "vectors = 3 :" in program
    twice = jax.vmap(lambda a: ms.eigh(a, **chosen).eigenvectors)(np.stack([a, 2 * a]))
    np.testing.assert_allclose(abs(twice[1]), abs(twice[0]), rtol=0, atol=1e-10)

    def weight(eigh, columns, a):
        return (abs(eigh(a)[1][:, columns]) ** 2 * np.arange(72)[:, None]).sum()

    with mesh_set(mesh):
        got = jax.grad(lambda a: weight(lambda a: ms.eigh(a, **chosen), slice(0, 3), a))(given)
    wanted = jax.grad(lambda a: weight(jnp.linalg.eigh, slice(5, 8), a))(a)
    hermitian_part = lambda x: (np.asarray(x) + np.asarray(x).conj().T) / 2  # noqa: E731
    size = abs(wanted).max()
    np.testing.assert_allclose(
        hermitian_part(got), hermitian_part(wanted), rtol=0, atol=1e-9 * size
    )


@pytest.mark.parametrize("storage", ["rows", "columns"])
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_derivatives(storage, kind, dtype):
    """Of functions that do not depend on phases of eigenvectors, both ways, against differences."""
    a, change = hermitian(8, dtype), hermitian(8, dtype)[::-1, ::-1].conj()
    change = (change + change.conj().T) / 2
    weights = np.random.default_rng(3).standard_normal(8)

    def both(a):
        w, v = ms.eigh(a)
        here = jax.typeof(v).sharding
        put_there = (lambda x: jax.sharding.reshard(x, here)) if kind == "explicit" else lambda x: x
        spread = put_there(jnp.asarray(np.arange(64.0).reshape(8, 8) / 64))
        return (w * weights).sum() + (jnp.abs(v) ** 2 * spread).sum()

    mesh = mesh_of(ORDER, kind)
    at = lambda t: put_matrix(mesh, a + t * change, storage)  # noqa: E731
    step = 1e-6
    with mesh_set(mesh):
        expected = (float(both(at(step))) - float(both(at(-step)))) / (2 * step)
        tangent = put_matrix(mesh, change, storage)
        forward = jax.jit(lambda a, t: jax.jvp(both, (a,), (t,))[1])(at(0), tangent)
        gradient = jax.jit(jax.grad(both))(at(0))
        eager = jax.grad(both)(at(0))
    np.testing.assert_allclose(forward, expected, rtol=1e-6)
    # JAX's gradient of a real function is conjugated.
    backward = (np.asarray(gradient) * change).sum().real
    np.testing.assert_allclose(backward, expected, rtol=1e-6)
    np.testing.assert_allclose(eager, gradient, atol=1e-10)
    values = lambda a: (ms.eigvalsh(a) * weights).sum()  # noqa: E731
    other = lambda a: (ms.eigh(a).eigenvalues * weights).sum()  # noqa: E731
    with mesh_set(mesh):
        one, two = jax.jit(jax.grad(values))(at(0)), jax.jit(jax.grad(other))(at(0))
    np.testing.assert_allclose(one, two, atol=1e-12)
    np.testing.assert_allclose(one, np.asarray(one).conj().T, atol=1e-12)


def test_second_derivatives():
    """Those of a smooth function of A: the trace of exp(A)."""
    a, t = hermitian(6), hermitian(6)[::-1, ::-1]
    sharded = put(mesh_of(range(2)), a, "x", None)
    trace = lambda a: jnp.exp(ms.eigvalsh(a)).sum()  # noqa: E731
    along = lambda f: lambda a: jax.jvp(f, (a,), (jnp.asarray(t),))[1]  # noqa: E731
    found = jax.jit(along(along(trace)))(jnp.asarray(a))
    step = 1e-4
    at = lambda s: np.exp(np.linalg.eigvalsh(a + s * t)).sum()  # noqa: E731
    np.testing.assert_allclose(found, (at(step) - 2 * at(0) + at(-step)) / step**2, rtol=1e-5)
    gradient = jax.grad(lambda a: (jax.grad(trace)(a) ** 2).sum())(sharded)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("leading", [True, False])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_gradients_of_batches(leading, wrap):
    """By leading axes and by jax.vmap, on one device and with a mesh of which n is no multiple."""
    many = jnp.stack([hermitian(5), 2 * hermitian(5) + jnp.eye(5), hermitian(5)[::-1, ::-1]])
    weights = jnp.arange(25.0).reshape(5, 5) / 25

    def value(a, mesh=None):
        w, v = ms.eigh(a, mesh=mesh)
        return (w * weights[0]).sum() + (v**2 * weights).sum()

    of_one = jax.grad(value)
    for mesh in (None, mesh_of(ORDER)):
        if leading:
            found = wrap(jax.grad(lambda a, mesh=mesh: value(a, mesh)))(many)
        else:
            found = wrap(jax.vmap(lambda a, mesh=mesh: jax.grad(value)(a, mesh)))(many)
        for gradient, a in zip(found, many, strict=True):
            np.testing.assert_allclose(gradient, of_one(a), atol=1e-10)


@pytest.mark.parametrize("n", [6, 7])
def test_equal_eigenvalues(n):
    """With "zero" derivatives of what does not depend on their basis are right: here of a projector
    on the three largest ones, of which two are equal.
    """
    q = np.linalg.qr(np.random.default_rng(5).standard_normal((n, n)))[0]
    a = (q * np.array([-1.0, 0, 0.5, 3, 3, 5, 7][:n])) @ q.T
    a = (a + a.T) / 2
    t = hermitian(n)
    mesh = mesh_of(range(2)) if n % 2 == 0 else None
    on = mesh_of(range(2)) if mesh is None else None

    def projector(a, degenerate):
        _, v = ms.eigh(a, degenerate=degenerate, mesh=on)
        return v[:, 3:] @ v[:, 3:].T

    given = put(mesh, a, "x", None) if mesh else jnp.asarray(a)
    tangent = put(mesh, t, "x", None) if mesh else jnp.asarray(t)
    of = lambda x: (lambda v: v[:, 3:] @ v[:, 3:].T)(np.linalg.eigh(x)[1])  # noqa: E731
    step = 1e-6
    expected = (of(a + step * t) - of(a - step * t)) / (2 * step)

    def change(word, wrap):
        along = lambda a, t: jax.jvp(lambda a: projector(a, word), (a,), (t,))[1]  # noqa: E731
        return wrap(along)(given, tangent)

    for wrap in (lambda f: f, jax.jit):
        np.testing.assert_allclose(change("zero", wrap), expected, atol=1e-7)
        assert np.isnan(change("nan", wrap)).any()
    # Eigenvalues alone have derivatives, as they are a trace of each space.
    gradient = jax.grad(lambda a: ms.eigh(a).eigenvalues.sum())(jnp.asarray(a))
    np.testing.assert_allclose(gradient, np.eye(n), atol=1e-12)


def test_second_derivatives_at_equal_eigenvalues():
    """They would need what "zero" leaves out."""
    a, t = jnp.diag(jnp.array([1.0, 1, 2, 3])), jnp.asarray(hermitian(4))
    for word in ("nan", "zero"):
        squares = lambda a: (ms.eigh(a, degenerate=word).eigenvalues ** 2).sum()  # noqa: B023, E731
        first = jax.grad(squares)
        np.testing.assert_allclose(first(a), 2 * a, atol=1e-13)
        assert np.isnan(jax.jvp(first, (a,), (t,))[1]).any()


def test_close_eigenvalues_are_not_equal():
    """In float32, a gap of 168 eps: the derivative of a projector that splits the pair."""
    values = np.linspace(-1, 1, 300)
    values[150] = values[149] + 2e-5
    q = np.linalg.qr(np.random.default_rng(2).standard_normal((300, 300)))[0]
    a = ((q * values) @ q.T).astype(np.float32)
    t = hermitian(300)

    def projector(v):
        return (v[:, :150] @ (v[:, :150].T @ jnp.asarray(t[0], v.dtype))).sum()

    of = lambda a: jax.jvp(lambda a: projector(ms.eigh(a)[1]), (a,), (t.astype(a.dtype),))[1]  # noqa: E731
    np.testing.assert_allclose(of(jnp.asarray(a)), of(jnp.asarray(a, np.float64)), rtol=0.05)


def test_scratch():
    n = 1024
    a = put(mesh_of(range(2)), toeplitz(n), "x", None)
    assert_decomposed(ms.eigh(a), toeplitz(n))
    call = ms.last_call()
    assert call["routine"] == "eigenvectors"
    assert {"band", "tridiagonal", "divide", "back"} <= call["seconds"].keys()
    # A batch of factors, and for each worker eigenvectors with the products of some factors.
    rows = max(n // (12 * call["workers"]), 96)
    batch = max(n * n // 12, 2**19)
    expected = batch + call["workers"] * (rows * n + 2**15) + 2 * n
    assert call["scratch_bytes"] <= 8 * expected


def test_scratch_of_large_matrices():
    shapes = [jax.ShapeDtypeStruct((n, n), np.float64) for n in (4096, 8192)]
    sharded = NamedSharding(mesh_of(range(2)), P("x", None))
    placed = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharded) for a in shapes]
    for a, shared, each in zip(placed, (0.086, 0.085), (0.036, 0.018), strict=True):
        report = ms.plan(a, eigenvectors=True)
        assert report.scratch_bytes / (8 * a.size) < shared + each * report.workers


def test_messages():
    a = np.eye(3)
    cases = {
        "eigh: a: expected a square matrix": lambda: ms.eigh(np.ones((2, 3))),
        "eigh: on_failure: expected": lambda: ms.eigh(a, on_failure="stop"),
        "eigh: mesh: expected a jax.sharding.Mesh": lambda: ms.eigh(a, mesh=2),
        "eigh: a: expected a dtype": lambda: ms.eigh(np.eye(2, dtype=np.float16)),
        'eigh: degenerate: expected "nan" or "zero", got .no.': lambda: ms.eigh(a, degenerate="no"),
    }
    for asked in [(0, 3), (2, 1), (-1, 1), (0.0, 1.0), 1, "01", (0, 1, 2), ((0,), 1)]:
        message = "eigh: subset_by_index: expected two integers .first, last. with 0 <= first <= "
        with pytest.raises(ValueError, match=message + "last < 3, got"):
            ms.eigh(a, subset_by_index=asked)
    with pytest.raises(ValueError, match="eigh: subset_by_index: expected two integers"):
        jax.jit(lambda last: ms.eigh(a, subset_by_index=(0, last)))(1)
    for message, call in cases.items():
        with pytest.raises((ValueError, TypeError), match=message):
            call()
