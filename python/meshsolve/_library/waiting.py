"""Warnings of calls over processes that wait for long. JAX has no public way to ask other
processes, so none is named.
"""

import atexit
import threading
import time

import jax

from meshsolve import _core, _log

# Seconds between two looks.
_PERIOD = 5.0


class Start:
    """The start of MPI, and then the thread that looks at calls."""

    def __init__(self) -> None:
        self._began, self._is_over = time.monotonic(), False
        self._ends = threading.Event()
        thread = threading.Thread(target=self._look, name="meshsolve-waiting", daemon=True)
        thread.start()

        def end() -> None:
            self._ends.set()
            thread.join(_PERIOD)

        atexit.register(end)

    def over(self) -> None:
        """MPI has started on all processes."""
        self._is_over = True

    def _wait(self) -> tuple[int, float]:
        """The call in which this process waits, and for how long; 0 if in none. The first one
        starts MPI.
        """
        if not self._is_over:
            return 1, time.monotonic() - self._began
        begun, arrived, idle = _core.process_calls()
        # Each device counts.
        return (begun // jax.local_device_count() + 1, idle) if arrived < begun else (0, 0.0)

    def _look(self) -> None:
        warned = 0
        while not self._ends.wait(min(_PERIOD, _core.timeout() / 4)):
            call, seconds = self._wait()
            if call > warned and seconds >= _core.timeout():
                warned = call
                _log.logger.warning(
                    "meshsolve: process %d has waited for %.0f s in its step %d over processes, of "
                    "which the first is the start of MPI: its operands are not there yet, or "
                    "another process has not begun that step; run the same program on all "
                    "processes",
                    jax.process_index(),
                    seconds,
                    call,
                )
