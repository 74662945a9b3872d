"""The compiled library's reports on calls, for ``plan``."""

from typing import Any

import jax

from meshsolve import _core
from meshsolve._execute.placements import Placement
from meshsolve._library import processes
from meshsolve._library.routines import ROUTINES


def processes_of(at: Placement | None) -> int:
    """The number of processes that share a matrix."""
    return jax.process_count() if at is not None and at.crosses_processes else 1


def forecast(at: Placement | None, routine: str, *asked: Any, mirrored: bool = False) -> dict:
    """The report on a routine at a placement; ``asked`` are the arguments of ``_core.plan`` from
    the shape on.

    Raises:
      ValueError: several processes share the matrix, and have no such routine.
    """
    shared = processes_of(at)
    if shared > 1:
        processes.expect_known("plan", ROUTINES[routine])
    return _core.plan(routine, *asked, processes=shared, mirrored=mirrored)
