"""The cost of the layout by columns on many devices: the model of docs/design/algorithms.md,
"Growth on paper".

Run: python benchmarks/model.py [--tile 128]

A step with c tile columns left takes max(work / P, critical path) units. A unit is the product of a
panel and a tile, 2 m b^2 operations. The device of a panel first updates its column, then factors
it. Every panel goes to every device. The program prints the share of P times one device's rate, for
orders that fit a device's memory. It also prints the time on the links over that of the arithmetic,
by columns and on a square grid of devices.
"""

import argparse
from typing import NamedTuple


class Machine(NamedTuple):
    """Constants of a device and of its links."""

    name: str
    flops: float  # operations of a product in a second, of one device
    words: float  # float64 words per second that a device takes from the others
    memory: float  # words of a device that A may take


class Method(NamedTuple):
    """A factorisation, in units of 2 m b^2."""

    name: str
    work: float  # of each remaining tile column, on average
    panel: float  # of a panel
    operations: float  # of the factorisation, times n^3


# Measured on a Zen 5: the rate and copy of a core and the times of panels (`make bench`,
# `make bench-transpose`, `cargo run --release --example lu_panel`). The links of processes are
# assumptions, and all of GPUs: data sheets of a GPU with 80 GB, two thirds of its rate, half of its
# memory for A.
MACHINES = (
    Machine("cores of one host", 95e9, 2.5e9, 1e9),
    Machine("processes of a core, 10 GB/s", 100e9, 1.25e9, 1e9),
    Machine("GPUs in a node, 450 GB/s", 45e12, 56e9, 5e9),
    Machine("GPUs over a network, 50 GB/s", 45e12, 6.2e9, 5e9),
)
METHODS = (Method("Cholesky", 0.5, 0.5, 1 / 3), Method("LU", 1.0, 0.8, 2 / 3))


def share(method: Method, columns: int, devices: int) -> float:
    """The share of ``devices`` times one device's rate that remains with panels, for ``columns``
    tiles.
    """
    left = range(1, columns + 1)
    work = sum(c * method.work * c for c in left)
    steps = (max(method.work * c / devices, min(c, 1) + method.panel) * c for c in left)
    return work / devices / sum(steps)


def least_order(method: Method, devices: int, tile: int, wanted: float) -> int:
    """The least n with that share."""
    low, high = 1, 1
    while share(method, high, devices) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if share(method, middle, devices) >= wanted else (middle, high)
    return high * tile


def on_links(machine: Machine, method: Method, n: float, devices: int) -> tuple[float, float]:
    """Time on the links as a multiple of that of the arithmetic. Every device takes n^2 / 2 words
    by columns, and n^2 / sqrt(P) on a square grid.
    """
    arithmetic = method.operations * n**3 / devices / machine.flops
    by_columns = n**2 / 2 * (1 - 1 / devices) / machine.words
    on_grid = n**2 / devices**0.5 * (1 - 1 / devices**0.5) / machine.words
    return by_columns / arithmetic, on_grid / arithmetic


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tile", type=int, default=128, help="width of a tile column, b")
    tile = parser.parse_args().tile
    orders = (4096, 16384, 65536, 262144)
    print(f"share that panels leave, tiles of {tile}; least n with 0.9")
    print(f"{'':9}{'P':>5}" + "".join(f"{f'n = {n}':>12}" for n in orders) + f"{'0.9':>10}")
    for method in METHODS:
        for devices in (2, 8, 64, 1024):
            cells = "".join(f"{share(method, n // tile, devices):12.2f}" for n in orders)
            least = least_order(method, devices, tile, 0.9)
            print(f"{method.name:9}{devices:5}{cells}{least:10}")
    print("\ntime on the links / arithmetic, LU, the largest A that fits: by columns, on a grid")
    for machine in MACHINES:
        for devices in (8, 64) if machine in MACHINES[:2] else (8, 64, 1024):
            n = (devices * machine.memory) ** 0.5
            columns, grid = on_links(machine, METHODS[1], n, devices)
            print(f"{machine.name:30}{devices:5}  n = {n:9.0f}{columns:8.2f}{grid:8.2f}")


if __name__ == "__main__":
    main()
