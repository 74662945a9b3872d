"""In-place transposition against copies of memory and other methods: a CSV line each.

Run: python benchmarks/transpose.py [--out build/bench] [--quick] [--only table|landscape]
     [--threads 1,2] [--methods chosen,C2R,R2C] [--bytes 8] [--huge-pages]

There are two files: a table of named shapes with all methods, and a landscape over random shapes.
Then transpose_report.py draws both and compares them with the bars.

| method | meaning |
|---|---|
| chosen | meshsolve as `Plan::new` decides |
| C2R, R2C | these, whatever the shape |
| shared scratch | the choice of `Plan::offered` with ample memory |
| across 4 shards | a square one, as in `lu_factor` by rows of four devices |
| out of place | tiles through a buffer into a second array, streaming or ordinary stores |
| transpose crate | `transpose::transpose_inplace`, one thread, measured once |
| numpy | `np.ascontiguousarray(x.T)`, one thread |

Throughput counts one read and one write of every element, 2 m n size / t, whatever the passes. Its
share is relative to the faster of an ordinary and a streaming copy by as many threads. These copies
take turns with the methods in the same process. Times are medians. Every element of every answer is
checked.
"""

import argparse
import csv
import os
import pathlib
import random
import statistics
import sys
from typing import NamedTuple

import environment
import transpose_report
from commit import commit
from rivals import METHODS, SINGLE, Rivals, versions

COLUMNS = (
    *("kind", "rows", "cols", "bytes", "pages", "threads", "method", "gb_per_s"),
    *("copy_gb_per_s", "share_of_copy", "extra_bytes", "plan", "versions", "commit"),
)


def shapes() -> list[tuple[str, int, int, int]]:
    """The shapes of the table: kind, rows, columns, bytes of an element."""
    shards = [("square", 8192, 8192, 8), ("square", 8400, 8400, 8)]
    for shares in range(2, 9):
        n = 8192 if shares in (2, 4, 8) else 8400
        shards.append((f"P = {shares} tall", n, n // shares, 8))
        shards.append((f"P = {shares} wide", n // shares, n, 8))
    sizes = [("square", 8192, 8192, 4), ("square", 6000, 6000, 16)]
    for size, n in ((4, 16384), (16, 8192)):
        sizes += [("P = 4 tall", n, n // 4, size), ("P = 4 wide", n // 4, n, size)]
    others = [
        ("ragged", 7777, 5555, 8),  # blocks of 1111
        ("ragged", 8191, 4095, 8),
        ("ragged", 5000, 8750, 4),  # blocks of 1250
        ("ragged", 6100, 4111, 16),
        *(("prime", *sides, 8) for sides in ((7919, 4001), (4001, 7919), (10007, 9973))),
        *(("prime", 9973, 10007, size) for size in (4, 16)),
    ]
    skinny = []
    for side in (2, 3, 4, 7, 8, 16, 31, 32):
        long = (1 << 24) // side + 1
        skinny += [("skinny", long, side, 8), ("skinny", side, long, 8)]
    skinny += [("skinny", 5_600_001, 3, size) for size in (4, 16)]
    return shards + sizes + others + skinny


def landscape(count: int, size: int) -> list[tuple[str, int, int, int]]:
    """Random shapes in the square of the paper's figures 4 and 5, the same in each run."""
    side = random.Random(4)
    sides = lambda: (side.randint(1000, 25000), side.randint(1000, 25000))  # noqa: E731
    return [("landscape", *sides(), size) for _ in range(count)]


class Run(NamedTuple):
    """The options of a measurement."""

    methods: list[str]
    threads: list[int]
    repeats: int
    huge_pages: bool


def main() -> None:
    """Measure the selected shapes and draw them."""
    environment.restart()
    options = _options()
    cores = len(os.sched_getaffinity(0))
    methods = options.methods.split(",") if options.methods else None
    threads, huge = options.threads, options.huge_pages
    options.out.mkdir(parents=True, exist_ok=True)

    def write(name: str, chosen: list, run: Run) -> None:
        if options.quick:
            chosen, run = [_quick(shape) for shape in chosen], run._replace(repeats=1)
        path = options.out / f"{name}-cpu-{cores}-cores.csv"
        with open(path, "w", newline="") as file:
            measure(chosen, run, file)

    if options.only != "landscape":
        named = [shape for shape in shapes() if shape[0].startswith(options.kind)]
        both = sorted({1, cores})
        write("transpose", named, Run(methods or METHODS, threads or both, 5, huge))
    if options.only != "table":
        plane = landscape(8 if options.quick else options.shapes, options.bytes)
        run = Run(methods or ["chosen"], threads or [cores], 3, huge)
        write("transpose-landscape", plane, run)
    transpose_report.report(options.out)


def _quick(shape: tuple) -> tuple:
    """A small shape of that kind; short sides stay."""
    kind, *sides, size = shape
    return (kind, *(side if side <= 32 else side // 16 for side in sides), size)


def measure(chosen: list, run: Run, file) -> None:
    """Write the lines of all shapes."""
    table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    table.writeheader()
    fixed = {"pages": "huge" if run.huge_pages else "ordinary"}
    fixed |= {"versions": versions(), "commit": commit()}
    largest = max(rows * cols * size for _, rows, cols, size in chosen)
    # Out of place needs a whole second array, other methods only a target for copies.
    second = largest if "out of place" in run.methods else min(largest, 1 << 30)
    rivals = Rivals(largest, second, run.huge_pages)
    for number, (kind, *shape) in enumerate(chosen):
        rows, cols, size = shape
        print(f"{number + 1}/{len(chosen)}: {kind} {rows} x {cols} of {size}", file=sys.stderr)
        for line in _lines(rivals, tuple(shape), run):
            sizes = {"kind": kind, "rows": rows, "cols": cols, "bytes": size}
            table.writerow(sizes | line | fixed)
        file.flush()


def _lines(rivals: Rivals, shape: tuple, run: Run):
    """All methods with all numbers of threads on one shape, in turn, as often as requested."""
    rows, cols, size = shape
    count = rows * cols * size
    cases = [
        (method, threads, plan)
        for method in run.methods
        for threads in ((1,) if method in SINGLE else run.threads)
        if (plan := rivals.plan(method, shape, threads))
    ]
    times = {case: [] for case in cases}
    copies = {threads: ([], []) for _, threads, _ in cases}
    for repeat in range(run.repeats):
        for threads, kinds in copies.items():
            for seconds, kind in zip(rivals.copy_seconds(count, threads), kinds, strict=True):
                kind.append(seconds)
        # A method finds part of the array in a large cache after another one, so each takes every
        # place.
        for case in cases[repeat % len(cases) :] + cases[: repeat % len(cases)]:
            method, threads, _ = case
            if repeat == 0 or method != "transpose crate":
                times[case].append(rivals.seconds(method, shape, threads, repeat == 0))
    moved = 2 * count / 1e9
    copied = 2 * min(count, rivals.second.bytes.size) / 1e9
    for (method, threads, (extra, plan)), seconds in times.items():
        rate = moved / statistics.median(seconds)
        copy = copied / min(map(statistics.median, copies[threads]))
        yield {
            "threads": threads,
            "method": method,
            "gb_per_s": f"{rate:.2f}",
            "copy_gb_per_s": f"{copy:.2f}",
            "share_of_copy": f"{rate / copy:.3f}",
            "extra_bytes": extra,
            "plan": plan,
        }


def _options():
    numbers = lambda text: [int(number) for number in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument("--quick", action="store_true", help="small arrays, once: does it work?")
    parser.add_argument("--only", choices=("table", "landscape"))
    parser.add_argument("--kind", default="", help="only shapes of the table whose kind begins so")
    parser.add_argument("--threads", type=numbers, help="table: 1 and all cores; landscape: all")
    parser.add_argument("--methods", help="table: all; landscape: chosen")
    parser.add_argument("--shapes", type=int, default=80, help="of the landscape")
    parser.add_argument("--bytes", type=int, default=8, help="of an element in the landscape")
    parser.add_argument("--huge-pages", action="store_true", help="ask the system for them")
    return parser.parse_args()


if __name__ == "__main__":
    main()
