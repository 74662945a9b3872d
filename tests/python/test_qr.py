"""qr: factors of any shape, their methods, derivatives and batches, for every way of calling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from allpairspy import AllPairs
from jax.experimental.layout import Format, Layout
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads

import meshsolve as ms
from compiled import Program
from helpers import DTYPES, mesh_of, mesh_set, normal
from qr_cases import ORDER, assert_factors, eps_of, matrix, put

SHAPES = [(24, 8), (16, 16), (8, 24), (4, 4), (5, 4)]


SPECS = [P(None, "x"), P("x", None), P()]


@pytest.mark.versions
@pytest.mark.parametrize(
    ("shape", "dtype", "spec", "kind"),
    list(AllPairs([SHAPES, DTYPES, SPECS, ["auto", "explicit"]])),
)
def test_factors_wherever_a_is(shape, dtype, spec, kind):
    a, mesh = matrix(shape, dtype), mesh_of(ORDER, kind)
    if (given := put(a, mesh, spec)) is None:
        given = put(a, mesh, P())
    q, r = ms.qr(given)
    assert q.dtype == r.dtype == dtype
    assert_factors(q, r, a)
    if q.shape == a.shape:
        assert q.sharding.is_equivalent_to(given.sharding, 2)
    alone = ms.qr(given, "r")
    np.testing.assert_allclose(alone, r, atol=1e3 * eps_of(a))
    assert alone.sharding.is_equivalent_to(r.sharding, 2)
    q, r = jax.jit(ms.qr)(given)
    assert_factors(q, r, a)
    if spec == P(None, "x") and given.sharding.spec == spec:
        assert r.sharding.is_equivalent_to(given.sharding, 2)
    with mesh_set(mesh):
        q, inside = jax.jit(ms.qr)(given)
    assert_factors(q, inside, a)
    if kind == "explicit" and spec == P(None, "x"):
        assert inside.sharding.is_equivalent_to(r.sharding, 2)


@pytest.mark.parametrize(
    ("shape", "dtype", "where"),
    list(
        AllPairs(
            [
                [*SHAPES, (9, 5), (5, 9), (3, 2), (7, 1), (1, 6)],
                DTYPES,
                ["one device", "mesh", "mesh in jit"],
            ]
        )
    ),
)
def test_one_device_and_numpy_with_a_mesh(shape, dtype, where):
    a, mesh = matrix(shape, dtype), mesh_of(ORDER)
    if where == "one device":
        assert_factors(*ms.qr(jnp.asarray(a)), a)
    elif where == "mesh":
        r = ms.qr(a, "r", mesh=mesh)
        assert_factors(ms.qr(a, mesh=mesh).Q, r, a)
    else:
        assert_factors(*jax.jit(lambda a: ms.qr(a, mesh=mesh))(a), a)


@pytest.mark.parametrize(
    ("shape", "dtype", "where", "columns"),
    list(
        AllPairs(
            [
                [(24, 8), (16, 16), (8, 24)],
                DTYPES,
                [*SPECS, "column-major", "one device"],
                [(), (3,), (40,)],
            ]
        )
    ),
)
def test_a_factor_applies_its_q(shape, dtype, where, columns):
    a, mesh, (m, n) = matrix(shape, dtype), mesh_of(ORDER), shape
    tolerance = 100 * m * eps_of(a)
    if where == "column-major":
        by_columns = NamedSharding(mesh, P(None, "x"))
        given = jax.device_put(a, Format(Layout((1, 0)), by_columns))
    else:
        given = a if where == "one device" else put(a, mesh, where)
    factor = ms.qr(given, "raw")
    (work, tau), r = scipy.linalg.qr(a, mode="raw")
    q = scipy.linalg.qr(a, mode="economic")[0]
    np.testing.assert_allclose(ms.qr(given, "r"), r[: min(m, n)], atol=tolerance)
    found = np.asarray(factor.work if factor.storage == "column-major" else factor.work.T)
    np.testing.assert_allclose(found, work, atol=tolerance * np.abs(a).max())
    np.testing.assert_allclose(factor.tau, tau, atol=tolerance)
    np.testing.assert_allclose(factor.r, r[: min(m, n)], atol=tolerance)
    np.testing.assert_allclose(factor.q, q, atol=tolerance)
    assert int(factor.info) == 0
    x = normal(np.random.default_rng(3), (m, *columns), dtype)
    there = factor.apply_q(x)
    assert there.shape == x.shape
    np.testing.assert_allclose(factor.apply_qt(there), x, atol=tolerance)
    first = np.asarray(factor.apply_qt(x))[: q.shape[1]]
    np.testing.assert_allclose(first, q.conj().T @ x, atol=tolerance)
    if m >= n:
        expected = np.linalg.lstsq(a, x)[0]
        np.testing.assert_allclose(factor.solve(x), expected, atol=1e3 * tolerance)
        condition = np.linalg.cond(r[:n], 1)
        assert condition / 3 <= 1 / factor.rcond <= condition * 1.01
    inside = jax.jit(lambda f, x: f.apply_q(f.apply_qt(x)))(factor, x)
    np.testing.assert_allclose(inside, x, atol=tolerance)


@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (5, 5)])
def test_a_factor_that_was_padded(shape):
    a, mesh = matrix(shape), mesh_of(ORDER)
    factor = ms.qr(a, "raw", mesh=mesh)
    assert (factor.m, factor.n) == shape and factor.work.shape[0] % 4 == 0
    assert_factors(factor.q, factor.r, a)
    x = np.arange(1.0, 1.0 + shape[0])
    np.testing.assert_allclose(factor.apply_qt(factor.apply_q(x)), x, atol=1e-12)
    assert int(factor.info) == 0
    assert int(ms.qr(np.ones((9, 5)), "raw", mesh=mesh).info) == 2
    if shape[0] >= shape[1]:
        y = np.arange(2.0, 2.0 + shape[1])
        for wrap in (lambda f: f, jax.jit):
            found = wrap(lambda f, x: f.solve(x))(factor, x)
            np.testing.assert_allclose(found, np.linalg.lstsq(a, x)[0], atol=1e-11)
            found = wrap(lambda f, y: f.solve(y, trans=1))(factor, y)
            np.testing.assert_allclose(found, np.linalg.lstsq(a.T, y)[0], atol=1e-11)
            rcond = wrap(lambda f: f.rcond)(factor)
            assert 0.3 <= 1 / rcond / np.linalg.cond(factor.r, 1) <= 1.01


@pytest.mark.parametrize(
    ("columns", "kind", "spec", "trans", "by_rows"),
    list(AllPairs([[(), (3,), (40,)], ["auto", "explicit"], SPECS, [1, "C"], [False, True]])),
)
def test_solutions_of_least_norm_with_the_transpose(columns, kind, spec, trans, by_rows):
    a, mesh = matrix((24, 8), np.complex128), mesh_of(ORDER, kind)
    b = normal(np.random.default_rng(4), (8, *columns), np.complex128)
    expected = np.linalg.lstsq(a.T if trans == 1 else a.conj().T, b)[0]
    factor, sides = ms.qr(put(a, mesh, spec), "raw"), put(b, mesh, P("x")) if by_rows else b
    np.testing.assert_allclose(factor.solve(sides, trans), expected, atol=1e-13)
    with mesh_set(mesh):
        found = jax.jit(lambda f, b: f.solve(b, trans))(factor, sides)
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_derivatives_where_a_is_padded():
    mesh = mesh_of(ORDER)
    number = lambda qr: lambda a: jnp.sum(qr(a)[1] ** 3) + jnp.sum(qr(a)[0][2] ** 2)  # noqa: E731
    for shape in ((9, 5), (5, 9)):
        a = matrix(shape)
        expected = jax.jit(jax.grad(number(jnp.linalg.qr)))(a)
        for run in (lambda f: f, jax.jit):
            found = run(jax.grad(number(lambda a: ms.qr(a, mesh=mesh))))(jnp.asarray(a))
            np.testing.assert_allclose(found, expected, atol=1e-10)


def test_a_donated_matrix_becomes_the_factor():
    mesh = mesh_of(ORDER)
    given = put(matrix((24, 8)), mesh, P(None, "x"))
    ms.qr(given)
    assert not given.is_deleted()
    ms.qr(given, overwrite_a=True)
    assert given.is_deleted()


def test_dependent_columns_are_reported():
    a = matrix((24, 8))
    a[:, 5] = a[:, 1] - a[:, 2]
    given = put(a, mesh_of(ORDER), P(None, "x"))
    factor = ms.qr(given, "raw")
    assert int(factor.info) == 6
    assert np.isnan(factor.solve(np.ones(24))).all()
    assert factor.rcond == 0
    assert_factors(*ms.qr(given), a, same_signs=False)


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "spec", "jit", "mode"),
    list(
        AllPairs(
            [
                [(24, 8), (8, 8), (8, 24)],
                [np.float64, np.complex128],
                ["auto", "explicit"],
                SPECS,
                [False, True],
                ["forward", "reverse"],
            ]
        )
    ),
)
def test_derivatives_are_those_of_jnp(shape, dtype, kind, spec, jit, mode):
    a, mesh = matrix(shape, dtype), mesh_of(ORDER, kind)
    change = normal(np.random.default_rng(7), shape, dtype)
    weights = [
        normal(np.random.default_rng(s), s_, dtype)
        for s, s_ in ((1, (shape[0], min(shape))), (2, (min(shape), shape[1])))
    ]

    def number(qr):
        def of(a):
            q, r = qr(a)
            return jnp.sum((q * weights[0]).real ** 2) + jnp.sum((r * weights[1]).real ** 3)

        return of

    def derivative(qr):
        if mode == "reverse":
            return lambda a, _: jax.grad(number(qr))(a)
        return lambda a, change: jax.jvp(number(qr), (a,), (change,))[1]

    run = jax.jit if jit else lambda f: f
    with mesh_set(mesh):
        found = run(derivative(ms.qr))(put(a, mesh, spec), put(change, mesh, spec))
    expected = jax.jit(derivative(jnp.linalg.qr))(a, change)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_derivatives_are_those_of_finite_differences():
    for shape in ((12, 4), (32, 4), (4, 12)):
        given = put(matrix(shape), mesh_of(ORDER), P("x", None))
        check_grads(jax.jit(lambda a: tuple(ms.qr(a))), (given,), order=1)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("shape", [(24, 16), (64, 4), (8, 24)])
def test_a_mesh_of_two_axes(shape, kind):
    """A in blocks, and by rows or columns over one axis or both."""
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind,) * 2)
    a = matrix(shape)
    for spec in (P("x", "y"), P("y", None), P(("x", "y"), None), P(None, "x")):
        if shape == (64, 4) and spec == P("x", "y"):
            continue  # 8 devices do not divide the columns
        given = jax.device_put(a, NamedSharding(mesh, spec))
        assert_factors(*ms.qr(given), a)
        with mesh_set(mesh):
            assert_factors(*jax.jit(ms.qr)(given), a)


def test_derivatives_of_numpy_arrays():
    for shape in ((64, 5), (6, 4)):
        a = matrix(shape)
        found = jax.grad(lambda a: ms.qr(a).R.sum() + ms.qr(a, "r")[0, 0])(a)
        theirs = lambda a: jnp.sum(jnp.linalg.qr(a).R) + jnp.linalg.qr(a).R[0, 0]  # noqa: E731
        expected = jax.jit(jax.grad(theirs))(a)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_second_derivatives():
    a, mesh = matrix((6, 4)), mesh_of(ORDER)
    given = put(a, mesh, P(None, "x"))

    def number(qr):
        return lambda a: jnp.sum(qr(a)[1][0] ** 3) + jnp.sum(qr(a)[0][2] ** 2)

    found = jax.jit(jax.hessian(number(ms.qr)))(given)
    expected = jax.jit(jax.hessian(number(jnp.linalg.qr)))(a)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_batches_go_one_after_another():
    a, mesh = np.stack([matrix((8, 4)) + i for i in range(3)]), mesh_of(ORDER)
    for given in (a, jax.device_put(a, NamedSharding(mesh, P(None, None, "x")))):
        for q, r in (ms.qr(given), jax.vmap(ms.qr)(given), jax.jit(jax.vmap(ms.qr))(given)):
            for i in range(3):
                assert_factors(q[i], r[i], a[i])
        factors = jax.vmap(lambda a: ms.qr(a, "raw"))(given)
        x = jax.vmap(lambda f: f.solve(jnp.ones(8)))(factors)
        np.testing.assert_allclose(x[1], np.linalg.lstsq(a[1], np.ones(8))[0], atol=1e-10)


def test_matrices_of_nothing():
    for shape in ((0, 0), (4, 0), (0, 4)):
        q, r = ms.qr(np.zeros(shape))
        least = min(shape)
        assert q.shape == (shape[0], least) and r.shape == (least, shape[1])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ms.qr(np.eye(3), "full"), 'mode: expected "reduced", "r" or "raw", got \'full\''),
        (lambda: ms.qr(np.ones(3)), r"a: expected a matrix \[m, n\], or a batch of them, got"),
        (lambda: ms.qr(np.ones((2, 3)), "raw").solve(np.ones(2)), "at least as many rows as col"),
        (lambda: ms.qr(np.eye(3), "raw").solve(np.ones(3), trans=3), "trans: expected 0, 1 or 2"),
        (
            lambda: ms.qr(np.ones((4, 3)), "raw").solve(np.ones(4), trans=1),
            r"solve: b: expected shape \[3\] or \[3, k\], to go with a of shape \(4, 3\)",
        ),
        (
            lambda: ms.qr(np.eye(3), "raw").apply_q(np.ones(4)),
            r"x: expected shape \[3\] or \[3, k\]",
        ),
        (
            lambda: ms.qr(np.ones((64, 3)), "raw").solve(np.ones(3)),
            r"solve: b: expected shape \[64\] or \[64, k\], to go with a of shape \(64, 3\)",
        ),
        (
            lambda: ms.qr(np.ones((64, 3)), "raw").apply_q(np.ones(3)),
            r"QRFactor.apply_q: x: expected shape \[64\] or \[64, k\], to go with a of shape",
        ),
        (lambda: ms.qr(np.ones((4, 3), bool) > 0, mesh=3), "mesh: expected a jax.sharding.Mesh"),
        (
            lambda: jax.grad(lambda a: ms.qr(a, "raw").apply_q(np.ones(3)).sum())(np.eye(3)),
            r"request for a derivative; use qr\(a\) or lstsq\(a, b\)",
        ),
        (
            lambda: jax.grad(lambda a: ms.qr(a, "raw").triangle.sum())(np.ones((64, 2))),
            r"request for a derivative; use qr\(a\) or lstsq\(a, b\)",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_columns_that_the_devices_do_not_divide():
    given = put(matrix((8, 6)), mesh_of(ORDER), P("x", None))
    with pytest.raises(ValueError, match=r"expected n divisible by the 4 devices.*give mesh="):
        ms.qr(given)
    assert_factors(*ms.qr(given, mesh=mesh_of(ORDER)), np.asarray(given))


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_many_columns_where_the_devices_divide_neither(kind):
    """34 columns of 9 rows on four devices, eagerly and in programs."""
    a, x, mesh = matrix((9, 8), "float64"), matrix((9, 34), "float64"), mesh_of(ORDER, kind)
    factor = ms.qr(put(a, mesh, P(None, "x")), "raw")
    solution = np.linalg.lstsq(a, x)[0]
    with mesh_set(mesh):
        for call in (lambda f, x: f.apply_q(x), lambda f, x: f.solve(x)):
            for run in (call, jax.jit(call)):
                y = run(factor, jax.device_put(x, NamedSharding(mesh, P())))
                exact = factor.apply_q(np.eye(9)) @ x if y.shape == x.shape else solution
                np.testing.assert_allclose(y, exact, atol=1e-12)


@pytest.mark.parametrize(("here", "there"), [("auto", "explicit"), ("explicit", "auto")])
@pytest.mark.parametrize("shape", [(24, 8), (8, 24)])
def test_another_mesh_may_be_set(shape, here, there):
    given = put(matrix(shape), mesh_of(ORDER, there), P(None, "x"))
    with mesh_set(mesh_of(ORDER, here)):
        assert_factors(*ms.qr(given), matrix(shape))
        factor = ms.qr(given, "raw")
        assert_factors(factor.q, factor.r, matrix(shape))


def test_factors_of_a_batch():
    a, mesh = np.stack([matrix((9, 5)) + i for i in range(3)]), mesh_of(ORDER)
    b = np.arange(54.0).reshape(3, 9, 2)
    for factors in (ms.qr(a, "raw"), ms.qr(a, "raw", mesh=mesh)):
        q, r, x = factors.q, factors.r, factors.solve(b)
        assert x.shape == (3, 5, 2) and factors.solve(b[0, :, 0]).shape == (3, 5)
        assert factors.rcond.shape == (3,)
        for i in range(3):
            assert_factors(q[i], r[i], a[i])
            np.testing.assert_allclose(x[i], np.linalg.lstsq(a[i], b[i])[0], atol=1e-10)


def test_right_hand_sides_of_another_dtype():
    a = matrix((24, 8)).astype(np.float32)
    for given in (a, put(a, mesh_of(ORDER), P(None, "x"))):
        factor = ms.qr(given, "raw")
        for dtype in (np.float64, np.complex64, np.int32):
            b = np.arange(24).astype(dtype)
            expected = np.linalg.lstsq(a, b)[0]
            np.testing.assert_allclose(factor.solve(b), expected, atol=1e-4)
            np.testing.assert_allclose(factor.apply_qt(factor.apply_q(b)), b, atol=1e-4)


def test_a_padded_factor_where_a_mesh_is_set_or_columns_depend():
    a = np.random.default_rng(5).standard_normal((60, 7))
    off = np.linalg.qr(a)[0][:, 6]
    # Dependent for 60 rows, but not for the 7 of R.
    a[:, 6] = a[:, 0] + 25 * np.finfo(float).eps * np.linalg.norm(a[:, 0]) * off
    mesh = mesh_of(ORDER)
    factor = ms.qr(a, "raw", mesh=mesh)
    assert int(factor.info) == 7 and factor.rcond == 0
    with mesh_set(mesh):
        assert np.isnan(factor.solve(np.ones(60))).all() and factor.rcond == 0


def test_q_of_a_wide_matrix_is_sharded():
    for spec in (P(None, "x"), P("x", None)):
        given = put(matrix((8, 24)), mesh_of(ORDER), spec)
        for q in (ms.qr(given).Q, ms.qr(given, "raw").q):
            assert q.sharding.spec == P(None, "x")


@pytest.mark.parametrize(
    ("mode", "routines"),
    [
        ("reduced", ["geqrf", "orgqr", "qr_triangle"]),
        ("r", ["geqrf", "qr_triangle"]),
        ("raw", ["geqrf"]),
    ],
)
def test_a_program_copies_a_matrix_by_columns_once(mode, routines):
    given = put(matrix((256, 128)), mesh_of(ORDER), P(None, "x"))
    program = Program(jax.jit(lambda a: ms.qr(a, mode)), given)
    assert sorted(program.routines()) == routines and not program.collectives()
    temporary = program.compiled.memory_analysis().temp_size_in_bytes * 4
    assert temporary <= 1.05 * given.nbytes


@pytest.mark.parametrize("mode", ["reduced", "r"])
@pytest.mark.parametrize("shape", [(24, 8), (8, 24)])
def test_a_gradient_factors_once(shape, mode):
    given = put(matrix(shape), mesh_of(ORDER), P(None, "x"))
    number = lambda a: sum(jnp.sum(x**2) for x in jax.tree.leaves(ms.qr(a, mode)))  # noqa: E731
    assert Program(jax.jit(jax.grad(number)), given).factorisations() == 1
