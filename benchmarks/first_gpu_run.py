"""The first run on a CUDA device: what works, what fails, what is slow, in 25 minutes.

Run: python benchmarks/first_gpu_run.py [--out build/first-gpu-run] [--minutes 25]
     [--platform cuda|cpu|emulated] [--quick] [--only solve,speed] [--list]
     python benchmarks/first_gpu_run.py --prepare sm_80,sm_90,sm_100 [--out ...]

Each step is a process with its own time limit; after a failure the next one begins. A failed first
step runs once more with CUDA_LAUNCH_BLOCKING=1, which shows the failing launch. The most telling
steps come first. first-gpu-run.json has device, driver, versions, commit and the output of every
step. It is written after each step, and ends with a summary of short lines, which is printed.

--prepare needs no device: it compiles the kernels into the folder, where the steps find them.

--platform cpu runs the same steps on CPU devices, without those that need CUDA, to check the script
itself. --platform emulated runs those that need no device of JAX, on the driver of the tests.
--quick takes tiny matrices and one case of each test.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import sys
import time
from importlib.metadata import version
from typing import NamedTuple

import environment
from commit import commit, driver, machine
from gpu_probe_build import run
from gpu_solve import PANEL, aims

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
SELF = str(pathlib.Path(__file__).resolve())
DESCRIBE = '{"task": "describe"}'
RANKS = "ranks_that_share_a_device"
# Kept characters of a step's output.
KEPT = 10_000
TESTS = "tests/gpu"
KERNELS = "kernels"  # the folder of the compiled kernels
NO_DEVICE = {"devices": 0, "device": "unknown"}
LEAST = 10  # seconds; a step needs at least these to begin
ROUTINES = {"cholesky": "potrf", "lu": "getrf"}
TILE = "meshsolve tile "
# The line to change if one rank should factor the whole matrix by one call of the vendor's library,
# and the families for it.
WHOLE = "src/routines/solver/widths.rs: const WHOLE_BY_ONE_RANK: &[Family] = &[{}];"
FAMILIES = {"cholesky": "Family::Cholesky", "lu": "Family::Lu"}


class Step(NamedTuple):
    """A program, what it settles, and the seconds that it may take."""

    name: str
    settles: str
    seconds: float
    command: list[str]
    # Run once more, as a launch that waits shows more.
    again: bool = False
    # "cuda", or "driver" where CUDA's driver is enough, as the emulated one is.
    needs: str = ""

    def runs_on(self, platform: str) -> bool:
        """On an emulated driver JAX has no device."""
        return platform == "cuda" or self.needs == {"cpu": "", "emulated": "driver"}[platform]


def steps(options) -> list[Step]:
    """The steps, the most telling ones first."""
    quick = ["--quick"] if options.quick else []
    out = ["--out", str(options.out)]
    rows = [str(HERE / "gpu_solve.py"), *out, "--platform", options.platform, "--timeout", "90"]
    sizes, step = ["--sizes", "32768,16384", "--tiles", "256,512,1024,n"], ["--step", "4096"]
    speed = [*rows, *(quick or sizes), "--dtypes", "float32", "--no-largest"]
    largest = [*rows, *(quick or step), "--only-largest"]
    panels = [*rows, *(quick or sizes), "--rows", f"{PANEL}*", "--no-largest"]
    one = ["--sizes", "65536", "--repeats", "1", "--timeout", "150"]
    peak = [*rows, *(quick or one), "--rows", "meshsolve", "--dtypes", "", "--no-largest"]
    copies = [str(HERE / "gpu.py"), *out, *quick, "--no-plot"]
    moves = ("one_device", "all_devices", "calls_follow_each_other_on_the_stream", "memory")
    large = ("structures_of_all_sizes", "more_than_two_to_the_31_elements", "large_arrays")
    others = ("inverses_triangles_and_norms", "traces", "a_gradient", "no_solution_is_nan_and_info")
    every, donated = ("solve", "factors"), "a_donated_matrix_is_solved_in_its_own_memory"
    engine = _tests("solve", "cusolvermg", "widths_of_cusolvermg")
    # One LU, then transpositions.
    sanitizer = [*_tests("solve", "sanitizer"), f"{TESTS}/test_transpose.py::test_sanitizer"]
    return [
        Step("device", "whether there is one", 120, [rows[0], "--child", DESCRIBE]),
        Step("info", "driver, libraries, kernels", 120, ["-m", "meshsolve.info", "--json"]),
        Step("solve", "registration, contexts, signatures", 120, [SELF, "--child"], again=True),
        Step("solves", "all dtypes and shardings", 180, _tests("solve", *every), again=True),
        Step("others", "what else there is", 120, _tests("solve", *others), again=True),
        Step("moves", "transpositions", 150, _tests("transpose", *moves), again=True),
        Step("rendezvous", "devices meet, and fail", 60, _tests("transpose", "devices_meet")),
        Step("claims", "pieces are claimed", 90, _tests("transpose", "claims"), needs="driver"),
        Step("ranks", "several on a device", 60, _tests("solve", RANKS), needs="driver"),
        Step("panels", "what holds the host", 90, panels, needs="cuda"),
        Step("speed", "seconds by tile width", 480, speed),
        Step("memory", "peak over A", 120, _tests("memory", donated)),
        Step("peak", "memory at n = 65536", 180, peak),
        Step("largest", "the largest matrix", 180, largest),
        Step("cuSolverMg", "the engine", 90, engine, needs="cuda"),
        Step("NCCL", "broadcasts", 60, _tests("solve", "panels_by_nccl"), needs="cuda"),
        Step("large moves", "long indices", 120, _tests("transpose", *large), needs="cuda"),
        Step("sanitizer", "races", 240, sanitizer, needs="cuda"),
        Step("copies", "shares of a copy", 180, copies, needs="driver"),
    ]


def _tests(file: str, *names: str) -> list[str]:
    chosen = [f"{TESTS}/test_{file}.py::test_{name}" for name in names]
    return ["-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]


class Report:
    """The results until now, in a file."""

    def __init__(self, path: pathlib.Path, platform: str):
        packages = ("jax", "jaxlib", "meshsolve", "numpy")
        self.path = path
        self.reported = {"platform": platform, "machine": machine(), "driver": driver()}
        self.reported |= {"commit": commit(), "python": sys.version.split()[0]}
        self.reported |= {name: version(name) for name in packages} | {"steps": []}

    def add(self, name: str, **found) -> None:
        """Add the results of a step."""
        self.reported["steps"].append({"name": name, **found})
        self.write()

    def write(self) -> None:
        """Write the file after each step, so that an interrupted run keeps its results."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.reported, indent=1) + "\n")


def main() -> int:
    """Run the steps; 0 unless one has failed."""
    options = _options()
    if options.prepare:
        return prepare(options)
    known = {step.name: step for step in steps(options)}
    names = options.only.split(",") if options.only else list(known)
    if not known.keys() >= set(names):
        print(f"--only: expected some of {', '.join(known)}, got {options.only}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in names]
    if options.list:
        print("\n".join(f"{s.name}: {s.settles}, at most {s.seconds:.0f} s" for s in chosen))
        return 0
    return run_all(chosen, options)


def run_all(chosen: list[Step], options) -> int:
    """Run each step while there is time; return 0 unless one has failed."""
    report = Report(options.out / "first-gpu-run.json", options.platform)
    if (options.out / KERNELS).exists():
        # A copy from another machine may have lost the mode that the cache asks for.
        (options.out / KERNELS).chmod(0o700)
    start = time.monotonic()
    left = lambda: 60 * options.minutes - (time.monotonic() - start)  # noqa: E731
    for step in chosen:
        if not step.runs_on(options.platform):
            found = {"state": "skipped"}
        elif left() < LEAST:
            found = {"state": "not run"}
        else:
            found = try_step(step, min(step.seconds, left()), options)
            if found["state"] == "failed" and step.again and left() >= LEAST:
                limit = min(step.seconds, left())
                found["blocking"] = try_step(step, limit, options, CUDA_LAUNCH_BLOCKING="1")
        if step.name == "device" and found["state"] == "ok":
            report.reported["device"] = json.loads(found["out"].splitlines()[-1])
        report.add(step.name, **found)
        print(f"{found['state']:9} {step.name} ({found.get('seconds', 0):.0f} s)", flush=True)
    report.reported["seconds"] = round(time.monotonic() - start)
    report.reported["summary"] = summary(report.reported, options.out)
    report.write()
    print("\n".join([f"{report.path}:", *report.reported["summary"]]))
    return int(any(step["state"] in ("failed", "timed out") for step in report.reported["steps"]))


def prepare(options) -> int:
    """Compile all kernels for the architectures; 1 if one does not compile."""
    os.environ["MESHSOLVE_CACHE_DIR"] = str(options.out / KERNELS)
    from meshsolve import _core
    from meshsolve._library import cuda

    for arch in options.prepare.split(","):
        for name in _core.kernel_names():
            try:
                cuda.compile_kernel(name, arch)
            except (RuntimeError, ValueError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 1
    kept = _core.kernel_cache()
    print(f"{kept['folder']}: {kept['entries']} kernels")
    return 0


def try_step(step: Step, limit: float, options, **more: str) -> dict:
    """Run a step in a process; return its state, its seconds and the end of its output."""
    own = {"JAX_PLATFORMS": "cpu", "GPU_TESTS_PLATFORM": options.platform} | more
    own["MESHSOLVE_CACHE_DIR"] = str(options.out / KERNELS)
    own["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    if options.platform == "cuda":
        own["JAX_PLATFORMS"] = "cuda,cpu"
    if options.quick:
        own |= {"TESTS_EVERY": "1000000", "TESTS_PART": "0"}
    start = time.monotonic()
    code, out, err = run([sys.executable, *step.command], limit, env=environment.clean(**own))
    state = "timed out" if code is None else "failed" if code else "ok"
    seconds = round(time.monotonic() - start, 1)
    return {"state": state, "seconds": seconds, "out": out[-KEPT:], "err": err[-KEPT:]}


def summary(reported: dict, out: pathlib.Path) -> list[str]:
    """One line each for what works, fails or is slow, and for the figures that decide the next
    step.
    """
    states = {step["name"]: step["state"] for step in reported["steps"]}
    late = " (timed out)"
    states = {name + late * (state == "timed out"): state for name, state in states.items()}
    named = lambda *which: ", ".join(n for n, s in states.items() if s in which) or "nothing"  # noqa: E731
    rows = [row for path in out.glob("solve-gpu-*.csv") for row in _rows(path)]
    missed = [aim.name for aim in aims(rows) if not aim.met]
    device = "{devices} x {device}".format_map(reported.get("device", NO_DEVICE))
    versions = (
        f"jax {reported['jax']}, meshsolve {reported['meshsolve']}, commit {reported['commit']}"
    )
    return [
        f"device: {device}, driver {reported['driver'] or 'none'}, {versions}",
        f"works: {named('ok')}",
        f"wrong: {named('failed', 'timed out')}",
        f"not tried: {named('skipped', 'not run')}",
        f"slow: {'; '.join(missed) or 'nothing'}",
        _share_of_gemm(rows),
        _best_width(rows),
        _to_change(rows),
        _panel(rows),
        _overlap(rows),
        _sizes(rows),
    ]


def _rows(path: pathlib.Path) -> list[dict]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def _of(rows: list[dict], routine: str, column: str, *whats: str) -> list[tuple[float, dict]]:
    """Figures of a column in float64, with their rows, the largest n first."""
    found = [
        (float(row[column]), row)
        for row in rows
        if row["routine"] == routine
        and row["dtype"] == "float64"
        and row.get(column)
        and (not whats or row["what"] in whats)
    ]
    return sorted(found, key=lambda pair: -int(pair[1]["n"]))


def _at_largest(found: list[tuple[float, dict]]) -> list[tuple[float, dict]]:
    return [pair for pair in found if pair[1]["n"] == found[0][1]["n"]]


def _line(name: str, reported: list[str]) -> str:
    return f"{name}: {'; '.join(reported) or 'not measured'}"


def _share_of_gemm(rows: list[dict]) -> str:
    reported, whats = [], ("meshsolve factor", "meshsolve", "jnp factor", "jnp")
    for routine in ROUTINES:
        # The order of the measured factors; the largest matrices have one row.
        of_factor = _of(rows, routine, "share_of_gemm", whats[0])
        shares = _of(rows, routine, "share_of_gemm", *whats)
        for _, at in (of_factor or shares)[:1]:
            shown = [f"{row['what']} {share:.2f}" for share, row in shares if row["n"] == at["n"]]
            reported.append(f"{routine}, n = {at['n']}: {', '.join(shown)}")
    return _line("share of gemm", reported)


def _by_tile(rows: list[dict], routine: str, column: str = "seconds_median"):
    return [pair for pair in _of(rows, routine, column) if pair[1]["what"].startswith(TILE)]


def _best_width(rows: list[dict]) -> str:
    reported = []
    for routine in ROUTINES:
        if times := _at_largest(_by_tile(rows, routine)):
            seconds, row = min(times, key=lambda pair: pair[0])
            reported.append(
                f"{routine} {row['what'].split()[-1]} of n = {row['n']} ({seconds:.3g} s)"
            )
    return _line("fastest tile width", reported)


def _to_change(rows: list[dict]) -> str:
    """The source line to change if one tile for the whole matrix is faster than narrower ones."""
    compared, faster = False, []
    for routine, family in FAMILIES.items():
        times = _by_tile(rows, routine)
        orders = [row["n"] for _, row in times if row["what"] == f"{TILE}{row['n']}"]
        times = [pair for pair in times if pair[1]["n"] in orders[:1]]
        if len(times) > 1:
            compared = True
            _, row = min(times, key=lambda pair: pair[0])
            faster += [family] if row["what"] == f"{TILE}{row['n']}" else []
    if faster:
        return f"to change: {WHOLE.format(', '.join(faster))}"
    return f"to change: {'nothing' if compared else 'not measured'}"


def _panels(rows: list[dict], routine: str, column: str) -> list[tuple[float, int, dict]]:
    """Figures of panels with their widths, the largest n first, of these the widest."""
    found = [pair for pair in _of(rows, routine, column) if pair[1]["what"].startswith(PANEL)]
    wide = [(figure, int(row["what"].split()[-1]), row) for figure, row in found]
    return sorted(wide, key=lambda one: (-int(one[2]["n"]), -one[1]))


def _panel(rows: list[dict]) -> str:
    reported = []
    for routine, called in ROUTINES.items():
        for host, width, row in _panels(rows, routine, "host_seconds")[:1]:
            high, whole = width if routine == "cholesky" else row["n"], float(row["seconds_median"])
            reported.append(
                f"{called} {high} x {width} holds the host {1e3 * host:.2f} ms of {1e3 * whole:.2f}"
                f" ms, cuSOLVER's host workspace {row['host_bytes']} bytes"
            )
    return _line("panel", reported)


def _overlap(rows: list[dict]) -> str:
    """The share of the panels' time that overlaps with products, at the fastest width with panels:
    1 - (T - T of products) / T of panels.
    """
    reported = []
    for routine in ROUTINES:
        panels = _panels(rows, routine, "seconds_median")
        shares = _by_tile(rows, routine, "share_of_gemm")
        widths = {width for _, width, _ in panels}
        shares = [one for one in shares if int(one[1]["what"].split()[-1]) in widths]
        if not shares:
            continue
        share, row = min(_at_largest(shares), key=lambda one: float(one[1]["seconds_median"]))
        n, width = int(row["n"]), int(row["what"].split()[-1])
        points = {int(r["n"]): s for s, w, r in panels if w == width}
        if of_panels := _seconds_of_panels(routine, n, width, points):
            extra = 1 - float(row["seconds_median"]) * (1 - share) / of_panels
            reported.append(f"{routine} {extra:.2f} at n = {n}, tile {width}")
    return _line("panels during products", reported)


def _seconds_of_panels(routine: str, n: int, width: int, points: dict[int, float]) -> float | None:
    """Seconds of all panels of a factorisation, from some of n x width, or for Cholesky of width x
    width.
    """
    heights = range(n, 0, -width)
    if routine == "cholesky":
        return len(heights) * statistics.mean(points.values())
    if len(points) < 2:
        return None
    slope, least = statistics.linear_regression(list(points), list(points.values()))
    return sum(slope * height + least for height in heights)


def _sizes(rows: list[dict]) -> str:
    sizes = [row for row in rows if row["what"].endswith(" largest")]
    reported = [f"{row['routine']} {row['what'].split()[0]} {row['n']}" for row in sizes]
    peaks = [pair for r in ROUTINES for pair in _of(rows, r, "peak_of_a", "meshsolve")[:1]]
    over = [f"{row['routine']} {peak:.3f} at n = {row['n']}" for peak, row in peaks]
    return f"{_line('largest n', reported)} / {_line('peak over A', over)}"


def solve() -> int:
    """In its own process: a system of each kind on all devices."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import meshsolve as ms

    n, devices = 840, jax.devices()
    rows = NamedSharding(Mesh(np.array(devices), ("x",)), PartitionSpec("x", None))
    general = np.random.default_rng(0).standard_normal((n, n)).astype("float32")
    for assume, a in (
        ("pos", general @ general.T + n * np.eye(n, dtype="float32")),
        ("gen", general),
    ):
        x = np.asarray(ms.solve(jax.device_put(a, rows), np.ones(n, "float32"), assume_a=assume))
        norms = np.abs(a).sum(1).max() * np.abs(x).max()
        ratio = np.abs(a @ x - 1).max() / (n * norms * np.finfo("float32").eps / 2)
        print(f"{assume}: residual ratio {ratio:.2g} on {len(devices)} x {devices[0].device_kind}")
        if not ratio < 30:
            return 1
    return 0


def _options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/first-gpu-run")
    parser.add_argument("--minutes", type=float, default=25, help="for everything")
    parser.add_argument("--platform", choices=("cuda", "cpu", "emulated"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny matrices, a case of each test")
    parser.add_argument("--prepare", metavar="ARCHITECTURES", help="compile kernels, run nothing")
    parser.add_argument("--only", default="", help="steps by name: solve,speed")
    parser.add_argument("--list", action="store_true", help="only name the steps")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(solve() if sys.argv[1:] == ["--child"] else main())
