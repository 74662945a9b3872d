"""trace_solve: the trace of A^-1 B for every storage, structure and way of calling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from allpairspy import AllPairs
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads

import meshsolve as ms
from compiled import Program
from helpers import DTYPES, STORAGES, mesh_of, mesh_set, normal, one_triangle, put, put_matrix

N = 24
ORDER = [2, 0, 3, 1]


def matrices(assume_a: str, dtype, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """A well-conditioned A of this structure, and any B."""
    rng = np.random.default_rng(n)
    a, b = (normal(rng, (n, n), dtype) for _ in range(2))
    if assume_a == "pos":
        return a @ a.conj().T + n * np.eye(n, dtype=dtype), b
    transposed = {"gen": 0 * a, "her": a.conj().T, "sym": a.T}[assume_a]
    return a + transposed + 3 * n * np.eye(n, dtype=dtype)[::-1], b


def expected(a, b):
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    return np.trace(np.linalg.solve(a.astype(wide), b.astype(wide)))


def assert_close(found, a, b):
    size = np.abs(np.linalg.inv(a)).sum() * np.abs(b).max()
    assert abs(complex(found) - complex(expected(a, b))) <= 100 * np.finfo(a.dtype).eps * size


@pytest.mark.parametrize(
    ("assume_a", "storage", "dtype"),
    list(AllPairs([["gen", "pos", "her", "sym"], STORAGES, DTYPES])),
)
def test_traces_in_every_storage(assume_a, storage, dtype):
    a, b = matrices(assume_a, dtype)
    lower = assume_a != "sym"
    given = a if assume_a == "gen" else one_triangle(a, lower)
    how = {"assume_a": assume_a, "lower": lower}
    for kind in ("auto", "explicit"):
        mesh = mesh_of(ORDER, kind)
        sharded, sides = put_matrix(mesh, given, storage), put_matrix(mesh, b, storage)
        found = ms.trace_solve(sharded, sides, **how)
        assert found.shape == () and found.dtype == dtype
        assert_close(found, a, b)
        assert_close(jax.jit(lambda a, b: ms.trace_solve(a, b, **how))(sharded, sides), a, b)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("make", [ms.lu_factor, ms.cho_factor])
def test_a_factor_gives_many_traces(make, kind):
    a, b = matrices("pos", np.float64)
    mesh = mesh_of(ORDER, kind)
    factor = make(put(mesh, a, "x", None))
    for sides in (put(mesh, b, "x", None), put(mesh, b, None, "x"), put(mesh, b), b):
        assert_close(ms.trace_solve(factor, sides), a, b)
    assert_close(jax.jit(ms.trace_solve)(factor, put(mesh, b, "x", None)), a, b)
    with mesh_set(mesh):
        assert_close(ms.trace_solve(factor, put(mesh, b, "x", None)), a, b)


@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_any_order_over_a_mesh(assume_a):
    """The identity corner of padded matrices does not count."""
    a, b = matrices(assume_a, np.float64, 19)
    mesh = mesh_of(ORDER)
    assert_close(ms.trace_solve(a, b, assume_a=assume_a, mesh=mesh), a, b)
    factor = (ms.cho_factor if assume_a == "pos" else ms.lu_factor)(a, mesh=mesh)
    assert_close(ms.trace_solve(factor, b, mesh=mesh), a, b)


def test_padding_leaves_small_numbers():
    """The identity corner of a padded B says nothing about the magnitude of B."""
    a, b = 1e-4 * np.eye(3), 1e-310 * np.eye(3)
    for mesh in (None, mesh_of(range(2))):
        np.testing.assert_allclose(ms.trace_solve(a, b, mesh=mesh), 3e-306, rtol=1e-6)


def test_factors_and_sides_that_are_padded_or_not():
    a, b = matrices("gen", np.float64, 6)
    both = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4])
    here = put(both, a, "x", None)
    assert_close(ms.trace_solve(here, b, mesh=both), a, b)
    assert_close(ms.trace_solve(a, put(both, b, "x", None), mesh=both), a, b)
    four = mesh_of(ORDER)
    assert_close(ms.trace_solve(ms.lu_factor(a), b, mesh=four), a, b)
    factor = ms.lu_factor(a, mesh=four)
    assert_close(ms.trace_solve(factor, b), a, b)
    assert_close(ms.trace_solve(factor, jnp.asarray(b)), a, b)
    with pytest.raises(ValueError, match="mesh: expected the mesh of a factor that was padded"):
        jax.jit(ms.trace_solve)(factor, b)
    assert_close(jax.jit(lambda f, b: ms.trace_solve(f, b, mesh=four))(factor, b), a, b)
    rows = ms.Rows(lambda first, end: b[first:end], 6, np.float64)
    assert_close(ms.trace_solve(factor, rows, mesh=four), a, b)


def test_both_are_promoted_before_a_is_factored():
    a, b = matrices("gen", np.float64)
    narrow = a.astype(np.float32)
    assert_close(ms.trace_solve(narrow, b), narrow.astype(np.float64), b)
    assert ms.trace_solve(a, b.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_of_nothing(assume_a):
    assert ms.trace_solve(np.zeros((0, 0)), np.zeros((0, 0)), assume_a=assume_a) == 0


def test_a_is_kept_where_b_is_wrong():
    a = put(mesh_of(ORDER), np.eye(8), "x", None)
    with pytest.raises(ValueError, match="trace_solve: b"):
        ms.trace_solve(a, np.ones((8, 7)), overwrite_a=True)
    assert not a.is_deleted()


def test_scratch_is_that_of_some_columns():
    a, b = matrices("gen", np.float64, 1024)
    factor = ms.lu_factor(put(mesh_of(ORDER), a, "x", None))
    assert_close(ms.trace_solve(factor, b), a, b)
    assert ms.last_call()["scratch_bytes"] < b.nbytes / 4


def test_options_of_a_factor():
    factor = ms.lu_factor(np.eye(8))
    message = (
        'on_failure: expected "nan" with a factor, got "raise"; ask for it where the factor is made'
    )
    with pytest.raises(ValueError, match=message):
        ms.trace_solve(factor, np.eye(8), on_failure="raise")
    with pytest.raises(ValueError, match="assume_a: expected one of"):
        ms.trace_solve(factor, np.eye(8), assume_a="foo")


def test_one_device_and_batches():
    a, b = matrices("gen", np.float64)
    assert_close(ms.trace_solve(a, b), a, b)
    both = np.stack([a, 2 * a]), np.stack([b, b + 1])
    for found in (ms.trace_solve(*both), jax.vmap(ms.trace_solve)(*map(jnp.asarray, both))):
        assert found.shape == (2,)
        assert_close(found[1], both[0][1], both[1][1])
    factor = ms.lu_factor(a)
    for sides, found in zip(both[1], ms.trace_solve(factor, both[1]), strict=True):
        assert_close(found, a, sides)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(
    ("assume_a", "kind", "storage"),
    list(AllPairs([["gen", "pos"], ["auto", "explicit"], ["rows", "columns"]])),
)
def test_derivatives(assume_a, kind, storage, dtype):
    """Of first and, for each assume_a, of second order, of A and B, against those of jnp."""
    a, b = matrices(assume_a, dtype, 8)
    mesh = mesh_of(ORDER, kind)
    spec = {"rows": ("x", None), "columns": (None, "x")}[storage]
    sharded = tuple(put(mesh, x, *spec) for x in (a, b))
    made = (lambda x: x @ x.conj().T) if assume_a == "pos" else (lambda x: x)
    ours = lambda a, b: ms.trace_solve(a, b, assume_a=assume_a).real  # noqa: E731
    theirs = lambda a, b: jnp.trace(jnp.linalg.solve(a, b)).real  # noqa: E731
    # A product of matrices by columns needs a sharding on an explicit mesh.
    if kind == "explicit":
        made = lambda x: x  # noqa: E731
    got = jax.jit(jax.grad(lambda a, b: ours(made(a), b), (0, 1)))(*sharded)
    want = jax.jit(jax.grad(lambda a, b: theirs(made(a), b), (0, 1)))(a, b)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * np.abs(y).max())
    if dtype == np.float64 and kind == "auto":
        value = jax.jit(lambda a, b: ours(made(a), b))
        check_grads(value, sharded, order=2, modes=("fwd", "rev"), rtol=1e-3)


def test_gradients_of_a_log_likelihood():
    """d/dt log det K(t) = tr(K^-1 K'), by the factor of K."""
    a, _ = matrices("pos", np.float64)
    direction = np.eye(N) + a / N
    mesh = mesh_of(ORDER)
    k, dk = (put(mesh, x, "x", None) for x in (a, direction))
    trace = ms.trace_solve(ms.cho_factor(k), dk)
    _, slope = jax.jvp(lambda k: ms.logdet(k), (k,), (dk,))
    np.testing.assert_allclose(trace, slope, rtol=1e-10)


@pytest.mark.parametrize("storage", ["rows", "column-major"])
def test_no_matrix_is_gathered_or_copied(storage):
    a, b = matrices("gen", np.float32, 64)
    mesh = mesh_of(range(4))
    factor = ms.lu_factor(put_matrix(mesh, a, storage))
    if storage == "rows":
        program = Program(jax.jit(ms.trace_solve), factor, put_matrix(mesh, b, storage))
        assert program.collectives() <= {"all-reduce"}
    kept = put_matrix(mesh, b, storage)
    assert_close(ms.trace_solve(factor, kept), a, b)
    np.testing.assert_array_equal(kept, b)


@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_no_inverse(assume_a):
    a, b = np.zeros((8, 8)), np.ones((8, 8))
    mesh = mesh_of(ORDER)
    sharded = put(mesh, a, "x", None)
    assert np.isnan(ms.trace_solve(sharded, b, assume_a=assume_a))
    with pytest.raises(np.linalg.LinAlgError, match=r"meshsolve\.trace_solve: a: expected a"):
        ms.trace_solve(sharded, b, assume_a=assume_a, on_failure="raise")


@pytest.mark.parametrize(
    ("b", "got"),
    [(np.ones(8), "[8]"), (np.ones((8, 7)), "[8, 7]"), (np.ones((2, 8, 9)), "[2, 8, 9]")],
)
def test_b_has_the_shape_of_a(b, got):
    a = put(mesh_of(ORDER), np.eye(8), "x", None)
    with pytest.raises(ValueError) as error:
        ms.trace_solve(a, b)
    assert str(error.value) == (
        f"meshsolve.trace_solve: b: expected shape [..., 8, 8], got {got}; give B as many rows and "
        "columns as A has"
    )


def test_the_spec_of_b_does_not_matter():
    a, b = matrices("gen", np.float64)
    mesh = mesh_of(ORDER)
    for spec in (P("x", None), P(None, "x"), P()):
        assert_close(ms.trace_solve(put(mesh, a, "x", None), put(mesh, b, *spec)), a, b)
