"""A comparison of a table of run.py with the aims.

Run: python benchmarks/bars.py FOLDER

It prints one line for each aim that FOLDER/solve-cpu-*.csv has the rows for. Rows are float64, on 2
devices unless the aim states another number. Competitors are compared by seconds of rows that took
turns. Aims with disturbed rows are marked.
"""

import csv
import pathlib
import sys
from collections.abc import Iterator
from typing import NamedTuple

# Least shares of the peak of fused multiply-adds: of the product that updates tiles in a
# factorisation, and of the factorisations, of these orders.
UPDATE = 0.90
PEAK, PEAK_AT = 0.83, (8192, 16384)
# Least shares of that product's rate, for the factorisation by rows, in place.
FACTOR = {
    "cholesky": {2048: 0.86, 4096: 0.91, 8192: 0.93},
    "lu": {2048: 0.80, 4096: 0.87, 8192: 0.91},
}
# Least speed over competitors: with A kept, n = 8192, for Cholesky and LU; in place.
TIMES = {"jnp sharded": (4.2, 3.4), "jnp one device": (1.4, 1.25)}
TIMES_AT = 8192
SCALAPACK, SCALAPACKS = 1.15, ("ScaLAPACK", "ScaLAPACK SkylakeX")
DEVICES = {"1": 0.90, "4": 0.85, "8": 0.85}  # against 2
OUTSIDE, MEMORY, SMALL = 0.08, 0.03, 1.5


class Aim(NamedTuple):
    """An aim: the least or the greatest value, and the measured one."""

    name: str
    value: float
    bound: float
    at_least: bool = True
    disturbed: bool = False

    @property
    def met(self) -> bool:
        """Whether the measured value meets the aim."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    @property
    def line(self) -> str:
        """One line of the report."""
        verdict, sign = "ok  " if self.met else "MISS", ">=" if self.at_least else "<="
        line = f"{verdict} {self.name}: {self.value:.2f}, {sign} {self.bound:.2f}"
        return line + (" (disturbed)" if self.disturbed else "")


class Figure(NamedTuple):
    """A figure of a row, and whether the row was disturbed."""

    value: float
    disturbed: bool


class Table:
    """Rows by routine, contender, order, dtype and devices."""

    def __init__(self, rows: list[dict]):
        keys = ("routine", "what", "n", "dtype", "devices")
        self._rows = {tuple(row[key] for key in keys): row for row in rows}

    def get(self, routine: str, n: int, what: str, column: str, devices="2") -> Figure | None:
        """A figure, if there is one."""
        devices = "1" if what == "jnp one device" else devices
        row = self._rows.get((routine, what, str(n), "float64", devices), {})
        return Figure(float(row[column]), bool(row.get("disturbed"))) if row.get(column) else None


def _aim(name: str, bound: float, *figures: Figure | None, at_least=True) -> Iterator[Aim]:
    """An aim for a figure, or for the first over the second, if all exist."""
    if all(figures):
        values = [figure.value for figure in figures]
        value = values[0] / values[1] if values[1:] else values[0]
        yield Aim(name, value, bound, at_least, any(figure.disturbed for figure in figures))


def aims(table: Table) -> Iterator[Aim]:
    """The aims that the table has figures for."""
    for place, (routine, factors) in enumerate(FACTOR.items()):
        for n in sorted({*factors, *PEAK_AT}):
            at, of = f"{routine}, n = {n}", lambda *a, n=n, r=routine: table.get(r, n, *a)
            peak, update = of("meshsolve", "peak_gflops"), of("meshsolve", "update_gflops")
            if n in PEAK_AT:
                share = of("meshsolve", "share_of_peak_factor")
                yield from _aim(f"{at}: factorisation, share of the peak", PEAK, share)
            if n in factors:
                yield from _aim(f"{at}: updates, share of the peak", UPDATE, update, peak)
                share = of("meshsolve", "share_of_update_factor")
                name = f"{at}: factorisation, share of the updates' rate"
                yield from _aim(name, factors[n], share)
        yield from _against(table, routine, place)
        n = 8192 if table.get(routine, 8192, "meshsolve", "seconds_median") else 4096
        at = f"{routine}, n = {n}"
        whole = table.get(routine, n, "meshsolve", "seconds_median")
        factor = table.get(routine, n, "meshsolve", "seconds_factor")
        if whole and factor:
            name, part = f"{at}: outside of the factorisation", 1 - factor.value / whole.value
            yield Aim(name, part, OUTSIDE, False, whole.disturbed)
        peak = table.get(routine, n, "meshsolve", "peak_over_a")
        if peak:  # disturbances do not change memory
            yield Aim(f"{at}: memory over A", peak.value, MEMORY, False)
        yield from _of_devices(table, routine)
        yield from _small(table, routine)


def _against(table: Table, routine: str, place: int) -> Iterator[Aim]:
    for what, bounds in TIMES.items():
        ours = table.get(routine, TIMES_AT, "meshsolve keep a", "seconds_median")
        theirs = table.get(routine, TIMES_AT, what, "seconds_median")
        name = f"{routine}, n = {TIMES_AT}, A kept: times as fast as {what}"
        yield from _aim(name, bounds[place], theirs, ours)
    for n in (4096, 8192):
        all_theirs = [table.get(routine, n, what, "seconds_median") for what in SCALAPACKS]
        best = min(filter(None, all_theirs), default=None)
        ours = table.get(routine, n, "meshsolve", "seconds_median")
        name = f"{routine}, n = {n}: times as fast as ScaLAPACK's best"
        yield from _aim(name, SCALAPACK, best, ours)


def _of_devices(table: Table, routine: str) -> Iterator[Aim]:
    for n in (4096, 8192):
        two = table.get(routine, n, "meshsolve", "seconds_median")
        for devices, bound in DEVICES.items():
            some = table.get(routine, n, "meshsolve", "seconds_median", devices)
            yield from _aim(f"{routine}, n = {n}: {devices} device(s) against 2", bound, two, some)


def _small(table: Table, routine: str) -> Iterator[Aim]:
    for n in (256, 1024):
        theirs = table.get(routine, n, "jnp one device", "seconds_median")
        for what, devices in [(w, d) for w in ("meshsolve", "meshsolve jit") for d in "12"]:
            ours = table.get(routine, n, what, "seconds_median", devices)
            name = f"{routine}, n = {n}: {what} on {devices} device(s) / jnp on one"
            yield from _aim(name, SMALL, ours, theirs, at_least=False)


if __name__ == "__main__":
    for path in sorted(pathlib.Path(sys.argv[1]).glob("solve-cpu-*.csv")):
        with open(path, newline="") as file:
            print("\n".join(aim.line for aim in aims(Table(list(csv.DictReader(file))))))
