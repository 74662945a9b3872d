"""ScaLAPACK's solve (scalapack/solve.c) as a competitor, where Debian's packages of it are."""

import os
import pathlib
import shutil
import subprocess
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = pathlib.Path(__file__).resolve().parent / "scalapack/solve.c"
# With the kernels that OpenBLAS chooses, which an old one does badly on a new processor, and with
# those for AVX-512. "ScaLAPACK Haswell" and the like can be asked for as well.
WHATS = ("ScaLAPACK", "ScaLAPACK SkylakeX")
_AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
_LIBRARIES = {
    "scalapack-openmpi": "libscalapack-openmpi-dev",
    "openblas": "libopenblas-dev",
}


class Unavailable(Exception):
    """Why the row is left out."""


class Timed(NamedTuple):
    """What the program has printed."""

    factor: list[float]
    whole: list[float]
    ratio: float
    kernels: str


def build() -> pathlib.Path:
    """The compiled program; raises ``Unavailable`` with the package that is missing."""
    for tool, package in {"mpicc": "libopenmpi-dev", "mpirun": "openmpi-bin"}.items():
        if not shutil.which(tool):
            raise Unavailable(f"no {tool}: apt-get install {package}")
    made = ROOT / "build/scalapack/solve"
    if made.exists() and made.stat().st_mtime > SOURCE.stat().st_mtime:
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    command = ["mpicc", "-O2", "-Wall", "-Wextra", "-o", str(made), str(SOURCE)]
    command += ["-Wl,--no-as-needed", *(f"-l{name}" for name in _LIBRARIES), "-lm"]
    ran = subprocess.run(command, capture_output=True, text=True)
    for name, package in _LIBRARIES.items():
        if f"cannot find -l{name}" in ran.stderr:
            raise Unavailable(f"no lib{name}: apt-get install {package}")
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{ran.stderr}")
    return made


def measure(
    what: str, routine: str, n: int, rhs: int, nb: int, repeats: int, processes: int
) -> Timed:
    """Solve ``repeats`` times on a 1 x ``processes`` grid, one thread each."""
    kernels = what.removeprefix("ScaLAPACK").strip()
    if (
        kernels == "SkylakeX"
        and not set(pathlib.Path("/proc/cpuinfo").read_text().split()) >= _AVX512
    ):
        raise Unavailable("no AVX-512")
    settings = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if kernels:
        settings["OPENBLAS_CORETYPE"] = kernels
    command = ["mpirun", "-n", str(processes), "--allow-run-as-root", "--oversubscribe"]
    command += [str(build()), routine, *map(str, (n, rhs, nb, repeats))]
    environment = {name: v for name, v in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    ran = subprocess.run(command, env=environment | settings, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{ran.stdout}{ran.stderr}")
    *lines, chosen = ran.stdout.splitlines()
    factor, whole, ratios = zip(*(map(float, line.split()) for line in lines), strict=True)
    return Timed(list(factor), list(whole), max(ratios), chosen)
