"""Times of the kernels of factorisations: traced calls, and a fit for each kind of span.

The cases take turns in one process. Each span's time is the median over the calls of a case,
without the first one.
"""

import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

import numpy as np

import environment
from simulate_steps import PANELS, Call, Task

ROUTINES = {"cholesky": "posv", "lu": "gesv"}
PRODUCT = 2048
COPIED = 1 << 28
# What the time of a span is linear in, by name.
SIZES = {
    "update": ("updates", "multiplications", "packed words"),
    "potrf": ("columns", "rows columns^2"),
    "trsm panel": ("columns", "rows columns^2"),
    "getrf panel": ("columns", "rows columns^2"),
    "trsm": ("columns", "multiplications"),
    "swap rows": ("pivots columns", "pivots columns rows"),
    "swap rows of L": ("pivots columns",),
}
Key = tuple[int, str, int | None, bool]  # worker, name, panel, whether for the next panel


class Case(NamedTuple):
    """Calls to measure; tile 0 leaves the width to the library."""

    method: str
    n: int
    tile: int


class Measured(NamedTuple):
    """Medians of a case: the factorisation, each span, and waking up from a wait for a panel."""

    seconds: float
    spans: dict[Key, float]
    wake: float | None


class Rates(NamedTuple):
    """Of this machine, before and after the calls."""

    product: list[float]  # operations in a second, one worker
    copy: list[float]  # bytes in a second that a copy by all workers reads and writes


def measure(cases: list[Case], workers: int, turns: int) -> tuple[dict[Case, Measured], Rates]:
    """Traces of all cases with that many workers, each on a device, and rates of this machine."""
    with tempfile.TemporaryDirectory() as scratch:
        here = pathlib.Path(scratch)
        own = environment.clean(
            MESHSOLVE_TRACE=str(here / "trace.json"),
            MESHSOLVE_THREADS=str(workers),
            XLA_FLAGS=f"--xla_force_host_platform_device_count={workers}",
            JAX_PLATFORMS="cpu",
        )
        asked = json.dumps([workers, turns, cases])
        ran = subprocess.run(
            [sys.executable, __file__, asked], env=own, capture_output=True, text=True
        )
        if ran.returncode:
            sys.exit(f"traced calls failed:\n{ran.stderr}")
        (written,) = here.glob("*.json")
        events = json.loads(written.read_text())
    spans = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            spans[event["args"]["call"]].append(event)
    numbers = sorted(e["args"]["call"] for e in events if e["ph"] == "b")
    later = {case: numbers[len(cases) + i :: len(cases)] for i, case in enumerate(cases)}
    found = {case: _medians([spans[number] for number in later[case]], workers) for case in cases}
    return found, Rates(**json.loads(ran.stdout.splitlines()[-1]))


def _medians(calls: list[list[dict]], workers: int) -> Measured:
    times, spans, wakes = [], collections.defaultdict(list), []
    for events in calls:
        factor = [e for e in events if e["name"] == "factor"]
        since, until = min(e["ts"] for e in factor), max(map(_end, factor))
        times.append((until - since) / 1e6)
        inside = [e for e in events if e not in factor and since <= e["ts"] and _end(e) <= until]
        for key, seconds in _sums(inside, workers).items():
            spans[key].append(seconds)
        wakes += _wakes(inside)
    medians = {key: statistics.median(seconds) for key, seconds in spans.items()}
    wake = statistics.median(wakes) / 1e6 if wakes else None
    return Measured(statistics.median(times), medians, wake)


def _end(event: dict) -> float:
    return event["ts"] + event["dur"]


def _sums(events: list[dict], workers: int) -> dict[Key, float]:
    """Seconds of spans. A panel's owner begins every step with the column of the next panel."""
    sums, seen = collections.Counter(), set()
    for event in sorted(events, key=lambda e: e["ts"]):
        name, k, worker = event["name"], event["args"].get("k"), event["tid"] % workers
        place = worker, name, k
        owns_next = k is not None and (k + 1) % workers == worker and place not in seen
        seen.add(place)
        sums[*place, name in PANELS or owns_next] += event["dur"] / 1e6
    return dict(sums)


def _wakes(events: list[dict]) -> list[float]:
    """Microseconds from the end of a panel to the end of a wait for it, where there was one."""
    ready = {}
    for event in events:
        if event["name"] in PANELS:
            k = event["args"]["k"]
            ready[k] = max(ready.get(k, 0.0), _end(event))
    waits = (e for e in events if e["name"] == "wait for panel")
    late = ((_end(e) - ready[e["args"]["k"]], e["dur"]) for e in waits if e["args"]["k"] in ready)
    return [delay for delay, waited in late if waited > delay > 0]


def _features(task: Task) -> tuple[float, ...]:
    """The values of ``SIZES``."""
    if task.name == "update":
        return 1.0, task.multiplications, task.packed
    if task.name in PANELS:
        return task.width, task.rows * task.width**2
    if task.name == "trsm":
        return task.columns, task.multiplications
    if task.k is None:
        return (float(task.columns),)
    return task.width * task.columns, task.width * task.columns * task.rows


class Fit(NamedTuple):
    """Coefficients of a kind of span, and the sum of their errors over that of the times."""

    coefficients: np.ndarray
    error: float
    spans: int
    seconds: float


Kind = tuple[str, str, int]  # the method, the name, the width of tiles


def fit(measured: dict[Case, Measured], workers: int = 1) -> dict[Kind, Fit]:
    """Fits of all kinds, from calls of so many workers. Errors weigh as the square root of time."""
    from scipy.optimize import nnls

    samples = collections.defaultdict(list)
    for case, found in measured.items():
        call = Call(case.method, case.n, workers, workers, case.tile or None)
        done = ((me, task) for me in range(workers) for task in call.program(me))
        for me, task in done:
            if not isinstance(task, Task) or not (task.columns or task.rows):
                continue
            if seconds := found.spans.get((me, task.name, task.k, task.ahead)):
                kind = case.method, _name(task), task.width
                samples[kind].append((_features(task), seconds))
    fits = {}
    for kind, pairs in samples.items():
        features, seconds = np.array([f for f, _ in pairs]), np.array([s for _, s in pairs])
        scale, weights = np.abs(features).max(0), seconds**-0.5
        scaled = features / np.where(scale > 0, scale, 1) * weights[:, None]
        found, _ = nnls(scaled, seconds * weights)
        coefficients = found / np.where(scale > 0, scale, 1)
        missed = float(np.abs(features @ coefficients - seconds).sum() / seconds.sum())
        fits[kind] = Fit(coefficients, missed, len(pairs), float(seconds.sum()))
    return fits


def _name(task: Task) -> str:
    return "swap rows of L" if task.name == "swap rows" and task.k is None else task.name


def seconds_by(fits: dict[Kind, Fit]):
    """The seconds of a task, by the fit of the nearest width."""
    kinds = collections.defaultdict(list)
    for method, name, width in fits:
        kinds[method, name].append(width)

    def seconds(method: str, task: Task) -> float:
        if task.name == "update" and not task.columns:
            return 0.0
        name = _name(task)
        width = min(kinds[method, name], key=lambda width: abs(width - task.width))
        return float(np.dot(fits[method, name, width].coefficients, _features(task)))

    return seconds


def _serve(workers: int, turns: int, cases: list) -> None:
    """Makes the calls in this process, and prints its rates."""
    import jax
    import jax.numpy as jnp

    import measures
    from contenders import ffi_solver, matrix

    jax.config.update("jax_enable_x64", True)
    rates = {"product": [], "copy": []}
    solvers = [ffi_solver(ROUTINES[m], **({"tile": np.int64(t)} if t else {})) for m, _, t in cases]

    def take_rates() -> None:
        seconds = [measures.gemm_seconds("float64", PRODUCT, 1) for _ in range(5)]
        rates["product"].append(2 * PRODUCT**3 / statistics.median(seconds))
        seconds = [measures.copy_seconds(COPIED, workers) for _ in range(5)]
        rates["copy"].append(2 * COPIED / statistics.median(seconds))

    take_rates()
    for _ in range(turns + 1):
        for (method, n, _), solve in zip(cases, solvers, strict=True):
            a = jax.block_until_ready(matrix(method, n, "float64"))
            jax.block_until_ready(solve(a, jnp.ones((n, 1))))
    take_rates()
    print(json.dumps(rates))


if __name__ == "__main__":
    _serve(*json.loads(sys.argv[1]))
