"""How competitors start, the reports of rows on libraries and the peak, and turns of rows."""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

from helpers import ROOT

BENCH = ROOT / "benchmarks"
# One of every family; those of OpenBLAS would select other kernels, and one thread.
LEFT = {
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "GOTO_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ELPA_DEFAULT_solver": "ELPA_SOLVER_2STAGE",
    "NVPL_BLAS_DEBUG_CPU_TYPE": "1",
}


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    import environment

    for name in set(os.environ) - set(environment.clean()):
        monkeypatch.delenv(name)


@pytest.fixture
def left_over(bench, monkeypatch):
    for name, value in LEFT.items():
        monkeypatch.setenv(name, value)


def rows(*arguments):
    command = [sys.executable, str(BENCH / "run.py"), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    return list(csv.DictReader(ran.stdout.splitlines()))


def test_nothing_left_over_reaches_a_process(left_over):
    import environment

    assert environment.blas_variables().split() == sorted(f"{k}={v}" for k, v in LEFT.items())
    assert environment.blas_variables(environment.clean()) == ""
    own = environment.clean(OPENBLAS_CORETYPE="SkylakeX")
    assert environment.blas_variables(own) == "OPENBLAS_CORETYPE=SkylakeX"
    assert own["PATH"] == os.environ["PATH"]


def test_a_worker_starts_clean(left_over, tmp_path):
    import turns

    program = tmp_path / "row.py"
    program.write_text(
        f"import sys; sys.path.insert(0, {str(BENCH)!r})\n"
        "import environment, os, turns\n"
        "class Row:\n"
        "    def prepare(self): return environment.blas_variables()\n"
        "    def turn(self): return False\n"
        "    def row(self): return {name: os.environ[name] for name in os.environ}\n"
        "turns.serve(Row)\n"
    )
    row = turns.by_turns({"it": turns.Worker([str(program)], "it", False)})["it"]
    assert not set(row) & set(LEFT)


@pytest.mark.parametrize(
    ("script", "begin"),
    [
        ("derivative_accuracy.py", "begin_on_cpu(4)"),
        ("dispatch.py", "begin_on_cpu(options.devices)"),
        ("decompositions.py", "begin_on_cpu(options.devices)"),
        ("memory.py", "restart()"),
        ("products.py", "restart()"),
        ("transpose.py", "restart()"),
    ],
)
def test_programs_of_one_process_start_anew(script, begin):
    """They restart before they import a module that reads the environment."""
    assert f"    environment.{begin}\n" in (BENCH / script).read_text()
    code = (
        f"import sys; sys.path.insert(0, {str(BENCH)!r}); import environment\n"
        "if sys.argv[1:] != ['anew']: sys.argv = [__file__, 'anew']\n"
        "environment.restart(); print(repr(environment.blas_variables()))"
    )
    program = ["-c", code.replace("__file__", "'-c', " + repr(code))]
    ran = subprocess.run(
        [sys.executable, *program], env=os.environ | LEFT, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "''", ran.stderr


@pytest.mark.tools
def test_rows_say_which_library_ran(left_over, monkeypatch):
    """The kernels are those that are chosen without the variables."""
    options = ("--routine", "lu", "--sizes", 64, "--repeats", 1)
    whats = ("meshsolve", "jnp one device", "scipy", "faer", "faer gemm")
    reported = {row["what"]: row for row in rows(*options, "--what", ",".join(whats))}
    assert tuple(reported) == whats
    for row in reported.values():
        assert row["library"] and row["library_version"] and row["architecture"]
        assert row["variables"] == "" and row["calls"] == "1"
        assert float(row["peak_gflops"]) > 0 and float(row["share_of_peak"]) >= 0
        assert (row["disturbed"] == "yes") == (float(row["peak_moved"]) > 0.05)
    for what in ("scipy", "jnp one device"):
        assert (
            "openblas" in reported[what]["library"]
            and "Prescott" not in reported[what]["architecture"]
        )
    assert reported["faer"]["library"] == reported["faer gemm"]["library"] == "faer"
    assert reported["meshsolve"]["library"] == "meshsolve"


@pytest.mark.parametrize(
    "task",
    [
        ("solve", "lu", 64, 1, 16),
        ("qr", "qr", 64, 40, 16),
        ("qr", "qr", 400, 40, 16),
        ("qr", "lstsq", 400, 40, 16),
        ("eigen", "eigh", 100, 16),
        ("eigen", "eigh", 64, 64),
        ("eigen", "eigvalsh", 100, 16),
        ("elpa", "eigh", 100, 1, 16),
        ("elpa", "eigh", 100, 2, 16),
        ("elpa", "eigvalsh", 100, 2, 16),
    ],
)
def test_scalapack_says_what_it_was_given(left_over, task):
    import scalapack

    try:
        program = scalapack.Program("ScaLAPACK Haswell", task[0], task[1:], 2)
    except scalapack.Unavailable as reason:
        pytest.skip(str(reason))
    assert program.variables == "OPENBLAS_CORETYPE=Haswell"
    assert [program.solve().ratio < 3 for _ in range(2)] == [True, True]
    version, kernels = program.end()
    assert version[0].isdigit() and kernels == "Haswell"


@pytest.mark.parametrize(
    ("peaks", "disturbed"), [([200, 191], ""), ([200, 189, 200], "yes"), ([189, 200], "yes")]
)
def test_a_peak_that_moved_marks_the_row(bench, peaks, disturbed):
    import figures

    row = figures.shares("lu", False, 1000, 0, "float64", [0.01], [0.008], [100], peaks, [160])
    assert row["disturbed"] == disturbed
    assert row["share_of_gemm"] == f"{2 / 3 / 0.01 / 100:.3f}"
    peak = sorted(peaks)[len(peaks) // 2] if len(peaks) % 2 else sum(peaks) / 2
    assert row["share_of_peak"] == f"{2 / 3 / 0.01 / peak:.3f}"
    assert row["share_of_update_factor"] == f"{2 / 3 / 0.008 / 160:.3f}"


def test_complex_types_count_real_operations(bench):
    import figures

    real, complex_ = (
        figures.shares("lu", False, 1000, 0, dtype, [0.01], [], [100], [200])
        for dtype in ("float64", "complex128")
    )
    assert float(complex_["gflops"]) == pytest.approx(4 * float(real["gflops"]), rel=1e-3)


def test_rows_take_turns(bench):
    """A row with less work ends first; a row that cannot be measured does not stop the others."""
    import turns

    reported = []

    class Asked:
        def __init__(self, name, count, fails=False):
            self.name, self.left, self.fails = name, count, fails

        def ask(self, what):
            reported.append((self.name, what))
            if self.fails:
                raise turns.LeftOut("no such package")
            self.left -= what == "turn"
            return {"name": self.name} if what == "row" else self.left > 0

        def end(self):
            reported.append((self.name, "end"))

    workers = {"a": Asked("a", 3), "b": Asked("b", 1), "c": Asked("c", 3, fails=True)}
    made = turns.by_turns(workers)
    assert [name for name, what in reported if what == "turn"] == ["a", "b", "a", "a"]
    assert [name for name, what in reported if what in ("prepare", "end")] == [*"abc", *"abc"]
    assert made["a"] == {"name": "a"} and str(made["c"]) == "no such package"


def test_two_builds_take_turns(bench):
    """Here it is one build under two names: its seconds, and ratios, one round after another."""
    import meshsolve
    import wheels

    here = str(pathlib.Path(meshsolve.__file__).parents[1])
    made = wheels.compared({"old": here, "new": here}, ("lu", "64", "float64", "rows"))
    assert set(made) == {"seconds", "new"} and min(made.values()) > 0


def test_a_pause_comes_before_each_call(bench, monkeypatch):
    import wheels

    done = []
    monkeypatch.setattr(wheels.time, "sleep", done.append)
    for pause, expected in ("0.5", [0.5, "call"] * 3), ("0", ["call", *[0.0, "call"] * 3]):
        calls = wheels.Calls(str(BENCH), "lu", "64", "float64", "rows", pause)
        calls.calls, calls._call = 3, lambda: done.append("call")
        done.clear()
        assert calls.turn() and done == expected


def test_rows_of_memory_are_measured_again(bench, monkeypatch, tmp_path):
    import memory_report

    given = {"what": "meshsolve", "n": 256, "devices": 4, "storage": "columns", "assume": "gen"}
    given |= {"lower": False, "rhs": 3, "keep_a": True}
    table = tmp_path / "memory-cpu.jsonl"
    table.write_text(json.dumps(given | {"above_bytes": -1}) + "\n")
    monkeypatch.setattr(memory_report, "TABLE", table)
    memory_report.measure()
    (made,) = memory_report._rows()
    assert made | given == made and made["above_bytes"] >= 0 and made["a_bytes"] == 8 * 256**2


def test_tables_show_what_was_disturbed(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import hooks

    monkeypatch.setattr(hooks, "RESULTS", tmp_path)
    (tmp_path / "one.csv").write_text("what,share,disturbed\nours,0.9,yes\ntheirs,0.5,\n")
    block = "one.csv\ncolumns: share | now\ncells: {share:.2f}\n"
    made = hooks.table(block + "ours | what=ours\ntheirs | what=theirs\n")
    assert "| ours | 0.90† |\n| theirs | 0.50 |" in made and "peak moved" in made
    assert "peak moved" not in hooks.table(block + "theirs | what=theirs\n")


def test_random_matrices_are_as_they_are_said_to_be(bench):
    import jax.numpy as jnp

    from contenders import matrix

    for dtype in ("float64", "complex128"):
        a = matrix("lu", 257, dtype)
        assert abs(a.mean()) < 0.02 and float(jnp.abs(a).std() ** 2) > 0
        assert float((jnp.abs(a) ** 2).mean()) == pytest.approx(1, abs=0.02)
        assert len(jnp.unique(a.real)) > 65000 and float(jnp.linalg.cond(a)) < 1e5
