"""CUDA's libraries and kernels: their paths, and facts that need no device."""

import importlib.util
from pathlib import Path

from meshsolve import _core


def search_folders() -> list[str]:
    """Folders of the CUDA libraries that pip has installed; these then need no LD_LIBRARY_PATH."""
    spec = importlib.util.find_spec("nvidia")
    places = (spec and spec.submodule_search_locations) or ()
    return [str(folder) for place in places for folder in sorted(Path(place).glob("*/lib"))]


def compile_kernel(name: str, arch: str, library: str | None = None) -> dict:
    """Compile a kernel for an architecture such as "sm_90", as its first use on a device does.

    ``library`` is the path of an NVRTC; the default is the best one found. The result has
    ``cubin``, ``log`` (warnings), ``nvrtc`` (its path), ``version`` and ``cached``. Raises
    ValueError for an unknown name or architecture, RuntimeError if the machine lacks a library.
    """
    return _core.compile_kernel(name, arch, search_folders(), library)


def report(architectures: list[str] | None = None) -> dict:
    """Driver, NVRTC, the cache, and which kernels compile for the architectures.

    The default is sm_90, if this NVRTC knows it.
    """
    stated = _core.cuda_libraries(search_folders())
    if isinstance(stated["nvrtc"], dict):
        known = stated["nvrtc"]["architectures"]
        architectures = architectures or [f"sm_{n}" for n in known if n == 90]
        stated["nvrtc"]["architectures"] = " ".join(f"sm_{n}" for n in known)
        stated["kernels"] = {
            name: {arch: _compiles(name, arch) for arch in architectures}
            for name in _core.kernel_names()
        }
    else:
        stated["kernels"] = "not compiled: no NVRTC"
    stated["kernel_cache"] = _core.kernel_cache()
    return stated


def _compiles(name: str, arch: str) -> str:
    try:
        result = compile_kernel(name, arch)
    except RuntimeError as error:
        return str(error)
    stated = f"{len(result['cubin'])} bytes, cache: {result['cached']}"
    return f"{stated}, with warnings: {result['log']}" if result["log"] else stated
