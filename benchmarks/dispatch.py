"""The overhead of a small solve: one call after another, in and outside of jit, against jnp.

Run: python benchmarks/dispatch.py [--devices 2] [--sizes 8,256,1024] [--calls 200]

It prints a CSV line for each, with microseconds of a call, least and median. The processor time of
a call, of the whole process and of the calling thread, suffers less from other load on the machine.
For meshsolve it also has the median time that the calls report (`last_call()`). jnp runs on one
device. Peak, libraries and `disturbed` are as in run.py; orders do not take turns.
"""

import argparse
import csv
import os
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
    environment.restart()
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options.devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"
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
            for what, devices, solve, a, b in _contenders(routine, n, options.devices):
                row = {"routine": routine, "what": what, "n": n, "devices": devices}
                row |= of_this_process(what, threads)
                peaks = [peak_rate("float64", threads)]
                figures = _timed(solve, a, b, options.calls, what.startswith("meshsolve"))
                figures |= of_peak([*peaks, peak_rate("float64", threads)])
                table.writerow(row | figures | {"jax": jax.__version__, "commit": commit()})
                sys.stdout.flush()


def _contenders(routine: str, n: int, devices: int):
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    import meshsolve as ms
    from contenders import matrix

    linalg = jax.scipy.linalg
    cholesky = lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b)  # noqa: E731
    theirs = cholesky if routine == "cholesky" else jnp.linalg.solve
    assume = "pos" if routine == "cholesky" else "gen"
    ours = lambda a, b: ms.solve(a, b, assume_a=assume)  # noqa: E731
    one = matrix(routine, n, "float64"), jnp.ones(n)
    yield "jnp jit", 1, jax.jit(theirs), *one
    if devices > 1:
        mesh = jax.make_mesh((devices,), ("x",))
        specs = PartitionSpec("x", None), PartitionSpec()
        one = [jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip(one, specs, strict=True)]
    yield "meshsolve", devices, ours, *one
    yield "meshsolve jit", devices, jax.jit(ours), *one


def _timed(solve, a, b, calls: int, ours: bool) -> dict:
    import jax

    import meshsolve as ms

    for _ in range(5):
        jax.block_until_ready(solve(a, b))
    times, inside = [], []
    start = _processor(), time.thread_time()
    for _ in range(calls):
        begun = time.perf_counter()
        jax.block_until_ready(solve(a, b))
        times.append(time.perf_counter() - begun)
        if ours:
            inside.append(ms.last_call()["seconds"]["total"])
    spent = _processor() - start[0], time.thread_time() - start[1]
    figures = {
        "least": min(times),
        "median": statistics.median(times),
        "processor": spent[0] / calls,
        "caller": spent[1] / calls,
    }
    figures |= {"inside": statistics.median(inside)} if ours else {}
    return {name: f"{1e6 * seconds:.0f}" for name, seconds in figures.items()}


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
