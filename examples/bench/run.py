"""One solve against its competitors: a CSV line per measurement, each in a fresh process.

Run: python examples/bench/run.py [--sizes 1024,4096,8192] [--devices 2] [--dtype float64]
     [--routine cholesky,lu,inverse,triangular,determinant,gradient] [--what "meshsolve,scipy"]

Every process takes faer's gemm rate on all threads between its own calls, so that `share_of_gemm`
compares what the machine gave at the same time (ScaLAPACK, which has processes of its own: before
and after them). Times are of whole calls, dispatch included; FLOPs are n^3/3 for Cholesky, 2/3 n^3
for LU, a determinant and a gradient, 2 n^3 for an inverse, and 2 n^2 k for k right-hand sides,
n^2 k with a triangular matrix (4 times that for complex types).
`share_of_gemm_factor` is of the factorisation alone, by the clock inside the call.

Rows that cannot be measured are left out, and standard error says why. So are solves of n
right-hand sides above n = 4096, which take minutes, unless `--what` names them.
"""

import argparse
import csv
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

import scalapack
from commit import commit

ROUTINES = ("cholesky", "lu", "inverse", "triangular", "determinant", "gradient")
COLUMNS = (
    *("routine", "what", "n", "rhs", "dtype", "devices", "threads", "sharding"),
    *("seconds_min", "seconds_median", "seconds_max", "gflops", "share_of_gemm"),
    *("seconds_factor", "share_of_gemm_factor", "gemm_gflops"),
    *("peak_over_a", "residual_ratio", "jax", "meshsolve", "commit", "note"),
)
# Those whose last call is the one that factors.
FACTORING = ("cholesky", "lu", "inverse")
GEMM_N = 4096
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
    parser.add_argument("--repeats", type=int, help="calls timed; 11, 5 from n = 4096")
    parser.add_argument("--what", help="comma-separated selection of rows")
    parser.add_argument("--nb", default="64,128", help="ScaLAPACK's blocks; the best is taken")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options)))
        return
    routines = options.routine.split(",")
    if not set(routines) <= set(ROUTINES):
        parser.error(f"--routine: expected some of {', '.join(ROUTINES)}, got {options.routine}")
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    here = commit()
    for routine in routines:
        for n in map(int, options.sizes.split(",")):
            for what in _rows(options.what, routine, n):
                command = [sys.executable, __file__, *sys.argv[1:]]
                command += ["--one", what, "--routine", routine, "--sizes", str(n)]
                ran = subprocess.run(command, capture_output=True, text=True)
                if ran.returncode:
                    sys.exit(f"{routine}: {what} at n = {n} failed:\n{ran.stderr}")
                row = json.loads(ran.stdout.splitlines()[-1])
                if "left_out" in row:
                    reason = row["left_out"]
                    print(f"{routine}: {what} at n = {n} left out: {reason}", file=sys.stderr)
                    continue
                table.writerow({"routine": routine, "what": what, "commit": here} | row)
                sys.stdout.flush()


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
    one_device = what.startswith(("jnp one device", "scipy"))
    devices = 1 if one_device else options.devices
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
    times, factor, rates, above, ratio = [], [], [], 0, 0.0
    row, ours = contender(what, routine, n, rhs, dtype), what.startswith("meshsolve")
    repeats = _repeats(options, n)
    _gemm_rate(dtype, 256)  # starts its threads
    while len(times) <= repeats:
        # The first call compiles. Three products are enough beside a competitor.
        if times and (ours or len(rates) < 3):
            rates.append(_gemm_rate(dtype, n))
        a, b = row.system()
        before = reset_peak()
        start = time.perf_counter()
        x = jax.block_until_ready(row.solve(a, b))
        times.append(time.perf_counter() - start)
        above = peak() - before
        if ours and what not in (*READY, "meshsolve refine") and routine in FACTORING:
            factor.append(ms.last_call()["seconds"]["factor"])
        if len(times) == 1:
            ratio = row.check(x)
        elif times[-1] > SLOW and not ours and not options.repeats:
            repeats = 3
        del a, b, x
    del times[0], factor[:1]
    size = n * n * np.dtype(dtype).itemsize
    lies = sharding(what)
    return {
        "rhs": rhs,
        "sharding": lies if options.devices > 1 or lies != "rows" else "",
        "peak_over_a": f"{above / size:.3f}",
        "residual_ratio": f"{ratio:.4f}",
    } | _shares(routine, what in READY, n, rhs, dtype, times, factor, rates)


def _scalapack(options, what: str, n: int) -> dict:
    routine, rhs = options.routine, options.rhs
    if options.dtype != "float64":
        raise scalapack.Unavailable("float64 only")
    solve = lambda n, nb, times: scalapack.measure(  # noqa: E731
        what, routine, n, rhs, nb, times, options.devices
    )
    trials = {nb: min(solve(min(n, GEMM_N), nb, 2).whole) for nb in map(int, options.nb.split(","))}
    nb = min(trials, key=trials.__getitem__)
    repeats = _repeats(options, n)
    _gemm_rate("float64", 256)
    rates = [_gemm_rate("float64", n) for _ in range(min(repeats, 3))]
    timed = solve(n, nb, repeats + 1)
    rates += [_gemm_rate("float64", n) for _ in range(min(repeats, 3))]
    return {
        "threads": options.devices,
        "sharding": f"block-cyclic {nb}",
        "residual_ratio": f"{timed.ratio:.4f}",
        "note": f"OpenBLAS kernels {timed.kernels}",
    } | _shares(routine, False, n, rhs, "float64", timed.whole[1:], timed.factor[1:], rates)


def _gemm(options, n: int) -> dict:
    rates = [_gemm_rate(options.dtype, n) for _ in range(_repeats(options, n) + 1)][1:]
    n = min(n, GEMM_N)
    seconds = [_weight(options.dtype) * 2 * n**3 / rate / 1e9 for rate in rates]
    row = _shares("gemm", False, n, 0, options.dtype, seconds, [], rates)
    return row | {"n": n, "rhs": "", "devices": ""}


def _shares(routine, ready, n, rhs, dtype, times, factor, rates) -> dict:
    """The columns of seconds and rates."""
    cubes = {"cholesky": 1 / 3, "inverse": 2, "triangular": 0, "gemm": 2}.get(routine, 2 / 3) * n**3
    squares = {"cholesky": 2, "lu": 2, "triangular": 1}.get(routine, 0) * n**2 * rhs
    weight, gemm = _weight(dtype), statistics.median(rates)
    flops = weight * (cubes * (not ready) + squares)
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
        row["share_of_gemm_factor"] = f"{weight * cubes / seconds / 1e9 / gemm:.3f}"
    return row


def _repeats(options, n: int) -> int:
    return options.repeats or (11 if n < 4096 else 5)


def _weight(dtype: str) -> int:
    return 4 if dtype.startswith("complex") else 1


def _gemm_rate(dtype: str, n: int) -> float:
    from meshsolve import _core

    n = min(n, GEMM_N)
    seconds = _core.gemm_seconds(dtype, n, _core.threads())
    return _weight(dtype) * 2 * n**3 / seconds / 1e9


if __name__ == "__main__":
    main()
