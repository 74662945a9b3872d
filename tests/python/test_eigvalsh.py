"""eigvalsh: eigenvalues for every storage, dtype and way of calling, and hard spectra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from allpairspy import AllPairs
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from eigen_cases import KINDS, ORDER, N, hermitian, toeplitz, wide
from helpers import (
    DTYPES,
    STORAGES,
    mesh_of,
    mesh_set,
    one_triangle,
    put,
    put_matrix,
)


def assert_values(found, a, expected=None, lower=True):
    """max |w - w'| <= 20 n eps |A|, ascending."""
    found = np.asarray(found)
    if expected is None:
        expected = scipy.linalg.eigvalsh(wide(a), lower=lower)
    assert found.shape == (len(a),) and found.dtype == np.finfo(a.dtype).dtype
    assert np.all(np.diff(found) >= 0)
    size = np.abs(expected).max(initial=0)
    bar = 20 * len(a) * np.finfo(a.dtype).eps * size
    assert np.abs(found - expected).max(initial=0) <= bar


@pytest.mark.versions
@pytest.mark.parametrize(
    ("storage", "dtype", "kind", "lower"),
    list(AllPairs([STORAGES, DTYPES, ["auto", "explicit"], [True, False]])),
)
def test_values_wherever_a_is(storage, dtype, kind, lower):
    """One triangle is read: the other one has no numbers."""
    a, mesh = hermitian(N, dtype), mesh_of(ORDER, kind)
    sharded = put_matrix(mesh, one_triangle(a, lower), storage)
    found = ms.eigvalsh(sharded, lower=lower)
    assert found.sharding.is_fully_replicated
    assert_values(found, a)
    traced = jax.jit(lambda a: ms.eigvalsh(a, lower=lower))(sharded)
    np.testing.assert_array_equal(traced, found, err_msg="the same bits in a program")
    np.testing.assert_array_equal(sharded, one_triangle(a, lower), err_msg="A is kept")


def test_the_lower_triangle_is_the_default():
    a = hermitian(N)
    assert_values(ms.eigvalsh(one_triangle(a, True)), a)
    assert_values(ms.eigvalsh(a[:2, :2].tolist()), a[:2, :2])


def test_the_diagonal_is_real():
    a = hermitian(N, np.complex128)
    a[np.diag_indices(N)] += 1j
    assert_values(ms.eigvalsh(put(mesh_of(ORDER), a, "x", None)), hermitian(N, np.complex128))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 19])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_any_order_over_a_mesh(n, dtype):
    """The identity corner of padded matrices has no values."""
    a = 10 * hermitian(n, dtype) - 100 * np.eye(n, dtype=dtype)
    for kind in ("auto", "explicit"):
        mesh = mesh_of(ORDER, kind)
        assert_values(ms.eigvalsh(a, mesh=mesh), a)
        traced = jax.jit(lambda a: ms.eigvalsh(a, mesh=mesh))  # noqa: B023
        with mesh_set(mesh):
            assert_values(traced(jnp.asarray(a)), a)
    rows = ms.Rows(lambda first, end: a[first:end], n, dtype)
    assert_values(ms.eigvalsh(rows, mesh=mesh_of(ORDER)), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_nothing(dtype):
    found = ms.eigvalsh(np.zeros((0, 0), dtype))
    assert found.shape == (0,) and found.dtype == np.finfo(dtype).dtype


@pytest.mark.parametrize(("n", "devices"), [(63, 1), (64, 1), (130, 1), (192, 3), (512, 4)])
def test_orders_around_the_width_of_panels(n, devices):
    a = hermitian(n)
    sharded = put(mesh_of(range(devices)), a, "x", None)
    found = ms.eigvalsh(sharded)
    assert_values(found, a)
    np.testing.assert_array_equal(ms.eigvalsh(sharded), found, err_msg="the same bits again")


@pytest.mark.parametrize("kind", KINDS)
def test_hard_spectra(kind):
    a = KINDS[kind]()
    scale = {"near overflow": 1e-300, "near underflow": 1e300}.get(kind, 1.0)
    found = np.asarray(ms.eigvalsh(put(mesh_of(range(2)), a, "x", None)))
    assert_values(found * scale, a, scipy.linalg.eigvalsh(a * scale))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("kind", ["kernel", "identity"])
def test_entries_far_below_the_norm(kind, dtype):
    """Their squares, and reciprocals, leave the range of float32."""
    i = np.arange(256)
    far = np.exp(-((i[:, None] - i) ** 2) / 2) if kind == "kernel" else np.full((256,) * 2, 1e-40)
    a = (far + np.eye(256) * (kind == "identity")).astype(dtype)
    sharded = put(mesh_of(ORDER), a, "x", None)
    assert_values(ms.eigvalsh(sharded, on_failure="raise"), a)


def test_known_values():
    n = 100
    exact = 2 - 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1))
    assert_values(ms.eigvalsh(put(mesh_of(ORDER), toeplitz(n), None, "x")), toeplitz(n), exact)


@pytest.mark.parametrize("number", [np.nan, -np.inf])
@pytest.mark.parametrize("storage", ["rows", "columns"])
def test_entries_that_are_not_finite(storage, number):
    a = hermitian(N)
    a[17, 3] = a[3, 17] = number
    sharded = put_matrix(mesh_of(ORDER), a, storage)
    assert np.isnan(ms.eigvalsh(sharded)).all()
    message = (
        r"meshsolve\.eigvalsh: a: expected a finite matrix, got one whose entries are not all "
        r"finite, or whose eigenvalues do not converge \(info = 25\); with on_failure=.nan. the "
        r"answer is NaN$"
    )
    with pytest.raises(np.linalg.LinAlgError, match=message):
        ms.eigvalsh(sharded, on_failure="raise")
    with pytest.raises(jax.errors.JaxRuntimeError, match="a: expected a finite matrix"):
        jax.block_until_ready(jax.jit(lambda a: ms.eigvalsh(a, on_failure="raise"))(sharded))
    np.testing.assert_array_equal(
        ms.eigvalsh(put_matrix(mesh_of(ORDER), hermitian(N), storage), on_failure="raise"),
        ms.eigvalsh(put_matrix(mesh_of(ORDER), hermitian(N), storage)),
    )


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_batches(kind):
    many = np.stack([hermitian(N), 2 * hermitian(N), np.eye(N)])
    mesh = mesh_of(ORDER, kind)
    sharded = put(mesh, many, None, "x", None)
    for found in (ms.eigvalsh(many), ms.eigvalsh(sharded), jax.vmap(ms.eigvalsh)(sharded)):
        assert found.shape == (3, N)
        for values, a in zip(found, many, strict=True):
            assert_values(values, a)
    # The batch itself is distributed.
    spread = put(mesh, np.concatenate([many, many[:1]]), "x", None, None)
    with mesh_set(mesh):
        found = jax.jit(jax.vmap(ms.eigvalsh))(spread)
    assert_values(np.asarray(found)[1], many[1])


def test_a_donated_matrix_is_gone():
    mesh = mesh_of(ORDER)
    a, kept = hermitian(N), put(mesh, hermitian(N), "x", None)
    given = put(mesh, a, "x", None)
    np.testing.assert_array_equal(ms.eigvalsh(given, overwrite_a=True), ms.eigvalsh(kept))
    assert given.is_deleted() and not kept.is_deleted()


def test_in_blocks_on_two_axes():
    both = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4])
    a = hermitian(N)
    for spec in (P("x", "y"), P(("x", "y"), None), P(None, "y")):
        assert_values(ms.eigvalsh(put(both, a, *spec)), a)


@pytest.mark.parametrize("storage", ["rows", "columns"])
def test_no_matrix_is_gathered(storage):
    a = put_matrix(mesh_of(range(4)), hermitian(64, np.float32), storage)
    assert not Program(jax.jit(ms.eigvalsh), a).collectives()


def test_scratch_is_small():
    n = 512  # with any number of cores in one stage
    assert_values(ms.eigvalsh(put(mesh_of(range(2)), toeplitz(n), "x", None)), toeplitz(n))
    call = ms.last_call()
    assert call["routine"] == "eigenvalues" and call["tile"] == 32
    assert {"band", "tridiagonal", "values"} <= call["seconds"].keys()
    # Each worker has V and W of a panel, and packed tiles.
    assert call["scratch_bytes"] <= call["workers"] * (2 * 32 * n + 2**18) * 8


def test_messages():
    cases = {
        "eigvalsh: a: expected a square matrix": lambda: ms.eigvalsh(np.ones((2, 3))),
        "eigvalsh: on_failure: expected": lambda: ms.eigvalsh(np.eye(2), on_failure="stop"),
        "eigvalsh: mesh: expected a jax.sharding.Mesh": lambda: ms.eigvalsh(np.eye(2), mesh=2),
        "eigvalsh: a: expected a dtype": lambda: ms.eigvalsh(np.eye(2, dtype=np.float16)),
    }
    for message, call in cases.items():
        with pytest.raises((ValueError, TypeError), match=message):
            call()
