"""The platform of these tests: CUDA devices, CPU devices, or the emulated driver."""

import os
import sys
from pathlib import Path

import jax
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
PLATFORM = os.environ.get("GPU_TESTS_PLATFORM", "cuda")
jax.config.update("jax_enable_x64", True)

# Tests that call CUDA's libraries, or ask the allocator of a device.
needs_cuda = pytest.mark.skipif(PLATFORM != "cuda", reason="needs CUDA devices")
# Tests by compiled measurements alone, which need no device of JAX.
needs_driver = pytest.mark.skipif(PLATFORM == "cpu", reason="needs the driver of CUDA")


def devices() -> list[jax.Device]:
    """All devices; raises RuntimeError if there is none."""
    return jax.devices("cuda" if PLATFORM == "cuda" else "cpu")
