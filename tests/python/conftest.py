"""Eight CPU devices and 64-bit types, set before JAX is imported anywhere."""

import faulthandler
import gc
import os
import sys
from collections.abc import Iterable
from enum import Enum

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
# Compiling takes most of the time of a test; the compiled code need not be fast.
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
)
# Tests do not use the user's compiled kernels; test_cuda.py has its own folders.
os.environ["MESHSOLVE_CACHE_DIR"] = ""
# XLA hangs with many unsynchronised launches in flight on a machine with few cores.
os.environ.setdefault("NPROC", "16")

# Tests of several threads ask for them; each core has its own worker of pytest.
os.environ.setdefault("MESHSOLVE_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

PLAIN = (str, int, float, complex, type(None))

faulthandler.enable()
gc.set_threshold(100_000)  # JAX's programs are many objects, which stay


def _name(value) -> str | None:
    """The name of a value and its contents; None if pytest has a better one, or there is none."""
    if isinstance(value, dict):
        value = tuple(f"{key}={_name(x) or key}" for key, x in value.items())
    elif isinstance(value, PLAIN):
        return str(value)[:80]
    elif isinstance(value, Enum):
        return value.name
    elif isinstance(getattr(value, "shape", None), tuple):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Iterable) and all(map(_name, value := tuple(value))):
        return " ".join(_name(x).replace(" ", ",") for x in value) or "()"
    return None


def pytest_make_parametrize_id(val):
    """Name cases by their values, not by their positions in a list."""
    return _name(val) if val is not None and not isinstance(val, bool | float) else None


def pytest_terminal_summary(terminalreporter):
    """Report the versions, and whether this Python is too old for the newest JAX (below 3.12)."""
    import jax

    old = "" if sys.version_info >= (3, 12) else ", which is too old for the newest JAX"
    python = sys.version.split()[0]
    terminalreporter.write_line(f"tested with jax {jax.__version__} on Python {python}{old}")
