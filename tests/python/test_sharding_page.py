"""The tables of docs/sharding.md hold: moves and memory; the plan agrees."""

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, PartitionSpec

import meshsolve as ms
from compiled import Program
from helpers import ROOT, mesh_of, mesh_set, put

pytestmark = [pytest.mark.versions, pytest.mark.whole_file]

N = 512


def table(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    page = (ROOT / "docs/sharding.md").read_text()
    lines = page.split(f"## {heading}\n")[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|---"))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def matrix():
    return np.random.default_rng(0).standard_normal((N, N)) + 3 * N**0.5 * np.eye(N)


def share(cell: str) -> float:
    above, below = cell.split("/")
    return int(above) / int(below)


@pytest.mark.parametrize("row", table("What is moved"), ids=lambda row: row[0])
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_what_is_moved(row, kind):
    spec, devices, moved, within, eagerly, in_jit = row
    spec = eval(spec.strip("`"), {"P": PartitionSpec})
    axis_type = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}[kind]
    mesh = jax.make_mesh((2, 4), ("y", "x"), axis_types=(axis_type,) * 2)
    a, b = put(mesh, matrix(), *spec), put(mesh, np.ones(N))
    with mesh_set(mesh):
        program = Program(jax.jit(ms.solve), a, b)
    exchanged = {"nothing": set(), "A once, all to all": {"all-to-all"}}[moved]
    assert program.collectives() == exchanged
    temporary = program.compiled.memory_analysis().temp_size_in_bytes / a.nbytes
    assert share(in_jit) <= temporary < share(in_jit) + 0.02
    np.testing.assert_allclose(matrix() @ ms.solve(a, b), np.ones(N), rtol=0, atol=1e-9)

    plan = ms.plan(a, b)
    assert plan.devices == int(devices)
    copies = sum(size for name, size in plan.bytes_per_device.items() if name.endswith(" of A"))
    assert copies == sum(map(share, eagerly.split(" + "))) * a.nbytes
    reported = {
        "copied": ["A is copied: overwrite_a is not set"],
        "copied, transposed in place": [
            "A is copied: overwrite_a is not set",
            "every shard is transposed in its own memory",
        ],
        "each takes its rows": ["A is resharded to P(('y', 'x'), None)"],
    }[within]
    if exchanged:
        axes = tuple(spec)
        reported = [f"A is resharded to P({axes}, None)"]
    assert [move for move in plan.moves if not move.startswith("b is copied")] == reported


def eager(a, b):
    """Memory of the three eager calls: a copy if A still exists, none if the factor has its memory.
    (tests/python/test_memory.py measures them.)
    """
    given, pointers = ms.plan(a, b), {s.data.unsafe_buffer_pointer() for s in a.addressable_shards}
    ms.solve(a, b).block_until_ready()
    assert not a.is_deleted()
    yield given.bytes_per_device["copy of A"] / given.bytes_per_device["A"]
    plan = ms.plan(a, b, overwrite_a=True)
    kept = put(a.sharding.mesh, np.asarray(a), *a.sharding.spec)
    ms.solve(kept, b, overwrite_a=True).block_until_ready()
    assert kept.is_deleted()
    yield plan.bytes_per_device.get("copy of A", 0)
    work = ms.cho_factor(a, overwrite_a=True).work
    assert pointers == {s.data.unsafe_buffer_pointer() for s in work.addressable_shards}
    yield 0


def carried(a, b):
    def step(_, state):
        a, x = state
        x = ms.solve(a, b)
        return a * 0.5 + x[:, None], x

    return lax.fori_loop(0, 3, step, (a, b))[1]


IN_JIT = (
    (ms.solve, ()),
    (ms.solve, (0,)),
    (lambda a, b: ms.lu_factor(a), (0,)),
    (lambda a, b: a @ ms.solve(a, b), ()),
    (lambda a, b: ms.solve(2 * a, b), ()),
    (carried, ()),
)


def test_donation():
    mesh = mesh_of(range(4))
    b = put(mesh, np.ones(N))
    rows = table("Donation")
    assert sum("eagerly" in label for label, _ in rows) == 3
    assert len(rows) == 3 + len(IN_JIT)
    a = put(mesh, matrix(), "x", None)  # this may be NumPy's memory: a + 0 is not
    for (label, memory), found in zip(rows, eager(a + 0, b), strict=False):
        assert found == float(memory), label
    for (label, memory), (call, donated) in zip(rows[3:], IN_JIT, strict=True):
        sizes = jax.jit(call, donate_argnums=donated).lower(a, b).compile().memory_analysis()
        temporary = sizes.temp_size_in_bytes * 4 / a.nbytes
        more = (sizes.output_size_in_bytes - sizes.alias_size_in_bytes) * 4 / a.nbytes
        assert float(memory) <= temporary + more < float(memory) + 0.03, label
