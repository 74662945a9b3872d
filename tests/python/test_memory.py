"""Peak memory: one matrix, not two. Every case in a process of its own; the bars are those of the
acceptance document: 3 % of A above the arrays themselves, and one more A where A is kept.
"""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from helpers import ROOT, mesh_of, run_fresh

pytestmark = pytest.mark.versions


def measure(*arguments) -> dict:
    command = [sys.executable, str(ROOT / "examples/bench/memory.py"), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("storage", ["rows", "columns"])
def test_a_donated_matrix_is_solved_in_its_own_memory(storage, devices):
    # The triangle that has to be mirrored, in place.
    triangle = ["--upper"] if storage == "columns" else []
    case = measure("--n", 8192, "--devices", devices, "--storage", storage, *triangle)
    assert case["above_over_a"] <= 0.03


@pytest.mark.parametrize("storage", ["rows", "columns"])
def test_so_is_a_general_one(storage):
    case = measure("--n", 8192, "--devices", 2, "--storage", storage, "--assume", "gen")
    assert case["above_over_a"] <= 0.03


@pytest.mark.parametrize("assume", ["pos", "gen"])
def test_a_column_major_matrix_too(assume):
    case = measure("--n", 8192, "--devices", 2, "--storage", "column-major", "--assume", assume)
    assert case["above_over_a"] <= 0.03


def test_lu_factors_by_rows_are_transposed_in_place():
    general = ("--assume", "gen", "--what", "factor")
    case = measure("--n", 8192, "--devices", 4, "--storage", "rows", *general)
    assert case["above_over_a"] <= 0.03


def test_refinement_takes_half_a_matrix():
    case = measure("--n", 8192, "--devices", 2, "--what", "refine", "--assume", "gen", "--keep-a")
    assert 0.45 <= case["above_over_a"] <= 0.6


@pytest.mark.parametrize("what", ["refine", "inv"])
def test_memory_is_what_the_plan_says(what):
    n, mesh = 4096, mesh_of(range(2))
    kept = ["--keep-a"] * (what == "refine")
    case = measure("--n", n, "--devices", 2, "--what", what, "--assume", "gen", *kept)
    a = jax.ShapeDtypeStruct((n, n), np.float64, sharding=NamedSharding(mesh, P("x", None)))
    if what == "refine":
        plan = ms.plan(a, np.ones((n, 1)), refine=True)
    else:
        plan = ms.plan(a, inverse=True, overwrite_a=True)
    copies = {name: size for name, size in plan.bytes_per_device.items() if name not in ("A", "b")}
    copies.pop("copy of A, if it does not converge", None)  # it does converge
    planned = plan.scratch_bytes + 2 * sum(copies.values())
    # The kernels' own scratch, pages of the allocator, programs.
    assert 0.9 * planned <= case["above_bytes"] <= planned + (24 << 20)


@pytest.mark.parametrize("storage", ["rows", "columns", "column-major"])
def test_a_factor_and_ten_solves_take_no_more(storage):
    case = measure("--n", 8192, "--devices", 2, "--storage", storage, "--what", "factor")
    assert case["above_over_a"] <= 0.03


@pytest.mark.parametrize(
    ("assume", "storage"), [("gen", "rows"), ("gen", "columns"), ("pos", "column-major")]
)
def test_an_inverse_takes_the_place_of_its_matrix(assume, storage):
    # One tile column and the kernels' scratch: less than 3 % of n = 8192, of 4096 twice that.
    kind = ("--storage", storage, "--assume", assume)
    case = measure("--n", 4096, "--devices", 2, "--what", "inv", *kind)
    assert case["above_over_a"] <= 0.07


def test_the_inverse_of_a_kept_factor_is_one_more_matrix():
    case = measure("--n", 4096, "--devices", 2, "--what", "lu-inv", "--assume", "gen")
    assert 0.97 <= case["above_over_a"] <= 1.1


@pytest.mark.parametrize(
    ("what", "assume", "storage"),
    [
        ("grad", "gen", "columns"),
        ("grad", "pos", "rows"),
        ("logdet", "gen", "rows"),
        ("logdet", "pos", "rows"),
    ],
)
def test_a_gradient_takes_one_more_matrix(what, assume, storage):
    """The factor, in whose place the gradient is made."""
    kind = ("--assume", assume, "--storage", storage)
    case = measure("--n", 4096, "--devices", 2, "--what", what, *kind, "--keep-a")
    assert 0.97 <= case["above_over_a"] <= 1.15


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("storage", ["rows", "columns"])
def test_a_matrix_that_is_kept_costs_one_copy(storage, devices):
    case = measure("--n", 4096, "--devices", devices, "--storage", storage, "--keep-a")
    assert 0.97 <= case["above_over_a"] <= 1.05


def test_a_matrix_that_is_dealt_to_a_mesh_costs_its_copy_and_one_piece():
    """One more A for the shards, and one device's rows of it while they are made."""
    case = measure("--n", 4096, "--devices", 4, "--storage", "padded", "--keep-a")
    assert case["above_over_a"] <= 1 + 1 / 4 + 0.05


def test_unpacking_a_padded_factor_costs_the_pair_and_two_more():
    """Not one for each device, although its order cannot be sharded."""
    out = run_fresh("""
        sys.path.insert(0, str(ROOT / "examples/bench"))
        from memory import peak, reset_peak
        mesh = mesh_of(range(8))
        for n in (255, 4095):
            factor = jax.block_until_ready(ms.cho_factor(4 * np.eye(n), mesh=mesh))
            before = reset_peak()
            jax.block_until_ready(next(iter(factor)))
            print((peak() - before) / (8 * n * n))
    """)
    assert float(out.split()[-1]) <= 3.1


def test_calls_on_other_threads_leave_no_scratch_of_theirs():
    out = run_fresh("""
        from concurrent.futures import ThreadPoolExecutor
        sys.path.insert(0, str(ROOT / "examples/bench"))
        from memory import peak, reset_peak
        n, mesh = 2048, mesh_of(range(4))
        factor = ms.lu_factor(put(mesh, 4 * np.eye(n), "x", None), overwrite_a=True)
        b = put(mesh, np.ones((n, 1)))
        solve = lambda _: factor.solve(b).block_until_ready()  # noqa: E731
        solve(0)
        before = reset_peak()
        for _ in range(12):
            with ThreadPoolExecutor(1) as thread:
                list(thread.map(solve, range(3)))
        print((peak() - before) / ms.last_call()["scratch_bytes"])
    """)
    assert float(out.split()[-1]) <= 1


def test_many_right_hand_sides_cost_no_second_matrix():
    # 2048 donated columns, already dealt to the devices: nothing beyond scratch.
    assert measure("--n", 4096, "--devices", 4, "--rhs", 2048)["above_over_a"] <= 0.03


@pytest.mark.parametrize(
    "shape", [(5792, 5792, 1), (5792, 5792, 4), (5791, 5801, 1), (5801, 5792, 4)]
)
def test_a_transposition_takes_its_scratch(shape):
    """Of a square, of blocks, and of coprime sides by panels, on one device and on four."""
    rows, columns, devices = shape
    sizes = ("--n", rows, "--columns", columns, "--devices", devices, "--storage", "columns")
    case = measure(*sizes, "--what", "transpose")
    # Beside it pages of the allocator, and the first time the program: a hundredth of x.
    assert case["above_again_bytes"] <= case["scratch_bytes"] + (256 << 10)
    assert case["above_bytes"] <= case["scratch_bytes"] + (3 << 20)
    # What `transpose_inplace` promises: for each thread, and for panels 1/32 of each device's part,
    # or 1/8 of a small one up to 4 MiB.
    part = 8 * rows * columns // devices
    shared = devices * max(part // 32, min(part // 8, 4 << 20))
    panels = rows != columns
    allowed = (256 << 10) * len(os.sched_getaffinity(0)) + panels * shared
    assert case["scratch_bytes"] <= allowed


def test_repeated_calls_do_not_grow():
    out = run_fresh("""
        import pathlib
        def resident():
            text = pathlib.Path("/proc/self/status").read_text()
            return int(text.split("VmRSS:")[1].split()[0]) * 1024
        n = 512
        mesh = mesh_of(range(4))
        a, b = put(mesh, np.eye(n), "x", None), put(mesh, np.ones((n, 3)))
        for call in range(801):
            ms.solve(a, b, assume_a="pos").block_until_ready()
            if call == 600:  # threads and allocator have grown to their size, also under load
                early = resident()
        print(resident() - early)
    """)
    assert int(np.array(out.split())[-1]) <= 4 << 20
