"""The programs around the library: the benchmark, its plots and checks; progress lines."""

import csv
import gzip
import importlib
import itertools
import json
import os
import re
import subprocess
import sys

import pytest

from helpers import ROOT, run_fresh

pytestmark = pytest.mark.file_in_parts

ROUTINES = ("cholesky", "lu", "inverse", "triangular", "determinant", "gradient")


@pytest.fixture
def script(monkeypatch):
    """One of the benchmark's files as a module, by name."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


def program(*arguments, env=None, timeout=240):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.slow
def test_the_wheel_in_an_empty_environment(tmp_path):
    (wheel,) = (ROOT / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    python = tmp_path / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    ran = subprocess.run(
        [python, "-m", "meshsolve.info"], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert ran.returncode == 0 and "ok: True" in ran.stdout, ran.stdout + ran.stderr


def benchmark(*arguments, env=None, timeout=240):
    """Rows of run.py, each checked, and its reports of rows that it leaves out."""
    script = ROOT / "benchmarks/run.py"
    ran = program(script, "--sizes", 256, "--repeats", 2, *arguments, env=env, timeout=timeout)
    assert ran.returncode == 0, ran.stderr
    rows = list(csv.DictReader(ran.stdout.splitlines()))
    for row in rows:
        assert None not in row and None not in row.values()
        assert float(row["seconds_median"]) > 0 and float(row["share_of_gemm"]) >= 0
        assert row["what"] == "faer gemm" or float(row["residual_ratio"]) <= 3
    return rows, ran.stderr


@pytest.mark.tools
def test_benchmark_prints_one_csv_line_per_measurement():
    whats = ("meshsolve", "meshsolve ready factor n rhs", "jnp sharded", "scipy", "faer gemm")
    rows, stated = benchmark("--what", ",".join(whats))
    pairs = [(row["routine"], row["what"]) for row in rows]
    expected = [(routine, what) for routine in ("cholesky", "lu") for what in whats]
    for routine in ("inverse", "determinant"):
        expected += [(routine, what) for what in whats if "ready" not in what]
    expected.insert(-4, ("triangular", "faer gemm"))
    expected += [("gradient", what) for what in whats if "ready" not in what and what != "scipy"]
    assert pairs == expected
    assert stated == ""
    timed = {
        what for what in whats if any(r["share_of_gemm_factor"] for r in rows if r["what"] == what)
    }
    assert timed == {"meshsolve"}
    assert {row["rhs"] for row in rows if row["what"] == whats[1]} == {"256"}


def test_benchmark_says_which_package_is_missing():
    options = ("--routine", "lu", "--what", "ScaLAPACK,faer gemm")
    rows, stated = benchmark(*options, env={"PATH": ""})
    assert [row["what"] for row in rows] == ["faer gemm"]
    assert "lu: ScaLAPACK at n = 256 left out: no mpicc: apt-get install libopenmpi-dev" in stated


def test_benchmark_refuses_names_that_it_does_not_know():
    ran = program(ROOT / "benchmarks/run.py", "--what", "meshsolv")
    assert ran.returncode == 1 and "got meshsolv" in ran.stderr
    ran = program(ROOT / "benchmarks/run.py", "--routine", "qr")
    assert ran.returncode == 2 and "expected some of cholesky, lu, inverse, " in ran.stderr


def test_benchmark_keeps_a_table_and_goes_on(tmp_path):
    """The split of a call's time, faer's own solver; existing rows are not measured again."""
    options = ("--routine", "lu", "--sizes", 64, "--repeats", 2, "--out", tmp_path)
    script = ROOT / "benchmarks/run.py"
    whats = ("meshsolve columns", "faer")
    for end in range(1, 3):
        ran = program(script, *map(str, options), "--what", ",".join(whats[:end]))
        assert ran.returncode == 0, ran.stderr
        assert ran.stderr.startswith(f"{end}/{end}: lu 64 float64: 1 rows: ")
        assert len(ran.stderr.splitlines()) == 1
    [path] = tmp_path.glob("solve-cpu-*-cores.csv")
    with open(path, newline="") as file:
        ours, faer = csv.DictReader(file)
    assert (ours["what"], faer["what"], faer["devices"]) == (*whats, "1")
    phases = ("wait", "arrange", "factor", "solve", "other", "outside")
    parts = [float(ours[f"seconds_{phase}"]) for phase in phases]
    assert min(parts) >= 0 and sum(parts) > 0
    assert float(faer["seconds_factor"]) > 0 and float(faer["residual_ratio"]) < 3
    assert faer["share_of_copy"] == faer["seconds_arrange"] == "" == ours["share_of_copy"]


def test_share_of_copy(script):
    """The share of a transposition of 64 MiB that took a second."""
    rows = script("rows")
    columns = rows.share_of_copy(rows.COPIED, 1.0)
    rate = float(columns["copy_gb_per_s"])
    assert float(columns["share_of_copy"]) == pytest.approx(0.134 / rate, rel=0.1, abs=1e-3)


@pytest.mark.parametrize("columns", ["all", pytest.param("old", marks=pytest.mark.tools)])
def test_plots_of_the_benchmark(tmp_path, columns):
    """The committed table, and one without the newer columns."""
    pytest.importorskip("matplotlib")
    [source] = (ROOT / "benchmarks/results").glob("solve-cpu-*.csv")
    with open(source, newline="") as file:
        rows = list(csv.DictReader(file))
    later = ("seconds_wait", "seconds_outside", "machine")
    kept = [name for name in rows[0] if columns == "all" or name not in later]
    with open(tmp_path / source.name, "w", newline="") as file:
        table = csv.DictWriter(file, kept, extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    ran = program(ROOT / "benchmarks/plot.py", tmp_path)
    assert ran.returncode == 0, ran.stderr
    drawn = {path.stem.removeprefix(f"{source.stem}-"): path for path in tmp_path.glob("*.svg")}
    assert set(drawn) == {"time", "share", "memory", "devices", "split"}
    for path in drawn.values():
        text = path.read_text()
        assert rows[-1]["commit"] in text
        assert (rows[-1]["machine"] in text) == (columns == "all")
    for name in ("meshsolve, 2 devices, by rows", "jax.scipy / jnp, the same shards", "AVX-512 k"):
        assert name in drawn["time"].read_text() and name in drawn["share"].read_text()


def write(folder, rows):
    """A folder with a table in the format of run.py."""
    folder.mkdir(exist_ok=True)
    with open(folder / "solve-cpu-2-cores.csv", "w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    return folder


def shares(**of):
    """Rows with a share for each "what", and of a copy for "meshsolve columns"."""
    fixed = {"routine": "lu", "n": "4096", "dtype": "float64", "devices": "2"}
    return [
        fixed
        | {
            "what": what,
            "share_of_gemm": share,
            "share_of_copy": share if "columns" in what else "",
        }
        for what, share in of.items()
    ]


def test_shares_are_checked_with_a_margin(tmp_path, script):
    recorded = shares(meshsolve=0.9, meshsolve_columns=0.8, scipy=1.0)
    same = shares(meshsolve=0.75, meshsolve_columns=0.95, faer=0.1)
    slower = shares(meshsolve=0.71, meshsolve_columns=0.8)

    def compared(now, margin):
        found = script("check").compare(now, recorded, margin)
        return [(c.row[1], c.share, c.recorded, c.measured, c.lost) for c in found]

    assert compared(same, 0.2) == [
        ("meshsolve", "share_of_gemm", 0.9, 0.75, False),
        ("meshsolve_columns", "share_of_gemm", 0.8, 0.95, False),
        ("meshsolve_columns", "share_of_copy", 0.8, 0.95, False),
    ]
    assert [lost for *_, lost in compared(same, 0.1)] == [True, False, False]
    assert [lost for *_, lost in compared(slower, 0.2)] == [True, False, False]

    recorded_in = write(tmp_path / "recorded", recorded)
    cases = [(same, 0.2, 0), (same, 0.1, 1), (slower, 0.2, 1), (shares(faer=0.9), 0.2, 2)]
    for rows, margin, code in cases:
        folders = write(tmp_path / "now", rows), recorded_in
        ran = program(ROOT / "benchmarks/check.py", *folders, "--margin", margin)
        assert ran.returncode == code, ran.stderr
    assert "got none; record some by make bench RESULTS=" in ran.stderr


def test_aims_of_the_benchmark(tmp_path, script):
    """Met, missed, and absent if there is no row."""
    fixed = {"routine": "cholesky", "dtype": "float64"}
    names = ("what", "n", "devices", "seconds_median", "share_of_update_factor", "peak_over_a")
    names += ("peak_gflops", "update_gflops", "disturbed", "share_of_peak_factor")
    rows = [
        ("meshsolve", 4096, 2, 0.2, 0.9, 0.04, 254, 232, "", 0.8),
        ("meshsolve", 4096, 8, 0.25, "", "", "", "", "yes"),
        ("ScaLAPACK", 4096, 2, 0.3),
        ("ScaLAPACK SkylakeX", 4096, 2, 0.25),
        ("meshsolve", 8192, 1, 0.9),
        ("meshsolve keep a", 8192, 2, 1.2),
        ("jnp one device", 8192, 1, 1.8),
        ("meshsolve jit", 256, 1, 0.003),
        ("jnp one device", 256, 1, 0.0025),
    ]
    bars = script("bars")
    table = [
        fixed | dict(itertools.zip_longest(names, map(str, row), fillvalue="")) for row in rows
    ]
    aims = list(bars.aims(bars.Table(table)))
    expected = [
        ("n = 4096: updates, share of the peak", 232 / 254, 0.90, True, True),
        ("n = 4096: factorisation, share of the updates' rate", 0.9, 0.91, True, False),
        ("n = 8192, A kept: times as fast as jnp one device", 1.5, 1.4, True, True),
        ("n = 4096: times as fast as ScaLAPACK's best", 1.25, 1.15, True, True),
        ("n = 4096: memory over A", 0.04, 0.03, False, False),
        ("n = 4096: 8 device(s) against 2", 0.8, 0.85, True, False),
        ("n = 256: meshsolve jit on 1 device(s) / jnp on one", 1.2, 1.5, False, True),
    ]
    for aim, (name, value, *others) in zip(aims, expected, strict=True):
        assert (aim.name, aim.value) == (f"cholesky, {name}", pytest.approx(value))
        assert [aim.bound, aim.at_least, aim.met] == others
        assert aim.disturbed == ("8 device(s)" in name)
    ran = program(ROOT / "benchmarks/bars.py", write(tmp_path, table))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [aim.line for aim in aims]


@pytest.mark.parametrize("devices", [pytest.param(1, marks=pytest.mark.tools), 2])
def test_small_solves_are_timed(devices):
    options = ("--devices", devices, "--sizes", 8, "--calls", 3)
    ran = program(ROOT / "benchmarks/dispatch.py", *options)
    assert ran.returncode == 0, ran.stderr
    rows = list(csv.DictReader(ran.stdout.splitlines()))
    reported = [(row["routine"], row["what"], int(row["devices"])) for row in rows]
    names = ("jnp", "jnp jit", "meshsolve", "meshsolve jit")
    whats = [(name, count) for count in sorted({1, devices}) for name in names]
    assert reported == [(routine, *what) for routine in ("cholesky", "lu") for what in whats]
    for row in rows:
        assert 0 < int(row["least"]) <= int(row["median"])
        assert (row["inside"] == "") == row["what"].startswith("jnp")


STAGES = ("band", "tridiagonal", "divide", "back")


@pytest.mark.parametrize(
    ("task", "shape", "names"),
    [
        ("lstsq", "64x4", ["meshsolve", "jnp qr", "jnp qr, one device", "SciPy gels"]),
        pytest.param(
            "qr",
            "64x4",
            ["meshsolve R", "meshsolve", "jnp", "jnp, one device", "SciPy R", "faer R"],
            marks=pytest.mark.tools,
        ),
        pytest.param(
            "eigvalsh",
            "64x64",
            ["meshsolve", "jnp", "jnp, one device", "SciPy evr", "SciPy evd", "faer"],
            marks=pytest.mark.tools,
        ),
        (
            "eigh",
            "64x64",
            ["meshsolve", "jnp", "jnp, one device", "SciPy evr", "SciPy evd", "faer"],
        ),
    ],
)
def test_decompositions_are_compared(task, shape, names):
    options = ("--task", task, "--shapes", shape, "--turns", 1)
    ran = program(ROOT / "benchmarks/decompositions.py", *options)
    assert ran.returncode == 0, ran.stderr
    rows = list(csv.DictReader(ran.stdout.splitlines()))
    # ScaLAPACK and ELPA are not everywhere.
    elsewhere = ("ScaLAPACK", "ELPA")
    here = [row["what"] for row in rows if not row["what"].startswith(elsewhere)]
    stages = {"eigvalsh": ("band", "tridiagonal", "values"), "eigh": STAGES}
    of_calls = [f"meshsolve: {stage}" for stage in stages.get(task, ())]
    assert here == [*names, *of_calls, "product"]
    assert all(float(row["seconds_min"]) > 0 for row in rows[:-1])
    assert all(row["library"] for row in rows) and float(rows[-1]["gflops"]) > 0


@pytest.mark.parametrize(
    ("option", "names"),
    [
        (
            "--first 3",
            ["meshsolve", "jnp", "jnp, one device", *(f"meshsolve: {stage}" for stage in STAGES)],
        ),
        (
            "--first 3 --without jnp",
            ["meshsolve", "jnp, one device", *(f"meshsolve: {stage}" for stage in STAGES)],
        ),
        (
            "--subset 4",
            ["meshsolve, lowest 4", "SciPy evr, lowest 4", "meshsolve values", "meshsolve"],
        ),
        (
            "--bands 8,16",
            [
                *("meshsolve, band 8", "meshsolve, band 16"),
                *(f"meshsolve, band {width}: {stage}" for width in (8, 16) for stage in STAGES),
            ],
        ),
    ],
)
def test_other_decompositions_are_compared(option, names):
    options = ("--task", "eigh", "--shapes", "64x64", "--turns", 1, *option.split())
    ran = program(ROOT / "benchmarks/decompositions.py", *options)
    assert ran.returncode == 0, ran.stderr
    rows = list(csv.DictReader(ran.stdout.splitlines()))
    assert [row["what"] for row in rows] == [*names, "product"]
    for row in rows:
        if row["what"].endswith(": back"):
            # The column has one decimal.
            of_one = 1e9 * float(row["seconds_median"]) / 64**3
            counted = 4 if "band" in row["what"] else 2
            assert float(row["gflops"]) * of_one == pytest.approx(counted, abs=0.06 * of_one)


def test_contenders_that_are_left_out_are_in_the_table():
    options = ("--task", "eigh", "--shapes", "64x64", "--first", 1)
    for name in ("nobody", "meshsolve"):
        ran = program(ROOT / "benchmarks/decompositions.py", *options, "--without", name)
        assert ran.returncode == 2
        assert f"expected some of ['meshsolve'], but not all, got ['{name}']" in ran.stderr


def test_traces_are_kept_and_summed_up(tmp_path):
    cases = "cholesky-96-2,lu-96-1"
    ran = program(ROOT / "benchmarks/traces.py", "--cases", cases, "--out", tmp_path)
    assert ran.returncode == 0, ran.stderr
    (table,) = tmp_path.glob("traces-cpu-*-cores.csv")
    rows = list(csv.DictReader(table.open()))
    assert {row["case"] for row in rows} == set(cases.split(","))
    kinds = ("update", "panel", "substitution", "other", "wait", "between")
    for row in rows:
        assert sum(float(row[kind]) for kind in kinds) == pytest.approx(1, abs=0.004)
        assert float(row["panel"]) > 0 and float(row["update_share_of_gemm"]) > 0
        assert float(row["update_share_of_peak"]) > 0 and row["disturbed"] in ("", "yes")
    for case in cases.split(","):
        with gzip.open(tmp_path / f"trace-{case}.json.gz", "rt") as file:
            events = json.load(file)
        (call,) = {event["args"]["call"] for event in events if event["ph"] != "M"}
        assert call > 1, "the first one makes the program"


def test_model_of_growth(script):
    """Its sums against the derivation in docs/design/algorithms.md."""
    model = script("model")
    for method, constant in zip(model.METHODS, (13.5, 2.9), strict=True):
        assert model.share(method, 64, 1) == pytest.approx(1, abs=1e-3)
        for devices in (8, 64):
            columns = 10 * devices
            lost = 1 / model.share(method, columns, devices) - 1
            assert lost == pytest.approx(constant * (devices / columns) ** 3, rel=0.25)
            least = model.least_order(method, devices, 128, 0.9)
            assert model.share(method, least // 128, devices) >= 0.9
            assert model.share(method, least // 128 - 1, devices) < 0.9
    lu, network = model.METHODS[1], model.MACHINES[2]
    for devices in (64, 1024):
        columns, grid = model.on_links(network, lu, 1e6, devices)
        assert columns / grid == pytest.approx((devices**0.5 + 1) / 2, rel=0.01)
    assert program(ROOT / "benchmarks/model.py").returncode == 0


@pytest.mark.tools
def test_simulation_of_many_workers(tmp_path, script):
    """Parts of the critical path add up."""
    ran = program(ROOT / "benchmarks/simulate.py", "--quick", "--workers", "4", "--out", tmp_path)
    assert ran.returncode == 0, ran.stderr
    rows = list(csv.DictReader((tmp_path / "simulated-cpu.csv").open()))
    parts = script("simulate_host").PARTS
    assert {row["workers"] for row in rows} == {"1", "2", "4"} and len(rows) == 8
    for row in rows:
        assert sum(float(row[part]) for part in parts) == pytest.approx(1, abs=0.01)
        assert (row["error"] != "") == (row["workers"] != "4") and float(row["seconds"]) > 0


def test_simulations_are_no_faster_than_their_work(script):
    """Nor than the memory's bandwidth. These take no times of this machine."""
    host, steps = script("simulate_host"), script("simulate_steps")

    def seconds(method, workers, bandwidth=1e30):
        on = host.Host(lambda _, task: task.multiplications + 1, 1e30, bandwidth, 0.0, 0.0)
        return host.Simulation(steps.Call(method, 2048, workers, workers, 128), on).run().seconds

    for method in ("cholesky", "lu"):
        assert seconds(method, 1) / 4 < seconds(method, 4) < seconds(method, 1)
        assert seconds(method, 4, 1e-3) > 2 * seconds(method, 4)


@pytest.mark.tools
def test_suites_of_the_benchmark():
    """Rows that run.py knows, each once."""
    script = ROOT / "benchmarks/run.py"
    lists = {}
    for suite in ("bench", "growth", "full", "check"):
        ran = program(script, "--suite", suite, "--list")
        assert ran.returncode == 0, ran.stderr
        lists[suite] = ran.stdout.splitlines()
        assert len(set(lists[suite])) == len(lists[suite])
    assert set(lists["bench"]) < set(lists["full"]) > set(lists["check"])
    for p in (1, 2, 4, 8):
        assert f"cholesky meshsolve 8192 float64 {p}" in lists["full"]
    for n in (256, 1024, 2048, 4096, 8192, 16384):
        assert f"lu meshsolve {n} float64 2" in lists["full"]
    assert program(script, "--suite", "all").returncode == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("routine", ROUTINES)
def test_every_row_of_the_benchmark(routine):
    rows, stated = benchmark("--routine", routine, timeout=800)
    names = {row["what"] for row in rows}
    left_out = {line.split(": ")[1].split(" at ")[0] for line in stated.splitlines()}
    assert left_out <= {"ScaLAPACK", "ScaLAPACK SkylakeX"} and not left_out & names
    few = ["meshsolve columns", "jnp one device", *["scipy"] * (routine != "gradient")]
    few = [f"{who} {k} rhs" for who in few for k in "1n"] if routine == "triangular" else few
    assert names | left_out >= {*few, "faer gemm"}
    counts = {"cholesky": 23, "lu": 21, "triangular": 11, "gradient": 5}
    assert len(names | left_out) == counts.get(routine, 6)
    for row in rows:
        solves = row["what"].startswith(("meshsolve", "ScaLAPACK")) or row["what"] == "faer"
        solves &= routine in ("cholesky", "lu", "inverse")
        solves &= "ready" not in row["what"] and "refine" not in row["what"]
        assert (row["share_of_gemm_factor"] != "") == solves


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_benchmark_of_other_dtypes(dtype):
    whats = "meshsolve,jnp one device,scipy,meshsolve ready factor 1 rhs,ScaLAPACK"
    options = ("--dtype", dtype, "--what", whats, "--rhs", 3, "--routine", "cholesky,lu")
    rows, stated = benchmark(*options)
    assert len(rows) == 8 and {row["dtype"] for row in rows} == {dtype}
    assert "left out: float64 only" in stated


def test_transposition_benchmark(tmp_path):
    """The benchmark checks every answer itself."""
    script = ROOT / "benchmarks/transpose.py"
    methods = ("chosen", "C2R", "R2C", "transpose crate", "numpy", "out of place")
    options = ("--quick", "--out", tmp_path, "--threads", "1,3", "--methods", ",".join(methods))
    ran = program(script, *map(str, options))
    assert ran.returncode == 0, ran.stderr
    for name, shapes in ("transpose", 40), ("transpose-landscape", 8):
        (path,) = tmp_path.glob(f"{name}-cpu-*.csv")
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        assert len({(row["rows"], row["cols"], row["bytes"]) for row in rows}) >= shapes
        assert {row["method"] for row in rows} == set(methods)
        assert all(float(row["share_of_copy"]) > 0 for row in rows)
        assert path.with_suffix(".svg").stat().st_size > 10000


def test_product_benchmark(tmp_path):
    """The benchmark checks every answer itself; libraries that are not here are left out."""
    script = ROOT / "benchmarks/products.py"
    options = ("--quick", "--out", tmp_path, "--dtypes", "float32,complex128", "--threads", "2")
    ran = program(script, *options)
    assert ran.returncode == 0, ran.stderr
    (path,) = tmp_path.glob("products-cpu-*.csv")
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    left_out = {line.split(" is left out: ")[0] for line in ran.stderr.splitlines()}
    for dtype in ("float32", "complex128"):
        names = {row["what"] for row in rows if row["dtype"] == dtype}
        assert names >= {"faer", "faer alone"}
        assert names | left_out >= {"meshsolve", "OpenBLAS of SciPy", "OpenBLAS", "BLIS", "oneDNN"}
    for row in rows:
        assert float(row["gflops"]) > 0 and float(row["share_of_peak"]) > 0
        assert row["library"] and row["library_version"] and row["architecture"]


def test_a_wrong_product_is_an_error(script):
    products = script("products")
    operands = products.Operands("float64", (20, 15, 7), 32)

    def wrong():
        operands.c -= operands.a @ operands.b
        operands.c[3, 0] += 1e-9

    with pytest.raises(SystemExit, match=r"ours, 20 x 15 x 7, float64: a relative error of"):
        operands.check("ours", wrong)


@pytest.mark.parametrize("on", [False, True])
def test_progress_lines(on):
    err = run_fresh(
        """
        mesh = mesh_of(range(2))
        a = put(mesh, np.eye(512), "x", None)
        ms.solve(a, np.ones(512), assume_a="pos").block_until_ready()
        """,
        env={"MESHSOLVE_LOG": "progress" if on else ""},
    ).err
    # 1 - (7/8)^3 of a factorisation, which is nearly all of the work.
    assert bool(re.search("meshsolve posv, n = 512: 3[23] % of the work, factor", err)) == on
    # At most once a second.
    assert err.count("of the work") <= 2
