"""Two builds of the library, case by case: results, messages, memory and time.

Run: python benchmarks/compare.py OLD.whl NEW.whl [--out FOLDER] [--first 0] [--count 300]

The cases are those of compare_cases.py. Three processes, of the old wheel, of the new one, and of
the old one again, run each case by turns on CPU devices. The first call gives the bits of the
result or the message of the error, the scratch of the call, and the peak of the process above its
memory before. Then come 11 rounds of calls. The old wheel against itself gives the noise.

A case is different where bits, messages or scratch differ, where the peak is above that of the old
wheel by more than the noise and 5 % of A, or where time is longer by more than the noise and 3 %.
Peaks and times of small calls have modes that a process keeps. A difference of these counts only if
it is there in new processes as well, twice. FOLDER/compare.csv has a line for each case. The exit
status is 1 if a case is different.
"""

import argparse
import csv
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
COLUMNS = ("case", "same", "seconds", "new/old", "old/old", "peak_old", "peak_new", "differs")
# The smallest difference of peaks that counts: pages of threads and of the compiler.
PAGES = 2 << 20


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
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        import meshsolve as ms
        from memory import peak, reset_peak

        case = cases()[int(number)]
        a, b = operands(case, int(number))
        mesh = Mesh(np.array(jax.devices()[: case.ranks]), ("x",))
        columns = PartitionSpec(None, "x")
        specs = {"rows": PartitionSpec("x", None), "replicated": PartitionSpec()}
        sharding = NamedSharding(mesh, specs.get(case.storage, columns))
        where = Format(Layout((1, 0)), sharding) if case.storage == "column-major" else sharding
        a = jax.device_put(a, where)
        b = jax.device_put(b, NamedSharding(mesh, PartitionSpec()))
        function = lambda a, b: ROUTINES[case.routine].run(ms, a, b)  # noqa: E731
        if case.way == "jit":
            function = jax.jit(function)
        self._call = lambda: jax.block_until_ready(function(a, b))
        try:
            self._call()  # compiles
            before = reset_peak()
            leaves = jax.tree.leaves(self._call())
            above = peak() - before
        except Exception as error:
            self._call, self._calls = None, 0
            message = f"{type(error).__name__}: {error}".partition("\n--------------------")[0]
            return {"message": message}
        start = time.perf_counter()
        self._call()
        self._calls = max(1, round(SECONDS / (time.perf_counter() - start)))
        bits = [
            [str(leaf.dtype), leaf.shape, hashlib.sha256(np.asarray(leaf).tobytes()).hexdigest()]
            for leaf in leaves
        ]
        scratch = (ms.last_call() or {}).get("scratch_bytes")
        return {"bits": bits, "scratch": scratch, "peak": above, "bytes": a.nbytes}

    def turn(self) -> float | None:
        """Seconds of a call: the fastest of a turn."""
        times = []
        for _ in range(self._calls):
            start = time.perf_counter()
            self._call()
            times.append(time.perf_counter() - start)
        return min(times, default=None)


def ratios(workers: dict) -> tuple[float, float, float]:
    """Median seconds of the old wheel, and the median ratios of the new and of the old again."""
    rounds = [[worker.ask("turn") for worker in workers.values()] for _ in range(ROUNDS)]
    return tuple(
        statistics.median(times[k] / (times[0] if k else 1) for times in rounds) for k in range(3)
    )


def compared(workers: dict, number: int) -> dict:
    """The line of a case."""
    old, new, again = (worker.ask(f"run {number}") for worker in workers.values())
    same = [key for key in ("bits", "message", "scratch") if old.get(key) == again.get(key)]
    differs = [key for key in same if old.get(key) != new.get(key)]
    line = {"case": str(cases()[number])}
    if "bits" in old and "bits" in new:
        line |= {"peak_old": old["peak"], "peak_new": new["peak"]}
        noise = abs(again["peak"] - old["peak"]) + PEAK * old["bytes"] + PAGES
        if new["peak"] > max(old["peak"], again["peak"]) + noise:
            differs.append("peak")
        seconds, ratio, noise = ratios(workers)
        if ratio > 1 + MARGIN + abs(noise - 1):
            differs.append("time")
        line |= {"seconds": f"{seconds:.5f}", "new/old": f"{ratio:.3f}", "old/old": f"{noise:.3f}"}
    return line | {"same": " ".join(same), "differs": " ".join(differs)}


def lines(old: str, new: str, numbers) -> dict[int, dict]:
    """The lines of cases, by three processes with the wheels in these folders."""
    workers = {
        name: turns.Worker([__file__, "--serve", folder], name, False)
        for name, folder in (("old", old), ("new", new), ("again", old))
    }
    try:
        for worker in workers.values():
            worker.ask("prepare")
        return {number: compared(workers, number) for number in numbers}
    finally:
        for worker in workers.values():
            worker.end()


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
        made = lines(old, new, numbers)
        for _ in range(AGAIN):
            suspects = [k for k, line in made.items() if {*line["differs"].split()} & MEASURED]
            made |= lines(old, new, suspects) if suspects else {}
    for line in made.values():
        if line["differs"]:
            print(json.dumps(line))
    with open(options.out / "compare.csv", "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(made.values())
    different = sum(bool(line["differs"]) for line in made.values())
    failures = sum("seconds" not in line for line in made.values())
    print(f"{len(made)} cases, {failures} of messages alone: {different} different")
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
        sys.exit(main())
