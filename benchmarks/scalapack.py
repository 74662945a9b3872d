"""ScaLAPACK's solve, QR, least squares and eigenproblems (scalapack/solve.c, qr.c, eigen.c), and
ELPA's eigenproblems (elpa.c), as competitors, if Debian's packages are installed.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
from typing import NamedTuple

import environment

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = pathlib.Path(__file__).resolve().parent / "scalapack"
# With the kernels that OpenBLAS chooses, where an old version serves a new processor badly, and
# with those for AVX-512. `--what` also takes "ScaLAPACK Haswell" and the like.
WHATS = ("ScaLAPACK", "ScaLAPACK SkylakeX")
_AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
_LIBRARIES = {
    "scalapack-openmpi": "libscalapack-openmpi-dev",
    "openblas": "libopenblas-dev",
}
# Those of one program alone. Debian keeps their headers in a folder of their own.
_MORE = {"elpa": {"elpa": "libelpa-dev"}}


class Unavailable(Exception):
    """The reason why the row is left out."""


class Timed(NamedTuple):
    """Seconds of a solve, and its scaled residual."""

    factor: float
    whole: float
    ratio: float


def build(name: str) -> pathlib.Path:
    """The compiled program; raises ``Unavailable`` with the name of a missing package."""
    for tool, package in {"mpicc": "libopenmpi-dev", "mpirun": "openmpi-bin"}.items():
        if not shutil.which(tool):
            raise Unavailable(f"no {tool}: apt-get install {package}")
    made, source = ROOT / "build/scalapack" / name, SOURCES / f"{name}.c"
    newest = max(x.stat().st_mtime for x in (source, *SOURCES.glob("*.h")))
    if made.exists() and made.stat().st_mtime > newest:
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    more = _MORE.get(name, {})
    libraries = _LIBRARIES | more
    command = ["mpicc", "-O2", "-Wall", "-Wextra", "-o", str(made), str(source)]
    command += [f"-I/usr/include/{name}" for name in more]
    command += ["-Wl,--no-as-needed", *(f"-l{name}" for name in libraries), "-lm"]
    ran = subprocess.run(command, capture_output=True, text=True)
    for name, package in libraries.items():
        if f"cannot find -l{name}" in ran.stderr or f"{name}.h: No such file" in ran.stderr:
            raise Unavailable(f"no lib{name}: apt-get install {package}")
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{ran.stderr}")
    return made


class Program:
    """Processes of one thread each. They solve on command and sleep in between. ``arguments`` are
    those of the program, without its pipes.
    """

    def __init__(self, what: str, program: str, arguments: tuple, processes: int):
        kernels = what.removeprefix("ScaLAPACK").strip()
        flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
        if kernels == "SkylakeX" and not flags >= _AVX512:
            raise Unavailable("no AVX-512")
        settings = environment.clean(**({"OPENBLAS_CORETYPE": kernels} if kernels else {}))
        self.variables = environment.blas_variables(settings)
        self._folder = tempfile.TemporaryDirectory()
        # Open MPI's own folder for all programs of a user fails where two begin at the same time.
        settings["OMPI_MCA_orte_tmpdir_base"] = self._folder.name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed at the end
        place = pathlib.Path(self._folder.name) / "go"
        pipes = [f"{place}.{rank}" for rank in range(processes)]
        for pipe in pipes:
            os.mkfifo(pipe)
        command = ["mpirun", "-n", str(processes), "--allow-run-as-root", "--oversubscribe"]
        command += [str(build(program)), *map(str, (*arguments, place))]
        # Without the input of this process, which mpirun would read.
        quiet = {"stdin": subprocess.DEVNULL, "stderr": self._errors}
        self._process = subprocess.Popen(
            command, env=settings, stdout=subprocess.PIPE, text=True, **quiet
        )
        # Open for reading as well, so that no write waits for a process that has failed.
        self._pipes = [os.open(pipe, os.O_RDWR) for pipe in pipes]

    def _tell(self, word: bytes) -> list[str]:
        for pipe in self._pipes:
            os.write(pipe, word)
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(f"{' '.join(self._process.args)}:\n{self._errors.read()}")
        return line.split()

    def solve(self) -> Timed:
        """The times of a new problem."""
        return Timed(*map(float, self._tell(b"s")))

    def end(self) -> tuple[str, str]:
        """End the program; return the version of OpenBLAS and its kernels."""
        kernels, _, *version = self._tell(b"e")
        self._process.communicate()
        for pipe in self._pipes:
            os.close(pipe)
        self._errors.close()
        self._folder.cleanup()
        return version[0], kernels
