"""Starts programs of several processes by MPI's launchers, and kills what does not end."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent


class Launcher(NamedTuple):
    """A way to start processes, with the ScaLAPACK that goes with it."""

    name: str
    command: tuple[str, ...]


def launchers() -> list[Launcher]:
    """Those of this machine: pip's MPICH with Intel's library, Debian's Open MPI and MPICH."""
    from meshsolve._library.processes import found

    names = {one.name for one in found()}
    every = []
    hydra = pathlib.Path(sys.executable).parent / "mpiexec"
    if "mkl" in names and hydra.exists():
        every.append(Launcher("mkl", (str(hydra), "-n")))
    if "debian-openmpi" in names and (mpirun := shutil.which("mpirun.openmpi")):
        every.append(
            Launcher("debian-openmpi", (mpirun, "--oversubscribe", "--bind-to", "none", "-n"))
        )
    if "debian-mpich" in names and (mpiexec := shutil.which("mpiexec.mpich")):
        every.append(Launcher("debian-mpich", (mpiexec, "-n")))
    return every


class Ran(NamedTuple):
    """What became of a program: its exit code, what its processes have reported, its output, and
    the processes that were left some seconds after its end.
    """

    code: int | None
    reported: list[list]
    output: str
    orphans: list[int]


# Seconds in which processes end after their launcher.
PATIENCE = 15.0


def _of_program(folder: str) -> list[int]:
    """The processes that have this folder for their reports."""
    mark, found = f"REPORTS={folder}\0".encode(), []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended, or is another user's
            continue
    return found


def run(
    launcher: Launcher | None,
    processes: int,
    program: str,
    *arguments,
    devices: int = 1,
    seconds=120,
    **more,
) -> Ran:
    """Run a program of this folder, with so many devices in each process. Without a launcher,
    processes start one by one. ``more`` are variables of its environment.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        environment = {key: x for key, x in os.environ.items() if not key.startswith("XLA_FLAGS")}
        environment |= {
            "PORT": str(free.getsockname()[1]),
            "PROCESSES": str(processes),
            "REPORTS": folder,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            # Open MPI's own folder for all programs of a user fails where two begin at once.
            "OMPI_MCA_orte_tmpdir_base": folder,
            "OPENBLAS_NUM_THREADS": "1",
            "XLA_FLAGS": "--xla_backend_optimization_level=0 "
            f"--xla_force_host_platform_device_count={devices}",
            "NPROC": "4",
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "1",
        }
        if launcher is not None:
            environment["MESHSOLVE_SCALAPACK"] = launcher.name
        environment |= more
        own = [sys.executable, str(HERE / program), *map(str, arguments)]
        free.close()
        started = []
        with tempfile.TemporaryFile("w+") as output:
            ranks = range(processes) if launcher is None else [None]
            for rank in ranks:
                command = own if launcher is None else [*launcher.command, str(processes), *own]
                here = environment if rank is None else environment | {"RANK": str(rank)}
                started.append(
                    subprocess.Popen(
                        command, env=here, stdout=output, stderr=output, start_new_session=True
                    )
                )
            code = 0
            for one in started:
                try:
                    code = one.wait(seconds) or code
                except subprocess.TimeoutExpired:
                    code = None
            deadline = time.monotonic() + (PATIENCE if code is not None else 0)
            while (orphans := _of_program(folder)) and time.monotonic() < deadline:
                time.sleep(0.05)
            for pid in orphans:
                # JAX catches SIGTERM.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            output.seek(0)
            text = output.read()
        reported = []
        for rank in range(processes):
            path = pathlib.Path(folder) / f"{rank}.jsonl"
            lines = path.read_text().splitlines() if path.exists() else []
            reported.append([json.loads(line) for line in lines])
        return Ran(code, reported, text, orphans)
