"""Python's logging: logger "meshsolve", level INFO.

There is a line for each finished call. One that takes longer than a second also logs how far it is,
and ``set_progress`` shows that. The library's threads never wait for Python: a thread of this
module fetches their events. The first call that finds the logger enabled, or ``set_progress``,
starts it; before that no event is kept.
"""

import atexit
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import jax

from meshsolve import _core

logger = logging.getLogger("meshsolve")
_lock = threading.Lock()
_thread: threading.Thread | None = None

Event = dict[str, Any] | tuple[str, int, str, float, float]
"""A finished call, or (routine, n, stage, share of the work, seconds) of one that takes long."""

_shown: Callable[[Event], None] | None = None


def show(by: Callable[[Event], None] | None) -> None:
    """Give all events to a function, or to none."""
    global _shown
    _shown = by
    if by is not None and _thread is None:
        _start()


def attend() -> None:
    """Start the thread if the logger is enabled."""
    if _thread is None and logger.isEnabledFor(logging.INFO):
        _start()


def _start() -> None:
    global _thread
    with _lock:
        if _thread is None:
            _core.listen(True)
            _thread = threading.Thread(target=_run, name="meshsolve-log", daemon=True)
            _thread.start()
            atexit.register(_stop)


def _run() -> None:
    while (event := _core.next_event()) is not None:
        if logger.isEnabledFor(logging.INFO):
            logger.info(_line(event))
        if _shown is not None:
            _shown(event)


def _stop() -> None:
    """Log the remaining events before the interpreter ends."""
    _core.listen(False)
    if _thread is not None:
        _thread.join()


def devices(used: int, visible: int) -> str:
    """The number of devices of a call, in words; a single one also gives the number of visible
    ones.
    """
    return f"1 of {visible} devices" if used == 1 < visible else f"{used} device(s)"


def warn_of_one_device(n: int, visible: int) -> None:
    """Warn once in a process, from the library: nothing else reports a matrix that was not
    distributed.
    """
    # Name the line of the user's code: the main thread may be anywhere.
    passed = tuple(os.path.dirname(path) + os.sep for path in (jax.__file__, __file__))
    frame, level = sys._getframe().f_back, 2
    while frame and frame.f_back and frame.f_code.co_filename.startswith(passed):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"meshsolve: a matrix of order {n} is solved by 1 of {visible} devices. For all of them "
        "distribute it, jax.device_put(a, NamedSharding(mesh, PartitionSpec('x', None))), or give "
        "mesh=; inside jax.jit give it as an argument, or constrain it where it is made "
        '(docs/sharding.md). warnings.filterwarnings("ignore", "meshsolve: ") silences this',
        stacklevel=level,
    )


def _line(event: Event) -> str:
    if isinstance(event, tuple):
        routine, n, stage, share, seconds = event
        return f"{routine}: n = {n}: {100 * share:.0f} % of the work, {stage}, {seconds:.0f} s"
    seconds = dict(event["seconds"])
    total = seconds.pop("total")
    parts = [f"n = {event['n']}"]
    if event["rhs"]:
        parts.append(f"{event['rhs']} right-hand side(s)")
    parts += [event["dtype"], devices(event["ranks"], event["visible"])]
    parts += [f"{event['workers']} worker(s)"]
    phases = ", ".join(f"{phase} {time:.3f}" for phase, time in seconds.items())
    reported = f"{event['routine']}: {', '.join(parts)}, info {event['info']}: {total:.3f} s"
    return f"{reported} ({phases})" if phases else reported
