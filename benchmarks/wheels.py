"""Two builds of the library by turns, to find the cost of a change.

Run: python benchmarks/wheels.py OLD.whl NEW.whl [--routine lu,solve] [--n 512,4096]

Each row is a routine, an order n, a dtype and a sharding; ``SHAPES`` has those of matrices that are
not square. Three processes, of the old wheel, of the new one, and of the old one again, take turns
on 2 CPU devices, with A kept. The table has the median of the old wheel's seconds, and medians of
the ratios of a round. These are new to old, and old to itself, which is the noise. The exit status
is 1 if a ratio is above 1 by more than the margin and the noise. ``--pause 0.1`` lets the threads
sleep for that time before each call, as other work of a program does.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import environment
import turns

ROUNDS = 11
# The calls of a turn take about so many seconds. The fastest counts; with pauses, the median.
SECONDS = 0.2
ROUTINES = {
    "lu": lambda ms, a, b: ms.lu_factor(a).work,
    "cholesky": lambda ms, a, b: ms.cho_factor(a).work,
    "solve": lambda ms, a, b: ms.solve(a, b),
    "solve pos": lambda ms, a, b: ms.solve(a, b, assume_a="pos"),
    "inverse": lambda ms, a, b: ms.inv(a),
    "reflectors": lambda ms, a, b: ms.qr(a, "raw").work,
    "qr": lambda ms, a, b: ms.qr(a),
    "lstsq": lambda ms, a, b: ms.lstsq(a, b).x,
    "lstsq of 3 n rows": lambda ms, a, b: ms.lstsq(a, b).x,
    "R of 4 n rows": lambda ms, a, b: ms.qr(a, "r"),
    "qr of 4 n rows": lambda ms, a, b: ms.qr(a),
    "eigvalsh": lambda ms, a, b: ms.eigvalsh(a),
    "eigh": lambda ms, a, b: ms.eigh(a),
}
# Rows and columns of A for each n, where it is not square.
SHAPES = {
    "lstsq": (8, 0.25),
    "lstsq of 3 n rows": (3, 1),
    "R of 4 n rows": (4, 1),
    "qr of 4 n rows": (4, 1),
}
# In place, so that each call transposes the result of the last one.
TRANSPOSE = "transpose"
SHARDINGS = {"rows": ("x", None), "columns": (None, "x")}


class Calls:
    """One routine on one matrix, by the wheel in ``folder``; a row of turns.py."""

    def __init__(
        self, folder: str, routine: str, n: str, dtype: str, sharding: str, pause: str = "0"
    ):
        sys.path.insert(0, folder)
        self.routine, self.n, self.dtype, self.sharding = routine, int(n), dtype, sharding
        self.folder, self.pause, self.times = folder, float(pause), []

    def prepare(self) -> None:
        """Make the operands, and calls that compile and give the number of calls in a turn."""
        import jax
        import numpy as np

        jax.config.update("jax_num_cpu_devices", 2)
        jax.config.update("jax_enable_x64", True)
        import meshsolve as ms

        assert pathlib.Path(ms.__file__).is_relative_to(self.folder), ms.__file__
        mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        spec = jax.sharding.PartitionSpec(*SHARDINGS[self.sharding])
        rng = np.random.default_rng(0)
        m, k = (int(times * self.n) for times in SHAPES.get(self.routine, (1, 1)))
        a = rng.standard_normal((m, k))
        if m == k:
            a = (a + a.T) / 2 + 2 * np.sqrt(self.n) * np.eye(self.n)
        place = lambda x, spec: jax.device_put(  # noqa: E731
            x.astype(self.dtype), jax.sharding.NamedSharding(mesh, spec)
        )
        a, b = place(a, spec), place(np.ones((m, 8)), jax.sharding.PartitionSpec())
        if self.routine == TRANSPOSE:
            memory = [a]

            def call():
                memory[0] = jax.block_until_ready(ms.transpose_inplace(memory[0]))

            self._call = call
        else:
            self._call = lambda: jax.block_until_ready(ROUTINES[self.routine](ms, a, b))
        for _ in range(2):
            seconds = self._timed()
        self.calls = max(1, round(SECONDS / (seconds + self.pause)))

    def _timed(self) -> float:
        time.sleep(self.pause)
        start = time.perf_counter()
        self._call()
        return time.perf_counter() - start

    def turn(self) -> bool:
        """Some calls. Without pauses, the first one wakes the threads."""
        if self.calls > 1 and not self.pause:
            self._call()
        counted = statistics.median if self.pause else min
        self.times.append(counted([self._timed() for _ in range(self.calls)]))
        return len(self.times) < ROUNDS

    def row(self) -> list[float]:
        """Seconds, one for each round."""
        return self.times


def installed(wheel: str, folder: pathlib.Path) -> str:
    """Install the wheel and return its folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*command, str(folder), wheel], check=True)
    return str(folder)


def compared(folders: dict[str, str], row: tuple[str, ...]) -> dict[str, float]:
    """Seconds of the old wheel, and ratios of the others to it."""
    workers = {
        name: turns.Worker([__file__, "--serve", folder, *row], f"{name}: {row}", False)
        for name, folder in folders.items()
    }
    times = turns.by_turns(workers)
    old = times.pop("old")
    ratios = {
        name: statistics.median(y / x for x, y in zip(old, seconds, strict=True))
        for name, seconds in times.items()
    }
    return {"seconds": statistics.median(old)} | ratios


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    usual = [name for name in [*ROUTINES, TRANSPOSE] if not name.endswith("rows")]
    parser.add_argument("--routine", default=",".join(usual), help="any of ROUTINES")
    parser.add_argument("--n", default="512,4096", help="orders")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--pause", default="0", help="seconds before each call")
    parser.add_argument("--margin", type=float, default=0.03, help="what may be lost")
    options = parser.parse_args()
    axes = (options.routine, options.n, options.dtype, ",".join(SHARDINGS), options.pause)
    rows = [()]
    for values in axes:
        rows = [(*row, value) for row in rows for value in values.split(",")]
    lost = 0
    with tempfile.TemporaryDirectory() as folder:
        where = pathlib.Path(folder)
        old, new = (
            installed(wheel, where / name)
            for name, wheel in (("old", options.old), ("new", options.new))
        )
        print(f"{'row':44}  seconds  new/old  old/old")
        for row in rows:
            made = compared({"old": old, "new": new, "again": old}, row)
            worse = made["new"] > 1 + options.margin + abs(made["again"] - 1)
            lost += worse
            figures = f"{made['seconds']:7.4f}  {made['new']:7.3f}  {made['again']:7.3f}"
            print(f"{' '.join(row[:4]):44}  {figures}{'  LOST' if worse else ''}", flush=True)
    return int(lost > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        turns.serve(lambda: Calls(*sys.argv[2:]))
    else:
        environment.restart()
        sys.exit(main())
