"""The compiled part of the benchmarks (`native/`), which `make build/native.stamp` builds."""

import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build/native"))

try:
    from meshsolve_bench import (
        copy_seconds,
        cuda_device,
        cuda_panel,
        cuda_ranks,
        cuda_transposition,
        faer_eigen,
        faer_qr,
        faer_solve,
        gemm_seconds,
        multiply,
        peak_flops,
        set_cuda_folders,
        symbol,
        update_flops,
    )
except ImportError as error:
    raise ImportError(f"{error}; `make build/native.stamp` builds it") from error

__all__ = [
    "copy_seconds",
    "cuda_device",
    "cuda_panel",
    "cuda_ranks",
    "cuda_transposition",
    "faer_eigen",
    "faer_qr",
    "faer_solve",
    "fault_target",
    "gemm_seconds",
    "multiply",
    "peak_flops",
    "set_cuda_folders",
    "symbol",
    "update_flops",
]


@functools.cache
def fault_target() -> str:
    """The wheel's target with one more routine: `diagnose`, which passes its operand through.

    Attributes: `fault`, "none", "error" or "panic", happens on `fault_rank` while all others wait.
    """
    import jax

    target, platforms = "meshsolve_faults", {"cpu": "cpu"}
    if any(device.platform == "gpu" for device in jax.devices()):
        platforms["cuda"] = "CUDA"
    for name, platform in platforms.items():
        stages = ("type_id", "type_info", "instantiate", "execute")
        symbols = {stage: symbol(f"{name}_{stage}") for stage in stages}
        instance = {stage: symbols.pop(stage) for stage in ("type_id", "type_info")}
        jax.ffi.register_ffi_type(f"{target}_{name}_instance", instance, platform=platform)
        jax.ffi.register_ffi_target(target, symbols, platform=platform)
    return target
