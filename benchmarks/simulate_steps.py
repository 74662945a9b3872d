"""What each worker of a factorisation does, in its order, as `src/algorithms` has it.

A worker is a generator. It yields tasks, announcements of panels, waits for them, and barriers of
several workers. `simulate_host.py` gives them time. The names of tasks are those of the spans of a
trace.
"""

from collections.abc import Iterator
from math import ceil, log2
from typing import NamedTuple

WORD = 8
LINE = 64
# Spans that make a panel.
PANELS = ("potrf", "trsm panel", "getrf panel")
# As in src/routines/solver/options.rs, src/device/cpu/sizes.rs and src/device/cpu/candidate.rs.
NARROW_BELOW, WIDE_FROM = 1536, 4096
TILES_BYTES = 2 << 20
STRIP = 8
# As in src/algorithms/lu/share.rs and src/comm/communicator.rs.
PANEL, BARRIERS, GAIN = 0.8, 1.3, 0.75
SHARED_ROWS, BARRIER_COST = 64, 80e3


class Task(NamedTuple):
    """Work of one worker between two events."""

    name: str
    k: int | None  # the panel
    ahead: bool  # whether it leads to the next panel
    width: int  # of the panel
    rows: int = 0
    columns: int = 0
    multiplications: float = 0.0
    packed: float = 0.0  # words of the panel that an update packs
    bytes: float = 0.0  # to and from memory
    exchanges: float = 0.0  # barriers of a group within the task


class Wait(NamedTuple):
    """Waits until panel `k` is announced."""

    k: int


class Announce(NamedTuple):
    """Panel `k` is ready."""

    k: int


class Meet(NamedTuple):
    """Waits until `size` workers have come to the barrier `key`."""

    key: tuple
    size: int


Action = Task | Wait | Announce | Meet


def tile_width(n: int, workers: int) -> int:
    """The width of a tile column in float64, as in `cpu_tile_width`."""
    if n < NARROW_BELOW:
        return 64
    return 128 if n // workers < WIDE_FROM else 256


class Call:
    """A factorisation: its method, its order, its tile columns and its number of workers."""

    def __init__(self, method: str, n: int, workers: int, devices: int, tile: int | None = None):
        self.method, self.n, self.workers = method, n, workers
        share, most = n // devices, tile or tile_width(n, workers)
        pieces = ceil(share / most)
        widths = [share // pieces + (i < share % pieces) for i in range(pieces)] * devices
        self.starts = [sum(widths[:t]) for t in range(len(widths))]
        self.widths, self.tiles = widths, len(widths)

    @property
    def operations(self) -> float:
        """Of the whole factorisation."""
        return self.n**3 * {"cholesky": 1 / 3, "lu": 2 / 3}[self.method]

    def program(self, me: int) -> Iterator[Action]:
        """The actions of worker ``me``."""
        return {"cholesky": _cholesky, "lu": _lu}[self.method](self, me)

    def owned(self, me: int, start: int) -> list[int]:
        """The tile columns of a worker from ``start`` on."""
        return [t for t in range(start, self.tiles) if t % self.workers == me]

    def sharers(self, t: int) -> int:
        """The number of workers that make panel ``t`` of LU, by the rule of share.rs."""
        rows, workers = self.n - self.starts[t], self.workers
        sharers = max(1, min(workers, rows // SHARED_ROWS))
        columns = self.tiles - t if t else 0
        work, barriers = columns + PANEL, BARRIERS * BARRIER_COST / (rows * self.widths[t])
        alone = max(min(columns, 1) + PANEL, work / workers)
        pays = work / sharers + barriers < GAIN * alone
        return sharers if sharers > 1 and pays else 1

    def update(self, k: int, targets: list[int], ahead: bool, parts: int = 1) -> Task:
        """The update of these columns by panel ``k``, or one worker's part of it by rows."""
        width = self.widths[k]
        top = lambda t: self.starts[t if self.method == "cholesky" else k + 1]  # noqa: E731
        entries = sum((self.n - top(t)) * self.widths[t] for t in targets) / parts
        most = max(1, TILES_BYTES // WORD // max(self.widths) ** 2)
        packed = sum(self.n - top(t) for t in targets[::most]) * width / parts
        columns = sum(self.widths[t] for t in targets)
        size = {"multiplications": entries * width, "packed": packed, "columns": columns}
        moved = WORD * (2 * entries + packed)
        rows = self.n - self.starts[k] - width
        return Task("update", k, ahead, width, rows, bytes=moved, **size)


def _cholesky(call: Call, me: int) -> Iterator[Action]:
    if me == 0:
        yield from _cholesky_panel(call, 0)
    for k in range(call.tiles):
        yield Wait(k)
        if k + 1 < call.tiles:
            if (k + 1) % call.workers == me:
                yield call.update(k, [k + 1], True)
                yield from _cholesky_panel(call, k + 1)
            yield call.update(k, call.owned(me, k + 2), False)


def _cholesky_panel(call: Call, k: int) -> Iterator[Action]:
    width = call.widths[k]
    rows = call.n - call.starts[k] - width
    yield Task("potrf", k, True, width, width, bytes=2 * WORD * width**2)
    yield Task("trsm panel", k, True, width, rows, bytes=2 * WORD * rows * width)
    yield Announce(k)


def _lu(call: Call, me: int) -> Iterator[Action]:
    yield from _lu_panel(call, me, 0, call.sharers(0))
    shared = False
    for k in range(call.tiles):
        yield Wait(k)
        if k + 1 == call.tiles:
            break
        sharers = call.sharers(k + 1)
        if sharers > 1 and not shared:
            yield Meet(("all", k), call.workers)
        shared = sharers > 1
        if shared:
            yield from _shared_step(call, me, k, sharers)
            continue
        if (k + 1) % call.workers == me:
            yield from _row(call, k, call.widths[k + 1], True)
            yield call.update(k, [k + 1], True)
            yield from _lu_panel(call, me, k + 1, 1)
        others = call.owned(me, k + 2)
        yield from _row(call, k, sum(call.widths[t] for t in others), False)
        yield call.update(k, others, False)
    yield Meet(("all", "factored"), call.workers)
    rest = sum(
        (call.n - call.starts[t] - call.widths[t]) * call.widths[t] for t in call.owned(me, 0)
    )
    yield Task("swap rows", None, False, call.widths[0], call.n, rest, bytes=_moved_by_swaps(rest))
    yield Meet(("all", "end"), call.workers)


def _row(call: Call, k: int, columns: int, ahead: bool) -> Iterator[Task]:
    """The interchanges of panel ``k`` in some columns, and their part of U."""
    width, rows = call.widths[k], call.n - call.starts[k]
    swapped = _moved_by_swaps(width * columns)
    yield Task("swap rows", k, ahead, width, rows, columns, bytes=swapped)
    made = {"bytes": 2 * WORD * width * columns, "multiplications": width**2 * columns / 2}
    yield Task("trsm", k, ahead, width, width, columns, **made)


def _moved_by_swaps(entries: float) -> float:
    """Bytes of so many interchanges: a whole line for the other row, both ways."""
    return 2 * (LINE + WORD) * entries


def _lu_panel(call: Call, me: int, t: int, sharers: int) -> Iterator[Action]:
    index = (me - t) % call.workers
    if index >= sharers:
        return
    if sharers > 1:
        yield Meet(("panel", t), sharers)
    width, rows = call.widths[t], (call.n - call.starts[t]) / sharers
    passes = 1 + max(0.0, log2(width / STRIP))
    exchanges = BARRIERS * width if sharers > 1 else 0
    moved = 2 * WORD * rows * width * passes
    yield Task("getrf panel", t, True, width, ceil(rows), bytes=moved, exchanges=exchanges)
    if index == 0:
        yield Announce(t)


def _shared_step(call: Call, me: int, k: int, sharers: int) -> Iterator[Action]:
    if (me - k - 1) % call.workers >= sharers:
        return
    columns = ceil((call.n - call.starts[k + 1]) / sharers / 8) * 8
    yield from _row(call, k, columns, False)
    yield Meet(("rows", k), sharers)
    yield call.update(k, list(range(k + 1, call.tiles)), False, sharers)
    yield from _lu_panel(call, me, k + 1, sharers)
