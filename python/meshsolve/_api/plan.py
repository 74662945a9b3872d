"""Reports on calls before anything runs: ``plan``."""

import dataclasses
import math
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.typing import ArrayLike

from meshsolve import _log
from meshsolve._api import calibration, rectangle
from meshsolve._api.forecasts import forecast, processes_of
from meshsolve._api.solve import structure_of
from meshsolve._api.types import AssumeA
from meshsolve._execute import eager, shards
from meshsolve._execute.dispatch import executor
from meshsolve._execute.placements import Placement, is_two_way
from meshsolve._library.errors import mistake, wrong_type
from meshsolve._prepare import padding
from meshsolve._prepare.operands import (
    check_any,
    check_rhs,
    check_square,
    common_dtype,
    expect_alive,
)
from meshsolve._rules import refinement

# Structures for which LU mirrors the given triangle.
_MIRRORED = ("hermitian", "symmetric")


class Described(Protocol):
    """The attributes of an array that need not exist, such as a ``jax.ShapeDtypeStruct``."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        ...

    @property
    def dtype(self) -> Any:
        """Its dtype."""
        ...


@dataclasses.dataclass(frozen=True)
class Plan:
    """A report on ``solve``, ``cho_factor``, ``lu_factor``, ``inv``, ``eigvalsh``, ``eigh`` or
    functions of Hermitian matrices beforehand, or on ``lstsq`` or ``qr`` of an A that is not
    square; ``str(plan)`` is its text.

    Layouts are written ``shape:stride`` as in CuTe: coordinate (i, j) is at i and j times the
    strides, in elements.

    Attributes:
      m: rows of A.
      n: order of A, or its columns.
      padded: order of the matrix that is factored: A with its identity corner. Of an A that is not
        square, the rows or columns that the devices divide, with zeros.
      dtype: name of the dtype that all operands are promoted to.
      devices: number of devices that share the matrix.
      processes: number of processes that share it.
      visible: number of all devices of their kind.
      storage: how A is solved: by "rows", by "columns", by columns and "column-major", or on "one
        device".
      shard: layout of one device's part of A.
      solver_shard: layout of the same memory as a shard of the solver's matrix B, after moves.
      solves: B in terms of A: "A", "A^T" or "A^H".
      block: map from a global column to its position (shards in rank order) in the block
        distribution, in which CPU devices work; None if tiles differ in width.
      block_cyclic: the same map in the 1-D block-cyclic distribution.
      tiler: map from the number of a tile to its position in the block-cyclic distribution,
        whatever the widths.
      widths: pairs (width, number of tiles of that width), wider ones first; none if A is reduced
        by rows.
      workers: number of threads.
      transposition: the transposition of each shard in its own memory, or None.
      moves: the moves and copies, in words, in order.
      bytes_per_device: a dictionary: A, right-hand sides, copies.
      scratch_bytes: scratch of the whole call, in one process; if it makes several of the
        library's, the most that one of them takes. ScaLAPACK's own is not known.
      total_bytes: what all devices of a process have, with its scratch. CPU devices share one
        memory.
      free_bytes: the memory that is free now, of the host for CPU devices, else of one device; None
        if that is not known.
      seconds: an estimate of the time of the call, if you have asked for it; else None.

    Examples:
      >>> report = ms.plan(a, b, assume_a="pos")
      matrix:        n = 8, ...
      >>> report.storage, report.moves
      ('rows', ['A is copied: overwrite_a is not set', 'b is copied: overwrite_b is not set'])
    """

    m: int
    n: int
    padded: int
    dtype: str
    devices: int
    processes: int
    visible: int
    storage: str
    shard: str
    solver_shard: str
    solves: str
    block: str | None
    block_cyclic: str | None
    tiler: str
    widths: list[tuple[int, int]]
    workers: int
    transposition: str | None
    moves: list[str]
    bytes_per_device: dict[str, int]
    scratch_bytes: int
    total_bytes: int
    free_bytes: int | None
    seconds: float | None

    def __str__(self) -> str:
        """Return the report."""
        order = f"n = {self.n}" if self.m == self.n else f"{self.m} x {self.n}"
        if self.padded != (self.n if self.widths else self.m):
            order += f", padded to {self.padded}"
        tiles = " + ".join(f"{count} of {width}" for width, count in self.widths)
        amounts = ", ".join(f"{name} {_bytes(b)}" for name, b in self.bytes_per_device.items())
        free = "free memory is not known"
        if self.free_bytes is not None:
            free = f"{_bytes(self.free_bytes)} free"
        of_each = " on each process" if self.processes > 1 else ""
        lines = {
            "matrix": f"{order}, {self.dtype}, {_log.devices(self.devices, self.visible)}, "
            f"{self.storage}{of_each and f', {self.processes} processes'}",
            "shard": f"{self.shard}, used as B = {self.solves}: {self.solver_shard}",
            "distribution": f"block {self.block or '(uneven tiles)'}; block-cyclic "
            f"{self.block_cyclic or f'tiles {self.tiler}'}",
            "tiles": f"{tiles} columns, {self.workers} worker(s)",
            "workers": f"{self.workers}",
            "transposition": self.transposition or "none",
            "moves": "; ".join(self.moves) or "nothing",
            "per device": amounts,
            "scratch": f"{_bytes(self.scratch_bytes)}{of_each}",
            "total": f"{_bytes(self.total_bytes)}{of_each}, {free}",
            "time": "" if self.seconds is None else f"about {self.seconds:.2g} s",
        }
        left_out = ("workers",) if self.widths else ("distribution", "tiles", "transposition")
        left_out += ("time",) if self.seconds is None else ()
        shown = ((name, text) for name, text in lines.items() if name not in left_out)
        return "\n".join(f"{name + ':':<15}{text}" for name, text in shown)


def plan(
    a: ArrayLike | Described,
    b: ArrayLike | Described | None = None,
    lower: bool = False,
    *,
    assume_a: AssumeA = "gen",
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    refine: bool = False,
    inverse: bool = False,
    eigenvalues: bool = False,
    eigenvectors: bool = False,
    functions: bool = False,
    mesh: Mesh | None = None,
    calibrate: bool = False,
) -> Plan:
    """Print what ``solve(a, b, ...)`` will do, and return it; nothing is computed or moved, unless
    you ask for an estimate of its time.

    The call uses the same sizes. Of an A that is not square it tells what ``lstsq(a, b)`` will do,
    or ``qr(a)`` if there is no b.

    Args:
      a: [n, n] or [m, n], as given to the function: an array, or a ``jax.ShapeDtypeStruct`` with a
        sharding.
      b: right-hand sides likewise; None for ``lu_factor(a)``, or ``cho_factor(a)`` if ``assume_a``
        is "pos".
      lower: which triangle of A will be read, if one is enough.
      assume_a: as in ``solve``.
      overwrite_a: whether A will be donated.
      overwrite_b: whether B will be donated.
      refine: as in ``solve``.
      inverse: report on ``inv(a)`` instead, which has no b.
      eigenvalues: report on ``eigvalsh(a, lower=lower)`` instead, which has no b.
      eigenvectors: report on ``eigh(a, lower=lower)`` instead, which has no b.
      functions: report on functions of a Hermitian A, such as ``inv_sqrtm(a, lower=lower)``.
      mesh: as in ``solve``.
      calibrate: also estimate the time of the call. This runs two small calls of the same kind,
        each four times, on the same devices: some seconds, mostly for their programs. The estimate
        takes their times as c m n + d m n min(m, n). On two cores it was 0.6 to 1.3 of the time.

    Returns:
      A ``Plan``, whose report has been printed.

    Raises:
      ValueError, TypeError: those that ``solve`` would raise for these operands; a TypeError inside
        ``jax.jit``, where shardings are not known.

    Examples:
      >>> big = jax.ShapeDtypeStruct((4096, 4096), jnp.float32, sharding=a.sharding)
      >>> report = ms.plan(big, overwrite_a=True)
      matrix:        n = 4096, float32, 4 device(s), rows
      ...
      >>> report.moves
      ['the matrix is transposed across the devices, in their memory']
    """
    matrix, sides = _described(a, b)
    alone = {
        "inverse": inverse,
        "eigenvalues": eigenvalues,
        "eigenvectors": eigenvectors,
        "functions": functions,
    }
    if matrix.shape[0] == matrix.shape[1]:
        owned = (overwrite_a, overwrite_b, refine, alone, mesh)
        fields = _fields(_task(matrix, sides, lower, assume_a, *owned))
    else:
        others = alone | {"refine": refine, "lower": lower}
        others |= {"overwrite_b": overwrite_b, f"assume_a={assume_a!r}": assume_a != "gen"}
        others |= {"overwrite_a": overwrite_a and sides is not None}
        refused = [name for name, is_on in others.items() if is_on]
        fields = rectangle.fields(matrix, sides, overwrite_a, mesh, refused)
    kind = "".join(name for name, is_on in alone.items() if is_on)
    asked = calibration.Asked(kind, assume_a, lower, refine) if calibrate else None
    print(report := Plan(**fields, **calibration.fields(asked, fields, matrix, sides, mesh)))
    return report


def _described(a, b) -> tuple[Any, Any]:
    """Both operands with a shape and a dtype."""
    if executor(a, b) is not eager:
        raise wrong_type(
            "plan",
            "a, b",
            "arrays, or jax.ShapeDtypeStructs with shardings",
            "traced values, whose place is not known yet",
            "call plan outside of jax.jit",
        )
    expect_alive("plan", a=a, b=b)
    a = a if hasattr(a, "shape") else np.asarray(a)
    b = b if hasattr(b, "shape") or b is None else np.asarray(b)
    if len(a.shape) > 2 or (b is not None and len(b.shape) > 2):
        remedy = "of a batch ask for one matrix and for its right-hand sides"
        raise mistake("plan", "a, b", "one matrix [m, n], and b [m] or [m, k]", "a batch", remedy)
    check_any("plan", a)
    return a, b


def _fields(task: "_Task") -> dict[str, Any]:
    """The attributes of the plan of a square A."""
    layout = _layout(task)
    core, scratch = _of_library(task, layout)
    moves, amounts = _costs(task, layout, core)
    named = ("shard", "solver_shard", "block", "block_cyclic", "tiler", "widths", "workers")
    return {
        "m": task.n,
        "n": task.n,
        "padded": layout.padded,
        "dtype": task.dtype.name,
        "devices": layout.world,
        "processes": layout.processes,
        "visible": _visible(task.sharding, task.mesh),
        "storage": layout.at.storage if layout.at else "one device",
        "solves": "A^T" if core["is_transpose"] and not core["transposes_across"] else "A",
        "transposition": core["transposition"],
        "moves": moves,
        "bytes_per_device": amounts,
        "scratch_bytes": scratch,
    } | {name: core[name] for name in named}


class _Task(NamedTuple):
    """What a call is asked to do, after its checks; the arguments are those of ``plan``.

    ``instead`` names the one that asks for another function.
    """

    a: Any
    b: Any
    n: int
    dtype: Any
    structure: str
    lower: bool
    overwrite_a: bool
    overwrite_b: bool
    refine: bool
    instead: str
    mesh: Mesh | None

    @property
    def sharding(self) -> Any:
        """The sharding of A; None if it has none."""
        return getattr(self.a, "sharding", None)

    @property
    def lower_dtype(self) -> Any:
        """The dtype of a factor that is refined."""
        return refinement.lower_dtype(self.dtype) if self.refine else None


class _Layout(NamedTuple):
    """Where a call works.

    Attributes:
      at: the placement; None on one device.
      padded: the order of A with its padding.
      copied: why and to where A is copied; None if it is not.
      mode: the mode of right-hand sides.
      each: how many of them a device has.
    """

    at: Placement | None
    padded: int
    copied: str | None
    mode: str
    each: int

    @property
    def world(self) -> int:
        """The number of devices that share the matrix."""
        return self.at.world if self.at else 1

    @property
    def processes(self) -> int:
        """The number of processes that do."""
        return processes_of(self.at)


def _task(a, b, lower, assume_a, overwrite_a, overwrite_b, refine, alone, mesh) -> _Task:
    n = check_square("plan", a)
    if b is not None:
        check_rhs("plan", b, n)
    instead = _check_task(b is not None, refine, alone)
    structure = structure_of("plan", assume_a)
    dtype = common_dtype("plan", "a and b", a, *([] if b is None else [b]))
    if refine:
        refinement.check_dtype(dtype)
    padding.check_mesh("plan", mesh)
    padding.expect_mesh_of_rows("plan", a, mesh)
    owned = (overwrite_a, overwrite_b, refine, instead, mesh)
    return _Task(a, b, n, dtype, structure, lower, *owned)


def _layout(task: _Task) -> _Layout:
    a, mesh = task.a, task.mesh
    if mesh is None or padding.lies_on(task.sharding, mesh, task.n):
        at = None if task.sharding is None else eager.eager_placement("plan", a)
        copied = _copied(a, at, task.dtype, task.overwrite_a or task.refine)
    else:
        at = Placement(mesh, tuple(mesh.axis_names))
        copied = "A is copied to shards of rows"
    world = at.world if at else 1
    padded = -(-task.n // world) * world
    if padded > task.n:
        copied = f"{copied}, padded"
    k = 0 if task.b is None else math.prod(task.b.shape[1:])
    mode = shards.mode_of(k, world, padded)
    if mode == "rows" and padded > task.n:
        mode = "columns"  # zero columns are added with the rows
    return _Layout(at, padded, copied, mode, k if mode == "replicated" else -(-k // world))


def _of_library(task: _Task, layout: _Layout) -> tuple[dict[str, Any], int]:
    """The library's report, and the scratch of the call."""
    definite = task.structure == "positive definite"
    family = "po" if definite else "ge"
    storage = layout.at.storage if layout.at else "rows"
    plan_of = lambda routine, dtype: forecast(  # noqa: E731
        layout.at,
        routine,
        (layout.padded, layout.padded),
        layout.world,
        dtype.name,
        storage,
        task.lower,
        layout.each,
        layout.mode != "replicated",
        mirrored=task.structure in _MIRRORED,
    )
    if task.refine:
        core = plan_of(family + "trf", task.lower_dtype)
        rest = (family + "trs", task.lower_dtype), ("residual", task.dtype)
        others = [plan_of(*call) for call in (*rest, (family + "sv", task.dtype))]
        return core, max(report["scratch_bytes"] for report in (core, *others))
    if task.instead == "inverse":
        routine = "cholesky_inverse" if definite else "lu_inverse"
    elif task.instead:
        routine = "hermitian_function" if task.instead == "functions" else task.instead
    else:
        routine = family + ("trf" if task.b is None else "sv")
    core = plan_of(routine, task.dtype)
    return core, core["scratch_bytes"]


def _costs(task: _Task, layout: _Layout, core) -> tuple[list[str], dict[str, int]]:
    """The moves and copies in words, and the bytes of each device."""
    at, world, sharding = layout.at, layout.world, task.sharding
    moves, amounts = [], {"A": layout.padded**2 // world * task.dtype.itemsize}
    if task.b is not None:
        amounts["b"] = layout.padded * layout.each * task.dtype.itemsize
    if layout.copied:
        moves.append(layout.copied)
        amounts["copy of A"] = amounts["A"]
        if at and isinstance(sharding, NamedSharding) and is_two_way(sharding.spec):
            by_rows = eager.goes_by_rows(task.a, NamedSharding(at.mesh, at.spec("matrix", "")))
            amounts["exchange of A"] = amounts["A"] // (world if by_rows else 1)
    if task.refine:
        moves.append(f"A is copied to {task.lower_dtype}, of which the factor is made")
        amounts[f"A in {task.lower_dtype}"] = amounts["A"] // 2
        amounts["solution, residual, correction"] = 3 * amounts["b"]
    elif task.b is not None and not task.overwrite_b:
        moves.append("b is copied: overwrite_b is not set")
        amounts["copy of b"] = amounts["b"]
    if layout.processes < layout.world and layout.processes > 1:
        moves.append("the shards of each process are copied to one array, and back")
        amounts["copy for the process"] = sum(amounts[x] for x in ("A", "b") if x in amounts)
    moves += _of_solver(task, layout, core)
    if task.refine:
        again = "" if task.overwrite_a or layout.copied else "A is copied and "
        moves.append(f"if refinement does not converge: {again}all is done in {task.dtype}")
        if again:
            amounts["copy of A, if it does not converge"] = amounts["A"]
    if task.instead in ("eigenvectors", "functions"):
        amounts["eigenvectors"] = amounts["A"]
        if task.instead == "functions" or (at and at.storage != "rows"):
            moves.append("eigenvectors are transposed across the devices, in their memory")
    if task.instead == "inverse":
        sizes = {"n": task.n, "padded": layout.padded, "itemsize": task.dtype.itemsize}
        _tell_of_inverse(moves, amounts, core | sizes, task.a, at)
    return moves, amounts


def _of_solver(task: _Task, layout: _Layout, core) -> list[str]:
    """The moves of the solver itself."""
    moves, lower = [], "lower" if task.lower else "upper"
    if core["transposition"]:
        moves.append("every shard is transposed in its own memory")
    if layout.processes > 1:
        moves.append("columns are exchanged between processes, in place")
    if core["transposes_across"]:
        moves.append("the matrix is transposed across the devices, in their memory")
    if core["mirrors"] or task.structure in _MIRRORED:
        moves.append(f"the {lower} triangle is mirrored in place")
    if layout.mode == "rows":
        moves.append("right-hand sides are exchanged so that each device has whole columns")
    elif layout.mode == "columns" and layout.world > 1:
        moves.append("right-hand sides are distributed to the devices by columns")
    if layout.at is None and isinstance(task.sharding, NamedSharding):
        moves.append("one device solves for all, as they do not divide n")
    return moves


def _visible(sharding, mesh: Mesh | None) -> int:
    """Number of devices of the kind that will hold a matrix."""
    devices = mesh.devices.flat if mesh else sharding.device_set if sharding else jax.devices()
    return jax.local_device_count(next(iter(devices)).platform)


def _check_task(has_b: bool, refine: bool, alone: dict[str, bool]) -> str:
    """Which of the arguments that go alone is set, or ""."""
    asked = [name for name, is_on in alone.items() if is_on]
    if len(asked) > 1:
        raise mistake("plan", asked[0], f"False with {asked[1]}", "True", "ask for each by itself")
    if asked and (has_b or refine):
        functions = {"inverse": "inv", "eigenvalues": "eigvalsh", "eigenvectors": "eigh"}
        functions["functions"] = "inv_sqrtm"
        function = functions[asked[0]]
        got = "right-hand sides" if has_b else "refine=True"
        expected, remedy = f"A alone, as {function} takes it", f"leave them out, or {asked[0]}"
        raise mistake("plan", asked[0], expected, got, remedy)
    if refine and not has_b:
        remedy = "give b; factors are not refined"
        raise mistake("plan", "refine", "right-hand sides to solve for", "none", remedy)
    return asked[0] if asked else ""


def _tell_of_inverse(moves, amounts, report, a, at: Placement | None) -> None:
    """The moves and memory of the finished inverse."""
    n, itemsize = report["n"], report["itemsize"]
    if report["transposition"]:
        moves.append("every shard of the inverse is transposed back")
    sharding = getattr(a, "sharding", None)
    if report["padded"] > n:
        moves.append("the inverse is cut to n and comes to one device")
        amounts["there, while it is made"] = 2 * n * n * itemsize
    elif isinstance(sharding, NamedSharding):
        lies = at and NamedSharding(at.mesh, at.spec("matrix", ""))
        if not (lies and sharding.is_equivalent_to(lies, 2)):
            moves.append("the inverse is resharded as A is")
            amounts["resharded inverse"] = math.prod(sharding.shard_shape((n, n))) * itemsize


def _copied(a, at: Placement | None, dtype, overwrite_a: bool) -> str | None:
    """Why and to where A is copied, or None."""
    sharding = getattr(a, "sharding", None)
    if sharding is None:
        return "A is brought to a device"
    if a.dtype != dtype:
        return f"A is converted to {dtype}"
    if at:
        target = NamedSharding(at.mesh, at.spec("matrix", ""))
        if not sharding.is_equivalent_to(target, 2):
            axes = at.axes[0] if len(at.axes) == 1 else at.axes
            return f"A is resharded to P({axes!r}, None)"
    if eager.signature(a).column_major and not (at and at.storage == "column-major"):
        return "A is copied to row-major order"
    return None if overwrite_a else "A is copied: overwrite_a is not set"


def _bytes(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    power = min(int(math.log2(count)) // 10, 4)
    return f"{count / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"
