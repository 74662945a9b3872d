"""Tests that need a CUDA device: `make test-gpu`. Without one they fail with a message.

With ``GPU_TESTS_PLATFORM=cpu`` they run on two CPU devices, without those that need CUDA, to check
the tests themselves. With ``GPU_TESTS_PLATFORM=emulated`` those that need no device of JAX run on
the driver that the process finds.
"""

import os

import pytest

if os.environ.get("GPU_TESTS_PLATFORM") in ("cpu", "emulated"):
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
# Memory is allocated on use, so that peaks have a meaning.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def pytest_sessionstart(session):
    from platforms import devices

    del session
    try:
        devices()
    except RuntimeError as error:
        pytest.exit(f"no CUDA device: {error}", returncode=3)
