"""Python's logging: logger "meshsolve", level INFO.

A line for each call when it is over, and the panels done of a factorisation that takes longer than
a second. The library's threads never wait for Python: a thread of this module fetches what they
have to tell. It is started by the first call that finds the logger enabled; before that nothing is
kept.
"""

import atexit
import logging
import os
import sys
import threading
import warnings
from typing import Any

import jax

from meshsolve import _core

logger = logging.getLogger("meshsolve")
_lock = threading.Lock()
_thread: threading.Thread | None = None


def attend() -> None:
    """Start to tell of calls, if anybody wants to know."""
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
        logger.info(_line(event))


def _stop() -> None:
    """Before the interpreter ends, with what is left to tell."""
    _core.listen(False)
    if _thread is not None:
        _thread.join()


def devices(used: int, visible: int) -> str:
    """How many take part in a call, in words: whether there are more is told of one alone."""
    return f"1 of {visible} devices" if used == 1 < visible else f"{used} device(s)"


def warn_of_one_device(n: int, visible: int) -> None:
    """Once in a process, from the library: nothing else tells of what was forgotten."""
    # The main thread may be anywhere: tell where the user's own code is.
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


def _line(event: dict[str, Any] | tuple[int, int]) -> str:
    if isinstance(event, tuple):
        return "panel {} of {}".format(*event)
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
