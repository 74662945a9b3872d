"""The overhead of a small solve: one call after another, in and outside of jit, against jnp.

Run: python benchmarks/dispatch.py [--devices 2] [--sizes 8,256,1024] [--calls 200]

It prints a CSV line for each, with microseconds of a call, least and median. The processor time of
a call, of the whole process and of the calling thread, suffers less from other load on the machine.
For meshsolve it also has the median time that the calls report (`last_call()`). All contenders of
an order take turns, call by call: on one device, and on the same shards. Peak, libraries and
`disturbed` are as in run.py; orders do not take turns.
"""

import argparse
import collections
import csv
import resource
import statistics
import sys
import time

import environment
from libraries import COLUMNS as LIBRARIES

COLUMNS = (
    *("routine", "what", "n", "devices", "least", "median"),
    *("processor", "caller", "inside", "peak_gflops", "peak_moved", "disturbed"),
    *(*LIBRARIES, "jax", "commit"),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--sizes", default="8,256,1024")
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    environment.begin_on_cpu(options.devices)
    import jax

    from commit import commit
    from figures import of_peak, peak_rate
    from libraries import of_this_process
    from meshsolve import _core

    threads = _core.threads()
    jax.config.update("jax_enable_x64", True)
    table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    table.writeheader()
    for n in map(int, options.sizes.split(",")):
        for routine in ("cholesky", "lu"):
            contenders = list(_contenders(routine, n, options.devices))
            peaks = [peak_rate("float64", threads)]
            all_figures = _timed(contenders, options.calls)
            peak = of_peak([*peaks, peak_rate("float64", threads)])
            for (what, devices, *_), figures in zip(contenders, all_figures, strict=True):
                row = {"routine": routine, "what": what, "n": n, "devices": devices} | figures
                row |= of_this_process(what, threads) | peak
                table.writerow(row | {"jax": jax.__version__, "commit": commit()})
                sys.stdout.flush()


def _contenders(routine: str, n: int, devices: int):
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    import meshsolve as ms
    from contenders import matrix

    linalg = jax.scipy.linalg
    cholesky = lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b)  # noqa: E731
    theirs = cholesky if routine == "cholesky" else jnp.linalg.solve
    assume = "pos" if routine == "cholesky" else "gen"
    ours = lambda a, b: ms.solve(a, b, assume_a=assume)  # noqa: E731
    one = matrix(routine, n, "float64"), jnp.ones(n)
    specs = PartitionSpec("x", None), PartitionSpec()
    for count in sorted({1, devices}):
        for what, solve in (("jnp", theirs), ("meshsolve", ours)):
            placed = one
            if count > 1:
                # jnp refuses matrices that are sharded over Explicit axes.
                axes = AxisType.Auto if what == "jnp" else AxisType.Explicit
                mesh = jax.make_mesh((count,), ("x",), axis_types=(axes,))
                both = zip(one, specs, strict=True)
                placed = [jax.device_put(x, NamedSharding(mesh, s)) for x, s in both]
            yield what, count, solve, *placed
            yield f"{what} jit", count, jax.jit(solve), *placed


def _timed(contenders: list, calls: int) -> list[dict]:
    """The figures of each contender."""
    import jax

    import meshsolve as ms

    for _, _, solve, a, b in contenders * 5:
        jax.block_until_ready(solve(a, b))
    seconds = [collections.defaultdict(list) for _ in contenders]
    for _ in range(calls):
        for (what, _, solve, a, b), kept in zip(contenders, seconds, strict=True):
            start = time.perf_counter(), _processor(), time.thread_time()
            jax.block_until_ready(solve(a, b))
            kept["calls"].append(time.perf_counter() - start[0])
            kept["processor"].append(_processor() - start[1])
            kept["caller"].append(time.thread_time() - start[2])
            if what.startswith("meshsolve"):
                kept["inside"].append(ms.last_call()["seconds"]["total"])
    return [_figures(kept) for kept in seconds]


def _figures(seconds: dict) -> dict:
    figures = {
        "least": min(seconds["calls"]),
        "median": statistics.median(seconds["calls"]),
        "processor": statistics.mean(seconds["processor"]),
        "caller": statistics.mean(seconds["caller"]),
    }
    figures |= {"inside": statistics.median(seconds["inside"])} if seconds["inside"] else {}
    return {name: f"{1e6 * value:.0f}" for name, value in figures.items()}


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
