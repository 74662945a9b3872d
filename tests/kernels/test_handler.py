"""The wheel's handler for CUDA devices, called as XLA does, on the emulated driver.

The driver, `driver.cc`, is this process's libcuda.so.1. NVRTC compiles the kernels; a launch runs
the kernel of that name in the cubin as plain C++. Each test is a separate process, which has loaded
nothing yet.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# One worker builds what all tests need.
pytestmark = pytest.mark.xdist_group("emulated")

ROOT = Path(__file__).resolve().parents[2]

PRELUDE = (
    f"BENCHMARKS = {str(ROOT / 'benchmarks')!r}"
    + """
import ctypes, json, sys, threading
import numpy as np
sys.path.append(BENCHMARKS)
from meshsolve._library import cuda
from MODULE import set_cuda_folders, symbol

frame, driver = (ctypes.CDLL(path) for path in sys.argv[1:])
driver.emulated_stream.restype = frame.frame_site.restype = ctypes.c_void_p
set_cuda_folders(cuda.search_folders())
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
SYMBOLS = {
    name: ctypes.c_void_p(pointer(symbol("cuda_" + name), b"xla._CUSTOM_CALL_TARGET"))
    for name in ("instantiate", "execute", "type_id", "type_info")
}
frame.frame_register(SYMBOLS["type_id"])
ROOM = 2000


def site(routine, world, fault=""):
    text = ctypes.create_string_buffer(ROOM)
    made = frame.frame_site(
        SYMBOLS["instantiate"],
        routine.encode(),
        ctypes.c_int64(world),
        fault.encode(),
        text,
        ctypes.c_size_t(ROOM),
    )
    return ctypes.c_void_p(made) if made else text.value.decode()


def stream(device):
    return ctypes.c_void_p(driver.emulated_stream(device))


def address(x):
    return ctypes.c_void_p(x.ctypes.data)


def call(at, run, rank, stream, dtype, x, y=None, limit=1 << 30):
    text, lent = ctypes.create_string_buffer(ROOM), ctypes.c_size_t()
    place = np.array([rank, 0], np.int32)
    code = frame.frame_call(
        at,
        SYMBOLS["execute"],
        ctypes.c_int64(run),
        10 + rank,
        stream,
        ctypes.c_size_t(limit),
        address(place),
        dtype,
        *map(ctypes.c_int64, x.shape),
        address(x),
        address(x if y is None else y),
        ctypes.byref(lent),
        text,
        ctypes.c_size_t(ROOM),
    )
    return code, text.value.decode(), lent.value


def wait(stream):
    context = ctypes.c_void_p()
    assert driver.cuStreamGetCtx(stream, ctypes.byref(context)) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuStreamSynchronize(stream) == 0
    assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
"""
)


def headers():
    """The folder of the FFI headers that `make wheel` builds the handlers with.

    Later ones rename parts and add fields.
    """
    if include := os.environ.get("MESHSOLVE_XLA_INCLUDE"):
        return include
    locate = "import importlib.util as u; print(u.find_spec('jaxlib').origin)"
    command = [ROOT / ".venv-oldest/bin/python", "-c", locate]
    origin = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Path(origin).parent / "include"


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """The frame's library, and a folder with the driver as libcuda.so.1."""
    folder = tmp_path_factory.mktemp("driver")
    # The tests without Python build the driver.
    build = ["cargo", "test", "--release", "--locked", "--quiet", "--test", "suite"]
    subprocess.run(
        [*build, "kernels::launch::drivers_that_do_not_work"],
        check=True,
        cwd=ROOT,
        capture_output=True,
    )
    built = ROOT / "target/tmp/kernels-256/libkernels.so"
    (folder / "libcuda.so.1").symlink_to(built)
    frame = folder / "libframe.so"
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-shared", "-fPIC", "-Wall"]
    command += ["-isystem", headers(), "-o", frame, Path(__file__).with_name("frame.cc")]
    subprocess.run([*map(str, command)], check=True)
    return frame, folder / "libcuda.so.1"


def run(libraries, code, module="meshsolve._core"):
    """The JSON output of a program; the handlers are those of a module."""
    frame, driver = libraries
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(driver.parent),
        "MESHSOLVE_CACHE_DIR": "",
    }
    ran = subprocess.run(
        [sys.executable, "-c", PRELUDE.replace("MODULE", module) + code, frame, driver],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def test_transpositions(libraries):
    stated = run(
        libraries,
        """
at, stated = site("transpose", 2), []
types = {"int32": 4, "float64": 12, "complex128": 18}
random = np.random.default_rng(3)
for turn, shape in enumerate([(40, 40), (128, 256), (61, 47), (5, 300)]):
    for dtype, number in types.items():
        for rank in range(2):
            own = random.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize)
            x = np.frombuffer(bytearray(own), dtype).reshape(shape)
            y = None if turn % 2 else np.zeros_like(x)
            expected, before = np.ascontiguousarray(x.T).tobytes(), x.tobytes()
            queue = stream(rank)
            code, text, lent = call(at, turn, rank, queue, number, x, y)
            assert (code, text) == (0, ""), text
            early = x.tobytes() == before
            wait(queue)
            right = (x if y is None else y).tobytes() == expected
            stated.append([early, right, lent <= max(x.nbytes / 32, x.nbytes * 9 / 8 + 80)])
frame.frame_drop(at, SYMBOLS["type_info"])
print(json.dumps(stated))
""",
    )
    assert len(stated) == 24 and all(map(all, stated))


def test_devices_that_meet(libraries):
    stated = run(
        libraries,
        """
def launch(at, turn):
    queues, x = [stream(rank) for rank in range(3)], np.ones((3, 2, 2), np.float32)
    outcomes = [None] * 3
    def one(rank):
        outcomes[rank] = call(at, turn, rank, queues[rank], 11, x[rank])[:2]
    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return outcomes

print(json.dumps([[launch(site("diagnose", 3, fault), -7), launch(site("diagnose", 3, fault), 8)]
                  for fault in ("none", "error", "panic")]))
""",
        "measures",
    )
    good, failed, panicked = stated
    assert good == [[[0, ""]] * 3] * 2
    assert failed == [[[13, "meshsolve.diagnose: rank 1 was asked to fail"]] * 3] * 2
    text = (
        "meshsolve: a panic in a call on a CUDA device was caught: rank 1 was asked to panic. This "
        "is a defect of meshsolve; please report it with the call that led to it. The process and "
        "later calls are not affected."
    )
    assert panicked == [[[13, text]] * 3] * 2


def test_the_benchmark(libraries, tmp_path):
    _, driver = libraries
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(driver.parent),
        "MESHSOLVE_CACHE_DIR": str(tmp_path / "cache"),
    }
    script = ROOT / "benchmarks/gpu.py"
    command = [sys.executable, script, "--quick", "--no-plot", "--repeats", "1", "--out", tmp_path]
    ran = subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, text=True, timeout=280
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "emulated, CUDA 12.8, commit " in ran.stdout and "square: least" in ran.stdout
    with open(tmp_path / "transpose-gpu-emulated.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"chosen", "C2R", "R2C"}
    plans = {row["plan"].split()[0] for row in rows}
    assert plans >= {"square", "panels", "skinny", "C2R", "R2C"}


@pytest.fixture
def vendors(libraries, tmp_path):
    """A folder with the emulated cuBLAS and cuSOLVER, by the names that go with this driver."""
    for name in ("libcublas.so.12", "libcusolver.so.11"):
        (tmp_path / name).symlink_to(libraries[1].resolve())
    return tmp_path


def test_the_first_run(libraries, vendors, tmp_path):
    """The script with the steps that need no device of JAX: it reports each, and their output."""
    _, driver = libraries
    environment = os.environ | {"LD_LIBRARY_PATH": f"{driver.parent}:{vendors}"}
    script = ROOT / "benchmarks/first_gpu_run.py"
    command = [sys.executable, script, "--quick", "--platform", "emulated", "--out", tmp_path]
    ran = subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, text=True, timeout=280
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    steps = json.loads((tmp_path / "first-gpu-run.json").read_text())["steps"]
    ok = {"claims", "ranks", "copies"}
    assert {step["name"]: step["state"] for step in steps if step["state"] != "skipped"} == {
        name: "ok" for name in ok
    }
    out = {step["name"]: step.get("out", "") for step in steps}
    assert "emulated, CUDA 12.8, commit " in out["copies"]
    # Both tests ran, and neither was left out.
    assert all("1 passed" in out[name] or "2 passed" in out[name] for name in ("claims", "ranks"))
    assert "works: claims, ranks, copies" in ran.stdout.splitlines()


def test_panels_of_the_benchmark(libraries, vendors):
    """With the emulated cuSOLVER, under the name that goes with this driver."""
    stated = run(
        libraries,
        f"""
sys.path.insert(0, {str(ROOT / "benchmarks")!r})
import gpu_solve

folders = [{str(vendors)!r}, *cuda.search_folders()]
cuda.search_folders = lambda: folders
cases = [gpu_solve.Case(routine, "panel of 16", 64) for routine in ("cholesky", "lu")]
print(json.dumps([gpu_solve.measure(case, None) for case in cases]))
""",
    )
    assert len(stated) == 2 and all(row["host_bytes"] == 24 for row in stated)
    for row in stated:
        assert 0 < float(row["host_seconds"]) <= float(row["seconds_median"])


def test_refusals(libraries):
    stated = run(
        libraries,
        """
small = call(site("transpose", 1), 1, 0, stream(0), 12, np.ones((61, 47)), limit=100)
other = call(site("transpose", 1), 1, 0, stream(0), 10, np.ones((4, 4), np.float16))
none = call(site("transpose", 1), 1, 0, ctypes.c_void_p(8), 12, np.ones((4, 4)))
print(json.dumps([site("getrs", 2), site("nothing", 2), small, other, none]))
""",
    )
    solver, unknown, small, other, none = stated
    assert solver.startswith("meshsolve.getrs: attribute `rhs`: expected")
    assert unknown.startswith("meshsolve: attribute `routine`: expected a string, one of")
    assert small[0] == 8 and "meshsolve.transpose: CUDA device 0: expected" in small[1]
    assert other[0] == 3 and "has XLA's element type 10; expected int32" in other[1]
    assert none[0] == 13 and "a CUDA stream: expected cuStreamGetCtx to succeed, got 400" in none[1]
