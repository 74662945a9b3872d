"""The builds of gpu_probe.py: its handlers with nvcc or g++, kernels with NVRTC."""

import ctypes
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().with_name("gpu_probe.cc")
ROOT = SOURCE.parents[1]


def run(command, limit, **options):
    """(return code or None on timeout, stdout, stderr); ends the whole group it started."""
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    try:
        process = subprocess.Popen(command, start_new_session=True, cwd=ROOT, **pipe, **options)
    except OSError as error:
        return 127, "", str(error)
    try:
        out, error = process.communicate(timeout=limit)
        return process.returncode, out, error
    except BaseException as stop:  # also Ctrl-C, which a separate session does not get
        os.killpg(process.pid, signal.SIGKILL)
        if not isinstance(stop, subprocess.TimeoutExpired):
            raise
        return None, *process.communicate()


def _cuda_roots():
    """Folders that may hold a CUDA toolkit, or a part of one from a pip wheel."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    roots += [Path(nvcc).resolve().parents[1] for nvcc in [shutil.which("nvcc")] if nvcc]
    roots += Path("/usr/local").glob("cuda-*")
    wheels = importlib.util.find_spec("nvidia")
    for place in wheels.submodule_search_locations if wheels else ():
        roots += Path(place).glob("*")
    return list(dict.fromkeys(Path(r) for r in roots if r and Path(r).is_dir()))


def found(*patterns):
    """The files in those folders that match these patterns."""
    return [p for pattern in patterns for root in _cuda_roots() for p in sorted(root.glob(pattern))]


def build_handlers(platform, library):
    """Compiles gpu_probe.cc to `library`; returns the command, or exits with advice."""
    ffi = Path(importlib.util.find_spec("jaxlib").origin).parent / "include"
    common = ["-std=c++17", "-O2", "-shared", "-isystem", ffi, "-o", library, SOURCE]
    host = [os.environ.get("CXX", "g++"), "-fPIC"]
    attempts = [[*host, "-DPROBE_CPU", *common]]
    if platform == "cuda":  # nvcc links a static cudart: hide its symbols
        own = ["-Xcompiler", "-fPIC", "-Xlinker", "--exclude-libs=ALL"]
        attempts = [[nvcc, *own, *common] for nvcc in found("bin/nvcc")]
        host += [f"-I{folder}" for folder in found("include")]
        if found("include/cuda_runtime_api.h"):
            for runtime in found("lib64/libcudart.so*", "lib/libcudart.so*")[:1]:
                attempts.append([*host, *common, runtime, "-ldl", f"-Wl,-rpath,{runtime.parent}"])
    tried = []
    for command in attempts:
        code, _, error = run(command, 180)
        tried.append(" ".join(map(str, command)) + "\n" + error[-1500:])
        if code == 0:
            return tried[-1].splitlines()[0]
    tried = "\n".join(tried) or "nothing: found neither nvcc nor CUDA headers with libcudart"
    sys.exit(
        f"cannot compile {SOURCE.name} for {platform}. Tried:\n{tried}\nLooked for CUDA in "
        f"{[*map(str, _cuda_roots())]}.\nNeeded: a C++17 compiler and, for cuda, nvcc or the "
        "headers and libcudart: pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-crt"
    )


def load(library):
    """The compiled handlers, with their return types."""
    lib = ctypes.CDLL(str(library))
    lib.probe_type_id.restype = lib.probe_type_info.restype = ctypes.c_void_p
    lib.probe_measured.restype, lib.probe_compile.restype = ctypes.c_double, ctypes.c_char_p
    lib.probe_log_size.restype = lib.probe_cuda.restype = ctypes.c_int64
    lib.probe_copy_by.restype = ctypes.c_char_p
    return lib


def compile_kernels(lib, capability):
    """Compiles the kernels for 10 * major + minor with the first NVRTC that can."""
    names = [*loaded("nvrtc"), *map(str, found("lib/libnvrtc.so*", "lib64/libnvrtc.so*"))]
    wrong, arch = [], f"sm_{capability}"
    for name in dict.fromkeys([*names, "libnvrtc.so.13", "libnvrtc.so.12"]):
        wrong.append(lib.probe_compile(name.encode(), arch.encode()).decode(errors="replace"))
        if not wrong[-1]:
            return f"{arch} by {name}"
    raise RuntimeError("no NVRTC compiled the kernels: " + "; ".join(wrong)[-900:])


def loaded(name):
    """Paths of lib<name>.so* mapped into this process."""
    files = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    return sorted(f for f in files if re.match(rf"lib{name}\.so", Path(f).name))
