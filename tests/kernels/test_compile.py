"""Every kernel compiles for every architecture by NVRTC of CUDA 12.8 or 13, without a GPU. Slow
tests use both versions, and structures of all sizes.

`make test-kernels` installs both, each with its `ptxas`. A warning fails, and so does a kernel that
spills registers or uses local memory.
"""

import ctypes
import importlib.util
import itertools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS, CHECKS = ROOT / "kernels", ROOT / "benchmarks/native/kernels"
# Bytes of shared memory that a block has by default.
SHARED = 48 << 10
# Three blocks of 256 threads fit on a multiprocessor of 65536 registers; two of those with panels
# in registers.
REGISTERS = 80
REGISTERS_OF_PANELS = 128
# Compiled for structures of these numbers of elements.
OF_STRUCTURES = "transpose_registers"
ELEMENTS, SOME_ELEMENTS = range(2, 33), (3, 8, 16, 32)
# The quick ones of all combinations.
QUICK = {("12.8", "sm_80"), ("13", "sm_90"), ("13", "sm_100")}
KERNEL = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads.*?Used (\d+) registers([^\n]*)",
    re.DOTALL,
)


# Folders of NVRTC and of `ptxas` in the package `nvidia`.
TOOLKITS = {"12.8": ("cuda_nvrtc", "cuda_nvcc"), "13": ("cu13", "cu13")}


def toolkit(version: str) -> tuple[Path, Path]:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    nvrtc, nvcc = TOOLKITS[version]
    libraries = [path for root in roots for path in root.glob(f"{nvrtc}/lib/libnvrtc.so.*")]
    assemblers = [path for root in roots for path in root.glob(f"{nvcc}/bin/ptxas")]
    assert len(libraries) == len(assemblers) == 1, "make test-kernels installs them"
    return libraries[0], assemblers[0]


def compile_ptx(library: Path, source: Path, arch: str, defines: list[str]) -> bytes:
    """The PTX of a file that was compiled to machine code, as in users' processes; no warnings."""
    nvrtc = ctypes.CDLL(str(library))
    headers = sorted(KERNELS.glob("*.cuh"))
    texts = (ctypes.c_char_p * len(headers))(*[path.read_bytes() for path in headers])
    names = (ctypes.c_char_p * len(headers))(*[path.name.encode() for path in headers])
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    made = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program),
        source.read_bytes(),
        source.name.encode(),
        len(headers),
        texts,
        names,
    )
    assert made == 0
    try:
        flags = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", *map(str.encode, defines)]
        options = (ctypes.c_char_p * len(flags))(*flags)
        status = nvrtc.nvrtcCompileProgram(program, len(flags), options)
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        assert (status, log.value) == (0, b""), log.value.decode()
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        assert size.value > 0
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        ptx = ctypes.create_string_buffer(size.value)
        assert nvrtc.nvrtcGetPTX(program, ptx) == 0
        return ptx.value
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def cases():
    """CUDA version, architecture, file and its definitions."""
    for cuda, arch in itertools.product(TOOLKITS, ("sm_80", "sm_90", "sm_100")):
        for source in sorted([*KERNELS.glob("*.cu"), *CHECKS.glob("*.cu")]):
            for elements in ELEMENTS if source.stem == OF_STRUCTURES else (0,):
                quick = (cuda, arch) in QUICK and elements in (0, *SOME_ELEMENTS)
                yield pytest.param(
                    *(cuda, arch, source, [f"-DELEMENTS={elements}"] if elements else []),
                    id=f"{source.stem}-{elements or 'all'}-{arch}-{cuda}",
                    marks=[] if quick else pytest.mark.slow,
                )


@pytest.mark.parametrize(("cuda", "arch", "source", "defines"), list(cases()))
def test_compiles_without_warnings_and_without_spills(cuda, arch, source, defines, tmp_path):
    library, ptxas = toolkit(cuda)
    major, minor = ctypes.c_int(), ctypes.c_int()
    ctypes.CDLL(str(library)).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    assert f"{major.value}.{minor.value}".startswith(cuda)
    ptx = tmp_path / "kernels.ptx"
    ptx.write_bytes(compile_ptx(library, source, arch, defines))
    command = [ptxas, "-v", f"-arch={arch}", "-o", tmp_path / "kernels.cubin", ptx]
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and "warning" not in ran.stderr, ran.stderr
    kernels = KERNEL.findall(ran.stderr)
    assert len(kernels) == ptx.read_text().count(".entry ") > 0
    for name, frame, stores, loads, registers, rest in kernels:
        shared = re.search(r"(\d+) bytes smem", rest)
        shared = int(shared[1]) if shared else 0
        print(f"{name}: {registers} registers, {shared} bytes shared, {stores} spilled")
        assert (frame, stores, loads) == ("0", "0", "0"), f"{name} spills"
        most = REGISTERS_OF_PANELS if source.stem == OF_STRUCTURES else REGISTERS
        assert int(registers) <= most and shared <= SHARED, name


@pytest.mark.parametrize("cuda", TOOLKITS)
@pytest.mark.parametrize(
    ("file", "entries"),
    [
        ("transpose_square", ("transpose_square", "transpose_shards")),
        ("transpose_blocks", ("transpose_blocks",)),
        ("transpose_panels", ("turn_panel", "hold_panel")),
    ],
)
def test_tiles_of_small_elements_go_by_16_bytes(cuda, file, entries):
    library, _ = toolkit(cuda)
    ptx = compile_ptx(library, KERNELS / f"{file}.cu", "sm_90", []).decode()
    kernels = {part.split("(")[0]: part for part in ptx.split(".entry ")[1:]}
    for name in [f"{entry}_{size}" for entry in entries for size in (4, 8)]:
        for access in (r"\bld\.(global\.)?v4\.", r"\bst\.(global\.)?(wb\.)?v4\."):
            assert re.search(access, kernels[name]), (name, access)
