"""qr of tall matrices by rows: Q and R, factors, derivatives, for every way of calling."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from allpairspy import AllPairs
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from helpers import DTYPES, mesh_of, mesh_set, normal, run_fresh
from qr_cases import ORDER, assert_factors, eps_of, matrix, put


@pytest.mark.versions
@pytest.mark.parametrize(
    ("dtype", "where", "columns", "jit"),
    list(
        AllPairs(
            [
                DTYPES,
                ["auto", "explicit", "replicated", "one device", "padded"],
                [(), (3,), (40,)],
                [False, True],
            ]
        )
    ),
)
def test_a_factor_of_a_tall_matrix_by_rows(dtype, where, columns, jit):
    m, n = shape = (66 if where == "padded" else 64, 7)
    a, mesh = matrix(shape, dtype), mesh_of(ORDER, "explicit" if where == "explicit" else "auto")
    spec = P() if where == "replicated" else P("x", None)
    given = a if where in ("one device", "padded") else put(a, mesh, spec)
    factor = jax.block_until_ready(ms.qr(given, "raw", mesh=mesh if where == "padded" else None))
    assert ms.last_call()["routine"] == "tsqrf" and factor.storage == "rows"
    tolerance = 100 * m * eps_of(a)
    (work, tau), r = scipy.linalg.qr(a, mode="raw")
    close = functools.partial(np.testing.assert_allclose, atol=tolerance)
    close(factor.work[:m], np.tril(work[:, :n], -1) + np.eye(m, n), err_msg="LAPACK's reflectors")
    close(factor.tau, tau)
    close(factor.r, r[:n])
    close(factor.q, scipy.linalg.qr(a, mode="economic")[0])
    if where in ("auto", "explicit"):
        assert factor.work.sharding.is_equivalent_to(given.sharding, 2)
        assert factor.q.sharding.is_equivalent_to(given.sharding, 2)
    q = scipy.linalg.qr(a)[0]
    x = normal(np.random.default_rng(3), (m, *columns), dtype)
    y = normal(np.random.default_rng(4), (n, *columns), dtype)
    run = jax.jit if jit else lambda f: f
    close(run(lambda f, x: f.apply_q(x))(factor, x), q @ x)
    close(run(lambda f, x: f.apply_qt(x))(factor, x), q.conj().T @ x)
    far = functools.partial(np.testing.assert_allclose, atol=10 * tolerance)
    far(run(lambda f, x: f.solve(x))(factor, x), np.linalg.lstsq(a, x)[0])
    for trans, of_a in ((1, a.T), (2, a.conj().T)):
        found = run(lambda f, y: f.solve(y, trans))(factor, y)  # noqa: B023
        far(found, np.linalg.lstsq(of_a, y)[0])
    assert 0.3 <= 1 / run(lambda f: f.rcond)(factor) / np.linalg.cond(r[:n], 1) <= 1.01


def test_sides_of_a_factor_by_rows():
    """Right-hand sides by rows stay so; batches, other dtypes, and columns that depend."""
    a, mesh = matrix((64, 5)), mesh_of(ORDER)
    given = put(a, mesh, P("x", None))
    factor, x = ms.qr(given, "raw"), put(matrix((64, 3)), mesh, P("x", None))
    assert factor.apply_q(x).sharding.is_equivalent_to(x.sharding, 2)
    np.testing.assert_allclose(factor.apply_qt(factor.apply_q(x)), x, atol=1e-13)
    many = np.stack([np.asarray(x)] * 2)
    assert factor.apply_q(many).shape == (2, 64, 3) and factor.solve(many).shape == (2, 5, 3)
    narrow = ms.qr(given.astype(np.float32), "raw")
    assert narrow.solve(np.arange(64.0)).dtype == np.float64
    assert narrow.apply_q(np.zeros(64, np.complex64)).dtype == np.complex64
    factors = ms.qr(np.stack([a, a + 1]), "raw")
    assert factors.storage == "rows" and factors.rcond.shape == (2,)
    found = factors.solve(np.ones(64))
    np.testing.assert_allclose(found[1], np.linalg.lstsq(a + 1, np.ones(64))[0], atol=1e-11)
    np.testing.assert_allclose(factors.q[1] @ factors.r[1], a + 1, atol=1e-13)
    restored = jax.tree.map(np.asarray, factor)
    np.testing.assert_allclose(restored.solve(np.ones(64)), factor.solve(np.ones(64)), atol=1e-14)
    np.testing.assert_allclose(restored.rcond, factor.rcond)
    expected = np.asarray(factor.apply_q(x))[:, 0]
    with mesh_set(jax.make_mesh((2,), ("y",), axis_types=(AxisType.Explicit,))):
        np.testing.assert_allclose(factor.apply_q(many[0, :, 0]), expected)
        assert factor.solve(many[0, :, 0]).shape == (5,) and factor.q.shape == (64, 5)
        assert factor.solve(np.ones(5), 1).shape == (64,)
    condition = np.linalg.cond(np.asarray(factor.r), 1)
    for kind in ("auto", "explicit"):
        there = ms.qr(put(a, mesh_of(ORDER, kind), P("x", None)), "raw")
        assert 0.3 <= 1 / there.rcond / condition <= 1.01
    a[:, 3] = a[:, 0]
    dependent = ms.qr(put(a, mesh, P("x", None)), "raw")
    assert int(dependent.info) == 4 and dependent.rcond == 0
    assert np.isnan(dependent.solve(np.ones(64))).all()
    assert np.isnan(dependent.solve(np.ones(5), 1)).all()
    np.testing.assert_allclose(dependent.q @ dependent.r, a, atol=1e-13)


def test_q_is_made_where_the_reflectors_are():
    mesh = mesh_of((1, 2, 3))
    factor = ms.qr(put(matrix((66, 5)), mesh, P("x", None)), "raw")
    with jax.transfer_guard_device_to_device("disallow_explicit"):
        q = factor.q
    assert q.sharding.is_equivalent_to(factor.work.sharding, 2)


def test_a_factor_by_rows_takes_the_memory_of_a():
    given = put(matrix((4096, 16)), mesh_of(ORDER), P("x", None))
    program = Program(jax.jit(lambda a: ms.qr(a, "raw")), given)
    assert program.routines() == ["tsqrf"] and not program.collectives()
    assert program.compiled.memory_analysis().temp_size_in_bytes * 4 <= 0.01 * given.nbytes
    factor = ms.qr(given, "raw")
    product = Program(jax.jit(lambda f, x: f.apply_qt(x)), factor, np.ones((4096, 1)))
    assert product.compiled.memory_analysis().temp_size_in_bytes * 4 <= 0.25 * given.nbytes
    ms.qr(given, "raw", overwrite_a=True)
    assert given.is_deleted()


@pytest.mark.parametrize(("shape", "devices"), [((64, 3), 3), ((448, 6), 6), ((65, 5), 4)])
@pytest.mark.parametrize("mode", ["reduced", "r"])
def test_a_program_whose_devices_do_not_divide_the_rows(shape, devices, mode):
    """With Auto axes the shape decides, and each device then works by itself."""
    a, mesh = matrix(shape), mesh_of(range(devices))
    given = jax.device_put(a, NamedSharding(mesh, P(None, "x") if devices != 4 else P()))
    found = jax.jit(lambda a: ms.qr(a, mode))(given)
    r = found if mode == "r" else found.R
    np.testing.assert_allclose(r, scipy.linalg.qr(a, mode="r")[0][: shape[1]], atol=1e-12)


@pytest.mark.versions
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize(("shape", "dtype"), [((64, 8), "float32"), ((96, 7), "complex128")])
def test_tall_matrices_stay_by_rows(shape, dtype, kind):
    """In programs, too: with Auto axes by their shape."""
    a, mesh = matrix(shape, np.dtype(dtype)), mesh_of(ORDER, kind)
    given = put(a, mesh, P("x", None))
    expected = np.asarray(ms.qr(a, "r"))

    def check(q, r):
        assert_factors(q, r, a)
        assert q.sharding.is_equivalent_to(given.sharding, 2)
        assert r.sharding.is_fully_replicated

    for run in (ms.qr, jax.jit(ms.qr)):
        check(*run(given))
        assert ms.last_call()["routine"] == "tsqr"
    with mesh_set(mesh):
        check(*jax.jit(ms.qr)(given))
    for run in (ms.qr, jax.jit(ms.qr, static_argnums=1)):
        r = run(given, "r")
        np.testing.assert_allclose(r, expected, atol=1e3 * eps_of(a))
        assert ms.last_call()["routine"] == "geqr"
    assert not given.is_deleted()
    ms.qr(given, "r", overwrite_a=True)
    assert not given.is_deleted(), "R alone reads A"
    ms.qr(given, overwrite_a=True)
    assert given.is_deleted()


@pytest.mark.parametrize(
    ("shape", "where"),
    [
        ((66, 7), "mesh"),
        ((65, 3), "mesh"),
        ((65, 3), "one"),
        ((64, 5), "replicated"),
        ((3, 64, 5), "rows"),
    ],
)
def test_tall_matrices_elsewhere(shape, where):
    """With rows that the devices do not divide, on one device, and batches."""
    a, mesh = matrix(shape), mesh_of(ORDER)
    options = {"mesh": mesh} if where == "mesh" else {}
    specs = {"rows": P(None, "x", None), "replicated": P()}
    given = put(a, mesh, specs[where]) if where in specs else a
    run = lambda a: ms.qr(a, **options)  # noqa: E731
    for wrap in (lambda f: f, jax.jit):
        q, r = wrap(run)(given)
        assert np.shape(q @ r) == shape, "on the same devices"
        for each in zip(*((x if len(shape) > 2 else [x]) for x in (q, r, a)), strict=True):
            assert_factors(*each)
        assert ms.last_call()["routine"] == "tsqr"


@pytest.mark.parametrize(("dtype", "kind"), [(np.float64, "explicit"), (np.complex128, "auto")])
def test_derivatives_by_rows(dtype, kind):
    a, mesh = matrix((64, 7), dtype), mesh_of(ORDER, kind)
    weights = normal(np.random.default_rng(1), a.shape, dtype)
    given = put(a, mesh, P("x", None))

    def number(qr):
        def of(a):
            q, r = qr(a)
            return jnp.sum((q * weights).real ** 2) + jnp.sum(r.real**3) + jnp.sum(r.imag**2)

        return of

    alone = lambda qr: lambda a: jnp.sum(jnp.abs(qr(a, mode="r")) ** 3)  # noqa: E731
    with mesh_set(mesh):
        for of in (number, alone):
            expected = jax.jit(jax.grad(of(jnp.linalg.qr)))(a)
            for run in (lambda f: f, jax.jit):
                found = run(jax.grad(of(ms.qr)))(given)
                assert found.sharding.is_equivalent_to(given.sharding, 2)
                np.testing.assert_allclose(found, expected, atol=1e-10)
        twice = lambda qr: lambda a: jax.jvp(jax.grad(number(qr)), (a,), (a,))[1]  # noqa: E731
        found = jax.jit(twice(ms.qr))(given)
        expected = jax.jit(twice(jnp.linalg.qr))(a)
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_tall_matrix_by_rows_is_neither_moved_nor_copied():
    given = put(matrix((4096, 16)), mesh_of(ORDER), P("x", None))
    for mode, routine in (("reduced", "tsqr"), ("r", "geqr")):
        program = Program(jax.jit(lambda a: ms.qr(a, mode)), given)  # noqa: B023
        assert program.routines() == [routine] and not program.collectives()
        assert program.compiled.memory_analysis().temp_size_in_bytes * 4 <= 0.01 * given.nbytes
        gradient = jax.grad(lambda a: jnp.sum(ms.qr(a)[0][:, 0] ** 3))
        assert Program(jax.jit(gradient), given).routines() == ["tsqr"]


def test_many_workers_join_their_triangles():
    ran = run_fresh(
        """
        a = np.random.default_rng(0).standard_normal((4096, 24))
        q, r = ms.qr(a)
        tell(ms.last_call()["workers"])
        tell(float(np.abs(q @ r - a).max()))
        tell(float(np.abs(q.T @ q - np.eye(24)).max()))
        tell(float(np.abs(r - np.linalg.qr(a).R).max()))
        again = ms.qr(a)
        tell(bool((q == again.Q).all() and (r == again.R).all()))
        """,
        env={"MESHSOLVE_THREADS": "7"},
    )
    workers, product, unit, apart, same = ran.reported
    assert workers == 7 and same
    assert product < 1e-12 and unit < 1e-13 and apart < 1e-11
