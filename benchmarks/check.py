"""A check for regressions: shares of a short run against the recorded ones.

Run: python benchmarks/check.py MEASURED RECORDED [--margin 0.2]

Both are folders with a table solve-cpu-*.csv of run.py (`make bench-check`). It compares shares,
not seconds: of the processor's peak, of the product rate, and of a copy for a transposition. Less
than 1 - margin times the recorded share is a regression, with exit status 1. If nothing can be
compared the status is 2. A disturbed row proves nothing. Single rows move by ten per cent and more:
measure again before you believe one.
"""

import argparse
import csv
import pathlib
import sys
from typing import NamedTuple

KEY = ("routine", "what", "n", "dtype", "devices")
SHARES = ("share_of_peak", "share_of_gemm", "share_of_copy")


class Compared(NamedTuple):
    """One share of one row."""

    row: tuple[str, ...]
    share: str
    recorded: float
    measured: float
    lost: bool
    disturbed: bool = False


def compare(measured: list[dict], recorded: list[dict], margin: float) -> list[Compared]:
    """The shares that both tables have, in the order of the first."""
    known = {tuple(row[name] for name in KEY): row for row in recorded}
    compared = []
    for row in measured:
        key = tuple(row[name] for name in KEY)
        for share in SHARES:
            before, now = known.get(key, {}).get(share), row.get(share)
            if before and now:
                lost = float(now) < (1 - margin) * float(before)
                disturbed = bool(row.get("disturbed"))
                compared.append(Compared(key, share, float(before), float(now), lost, disturbed))
    return compared


def lines(compared: list[Compared]) -> list[str]:
    """A table of the compared shares."""
    head = ("row", "share", "recorded", "now", "")
    cells = [
        (
            " ".join(c.row),
            c.share.removeprefix("share_of_"),
            f"{c.recorded:.2f}",
            f"{c.measured:.2f}",
            _verdict(c),
        )
        for c in compared
    ]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    pad = lambda row: "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True))  # noqa: E731
    return [pad(row).rstrip() for row in (head, *cells)]


def _verdict(compared: Compared) -> str:
    if compared.disturbed:
        return "disturbed, less" if compared.lost else "ok (disturbed)"
    return "LOST" if compared.lost else "ok"


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("recorded", type=pathlib.Path)
    parser.add_argument("--margin", type=float, default=0.2, help="what may be missing; 0.2")
    options = parser.parse_args()
    compared = []
    for path in sorted(options.measured.glob("solve-cpu-*.csv")):
        tables = [options.measured / path.name, options.recorded / path.name]
        if all(table.exists() for table in tables):
            compared += compare(*map(_rows, tables), options.margin)
    if not compared:
        print(
            f"bench-check: expected rows of solve-cpu-*.csv in {options.measured} that "
            f"{options.recorded} has as well (a machine with as many cores), got none; record some "
            f"by make bench RESULTS={options.recorded}",
            file=sys.stderr,
        )
        return 2
    print("\n".join(lines(compared)))
    lost = sum(c.lost and not c.disturbed for c in compared)
    print(f"{lost} of {len(compared)} shares below {1 - options.margin:.2f} of the recorded ones")
    return 1 if lost else 0


def _rows(path: pathlib.Path) -> list[dict]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    sys.exit(main())
