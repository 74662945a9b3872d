"""The script of the first run on a CUDA device, on CPU host devices: it cannot fail by itself."""

import argparse
import json
import subprocess
import sys

import pytest

from helpers import ROOT
from meshsolve import _core

SCRIPT = ROOT / "benchmarks/first_gpu_run.py"
NEED_CUDA = {"ranks", "cuSolverMg", "NCCL", "large moves", "sanitizer", "copies"}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import first_gpu_run

    return first_gpu_run


def run(*arguments, timeout=100):
    command = [sys.executable, SCRIPT, "--platform", "cpu", "--quick", *arguments]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=timeout)


def told(out):
    return json.loads((out / "first-gpu-run.json").read_text())


def test_steps_on_the_host(tmp_path):
    ran = run("--out", tmp_path, "--only", "device,solve,meetings,ranks")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = told(tmp_path)
    states = {step["name"]: step["state"] for step in report["steps"]}
    assert states == {"device": "ok", "solve": "ok", "meetings": "ok", "ranks": "skipped"}
    assert report["commit"] and report["jax"] and report["device"]["devices"] == 2
    assert len(report["summary"]) == 10
    assert all(line in ran.stdout for line in report["summary"])


@pytest.mark.tools
@pytest.mark.timeout(600)
def test_all_steps_on_the_host(tmp_path):
    ran = run("--out", tmp_path, timeout=500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    states = {step["name"]: step["state"] for step in told(tmp_path)["steps"]}
    assert {name for name, state in states.items() if state == "skipped"} == NEED_CUDA
    assert {state for name, state in states.items() if name not in NEED_CUDA} == {"ok"}


def test_it_goes_on_after_failures(tmp_path, script, capsys):
    """And tries once more, with launches that wait, what the step says."""
    leave = "import os, sys; sys.exit(int(os.environ.get('CUDA_LAUNCH_BLOCKING', '3')))"
    sleep = "import time; time.sleep(60)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}])"
    steps = [
        script.Step("fails", "", 60, ["-c", leave], again=True),
        script.Step("hangs", "", 1, ["-c", child]),
        script.Step("works", "", 60, ["-c", "print('said')"]),
    ]
    options = argparse.Namespace(platform="cpu", out=tmp_path, quick=True, minutes=25)
    assert script.run_all(steps, options) == 1
    fails, hangs, works = told(tmp_path)["steps"]
    assert (fails["state"], fails["blocking"]["state"]) == ("failed", "failed")
    assert hangs["state"] == "timed out"
    assert (works["state"], works["out"]) == ("ok", "said\n")
    assert "wrong: fails, hangs (timed out)\n" in capsys.readouterr().out
    options.minutes = 0
    assert script.run_all(steps, options) == 0
    assert {step["state"] for step in told(tmp_path)["steps"]} == {"not run"}


def test_steps_that_there_are_not(tmp_path):
    ran = run("--out", tmp_path, "--only", "solve,sped")
    assert ran.returncode == 2 and "got solve,sped" in ran.stderr


def test_architectures_that_there_are_not(tmp_path):
    ran = run("--out", tmp_path, "--prepare", "sm_1")
    assert ran.returncode == 1 and "got sm_1" in ran.stderr


@pytest.mark.tools
def test_kernels_are_prepared_without_a_device(tmp_path):
    ran = run("--out", tmp_path, "--prepare", "sm_90")
    assert ran.returncode == 0, ran.stderr
    assert len(list((tmp_path / "kernels").iterdir())) == len(_core.kernel_names())
