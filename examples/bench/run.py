"""One solve against its competitors: a CSV line per measurement, each in a fresh process.

Run: python examples/bench/run.py [--sizes 1024,4096,8192] [--devices 2] [--dtype float64]
     [--routine cholesky,lu,inverse,triangular,determinant,gradient] [--what "meshsolve,scipy"]
     python examples/bench/run.py --suite bench [--out FOLDER] [--list]

Every process takes faer's gemm rate on all threads between its own calls, so that `share_of_gemm`
compares what the machine gave at the same time (ScaLAPACK, which has processes of its own, and
small matrices, whose calls its threads would disturb: before and after them). Times are of whole
calls, dispatch included; FLOPs are n^3/3 for Cholesky, 2/3 n^3 for LU, a determinant and a
gradient, 2 n^3 for an inverse, and 2 n^2 k for k right-hand sides, n^2 k with a triangular matrix
(4 times that for complex types). `share_of_gemm_factor` is of the factorisation alone, by the clock
inside the call; so are `seconds_wait` (for the devices to arrive), `seconds_arrange` (transposed,
mirrored, redistributed), `seconds_solve` and `seconds_other`, while `seconds_outside` is what the
call took beyond them. `share_of_copy` is the rate of a transposition in place of A as a share of
that of a copy of memory by the same threads.

A suite (suites.py) is a list of rows. With `--out` they go into FOLDER/solve-cpu-CORES-cores.csv,
in the place of the same row of an earlier commit; rows that this commit has measured there already
are not measured again, so that a run that was broken off goes on.

Rows that cannot be measured are left out, and standard error says why. So are solves of n
right-hand sides above n = 4096, which take minutes, unless `--what` names them.
"""

import argparse
import itertools
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import scalapack
from commit import commit, machine
from table import Table

ROUTINES = ("cholesky", "lu", "inverse", "triangular", "determinant", "gradient")
# What `ms.last_call()` tells, by columns; the rest of its phases are "other".
PHASES = ("wait", "arrange", "factor", "solve")
COLUMNS = (
    *("routine", "what", "n", "rhs", "dtype", "devices", "threads", "sharding"),
    *("seconds_min", "seconds_median", "seconds_max", "gflops", "share_of_gemm"),
    *("seconds_factor", "share_of_gemm_factor", "gemm_gflops"),
    *("seconds_wait", "seconds_arrange", "seconds_solve", "seconds_other", "seconds_outside"),
    *("copy_gb_per_s", "share_of_copy"),
    *("peak_over_a", "residual_ratio", "jax", "meshsolve", "commit", "machine", "note"),
)
# Those whose last call is the one that factors.
FACTORING = ("cholesky", "lu", "inverse")
GEMM_N = 4096
# Below this the yardstick is not taken between calls, and more of them are timed.
SMALL_N = 2048
# Bytes of A from which its transposition goes to memory, and is compared with a copy.
COPIED = 1 << 26
SLOW = 3.0  # seconds of a call, of a competitor, beyond which three have to do


def main() -> None:
    """Run every measurement in a process of its own and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--routine", default=",".join(ROUTINES), help="comma-separated")
    parser.add_argument("--sizes", default="1024,4096,8192")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--rhs", type=int, default=1, help="right-hand sides of whole solves")
    parser.add_argument(
        "--repeats", type=int, help="calls timed; 51, 11 from n = 2048, 5 from 4096"
    )
    parser.add_argument("--what", help="comma-separated selection of rows")
    parser.add_argument("--nb", default="64,128", help="ScaLAPACK's blocks; the best is taken")
    parser.add_argument("--suite", help="rows of suites.py instead: bench, growth, full or check")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the table; else it is printed")
    parser.add_argument("--list", action="store_true", help="only name the rows")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options)))
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
    for number, case in enumerate(rows):
        if table.has(_named(case)):
            continue
        start = time.monotonic()
        row = _ran(options, case)
        if "left_out" in row:
            reason = row["left_out"]
            print(
                f"{case.routine}: {case.what} at n = {case.n} left out: {reason}", file=sys.stderr
            )
            continue
        table.add({"routine": case.routine, "what": case.what} | row)
        if options.out:
            took = f"{time.monotonic() - start:.0f} s"
            print(f"{number + 1}/{len(rows)}: {' '.join(map(str, case))}: {took}", file=sys.stderr)


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


def _ran(options, case) -> dict:
    """One row, from a process of its own."""
    command = [sys.executable, __file__, "--one", case.what, "--routine", case.routine]
    command += ["--sizes", str(case.n), "--dtype", case.dtype, "--devices", str(case.devices)]
    command += ["--rhs", str(options.rhs), "--nb", options.nb]
    command += ["--repeats", str(options.repeats)] if options.repeats else []
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode < 0 and not case.what.startswith("meshsolve"):
        return {"left_out": f"it died of {signal.Signals(-ran.returncode).name}"}
    if ran.returncode:
        sys.exit(f"{case.routine}: {case.what} at n = {case.n} failed:\n{ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def _named(case) -> dict:
    """What its row is found by."""
    devices = 1 if on_one_device(case.what) else case.devices
    return case._replace(devices="" if case.what == "faer gemm" else devices)._asdict()


def on_one_device(what: str) -> bool:
    """Whether a competitor has nothing to do with meshes."""
    return what == "faer" or what.startswith(("jnp one device", "scipy"))


def _rows(asked: str | None, routine: str, n: int) -> list[str]:
    from contenders import WHATS

    others = scalapack.WHATS if routine in ("cholesky", "lu") else ()
    every = (*WHATS[routine], *others, "faer gemm")
    if asked is None:
        return [what for what in every if n <= GEMM_N or not what.endswith(" n rhs")]
    known = {*itertools.chain(*WHATS.values()), "faer gemm"}
    selected = asked.split(",")
    for what in selected:
        if what not in known and not what.startswith("ScaLAPACK"):
            sys.exit(f"--what: expected some of {', '.join(every)}; got {what}")
    named = lambda what: others and what.startswith("ScaLAPACK")  # noqa: E731
    return [what for what in selected if what in every or named(what)]


def measure(options) -> dict:
    """Measure one row of one routine at one size."""
    what, n = options.one, int(options.sizes)
    devices = 1 if on_one_device(what) else options.devices
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    import meshsolve as ms
    from meshsolve import _core

    jax.config.update("jax_enable_x64", True)
    row = {"n": n, "rhs": options.rhs, "dtype": options.dtype, "devices": devices}
    row |= {"threads": _core.threads(), "jax": jax.__version__, "meshsolve": ms.__version__}
    if what == "faer gemm":
        return row | _gemm(options, n)
    try:
        taken = _scalapack if what.startswith("ScaLAPACK") else _solves
        return row | taken(options, what, n)
    except scalapack.Unavailable as reason:
        return {"left_out": str(reason)}


def _solves(options, what: str, n: int) -> dict:
    import jax
    import numpy as np

    import meshsolve as ms
    from contenders import READY, contender, right_hand_sides, sharding
    from memory import peak, reset_peak

    routine, dtype = options.routine, options.dtype
    rhs = right_hand_sides(what, n, options.rhs)
    times, phases, rates, above, ratio = [], [], [], 0, 0.0
    row, ours = contender(what, routine, n, rhs, dtype), what.startswith("meshsolve")
    tells = ours and what not in (*READY, "meshsolve refine") and routine in FACTORING
    repeats = _repeats(options, n)
    _gemm_rate(dtype, 256)  # starts its threads
    if n < SMALL_N:
        rates += [_gemm_rate(dtype, n) for _ in range(min(repeats, 5))]
    while len(times) <= repeats:
        # The first call compiles. Three products are enough beside a competitor.
        if times and n >= SMALL_N and (ours or len(rates) < 3):
            rates.append(_gemm_rate(dtype, n))
        a, b = row.system()
        before = reset_peak()
        start = time.perf_counter()
        x = jax.block_until_ready(row.solve(a, b))
        times.append(time.perf_counter() - start)
        above = peak() - before
        if tells:
            phases.append({"whole": times[-1]} | ms.last_call()["seconds"])
        if len(times) == 1:
            ratio = row.check(x)
        elif times[-1] > SLOW and not ours and not options.repeats:
            repeats = 3
        del a, b, x
    del times[0], phases[:1]
    if n < SMALL_N:
        rates += [_gemm_rate(dtype, n) for _ in range(min(repeats, 5))]
    size = n * n * np.dtype(dtype).itemsize
    lies = sharding(what)
    split, factor = _split(phases), [seconds["factor"] for seconds in phases]
    if what == "meshsolve columns" and phases and size >= COPIED:
        split |= _share_of_copy(size, statistics.median(p["arrange"] for p in phases))
    if what == "faer":
        factor = row.solve.factor[1:]
    return (
        {
            "rhs": rhs,
            "sharding": lies if options.devices > 1 or lies != "rows" else "",
            "peak_over_a": f"{above / size:.3f}",
            "residual_ratio": f"{ratio:.4f}",
        }
        | shares(routine, what in READY, n, rhs, dtype, times, factor, rates)
        | split
    )


def _split(phases: list[dict]) -> dict:
    """The columns of seconds inside and outside of a call."""
    if not phases:
        return {}
    for seconds in phases:
        seconds["outside"] = seconds["whole"] - seconds["total"]
        told = sum(seconds.get(phase, 0) for phase in PHASES)
        seconds["other"] = max(seconds["total"] - told, 0)
    of = lambda name: statistics.median(seconds.get(name, 0) for seconds in phases)  # noqa: E731
    return {f"seconds_{name}": f"{of(name):.5f}" for name in (*PHASES, "other", "outside")}


def _share_of_copy(size: int, seconds: float) -> dict:
    """The columns of an in-place transposition of A that took so long."""
    from meshsolve import _core

    copied = min(size, 4 * COPIED)
    times = [_core.copy_seconds(copied, _core.threads()) for _ in range(5)]
    rate = 2 * copied / statistics.median(times[1:])
    share = f"{2 * size / max(seconds, 1e-9) / rate:.3f}"
    return {"copy_gb_per_s": f"{rate / 1e9:.1f}", "share_of_copy": share}


def _scalapack(options, what: str, n: int) -> dict:
    routine, rhs = options.routine, options.rhs
    if options.dtype != "float64":
        raise scalapack.Unavailable("float64 only")
    solve = lambda n, nb, times: scalapack.measure(  # noqa: E731
        what, routine, n, rhs, nb, times, options.devices
    )
    tried = min(n, GEMM_N)
    trials = {nb: min(solve(tried, nb, 2).whole) for nb in map(int, options.nb.split(","))}
    nb = min(trials, key=trials.__getitem__)
    slow = trials[nb] * (n / tried) ** 3 > SLOW and not options.repeats
    repeats = 3 if slow else _repeats(options, n)
    _gemm_rate("float64", 256)
    rates = [_gemm_rate("float64", n) for _ in range(min(repeats, 3))]
    timed = solve(n, nb, repeats + 1)
    rates += [_gemm_rate("float64", n) for _ in range(min(repeats, 3))]
    return {
        "threads": options.devices,
        "sharding": f"block-cyclic {nb}",
        "residual_ratio": f"{timed.ratio:.4f}",
        "note": f"OpenBLAS kernels {timed.kernels}",
    } | shares(routine, False, n, rhs, "float64", timed.whole[1:], timed.factor[1:], rates)


def _gemm(options, n: int) -> dict:
    rates = [_gemm_rate(options.dtype, n) for _ in range(_repeats(options, n) + 1)][1:]
    n = min(n, GEMM_N)
    seconds = [weight(options.dtype) * 2 * n**3 / rate / 1e9 for rate in rates]
    row = shares("gemm", False, n, 0, options.dtype, seconds, [], rates)
    return row | {"n": n, "rhs": "", "devices": ""}


def shares(routine, ready, n, rhs, dtype, times, factor, rates) -> dict:
    """The columns of seconds and rates."""
    cubes = {"cholesky": 1 / 3, "inverse": 2, "triangular": 0, "gemm": 2}.get(routine, 2 / 3) * n**3
    squares = {"cholesky": 2, "lu": 2, "triangular": 1}.get(routine, 0) * n**2 * rhs
    times_real, gemm = weight(dtype), statistics.median(rates)
    flops = times_real * (cubes * (not ready) + squares)
    median = statistics.median(times)
    row = {
        "seconds_min": f"{min(times):.5f}",
        "seconds_median": f"{median:.5f}",
        "seconds_max": f"{max(times):.5f}",
        "gflops": f"{flops / median / 1e9:.1f}",
        "share_of_gemm": f"{flops / median / 1e9 / gemm:.3f}",
        "gemm_gflops": f"{gemm:.1f}",
    }
    if factor:
        seconds = statistics.median(factor)
        row["seconds_factor"] = f"{seconds:.5f}"
        cubes = 2 / 3 * n**3 if routine == "inverse" else cubes
        row["share_of_gemm_factor"] = f"{times_real * cubes / seconds / 1e9 / gemm:.3f}"
    return row


def _repeats(options, n: int) -> int:
    return options.repeats or (51 if n < SMALL_N else 11 if n < 4096 else 5)


def weight(dtype: str) -> int:
    """Real operations in the place of one."""
    return 4 if dtype.startswith("complex") else 1


def _gemm_rate(dtype: str, n: int) -> float:
    from meshsolve import _core

    n = min(n, GEMM_N)
    seconds = _core.gemm_seconds(dtype, n, _core.threads())
    return weight(dtype) * 2 * n**3 / seconds / 1e9


if __name__ == "__main__":
    main()
