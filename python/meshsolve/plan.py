"""What a call will do, before anything runs: ``plan``."""

import dataclasses
import math

import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding

from meshsolve import _core, _dispatch, _padding
from meshsolve._errors import wrong_type
from meshsolve._operands import check_rhs, check_square, common_dtype
from meshsolve._sharding import Placement
from meshsolve.solve import structure_of


@dataclasses.dataclass(frozen=True)
class Plan:
    """What ``solve``, ``cho_factor`` or ``lu_factor`` will do; ``str(plan)`` is a report.

    Layouts are written ``shape:stride`` as in CuTe: coordinate (i, j) lies at i and j times the
    strides, in elements.

    Attributes:
      n: order of A, and ``padded`` with the identity corner.
      padded: order of the matrix that is factored.
      dtype: name of the dtype that all operands are promoted to.
      devices: number of devices that share the matrix.
      storage: how A is solved: by "rows", by "columns", by columns and "column-major", or on "one
        device".
      shard: layout of one device's part of A.
      solver_shard: layout of the same memory as the solver's matrix B has it, after moves.
      solves: what B is in terms of A: "A" or "A^T".
      natural: global column to position (shards side by side) in natural order, in which the host
        works; None if tiles differ in width.
      cyclic: the same in 1-D block-cyclic order.
      tiler: number of a tile to its place in block-cyclic order, whatever the widths.
      widths: pairs (width, how many tiles of it), wider ones first.
      lanes: threads that work.
      transposition: what is done to each shard in its own memory, or None.
      moves: what is moved or copied, in words, in order.
      bytes_per_device: a dictionary: A, right-hand sides, copies.
      scratch_bytes: scratch of the whole call.
    """

    n: int
    padded: int
    dtype: str
    devices: int
    storage: str
    shard: str
    solver_shard: str
    solves: str
    natural: str | None
    cyclic: str | None
    tiler: str
    widths: list[tuple[int, int]]
    lanes: int
    transposition: str | None
    moves: list[str]
    bytes_per_device: dict[str, int]
    scratch_bytes: int

    def __str__(self) -> str:
        """Return the report."""
        order = f"n = {self.n}" + (f", padded to {self.padded}" if self.padded > self.n else "")
        tiles = " + ".join(f"{count} of {width}" for width, count in self.widths)
        amounts = ", ".join(f"{name} {_bytes(b)}" for name, b in self.bytes_per_device.items())
        lines = {
            "matrix": f"{order}, {self.dtype}, {self.devices} device(s), {self.storage}",
            "shard": f"{self.shard}, factored as B = {self.solves}: {self.solver_shard}",
            "column order": f"natural {self.natural or '(uneven tiles)'}; block-cyclic "
            f"{self.cyclic or f'tiles {self.tiler}'}",
            "tiles": f"{tiles} columns, {self.lanes} lane(s)",
            "transposition": self.transposition or "none",
            "moves": "; ".join(self.moves) or "nothing",
            "per device": amounts,
            "scratch": _bytes(self.scratch_bytes),
        }
        return "\n".join(f"{name + ':':<15}{text}" for name, text in lines.items())


def plan(
    a,
    b=None,
    lower: bool = False,
    *,
    assume_a: str = "gen",
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    mesh: Mesh | None = None,
) -> Plan:
    """Print what ``solve(a, b, ...)`` will do, and return it; nothing is computed or moved.

    Args:
      a: [n, n], as given to ``solve``: an array, or a ``jax.ShapeDtypeStruct`` with a sharding.
      b: right-hand sides likewise; None for ``lu_factor(a)``, or ``cho_factor(a)`` if ``assume_a``
        is "pos".
      lower: which triangle of A will be read, where one is enough.
      assume_a: as in ``solve``.
      overwrite_a: whether A will be donated.
      overwrite_b: whether B will be donated.
      mesh: as in ``solve``.

    Returns:
      A ``Plan``, whose report has been printed.

    Raises:
      ValueError, TypeError: those that ``solve`` would raise for these operands.
    """
    if isinstance(a, Tracer) or isinstance(b, Tracer):
        raise wrong_type(
            "plan",
            "a, b",
            "arrays, or jax.ShapeDtypeStructs with shardings",
            "traced values, whose place is not known yet",
            "call plan outside of jax.jit",
        )
    a = a if hasattr(a, "shape") else np.asarray(a)
    b = b if hasattr(b, "shape") or b is None else np.asarray(b)
    n = check_square("plan", a)
    if b is not None:
        check_rhs("plan", b, n)
    structure = structure_of("plan", assume_a)
    dtype = common_dtype("plan", "a and b", a, *([] if b is None else [b]))
    _padding.check_mesh("plan", mesh)
    sharding = getattr(a, "sharding", None)
    if mesh is None or _padding.lies_on(sharding, mesh, n):
        at = None if sharding is None else _dispatch.eager_placement("plan", a)
        copied = _copied(a, at, dtype, overwrite_a)
    else:
        at = Placement(mesh, tuple(mesh.axis_names))
        copied = "A is copied to shards of rows"
    world = at.world if at else 1
    padded = -(-n // world) * world
    if padded > n:
        copied = f"{copied}, padded"
    k = 0 if b is None else math.prod(b.shape[1:])
    mode = _dispatch.mode_of(k, world)
    if mode == "rows" and padded > n:
        mode = "columns"  # zero columns are added with the rows
    storage = at.storage if at else "rows"
    each = k if mode == "replicated" else -(-k // world)
    family = "po" if structure == "positive definite" else "ge"
    routine = family + ("trf" if b is None else "sv")
    dealt = mode != "replicated"
    core = _core.plan(routine, padded, world, dtype.name, storage, lower, each, dealt)

    amounts = {"A": padded * padded // world * dtype.itemsize}
    if b is not None:
        amounts["b"] = padded * each * dtype.itemsize
    moves = []
    if copied:
        moves.append(copied)
        amounts["copy of A"] = amounts["A"]
    if b is not None and not overwrite_b:
        moves.append("b is copied: overwrite_b is not set")
        amounts["copy of b"] = amounts["b"]
    if core["transposition"]:
        moves.append("every shard is transposed in its own memory")
    if core["transposes_across"]:
        moves.append("the matrix is transposed across the devices, in their memory")
    if core["mirrors"] or structure in ("hermitian", "symmetric"):
        moves.append(f"the {'lower' if lower else 'upper'} triangle is mirrored in place")
    if mode == "rows":
        moves.append("right-hand sides are exchanged so that each device has whole columns")
    elif mode == "columns" and world > 1:
        moves.append("right-hand sides are dealt to the devices by columns")
    if at is None and isinstance(sharding, NamedSharding):
        moves.append("one device solves for all, as they do not divide n")
    report = Plan(
        n=n,
        padded=padded,
        dtype=dtype.name,
        devices=world,
        storage=storage if at else "one device",
        shard=core["shard"],
        solver_shard=core["solver_shard"],
        solves="A^T" if core["is_transpose"] and not core["transposes_across"] else "A",
        natural=core["natural"],
        cyclic=core["cyclic"],
        tiler=core["tiler"],
        widths=core["widths"],
        lanes=core["lanes"],
        transposition=core["transposition"],
        moves=moves,
        bytes_per_device=amounts,
        scratch_bytes=core["scratch_bytes"],
    )
    print(report)
    return report


def _copied(a, at: Placement | None, dtype, overwrite_a: bool) -> str | None:
    """Why and to where A is copied, if it is."""
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
    if _dispatch.is_column_major(a) and not (at and at.storage == "column-major"):
        return "A is copied to row-major order"
    return None if overwrite_a else "A is copied: overwrite_a is not set"


def _bytes(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    power = min(int(math.log2(count)) // 10, 4)
    return f"{count / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"
