"""Several processes: which libraries of MPI and ScaLAPACK serve them, and whether they can."""

import ctypes.util
import functools
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
from jax.sharding import AbstractMesh, Mesh

from meshsolve import _core, _log
from meshsolve._library.errors import mistake
from meshsolve._library.routines import Routine
from meshsolve._library.waiting import Start

ENGINE = "scalapack"
"""The engine of all calls over several processes."""

_VARIABLE = "MESHSOLVE_SCALAPACK"
_INSTALL = (
    "apt-get install libscalapack-openmpi2.2 openmpi-bin libopenblas0-pthread, or "
    "pip install mkl mpich"
)


class Libraries(NamedTuple):
    """Libraries of one choice, in the order in which they are loaded.

    Attributes:
      name: the value of MESHSOLVE_SCALAPACK that chooses them.
      family: "Open MPI" or "MPICH"; empty for paths.
      paths: paths, or names for the dynamic loader.
    """

    name: str
    family: str
    paths: tuple[str, ...]


def found() -> list[Libraries]:
    """The choices that this machine has, the best first. Nothing is loaded."""
    return [*_debian(), *_mkl()]


def _debian() -> Iterator[Libraries]:
    for name, family in (("openmpi", "Open MPI"), ("mpich", "MPICH")):
        # The library names MPI's and LAPACK's own.
        if scalapack := ctypes.util.find_library(f"scalapack-{name}"):
            mpi = ctypes.util.find_library("mpi" if name == "openmpi" else "mpich")
            if mpi is not None:
                yield Libraries(f"debian-{name}", family, (mpi, scalapack))


def _mkl() -> Iterator[Libraries]:
    """Intel's libraries and MPICH, as pip installs them."""
    folder = Path(sysconfig.get_path("data")) / "lib"
    names = ("mkl_core", "mkl_sequential", "mkl_intel_lp64")
    names += ("mkl_blacs_intelmpi_lp64", "mkl_scalapack_lp64")
    paths = [next(iter(sorted(folder.glob(f"lib{name}.so*"))), None) for name in names]
    mpi = next(iter(sorted(folder.glob("libmpi.so.12*"))), None)
    if mpi is not None and all(paths):
        yield Libraries("mkl", "MPICH", tuple(map(str, (mpi, *paths))))


def _family() -> str:
    """The implementation that this process uses, or that has launched it; empty if unknown."""
    maps = Path("/proc/self/maps")
    loaded = maps.read_text() if maps.exists() else ""
    if "/libmpi.so.40" in loaded:
        return "Open MPI"
    if "/libmpich.so" in loaded or "/libmpi.so.12" in loaded:
        return "MPICH"
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        return "Open MPI"
    return "MPICH" if {"PMI_RANK", "PMI_SIZE"} & {*os.environ} else ""


def _chosen() -> Libraries:
    """The libraries that the user or the launcher has chosen."""
    asked, every = os.environ.get(_VARIABLE, "auto"), found()
    if ":" in asked or "/" in asked or ".so" in asked:
        return Libraries(asked, "", tuple(asked.split(":")))
    family = _family() if asked == "auto" else ""
    for one in every:
        if asked == one.name or (asked == "auto" and one.family == (family or one.family)):
            return one
    names = ", ".join(one.name for one in every) or "none"
    if asked == "auto":
        expected = f"ScaLAPACK for {family or 'MPI'}"
        raise RuntimeError(f"meshsolve: expected {expected}, got {names}; {_INSTALL}")
    raise RuntimeError(
        f"meshsolve: {_VARIABLE}: expected auto, the paths of libraries with colons between them, "
        f"or one of those that are here ({names}), got {asked!r}; {_INSTALL}"
    )


# One thread, also if MPI is started again after an error.
_waiting = functools.cache(Start)


@functools.cache
def start() -> str:
    """Load the libraries and start MPI, at the first call over several processes; its version.

    Raises:
      RuntimeError: no libraries, or MPI has not started as many processes as JAX has.
    """
    chosen = _chosen()
    waiting = _waiting()
    try:
        rank, size, version = _core.start_processes(chosen.paths)
    finally:
        waiting.over()
    _log.logger.info("process %d of %d, %s (%s)", rank, size, version, chosen.name)
    if size != (wanted := jax.process_count()):
        raise RuntimeError(
            f"meshsolve: expected as many processes of MPI as of JAX, {wanted}, got {size} by "
            f"{version} ({chosen.name}); start the program by mpirun -n {wanted}, or srun "
            f"--mpi=pmix, of that MPI, or choose another one by {_VARIABLE}"
        )
    return version


def several(mesh: Mesh | AbstractMesh) -> bool:
    """Whether the devices of a mesh belong to several processes. An abstract mesh is the one that
    is set, if that has its axes. Otherwise it is of one process if that has enough devices.
    """
    if jax.process_count() == 1:
        return False
    if not isinstance(mesh, Mesh):
        if mesh.size > jax.local_device_count() or mesh.size == 1:
            return mesh.size > 1
        is_set = _mesh_that_is_set()
        if is_set is None or is_set.shape != mesh.shape:
            return False
        mesh = is_set
    return len({device.process_index for device in mesh.devices.flat}) > 1


def _mesh_that_is_set() -> Mesh | None:
    try:
        mesh = jax.sharding.get_mesh()
    except ValueError:  # inside of programs JAX does not give it
        return None
    return None if mesh.empty else mesh


def expect_usable(operation: str, mesh: Mesh | AbstractMesh, axes: tuple[str, ...]) -> None:
    """Refuse a mesh over several processes that their engine does not take."""
    devices = list(mesh.devices.flat) if isinstance(mesh, Mesh) else []
    here = mesh.size // jax.process_count()
    firsts = [devices[i : i + here] for i in range(0, len(devices), max(here, 1))]
    apart = any(len({device.process_index for device in one}) > 1 for one in firsts)
    if mesh.size != jax.device_count() or apart:
        got = "one where processes alternate" if apart else f"one of {mesh.size} devices"
        raise mistake(
            operation,
            "a",
            f"a mesh of all {jax.device_count()} devices of {jax.process_count()} processes, each "
            "process with as many, one after the other",
            got,
            "make it from jax.devices() in their order",
        )
    if {*axes} != {*mesh.axis_names}:
        raise mistake(
            operation,
            "a",
            "a matrix over all axes of a mesh over several processes",
            f"one over {axes} of {mesh.axis_names}",
            f"shard it over {tuple(mesh.axis_names)}",
        )
    if any(device.platform != "cpu" for device in devices):
        raise mistake(
            operation,
            "a",
            "CPU devices on a mesh over several processes",
            "CUDA devices",
            "use the GPUs of one process",
        )


def expect_ready(operation: str, routine: Routine, engine: str) -> None:
    """Refuse a routine that does not work over several processes, or another engine, and start
    theirs.
    """
    if engine not in ("", ENGINE):
        remedy = "leave it out, or put A on the devices of one process"
        got = f'"{engine}"'
        raise mistake(operation, "engine", "None over several processes", got, remedy)
    expect_known(operation, routine)
    start()


def expect_known(operation: str, routine: Routine) -> None:
    """Refuse a routine that does not work over several processes."""
    if not routine.across:
        raise mistake(
            operation,
            "a",
            "a matrix on the devices of one process for this function",
            "one over several processes",
            "docs/processes.md lists what works over several; put A on the devices of one process",
        )


def expect_other(operation: str, engine: str) -> None:
    """Refuse a factor of several processes that is on the devices of one."""
    if engine == ENGINE:
        raise mistake(
            operation,
            "the factor",
            "one that is on the processes that have made it",
            "one on the devices of one process",
            "factor A there again",
        )
