"""Python's logging: logger "meshsolve", level INFO.

A line for each call when it is over, and the panels done of a factorisation that takes longer than
a second. The library's threads never wait for Python: a thread of this module fetches what they
have to tell. It is started by the first call that finds the logger enabled; before that nothing is
kept.
"""

import atexit
import logging
import threading
from typing import Any

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


def _line(event: dict[str, Any] | tuple[int, int]) -> str:
    if isinstance(event, tuple):
        return "panel {} of {}".format(*event)
    seconds = dict(event["seconds"])
    total = seconds.pop("total")
    parts = [f"n = {event['n']}"]
    if event["rhs"]:
        parts.append(f"{event['rhs']} right-hand side(s)")
    parts += [event["dtype"], f"{event['ranks']} device(s)", f"{event['lanes']} lane(s)"]
    phases = ", ".join(f"{phase} {time:.3f}" for phase, time in seconds.items())
    told = f"{event['routine']}: {', '.join(parts)}, info {event['info']}: {total:.3f} s"
    return f"{told} ({phases})" if phases else told
