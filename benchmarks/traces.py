"""The parts of the time of one call: traces, and their sums.

Run: python benchmarks/traces.py [--out FOLDER] [--cases cholesky-8192-2,...]

A case is a routine, an order and a number of devices. Each runs in its own process, with products
of all threads between its calls. The spans of the call with the median time go to
FOLDER/trace-CASE.json.gz, which Perfetto opens, and their sums to FOLDER/traces-cpu-*-cores.csv.
For each worker these have the shares of the call's time in updates, panels, substitutions, other
work, waits and between spans (handover, dispatch). They also have the rate of its updates,
arithmetic of whole tiles, over a thread's part of the processor's peak, and over the product rate.
The peak is measured before and after the calls; if it moved by more than 5 % the rows are marked as
disturbed.
"""

import argparse
import collections
import csv
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import environment

CASES = "cholesky-8192-2,lu-8192-2,cholesky-256-2,lu-256-1"
COLUMNS = (
    *("case", "seconds", "peak_gflops", "peak_moved", "disturbed", "gemm_gflops", "worker"),
    *("update", "panel", "substitution", "other", "wait", "between"),
    *("update_share_of_peak", "update_share_of_gemm", "jax", "commit", "machine"),
)
KINDS = ("update", "panel", "substitution", "other", "wait")
PANEL = ("potrf", "trsm panel", "getrf panel", "trtri panel")
SUBSTITUTION = ("trsm", "substitute", "gemm")
# Spans that contain other spans.
PHASES = ("arrange", "norm", "factor", "solve", "restore")
REPEATS = 7


def main() -> None:
    """Write all traces and their table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=CASES, help="comma-separated")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_calls(*_case(options.one))))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [row for name in options.cases.split(",") for row in _traced(name, options.out)]
    path = options.out / f"traces-cpu-{len(os.sched_getaffinity(0))}-cores.csv"
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    print(path.read_text(), end="")


def _case(name: str) -> tuple[str, int, int]:
    try:
        routine, n, devices = name.split("-")
        return routine, int(n), int(devices)
    except ValueError:
        sys.exit(f"--cases: expected names as cholesky-8192-2, got {name}")


def _traced(name: str, folder: pathlib.Path) -> list[dict]:
    """The rows of a case; keeps its trace."""
    from commit import commit, machine

    _, n, devices = _case(name)
    with tempfile.TemporaryDirectory() as scratch:
        here = pathlib.Path(scratch)
        own = environment.clean(
            MESHSOLVE_TRACE=str(here / "trace.json"),
            XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}",
            JAX_PLATFORMS="cpu",
        )
        command = [sys.executable, __file__, "--one", name]
        ran = subprocess.run(command, env=own, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"{name} failed:\n{ran.stderr}")
        (written,) = here.glob("*.json")
        events = json.loads(written.read_text())
    stated = json.loads(ran.stdout.splitlines()[-1])
    # The first call also compiles.
    seconds = stated["seconds"]
    middle = min(range(1, len(seconds)), key=lambda i: abs(seconds[i] - stated["median"]))
    kept = [e for e in events if e["ph"] == "M" or e["args"].get("call") == middle + 1]
    with gzip.open(folder / f"trace-{name}.json.gz", "wt") as file:
        file.write("[\n" + ",\n".join(json.dumps(event) for event in kept) + "\n]\n")
    common = {"case": name, "seconds": f"{seconds[middle]:.5f}", "jax": stated["jax"]}
    common |= {"gemm_gflops": f"{stated['gemm']:.1f}", "commit": commit(), "machine": machine()}
    common |= stated["peak"]
    tile = next(e["args"]["tile"] for e in kept if e["ph"] == "b")
    arithmetic = _arithmetic(_case(name)[0], n, tile)
    rates = {"peak": float(stated["peak"]["peak_gflops"]), "gemm": stated["gemm"]}
    return [common | row for row in _sums(kept, seconds[middle], arithmetic, rates)]


def _calls(routine: str, n: int, devices: int) -> dict:
    """Times of calls, and the rate of products between them."""
    import jax

    from contenders import contender
    from figures import gemm_rate, of_peak, peak_rate
    from meshsolve import _core

    jax.config.update("jax_enable_x64", True)
    assert len(jax.devices()) == devices
    row, seconds, rates = contender("meshsolve", routine, n, 1, "float64"), [], []
    peaks = [peak_rate("float64", _core.threads())]
    for _ in range(REPEATS if n > 2048 else 50):
        a, b = row.system()
        start = time.perf_counter()
        jax.block_until_ready(row.solve(a, b))
        seconds.append(time.perf_counter() - start)
        if n > 2048:
            rates.append(gemm_rate("float64", n))
    rates = rates or [gemm_rate("float64", n) for _ in range(5)]
    peaks.append(peak_rate("float64", _core.threads()))
    middle, rate = statistics.median(seconds[1:]), statistics.median(rates)
    reported = {"seconds": seconds, "median": middle, "gemm": rate, "jax": jax.__version__}
    return reported | {"peak": of_peak(peaks)}


def _arithmetic(routine: str, n: int, tile: int) -> float:
    """Operations of all updates, which are of whole tiles."""
    starts = range(0, n, tile)
    width = lambda start: min(tile, n - start)  # noqa: E731
    rows = lambda k, j: n - (j if routine == "cholesky" else k + width(k))  # noqa: E731
    pairs = ((k, j) for k in starts for j in starts if j > k)
    return sum(2.0 * width(k) * width(j) * rows(k, j) for k, j in pairs)


def _sums(events: list[dict], seconds: float, arithmetic: float, rates: dict):
    """A row for each worker."""
    workers: dict[int, collections.Counter] = collections.defaultdict(collections.Counter)
    for event in events:
        if event["ph"] == "X" and event["name"] not in PHASES:
            workers[event["tid"]][_kind(event["name"])] += event["dur"] / 1e6
    whole = sum(times["update"] for times in workers.values())
    rate = arithmetic / whole / 1e9 if whole else 0.0
    for worker, times in sorted(workers.items()):
        reported = sum(times.values())
        row = {kind: f"{times[kind] / seconds:.3f}" for kind in KINDS}
        row |= {"worker": str(worker), "between": f"{1 - reported / seconds:.3f}"}
        # The mean over all workers, as their products are of the same kinds.
        whole_rate = rate * len(workers)
        shares = {f"update_share_of_{of}": f"{whole_rate / by:.3f}" for of, by in rates.items()}
        yield row | shares


def _kind(name: str) -> str:
    if name == "update":
        return "update"
    if name.startswith("wait") or name in ("barrier", "group barrier"):
        return "wait"
    if name in PANEL:
        return "panel"
    return "substitution" if name in SUBSTITUTION else "other"


if __name__ == "__main__":
    main()
