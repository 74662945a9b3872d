"""Programs of several processes (``tests/processes``), each with the ScaLAPACKs of this machine."""

import csv
import os
import pathlib
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from helpers import ROOT, run_fresh
from meshsolve._library import processes, starting, waiting

sys.path.insert(0, str(ROOT / "tests/processes"))
import launch

pytestmark = pytest.mark.file_in_parts

LAUNCHERS = launch.launchers()
IDS = [one.name for one in LAUNCHERS]
SECONDS = 240

if not LAUNCHERS and "MESHSOLVE_REQUIRE_MPI" in os.environ:
    raise RuntimeError("no MPI with a ScaLAPACK: pip install mkl mpich")


def expect_all_right(ran, processes):
    """Every process has reported the same cases, none of which failed."""
    names = [[name for name, _ in of] for of in ran.reported]
    wrong = [f"process {rank}, {name}: {text}"
             for rank, of in enumerate(ran.reported) for name, text in of if text]  # fmt: skip
    assert not wrong, "\n".join(wrong)
    assert ran.code == 0 and names[0] and all(one == names[0] for one in names), ran.output
    assert len(names) == processes and not ran.orphans


OF_DTYPES = ("solves", "factors", "others", "eigen", "tall", "reflectors")
SOME = ("float64 rows", "complex64 columns")


def some_of(names) -> list[str]:
    return [f"{name} {kind}" for name in names for kind in SOME]


# Each function has a third type here, and the fourth in `test_functions_of_more`.
OTHERS = [
    f"{name} {dtype} rows"
    for name, dtype in zip(OF_DTYPES, ("float32", "complex128") * 3, strict=True)
]


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
@pytest.mark.parametrize(
    "cases",
    [
        (*some_of(OF_DTYPES[:3]), "failures", "placements", "mended"),
        (*some_of(OF_DTYPES[3:]), "refusals", "committed", "plans"),
        pytest.param(("transformations", "independent"), marks=pytest.mark.versions),
    ],
    ids=["solves", "eigen", "transformations"],
)
def test_functions(launcher, cases):
    ran = launch.run(launcher, 2, "cases.py", "brief", *cases, seconds=SECONDS)
    expect_all_right(ran, 2)


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("launcher", LAUNCHERS[1:], ids=IDS[1:])
def test_functions_by_other_libraries(launcher):
    cases = [f"{name} {SOME[i % 2]}" for i, name in enumerate(OF_DTYPES)]
    cases += ["transformations Auto", "brief"]
    ran = launch.run(launcher, 2, "cases.py", *cases, seconds=SECONDS)
    expect_all_right(ran, 2)


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_functions_of_other_types(launcher):
    ran = launch.run(launcher, 2, "cases.py", "brief", *OTHERS, seconds=SECONDS)
    expect_all_right(ran, 2)


@pytest.mark.slow
@pytest.mark.timeout(6 * SECONDS)
@pytest.mark.parametrize("launcher", LAUNCHERS, ids=IDS)
@pytest.mark.parametrize(("processes", "devices"), [(2, 1), (3, 1), (2, 2)])
def test_all_functions(launcher, processes, devices):
    ran = launch.run(launcher, processes, "cases.py", devices=devices, seconds=5 * SECONDS)
    expect_all_right(ran, processes)


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
@pytest.mark.parametrize(
    ("processes", "devices", "cases"),
    [
        (
            2,
            2,
            (
                *("solves complex64 rows", "factors float32 columns", "others complex128 columns"),
                *("eigen float32 columns", "tall float64 rows", "reflectors complex64 columns"),
                *("failures", "placements", "plans"),
            ),
        ),
        pytest.param(
            2,
            2,
            ("independent", "axes", "committed"),
            marks=pytest.mark.slow,
        ),
        (
            3,
            1,
            (
                *("factors complex128 columns", "eigen complex64 rows", "tall complex128 columns"),
                *("reflectors float32 rows", "solves complex128 columns", "independent"),
            ),
        ),
        (4, 1, ("others float32 columns", "tall float64 rows", "failures", "axes")),
    ],
)
def test_functions_of_more(launcher, processes, devices, cases):
    """Several devices of a process, and more processes than cores."""
    cases = ("brief", *cases)
    ran = launch.run(launcher, processes, "cases.py", *cases, devices=devices, seconds=SECONDS)
    expect_all_right(ran, processes)


def test_tall_matrices_need_no_mpi():
    ran = launch.run(
        None, 3, "cases.py", "brief", "tall float64 columns", "tall complex64 rows", seconds=SECONDS
    )
    expect_all_right(ran, 3)


@pytest.mark.slow
@pytest.mark.timeout(4 * SECONDS)
@pytest.mark.parametrize("launcher", LAUNCHERS, ids=IDS)
@pytest.mark.parametrize(("processes", "devices"), [(2, 1), (4, 1), (2, 2)])
def test_independent_calls_of_many_programs(launcher, processes, devices):
    ran = launch.run(
        launcher, processes, "cases.py", "programs", devices=devices, seconds=4 * SECONDS
    )
    expect_all_right(ran, processes)


def test_without_a_launcher_the_error_says_how_to_start():
    if not LAUNCHERS:
        pytest.skip("no MPI")
    ran = launch.run(None, 2, "lost.py", "launch", MESHSOLVE_SCALAPACK=LAUNCHERS[0].name)
    for ((text,),) in ran.reported:
        assert text.startswith(
            "RuntimeError: meshsolve: expected as many processes of MPI as of JAX, 2,"
        ), text
        assert "start the program by mpirun -n 2" in text


def test_an_unknown_choice_is_refused_by_name():
    if not LAUNCHERS:
        pytest.skip("no MPI")
    ran = launch.run(LAUNCHERS[0], 2, "lost.py", "launch", MESHSOLVE_SCALAPACK="fast")
    for ((text,),) in ran.reported:
        assert text.startswith("RuntimeError: meshsolve: MESHSOLVE_SCALAPACK: expected auto, "), (
            text
        )
        assert "got 'fast'; apt-get install" in text
    ran = launch.run(LAUNCHERS[0], 2, "lost.py", "launch", MESHSOLVE_SCALAPACK="/none/lib.so")
    for ((text,),) in ran.reported:
        assert text.startswith(
            "RuntimeError: meshsolve: /none/lib.so: expected a library, which"
        ), text


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=IDS)
def test_the_example(launcher):
    program = ROOT / "examples/12_processes.py"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ran = launch.run(launcher, 2, program, "--n", 256, "--coordinator", f"127.0.0.1:{port}")
    assert ran.code == 0 and ran.output.count("2 process(es), 2 devices, n = 256") == 2, ran.output


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=IDS)
def test_a_process_that_is_killed_ends_the_others(launcher):
    ran = launch.run(launcher, 2, "lost.py", "killed", seconds=60)
    assert ran.code not in (None, 0), ran.output
    assert all(of[0] == [0.5] for of in ran.reported) and len(ran.reported[1]) == 1
    assert not ran.orphans


@pytest.mark.parametrize("launcher", [None, *LAUNCHERS[:1]], ids=["no MPI", *IDS[:1]])
@pytest.mark.parametrize("callback", [[], ["callback"]], ids=["", "error of a callback"])
def test_processes_that_end_early_finish_their_part(launcher, callback):
    more = [*callback, *(["solve"] if launcher else [])]
    # With as few threads of XLA as devices its computations are not over before the program is.
    ran = launch.run(launcher, 2, "lost.py", "early", *more, devices=2, seconds=60, NPROC="2")
    assert ran.code == 0 and ran.reported == [[[True], [0.5 if launcher else True]], []], ran.output


@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_a_call_that_the_others_never_make_does_not_outlive_them(launcher):
    """JAX ends the process that waits at its end, after the time that it lets others wait there."""
    ran = launch.run(launcher, 2, "lost.py", "left", seconds=60)
    assert ran.code not in (None, 0) and ran.reported == [[], [["over"]]], ran.output
    assert not ran.orphans


@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_a_process_that_does_not_call_is_named(launcher):
    ran = launch.run(launcher, 2, "lost.py", "absent", seconds=60, MESHSOLVE_TIMEOUT="1")
    assert ran.code == 0 and ran.reported == [[[0.5], [0.5]]] * 2, ran.output
    warned = [line for line in ran.output.splitlines() if "over processes, of which" in line]
    for step in (1, 3):
        of_step = [line for line in warned if f" in its step {step} " in line]
        assert len([line for line in of_step if "process 0 has waited for " in line]) == 1, warned
        assert ": process 1 did not get there; run the same program on all" in of_step[0]


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=IDS)
def test_different_libraries_are_refused(launcher):
    index = [one.name for one in processes.found()].index(launcher.name)
    ran = launch.run(launcher, 2, "lost.py", "libraries", index, seconds=60)
    texts = [text for ((text,),) in ran.reported]
    expected = "expected the same libraries of MPI and ScaLAPACK on all processes, got "
    assert ran.code == 0 and all(expected in text for text in texts), ran.output
    assert any("libm.so.6:" in text for text in texts), texts
    assert all(text.endswith("MESHSOLVE_SCALAPACK to the same on all") for text in texts), texts


@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_meshes_that_do_not_fit_are_refused(launcher):
    ran = launch.run(launcher, 2, "lost.py", "meshes", devices=2, seconds=60)
    expected = (
        "solve: a: expected a mesh of all 4 devices of 2 processes, each process with as many, "
    )
    for alternate, two in ran.reported:
        for (text,), got in (
            (alternate, "one where processes alternate"),
            (two, "one of 2 devices"),
        ):
            assert expected in text and f"got {got}; make it from jax.devices()" in text, text


@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_an_uncaught_error_ends_the_others(launcher):
    """After the time that JAX lets processes wait for each other at their end."""
    ran = launch.run(launcher, 2, "lost.py", "uncaught", seconds=90)
    assert ran.code not in (None, 0) and "a mistake of the program" in ran.output, ran.output
    assert not ran.orphans


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=IDS)
def test_a_process_without_memory_refuses_for_all(launcher):
    ran = launch.run(launcher, 2, "lost.py", "memory", seconds=90)
    texts = [text for ((text,),) in ran.reported]
    assert all("bytes of memory on each process, got less" in text for text in texts), ran
    assert all(text.endswith("(on process 1)") for text in texts), texts


def expect_ended(launcher, what, processes, devices):
    """A failed call has ended the others of its program, to which some devices never come. Others
    would wait there, and so would each later call.
    """
    more = {"devices": devices, "seconds": 60, "MESHSOLVE_TIMEOUT": "600"}
    ran = launch.run(launcher, processes, "lost.py", "fails", what, **more)
    assert ran.code == 0, ran.output
    expected = "pivot 2 is zero or not finite" if what == "square" else "got one whose column 2"
    for of in ran.reported:
        assert len(of) == 16 and all(expected in text for (text,) in of[::2]), of
        assert np.allclose([of[1::2]], 1 / 2), of


def test_a_failed_call_ends_the_others_of_its_program_in_one_process():
    expect_ended(None, "square", processes=1, devices=4)


@pytest.mark.parametrize(
    ("what", "devices"),
    [
        ("square", 2),
        ("tall", 1),
        pytest.param("square", 1, marks=pytest.mark.slow),
        pytest.param("tall", 2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_a_failed_call_ends_the_others_of_its_program(launcher, what, devices):
    expect_ended(launcher, what, 2, devices)


@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_a_failure_on_some_processes_is_not_in_the_order_of_all(launcher):
    ran = launch.run(launcher, 3, "lost.py", "some", seconds=40)
    assert ran.code == 0, ran.output
    *two, third = ran.reported
    assert third == [[1 / 2], [1 / 2]]
    for first, (text,), last in two:
        assert first == last == [1 / 2] and "got one whose column 2" in text, text


@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_a_factor_that_processes_have_differently_is_refused(launcher):
    ran = launch.run(launcher, 2, "lost.py", "pivots", seconds=60)
    assert ran.code == 0, ran.output
    for (differs,), (no_row,) in ran.reported:
        assert "expected the same call on all processes, got getrs of order 128" in differs, differs
        assert "pivots: expected row numbers from 0 to 127, got -1 at position 0" in no_row, no_row
        assert no_row.endswith("(on process 1)"), no_row


@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_memory_is_a_small_part_of_a_shard(launcher):
    """A copy would be 1."""
    ran = launch.run(launcher, 2, "lost.py", "peak", seconds=90)
    assert ran.code == 0, ran.output
    assert all(part < 0.25 for of in ran.reported for (part,) in of), ran.reported
    assert [len(of) for of in ran.reported] == [2, 2]


@pytest.mark.parametrize("launcher", LAUNCHERS[:1], ids=IDS[:1])
def test_an_mpi_without_threads_is_refused(launcher):
    chosen = next(one for one in processes.found() if one.name == launcher.name)
    ran = launch.run(launcher, 2, "lost.py", "mpi4py", chosen.paths[0], 0, seconds=90)
    for of in ran.reported:
        assert "expected an MPI that several threads may call in turn" in of[0][0], ran
        assert "ask for MPI_THREAD_MULTIPLE" in of[0][0]


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=IDS)
def test_the_programs_own_mpi_is_used(launcher):
    chosen = next(one for one in processes.found() if one.name == launcher.name)
    ran = launch.run(launcher, 2, "lost.py", "mpi4py", chosen.paths[0], 3, seconds=90)
    assert ran.code == 0, ran.output
    for (works,), (ended,) in ran.reported:
        assert works == "no error" and "expected an MPI that runs, got one that has ended" in ended


@pytest.mark.tools
def test_the_benchmark():
    if not LAUNCHERS:
        pytest.skip("no MPI")
    command = [sys.executable, ROOT / "benchmarks/processes.py"]
    command += ["--sizes", "128", "--kinds", "gen", "--turns", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    rows = {row["what"]: row for row in csv.DictReader(ran.stdout.splitlines())}
    assert {"one process", "jnp", "jnp, one thread", *IDS} <= set(rows)
    for what in IDS:
        assert float(rows[what]["residual_ratio"]) < 3 and float(rows[what]["factor"]) > 0
        assert rows[what]["mpi"] and rows[what]["processes"] == "2"


def test_libraries_are_found_without_loading_them():
    for one in processes.found():
        assert one.family in ("Open MPI", "MPICH") and len(one.paths) >= 2
        assert all("/" not in path or pathlib.Path(path).exists() for path in one.paths)


@pytest.mark.parametrize(
    ("step", "absent", "text"),
    [
        (2, [3], "process 3 did not get there"),
        (1, [1, 4], "processes 1, 4 did not get there"),
        (2, None, "another process has not begun it, or operands are not there yet"),
        (2, [], "all wait there, so operands are not there yet"),
        (1, [], "all are there, perhaps with different libraries of MPI"),
    ],
)
def test_a_warning_says_who_does_not_wait(step, absent, text):
    assert waiting._why(step, absent) == text


def test_after_an_error_nobody_waits_for_the_start_of_mpi():
    ran = run_fresh(
        """
        import time
        from meshsolve._library import processes
        ms.set_timeout(0.2)
        try:
            processes.start()
        except RuntimeError as error:
            tell(str(error))
        time.sleep(1)
        """,
        env={"MESHSOLVE_SCALAPACK": "/none/lib.so"},
    )
    (text,) = ran.reported
    assert text.startswith("meshsolve: /none/lib.so: expected a library"), text
    assert "has waited" not in ran.err, ran.err


def test_who_is_there_is_not_known_without_a_launcher(monkeypatch):
    monkeypatch.setenv("MPI_LOCALNRANKS", "1")
    monkeypatch.setattr(starting, "_launcher", lambda: None)
    started = starting.Started()
    assert started.absent() is None
    started.close()
    monkeypatch.setattr(starting, "_launcher", lambda: 2**22 + 1)
    started = starting.Started()
    assert started.absent() == []
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    assert started.absent() == [1]
    started.close()
    assert started.absent() == [0, 1]
    monkeypatch.delenv("MPI_LOCALNRANKS")
    for name in ("OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    assert starting.Started().absent() is None
