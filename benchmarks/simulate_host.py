"""A discrete simulation of the workers of `simulate_steps.py` that share the memory of one host.

Every task has the seconds that it takes alone, and bytes. While the tasks of all workers together
move more bytes in a second than the host can, those that move most get equal parts of it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from simulate_steps import PANELS, Announce, Call, Meet, Task, Wait

PARTS = (
    *("panel", "update_next", "row_next", "update", "substitution", "interchange"),
    *("memory", "waits"),
)
TINY = 1e-12


class Host(NamedTuple):
    """A machine: what a task costs there, and what its workers share."""

    seconds: Callable[[str, Task], float]  # of a task of a method, with one worker
    alone: float  # bytes that one worker moves in a second
    bandwidth: float  # bytes that all workers together move in a second
    wake: float  # seconds from the end of a wait to the next task
    exchange: float  # seconds of a barrier of a group


class Span(NamedTuple):
    """A task or a wait of a worker, after the fact."""

    start: float
    parts: dict[str, float]  # seconds, by part
    released_by: int | None = None  # the worker that ended a wait
    released: float = 0.0


class Outcome(NamedTuple):
    """The simulated time, the parts of its critical path, and the share of waits of all workers."""

    seconds: float
    path: dict[str, float]
    idle: float


def part_of(task: Task) -> str:
    """The part of the time to which a task belongs."""
    if task.name == "update":
        return "update_next" if task.ahead else "update"
    if task.name in PANELS:
        return "panel"
    if task.ahead:
        return "row_next"
    return "substitution" if task.name == "trsm" else "interchange"


class Simulation:
    """The state of all workers."""

    def __init__(self, call: Call, host: Host):
        self.call, self.host, self.now = call, host, 0.0
        count = call.workers
        self.programs = [call.program(me) for me in range(count)]
        self.left = np.full(count, np.inf)  # seconds at full speed
        self.demand = np.zeros(count)  # bytes in a second at full speed
        self.running: list[tuple[float, dict[str, float]] | None] = [None] * count
        self.spans: list[list[Span]] = [[] for _ in range(count)]
        self.announced: dict[int, tuple[float, int]] = {}
        self.waiting: dict[object, list[tuple[int, float]]] = {}
        self.ends = [0.0] * count

    def run(self) -> Outcome:
        """All programs to their ends."""
        for me in range(self.call.workers):
            self.proceed(me)
        while np.isfinite(self.left).any():
            rates = self.rates()
            step = float((self.left / rates).min())
            self.now += step
            self.left -= rates * step
            for me in np.flatnonzero(self.left <= TINY):
                self.finish(int(me))
        assert not any(self.waiting.values()), "workers that wait for ever"
        seconds = max(self.ends)
        busy = sum(
            sum(span.parts.values()) - span.parts.get("waits", 0.0)
            for spans in self.spans
            for span in spans
        )
        idle = max(0.0, 1 - busy / seconds / self.call.workers)
        return Outcome(seconds, self.critical_path(), idle)

    def rates(self) -> np.ndarray:
        """The speed of each worker, 1 if memory does not limit it."""
        total, demand = self.host.bandwidth, self.demand
        if demand.sum() <= total:
            return np.ones_like(demand)
        ordered, left = np.sort(demand), total
        for i, wanted in enumerate(ordered):
            level = left / (len(ordered) - i)
            if wanted > level:
                return np.minimum(1, level / np.maximum(demand, TINY))
            left -= wanted
        return np.ones_like(demand)

    def start(self, me: int, parts: dict[str, float], moved: float = 0.0) -> None:
        """Occupies a worker for the seconds of these parts."""
        seconds = sum(parts.values())
        self.left[me] = seconds
        self.demand[me] = min(moved / seconds, self.host.alone) if moved else 0.0
        self.running[me] = (self.now, parts)

    def finish(self, me: int) -> None:
        """Ends a worker's task and starts its next one."""
        task = self.running[me]
        assert task
        since, parts = task
        stretched = max(0.0, self.now - since - sum(parts.values()))
        self.spans[me].append(Span(since, parts | {"memory": stretched}))
        self.left[me], self.demand[me] = np.inf, 0
        self.proceed(me)

    def proceed(self, me: int) -> None:
        """Runs a worker's program up to its next task or wait."""
        for action in self.programs[me]:
            match action:
                case Task():
                    seconds = self.host.seconds(self.call.method, action)
                    exchanges = action.exchanges * self.host.exchange
                    if seconds + exchanges > TINY:
                        parts = {part_of(action): seconds, "waits": exchanges}
                        return self.start(me, parts, action.bytes)
                case Announce(k):
                    self.announced[k] = (self.now, me)
                    self.release(k, me)
                case Wait(k):
                    if k not in self.announced:
                        return self.sleep(me, k)
                case Meet(key, size):
                    if len(self.waiting.get(key, [])) + 1 < size:
                        return self.sleep(me, key)
                    self.release(key, me)
        self.ends[me] = self.now
        return None

    def sleep(self, me: int, key: object) -> None:
        """Lets a worker wait."""
        self.waiting.setdefault(key, []).append((me, self.now))

    def release(self, key: object, by: int) -> None:
        """Ends the waits of all workers at ``key``; they wake up later."""
        for me, since in self.waiting.pop(key, []):
            self.spans[me].append(Span(since, {"waits": self.now - since}, by, self.now))
            self.start(me, {"waits": self.host.wake})

    def critical_path(self) -> dict[str, float]:
        """Seconds by part on the chain of tasks that ends last. A wait leads to the worker that
        ended it, so that only its wake-up counts.
        """
        path = dict.fromkeys(PARTS, 0.0)
        me = max(range(self.call.workers), key=lambda worker: self.ends[worker])
        places = [len(spans) - 1 for spans in self.spans]
        while places[me] >= 0:
            span = self.spans[me][places[me]]
            places[me] -= 1
            if span.released_by is None:
                for part, seconds in span.parts.items():
                    path[part] += seconds
                continue
            me = span.released_by
            while places[me] >= 0 and self.spans[me][places[me]].start >= span.released - TINY:
                places[me] -= 1
        return path
