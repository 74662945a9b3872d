"""What libraries read from the environment, which competitors start without.

A variable such as OPENBLAS_CORETYPE, left from elsewhere, makes them choose kernels that are slow
here. Processes that measure have none of these but those that the benchmark itself sets, which
the row says.
"""

import os
import sys

FAMILIES = ("OPENBLAS_", "GOTO_", "GOTOBLAS_", "MKL_", "BLIS_", "NVPL_", "OMP_", "GOMP_", "KMP_")


def clean(**own: str) -> dict[str, str]:
    """The environment without the libraries' variables, and with ``own``."""
    return {name: v for name, v in os.environ.items() if not name.startswith(FAMILIES)} | own


def reported(environment=os.environ) -> str:
    """The libraries' variables that there are, as NAME=value."""
    return " ".join(f"{k}={v}" for k, v in sorted(environment.items()) if k.startswith(FAMILIES))


def restart() -> None:
    """Start this program anew where the environment is not clean; to be called first."""
    if reported():
        os.execve(sys.executable, [sys.executable, *sys.argv], clean())
