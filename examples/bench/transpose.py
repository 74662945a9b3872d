"""In-place transposition of one array against a copy of it: a CSV line per shape.

Run: python examples/bench/transpose.py [--threads 2] [--repeats 7]

Throughput counts one read and one write of every element, 2 m n size / t, whatever the passes; the
share is of a plain copy by as many threads, taken in turn in the same process. Each shape is
measured with the algorithm that is chosen for it and with C2R or R2C.
"""

import argparse
import csv
import itertools
import statistics
import sys

SHAPES = (
    # (rows, columns, bytes of an element): shards n x n/P first
    (8192, 8192, 8),
    (4096, 2048, 8),
    (8192, 4096, 8),
    (8192, 2048, 8),
    (8192, 1024, 8),
    (8000, 4000, 8),
    (4096, 8192, 8),
    (8192, 4096, 4),
    (8192, 2048, 16),
    (7919, 4001, 8),
    (4001, 7919, 8),
    (10007, 9973, 8),
    # arrays of structures and back
    (20_000_003, 3, 8),
    (3, 20_000_003, 8),
    (5_000_000, 16, 4),
    (2_000_003, 31, 8),
    (1_000_003, 100, 8),
)


def main() -> None:
    """Measure every shape and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, help="all cores if left out")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--scale", type=int, default=1, help="divide the sides by this")
    options = parser.parse_args()
    from meshsolve import _core

    threads = options.threads or _core.threads()
    table = csv.writer(sys.stdout)
    table.writerow(
        ("rows", "cols", "bytes", "threads", "gb_per_s", "copy_gb_per_s", "share_of_copy", "plan")
    )
    for (rows, cols, size), c2r in itertools.product(SHAPES, (False, True)):
        rows, cols = (max(1, side // options.scale) for side in (rows, cols))
        times, plan = [], ""
        for _ in range(options.repeats):
            seconds, copy, plan = _core.transpose_seconds(rows, cols, size, threads, c2r)
            times.append((seconds, copy))
        seconds, copy = (statistics.median(column) for column in zip(*times, strict=True))
        moved = 2 * rows * cols * size / 1e9
        rates = (f"{moved / seconds:.2f}", f"{moved / copy:.2f}", f"{copy / seconds:.3f}")
        table.writerow((rows, cols, size, threads, *rates, plan))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
