"""Solves on CUDA devices against jax's own and against a product: a CSV line each.

Run: python benchmarks/gpu_solve.py [--out build/bench] [--sizes 32768,8192,16384,4096]
     [--dtypes float32,complex64,complex128] [--tiles 256,512,1024,2048] [--routine cholesky,lu]
     [--panels 512,1024] [--rows "panel*,jnp"] [--repeats 3] [--no-largest] [--only-largest]
     [--platform cuda|cpu] [--devices 2] [--quick] [--list]

Each row is a process of its own, so that the peak of the device's memory belongs to that row. The
first call makes the program and is not timed. Between the others the row measures the rate of a
product of two matrices of the same dtype, of n = 8192 at most; `share_of_gemm` is relative to it.
FLOPs are those of run.py. `peak_of_a` is the peak of all memory in use on a device, with A, over
its part of A. `note` has the error of rows that fail, for example of a missing engine.
`K ranks on one device` are solves by K ranks that share the first device. They run the code of
several devices, in memory that is not JAX's. `panel of W` is one factorisation by cuSOLVER, of n x
W by LU and of W x W by Cholesky. `host_seconds` are the seconds until its call returns,
`host_bytes` its workspace on the host.

`meshsolve` solves with donated A. `jnp` is jnp.linalg.solve or cho_solve(cho_factor), on one
device. `... factor` are cho_factor, lu_factor, jnp.linalg.cholesky and jax.scipy.linalg.lu_factor.
Rows `meshsolve tile W` have other tile widths than the default. The width n is one tile, on one
CUDA device the vendor's factorisation. `meshsolve largest` and `jnp largest` are the largest n of
float64 that is solved. They bisect between a size that works and one that does not; each size is
solved, and its residual checked.

--platform cpu runs on CPU devices, which only checks that the program works. Rows that this commit
has measured on this device are not measured again.
"""

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from fnmatch import fnmatch
from typing import NamedTuple

import environment
from bars import Aim
from commit import commit, driver, machine
from figures import shares, weight
from table import Table

COLUMNS = (
    *("routine", "what", "n", "rhs", "dtype", "devices"),
    *("seconds_min", "seconds_median", "seconds_max", "gflops", "share_of_gemm", "gemm_gflops"),
    *("host_seconds", "host_bytes", "peak_of_a", "residual_ratio"),
    *("jax", "meshsolve", "device", "driver", "cuda", "commit"),
    "note",
)
KEYS = ("routine", "what", "n", "dtype", "devices")
WHATS = ("meshsolve", "jnp", "meshsolve factor", "jnp factor")
ENGINE = "meshsolve cusolvermg"
RANKS = (1, 2, 4, 8)
PANEL = "panel of "
PANEL_CALLS = 5
CALLED = {"cholesky": "posv", "lu": "gesv"}
GEMM_N = 8192
LARGE = 16384  # from here on three calls are timed
# Least shares of the product rate, and the other aims.
SHARES, SHARES_AT = {"cholesky": 0.80, "lu": 0.70}, 32768
NOT_SLOWER_FROM, PEAK, TIMES_AS_LARGE, SHARED = 8192, 1.05, 1.4, 1.15
RESIDUAL = 30.0
# JAX's part of the device's memory.
FRACTION = "0.92"


class Case(NamedTuple):
    """One row."""

    routine: str
    what: str
    n: int
    dtype: str = "float64"


def main() -> int:
    """Measure the selected rows; the exit code is 1 without a device."""
    options = _options()
    cases = [] if options.only_largest else suite(options)
    if options.list:
        print("\n".join(" ".join(map(str, case)) for case in cases))
        return 0
    here = _child(options, "describe")
    if "failed" in here:
        print(f"no CUDA device: {here['failed']}", file=sys.stderr)
        return 1
    limit, count = here.pop("bytes"), here.pop("devices")
    name = re.sub(r"[^a-z0-9]+", "-", here["device"].lower())
    table = Table(
        options.out / f"solve-gpu-{count}-{name}.csv", COLUMNS, KEYS, here | {"commit": commit()}
    )
    for number, case in enumerate(cases):
        devices = count if case.what.startswith("meshsolve") else 1
        named = case._asdict() | {"devices": devices}
        if table.has(named):
            continue
        start = time.monotonic()
        table.add(named | {"rhs": 1} | _noted(_child(options, "measure", case)))
        took = f"{time.monotonic() - start:.0f} s"
        print(f"{number + 1}/{len(cases)}: {' '.join(map(str, case))}: {took}", file=sys.stderr)
    if not options.no_largest:
        _add_largest(options, table, count, limit)
    verdicts = [aim.line for aim in aims(table.rows)]
    print("\n".join([f"{here['device']}, CUDA {here['cuda']}, commit {commit()}", *verdicts]))
    return 0


def suite(options) -> list[Case]:
    """The rows, the most telling ones first."""
    sizes = [int(n) for n in options.sizes.split(",")]
    routines, tiles = options.routine.split(","), options.tiles.split(",")
    pairs = [(n, routine) for n in sizes for routine in routines]
    cases = [Case(routine, what, n) for n, routine in pairs for what in WHATS]
    for n, routine in pairs:
        widths = [n if tile == "n" else tile for tile in tiles if tile]
        cases += [Case(routine, f"meshsolve tile {width}", n) for width in widths]
    cases += [Case(routine, ENGINE, n) for n, routine in pairs]
    shared = [f"{ranks} ranks on one device" for ranks in RANKS]
    cases += [Case(r, what, max(sizes)) for r in routines for what in shared]
    panels = [int(width) for width in options.panels.split(",") if width]
    cases += [Case(r, f"{PANEL}{width}", n) for n, r in pairs for width in panels if width <= n]
    # One order for the other dtypes.
    n = sorted(sizes)[len(sizes) // 2]
    dtypes = [dtype for dtype in options.dtypes.split(",") if dtype]
    cases += [Case(r, what, n, d) for d in dtypes for r in routines for what in WHATS[:2]]
    names = options.rows.split(",")
    return [case for case in cases if any(fnmatch(case.what, name) for name in names)]


def largest(high: int, step: int, works: Callable[[int], bool]) -> tuple[int, int]:
    """The largest multiple of ``step`` that works, 0 if none does, and the least larger one that
    was tried and fails, 0 if none. Multiples above ``high`` are not tried.
    """
    most, fails = 0, 0
    low, high = 1, high // step
    while low <= high:
        # The largest first: if it fits no bisection is needed.
        tried = high if not fails else (low + high) // 2
        if works(tried * step):
            most, low = tried, tried + 1
        else:
            fails, high = tried, tried - 1
    return most * step, fails * step


def _add_largest(options, table: Table, count: int, limit: int) -> None:
    """Add a row for each way of solving."""
    for routine in options.routine.split(","):
        for what in ("meshsolve", "jnp"):
            devices = count if what == "meshsolve" else 1
            # A matrix larger than all memory cannot work.
            high = math.isqrt(limit * devices // 8)
            if options.most:
                high = min(high, options.most)
            named = {"routine": routine, "what": f"{what} largest", "dtype": "float64"}
            named |= {"devices": devices, "rhs": 1}
            done = [row for row in table.rows if all(str(row[k]) == str(named[k]) for k in named)]
            if any(table.has(row) for row in done):
                continue
            found: dict[int, dict] = {}

            def works(n: int, routine=routine, what=what, found=found) -> bool:
                row = _child(options, "measure", Case(routine, what, n), repeats=1)
                ratio = float(row.get("residual_ratio", "nan"))
                found[n] = row
                return "failed" not in row and ratio <= RESIDUAL

            n, fails = largest(high, options.step, works)
            why = found[fails].get("failed", "its residual is large") if fails else ""
            note = f"{fails} is not solved: {why}" if fails else "no larger one was tried"
            table.add(named | {"n": n} | _noted(found.get(n, {})) | {"note": note})


def aims(rows: list[dict]):
    """The aims that have rows."""
    doubles = [row for row in rows if row["dtype"] == "float64"]
    by = {(row["routine"], row["what"], int(row["n"])): row for row in doubles}
    sizes = {key: int(row["n"]) for key, row in by.items() if "largest" in row["what"]}

    def of(column: str, *key) -> float | None:
        return float(by[key][column]) if by.get(key, {}).get(column) else None

    for routine, share in SHARES.items():
        at = f"{routine}, n = {SHARES_AT}"
        if found := of("share_of_gemm", routine, "meshsolve factor", SHARES_AT):
            yield Aim(f"{at}: share of the product rate", found, share)
        if found := of("peak_of_a", routine, "meshsolve", SHARES_AT):
            yield Aim(f"{at}: memory at its peak / A", found, PEAK, False)
        orders = sorted({n for _, what, n in by if what == "meshsolve" and n >= NOT_SLOWER_FROM})
        for n, kind in [(n, kind) for n in orders for kind in ("", " factor")]:
            ours = of("seconds_median", routine, f"meshsolve{kind}", n)
            theirs = of("seconds_median", routine, f"jnp{kind}", n)
            if ours and theirs:
                name = f"{routine}{kind}, n = {n}: times as fast as jnp"
                yield Aim(name, theirs / ours, 1.0)
        largest_n = max((n for _, what, n in by if what == "1 ranks on one device"), default=0)
        one, four = (
            of("seconds_median", routine, f"{ranks} ranks on one device", largest_n)
            for ranks in (1, 4)
        )
        if one and four:
            yield Aim(f"{routine}, n = {largest_n}: 4 ranks / 1 rank", four / one, SHARED, False)
        most = {w: n for (r, w, _), n in sizes.items() if r == routine}
        if most.get("meshsolve largest") and most.get("jnp largest"):
            ratio = most["meshsolve largest"] / most["jnp largest"]
            yield Aim(f"{routine}: largest n / that of jnp", ratio, TIMES_AS_LARGE)


def _noted(row: dict) -> dict:
    failed = row.pop("failed", None)
    return row | ({"note": f"failed: {failed}"} if failed else {})


def _child(options, task: str, *case, **more) -> dict:
    """The output of a separate process; ``failed`` if it does not end well."""
    platform = {"cuda": "cuda", "cpu": "cpu"}[options.platform]
    own = environment.clean(JAX_PLATFORMS=platform, JAX_ENABLE_X64="1")
    if options.platform == "cpu":
        count = f"--xla_force_host_platform_device_count={options.devices}"
        own["XLA_FLAGS"] = count
    own.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", FRACTION)
    if case and "ranks" in case[0].what:
        own["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    order = {"task": task, "case": case[0] if case else None, "repeats": options.repeats} | more
    command = [sys.executable, __file__, "--child", json.dumps(order)]
    try:
        ran = subprocess.run(
            command, env=own, capture_output=True, text=True, timeout=options.timeout
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {options.timeout} s"}
    lines = ran.stdout.splitlines()
    if ran.returncode == 0 and lines:
        return json.loads(lines[-1])
    stated = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    telling = [line for line in stated if "Error" in line] or stated or [f"status {ran.returncode}"]
    return {"failed": telling[-1][:300]}


# In a separate process.


def describe() -> dict:
    """The machine, and the bytes of a device's memory that JAX may use."""
    import jax

    import measures
    import meshsolve as ms
    from meshsolve._library.cuda import search_folders

    devices = jax.devices()
    version = {"jax": jax.__version__, "meshsolve": ms.__version__, "driver": driver()}
    cpu = devices[0].platform == "cpu"
    cuda = "" if cpu else ".".join(map(str, measures.cuda_device(0, search_folders())[2]))
    statistics_of = devices[0].memory_stats() or {}
    return version | {
        "device": machine() if cpu else devices[0].device_kind,
        "cuda": cuda,
        "devices": len(devices),
        "bytes": statistics_of.get("bytes_limit", 1 << 30),
    }


def measure(case: Case, repeats: int | None) -> dict:
    """A row: peak and residual of the first call, seconds of the others."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    routine, what, n, dtype = case
    if what.startswith(PANEL):
        return measure_panel(routine, int(what.split()[-1]), n)
    if "ranks" in what:
        return measure_ranks(routine, int(what.split()[0]), n, repeats)
    devices = jax.devices()[: 1 if what.startswith("jnp") else None]
    rows = NamedSharding(Mesh(np.array(devices), ("x",)), PartitionSpec("x", None))
    whole = NamedSharding(rows.mesh, PartitionSpec())
    new_a = jax.jit(lambda: one_kernel(routine, n, dtype), out_shardings=rows)
    new_b = jax.jit(lambda: jnp.ones((n, 1), dtype), out_shardings=whole)
    solve = solver(what, routine)
    a, b = jax.block_until_ready((new_a(), new_b()))
    x = jax.block_until_ready(solve(a, b))
    peaks = [device.memory_stats() for device in devices]
    size = n * n * a.dtype.itemsize
    row = {}
    if all(peaks):
        peak = max(reported["peak_bytes_in_use"] for reported in peaks if reported)
        row["peak_of_a"] = f"{peak * len(devices) / size:.3f}"
    del a
    if not what.endswith("factor"):
        row["residual_ratio"] = f"{residual(new_a(), b, x):.4f}"
    del x
    times, rates = [], []
    rate = product_rate(min(n, GEMM_N), dtype, devices[0])
    for _ in range(_repeats(repeats, n)):
        rates.append(rate() * len(devices))
        a = jax.block_until_ready(new_a())
        start = time.perf_counter()
        x = jax.block_until_ready(solve(a, b))
        times.append(time.perf_counter() - start)
        del a, x
    factors = what.endswith("factor")
    reported = shares(routine, False, n, 0 if factors else 1, dtype, times, [], rates)
    return row | {name: value for name, value in reported.items() if name in COLUMNS}


def measure_ranks(routine: str, ranks: int, n: int, repeats: int | None) -> dict:
    """The same row for ranks that share a device."""
    import jax

    import measures
    from meshsolve._library.cuda import search_folders

    order = (0, CALLED[routine], n, ranks, None, _repeats(repeats, n), search_folders())
    times, error = measures.cuda_ranks(*order)
    rate = product_rate(min(n, GEMM_N), "float64", jax.devices()[0])
    reported = shares(routine, False, n, 1, "float64", times, [], [rate() for _ in range(3)])
    kept = {name: value for name, value in reported.items() if name in COLUMNS}
    return kept | {"note": f"largest error of x: {error:.1e}"}


def measure_panel(routine: str, width: int, n: int) -> dict:
    """One factorisation by cuSOLVER of the panel of a tile column of an n x n matrix."""
    import measures
    from meshsolve._library.cuda import search_folders

    called, rows = ("potrf", width) if routine == "cholesky" else ("getrf", n)
    order = (0, called, rows, width, PANEL_CALLS, search_folders())
    host, seconds, bytes_of_host = measures.cuda_panel(*order)
    row = {"seconds_median": f"{seconds:.9f}", "host_seconds": f"{host:.9f}"}
    return row | {"host_bytes": bytes_of_host}


def _repeats(asked: int | None, n: int) -> int:
    return asked or (3 if n >= LARGE else 7)


def one_kernel(routine: str, n: int, dtype: str):
    """A matrix that XLA makes by one kernel, which leaves no peak behind. For Cholesky it is that
    of contenders.py, otherwise pairs of numbers hashed to [-1/2, 1/2).
    """
    import jax
    import jax.numpy as jnp

    from contenders import matrix

    if routine == "cholesky":
        return matrix(routine, n, dtype)
    i, j = (jax.lax.broadcasted_iota("uint32", (n, n), k) for k in (0, 1))

    def hashed(seed: int):
        h = (i * jnp.uint32(73856093 + seed)) ^ (j * jnp.uint32(19349663 + 2 * seed))
        h = (h ^ (h >> 16)) * jnp.uint32(0x7FEB352D)
        h = (h ^ (h >> 15)) * jnp.uint32(0x846CA68B)
        return (h ^ (h >> 16)).astype(jnp.finfo(dtype).dtype) / 2**32 - 0.5

    real = hashed(0)
    return jax.lax.complex(real, hashed(2)) if dtype.startswith("complex") else real


def solver(what: str, routine: str):
    """(A, B) -> X or a factor; meshsolve takes a donated A."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import contenders
    import meshsolve as ms

    if what == "meshsolve factor":
        factor = {"cholesky": ms.cho_factor, "lu": ms.lu_factor}[routine]
        return lambda a, _: factor(a, overwrite_a=True)
    if what == "jnp factor":
        factor = {"cholesky": jnp.linalg.cholesky, "lu": jax.scipy.linalg.lu_factor}[routine]
        return jax.jit(lambda a, _: factor(a))
    if what.startswith("meshsolve tile "):
        return contenders.ffi_solver(CALLED[routine], tile=np.int64(what.split()[-1]))
    if what == ENGINE:
        assume = {"cholesky": "pos", "lu": "gen"}[routine]
        engine: dict = {"engine": "cusolvermg"}
        return lambda a, b: ms.solve(a, b, assume_a=assume, overwrite_a=True, **engine)
    return contenders.solver(what, routine)


def residual(a, b, x) -> float:
    """norm(b - a x) / (n norm(a) norm(x) u), 1-norms, on the device."""
    import jax
    import jax.numpy as jnp

    def ratio(a, b, x):
        r = b - jnp.matmul(a, x, precision="highest")
        norms = [jnp.abs(m).sum(0).max() for m in (r, a, x)]
        unit = jnp.finfo(a.dtype).eps / 2
        return norms[0] / (len(a) * norms[1] * norms[2] * unit)

    return float(jax.jit(ratio)(a, b, x))


def product_rate(n: int, dtype: str, device) -> Callable[[], float]:
    """A function that measures the GFLOP/s of a product of two matrices on one device; called once
    already.
    """
    import jax
    import jax.numpy as jnp

    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    where = jax.sharding.SingleDeviceSharding(device)
    new = jax.jit(lambda: one_kernel("lu", n, dtype), out_shardings=where)

    def rate() -> float:
        a = jax.block_until_ready(new())
        times = []
        for _ in range(3):
            start = time.perf_counter()
            jax.block_until_ready(product(a))
            times.append(time.perf_counter() - start)
        return weight(dtype) * 2e-9 * n**3 / statistics.median(times)

    rate()
    return rate


def _options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument("--sizes", default="32768,8192,16384,4096")
    parser.add_argument(
        "--dtypes", default="float32,complex64,complex128", help="in addition to float64"
    )
    parser.add_argument(
        "--tiles", default="256,512,1024,2048", help="widths to compare; n: one tile"
    )
    parser.add_argument("--routine", default="cholesky,lu")
    parser.add_argument("--panels", default="512,1024", help="widths of cuSOLVER's panels")
    parser.add_argument("--rows", default="*", help="only those of these names, as a shell's")
    parser.add_argument("--repeats", type=int, help="calls timed; 7, 3 from n = 16384")
    parser.add_argument("--no-largest", action="store_true", help="do not look for it")
    parser.add_argument("--only-largest", action="store_true", help="look for nothing else")
    parser.add_argument("--step", type=int, default=2048, help="the largest n to this multiple")
    parser.add_argument("--most", type=int, help="and not beyond this")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a row")
    parser.add_argument("--platform", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--devices", type=int, default=2, help="CPU devices")
    parser.add_argument("--quick", action="store_true", help="tiny matrices: does it work?")
    parser.add_argument("--list", action="store_true", help="only name the rows")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.tiles, options.repeats = "192,128", "16,n", 1
        options.panels = "16"
        options.step, options.most = 64, 192
    return options


def _child_main() -> int:
    """In the process of a row: print one line of JSON."""
    order = json.loads(_options().child)
    reported = describe() if order["task"] == "describe" else None
    print(json.dumps(reported or measure(Case(*order["case"]), order["repeats"])))
    return 0


if __name__ == "__main__":
    sys.exit(_child_main() if "--child" in sys.argv else main())
