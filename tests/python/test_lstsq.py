"""lstsq: solutions, residuals, derivatives and batches, for every way of calling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from allpairspy import AllPairs
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads

import meshsolve as ms
from compiled import Program
from helpers import DTYPES, mesh_of, mesh_set, put, run_fresh
from least_squares_cases import (
    ORDER,
    M,
    N,
    assert_close,
    assert_solved,
    by_normal_equations,
    system,
    weighed,
)


@pytest.mark.versions
@pytest.mark.parametrize(
    ("columns", "dtype", "kind", "at", "b_at"),
    list(
        AllPairs(
            [
                [(), (1,), (3,), (33,)],
                DTYPES,
                ["auto", "explicit"],
                [P("x", None), P()],
                ["rows", "replicated", "elsewhere"],
            ]
        )
    ),
)
def test_solutions_wherever_a_and_b_are(columns, dtype, kind, at, b_at):
    a, b = system(dtype, columns)
    mesh = mesh_of(ORDER, kind)
    given = jax.device_put(a, NamedSharding(mesh, at))
    sides = {"rows": lambda: put(mesh, b, "x"), "replicated": lambda: put(mesh, b)}
    sides = sides.get(b_at, lambda: b)()
    found = ms.lstsq(given, sides)
    assert found.x.dtype == dtype and found.x.sharding.is_fully_replicated
    assert_solved(found, a, b)
    with mesh_set(mesh):
        assert_solved(jax.jit(ms.lstsq)(given, sides), a, b)
    assert_solved(ms.lstsq(a, b), a, b)
    assert_solved(ms.lstsq(a[1:], b[1:], mesh=mesh), a[1:], b[1:])


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
@pytest.mark.parametrize("shape", [(1, 1), (24, 1), (24, 23), (24, 24), (1200, 70), (4800, 8)])
def test_shapes_around_panels_and_chunks(shape, devices):
    m = -(-shape[0] // devices) * devices
    a, b = system("float64", (2,), m, shape[1])
    mesh = mesh_of(range(devices))
    found = ms.lstsq(put(mesh, a, "x", None), put(mesh, b, "x", None))
    assert_solved(found, a, b)
    again = ms.lstsq(put(mesh, a, "x", None), put(mesh, b, "x", None))
    assert np.array_equal(found.x, again.x), "reruns are bit-identical"


def test_workers_share_triangles():
    """One to four groups of workers, panels of every width, and a dependent column after some."""
    ran = run_fresh(
        """
        from least_squares_cases import assert_solved, system

        for n in (130, 200, 400, 800):
            for dtype in DTYPES if n == 200 else ["float64", "float32"]:
                # Few rows have one triangle for all.
                m = 3600 if (n, dtype) == (800, "float64") else 8 * n
                a, b = system(dtype, (3,), m, n)
                found = ms.lstsq(a, b)
                workers = ms.last_call()["workers"]
                assert_solved(found, a, b)
                term = 0.5 * np.eye(n, dtype=dtype)
                longer = ms.lstsq(np.concatenate([a, term]), np.pad(b, ((0, n), (0, 0))))
                eps = np.finfo(found.residuals.dtype).eps
                x = ms.lstsq(a, b, ridge=0.25).x
                a[:, 120] = a[:, 119]
                dependent = int(ms.lstsq(a, b).info)
                apart = float(abs(x - longer.x).max() / abs(x).max() / eps / n)
                tell([workers, apart, dependent, bool((found.x == ms.lstsq(*system(
                    dtype, (3,), m, n)).x).all())])
        """,
        env={"MESHSOLVE_THREADS": "4"},
    )
    assert len(ran.reported) == 10
    for workers, apart, dependent, same in ran.reported:
        assert workers == 4 and apart < 20 and dependent == 121 and same


@pytest.mark.parametrize("scale", [1e-270, 1e290])
@pytest.mark.parametrize("grade", [1, -1])
def test_graded_and_extreme(scale, grade):
    a, b = system("float64")
    a = a * (10.0 ** (np.arange(M) / 4))[:, None] if grade < 0 else a
    a = a * 10.0 ** (-3 * grade * np.arange(N))
    a = a / np.abs(a).max()
    mesh = mesh_of(ORDER)
    plain = ms.lstsq(put(mesh, a, "x", None), b)
    found = ms.lstsq(put(mesh, a * scale, "x", None), b)
    assert int(found.info) == int(plain.info) == 0
    # Householder's reflectors do not depend on the scale, but roundings of a * scale do.
    np.testing.assert_allclose(found.residuals, plain.residuals, rtol=1e-10)


@pytest.mark.versions
@pytest.mark.parametrize(
    ("columns", "dtype", "kind", "wrap"),
    list(
        AllPairs(
            [
                [(), (3,)],
                ["float64", "complex128"],
                ["auto", "explicit"],
                [lambda f: f, jax.jit],
            ]
        )
    ),
)
def test_derivatives_in_both_modes(columns, dtype, kind, wrap):
    a, b = system(dtype, columns)
    mesh = mesh_of(ORDER, kind)
    sharded, sides = put(mesh, a, "x", None), put(mesh, b, "x", *[None] * len(columns))
    gradient = lambda f: jax.grad(weighed(f), (0, 1))  # noqa: E731
    tangent = lambda f: lambda *x: jax.jvp(lambda a, b: f(a, b)[:2], x[:2], x[2:])[1]  # noqa: E731
    with mesh_set(mesh):
        found = wrap(gradient(ms.lstsq))(sharded, sides)
        for x, y in zip(found, (sharded, sides), strict=True):
            assert x.sharding.is_equivalent_to(y.sharding, x.ndim)
        forward = wrap(tangent(ms.lstsq))(sharded, sides, sharded * sharded, 2 * sides)
    assert_close(found, jax.jit(gradient(by_normal_equations))(a, b))
    assert_close(forward, jax.jit(tangent(by_normal_equations))(a, b, a * a, 2 * b))


def test_derivatives_do_not_square_the_condition_number():
    p = np.random.default_rng(0).random(400)
    a, b, db = p[:, None] ** np.arange(10), np.sin(5 * p), np.cos(3 * p)
    given = put(mesh_of(ORDER), a, "x", None)
    found = jax.jvp(lambda b: ms.lstsq(given, b).x, (b,), (db,))[1]
    expected = ms.lstsq(a, db).x  # as x is linear in b
    assert np.linalg.cond(a) > 1e6
    assert np.linalg.norm(found - expected) <= 1e-8 * np.linalg.norm(expected)
    # The transpose of the solution of least norm is least squares.
    wide = put(mesh_of(range(2)), a.T, "x", None)
    found = jax.vjp(lambda c: ms.lstsq(wide, c).x, a.T @ b)[1](jnp.asarray(db))[0]
    assert np.linalg.norm(found - expected) <= 1e-8 * np.linalg.norm(expected)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_second_derivatives(kind):
    a, b = system("float64")
    mesh = mesh_of(ORDER, kind)
    sharded = put(mesh, a, "x", None)

    def along(f):
        return jax.jit(lambda a: jax.jvp(jax.grad(lambda a: weighed(f)(a, b)), (a,), (a * a,))[1])

    with mesh_set(mesh):
        assert_close(along(ms.lstsq)(sharded), along(by_normal_equations)(jnp.asarray(a)))


@pytest.mark.versions
@pytest.mark.parametrize(("wrap", "kind"), [(lambda f: f, "explicit"), (jax.jit, "auto")])
def test_batches(wrap, kind):
    a, b = system("float64", (5, 2))
    b = np.moveaxis(b, 1, 0)
    many = np.stack([a * (i + 1) + i for i in range(5)])
    mesh = mesh_of(ORDER, kind)
    sharded, batch = put(mesh, a, "x", None), put(mesh, many, None, "x", None)
    pair = lambda a, b: ms.lstsq(a, b)[:2]  # noqa: E731
    with mesh_set(mesh):
        of_sides = jax.jit(jax.vmap(by_normal_equations, (None, 0)))
        for sides in (b, b[..., 0]):
            run = wrap(jax.vmap(pair, (None, 0)))
            assert_close(run(sharded, sides), of_sides(a, sides))
        of_both = jax.jit(jax.vmap(by_normal_equations))(many, b)
        assert_close(wrap(jax.vmap(pair))(batch, b), of_both)
        assert_close(wrap(pair)(batch, b), of_both)
        total = lambda f: lambda a: jnp.sum(jax.vmap(lambda b: f(a, b)[1])(b))  # noqa: E731
        expected = jax.jit(jax.grad(total(by_normal_equations)))(jnp.asarray(a))
        assert_close(wrap(jax.grad(total(ms.lstsq)))(sharded), expected)


def test_right_hand_sides_are_columns_of_one_call():
    a, b = system("float64", (5, 2))
    sharded = put(mesh_of(ORDER, "explicit"), a, "x", None)
    run = jax.jit(jax.vmap(lambda b: ms.lstsq(sharded, b).x, 1))
    program = str(jax.make_jaxpr(run)(b))
    assert program.count("ffi_call[") == 1 and " scan[" not in program and " while[" not in program


def test_a_is_neither_copied_nor_gathered():
    mesh = mesh_of(ORDER)
    a, b = system("float64", m=4000, n=8)
    program = Program(jax.jit(ms.lstsq), put(mesh, a, "x", None), put(mesh, b, "x"))
    assert program.routines() == ["gels"] and not program.collectives()
    assert program.makers(a.size // 4) <= {"parameter"}


def test_r_leaves_the_scratch_only_for_derivatives():
    mesh = mesh_of(ORDER)
    a, b = system("float64", m=4000, n=8)
    operands = put(mesh, a, "x", None), put(mesh, b, "x")
    assert not Program(jax.jit(ms.lstsq), *operands).makes(8, 8)
    gradient = jax.jit(jax.grad(lambda a, b: ms.lstsq(a, b).residuals.sum()))
    program = Program(gradient, *operands)
    assert program.routines() == ["gelsr"] and program.makes(8, 8)


def test_many_rows_of_float32_have_full_rank():
    """A cubic fit of a million points: roundings do not grow as the number of rows."""
    t = np.linspace(0, 1, 1 << 20, dtype=np.float32)
    a = np.stack([t**0, t, t**2, t**3], 1)
    x, _, info = ms.lstsq(put(mesh_of(ORDER), a, "x", None), t**2 - t)
    assert int(info) == 0
    np.testing.assert_allclose(x, [0, -1, 1, 0], atol=1e-3)
    equal = np.stack([t, t**0, t], 1)
    assert int(ms.lstsq(put(mesh_of(ORDER), equal, "x", None), t).info) == 3


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_a_mesh_of_two_axes(kind):
    """A over one of them, over both, by rows and columns; b anywhere; rows that neither divides."""
    axis_type = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}[kind]
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(axis_type,) * 2)
    a, b = system("float64")
    given = [put(mesh, a, *spec) for spec in ((("x", "y"), None), ("y", None), (None, None))]
    for one in given:
        assert_solved(ms.lstsq(one, b), a, b)
        gradient = jax.jit(jax.grad(lambda a: weighed(ms.lstsq)(a, b)))
        with mesh_set(mesh):
            expected = jax.jit(jax.grad(lambda a: weighed(by_normal_equations)(a, b)))(
                jnp.asarray(a)
            )
            assert_close(gradient(one), expected)
    few = put(mesh, a[:38], "x", None)
    assert_solved(ms.lstsq(few, b[:38], mesh=mesh), a[:38], b[:38])
    assert_solved(ms.lstsq(a[:38], put(mesh, b[:38], "x"), mesh=mesh), a[:38], b[:38])


def test_replicated_rows_that_the_devices_do_not_divide():
    a, b = system("float64", m=41)
    mesh = mesh_of(ORDER)
    found = ms.lstsq(put(mesh, a), b)
    assert_solved(found, a, b)
    assert all(x.sharding.device_set == set(mesh.devices.flat) for x in found)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize(("columns", "dtype"), [((), "complex64"), ((3,), "float64")])
def test_inside_of_shard_map(columns, dtype, kind):
    """Over one axis, and over two in another order."""
    a, b = system(dtype, columns)
    axis_type = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}[kind]
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(axis_type,) * 2)
    for axes in ("y", ("y", "x")):
        for ridge in (None, 0.5):

            def local(a, b):
                return ms.local.lstsq(a, b, axes, ridge=ridge)  # noqa: B023

            f = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=P(axes), out_specs=P()))
            found = f(put(mesh, a, axes), put(mesh, b, axes))
            alone = ms.lstsq(a, b, ridge=ridge)
            assert found.x.dtype == dtype and found.x.shape == alone.x.shape
            tolerance = 1e3 * np.finfo(dtype).eps
            np.testing.assert_allclose(found.x, alone.x, atol=tolerance)
            np.testing.assert_allclose(found.residuals, alone.residuals, rtol=tolerance)
            assert int(found.info) == 0


def test_messages_inside_of_shard_map():
    a, b = system("float64")
    mesh = mesh_of(ORDER)
    with pytest.raises(ValueError, match=r"local\.lstsq: axis_name: .*; outside of shard_map use "):
        ms.local.lstsq(a, b, "x")

    def run(local, a=a, b=b):
        return jax.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=P())(a, b)

    lstsq = lambda a, b: ms.local.lstsq(a, b, "x").x  # noqa: E731
    with pytest.raises(
        ValueError, match=r"a: expected a device's rows \[m/4, n\] of a tall matrix"
    ):
        run(lstsq, a[:4], b[:4])
    with pytest.raises(ValueError, match=r"local\.lstsq: b: expected shape \[10\] or \[10, k\]"):
        run(lambda a, b: ms.local.lstsq(a, b[1:], "x").x)
    with pytest.raises(ValueError, match=r"local\.lstsq: ridge: expected real numbers that are"):
        run(lambda a, b: ms.local.lstsq(a, b, "x", ridge=-1.0).x)
    with pytest.raises(ValueError, match=r"differentiate meshsolve\.lstsq, outside of shard_map"):
        jax.grad(lambda b: run(lstsq, b=b).sum())(b)


def test_derivatives_are_those_of_finite_differences():
    for m, n, ridge in ((12, 4, None), (12, 4, 0.5), (4, 12, 0.5)):
        a, b = system("float64", (2,), m=m, n=n)
        of = lambda a, b: ms.lstsq(a, b, ridge=ridge)[:2]  # noqa: B023, E731
        check_grads(jax.jit(of), (put(mesh_of(ORDER), a, "x", None), b), order=1)


def test_last_call_has_the_columns():
    a, b = system("float64", (2,))
    jax.block_until_ready(ms.lstsq(put(mesh_of(ORDER), a, "x", None), b))
    call = ms.last_call()
    assert (call["routine"], call["n"], call["rhs"]) == ("gels", N, 2)


def test_nothing():
    a, b = system("float64", (2,))
    x, residuals, info = ms.lstsq(a[:, :0], b)
    assert x.shape == (0, 2) and int(info) == 0
    np.testing.assert_allclose(residuals, np.sum(b * b, axis=0))
    x, residuals, _ = ms.lstsq(a, b[:, :0])
    assert x.shape == (N, 0) and residuals.shape == (0,)


@pytest.mark.parametrize("where", ["eager", "jit"])
def test_a_column_that_depends_on_others(where):
    a, b = system("float64")
    a[:, 3] = 2 * a[:, 1]
    sharded = put(mesh_of(ORDER), a, "x", None)
    wrap = jax.jit if where == "jit" else lambda f: f
    x, residuals, info = wrap(ms.lstsq)(sharded, b)
    assert int(info) == 4 and np.isnan(x).all() and np.isnan(residuals)
    error = np.linalg.LinAlgError if where == "eager" else jax.errors.JaxRuntimeError
    expected = (
        r"a: expected a full-rank matrix, got one whose column 4 depends on those before it, "
    )
    expected += r"or is not finite \(info = 4\); with on_failure=\"nan\""
    with pytest.raises(error, match=expected):
        jax.block_until_ready(wrap(lambda a, b: ms.lstsq(a, b, on_failure="raise"))(sharded, b))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda a, b: (a.T, b),
            r"b: expected shape \[6\] or \[6, k\], to go with a of shape \(6, 40\)",
        ),
        (
            lambda a, b: (a[0], b),
            r"a: expected a matrix \[m, n\], or a batch of them, got shape \(6,\)",
        ),
        (
            lambda a, b: (a, b[1:]),
            r"b: expected shape \[40\] or \[40, k\], to go with a of shape \(40, 6\)",
        ),
    ],
)
def test_wrong_shapes(change, text, wrap):
    with pytest.raises(ValueError, match=rf"^meshsolve\.lstsq: {text}"):
        wrap(ms.lstsq)(*change(*system("float64")))


@pytest.mark.parametrize(("kind", "wrap"), [("auto", jax.jit), ("explicit", lambda f: f)])
def test_columns_are_moved_to_rows(kind, wrap):
    a, b = system("float64", (3,), n=8)
    mesh = mesh_of(ORDER, kind)
    sharded, sides = put(mesh, a, None, "x"), put(mesh, b)
    assert_solved(wrap(ms.lstsq)(sharded, sides), a, b)
    with mesh_set(mesh):
        found = wrap(jax.grad(weighed(ms.lstsq), (0, 1)))(sharded, sides)
    assert_close(found, jax.jit(jax.grad(weighed(by_normal_equations), (0, 1)))(a, b), 1e-9)
    assert found[0].sharding.is_equivalent_to(sharded.sharding, 2) or kind == "auto"


def test_rows_that_the_devices_do_not_divide():
    a, b = system("float64", m=42, n=8)
    given = put(mesh_of(ORDER), a, None, "x")
    message = (
        r"lstsq: a: expected m divisible by the 4 devices on mesh axes \('x',\), got m = 42; give "
        r"mesh=, which pads A for you, use a mesh whose size divides m, or put A on one device"
    )
    with pytest.raises(ValueError, match=message):
        ms.lstsq(given, b)
    assert_solved(ms.lstsq(given, b, mesh=mesh_of(ORDER)), a, b)


def test_rows_of_a_function_are_square():
    rows = ms.Rows(lambda first, end: np.eye(8)[first:end], 8, np.float32)
    with pytest.raises(TypeError, match=r"a: expected an array, got Rows; Rows are square"):
        ms.lstsq(rows, np.ones(8), mesh=mesh_of(ORDER))


@pytest.mark.parametrize(("m", "n"), [(40, 8), (8, 40)])
@pytest.mark.parametrize("ridge", [None, 0.5])
def test_a_gradient_reduces_once(m, n, ridge):
    a, b = system("float64", m=m, n=n)
    given = put(mesh_of(ORDER), a, "x", None)
    number = lambda a: jnp.sum(ms.lstsq(a, b, ridge=ridge).x ** 2)  # noqa: E731
    assert Program(jax.jit(jax.grad(number)), given).factorisations() == 1
