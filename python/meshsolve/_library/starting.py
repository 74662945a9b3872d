"""Which processes start MPI, as long as they cannot ask each other by it.

Each binds a socket with a name of its rank and its launcher. If all processes are on one machine,
the others see from it who is there.
"""

import contextlib
import os
import socket
from pathlib import Path

import jax

# Processes that start those of a job on a machine. Linux cuts names to 15 characters.
_LAUNCHERS = ("mpirun", "orted", "prterun", "prted", "hydra_pmi_proxy", "slurmstepd")


class Started:
    """The processes of this job that have got to the start of MPI; this one has."""

    def __init__(self) -> None:
        self._launcher = _launcher() if _is_of_one_machine() else None
        self._own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if self._launcher is not None:
            with contextlib.suppress(OSError):
                self._own.bind(self._address(jax.process_index()))

    def absent(self) -> list[int] | None:
        """The ranks of the others; None if that is not known."""
        if self._launcher is None:
            return None
        return [rank for rank in range(jax.process_count()) if not self._has(rank)]

    def close(self) -> None:
        """MPI has started."""
        self._own.close()

    def _address(self, rank: int) -> str:
        return f"\0meshsolve.{self._launcher}.{rank}"

    def _has(self, rank: int) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asked:
            return asked.connect_ex(self._address(rank)) == 0


def _is_of_one_machine() -> bool:
    size, given = str(jax.process_count()), os.environ.get
    return (
        size in (given("OMPI_COMM_WORLD_LOCAL_SIZE"), given("MPI_LOCALNRANKS"))
        or given("SLURM_STEP_NUM_NODES") == "1"
    )


def _launcher() -> int | None:
    """The nearest ancestor of this process that is a launcher."""
    pid = os.getppid()
    try:
        while pid > 1:
            name, rest = Path(f"/proc/{pid}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
            if name.startswith(_LAUNCHERS):
                return pid
            pid = int(rest.split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return None
