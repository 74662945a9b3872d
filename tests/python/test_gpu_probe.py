"""The GPU probe without a GPU: its own logic on CPU devices, and its kernels through NVRTC."""

import csv
import ctypes
import json
import re
import subprocess
import sys

import pytest

from helpers import ROOT, nvrtc_libraries

PROBE = ROOT / "benchmarks/gpu_probe.py"


@pytest.mark.parametrize(
    "only", ["rendezvous,gemm:float64:256", pytest.param("", marks=pytest.mark.tools)]
)
def test_the_probe_on_cpu_devices(tmp_path, only):
    command = [sys.executable, PROBE, "--platform", "cpu", "--quick", "--suite-timeout", "0"]
    command += ["--only", only, "--out", tmp_path]
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=250)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads((tmp_path / "gpu_probe.json").read_text())
    oks = {check["name"]: check["ok"] for check in report["checks"]}
    assert oks["environment"] and oks["rendezvous"] and False not in oks.values()
    with open(tmp_path / "gpu_baselines.csv", newline="") as file:
        cases = {(row["case"], row["dtype"], row["n"]) for row in csv.DictReader(file)}
    if only:
        assert set(oks) == {"environment", "rendezvous", "rendezvous_twelve"}
        assert cases == {("gemm", "float64", "256")}
    else:
        assert len(oks) == 13 and len(cases) == 13


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_the_kernels_compile_without_warnings(arch):
    libraries = nvrtc_libraries()
    assert len(libraries) >= 2, "make test installs the NVRTC wheels of CUDA 12 and 13"
    text = PROBE.with_suffix(".cc").read_text()
    (source,) = re.findall(r'kKernels = R"\((.*?)\)"', text, re.DOTALL)
    for library in libraries:
        nvrtc = ctypes.CDLL(str(library))
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        made = nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"probe.cu", 0, None, None
        )
        assert made == 0
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture={arch}".encode())
        status = nvrtc.nvrtcCompileProgram(program, 1, options)
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        assert (status, log.value) == (0, b""), (library, log.value.decode())
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        assert size.value > 0
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
