"""Tests that need a CUDA device: `make test-gpu`. Without one they say so and do not succeed.

With ``GPU_TESTS_PLATFORM=cpu`` they run on two CPU devices, but for what only CUDA has, which
shows that the tests themselves are right.
"""

import os

import pytest

if os.environ.get("GPU_TESTS_PLATFORM") == "cpu":
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
# Memory as it is used, so that peaks tell something.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def pytest_sessionstart(session):
    from platforms import devices

    del session
    try:
        devices()
    except RuntimeError as error:
        pytest.exit(f"no CUDA device: {error}", returncode=3)
