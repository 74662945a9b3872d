"""CUDA without a GPU: libraries found, kernels compiled, cubins cached, and messages."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import nvrtc_libraries
from meshsolve import _core
from meshsolve._library import cuda

FILL = ["fill_4", "fill_8", "fill_16"]
# Settings from outside that would be found before the wheels.
OUTSIDE = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "MESHSOLVE_CACHE_DIR")


def start(code: str, **env) -> subprocess.Popen:
    """A program in a separate process, where nothing is loaded yet. It prints JSON."""
    prelude = "import json, sys, ctypes\nfrom meshsolve import _core\n"
    prelude += "from meshsolve._library import cuda\n"
    clean = {name: value for name, value in os.environ.items() if name not in OUTSIDE}
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code],
        env=clean | {"MESHSOLVE_CACHE_DIR": ""} | {k: str(v) for k, v in env.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fresh(code: str, **env):
    """The program's output, and its standard error."""
    process = start(code, **env)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return json.loads(out), err


def refused(call: str, **env) -> str:
    """The message of the RuntimeError that the call raises."""
    code = f"try:\n    {call}\nexcept RuntimeError as error:\n    print(json.dumps(str(error)))"
    return fresh(code, **env)[0]


def test_a_kernel_compiles_for_all_architectures():
    """By every NVRTC; `test_info.py` has the other kernels, tests/kernels all of both."""
    libraries = nvrtc_libraries()
    majors = {path.name.rpartition(".")[2] for path in libraries}
    assert majors >= {"12", "13"}, "`make test` installs the NVRTC wheels of CUDA 12 and 13"
    for library in libraries:
        for arch in ("sm_80", "sm_90", "sm_100"):
            result = cuda.compile_kernel("fill", arch, str(library))
            assert result["log"] == "", (arch, library)
            assert Path(result["nvrtc"]).samefile(library), (arch, library)
            assert result["version"][0] == int(library.name.rpartition(".")[2]), (arch, library)
            assert_cubin(result["cubin"], FILL)


def assert_cubin(cubin: bytes, entries: list[str]):
    """An ELF file for CUDA (machine 190) that has a text section for each entry point."""
    assert b"\0.text." in cubin
    assert cubin[:4] == b"\x7fELF" and int.from_bytes(cubin[18:20], "little") == 190
    for entry in entries:
        assert f".text.{entry}\0".encode() in cubin


def test_names_and_architectures_that_there_are_not():
    (library, *_) = map(str, nvrtc_libraries())
    with pytest.raises(ValueError) as error:
        cuda.compile_kernel("fil", "sm_80")
    names = ", ".join(_core.kernel_names())
    assert str(error.value) == (
        f'meshsolve.compile_kernel: name: expected one of {names}, got "fil"; name one of them'
    )
    with pytest.raises(ValueError) as error:
        cuda.compile_kernel("fill", "sm90", library)
    assert str(error.value) == (
        'meshsolve: fill.cu: arch: expected an architecture such as sm_90, got "sm90"; of a JAX '
        'device it is "sm_" and device.compute_capability without the dot'
    )
    with pytest.raises(RuntimeError) as error:
        cuda.compile_kernel("fill", "sm_20", library)
    message = str(error.value)
    assert re.match(r"meshsolve: fill.cu: arch: expected one that NVRTC 1\d\.\d+ \(/", message)
    assert "sm_80" in message and ", got sm_20; another version of CUDA may know it" in message


def source(text: str, headers=(), library=None) -> dict:
    library = library or str(nvrtc_libraries()[0])
    return _core.compile_source("trial.cu", text, headers, "sm_90", [], library)


def test_sources_headers_warnings_and_errors():
    kernel = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = %s; }'
    header = ("value.cuh", "constexpr float kValue = 3;\n")
    result = source('#include "value.cuh"\n' + kernel % "kValue", [header])
    assert_cubin(result["cubin"], ["k"])
    assert (result["log"], result["cached"]) == ("", "not: not asked for")

    result = source(kernel % "1; int unused")
    assert_cubin(result["cubin"], ["k"])
    assert "trial.cu(1): warning" in result["log"] and "unused" in result["log"]

    with pytest.raises(RuntimeError) as error:
        source('#include "value.cuh"\n' + kernel % "kVelue", [header])
    message = str(error.value)
    assert re.match(
        r"meshsolve: trial\.cu: expected NVRTC 1\d\.\d+ \(/.*\) to compile it for sm_90, got "
        r"NVRTC_ERROR_COMPILATION; with a kernel of meshsolve this is a defect, please report it "
        r"with the log:\ntrial\.cu\(2\): error: ",
        message,
    )
    assert 'identifier "kVelue" is undefined' in message
    with pytest.raises(ValueError, match=r"trial\.cu: expected a source without NUL, got one"):
        source("\0")


OUTSIDE_OF_WHEELS = """
found = []
for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libcuda.so.1"):
    try:
        found.append(ctypes.CDLL(name)._name)
    except OSError:
        pass
print(json.dumps(found))
"""


def test_no_nvrtc():
    outside, _ = fresh(OUTSIDE_OF_WHEELS)
    if outside:
        pytest.skip(f"this machine has {', '.join(outside)} outside of the wheels")
    call = "_core.compile_kernel('fill', 'sm_80', ['/nowhere/lib'])"
    assert refused(call, CUDA_HOME="/nowhere/cuda") == (
        "meshsolve: NVRTC: expected libnvrtc.so.13 or libnvrtc.so.12, got none; tried what this "
        "process has loaded, /nowhere/lib, the search path of the dynamic loader, "
        "/nowhere/cuda/lib64, /usr/local/cuda/lib64; install JAX with its CUDA libraries, "
        'pip install "jax[cuda13]" or "jax[cuda12]", or NVRTC alone, pip install nvidia-cuda-nvrtc '
        "(CUDA 13) or nvidia-cuda-nvrtc-cu12 (CUDA 12)"
    )
    stated, _ = fresh("print(json.dumps(_core.cuda_libraries([])))")
    assert stated["nvrtc"].startswith("meshsolve: NVRTC: expected libnvrtc.so.13 or libnvrtc.so.12")
    assert stated["driver"] == (
        "meshsolve: NVIDIA driver: expected libcuda.so.1, got none; tried what this process has "
        "loaded, the search path of the dynamic loader, /usr/lib/wsl/lib; install the driver of "
        "the GPU; in a container, start it with the GPUs (for Docker --gpus all). Without a GPU "
        "nothing is missing: meshsolve works on CPU devices"
    )


def test_what_jax_has_loaded_is_found_first():
    """JAX loads the libraries of its wheels by path; only that shows where they are."""
    for library in nvrtc_libraries():
        code = f"ctypes.CDLL({str(library)!r})\nprint(json.dumps(_core.cuda_libraries([])))"
        assert Path(fresh(code)[0]["nvrtc"]["path"]).samefile(library)


def test_wheels_are_found_without_a_search_path():
    found, _ = fresh("print(json.dumps(_core.cuda_libraries(cuda.search_folders())))")
    paths = [p for p in nvrtc_libraries() if p.samefile(found["nvrtc"]["path"])]
    assert [p.name for p in paths] == ["libnvrtc.so.13"]
    version, architectures = found["nvrtc"]["version"], found["nvrtc"]["architectures"]
    assert version.startswith("13.") and {80, 90, 100} <= set(architectures)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Makes a stand-in for NVIDIA's driver library: a version, and the result of cuInit."""

    def make(version: int, status: int = 0) -> Path:
        folder = tmp_path_factory.mktemp(f"driver-{version}-{status}")
        (folder / "driver.cc").write_text(
            f"""extern "C" {{
            int cuDriverGetVersion(int* v) {{ *v = {version}; return 0; }}
            int cuInit(unsigned) {{ return {status}; }}
            int cuDeviceGetCount(int* n) {{ *n = 3; return 0; }}
            int cuGetErrorName(int, const char** s) {{ *s = "CUDA_ERROR_NO_DEVICE"; return 0; }}
            int cuGetErrorString(int, const char** s) {{ *s = "no device here"; return 0; }}
            }}"""
        )
        library = str(folder / "libcuda.so.1")
        subprocess.run(["g++", "-shared", "-fPIC", "-o", library, folder / "driver.cc"], check=True)
        return folder

    return make


LIBRARIES = "print(json.dumps(_core.cuda_libraries(cuda.search_folders())))"


@pytest.mark.parametrize(
    ("version", "says", "nvrtc"), [(12040, "12.4", 12), (13010, "13.1", 13), (14000, "14.0", 13)]
)
def test_the_driver_decides_which_nvrtc(driver, version, says, nvrtc):
    found, _ = fresh(LIBRARIES, LD_LIBRARY_PATH=driver(version))
    assert found["driver"]["version"] == says and found["driver"]["devices"] == 3
    assert found["nvrtc"]["version"].startswith(f"{nvrtc}.")
    # Whatever was loaded before.
    load = "".join(f"ctypes.CDLL({str(path)!r})\n" for path in nvrtc_libraries())
    found, _ = fresh(load + LIBRARIES, LD_LIBRARY_PATH=driver(version))
    assert found["nvrtc"]["version"].startswith(f"{nvrtc}.")


def test_drivers_that_are_too_old_or_do_not_work(driver):
    folder = driver(11080)
    call = "cuda.compile_kernel('fill', 'sm_80')"
    assert refused(call, LD_LIBRARY_PATH=folder) == (
        f"meshsolve: NVIDIA driver {folder}/libcuda.so.1: expected CUDA 12 or newer, got 11.8; "
        "install a newer driver"
    )
    folder = driver(12040, 100)
    found, _ = fresh(LIBRARIES, LD_LIBRARY_PATH=folder)
    assert found["driver"] == {
        "path": f"{folder}/libcuda.so.1",
        "version": "12.4",
        "devices": f"meshsolve: NVIDIA driver {folder}/libcuda.so.1: expected cuInit to succeed, "
        "got 100 CUDA_ERROR_NO_DEVICE (no device here); see what nvidia-smi says, and whether "
        "CUDA_VISIBLE_DEVICES hides the GPUs",
    }
    call = "_core.compile_kernel('fill', 'sm_80', [])"
    message = refused(call, LD_LIBRARY_PATH=folder)
    assert message.startswith(
        "meshsolve: NVRTC for a driver of CUDA 12.4: expected libnvrtc.so.12, got"
    )


COMPILE = """
result = cuda.compile_kernel("fill", "sm_90")
print(json.dumps([result["cached"], result["cubin"].hex(), _core.kernel_cache()]))
"""


def test_the_cache_serves_the_next_process(tmp_path):
    folder = tmp_path / "caches/own"
    (cached, cubin, census), _ = fresh(COMPILE, MESHSOLVE_CACHE_DIR=folder)
    assert (cached, census["entries"], census["folder"]) == ("stored", 1, str(folder))
    again, stated = fresh(COMPILE, MESHSOLVE_CACHE_DIR=folder)
    assert again == ["found", cubin, census] and stated == ""
    (entry,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, entry.stat().st_mode & 0o777) == (0o700, 0o600)
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-1])
    assert fresh(COMPILE, MESHSOLVE_CACHE_DIR=folder)[0] == ["stored", cubin, census]
    assert entry.read_bytes() == whole
    # The other NVRTC has another entry.
    library = str(next(p for p in nvrtc_libraries() if p.name.endswith("12")))
    call = COMPILE.replace('"sm_90"', f'"sm_90", {library!r}')
    (cached, other, census), _ = fresh(call, MESHSOLVE_CACHE_DIR=folder)
    assert (cached, census["entries"]) == ("stored", 2) and other != cubin


def test_processes_that_compile_at_once(tmp_path):
    running = [start(COMPILE, XDG_CACHE_HOME=tmp_path, HOME="/nowhere") for _ in range(2)]
    running += [
        start(COMPILE, MESHSOLVE_CACHE_DIR=tmp_path / "meshsolve/kernels") for _ in range(2)
    ]
    results = []
    for process in running:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        results.append(json.loads(out))
    assert {cubin for _, cubin, _ in results} == {results[0][1]}
    assert [len(list(tmp_path.rglob(p))) for p in ("*.cubin", "*.new")] == [1, 0]


@pytest.mark.parametrize("why", ["mode", "home", "relative", "proc"])
def test_no_cache_is_said_once_and_fails_nothing(tmp_path, why):
    tmp_path.chmod(0o755)
    env, expected = {
        "mode": ({"MESHSOLVE_CACHE_DIR": tmp_path}, f"chmod 700 {tmp_path}"),
        "home": ({"HOME": "", "XDG_CACHE_HOME": ""}, "set MESHSOLVE_CACHE_DIR"),
        "relative": ({"MESHSOLVE_CACHE_DIR": "here"}, 'expected an absolute path, got "here"'),
        "proc": ({"MESHSOLVE_CACHE_DIR": "/proc/meshsolve"}, "/proc/meshsolve: cannot be made"),
    }[why]
    drop = "import os\nif os.environ.get('HOME') == '': del os.environ['MESHSOLVE_CACHE_DIR']\n"
    (cached, cubin, cache), stated = fresh(
        drop + 2 * COMPILE.replace("print", "out = ") + COMPILE, **env
    )
    assert cached == f"not: {cache['not_used']}" and expected in cached
    assert_cubin(bytes.fromhex(cubin), FILL)
    assert stated == (
        "meshsolve: CUDA kernels are compiled anew in each process, not cached: "
        f"{cache['not_used']}\n"
    )


def test_the_wheel_links_no_library_of_cuda():
    shown = subprocess.run(["readelf", "-d", _core.__file__], capture_output=True, text=True)
    needed = re.findall(r"\(NEEDED\).*\[(.*?)\.so", shown.stdout)
    system = {"libc", "libm", "libgcc_s", "libstdc++", "libdl", "libpthread", "librt"}
    assert "libc" in needed and {n for n in needed if not n.startswith("ld-linux")} <= system


def test_importing_loads_no_library_of_cuda():
    maps = 'print(json.dumps([line for line in open("/proc/self/maps") if "libnvrtc" in line]))'
    assert fresh("import meshsolve\n" + maps)[0] == []
    # A loaded one would be seen.
    assert fresh("_core.cuda_libraries(cuda.search_folders())\n" + maps)[0] != []
