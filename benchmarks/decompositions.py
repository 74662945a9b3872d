"""Least squares with a tall matrix by rows, QR, or eigenproblems, by turns: a CSV line for each
contender and shape.

Run: python benchmarks/decompositions.py [--task lstsq] [--devices 2] [--shapes MxN,...] [--turns 5]

| what, of task "lstsq" | meaning |
|---|---|
| meshsolve | `lstsq` on the shards of all devices |
| jnp qr | `jnp.linalg.qr` and a triangular solve, on the same shards |
| jnp qr, one device | the same with all of A on one device |
| SciPy gels | LAPACK's driver by SciPy, which overwrites a copy of A |
| ScaLAPACK pdgels | a process for each device, if there are Debian's packages |

| what, of task "qr" | meaning |
|---|---|
| meshsolve R | by columns `qr(a, "raw")`, R and the reflectors; by rows `qr(a, "r")` |
| meshsolve R, in place | the same in the memory of A |
| meshsolve | Q and R |
| jnp | Q and R by `jnp.linalg.qr` on the same shards |
| jnp, one device | the same with all of A on one device |
| SciPy R | LAPACK's `geqrf` by SciPy, which overwrites a copy of A |
| faer R | its R and reflectors, on all threads, in the memory of A |
| ScaLAPACK pdgeqrf R | as `pdgels` |

| what, of task "eigvalsh" | meaning |
|---|---|
| meshsolve | `eigvalsh` of an A by rows |
| meshsolve, band 64 | a direct call with a band of that width, for each of `--bands`; 0: any |
| jnp | `jnp.linalg.eigvalsh` on the same shards |
| jnp, one device | the same with all of A on one device |
| SciPy evr, SciPy evd | LAPACK's drivers by `scipy.linalg.eigvalsh`, which copies A |
| faer | its eigenvalues, on all threads |
| ScaLAPACK pdsyev | as `pdgels`; pdsyevd makes no eigenvalues alone |
| ELPA 1-stage, ELPA 2-stage | the faster one, a process for each device |

Task "eigh" has the same rows, with eigenvectors, and pdsyevd instead of pdsyev. Debian's package of
ELPA has no AVX in its own kernels. With `--subset 16` it has these rows instead:

| what | meaning |
|---|---|
| meshsolve, lowest 16 | `eigh` with `subset_by_index=(0, 15)` |
| SciPy evr, lowest 16 | the same by `scipy.linalg.eigh` |
| meshsolve values | `eigvalsh` |
| meshsolve | all eigenvectors |

| what, of all | meaning |
|---|---|
| meshsolve: band, and others | the stages of meshsolve's calls, by `last_call` |
| product | the product kernel of updates, 4096 x 4096 in tiles of 128 |

QR is of an A by columns, or by rows if it has at least 8 times as many rows as columns.

A turn calls each contender once. `gflops` counts 2 m n^2 - 2 n^3 / 3 operations, and as many again
for Q. Of eigenvalues it counts 4 n^3 / 3, and 4 n^3 more for all eigenvectors.
Of stages it counts 4 n^3 / 3 for the band, and 4 n^3 on the way back. Small matrices have no band:
the stage "tridiagonal" takes less than 2 us for a column, and the way back counts 2 n^3. `--subset`
has no stages.
Peak, libraries and `disturbed` are as in run.py. `temporary` is what XLA's program needs besides A,
b and the results, on all devices, as a share of A; for meshsolve its scratch, too.
"""

import argparse
import csv
import functools
import itertools
import statistics
import sys

import environment
from libraries import COLUMNS as LIBRARIES

STAGES = ("band", "tridiagonal", "values", "divide", "back")
COLUMNS = (
    *("what", "m", "n", "devices", "seconds_min", "seconds_median", "gflops"),
    *("share_of_peak", "share_of_product", "temporary"),
    *("peak_gflops", "peak_moved", "disturbed", *LIBRARIES, "jax", "commit"),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=("lstsq", "qr", "eigvalsh", "eigh"), default="lstsq")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--shapes")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument(
        "--first",
        type=int,
        help="only so many contenders of the table; those of several processes come last",
    )
    parser.add_argument(
        "--without", action="append", default=[], help="leaves out a contender of these; repeatable"
    )
    parser.add_argument("--bands", help="widths of bands, instead of competitors: 0,64,96")
    parser.add_argument("--subset", type=int, help="so many eigenvectors, of task eigh: 16")
    options = parser.parse_args()
    if options.subset and (options.task != "eigh" or options.bands):
        parser.error("--subset: expected --task eigh, and no --bands")
    if options.first is not None and options.first < 1:
        parser.error("--first: expected at least 1")
    environment.begin_on_cpu(options.devices)
    import jax

    import measures
    from commit import commit
    from decompositions_contenders import (
        of_bands,
        of_eigh,
        of_eigvalsh,
        of_least_squares,
        of_qr,
        of_subset,
    )
    from figures import of_peak, peak_rate
    from libraries import columns, of_this_process
    from meshsolve import _core

    threads = _core.threads()
    jax.config.update("jax_enable_x64", True)
    table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    table.writeheader()
    shapes, task = {
        "lstsq": ("1048576x64,32768x1024", of_least_squares),
        "qr": ("4096x4096,32768x1024,1048576x64", of_qr),
        "eigvalsh": ("2048x2048,4096x4096", of_eigvalsh),
        "eigh": ("2048x2048,4096x4096", of_eigh),
    }[options.task]
    if options.bands:
        widths = [int(width) for width in options.bands.split(",")]
        task = functools.partial(of_bands, options.task, widths)
    if options.subset:
        task = functools.partial(of_subset, options.subset)
    for m, n in (map(int, shape.split("x")) for shape in (options.shapes or shapes).split(",")):
        # Each is made when its turn comes, and those of several processes are tried at length.
        contenders = list(itertools.islice(task(m, n, options.devices), options.first))
        names = [one.what for one in contenders]
        if not set(options.without) < set(names):
            parser.error(f"--without: expected some of {names}, but not all, got {options.without}")
        contenders = [one for one in contenders if one.what not in options.without]
        _expect_alike(contenders)
        seconds, stages = {one.what: [] for one in contenders}, {}
        peaks, products = [peak_rate("float64", threads)], []
        for _ in range(options.turns):
            for one in contenders:
                seconds[one.what].append(one.seconds())
                if one.what.startswith("meshsolve") and not options.subset:
                    _add_stages(one.what, stages)
            products.append(measures.update_flops("float64", 4096, threads, 128) / 1e9)
            peaks.append(peak_rate("float64", threads))
        peak, product = statistics.median(peaks), statistics.median(products)
        operations = 2 * m * n**2 - 2 * n**3 / 3
        rows = [(one.what, seconds[one.what], one.parts, one) for one in contenders]
        rows += [(what, times, _parts_of(what, n, stages), None) for what, times in stages.items()]
        for what, times, parts, one in [*rows, ("product", (), 1, None)]:
            row = {"what": what, "m": m, "n": n, "devices": options.devices}
            if times:
                row["seconds_min"] = f"{min(times):.6f}"
                row["seconds_median"] = f"{statistics.median(times):.6f}"
            if one is not None and one.temporary is not None:
                row["temporary"] = f"{one.temporary:.3f}"
            if parts is not None:
                rate = parts * operations / statistics.median(times) / 1e9 if times else product
                row |= {
                    "gflops": f"{rate:.1f}",
                    "share_of_peak": f"{rate / peak:.3f}",
                    "share_of_product": f"{rate / product:.3f}",
                }
            if one is not None and one.end is not None:
                version, kernels = one.end()
                library = what.split()[0]
                of = columns(f"{library}; openblas", f"unknown; {version}", kernels)
            else:
                is_own = what.startswith(("meshsolve", "product"))
                known = "meshsolve" if is_own else what.split(" R")[0]
                of = of_this_process(known, threads)
            row |= of_peak(peaks) | of
            table.writerow(row | {"jax": jax.__version__, "commit": commit()})
            sys.stdout.flush()


def _add_stages(what: str, stages: dict[str, list[float]]) -> None:
    """Add the times of the last call's stages to those of earlier turns."""
    import meshsolve

    passed = meshsolve.last_call()["seconds"]
    for stage in STAGES:
        if stage in passed:
            stages.setdefault(f"{what}: {stage}", []).append(passed[stage])


def _parts_of(what: str, n: int, stages: dict[str, list[float]]) -> float | None:
    """How often a stage counts 4 n^3 / 3 operations; None if it does not count."""
    call, stage = what.rsplit(": ", 1)
    if stage == "band":
        return 1
    if stage != "back":
        return None
    return 3 if statistics.median(stages[f"{call}: tridiagonal"]) > 2e-6 * n else 1.5


def _expect_alike(contenders) -> None:
    """Fail if the contenders do not agree."""
    import numpy as np

    def answer(run):
        found = run()
        return np.asarray(found[0] if isinstance(found, tuple) else found)

    first, *others = [one for one in contenders if one.call is not None]
    x = answer(first.call)
    for one in others:
        # Some have all eigenvalues, and the first one a subset.
        off = np.abs(answer(one.call)[: len(x)] - x).max() / np.abs(x).max()
        if off > 1e-8:
            away = f"one {off:.1e} away"
            raise SystemExit(f"{one.what}: expected the solution of meshsolve, got {away}")


if __name__ == "__main__":
    main()
