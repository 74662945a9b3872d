"""transpose_inplace on CUDA devices: the cases of CPU devices, in the same memory, bit for bit."""

import os
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from platforms import BENCHMARKS, devices, needs_cuda, needs_driver

import measures
import meshsolve as ms
from meshsolve._library.cuda import search_folders

DTYPES = ("int32", "uint32", "float32", "int64", "uint64", "float64", "complex64", "complex128")
SHAPES = [
    *((1, 1), (1, 9), (2, 3), (63, 64), (64, 64), (65, 65), (8192, 8192), (8192, 2048)),
    *((96, 32), (131, 67), (7919, 4001), (4001, 7919), (10007, 9973), (300_003, 3), (3, 300_003)),
    *((100_001, 32), (12288, 1024), (9973, 799)),
]


def bits(shape, dtype, seed=0):
    """Any bits. Every seventh real number is a NaN, quiet or signalling, of either sign, whose
    payload is its index.
    """
    raw = np.random.default_rng(seed).bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize)
    if np.dtype(dtype).kind not in "fc":
        return np.frombuffer(raw, dtype).reshape(shape)
    words = np.frombuffer(raw, f"uint{np.finfo(dtype).bits}").copy()
    word, mantissa = words.dtype.type, np.finfo(dtype).nmant
    number = np.arange(0, len(words), 7, dtype=word)
    infinite = word((1 << 8 * words.itemsize - 1) - (1 << mantissa))
    sign = (number & word(1)) << word(8 * words.itemsize - 1)
    quiet = (number >> word(1) & word(1)) << word(mantissa - 1)
    payload = number % word((1 << mantissa - 1) - 1) + word(1)
    words[::7] = infinite | sign | quiet | payload
    return words.view(dtype).reshape(shape)


def owned(x, sharding):
    """An array in memory that JAX owns and can donate."""
    return jax.jit(jnp.copy, out_shardings=sharding)(jax.device_put(x, sharding))


def pointers(x):
    return sorted(shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_device(shape, dtype):
    x = bits(shape, dtype)
    given = owned(x, SingleDeviceSharding(devices()[0]))
    before = pointers(given)
    y = ms.transpose_inplace(given)
    assert given.is_deleted() and pointers(y) == before and y.shape == shape[::-1]
    assert np.asarray(y).tobytes() == np.ascontiguousarray(x.T).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("elements", range(2, 33))
def test_structures_of_all_sizes(elements, dtype):
    """To vectors and back; odd lengths, and multiples of 16 bytes."""
    for length in (40_961, 65_536):
        x = bits((length, elements), dtype)
        y = ms.transpose_inplace(owned(x, SingleDeviceSharding(devices()[0])))
        assert np.asarray(y).tobytes() == np.ascontiguousarray(x.T).tobytes()
        assert np.asarray(ms.transpose_inplace(y)).tobytes() == x.tobytes()


@pytest.mark.parametrize("spec", [("x", None), (None, "x"), ()])
def test_all_devices(spec):
    mesh = Mesh(np.array(devices()), ("x",))
    x = bits((64 * len(devices()), 40 * len(devices())), "float64")
    given = owned(x, NamedSharding(mesh, P(*spec)))
    before = pointers(given)
    y = ms.transpose_inplace(given)
    assert pointers(y) == before
    assert np.asarray(y).tobytes() == np.ascontiguousarray(x.T).tobytes()


def test_calls_follow_each_other_on_the_stream():
    """Operations before and after it in the program see the right values; no wait is in between."""
    x = jnp.arange(3000.0 * 1000).reshape(3000, 1000) + 1
    for turn in range(20):
        x = ms.transpose_inplace(x + 1)
        assert x.shape == ((1000, 3000), (3000, 1000))[turn % 2]
    expected = np.arange(3000.0 * 1000).reshape(3000, 1000) + 21
    np.testing.assert_array_equal(np.asarray(x), expected)


@needs_cuda
def test_memory():
    device = devices()[0]
    x = jax.jit(lambda: jnp.ones((20011, 10007)), out_shardings=SingleDeviceSharding(device))()
    bytes_before = device.memory_stats()["peak_bytes_in_use"]
    y = jax.block_until_ready(ms.transpose_inplace(x))
    grown = device.memory_stats()["peak_bytes_in_use"] - bytes_before
    assert grown <= y.nbytes / 32 + (4 << 20)


@needs_cuda
@pytest.mark.parametrize("shape", [(65539, 32771), (46400, 46400), (1_073_741_825, 2)])
def test_more_than_two_to_the_31_elements(shape):
    """Each element is its own number, of which 32 bits identify it among its neighbours."""
    device, (rows, cols) = devices()[0], shape
    if device.memory_stats()["bytes_limit"] < 1.2 * 4 * rows * cols:
        pytest.skip("not enough memory on the device")

    def numbered(rows, cols, transposed=False):
        i, j = (jax.lax.broadcasted_iota("uint32", (rows, cols), k) for k in (0, 1))
        return j * jnp.uint32(rows) + i if transposed else i * jnp.uint32(cols) + j

    x = jax.jit(lambda: numbered(rows, cols), out_shardings=SingleDeviceSharding(device))()
    y = ms.transpose_inplace(x)
    wrong = jax.jit(lambda y: (y != numbered(cols, rows, True)).any())
    assert y.shape == (cols, rows) and not bool(wrong(y))


@needs_cuda
@pytest.mark.parametrize("method", ["chosen", "C2R", "R2C"])
@pytest.mark.parametrize(
    ("rows", "cols", "size"),
    # More than 2^31 elements; a product that 32 bits do not hold; one long cycle.
    [(65539, 32771, 4), (65536, 32776, 4), (1001, 70001, 8), (12288, 98304, 8), (9973, 79999, 16)],
)
def test_large_arrays(rows, cols, size, method):
    """A misplaced element is an error, and so is a write next to the array or its scratch."""
    offered = rows * cols * size // 32
    measures.cuda_transposition(0, rows, cols, size, method, offered, 0, search_folders())


@needs_driver
@pytest.mark.parametrize(("method", "plan"), [("chosen", "panels"), ("C2R", "C2R")])
def test_claims(method, plan):
    """Blocks claim pieces dynamically: in each of many runs every element is in its place."""
    quick = os.environ.get("TESTS_EVERY", "1") != "1"
    # 1 GiB; no side has a divisor of the other.
    rows, cols, repeats = (509, 503, 3) if quick else (11_587, 11_583, 200)
    offered = rows * cols * 8 * 2 if method == "C2R" else rows * cols * 8 // 32
    order = (0, rows, cols, 8, method, offered, repeats - 1, search_folders())
    found = measures.cuda_transposition(*order)
    assert found["plan"].startswith(plan) and len(found["seconds"]) == repeats - 1


@pytest.mark.parametrize("fault", ["none", "error", "panic"])
def test_devices_meet(fault):
    mesh = Mesh(np.array(devices()), ("x",))

    def local(x):
        place = jnp.stack([jax.lax.axis_index("x").astype(jnp.int32), jnp.int32(0)])
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        call = jax.ffi.ffi_call(measures.fault_target(), like, has_side_effect=True)
        world = np.int64(len(devices()))
        return call(place, x, routine="diagnose", world=world, fault=fault, fault_rank=np.int64(0))

    spec = P("x")
    run = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
    x = jnp.arange(4.0 * len(devices()))
    if fault == "none":
        np.testing.assert_array_equal(run(x), x)
        return
    with pytest.raises(jax.errors.JaxRuntimeError, match="rank 0 was asked to"):
        jax.block_until_ready(run(x))


@needs_cuda
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_sanitizer(tool):
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("no compute-sanitizer")
    code = (
        f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "import measures\n"
        "from meshsolve._library.cuda import search_folders\n"
        "for rows, cols in ((97, 97), (512, 256), (301, 211), (997, 5), (5, 997)):\n"
        "    for size in (4, 8, 16):\n"
        "        for method in ('chosen', 'C2R', 'R2C'):\n"
        "            offered = rows * cols * size * 2 + 64\n"
        "            measures.cuda_transposition(0, rows, cols, size, method, offered, 0,\n"
        "                                 search_folders())\n"
    )
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
