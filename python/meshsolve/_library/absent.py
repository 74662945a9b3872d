"""Names processes for which others wait: those that have begun fewer calls over processes.

A process that never makes a call cannot say so. So each one tells the coordinator of
``jax.distributed`` how many calls it has begun, and who waits too long compares.
"""

import atexit
import threading
from typing import Any

import jax

from meshsolve import _core, _log

# Seconds between two looks.
_PERIOD = 5.0
_KEY = "meshsolve/calls/"


def watch(rank: int) -> None:
    """Start the thread that looks, unless JAX has no coordinator that keeps numbers."""
    client = _client()
    if client is None:
        return
    over = threading.Event()
    look = threading.Thread(
        target=_watch, args=(client, rank, over), name="meshsolve-absent", daemon=True
    )
    look.start()

    def end() -> None:
        over.set()
        look.join(_PERIOD)

    atexit.register(end)


def _client() -> Any:
    """JAX's client of its coordinator, which has no public name."""
    try:
        from jax._src.distributed import global_state
    except ImportError:
        return None
    client = getattr(global_state, "client", None)
    has_all = all(hasattr(client, name) for name in ("key_value_set", "key_value_try_get"))
    return client if has_all else None


def _watch(client: Any, rank: int, over: threading.Event) -> None:
    told, named = 0, 0
    while not over.wait(min(_PERIOD, _core.timeout() / 4)):
        begun, arrived, idle = _core.process_calls()
        try:
            if begun > told:
                client.key_value_set(f"{_KEY}{rank}", str(begun), allow_overwrite=True)
                told = begun
            if arrived < begun > named and idle >= _core.timeout():
                named = _named(client, rank, begun, idle)
        except Exception as error:  # the coordinator has ended: JAX ends the process
            _log.logger.info("meshsolve names no absent processes any more: %s", error)
            return


def _named(client: Any, rank: int, begun: int, idle: float) -> int:
    """Warn of processes that have begun fewer calls than this one; ``begun``, if there are any."""
    behind = {r: n for r in range(jax.process_count()) if (n := _begun(client, r)) < begun}
    if not behind:
        return 0
    those = ", ".join(f"process {r} ({n})" for r, n in behind.items())
    _log.logger.warning(
        "meshsolve: process %d has waited for %.0f s in its call %d over processes, for those that "
        "have begun fewer: %s; run the same program on all processes",
        rank,
        idle,
        begun,
        those,
    )
    return begun


def _begun(client: Any, rank: int) -> int:
    """The calls that a process has begun; 0 if it has told none."""
    try:
        return int(client.key_value_try_get(f"{_KEY}{rank}"))
    except Exception:  # there is no such key
        return 0
