"""Eight CPU host devices and 64-bit types, set before JAX is imported anywhere."""

import faulthandler
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
# Compiled kernels of tests are none of the user's; test_cuda.py has folders of its own.
os.environ["MESHSOLVE_CACHE_DIR"] = ""
# XLA hangs with many unsynchronised launches in flight on a machine with few cores.
os.environ.setdefault("NPROC", "16")

faulthandler.enable()
