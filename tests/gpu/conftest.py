"""Tests that need a CUDA device: `make test-gpu`. Without one they say so and do not succeed."""

import os

import pytest

# Memory as it is used, so that peaks tell something.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def pytest_sessionstart(session):
    import jax

    del session
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        pytest.exit(f"no CUDA device: {error}", returncode=3)
