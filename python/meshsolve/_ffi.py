"""The way into the compiled library: registration with XLA, and the calls it takes."""

import functools
import threading

import jax
import numpy as np

from meshsolve import _core

_TARGET = "meshsolve"
_lock = threading.Lock()


def ffi_target() -> str:
    """Register the FFI handlers on first use and return the name of the call target.

    For those who want to use ``jax.ffi.ffi_call`` themselves, inside ``jax.shard_map``; operands,
    results and attributes of each routine are listed in DESIGN.md under "Calling the target", with
    an example in ``examples/02_ffi_call.py``.
    """
    with _lock:
        return _register()


@functools.cache
def _register() -> str:
    # The CPU backend has to exist before a state type is registered for it.
    jax.devices("cpu")
    symbol = _core.symbol
    instance = {"type_id": symbol("type_id"), "type_info": symbol("type_info")}
    handlers = {"instantiate": symbol("instantiate"), "execute": symbol("execute")}
    jax.ffi.register_ffi_type(f"{_TARGET}_instance", instance, platform="cpu")  # type: ignore
    jax.ffi.register_ffi_target(_TARGET, handlers, platform="cpu")
    return _TARGET


def posv(place, a, b, *, world: int, lower: bool, rhs: str):
    """Solve A X = B on one device's shards; to be called by every device of a mesh axis.

    Args:
      place: int32[2], rank along the axis and group (which of the calls side by side).
      a: [n/world, n], this device's rows of A.
      b: [n, k], all right-hand sides (``rhs="replicated"``) or this device's (``"columns"``).
      world: number of devices on the axis.
      lower: whether A's lower triangle is read instead of its upper one.
      rhs: "replicated" or "columns".

    Returns:
      (work [n/world, n], x [n, k], info []): work and x take the memory of a and b.
    """
    results = (_like(a), _like(b), jax.ShapeDtypeStruct((), np.int32))
    call = jax.ffi.ffi_call(ffi_target(), results, input_output_aliases={1: 0, 2: 1})
    attributes = {"world": np.int64(world), "lower": np.int64(lower), "rhs": rhs}
    return call(place, a, b, routine="posv", **attributes)


def _like(x) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)
