"""What ``plan`` finds out about a machine: its free memory, and the time of small calls."""

import math
import pathlib
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshsolve._api import eigen, functions, inverse
from meshsolve._api.cholesky import cho_factor
from meshsolve._api.least_squares import lstsq
from meshsolve._api.lu import lu_factor
from meshsolve._api.qr import qr
from meshsolve._api.solve import solve
from meshsolve._api.types import AssumeA

# Elements of the small matrices, if the large one is not smaller.
_SMALL = (1024**2, 2048**2)
# Calls that are timed, of which the fastest counts.
_TIMED = 3


class Asked(NamedTuple):
    """The function that ``plan`` reports on.

    Attributes:
      kind: the argument of ``plan`` that asks for another function than ``solve``; empty if none
        does.
      assume_a, lower, refine: as in ``solve``.
    """

    kind: str
    assume_a: AssumeA
    lower: bool
    refine: bool


def fields(asked: Asked | None, known: dict[str, Any], a, b, mesh: Mesh | None) -> dict[str, Any]:
    """The attributes of a ``Plan`` that depend on the machine, from the others; the time, if a
    function is given.
    """
    devices = known["devices"] // known["processes"]
    total = devices * sum(known["bytes_per_device"].values()) + known["scratch_bytes"]
    return {
        "total_bytes": total,
        "free_bytes": _free_memory(_own_device(_devices_of(a, mesh))),
        "seconds": None if asked is None else _seconds(asked, a, b, mesh),
    }


def _devices_of(a, mesh: Mesh | None) -> list[Any]:
    """The devices that will hold a matrix."""
    if mesh is not None:
        return list(mesh.devices.flat)
    sharding = getattr(a, "sharding", None)
    return jax.devices()[:1] if sharding is None else list(sharding.device_set)


def _own_device(devices: list[Any]) -> Any:
    """One that this process has, if it has any of them."""
    own = (device for device in devices if device.process_index == jax.process_index())
    return next(own, devices[0])


def _free_memory(device: Any) -> int | None:
    """Bytes that are free: of the host for a CPU device, else of the device; None if unknown."""
    if device.platform == "cpu":
        known = pathlib.Path("/proc/meminfo")
        found = (
            re.search(r"MemAvailable:\s*(\d+) kB", known.read_text()) if known.exists() else None
        )
        return None if found is None else 1024 * int(found[1])
    known = device.memory_stats() or {}
    if not {"bytes_limit", "bytes_in_use"} <= {*known}:
        return None
    return known["bytes_limit"] - known["bytes_in_use"]


def _seconds(asked: Asked, a, b, mesh: Mesh | None) -> float:
    """An estimate of the time of a call, from small ones on the same devices."""
    (m, n), k = a.shape, 0 if b is None else math.prod(b.shape[1:])
    if not m * n:
        return 0.0
    shapes = dict.fromkeys(_smaller((m, n), size, len(_devices_of(a, mesh))) for size in _SMALL)
    times = {shape: _time(asked, shape, k, a, mesh) for shape in shapes}
    if (m, n) in times:
        return times[m, n]
    # t = c m n + d m n min(m, n)
    each = [(min(shape), t / (shape[0] * shape[1])) for shape, t in times.items()]
    (least, first), (most, second) = each[0], each[-1]
    d = (second - first) / (most - least) if most > least else second / most
    c = second - d * most
    if d <= 0 or c < 0:
        c, d = 0.0, second / most
    return m * n * (c + d * min(m, n))


def _smaller(shape: tuple[int, int], size: int, devices: int) -> tuple[int, int]:
    """A shape with about so many elements, which the devices divide where they do; the same, if it
    has no more. A long one keeps its shorter extent, others their proportions.
    """
    (m, n), least = shape, min(shape)
    if m * n <= size:
        return shape
    scale = (size / (m * n)) ** 0.5
    up = lambda extent: max(1, round(extent / devices)) * devices  # noqa: E731
    if 8 * least * least <= size:
        return (up(size / n), n) if m > n else (m, up(size / m))
    return (up(m * scale), up(m * scale)) if m == n else (up(m * scale), up(n * scale))


def _time(asked: Asked, shape: tuple[int, int], k: int, a, mesh: Mesh | None) -> float:
    """The seconds of the fastest of some calls, after a first one."""
    call = _call(asked, shape, k > 0, mesh)
    given, sides = _matrix(asked, shape, a), jnp.ones((shape[0], k), a.dtype) if k else None
    jax.block_until_ready(call(given, sides))
    passed = []
    for _ in range(_TIMED):
        start = time.perf_counter()
        jax.block_until_ready(call(given, sides))
        passed.append(time.perf_counter() - start)
    return min(passed)


def _matrix(asked: Asked, shape: tuple[int, int], a) -> jax.Array:
    """A matrix in the sharding of A; if it is square, it is Hermitian and positive definite."""
    dtype = jax.dtypes.canonicalize_dtype(a.dtype)
    dtype = dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.zeros((), float).dtype

    def made():
        i, j = (jnp.arange(extent, dtype=jnp.finfo(dtype).dtype) + 1 for extent in shape)
        return (jnp.cos(i[:, None] * j * 0.37) + 2 * max(shape) * jnp.eye(*shape)).astype(dtype)

    sharding = getattr(a, "sharding", None)
    if isinstance(sharding, NamedSharding):
        # Where the devices do not divide the small matrix, it is as one that they do not divide.
        spec = PartitionSpec(*(*sharding.spec, None, None)[:2])
        for axis, extent in zip(spec, shape, strict=True):
            names = axis if isinstance(axis, tuple) else (axis,) if axis else ()
            count = 1
            for name in names:
                count *= sharding.mesh.shape[name]
            if extent % count:
                spec = PartitionSpec()
        sharding = NamedSharding(sharding.mesh, spec)
    return jax.jit(made, out_shardings=sharding)()


def _call(asked: Asked, shape, has_b: bool, mesh: Mesh | None) -> Callable[[Any, Any], Any]:
    """The function with its arguments."""
    lower = asked.lower
    if shape[0] != shape[1]:
        if has_b:
            return lambda a, b: lstsq(a, b, mesh=mesh)
        return lambda a, _: qr(a, mesh=mesh)
    if asked.kind == "inverse":
        return lambda a, _: inverse.inv(a, assume_a=asked.assume_a, lower=lower, mesh=mesh)
    if asked.kind == "eigenvalues":
        return lambda a, _: eigen.eigvalsh(a, lower=lower, mesh=mesh)
    if asked.kind == "eigenvectors":
        return lambda a, _: eigen.eigh(a, lower=lower, mesh=mesh)
    if asked.kind == "functions":
        return lambda a, _: functions.inv_sqrtm(a, lower=lower, mesh=mesh)
    if not has_b:
        if asked.assume_a == "pos":
            return lambda a, _: cho_factor(a, lower, mesh=mesh)
        return lambda a, _: lu_factor(a, mesh=mesh)
    options: Any = {"assume_a": asked.assume_a, "refine": asked.refine, "mesh": mesh}
    return lambda a, b: solve(a, b, lower, **options)
