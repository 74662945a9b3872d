"""The script of the first run on a CUDA device, on CPU devices: it cannot fail by itself."""

import argparse
import csv
import json
import subprocess
import sys

import pytest

from helpers import ROOT
from meshsolve import _core

SCRIPT = ROOT / "benchmarks/first_gpu_run.py"
NEED_CUDA = {
    "claims",
    "ranks",
    "panels",
    "cuSolverMg",
    "NCCL",
    "large moves",
    "sanitizer",
    "copies",
}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import first_gpu_run

    return first_gpu_run


def run(*arguments, timeout=100):
    command = [sys.executable, SCRIPT, "--platform", "cpu", "--quick", *arguments]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=timeout)


def reported(out):
    return json.loads((out / "first-gpu-run.json").read_text())


def test_steps_on_the_host(tmp_path):
    ran = run("--out", tmp_path, "--only", "device,solve,rendezvous,ranks")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = reported(tmp_path)
    states = {step["name"]: step["state"] for step in report["steps"]}
    assert states == {"device": "ok", "solve": "ok", "rendezvous": "ok", "ranks": "skipped"}
    assert report["commit"] and report["jax"] and report["device"]["devices"] == 2
    assert len(report["summary"]) == 11
    assert all(line in ran.stdout for line in report["summary"])


@pytest.mark.tools
@pytest.mark.timeout(600)
def test_all_steps_on_the_host(tmp_path):
    ran = run("--out", tmp_path, timeout=500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    states = {step["name"]: step["state"] for step in reported(tmp_path)["steps"]}
    assert {name for name, state in states.items() if state == "skipped"} == NEED_CUDA
    assert {state for name, state in states.items() if name not in NEED_CUDA} == {"ok"}


def test_it_goes_on_after_failures(tmp_path, script, capsys):
    """It runs such a step again, with launches that wait."""
    leave = "import os, sys; sys.exit(int(os.environ.get('CUDA_LAUNCH_BLOCKING', '3')))"
    sleep = "import time; time.sleep(60)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}])"
    steps = [
        script.Step("fails", "", 60, ["-c", leave], again=True),
        script.Step("hangs", "", 1, ["-c", child]),
        script.Step("works", "", 60, ["-c", "print('ran')"]),
    ]
    options = argparse.Namespace(platform="cpu", out=tmp_path, quick=True, minutes=25)
    assert script.run_all(steps, options) == 1
    fails, hangs, works = reported(tmp_path)["steps"]
    assert (fails["state"], fails["blocking"]["state"]) == ("failed", "failed")
    assert hangs["state"] == "timed out"
    assert (works["state"], works["out"]) == ("ok", "ran\n")
    assert "wrong: fails, hangs (timed out)\n" in capsys.readouterr().out
    options.minutes = 0
    assert script.run_all(steps, options) == 0
    assert {step["state"] for step in reported(tmp_path)["steps"]} == {"not run"}


def figures(what, routine, n, **more):
    reported = {"what": what, "routine": routine, "n": str(n), "dtype": "float64", "devices": "1"}
    return reported | {name: str(value) for name, value in more.items()}


def summary(script, folder, rows):
    """The parts of each line, by name."""
    columns = sorted(set().union(*rows)) if rows else ["what"]
    with open(folder / "solve-gpu-1-made-up.csv", "w", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows(rows)
    reported = {"steps": [], "jax": "", "meshsolve": "", "commit": "", "driver": ""}
    return dict(line.split(": ", 1) for line in script.summary(reported, folder))


def test_a_summary_of_nothing(tmp_path, script):
    lines = summary(script, tmp_path, [])
    names = ("share of gemm", "fastest tile width", "to change", "panel", "panels during products")
    assert {lines[name] for name in names} == {"not measured"}
    assert lines["largest n"] == "not measured / peak over A: not measured"


def tiles(routine, n, seconds):
    return [
        figures(f"meshsolve tile {width}", routine, n, seconds_median=s, share_of_gemm=0.5)
        for width, s in seconds.items()
    ]


def test_the_line_to_change(tmp_path, script):
    """One tile is the fastest of both at the largest n of such a row, or of one routine."""
    path = "src/routines/solver/widths.rs: const WHOLE_BY_ONE_RANK: &[Family] = &[{}];"
    slow, fast = {512: 1.5, 1024: 1.25, 2048: 2.0}, {512: 1.5, 1024: 1.25, 2048: 1.0}
    small = {512: 0.1, 1024: 0.05}
    for cholesky, lu, line in (
        (slow, slow, "nothing"),
        (fast, slow, path.format("Family::Cholesky")),
        (slow, fast, path.format("Family::Lu")),
        (fast, fast, path.format("Family::Cholesky, Family::Lu")),
        # Without one tile, and without another one.
        ({512: 1.5, 1024: 1.0}, {2048: 1.0}, "not measured"),
    ):
        rows = [*tiles("cholesky", 2048, cholesky), *tiles("lu", 2048, lu)]
        # Smaller matrices have another fastest width, and no larger matrix was tried.
        rows += [*tiles("lu", 4096, {512: 3.0})]
        rows += [*tiles("lu", 1024, small)] if lu is slow else []
        assert summary(script, tmp_path, rows)["to change"] == line


def test_panels_and_what_passes_beside_them(tmp_path, script):
    rows = [
        # Half of each is products.
        *tiles("lu", 2048, {512: 10e-3, 1024: 8e-3}),
        *tiles("cholesky", 2048, {1024: 6e-3}),
        # Panels of 2048 and 1024 rows take 5 ms, tiles 2 x 6 ms.
        figures("panel of 1024", "lu", 1024, seconds_median=2e-3, host_seconds=5e-4, host_bytes=7),
        figures("panel of 1024", "lu", 2048, seconds_median=3e-3, host_seconds=1e-3, host_bytes=8),
        figures(
            "panel of 1024", "cholesky", 2048, seconds_median=6e-3, host_seconds=2e-3, host_bytes=9
        ),
        figures("meshsolve", "lu", 65536, peak_of_a=1.03, share_of_gemm=0.9),
        figures("meshsolve factor", "lu", 2048, share_of_gemm=0.7),
        figures("meshsolve", "lu", 2048, peak_of_a=1.1, share_of_gemm=0.6),
    ]
    lines = summary(script, tmp_path, rows)
    assert lines["panel"] == (
        "potrf 1024 x 1024 holds the host 2.00 ms of 6.00 ms, cuSOLVER's host workspace 9 bytes; "
        "getrf 2048 x 1024 holds the host 1.00 ms of 3.00 ms, cuSOLVER's host workspace 8 bytes"
    )
    # 1 - 3 / 12 and 1 - 4 / 5.
    reported = "cholesky 0.75 at n = 2048, tile 1024; lu 0.20 at n = 2048, tile 1024"
    assert lines["panels during products"] == reported
    assert lines["share of gemm"] == "lu, n = 2048: meshsolve factor 0.70, meshsolve 0.60"
    assert lines["largest n"].endswith("peak over A: lu 1.030 at n = 65536")
    # A line needs two points.
    lines = summary(script, tmp_path, [row for row in rows if row["n"] != "1024"])
    assert lines["panels during products"] == "cholesky 0.75 at n = 2048, tile 1024"


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
