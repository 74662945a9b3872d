"""What processes tell each other by the coordinator of ``jax.distributed``, without MPI: which
libraries they have chosen, and how many calls they have begun.

A process that never makes a call cannot say so. Who waits too long for others compares the numbers,
and names those that are behind.
"""

import atexit
import threading
import time
from typing import Any

import jax

from meshsolve import _core, _log

# Seconds between two looks.
_PERIOD = 5.0
_CALLS, _LIBRARIES = "meshsolve/calls/", "meshsolve/libraries/"

# When the first call has begun to start MPI, and whether MPI has started: the start is a call, too.
_start: float = 0.0
_has_started = False


def different(libraries: str) -> tuple[int, str] | None:
    """Publish which libraries this process has, and wait for all others; the first process that has
    other ones, with these.
    """
    if (client := _client()) is None:
        return None
    _publish(client, f"{_LIBRARIES}{jax.process_index()}", libraries)
    pause = 0.001
    for rank in range(jax.process_count()):
        while not (others := _published(client, f"{_LIBRARIES}{rank}")):
            time.sleep(pause)
            pause = min(2 * pause, 0.5)
        if others != libraries:
            return rank, others
    return None


def watch() -> None:
    """Begin to start MPI, and start the thread that looks, unless JAX has no coordinator that keeps
    numbers.
    """
    global _start
    is_first, _start = not _start, _start or time.monotonic()
    if not is_first or (client := _client()) is None:
        return
    over = threading.Event()
    look = threading.Thread(
        target=_watch, args=(client, over), name="meshsolve-absent", daemon=True
    )
    look.start()

    def end() -> None:
        over.set()
        look.join(_PERIOD)

    atexit.register(end)


def started() -> None:
    """MPI has started on all processes."""
    global _has_started
    _has_started = True


def _client() -> Any:
    """JAX's client of its coordinator, which has no public name."""
    try:
        from jax._src.distributed import global_state
    except ImportError:
        return None
    client = getattr(global_state, "client", None)
    has_all = all(hasattr(client, name) for name in ("key_value_set", "key_value_try_get"))
    return client if has_all else None


def _publish(client: Any, key: str, value: str) -> None:
    client.key_value_set(key, value, allow_overwrite=True)


def _published(client: Any, key: str) -> str:
    """What a process has published; nothing if it has not."""
    try:
        return client.key_value_try_get(key)
    except Exception:  # there is no such key
        return ""


def _account() -> tuple[int, bool, float]:
    """How many calls this process has begun, whether it waits in one, and since when."""
    begun, arrived, idle = _core.process_calls()
    if not _has_started:
        return 1, True, time.monotonic() - _start
    # Each device counts.
    return 1 + begun // jax.local_device_count(), arrived < begun, idle


def _watch(client: Any, over: threading.Event) -> None:
    rank, published, compared = jax.process_index(), 0, 0.0
    while not over.wait(min(_PERIOD, _core.timeout() / 4)):
        begun, waits, idle = _account()
        try:
            if begun > published:
                _publish(client, f"{_CALLS}{rank}", str(begun))
                published = begun
            # Once in each time of waiting.
            if waits and idle >= _core.timeout() and time.monotonic() - compared >= _core.timeout():
                compared = time.monotonic()
                _name_those_behind(client, rank, begun, idle)
        except Exception as error:  # the coordinator has ended: JAX ends the process
            _log.logger.info("meshsolve names no absent processes any more: %s", error)
            return


def _name_those_behind(client: Any, rank: int, begun: int, idle: float) -> None:
    """Warn of processes that have begun fewer calls than this one."""
    counts = {r: int(_published(client, f"{_CALLS}{r}") or 0) for r in range(jax.process_count())}
    behind = ", ".join(f"process {r} ({n})" for r, n in counts.items() if n < begun)
    if behind:
        _log.logger.warning(
            "meshsolve: process %d has waited for %.0f s in its step %d over processes, of which "
            "the first is the start of MPI, for those that have begun fewer: %s; run the same "
            "program on all processes",
            rank,
            idle,
            begun,
            behind,
        )
