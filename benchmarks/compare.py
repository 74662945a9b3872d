"""Two builds of the library, case by case: results, messages, memory and time.

Run: python benchmarks/compare.py OLD.whl NEW.whl [--out FOLDER] [--first 0] [--count 300]

The cases are those of compare_cases.py. Three processes, of the old wheel, of the new one, and of
the old one again, run each case by turns on CPU devices. The first call compiles. The first and the
second one give the bits, types, shapes and shardings of the result, or the message of the error.
The second one gives the peak of the process above its memory before. Then come 11 rounds of calls.
The old wheel against itself gives the noise.

A case is different where results, messages or figures of the call differ (less scratch is no
difference), where the peak is above
that of the old wheel by more than the noise and 5 % of A, or where time is longer by more than the
noise and 3 %. Peaks and times of small calls have modes that a process keeps. A difference of these
counts only if it is there in new processes as well, twice. FOLDER/compare.csv has a line for each
case. The exit status is 1 if a case is different.
"""

import argparse
import contextlib
import csv
import ctypes
import hashlib
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import environment
import turns
from compare_cases import ROUTINES, cases, operands
from wheels import installed

ROUNDS, MARGIN, PEAK = 11, 0.03, 0.05
# New processes for what may be chance.
AGAIN, MEASURED = 2, {"peak", "time"}
# A turn takes at least this number of seconds: the shortest calls repeat.
SECONDS = 0.02
COLUMNS = (
    *("case", "message", "seconds", "new/old", "old/old", "peak_old", "peak_new"),
    *("varies", "differs"),
)
# The smallest difference of peaks that counts: pages of threads and of the allocator.
PAGES = 256 << 10
# Memory that is no longer used goes back to the system, so that peaks show it.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
# Figures of `last_call()` that have to be equal.
FIGURES = ("n", "rhs", "ranks", "tiles", "tile", "scratch_bytes", "info")
SCRATCH = FIGURES.index("scratch_bytes")


class Cases:
    """All cases with the wheel in a folder; a row of turns.py."""

    def __init__(self, folder: str):
        sys.path.insert(0, folder)
        self.folder = folder

    def prepare(self) -> None:
        """Import the library."""
        import jax

        jax.config.update("jax_num_cpu_devices", 4)
        jax.config.update("jax_enable_x64", True)
        import meshsolve

        assert pathlib.Path(meshsolve.__file__).is_relative_to(self.folder), meshsolve.__file__

    def run(self, number: str) -> dict:
        """The first calls of a case: what they leave."""
        import jax
        import numpy as np
        from jax.experimental.layout import Format, Layout
        from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

        import meshsolve as ms
        from memory import peak, reset_peak

        case = cases()[int(number)]
        a, b = operands(case, int(number))
        axis_type = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}[case.axes]
        mesh = Mesh(np.array(jax.devices()[: case.ranks]), ("x",), axis_types=(axis_type,))
        columns = PartitionSpec(None, "x")
        specs = {"rows": PartitionSpec("x", None), "replicated": PartitionSpec()}
        sharding = NamedSharding(mesh, specs.get(case.storage, columns))
        where = Format(Layout((1, 0)), sharding) if case.storage == "column-major" else sharding
        a = jax.device_put(a, where)
        b = jax.device_put(b, NamedSharding(mesh, PartitionSpec()))
        function = lambda a, b: ROUTINES[case.routine].run(ms, a, b)  # noqa: E731
        if case.way == "jit":
            function = jax.jit(function)

        def call():
            with jax.set_mesh(mesh) if case.axes == "explicit" else contextlib.nullcontext():
                return jax.block_until_ready(function(a, b))

        self._call, self._calls = call, 0
        try:
            first = _described(call())
            ctypes.CDLL(None).malloc_trim(0)
            before = reset_peak()
            result = call()
            above = peak() - before
        except Exception as error:
            message = f"{type(error).__name__}: {error}".partition("\n--------------------")[0]
            return {"message": message}
        start = time.perf_counter()
        call()
        self._calls = max(1, round(SECONDS / (time.perf_counter() - start)))
        figures = ms.last_call() or {}
        return {
            "bits": [first, _described(result)],
            "figures": [figures.get(name) for name in FIGURES],
            "peak": above,
            "bytes": a.nbytes,
        }

    def turn(self) -> float | None:
        """Seconds of a call: the fastest of a turn."""
        times = []
        for _ in range(self._calls):
            start = time.perf_counter()
            self._call()
            times.append(time.perf_counter() - start)
        return min(times, default=None)


def _described(result) -> list:
    """Structure, types, shapes, shardings and bits of a result."""
    import jax
    import numpy as np

    leaves, structure = jax.tree.flatten(result)
    return [str(structure)] + [
        [str(leaf.aval), str(leaf.sharding), hashlib.sha256(np.asarray(leaf).tobytes()).hexdigest()]
        for leaf in leaves
    ]


def ratios(workers: dict) -> tuple[float, float, float]:
    """Median seconds of the old wheel, and the median ratios of the new and of the old again."""
    rounds = []
    for turn in range(ROUNDS):
        names = [*workers][turn % 3 :] + [*workers][: turn % 3]
        times = {name: workers[name].ask("turn") for name in names}
        rounds.append([times[name] for name in workers])
    return tuple(
        statistics.median(times[k] / (times[0] if k else 1) for times in rounds) for k in range(3)
    )


def no_worse(old: list | None, new: list | None) -> bool:
    """Whether figures are equal, but for less scratch."""
    if old is None or new is None or None in (old[SCRATCH], new[SCRATCH]):
        return old == new
    less = new[SCRATCH] <= old[SCRATCH]
    return less and old == [*new[:SCRATCH], old[SCRATCH], *new[SCRATCH + 1 :]]


def compared(workers: dict, number: int) -> dict:
    """The line of a case."""
    old, new, again = (worker.ask(f"run {number}") for worker in workers.values())
    differs = [key for key in ("bits", "message") if old.get(key) != new.get(key)]
    if not no_worse(old.get("figures"), new.get("figures")):
        differs.append("figures")
    varies = [key for key in ("bits", "message", "figures") if old.get(key) != again.get(key)]
    line = {"case": str(cases()[number]), "message": old.get("message", "")[:60]}
    if "bits" in old and "bits" in new:
        line |= {"peak_old": old["peak"], "peak_new": new["peak"]}
        noise = abs(again["peak"] - old["peak"]) + PEAK * old["bytes"] + PAGES
        if new["peak"] > max(old["peak"], again["peak"]) + noise:
            differs.append("peak")
        seconds, ratio, noise = ratios(workers)
        if ratio > 1 + MARGIN + abs(noise - 1):
            differs.append("time")
        line |= {"seconds": f"{seconds:.5f}", "new/old": f"{ratio:.3f}", "old/old": f"{noise:.3f}"}
    return line | {"varies": " ".join(varies), "differs": " ".join(differs)}


def lines(old: str, new: str, numbers):
    """Numbers of cases with their lines, by three processes with the wheels in these folders."""
    workers = {}
    try:
        for number in numbers:
            if not workers:
                workers = {
                    name: turns.Worker([__file__, "--serve", folder], name, False)
                    for name, folder in (("old", old), ("new", new), ("again", old))
                }
                for worker in workers.values():
                    worker.ask("prepare")
            try:
                yield number, compared(workers, number)
            except SystemExit as died:
                print(f"case {number}: {died}", file=sys.stderr)
                yield number, {"case": str(cases()[number]), "differs": "crash"}
                _end(workers)
    finally:
        _end(workers)


def _end(workers: dict) -> None:
    for worker in workers.values():
        worker.end()
    workers.clear()


def repeated(line: dict, later: dict) -> dict:
    """A line after a repetition: what is measured differs only if it does so again."""
    now = later["differs"].split()
    kept = [word for word in line["differs"].split() if word not in MEASURED or word in now]
    kept += [word for word in now if word not in MEASURED and word not in kept]
    return later | {"differs": " ".join(kept)}


def write(folder: pathlib.Path, made: dict[int, dict]) -> None:
    """The table of the cases until now."""
    with open(folder / "compare.csv", "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(made.values())


def main() -> int:
    """Print each case that differs, and a summary; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/compare"))
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=len(cases()), help="cases from there on")
    options = parser.parse_args()
    numbers = range(options.first, min(options.first + options.count, len(cases())))
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        where = pathlib.Path(folder)
        old, new = (
            installed(wheel, where / name)
            for name, wheel in (("old", options.old), ("new", options.new))
        )
        made = {}
        for number, line in lines(old, new, numbers):
            made[number] = line
            write(options.out, made)
        for _ in range(AGAIN):
            suspects = [k for k, line in made.items() if {*line["differs"].split()} & MEASURED]
            for number, later in lines(old, new, suspects):
                made[number] = repeated(made[number], later)
            write(options.out, made)
    for line in made.values():
        if line["differs"]:
            print(json.dumps(line))
    different = sum(bool(line["differs"]) for line in made.values())
    failures = sum("seconds" not in line for line in made.values())
    varying = sum(bool(line.get("varies")) for line in made.values())
    print(f"{len(made)} cases, {failures} of messages alone: {different} different")
    print(f"{varying} cases vary between two runs of the old wheel")
    timed = [float(line["new/old"]) for line in made.values() if "new/old" in line]
    if timed:
        print(f"new/old: median {statistics.median(timed):.3f}, largest {max(timed):.3f}")
    return int(different > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        turns.serve(lambda: Cases(*sys.argv[2:]))
    else:
        environment.restart()
        os.environ.update(ALLOCATOR)
        sys.exit(main())
