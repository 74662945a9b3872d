"""Factorisations on many workers of one host, simulated from kernel times of one worker here.

Run: python benchmarks/simulate.py [--out FOLDER] [--bandwidth here,400] [--workers 16,64]

The program traces calls with one worker and fits the time of each kind of span to its size. Then it
runs the programs of all workers (`simulate_steps.py`) in simulated time (`simulate_host.py`). It
compares the simulation with real calls of one and of two workers: `error`. `replay_error` is that
of a simulation with the kernel times of the same calls of two workers. So it shows the error of the
schedule alone. The table goes to FOLDER/simulated-cpu.csv. The model assumes:

- A core of the simulated host computes as fast as one core here does while the other one is idle.
  Clocks do not fall with the number of busy cores.
- A kernel takes the time of the fit. Panels higher than those measured are extrapolated, linear in
  their rows.
- Every update reads and writes its part of C in memory, and reads the panel once for each group of
  packed tiles. Every interchange moves a whole line. A panel of LU passes over memory once and once
  more for each halving. No cache holds anything between two tasks.
- All workers share one bandwidth. While they want more, those that want most get equal parts. One
  worker moves at most what a copy by one thread moves. Sockets and their links do not exist.
- `--bandwidth` has GB/s of a host with 64 cores; a host with P cores has P / 64 of it. "here" is
  this machine's copy, in proportion to its cores.
- A worker that waits needs `--wake` microseconds to go on; by default what two workers needed here.
  A barrier of a group takes `--exchange` microseconds, for groups of any size (an assumption).
- Every worker has a device of its own, unless `--devices` says otherwise. The memory of its tile
  columns does not matter.

`share` is the rate over P times that of one worker's product (faer's, as in the other tables). The
columns after it are parts of the critical path. That is the chain of tasks that ends last; a wait
leads to the worker that ended it. "update_next" and "row_next" are of the next panel's column: its
update, and its interchanges with its tile of U. "memory" is time above that of the fits. "waits"
are wake-ups and barriers of groups. `idle` is the mean share of workers' time in waits. `binds` is
the largest of memory, waits, "panel" (with what leads to the next one) and "updates" (with
substitutions and interchanges).
"""

import argparse
import csv
import pathlib
import statistics
from typing import NamedTuple

import simulate_kernels as kernels
from commit import commit, machine
from simulate_host import PARTS, Host, Outcome, Simulation
from simulate_steps import Call

METHODS = ("cholesky", "lu")
CORES = 64
COLUMNS = (
    *("method", "n", "workers", "tile", "bandwidth", "gb_per_s", "seconds", "measured", "error"),
    "replay_error",
    *("share", "binds", *PARTS, "idle", "product_gflops", "product_moved", "commit", "machine"),
)


class Plan(NamedTuple):
    """The orders of a run: simulated, compared with real calls, and of traced calls by width."""

    simulated: tuple[int, ...]
    compared: tuple[int, ...]
    wide: tuple[int, ...]
    narrow: tuple[int, ...]
    turns: int


FULL = Plan((2048, 4096, 8192, 16384, 32768), (2048, 4096), (2048, 4096), (1024, 2048), 5)
QUICK = Plan((512,), (256,), (256, 512), (256, 512), 2)


def main() -> None:
    """Measure, fit, compare, simulate."""
    options = _options()
    plan = QUICK if options.quick else FULL
    counts = [int(count) for count in options.workers.split(",")]
    calls = [
        Call(method, n, count, options.devices or count)
        for method in METHODS
        for count in counts
        for n in plan.simulated
    ]
    real = {n: Call("lu", n, 2, 2) for n in plan.compared}
    widths = {width for call in [*calls, *real.values()] for width in call.widths}
    traced = [
        kernels.Case(method, n, width)
        for width in sorted(widths)
        for n in (plan.wide if width >= 128 else plan.narrow)
        for method in METHODS
    ]
    alone, rates = kernels.measure(traced, 1, plan.turns)
    both = [kernels.Case(method, n, 0) for method in METHODS for n in plan.compared]
    together, rates_of_two = kernels.measure(both, 2, plan.turns + 2)
    fits = kernels.fit(alone)
    _print_fits(fits)
    wakes = [found.wake for found in together.values() if found.wake]
    wake = statistics.median(wakes or [1e-5]) if options.wake is None else options.wake * 1e-6
    product, copy, copy_of_one = (
        statistics.median(values) for values in (rates.product, rates_of_two.copy, rates.copy)
    )
    seconds, exchange = kernels.seconds_by(fits), options.exchange * 1e-6
    host = Host(seconds, copy_of_one, copy, wake, exchange)
    disturbed = [_moved(rates.product), _moved(rates_of_two.product)]
    fixed = {"product_gflops": f"{product / 1e9:.1f}", "product_moved": f"{max(disturbed):.3f}"}
    fixed |= {"commit": commit(), "machine": machine()}
    print(f"\nwaking up: {wake * 1e6:.0f} us, a barrier of a group: {options.exchange:.1f} us")
    print(f"product rates moved by {disturbed[0]:.2f} (one worker), {disturbed[1]:.2f} (two)\n")
    rows = []

    def add(call: Call, name: str, bandwidth: float, measured: float | None = None) -> None:
        outcome = Simulation(call, host._replace(bandwidth=bandwidth)).run()
        place = {"bandwidth": name, "gb_per_s": f"{bandwidth / 1e9:.0f}"}
        rows.append(_row(call, outcome, product, measured) | place | fixed)

    for case, found in alone.items():
        if case.n in real and case.tile in real[case.n].widths:
            add(Call(case.method, case.n, 1, 1, case.tile), "here", copy_of_one, found.seconds)
    for case, found in together.items():
        call = Call(case.method, case.n, 2, 2)
        add(call, "here", copy, found.seconds)
        own = host._replace(seconds=kernels.seconds_by(kernels.fit({case: found}, 2)))
        replayed = Simulation(call, own).run().seconds
        rows[-1]["replay_error"] = f"{replayed / found.seconds - 1:+.3f}"
    for call in calls:
        for name in options.bandwidth.split(","):
            of_a_core = copy / 2 if name == "here" else float(name) * 1e9 / CORES
            add(call, name, of_a_core * call.workers)
    _write(rows, options.out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument("--workers", default="16,64", help="comma-separated numbers of workers")
    parser.add_argument("--devices", type=int, default=0, help="0: one for each worker")
    parser.add_argument("--bandwidth", default="here,400", help="comma-separated")
    parser.add_argument("--wake", type=float, help="microseconds")
    parser.add_argument("--exchange", type=float, default=2.0, help="microseconds")
    parser.add_argument("--quick", action="store_true", help="small orders, for a test")
    return parser.parse_args()


def _moved(rates: list[float]) -> float:
    return 1 - min(rates) / max(rates)


def _print_fits(fits: dict[kernels.Kind, kernels.Fit]) -> None:
    """Each kind of span with its coefficients."""
    print("fits: seconds = sum of coefficient x size; error: sum of misses / sum of seconds")
    print(f"{'method':9}{'span':15}{'tile':>5}{'spans':>6}{'seconds':>9}{'error':>7}  coefficients")
    for (method, name, width), found in fits.items():
        pairs = zip(found.coefficients, kernels.SIZES[name], strict=True)
        terms = " + ".join(f"{c:.3g} {size}" for c, size in pairs if c) or "0"
        print(f"{method:9}{name:15}{width:5}{found.spans:6}{found.seconds:9.4f}", end="")
        print(f"{found.error:7.3f}  {terms}")


def _row(call: Call, outcome: Outcome, product: float, measured: float | None) -> dict:
    seconds, path = outcome.seconds, outcome.path
    row = {"method": call.method, "n": call.n, "workers": call.workers, "tile": max(call.widths)}
    row["seconds"] = f"{seconds:.4f}"
    if measured:
        row |= {"measured": f"{measured:.4f}", "error": f"{seconds / measured - 1:+.3f}"}
    row["share"] = f"{call.operations / seconds / call.workers / product:.3f}"
    row |= {part: f"{path[part] / seconds:.3f}" for part in PARTS}
    limits = {
        "panel": sum(path[part] for part in ("panel", "update_next", "row_next")),
        "updates": sum(path[part] for part in ("update", "substitution", "interchange")),
        "memory": path["memory"],
        "waits": path["waits"],
    }
    return row | {"binds": max(limits, key=limits.__getitem__), "idle": f"{outcome.idle:.3f}"}


def _write(rows: list[dict], folder: pathlib.Path) -> None:
    """The table, as a file and in print without what is the same in all rows."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "simulated-cpu.csv"
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n", restval="")
        table.writeheader()
        table.writerows(rows)
    shown = COLUMNS[: COLUMNS.index("product_gflops")]
    for row in [dict(zip(shown, shown, strict=True)), *rows]:
        print(" ".join(f"{row.get(name, ''):>{max(8, len(name))}}" for name in shown))
    print(f"{path}: product {rows[0]['product_gflops']} GF/s, {rows[0]['machine']}")


if __name__ == "__main__":
    main()
