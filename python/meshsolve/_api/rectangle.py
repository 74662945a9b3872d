"""What ``plan`` reports on an A that is not square: on ``lstsq`` or ``qr``."""

import math
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshsolve._api.forecasts import forecast, processes_of
from meshsolve._execute import eager
from meshsolve._execute.placements import Placement, devices_along
from meshsolve._library.errors import mistake
from meshsolve._prepare import padding
from meshsolve._prepare.operands import check_rhs, common_dtype
from meshsolve._prepare.tall import stays_by_rows


class _Place(NamedTuple):
    """Where a call works on A, or on A^H.

    Attributes:
      shape: that of the matrix, with its padding.
      world: the number of devices that share it.
      storage: how.
      move: the first move of A, in words; None if it stays.
      at: the placement; None on one device.
    """

    shape: tuple[int, int]
    world: int
    storage: str
    move: str | None
    at: Placement | None


def fields(a, b, overwrite_a: bool, mesh: Mesh | None, refused: list[str]) -> dict[str, Any]:
    """The attributes of the ``Plan`` of ``lstsq(a, b)``, or of ``qr(a)`` without B."""
    (m, n), k = a.shape, 0
    if refused:
        expected, got = "a square matrix, to go with the other arguments", f"shape {a.shape}"
        remedy = f"leave it out: {'qr' if b is None else 'lstsq'} has no such argument"
        raise mistake("plan", "a", expected, f"{got} and {refused[0]}", remedy)
    if b is not None:
        check_rhs("plan", b, m, of_a=a.shape)
        k = math.prod(b.shape[1:])
    dtype = common_dtype("plan", "a and b", a, *([] if b is None else [b]))
    padding.check_mesh("plan", mesh)
    by_rows = stays_by_rows(a, mesh) if b is None else m > n
    turned = b is not None and m < n
    place = _place(a, mesh, by_rows, turned)
    size = math.prod(place.shape) // place.world * dtype.itemsize
    rows = m if turned else place.shape[0] // place.world
    amounts = {"A": size, **({"b": rows * k * dtype.itemsize} if k else {})}
    if turned:
        moves, routines = ["A^H is copied, by columns"], ("geqrf", "ormqr")
        amounts["A^H"] = size
    elif b is not None:
        moves, routines = [], ("gels",)
    elif by_rows:
        moves, routines = [], ("tsqr",)
        amounts["R"] = n * n * dtype.itemsize
    else:
        moves, routines = [], ("geqrf", "orgqr" if m >= n else "ormqr")
        amounts |= {"Q": size, "R": min(m, n) * place.shape[1] // place.world * dtype.itemsize}
    if place.move:
        moves = [place.move, *moves]
        amounts["copy of A"] = size
    elif b is None and not overwrite_a:
        moves = ["A is copied: overwrite_a is not set"]
        amounts["Q" if by_rows else "reflectors"] = size
    if (
        b is not None
        and not turned
        and place.world > 1
        and not _by_rows(b, mesh or a.sharding.mesh)
    ):
        moves = [*moves, "b is moved to the rows of A"]
    if k:
        amounts["x"] = n * k * dtype.itemsize
    shared = processes_of(place.at)
    if shared > 1:
        more, extra = _over_processes(place, shared, routines, dtype, k)
        moves, amounts = [*moves, *more], amounts | extra
    reports = [_report(place, r, dtype.name, k) for r in routines]
    core, padded = reports[0], place.shape[0 if place.storage == "rows" else 1]
    devices = mesh.devices.flat if mesh else getattr(a, "sharding", None)
    devices = devices.device_set if isinstance(devices, jax.sharding.Sharding) else devices
    platform = next(iter(jax.devices() if devices is None else devices)).platform
    return {
        "m": m,
        "n": n,
        "padded": padded,
        "dtype": dtype.name,
        "devices": place.world,
        "processes": shared,
        "visible": jax.local_device_count(platform),
        "storage": place.storage if place.world > 1 else "one device",
        "shard": core["shard"],
        "solver_shard": core["solver_shard"],
        "solves": "A^H" if turned else "A^T" if by_rows else "A",
        "block": None if by_rows else core["block"],
        "block_cyclic": None if by_rows else core["block_cyclic"],
        "tiler": "" if by_rows else core["tiler"],
        "widths": [] if by_rows else core["widths"],
        "workers": core["workers"],
        "transposition": core["transposition"],
        "moves": moves,
        "bytes_per_device": amounts,
        "scratch_bytes": max(report["scratch_bytes"] for report in reports),
    }


def _place(a, mesh: Mesh | None, by_rows: bool, turned: bool) -> _Place:
    """The place of a call on A by rows or by columns; of A^H if it is ``turned``."""
    m, n = a.shape
    storage, divided = ("rows", m) if by_rows or turned else ("columns", n)
    kind = "gels" if storage == "rows" else "geqrf"
    sharding = getattr(a, "sharding", None)
    if mesh is None or padding.lies_on(sharding, mesh, divided):
        at: Placement | None = None
        if sharding is not None:
            signature = eager.signature(a)
            at = eager.placement_of("plan", signature, divided)
        world, missing, move = at.world if at else 1, 0, None
        if at and not turned and not _lies(sharding, at, storage):
            move = f"A is moved to {storage}"
        if sharding is None:
            move = "A is brought to a device"
        if kind == "geqrf" and at and at.storage == "column-major":
            storage, move = "column-major", None
    else:
        at = Placement(mesh, tuple(mesh.axis_names))
        world, missing = mesh.size, -divided % mesh.size
        padded = ", padded" if missing else ""
        move = f"A is copied to shards of {storage}{padded}"
    if turned:
        return _Place((n, m + missing), world, "column-major", move, at)
    shape = (m + missing, n) if storage == "rows" else (m, n + missing)
    return _Place(shape, world, storage, move, at)


# Routines that work on the rows of a tall matrix, and the calls of each device over processes.
_OF_ROWS = {"gels": "tsreduce", "tsqr": "tsqr"}


def _report(place: _Place, routine: str, dtype: str, k: int) -> dict[str, Any]:
    """The library's report on a routine."""
    shape, world, storage = place.shape, place.world, place.storage
    if routine in _OF_ROWS and processes_of(place.at) > 1:
        # Each device makes calls of its own, on its rows with those that complete a triangle.
        rows, name = max(shape[0] // world, 2 * shape[1]), _OF_ROWS[routine]
        one = forecast(None, name, (rows, shape[1]), 1, dtype, storage, True, k, False)
        devices = world // processes_of(place.at)
        return one | {"scratch_bytes": devices * one["scratch_bytes"]}
    return forecast(place.at, routine, shape, world, dtype, storage, True, k, False)


def _over_processes(
    place: _Place, shared: int, routines: tuple[str, ...], dtype, k: int
) -> tuple[list[str], dict[str, int]]:
    """The moves and bytes of a device that come from several processes."""
    (m, n), world = place.shape, place.world
    if routines[0] not in _OF_ROWS:
        moves, amounts = ["columns are exchanged between processes, in place"], {}
        if world > shared:
            moves = ["the shards of each process are copied to one array, and back", *moves]
            amounts["copy for the process"] = (m * n // world + m * k) * dtype.itemsize
        return moves, amounts
    # R and Q^H b of two devices, as one array, and what they become.
    both = 4 * n * (n + k) * dtype.itemsize
    amounts = {"triangles of two devices": both}
    if routines[0] == "tsqr":
        amounts["Q before the last product"] = 2 * max(m // world, 2 * n) * n * dtype.itemsize
    return ["triangles of pairs of devices are exchanged"], amounts


def _by_rows(b, mesh: Mesh) -> bool:
    """Whether right-hand sides are distributed to all devices of a mesh by rows."""
    sharding = getattr(b, "sharding", None)
    if not isinstance(sharding, NamedSharding) or sharding.mesh != mesh:
        return False
    return devices_along(PartitionSpec(*sharding.spec[:1]), mesh) == mesh.size


def _lies(sharding, at: Placement, storage: str) -> bool:
    """Whether A is by rows or by columns already."""
    if not isinstance(sharding, NamedSharding) or at.world == 1:
        return True
    target = NamedSharding(at.mesh, at._replace(storage=storage).spec("matrix", ""))
    return sharding.is_equivalent_to(target, 2)
