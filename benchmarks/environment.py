"""Environment variables of libraries, and processes without them for competitors.

A leftover variable such as OPENBLAS_CORETYPE makes a library choose slow kernels. Processes that
measure have only those that the benchmark itself sets, which the row reports.
"""

import os
import sys

FAMILIES = (
    *("OPENBLAS_", "GOTO_", "GOTOBLAS_", "MKL_", "BLIS_", "DNNL_", "ONEDNN_", "NVPL_"),
    *("OMP_", "GOMP_", "KMP_", "ELPA_"),
)


def clean(**own: str) -> dict[str, str]:
    """The environment without the libraries' variables, and with ``own``."""
    return {name: v for name, v in os.environ.items() if not name.startswith(FAMILIES)} | own


def blas_variables(environment=os.environ) -> str:
    """The libraries' variables that are set, as NAME=value."""
    return " ".join(f"{k}={v}" for k, v in sorted(environment.items()) if k.startswith(FAMILIES))


def begin_on_cpu(devices: int) -> None:
    """A clean environment in which JAX has so many CPU devices; call it before JAX is imported."""
    restart()
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"


def restart() -> None:
    """Start this program anew if the environment is not clean; call it first."""
    if blas_variables():
        os.execve(sys.executable, [sys.executable, *sys.argv], clean())
