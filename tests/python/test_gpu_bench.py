"""The benchmark of solves on CUDA devices, tested on CPU devices."""

import csv
import itertools
import math
import os
import subprocess
import sys

import pytest

from helpers import DTYPES, ROOT

SCRIPT = ROOT / "benchmarks/gpu_solve.py"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import gpu_solve

    return gpu_solve


def run(*arguments):
    environment = {name: os.environ[name] for name in os.environ if name != "XLA_FLAGS"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )


WHATS = ("meshsolve", "jnp", "meshsolve factor", "jnp factor", "meshsolve tile 16")
ROWS = list(itertools.product(("cholesky", "lu"), WHATS, DTYPES))


@pytest.mark.parametrize(
    ("routine", "what", "dtype"),
    [
        row if i % 9 == 0 else pytest.param(*row, marks=pytest.mark.tools)
        for i, row in enumerate(ROWS)
    ],
)
def test_a_row(bench, routine, what, dtype):
    row = bench.measure(bench.Case(routine, what, 96, dtype), 1)
    assert float(row["seconds_median"]) > 0 and float(row["gemm_gflops"]) > 0
    assert set(row) <= set(bench.COLUMNS)
    assert ("residual_ratio" in row) == (not what.endswith("factor"))
    assert float(row.get("residual_ratio", 0)) < 3


def test_tiles_are_as_wide_as_asked_for(bench):
    """The library refuses an impossible width."""
    with pytest.raises(Exception, match="tile"):
        bench.measure(bench.Case("lu", "meshsolve tile -3", 96), 1)


@pytest.mark.tools
def test_a_table(tmp_path, bench):
    """Rows that fail report why; existing rows are not measured again."""
    options = ("--platform", "cpu", "--sizes", 96, "--routine", "cholesky", "--repeats", 1)
    options += ("--dtypes", "", "--tiles", "16", "--step", 32, "--most", 64, "--out", tmp_path)
    ran = run(*options)
    assert ran.returncode == 0, ran.stderr
    [path] = tmp_path.glob("solve-gpu-2-*.csv")
    with open(path, newline="") as file:
        rows = {row["what"]: row for row in csv.DictReader(file)}
    whats = ("meshsolve", "jnp", "meshsolve factor", "jnp factor", "meshsolve tile 16")
    largest = ("meshsolve largest", "jnp largest")
    shared = [f"{ranks} ranks on one device" for ranks in (1, 2, 4, 8)]
    assert list(rows) == [*whats, "meshsolve cusolvermg", *shared, *largest]
    assert all(float(rows[what]["share_of_gemm"]) >= 0 for what in whats)
    assert rows["meshsolve"]["devices"] == "2" and rows["jnp"]["devices"] == "1"
    assert all(rows[what]["n"] == "64" for what in largest)
    assert all(rows[what]["note"] == "no larger one was tried" for what in largest)
    for what in ("meshsolve cusolvermg", *shared):
        failed = rows[what]
        assert failed["note"].startswith("failed: ") and failed["seconds_median"] == ""
    assert "expected" in rows[shared[0]]["note"]
    reported = {aim.name: aim.line in ran.stdout for aim in bench.aims(list(rows.values()))}
    assert reported["cholesky: largest n / that of jnp"] and all(reported.values())
    again = run(*options)
    assert again.returncode == 0 and again.stderr == ""


@pytest.mark.slow
def test_all_rows_on_tiny_matrices(tmp_path):
    ran = run("--platform", "cpu", "--quick", "--out", tmp_path)
    assert ran.returncode == 0, ran.stderr
    [path] = tmp_path.glob("solve-gpu-2-*.csv")
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(run("--quick", "--list").stdout.splitlines()) + 4
    failed = {row["what"] for row in rows if row["note"].startswith("failed")}
    assert failed <= {"meshsolve cusolvermg", "panel of 16"} | {
        f"{k} ranks on one device" for k in (1, 2, 4, 8)
    }


def test_rows_by_name():
    """A panel is no wider than its matrix."""
    options = ("--sizes", "1024,512,256", "--routine", "lu", "--list")
    named = run(*options, "--rows", "panel*,meshsolve").stdout.splitlines()
    meshsolve = [f"lu meshsolve {n} float64" for n in (1024, 512, 256)]
    others = [f"lu meshsolve 512 {dtype}" for dtype in DTYPES if dtype != "float64"]
    panels = [
        f"lu panel of {width} {n} float64" for n, width in ((1024, 512), (1024, 1024), (512, 512))
    ]
    assert sorted(named) == sorted([*meshsolve, *others, *panels])
    assert run(*options, "--rows", "jnp", "--dtypes", "").stdout.count("jnp") == 3


@pytest.mark.parametrize("most", [0, 3, 4, 5, 17, 61, 62, 63])
def test_the_largest_that_works(bench, most):
    tried = []

    def works(n):
        tried.append(n)
        return n <= most * 2

    found, fails = bench.largest(125, 2, works)
    assert found == 2 * min(most, 62)
    assert fails == (found + 2 if found < 124 else 0)
    assert len(tried) == len(set(tried)) <= 2 + math.log2(62) and max(tried) <= 125


def test_verdicts(bench):
    fixed = {"dtype": "float64", "routine": "lu"}
    rows = [
        {"what": "meshsolve", "n": 32768, "seconds_median": "2", "peak_of_a": "1.04"},
        {"what": "jnp", "n": 32768, "seconds_median": "3", "peak_of_a": "2.5"},
        {"what": "meshsolve factor", "n": 32768, "seconds_median": "2", "share_of_gemm": "0.65"},
        {"what": "jnp factor", "n": 4096, "seconds_median": "1"},
        {"what": "1 ranks on one device", "n": 32768, "seconds_median": "2"},
        {"what": "4 ranks on one device", "n": 32768, "seconds_median": "2.4"},
        {"what": "meshsolve", "n": 4096, "seconds_median": "2"},
        {"what": "meshsolve largest", "n": 122880, "seconds_median": ""},
        {"what": "jnp largest", "n": 81920, "seconds_median": ""},
    ]
    aims = bench.aims([fixed | row for row in rows])
    assert [(aim.name, pytest.approx(aim.value), aim.bound, aim.met) for aim in aims] == [
        ("lu, n = 32768: share of the product rate", 0.65, 0.70, False),
        ("lu, n = 32768: memory at its peak / A", 1.04, 1.05, True),
        ("lu, n = 32768: times as fast as jnp", 1.5, 1.0, True),
        ("lu, n = 32768: 4 ranks / 1 rank", 1.2, 1.15, False),
        ("lu: largest n / that of jnp", 1.5, 1.4, True),
    ]
