"""Calls that are running or over: how long they wait, how they went, how they are ended."""

from typing import Any

from meshsolve import _core


def set_timeout(seconds: float) -> None:
    """Set how long the devices of a call that have arrived wait for the others.

    When the time is over the call is an error on all of them, and the process goes on. The initial
    value is that of the environment variable MESHSOLVE_TIMEOUT, else 120. It holds for all calls
    of the process that begin later.

    Args:
      seconds: 0.001 to 1e9.

    Raises:
      ValueError: another number.

    Examples:
      >>> ms.set_timeout(30)
      >>> ms.timeout()
      30.0
    """
    _core.set_timeout(seconds)


def timeout() -> float:
    """Seconds that the devices of a call that have arrived wait for the others.

    Raises nothing; see ``set_timeout``.

    Examples:
      >>> ms.set_timeout(120)
      >>> ms.timeout()
      120.0
    """
    return _core.timeout()


def last_call() -> dict[str, Any] | None:
    """Sizes and seconds of the last finished call; None before the first.

    Returns:
      A dictionary: "routine" (its name in DESIGN.md), "dtype", "n", "rhs" (right-hand sides),
      "ranks" (devices), "visible" (devices of their kind that there are), "lanes" (threads),
      "tiles", "tile" (their width), "scratch_bytes", "info", and "seconds", a
      dictionary of the phases and their "total".

    Raises nothing. Of programs with several calls it tells of the one that ended last.

    Examples:
      >>> x = ms.solve(a, b).block_until_ready()
      >>> said = ms.last_call()
      >>> said["routine"], said["n"], said["ranks"]
      ('gesv', 8, 4)
    """
    return _core.last_call()


def cancel() -> int:
    """End the calls that are running; how many there were.

    Ctrl-C interrupts the wait for a result, not the call, which goes on behind and keeps the cores
    and the devices until it is through. This ends it: it stops at the next panel, whoever looks at
    its results gets a ``jax.errors.JaxRuntimeError``, and the next call can begin. A donated matrix
    is lost. Calls that have not begun yet are not ended.

    Raises nothing.

    Examples:
      >>> x = ms.solve(a, b).block_until_ready()
      >>> ms.cancel()
      0
    """
    return _core.cancel()
