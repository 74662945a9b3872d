"""Warnings of calls over processes that wait for long. They name processes that do not wait."""

import atexit
import threading
import time

import jax

from meshsolve import _core, _log
from meshsolve._library.starting import Started

# Seconds between two looks.
_PERIOD = 5.0


class Start:
    """The start of MPI, and then the thread that looks at calls."""

    def __init__(self) -> None:
        self._began, self._is_over = time.monotonic(), False
        self._started = Started()
        self._ends = threading.Event()
        thread = threading.Thread(target=self._look, name="meshsolve-waiting", daemon=True)
        thread.start()

        def end() -> None:
            self._ends.set()
            thread.join(_PERIOD)

        atexit.register(end)

    def over(self) -> None:
        """MPI has started on all processes, or has not here, which is an error."""
        self._is_over = True
        self._started.close()

    def _wait(self) -> tuple[int, float]:
        """The step in which this process waits, and for how long; 0 if in none. The first one
        starts MPI.
        """
        if not self._is_over:
            return 1, time.monotonic() - self._began
        begun, arrived, idle = _core.process_calls()
        # Each device counts.
        return (-(-begun // jax.local_device_count()) + 1, idle) if arrived < begun else (0, 0.0)

    def _look(self) -> None:
        warned = 0
        while not self._ends.wait(min(_PERIOD, _core.timeout() / 4)):
            step, seconds = self._wait()
            if not step:
                continue
            # The others get to know that this one waits, too.
            absent = _core.absent_processes(step) if self._is_over else self._started.absent()
            if step > warned and seconds >= _core.timeout():
                warned = step
                _log.logger.warning(
                    "meshsolve: process %d has waited for %.0f s in its step %d over processes, of "
                    "which the first is the start of MPI: %s; run the same program on all "
                    "processes",
                    jax.process_index(),
                    seconds,
                    step,
                    _why(step, absent),
                )


def _why(step: int, absent: list[int] | None) -> str:
    if absent:
        names = ", ".join(map(str, absent))
        return f"process{'es' * (len(absent) > 1)} {names} did not get there"
    if absent is None:
        return "another process has not begun it, or operands are not there yet"
    if step == 1:
        return "all are there, perhaps with different libraries of MPI"
    return "all wait there, so operands are not there yet"
