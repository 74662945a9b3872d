"""``python -m meshsolve.info``: versions, devices, libraries, and a small self-check.

The exit code is 0 if the self-check passed, 1 otherwise. ``--json`` prints the same as one JSON
object.
"""

import argparse
import ctypes.util
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

# The driver and NVRTC have their own part of the report.
_LIBRARIES = ("cublas", "cusolver", "cusolverMg", "nccl", "scalapack-openmpi", "mpi")


def collect(n: int = 512) -> dict[str, Any]:
    """The printed report as a dictionary; solves an n x n system on all CPU devices.

    Raises nothing: errors are in the report.
    """
    import jax
    import jaxlib
    import numpy as np

    from meshsolve import _core, timeout
    from meshsolve._library import cuda, processes
    from meshsolve._library.routines import ROUTINES

    devices = {}
    for device in jax.devices():
        devices.setdefault(f"{device.platform}: {device.device_kind}", []).append(device.id)
    return {
        "meshsolve": _core.__version__,
        "jax": jax.__version__,
        "jaxlib": jaxlib.version.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}",
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads_per_call": _core.threads(),
        "timeout_seconds": timeout(),
        "ffi_api_compiled": ".".join(map(str, _core.ffi_api_version())),
        "routines": {name: routine.summary for name, routine in ROUTINES.items()},
        "backends": {"host": "used", "cuda": "one device tested, several on emulated devices only"},
        "devices": devices,
        "cuda": cuda.report(_architectures(jax.devices())),
        "several_processes": {one.name: ", ".join(one.paths) for one in processes.found()},
        "libraries": {name: _located(name, cuda.search_folders()) for name in _LIBRARIES},
        "self_check": self_check(n),
    }


def self_check(n: int) -> dict[str, Any]:
    """Solve a small system on all CPU devices; report time, scaled residual and whether it is
    right.

    Raises nothing: an error is part of the dictionary.

    Examples:
      >>> from meshsolve import info
      >>> info.self_check(64)["ok"]
      True
    """
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import meshsolve as ms

    try:
        devices = jax.devices("cpu")
        n = -(-n // len(devices)) * len(devices)
        mesh = Mesh(np.array(devices), ("x",))
        i = np.arange(n, dtype=np.float32)
        a = np.exp(-np.abs(i[:, None] - i) / 10)
        b = np.ones((n, 1), np.float32)
        a_dev = jax.device_put(a, NamedSharding(mesh, PartitionSpec("x", None)))
        solve = lambda: jax.block_until_ready(ms.solve(a_dev, b, assume_a="pos"))  # noqa: E731
        solve()
        start = time.perf_counter()
        x = np.asarray(solve())
        seconds = time.perf_counter() - start
    except Exception as error:  # any error belongs in the report
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}
    scale = n * np.abs(a).sum(0).max() * np.abs(x).sum(0).max() * np.finfo(np.float32).eps / 2
    ratio = float(np.abs(a.astype(float) @ x - b).sum(0).max() / scale)
    return {
        "ok": bool(ratio <= 3),
        "n": n,
        "devices": len(devices),
        "dtype": "float32",
        "seconds": round(seconds, 6),
        "residual_ratio": round(ratio, 4),
    }


def _architectures(devices) -> list[str]:
    """The architectures of the CUDA devices, by NVRTC's names."""
    numbers = {str(getattr(d, "compute_capability", "")).replace(".", "") for d in devices}
    return [f"sm_{number}" for number in sorted(numbers) if number.isdigit()]


def _located(name: str, folders: list[str]) -> str | None:
    """The library's path if pip has installed it, else its name for the dynamic loader."""
    paths = (path for folder in folders for path in sorted(Path(folder).glob(f"lib{name}.so*")))
    return str(next(paths, None) or ctypes.util.find_library(name) or "") or None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(
                line.split(": ")[1].strip() for line in file if line.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def _print(report: dict, indent: str = "") -> None:
    for key, value in report.items():
        if isinstance(value, dict):
            print(f"{indent}{key}:")
            _print(value, indent + "  ")
        else:
            print(f"{indent}{key}: {'not found' if value is None else value}")


def main(arguments: list[str] | None = None) -> int:
    """Print the report; the exit code says whether the self-check passed."""
    parser = argparse.ArgumentParser(prog="python -m meshsolve.info", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--n", type=int, default=512, help="size of the self-check")
    options = parser.parse_args(arguments)
    report = collect(options.n)
    if options.json:
        print(json.dumps(report))
    else:
        _print(report)
    return 0 if report["self_check"]["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
