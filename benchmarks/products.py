"""The products with which factorisations update their tiles, by turns: a CSV line each.

Run: python benchmarks/products.py [--out build/bench] [--quick] [--dtypes float64,float32]
     [--shapes 4096x2048x128,4096x2048x256] [--strides 4096,4104] [--threads 1,2] [--turns 7]
     [--what "meshsolve,OpenBLAS of SciPy"]

A product is C <- C - A B with C of m x n, A of m x k and B of k x n numbers: the shape m x n x k.
All three are column-major, `stride` elements between columns, like tiles of one matrix.

| what | meaning |
|---|---|
| meshsolve | the kernel of the updates: each thread packs the factors of its share of the columns |
| faer | faer on such shares, as on processors without that kernel; copies are included |
| faer alone | faer's product on all threads |
| OpenBLAS of SciPy, OpenBLAS, BLIS | `cblas_?gemm` with their own threads |
| oneDNN | `dnnl_sgemm` with its own threads, float32 only |

The last three are the system's: `apt-get install libopenblas0-pthread libblis4-pthread libdnnl2`
(Debian's names). What is not there is left out, and standard error reports it. LIBXSMM is not among
them. It has kernels for small products, and passes larger ones to a BLAS.

All are in one process and take turns. A turn measures the processor's peak of fused multiply-adds,
then the product three times, of which the fastest counts, then the peak again. `gflops`,
`share_of_peak` and `peak_gflops` are medians over the turns, `best_gflops` is the best turn. The
share is relative to the mean peak of its turn. A row is `disturbed` if its peaks are more than 5 %
apart (`peak_moved`). These are real operations: 2 m n k, and 4 times as many for complex types.

The first product of each is compared with NumPy's on some columns. A wrong result is an error.
"""

import argparse
import functools
import os
import pathlib
import statistics
import sys

import numpy as np

import environment
import figures
import libraries
from commit import commit, machine
from product_libraries import ALL, LETTERS, Absent
from rivals import Memory
from table import Table

KEYS = ("what", "dtype", "m", "n", "k", "stride", "threads")
COLUMNS = (
    *(*KEYS, "turns", "share_of_peak", "gflops", "best_gflops"),
    *("disturbed", "peak_gflops", "peak_moved", *libraries.COLUMNS, "commit", "machine"),
)
TOLERANCES = {"float32": 1e-5, "complex64": 1e-5, "float64": 1e-12, "complex128": 1e-12}
# Products in a turn.
TIMES = 3


class Operands:
    """Random A, B and C, and a result of NumPy for some columns of C."""

    def __init__(self, dtype: str, shape: tuple[int, int, int], stride: int):
        self.dtype, self.shape, self.stride = dtype, shape, stride
        (m, n, k), side = shape, np.random.default_rng(4)
        self.a, self.b, self.c = (self._random(side, *of) for of in ((m, k), (k, n), (m, n)))
        # Those at the ends of the threads' shares are among them.
        self._columns = sorted({0, max(n // 2 - 1, 0), n // 2, n - 1})

    def _random(self, side, rows: int, cols: int) -> np.ndarray:
        size = np.dtype(self.dtype).itemsize
        memory = Memory(self.stride * cols * size, huge=False).bytes.view(self.dtype)
        x = memory.reshape((self.stride, cols), order="F")[:rows]
        x.real = side.uniform(-1, 1, (rows, cols))
        if np.iscomplexobj(x):
            x.imag = side.uniform(-1, 1, (rows, cols))
        return x

    def check(self, what: str, run) -> None:
        """Fail if ``run`` does not update C as NumPy does."""
        wide = np.result_type(self.dtype, np.float64)
        factors = self.a.astype(wide), self.b[:, self._columns].astype(wide)
        wanted = self.c[:, self._columns] - factors[0] @ factors[1]
        run()
        error = np.abs(self.c[:, self._columns] - wanted).max() / np.abs(wanted).max()
        if not error <= TOLERANCES[self.dtype]:
            m, n, k = self.shape
            sys.exit(f"{what}, {m} x {n} x {k}, {self.dtype}: a relative error of {error:.1e}")


def main() -> None:
    """Measure the selected products and write the table."""
    environment.restart()
    options = _options()
    cores = len(os.sched_getaffinity(0))
    fixed = {"commit": commit(), "machine": machine()}
    table = Table(options.out / f"products-cpu-{cores}-cores.csv", COLUMNS, KEYS, fixed)
    contenders = _made(options.what.split(",") if options.what else list(ALL))
    for dtype in options.dtypes:
        for shape, stride in _cases(options, dtype):
            operands = Operands(dtype, shape, stride)
            for threads in options.threads or sorted({1, cores}, reverse=True):
                for row in measured(contenders, operands, threads, options.turns):
                    _print(row)
                    table.add(row)


def _made(names: list[str]) -> dict:
    """The contenders that are there, and their library columns, by name."""
    made = {}
    for what in names:
        try:
            one = ALL[what]()
            made[what] = one, one.columns()
        except (Absent, AttributeError) as reason:  # not installed, or without a function
            _left_out(what, str(reason))
    return made


def _cases(options, dtype: str):
    """Shapes and strides. The default strides are powers of two, in double precision not only."""
    for shape in options.shapes:
        power = 1 << (max(shape[0], shape[2]) - 1).bit_length()
        both = (power, power + 8) if dtype == "float64" else (power,)
        for stride in options.strides or both:
            yield shape, stride


def measured(contenders: dict, operands: Operands, threads: int, turns: int) -> list[dict]:
    """The rows of all contenders for one product."""
    products, rates, peaks = {}, {}, {}
    for what, (one, _) in contenders.items():
        try:
            run = one.product(operands, threads)
        except Absent as reason:
            _left_out(what, str(reason))
            continue
        operands.check(what, run)
        products[what], rates[what], peaks[what] = run, [], []
    m, n, k = operands.shape
    work = figures.weight(operands.dtype) * 2 * m * n * k / 1e9
    names = list(products)
    for turn in range(turns):
        # Each takes every place, because it finds a part of C in cache.
        for what in names[turn % len(names) :] + names[: turn % len(names)]:
            before = figures.peak_rate(operands.dtype, threads)
            rates[what].append(work / min(products[what]() for _ in range(TIMES)))
            peaks[what].append((before, figures.peak_rate(operands.dtype, threads)))
    key = {"dtype": operands.dtype, "m": m, "n": n, "k": k, "stride": operands.stride}
    return [
        {"what": what, **key, "threads": threads, **_figures(rates[what], peaks[what])}
        | contenders[what][1]
        for what in names
    ]


@functools.cache
def _left_out(what: str, reason: str) -> None:
    """Report it once."""
    print(f"{what} is left out: {reason}", file=sys.stderr)


def _figures(rates: list[float], peaks: list[tuple[float, float]]) -> dict:
    """The columns of rates, from those of each turn."""
    shares = [rate / statistics.mean(of) for rate, of in zip(rates, peaks, strict=True)]
    return {
        "turns": len(rates),
        "share_of_peak": f"{statistics.median(shares):.3f}",
        "gflops": f"{statistics.median(rates):.1f}",
        "best_gflops": f"{max(rates):.1f}",
        **figures.of_peak([peak for both in peaks for peak in both]),
    }


def _print(row: dict) -> None:
    shape = f"{row['m']} x {row['n']} x {row['k']}, {row['stride']}"
    rate = f"{row['share_of_peak']} {row['gflops']:>7} {row['best_gflops']:>7}"
    note = "disturbed" if row["disturbed"] else ""
    print(
        f"{row['what']:<18}{row['dtype']:<11}{shape:<24}{row['threads']} {rate} {note}", flush=True
    )


def _options():
    words = lambda text: text.split(",")  # noqa: E731
    numbers = lambda text: [int(number) for number in text.split(",")]  # noqa: E731
    shapes = lambda text: [tuple(map(int, s.split("x"))) for s in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument(
        "--quick", action="store_true", help="small arrays, one turn: does it work?"
    )
    parser.add_argument("--dtypes", type=words, default=list(LETTERS))
    parser.add_argument("--shapes", type=shapes, default=[(4096, 2048, 128), (4096, 2048, 256)])
    parser.add_argument(
        "--strides", type=numbers, help="the next power of two; for float64 also 8 more"
    )
    parser.add_argument("--threads", type=numbers, help="all cores, then 1")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--what", help="comma-separated selection of contenders")
    options = parser.parse_args()
    if options.quick:
        options.shapes, options.turns = [(200, 150, 70)], 1
    return options


if __name__ == "__main__":
    main()
