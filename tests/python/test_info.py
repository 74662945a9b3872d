"""``python -m meshsolve.info``: the report as JSON and as text, and its failures."""

import json
import os
import re
import subprocess
import sys

from helpers import ROOT, nvrtc_libraries
from meshsolve import _core, info
from meshsolve._library import cuda

# Which compile quickly. tests/kernels/test_compile.py compiles all of them.
KERNELS = ("copy", "fill", "triangle")
# `python -m meshsolve.info` with these.
PROGRAM = f"""
import runpy
from meshsolve import _core
_core.kernel_names = lambda: {KERNELS}
runpy.run_module("meshsolve.info", run_name="__main__")
"""


def report(*arguments, **environment) -> str:
    """The output, from a separate process."""
    outside = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")  # found before the wheels
    own = {name: value for name, value in os.environ.items() if name not in outside}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=own | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0 and ran.stderr == "", ran.stdout + ran.stderr
    return ran.stdout


def test_as_json_and_as_text(tmp_path):
    """Kernels compile without a warning; the second time they come from the cache."""
    assert nvrtc_libraries(), "`make test` installs the NVRTC wheels"
    cached = {"MESHSOLVE_CACHE_DIR": str(tmp_path / "own")}
    reported = json.loads(report("--json", "--n", "64", **cached))
    check, cuda = reported["self_check"], reported["cuda"]
    assert check["ok"] and check["devices"] == 8 and 0 < check["residual_ratio"] <= 3
    assert reported["ffi_api_compiled"] == "0.2"
    assert {"posv", "potrf", "potrs", "transpose"} <= set(reported["routines"])
    assert cuda["nvrtc"]["version"].startswith("13.") and "sm_90" in cuda["nvrtc"]["architectures"]
    assert set(cuda["kernels"]) == set(KERNELS) and "driver" in cuda
    for compiled in cuda["kernels"].values():
        assert set(compiled) == {"sm_90"}
        assert re.fullmatch(r"\d+ bytes, cache: stored", compiled["sm_90"])
    cache = cuda["kernel_cache"]
    assert (cache["folder"], cache["damaged"]) == (str(tmp_path / "own"), 0)
    assert cache["entries"] == len(KERNELS)
    text = report("--n", "64", **cached)
    assert "self_check:\n  ok: True" in text and text.count("cache: found") == cache["entries"]


def test_the_library_has_all_kernels_and_their_headers():
    files = {path.stem for path in (ROOT / "kernels").glob("*.cu")} - {"transpose_registers"}
    assert set(_core.kernel_names()) == files | {"transpose_registers_8"}
    listed = (ROOT / "src/device/cuda/sources.rs").read_text()
    assert all(f'"{path.name}"' in listed for path in (ROOT / "kernels").glob("*.cuh"))


def test_it_fails_when_the_self_check_does(monkeypatch, capsys):
    monkeypatch.setattr(info, "self_check", lambda n: {"ok": False, "error": "broken"})
    monkeypatch.setattr(cuda, "report", lambda _: {})  # kernels take seconds
    assert info.main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)["self_check"]["error"] == "broken"
