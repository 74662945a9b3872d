"""Reports of `plan` over several processes, compared with the calls that they are about."""

import functools
import itertools

import jax
import numpy as np
from begin import SIZE, mesh_of, put, whole
from samples import BRIEF, SPECS, matrix, sides

import meshsolve as ms


def planned(there, b):
    """Reports, each with the call that it is about."""
    mesh, a = there.sharding.mesh, whole(there)
    few = a[: 8 * SIZE]
    tall, wide = put(mesh, few.T, None, "x"), put(mesh, few, None, "x")
    yield ms.plan(there), lambda: ms.lu_factor(there)
    yield ms.plan(there, assume_a="pos"), lambda: ms.cho_factor(there)
    yield ms.plan(there, inverse=True), lambda: ms.inv(there)
    yield ms.plan(there, eigenvalues=True), lambda: ms.eigvalsh(there)
    yield ms.plan(there, eigenvectors=True), lambda: ms.eigh(there)
    yield ms.plan(tall), lambda: ms.qr(tall)
    yield ms.plan(wide, few[:, 0]), lambda: ms.lstsq(wide, few[:, 0])
    for kind in ("gen", "pos", "her"):
        solve = functools.partial(ms.solve, there, b, assume_a=kind)
        yield ms.plan(there, b, assume_a=kind), solve


def expect_as_planned(of, call):
    """Expect the memory and the devices of a report."""
    jax.block_until_ready(call())
    found, sizes, devices = ms.last_call(), of.bytes_per_device, jax.local_device_count()
    # Least squares and QR are several calls, of which the last is known.
    assert of.scratch_bytes >= found["scratch_bytes"]
    assert of.scratch_bytes == found["scratch_bytes"] or of.m != of.n, found
    assert of.processes == jax.process_count() and of.devices == SIZE
    assert sizes["A"] == of.m * of.n // SIZE * np.dtype(of.dtype).itemsize
    assert ("copy for the process" in sizes) == (devices > 1)
    total = devices * sum(sizes.values()) + of.scratch_bytes
    assert of.total_bytes == total < of.free_bytes
    assert "columns are exchanged between processes, in place" in of.moves
    assert f"{of.processes} processes" in str(of) and "on each process" in str(of)


def plans():
    """Reports before calls have the memory of these; each process has its own."""
    n, mesh = 24 * SIZE, mesh_of()
    every = list(itertools.product(("float32", "complex128"), SPECS.values()))
    for dtype, spec in every[::3] if BRIEF else every:
        there = put(mesh, matrix(n, dtype, "pos"), *spec)
        for of, call in planned(there, put(mesh, sides(n, 3, dtype))):
            expect_as_planned(of, call)
    rows = put(mesh, sides(40 * SIZE, 7, "float64"), "x", None)
    for b in (None, put(mesh, np.ones(40 * SIZE), "x")):
        of = ms.plan(rows, b)
        assert "triangles of pairs of devices are exchanged" in of.moves
        assert of.processes == jax.process_count()
        # Each device of a process makes a call of its own. The last one has a small triangle.
        jax.block_until_ready(ms.qr(rows) if b is None else ms.lstsq(rows, b))
        least = jax.local_device_count() * ms.last_call()["scratch_bytes"]
        assert of.scratch_bytes >= least > 0, (of.scratch_bytes, least)
    of = ms.plan(matrix(n + 1, "float64"), mesh=mesh, calibrate=True)
    assert of.padded == n + SIZE and of.processes == jax.process_count()
    assert of.seconds is not None and of.seconds > 0
