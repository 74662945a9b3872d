"""Peak memory on devices: the bounds of CPU devices (tests/python/test_memory.py)."""

import json
import pathlib
import subprocess
import sys

import pytest
from platforms import PLATFORM, devices

SCRIPT = pathlib.Path(__file__).parents[2] / "benchmarks/memory.py"


@pytest.mark.parametrize("assume", ["pos", "gen"])
@pytest.mark.parametrize("storage", ["rows", "columns", "column-major"])
def test_a_donated_matrix_is_solved_in_its_own_memory(storage, assume):
    """At its peak the call has at most three hundredths of A in addition to A and b."""
    options = f"--n 8192 --platform {PLATFORM} --devices {len(devices())}"
    command = [sys.executable, SCRIPT, *options.split(), "--storage", storage, "--assume", assume]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    reported = json.loads(ran.stdout)
    # Otherwise the peak may be that of making A.
    assert reported["before_bytes"] <= 0.03 * reported["a_bytes"]
    assert reported["above_over_a"] <= 0.03
