"""The rows of run.py, as objects for turns.py: products, solves in this process, ScaLAPACK."""

import math
import statistics
import time

import jax
import numpy as np

import libraries
import measures
import meshsolve as ms
import scalapack
from contenders import READY, contender, right_hand_sides, sharding
from figures import GEMM_N, gemm_rate, peak_rate, shares, weight
from memory import peak, reset_peak
from meshsolve import _core
from turns import LeftOut

# Routines whose last call factors: for them `ms.last_call()` reports these phases as columns; the
# rest is "other".
FACTORING = ("cholesky", "lu", "inverse")
PHASES = ("wait", "arrange", "factor", "solve")
# Turns of a row. Calls in each: one, or the given number below these orders.
TURNS = 5
CALLS = {2048: 11, 4096: 3}
# Below this the baselines are not measured at every call.
SMALL_N = 2048
# Bytes of A from which its transposition leaves the caches, and is compared with a copy.
COPIED = 1 << 26
# Seconds of a competitor's call from which three turns must suffice.
SLOW, SLOW_TURNS = 10.0, 3


class Row:
    """The common part of all rows: turns, between measurements of the processor's peak."""

    def __init__(self, options, what: str, n: int):
        self.what, self.n, self.rhs = what, n, options.rhs
        self.routine, self.dtype, self.devices = options.routine, options.dtype, options.devices
        self.threads = _core.threads()
        self.calls = next((calls for least, calls in CALLS.items() if n < least), 1)
        self.left = TURNS
        if options.repeats:
            self.left = min(TURNS, options.repeats)
            self.calls = math.ceil(options.repeats / self.left)
        self.times, self.factor, self.rates, self.peaks, self.updates = [], [], [], [], []

    def prepare(self) -> None:
        """Start the threads of the product; nothing here is measured."""
        gemm_rate(self.dtype, 256)

    def turn(self) -> bool:
        """Measure some calls; return whether there is another turn."""
        self.peaks.append(peak_rate(self.dtype, self.threads))
        self.measure()
        self.peaks.append(peak_rate(self.dtype, self.threads))
        self.left -= 1
        return self.left > 0

    def row(self) -> dict:
        """The columns of the row."""
        fixed = {"n": self.n, "rhs": self.rhs, "dtype": self.dtype, "devices": self.devices}
        versions = {"jax": jax.__version__, "meshsolve": ms.__version__}
        return fixed | {"threads": self.threads} | versions | self.figures()

    def shares(self, routine: str, ready: bool = False) -> dict:
        """The columns of seconds and rates."""
        return shares(
            *(routine, ready, self.n, self.rhs, self.dtype),
            *(self.times, self.factor, self.rates, self.peaks, self.updates),
        )


class Products(Row):
    """faer's products."""

    def measure(self) -> None:
        """Products of order ``GEMM_N`` at most."""
        rates = [gemm_rate(self.dtype, self.n) for _ in range(self.calls)]
        operations = weight(self.dtype) * 2e-9 * min(self.n, GEMM_N) ** 3
        self.times += [operations / rate for rate in rates]
        self.rates += rates

    def figures(self) -> dict:
        """The columns of products."""
        self.n, self.rhs = min(self.n, GEMM_N), 0
        blank = {"n": self.n, "rhs": "", "devices": ""}
        return self.shares("gemm") | blank | libraries.of_this_process("faer", self.threads)


class Solves(Row):
    """Whole calls of this library, jnp, SciPy or faer."""

    def prepare(self) -> None:
        """Make the first call, which compiles; check its answer."""
        super().prepare()
        self.libraries = libraries.of_this_process(self.what, self.threads)
        self.rhs = right_hand_sides(self.what, self.n, self.rhs)
        self.calling = contender(self.what, self.routine, self.n, self.rhs, self.dtype)
        self.ours, self.ready = self.what.startswith("meshsolve"), self.what in READY
        reported = self.ours and not self.ready and self.what != "meshsolve refine"
        self.tells = reported and self.routine in FACTORING
        self.phases, self.above = [], 0
        self.ratio = self.calling.check(self._call())
        self._forget()

    def _forget(self) -> None:
        """Drop the last call, which does not count."""
        for values in (self.times, self.factor, self.phases):
            del values[-1:]

    def measure(self) -> None:
        """The calls of a turn, and a product; three products are enough for a competitor."""
        small = self.n < SMALL_N
        if small:
            self._call()  # wakes the threads
            self._forget()
        if self.ours or len(self.rates) < SLOW_TURNS:
            self.rates.append(gemm_rate(self.dtype, self.n))
        if self.tells and not small:
            self.updates.append(_update_rate(self.dtype, self.n, self.threads))
        for _ in range(self.calls):
            self._call()
        if not self.ours and self.times[-1] > SLOW:
            self.left = min(self.left, SLOW_TURNS - len(self.times) // self.calls + 1)

    def _call(self):
        a, b = self.calling.system()
        before = reset_peak()
        start = time.perf_counter()
        x = jax.block_until_ready(self.calling.solve(a, b))
        self.times.append(time.perf_counter() - start)
        self.above = peak() - before
        if self.tells:
            self.phases.append({"whole": self.times[-1]} | ms.last_call()["seconds"])
            self.factor.append(self.phases[-1]["factor"])
        elif self.what == "faer":
            self.factor.append(self.calling.solve.factor)
        return x

    def figures(self) -> dict:
        """The columns, of medians."""
        size, lies = self.n**2 * np.dtype(self.dtype).itemsize, sharding(self.what)
        split = _split(self.phases)
        if self.what == "meshsolve columns" and self.phases and size >= COPIED:
            arranged = statistics.median(seconds["arrange"] for seconds in self.phases)
            split |= share_of_copy(size, arranged)
        return (
            {
                "sharding": lies if self.devices > 1 or lies != "rows" else "",
                "peak_over_a": f"{self.above / size:.3f}",
                "residual_ratio": f"{self.ratio:.4f}",
            }
            | self.shares(self.routine, self.ready)
            | split
            | self.libraries
        )


class ScaLapack(Row):
    """Solves by separate processes, of one thread each, as many as devices."""

    def prepare(self) -> None:
        """Choose the better width of blocks, by smaller matrices; then make the first solve."""
        super().prepare()
        if self.dtype != "float64":
            raise LeftOut("float64 only")
        self.threads = self.devices
        try:
            trials = {nb: self._tried(nb) for nb in self.widths}
            self.nb = min(trials, key=trials.__getitem__)
            self.program = self._start(self.n, self.nb)
            self.ratios = [self.program.solve().ratio]
        except scalapack.Unavailable as reason:
            raise LeftOut(str(reason)) from None

    def __init__(self, options, what: str, n: int):
        super().__init__(options, what, n)
        self.widths = [int(nb) for nb in options.nb.split(",")]

    def _start(self, n: int, nb: int) -> scalapack.Program:
        return scalapack.Program(self.what, "solve", (self.routine, n, self.rhs, nb), self.devices)

    def _tried(self, nb: int) -> float:
        program = self._start(min(self.n, GEMM_N), nb)
        seconds = min(program.solve().whole for _ in range(2))
        program.end()
        return seconds

    def measure(self) -> None:
        """The calls of a turn, and a product; three products are enough."""
        if len(self.rates) < SLOW_TURNS:
            self.rates.append(gemm_rate(self.dtype, self.n))
        for _ in range(self.calls):
            solved = self.program.solve()
            self.times.append(solved.whole)
            self.factor.append(solved.factor)
            self.ratios.append(solved.ratio)
        if self.times[-1] > SLOW:
            self.left = min(self.left, SLOW_TURNS - len(self.times) // self.calls + 1)

    def figures(self) -> dict:
        """The columns; the program ends."""
        version, kernels = self.program.end()
        return {
            "sharding": f"block-cyclic {self.nb}",
            "residual_ratio": f"{max(self.ratios):.4f}",
            **self.shares(self.routine),
            **libraries.columns(
                "ScaLAPACK; openblas", f"unknown; {version}", kernels, self.program.variables
            ),
        }


def row_of(options) -> Row:
    """The object that measures the row of ``--one``."""
    kind = Solves
    if options.one == "faer gemm":
        kind = Products
    elif options.one.startswith("ScaLAPACK"):
        kind = ScaLapack
    return kind(options, options.one, int(options.sizes))


def _update_rate(dtype: str, n: int, threads: int) -> float:
    """GF/s of the product that updates tiles in our factorisations."""
    return measures.update_flops(dtype, min(n, GEMM_N), threads) / 1e9


def _split(phases: list[dict]) -> dict:
    """The columns of seconds inside and outside of a call."""
    if not phases:
        return {}
    for seconds in phases:
        seconds["outside"] = seconds["whole"] - seconds["total"]
        reported = sum(seconds.get(phase, 0) for phase in PHASES)
        seconds["other"] = max(seconds["total"] - reported, 0)
    of = lambda name: statistics.median(seconds.get(name, 0) for seconds in phases)  # noqa: E731
    return {f"seconds_{name}": f"{of(name):.5f}" for name in (*PHASES, "other", "outside")}


def share_of_copy(size: int, seconds: float) -> dict:
    """The columns of an in-place transposition of A in ``seconds``."""
    copied = min(size, 4 * COPIED)
    times = [measures.copy_seconds(copied, _core.threads()) for _ in range(5)]
    rate = 2 * copied / statistics.median(times[1:])
    share = f"{2 * size / max(seconds, 1e-9) / rate:.3f}"
    return {"copy_gb_per_s": f"{rate / 1e9:.1f}", "share_of_copy": share}
