"""Running and finished calls: how long they wait, what they report, how you end them."""

from typing import Any

from meshsolve import _core


def set_timeout(seconds: float) -> None:
    """Set how long the devices of a call that have arrived wait for the others.

    After that time the call is an error on all of them, and the process goes on. The initial value
    is that of the environment variable MESHSOLVE_TIMEOUT, else 120. The new value holds for all
    calls of the process that begin later.

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


def set_float64_math(math: str) -> None:
    """Set how CUDA's libraries multiply float64 and complex128 in calls that begin later.

    "emulated" lets cuBLAS, and newer versions of cuSOLVER, multiply by integers on tensor cores if
    they find that faster. This matters on GPUs with little float64 (RTX, L40, B300). NVIDIA offers
    it since CUDA 13.0 update 2, on Blackwell GPUs; on others products stay the same. By default,
    NVIDIA states, results are as accurate as native ones, but not the same bits. cuBLAS then takes
    its own memory for it, in addition to JAX's. Nothing changes on CPU devices, or with
    ``engine="cusolvermg"``.

    The initial value is that of the environment variable MESHSOLVE_FLOAT64, else "native".
    ``last_call`` reports the one in use, as "float64".

    Args:
      math: "native" or "emulated".

    Raises:
      ValueError: another word. Calls on CUDA devices with older libraries raise a
        ``jax.errors.JaxRuntimeError`` that says so.

    Examples:
      >>> ms.set_float64_math("native")
    """
    _core.set_float64_math(math)


def float64_math() -> str:
    """How CUDA's libraries multiply float64: "native" or "emulated".

    Raises nothing; see ``set_float64_math``.

    Examples:
      >>> ms.float64_math()
      'native'
    """
    return _core.float64_math()


def last_call() -> dict[str, Any] | None:
    """Sizes and seconds of the last finished call; None before the first.

    Returns:
      A dictionary: "routine" (its name in docs/design/ffi.md), "dtype", "float64" (how it is
      multiplied: "native", or "emulated" by ``set_float64_math``), "n", "rhs" (right-hand sides),
      "ranks" (devices), "visible" (all devices of their kind), "workers" (threads), "tiles", "tile"
      (their width), "scratch_bytes", "info", and "seconds", a dictionary of the phases and their
      "total".

    Raises nothing. For a program with several calls it reports the one that ended last.

    Examples:
      >>> x = ms.solve(a, b).block_until_ready()
      >>> call = ms.last_call()
      >>> call["routine"], call["n"], call["ranks"]
      ('gesv', 8, 4)
    """
    return _core.last_call()


def cancel() -> int:
    """End the running calls; return how many there were.

    Ctrl-C interrupts the wait for a result, not the call, which keeps the cores and the devices
    until its end. ``cancel`` stops the call at the next panel, and the next call can begin. A read
    of its results raises a ``jax.errors.JaxRuntimeError``. A donated matrix is lost. Calls that
    have not begun yet are not ended.

    Raises nothing.

    Examples:
      >>> x = ms.solve(a, b).block_until_ready()
      >>> ms.cancel()
      0
    """
    return _core.cancel()
