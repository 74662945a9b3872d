"""How a table of run.py stands to what is aimed at.

Run: python examples/bench/bars.py FOLDER

One line for each aim that FOLDER/solve-cpu-*.csv has the rows for: float64, 2 devices, n = 8192 or,
without it, 4096. Competitors are compared by shares of the product rate, which was taken beside
each of them; small orders by seconds.
"""

import csv
import functools
import pathlib
import sys
from collections.abc import Iterator
from typing import NamedTuple

# By routine: least shares of the product rate of the factorisation, by rows, by columns.
SHARES = {"cholesky": (0.88, 0.85, 0.81), "lu": (0.80, 0.76, None)}
# Least times as fast as each competitor, for Cholesky and LU.
TIMES = {
    "jnp sharded": (5, 4),
    "jnp one device": (1.8, 1.5),
    "ScaLAPACK": (1.7, 1.5),
    "ScaLAPACK SkylakeX": (1.05, 1.0),
}
DEVICES = {"1": 0.90, "4": 0.85, "8": 0.85}  # against 2
OUTSIDE, MEMORY, SMALL = 0.08, 0.03, 1.5


class Aim(NamedTuple):
    """What is aimed at, the least or the greatest, and what there is."""

    name: str
    value: float
    bound: float
    at_least: bool = True

    @property
    def line(self) -> str:
        """For people."""
        met = self.value >= self.bound if self.at_least else self.value <= self.bound
        sign = ">=" if self.at_least else "<="
        return f"{'ok  ' if met else 'MISS'} {self.name}: {self.value:.2f}, {sign} {self.bound:.2f}"


class Table:
    """Rows by what they are of."""

    def __init__(self, rows: list[dict]):
        keys = ("routine", "what", "n", "dtype", "devices")
        self._rows = {tuple(row[key] for key in keys): row for row in rows}

    def get(self, routine: str, n: int, what: str, column: str, devices: str = "2") -> float | None:
        """A figure, if there is one."""
        row = self._rows.get((routine, what, str(n), "float64", devices), {})
        return float(row[column]) if row.get(column) else None


def aims(table: Table) -> Iterator[Aim]:
    """Those that can be told of."""
    for place, (routine, shares) in enumerate(SHARES.items()):
        sizes = (8192, 4096)
        n = next((n for n in sizes if table.get(routine, n, "meshsolve", "share_of_gemm")), 4096)
        at, share = f"{routine}, n = {n}", "share_of_gemm"
        of = functools.partial(table.get, routine, n)
        ours = of("meshsolve", share)
        figures = (of("meshsolve", f"{share}_factor"), ours, of("meshsolve columns", share))
        names = ("share of the factorisation", "share by rows", "share by columns")
        for name, value, bound in zip(names, figures, shares, strict=True):
            if value and bound:
                yield Aim(f"{at}: {name}", value, bound)
        for what, bounds in TIMES.items():
            theirs = of(what, share, "1" if what == "jnp one device" else "2")
            if ours and theirs:
                yield Aim(f"{at}: times as fast as {what}", ours / theirs, bounds[place])
        whole, factor = of("meshsolve", "seconds_median"), of("meshsolve", "seconds_factor")
        if whole and factor:
            yield Aim(f"{at}: outside of the factorisation", 1 - factor / whole, OUTSIDE, False)
        if (peak := of("meshsolve", "peak_over_a")) is not None:
            yield Aim(f"{at}: memory over A", peak, MEMORY, False)
        yield from _of_devices(table, routine)
        yield from _small(table, routine)


def _of_devices(table: Table, routine: str) -> Iterator[Aim]:
    for n in (4096, 8192):
        two = table.get(routine, n, "meshsolve", "share_of_gemm")
        for devices, bound in DEVICES.items():
            share = table.get(routine, n, "meshsolve", "share_of_gemm", devices)
            if two and share:
                yield Aim(f"{routine}, n = {n}: {devices} device(s) against 2", share / two, bound)


def _small(table: Table, routine: str) -> Iterator[Aim]:
    for n in (256, 1024):
        theirs = table.get(routine, n, "jnp one device", "seconds_median", "1")
        for what, devices in [(w, d) for w in ("meshsolve", "meshsolve jit") for d in "12"]:
            ours = table.get(routine, n, what, "seconds_median", devices)
            if ours and theirs:
                name = f"{routine}, n = {n}: {what} on {devices} device(s) / jnp on one"
                yield Aim(name, ours / theirs, SMALL, False)


if __name__ == "__main__":
    for path in sorted(pathlib.Path(sys.argv[1]).glob("solve-cpu-*.csv")):
        with open(path, newline="") as file:
            print("\n".join(aim.line for aim in aims(Table(list(csv.DictReader(file))))))
