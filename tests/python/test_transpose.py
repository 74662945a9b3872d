"""transpose_inplace: every kind of element, sharding and shape, in the same memory."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import Program
from helpers import mesh_of, put, run_fresh

DTYPES = ("int32", "uint32", "float32", "int64", "uint64", "float64", "complex64", "complex128")


def pointers(x):
    return sorted(shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards)


def bits(shape, dtype, seed=0):
    """Any bits, with NaNs among them."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.random.default_rng(seed).bytes(size), shape, dtype


def array(made):
    raw, shape, dtype = made
    return np.frombuffer(raw, dtype).reshape(shape)


def owned(x, sharding):
    """An array in memory that JAX owns and can donate."""
    return jax.jit(jnp.copy, out_shardings=sharding)(jax.device_put(x, sharding))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    list(
        zip(
            itertools.cycle([(1, 1), (1, 9), (8, 8), (24, 40), (96, 32), (131, 67), (300, 3)]),
            DTYPES,
        )
    ),
)
def test_one_device(shape, dtype):
    x = array(bits(shape, dtype))
    given = owned(x, jax.sharding.SingleDeviceSharding(jax.devices()[3]))
    before = pointers(given)
    y = ms.transpose_inplace(given)
    assert given.is_deleted() and pointers(y) == before and y.shape == shape[::-1]
    assert np.asarray(y).tobytes() == np.ascontiguousarray(x.T).tobytes()


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("spec", [("x", None), (None, "x"), ("y", "x"), (("x", "y"), None), ()])
@pytest.mark.parametrize("shape", [(64, 64), (128, 24), (8, 1000)])
def test_shards(shape, spec, kind):
    mesh = jax.make_mesh((2, 4), ("y", "x"), axis_types=(kind, kind))
    x = array(bits(shape, "complex64"))
    given = owned(x, NamedSharding(mesh, P(*spec)))
    before = pointers(given)
    y = ms.transpose_inplace(given)
    assert pointers(y) == before and given.is_deleted()
    turned = P(*(*spec, None, None)[:2][::-1])
    assert y.sharding.is_equivalent_to(NamedSharding(mesh, turned), 2)
    assert np.asarray(y).tobytes() == np.ascontiguousarray(x.T).tobytes()
    back = ms.transpose_inplace(y)
    assert np.asarray(back).tobytes() == x.tobytes() and pointers(back) == before


def test_nothing_is_lost_of_what_numpy_lends():
    x = np.arange(4096.0).reshape(64, 64)
    kept = x.copy()
    y = ms.transpose_inplace(put(mesh_of(range(4)), x, "x", None))
    np.testing.assert_array_equal(y, kept.T)
    np.testing.assert_array_equal(x, kept)


def test_the_program_holds_no_copy():
    from meshsolve._api.transpose import _transposed

    mesh = mesh_of(range(4))
    x = jax.ShapeDtypeStruct((64, 64), jnp.float64, sharding=NamedSharding(mesh, P("x", None)))
    compiled = _transposed(mesh, P("x", None)).lower(x).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 1024
    assert "copy" not in Program(compiled).makers(64 * 64 // 4)


def test_messages():
    with pytest.raises(
        ValueError, match=r"transpose_inplace: x: expected a jax.Array \[m, n\], got"
    ):
        ms.transpose_inplace(np.eye(3))
    with pytest.raises(
        ValueError, match=r"expected an array that is not traced, got a tracer; ins"
    ):
        jax.jit(ms.transpose_inplace)(jnp.eye(3))
    with pytest.raises(TypeError, match=r"expected one of int32, int64, .* got float16; view"):
        ms.transpose_inplace(jnp.eye(3, dtype=jnp.float16))
    assert ms.transpose_inplace(jnp.zeros((0, 3))).shape == (3, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(1_000_003, 3), (3, 1_000_003)])
def test_structures_on_one_device(shape, dtype):
    x = array(bits(shape, dtype))
    given = owned(x, jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    before = pointers(given)
    y = ms.transpose_inplace(given)
    assert pointers(y) == before
    assert np.asarray(y).tobytes() == np.ascontiguousarray(x.T).tobytes()
    # A panel of 256 KiB for each thread, a bit for each of its chunks, and shared memory of the
    # call.
    call = ms.last_call()
    assert call["scratch_bytes"] <= call["workers"] * (256 << 10) + (2 << 20)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("wide", [False, True])
def test_structures_over_four_devices(wide, dtype):
    shape, spec = (1_000_004, 3), P("x", None)
    if wide:
        shape, spec = shape[::-1], P(None, "x")
    x = array(bits(shape, dtype))
    y = ms.transpose_inplace(owned(x, NamedSharding(mesh_of(range(4)), spec)))
    parts = [(part.index, np.asarray(part.data)) for part in y.addressable_shards]
    assert len(parts) == 4
    assert all(
        part.tobytes() == np.ascontiguousarray(x.T[index]).tobytes() for index, part in parts
    )


@pytest.mark.parametrize("shape", [(1201, 1099), (5000, 100)])
def test_panels_with_scratch_that_workers_share(shape):
    ran = run_fresh(
        f"""
        x = np.random.default_rng(0).standard_normal({(4 * shape[0], shape[1])})
        y = ms.transpose_inplace(put(mesh_of(range(4)), x, "x", None) + 0)
        np.testing.assert_array_equal(y, x.T)
        tell(ms.last_call()["workers"])
        """,
        env={"MESHSOLVE_THREADS": "8"},
    )
    assert ran.reported[0] > 1
