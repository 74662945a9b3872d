"""Solves against their competitors: a CSV line per row.

Run: python benchmarks/run.py [--sizes 1024,4096,8192] [--devices 2] [--dtype float64]
     [--routine cholesky,lu,inverse,triangular,determinant,gradient] [--what "meshsolve,scipy"]
     python benchmarks/run.py --suite bench [--out FOLDER] [--list]

Each row has its own process. Rows of one routine, order and dtype take turns (turns.py): one call
of the first (more if it is small), then one of the second and so on. There are five such rounds.
Meanwhile the other processes sleep. Figures are medians over all turns. The processes start without
the variables of BLAS libraries (environment.py). `library`, `library_version` and `architecture`
name the library of the row, `variables` the variables that the benchmark has set.

Before and after each turn the row's process measures the peak of fused multiply-adds, in its real
dtype, on all threads (`peak_gflops`). `share_of_peak` is relative to it. A row is `disturbed` if
its peaks are more than 5 % apart (`peak_moved`). `share_of_gemm` is relative to faer's product,
which is measured in each turn, or in three turns for a competitor. Times are of whole calls, with
dispatch. FLOPs are n^3/3 for Cholesky, 2/3 n^3 for LU, a determinant and a gradient, and 2 n^3 for
an inverse. They are 2 n^2 k for k right-hand sides, and n^2 k with a triangular matrix. These are
real operations: complex types have 4 times as many. The clock inside the call gives the other
columns. `share_of_peak_factor` and the like are of the factorisation alone;
`share_of_update_factor` is relative to the product that updates its tiles (`update_gflops`). The
phases are `seconds_wait` (for the devices to arrive), `seconds_arrange` (transposing, mirroring,
redistributing), `seconds_solve` and `seconds_other`; `seconds_outside` is the rest of the call.
`share_of_copy` is the rate of an in-place transposition of A over that of a copy of memory by the
same threads.

A suite (suites.py) is a list of rows. With `--out` they go into FOLDER/solve-cpu-CORES-cores.csv,
where they replace the same rows of an earlier commit. They are written when all rows of a
comparison are measured. Rows of this commit are not measured again, so that an interrupted run
continues.

Rows that cannot be measured are left out, and standard error reports the reason. Solves of n
right-hand sides above n = 4096 take minutes: they are left out unless `--what` names them.
"""

import argparse
import itertools
import os
import pathlib
import sys
import time

import scalapack
from commit import commit, machine
from libraries import COLUMNS as LIBRARIES
from table import Table
from turns import LeftOut, Worker, by_turns, serve

ROUTINES = ("cholesky", "lu", "inverse", "triangular", "determinant", "gradient")
COLUMNS = (
    *("routine", "what", "n", "rhs", "dtype", "devices", "threads", "sharding"),
    *("seconds_min", "seconds_median", "seconds_max", "calls", "gflops"),
    *("share_of_peak", "share_of_gemm", "disturbed", "peak_gflops", "peak_moved", "gemm_gflops"),
    *("seconds_factor", "share_of_peak_factor", "share_of_gemm_factor"),
    *("share_of_update_factor", "update_gflops"),
    *("seconds_wait", "seconds_arrange", "seconds_solve", "seconds_other", "seconds_outside"),
    *("copy_gb_per_s", "share_of_copy", "peak_over_a", "residual_ratio"),
    *(*LIBRARIES, "jax", "meshsolve", "commit", "machine"),
)
# Above this only `--what` selects solves of n right-hand sides.
MANY_N = 4096


def main() -> None:
    """Run every measurement in a separate process and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--routine", default=",".join(ROUTINES), help="comma-separated")
    parser.add_argument("--sizes", default="1024,4096,8192")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--rhs", type=int, default=1, help="right-hand sides of whole solves")
    parser.add_argument(
        "--repeats", type=int, help="calls timed; 55, 15 from n = 2048, 5 from 4096"
    )
    parser.add_argument("--what", help="comma-separated selection of rows")
    parser.add_argument("--nb", default="64,128", help="ScaLAPACK's blocks; the best is taken")
    parser.add_argument("--suite", help="rows of suites.py instead: bench, growth, full or check")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the table; else it is printed")
    parser.add_argument("--list", action="store_true", help="only name the rows")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _serve(options)
        return
    routines = options.routine.split(",")
    if not set(routines) <= set(ROUTINES):
        parser.error(f"--routine: expected some of {', '.join(ROUTINES)}, got {options.routine}")
    rows = _cases(options, routines)
    if options.list:
        print("\n".join(" ".join(map(str, case)) for case in rows))
        return
    path = None
    if options.out:
        path = options.out / f"solve-cpu-{len(os.sched_getaffinity(0))}-cores.csv"
    keys = ("routine", "what", "n", "dtype", "devices")
    table = Table(path, COLUMNS, keys, {"commit": commit(), "machine": machine()})
    left = [case for case in rows if not table.has(_named(case))]
    compared: dict = {}
    for case in left:
        compared.setdefault((case.routine, case.n, case.dtype), []).append(case)
    done = len(rows) - len(left)
    for cases in compared.values():
        start = time.monotonic()
        for case, row in by_turns({case: _worker(options, case) for case in cases}).items():
            if isinstance(row, LeftOut):
                stated = f"{case.routine}: {case.what} at n = {case.n} left out: {row}"
                print(stated, file=sys.stderr)
            else:
                table.add({"routine": case.routine, "what": case.what} | row)
        done += len(cases)
        if options.out:
            took = f"{time.monotonic() - start:.0f} s"
            of = f"{cases[0].routine} {cases[0].n} {cases[0].dtype}"
            print(f"{done}/{len(rows)}: {of}: {len(cases)} rows: {took}", file=sys.stderr)


def _cases(options, routines: list[str]) -> list:
    from suites import SUITES, Case, cases

    if options.suite:
        if options.suite not in SUITES:
            sys.exit(f"--suite: expected one of {', '.join(SUITES)}; got {options.suite}")
        return [case for case in cases(options.suite) if case.routine in routines]
    return [
        Case(routine, what, n, options.dtype, options.devices)
        for routine in routines
        for n in map(int, options.sizes.split(","))
        for what in _rows(options.what, routine, n)
    ]


def _worker(options, case) -> Worker:
    """The process of a row."""
    command = [__file__, "--one", case.what, "--routine", case.routine]
    command += ["--sizes", str(case.n), "--dtype", case.dtype, "--devices", str(case.devices)]
    command += ["--rhs", str(options.rhs), "--nb", options.nb]
    command += ["--repeats", str(options.repeats)] if options.repeats else []
    name = f"{case.routine}: {case.what} at n = {case.n}"
    return Worker(command, name, not case.what.startswith("meshsolve"))


def _serve(options) -> None:
    """The main function of that process."""
    options.devices = 1 if on_one_device(options.one) else options.devices
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options.devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    from rows import row_of

    jax.config.update("jax_enable_x64", True)
    serve(lambda: row_of(options))


def _named(case) -> dict:
    """The keys of its row."""
    devices = 1 if on_one_device(case.what) else case.devices
    return case._replace(devices="" if case.what == "faer gemm" else devices)._asdict()


def on_one_device(what: str) -> bool:
    """Whether a competitor uses no mesh."""
    return what == "faer" or what.startswith(("jnp one device", "scipy"))


def _rows(asked: str | None, routine: str, n: int) -> list[str]:
    from contenders import WHATS

    others = scalapack.WHATS if routine in ("cholesky", "lu") else ()
    every = (*WHATS[routine], *others, "faer gemm")
    if asked is None:
        return [what for what in every if n <= MANY_N or not what.endswith(" n rhs")]
    known = {*itertools.chain(*WHATS.values()), "faer gemm"}
    selected = asked.split(",")
    for what in selected:
        if what not in known and not what.startswith("ScaLAPACK"):
            sys.exit(f"--what: expected some of {', '.join(every)}; got {what}")
    named = lambda what: others and what.startswith("ScaLAPACK")  # noqa: E731
    return [what for what in selected if what in every or named(what)]


if __name__ == "__main__":
    main()
