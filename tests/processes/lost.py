"""What happens when a process dies, refuses or has started otherwise."""

import dataclasses
import functools
import os
import pathlib
import resource
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from begin import RANK, SIZE, NamedSharding, P, mesh_of, put, report

import meshsolve as ms


def tried(call) -> str:
    """The text of the error of a call."""
    try:
        jax.block_until_ready(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


n, mesh, what = 64 * SIZE, mesh_of(), sys.argv[1]
a, b = np.eye(n) * 2, np.ones(n)
if what == "launch":
    report(tried(lambda: ms.solve(put(mesh, a, "x", None), put(mesh, b))))
if what == "killed":
    x = ms.solve(put(mesh, a, "x", None), put(mesh, b))
    report(float(x.addressable_data(0)[0]))
    if RANK == SIZE - 1:
        # The launcher ends the others at once: they have reported before.
        while len(list(pathlib.Path(os.environ["REPORTS"]).iterdir())) < SIZE:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    report(tried(lambda: ms.solve(put(mesh, a, "x", None), put(mesh, b))))
if what == "absent":
    # The last process makes its calls late.
    for _ in range(2):
        if RANK == SIZE - 1:
            time.sleep(4)
        x = ms.solve(put(mesh, a, "x", None), put(mesh, b))
        report(float(x.addressable_data(0)[0]))
if what == "early":
    # All processes but the first end without waiting for what they have begun, or with an error.
    def wrong(_):
        time.sleep(1)
        raise ValueError("a mistake in a callback")

    if RANK and "callback" in sys.argv:
        # Programs of several devices run in threads.
        own = jax.sharding.Mesh(np.array(jax.local_devices()), "x")
        call_back = jax.shard_map(
            lambda x: jax.debug.callback(wrong, x), mesh=own, in_specs=P("x"), out_specs=None
        )
        jax.jit(call_back)(jax.device_put(np.ones(2), NamedSharding(own, P("x"))))
    tall = jax.jit(lambda: jax.random.normal(jax.random.key(0), (1 << 14, 64)),
                   out_shardings=NamedSharding(mesh, P("x", None)))()  # fmt: skip
    x = ms.lstsq(tall, jax.jit(lambda a: a.sum(1))(tall)).x
    y = ms.solve(put(mesh, a, "x", None), put(mesh, b)) if "solve" in sys.argv else None
    if RANK == 0:
        report(float(abs(np.asarray(x.addressable_data(0)) - 1).max()) < 1e-12)
        report(y is None or float(y.addressable_data(0)[0]))
if what == "left":
    # The first process makes a call that the others do not, and all end.
    if RANK == 0:
        x = ms.solve(put(mesh, a, "x", None), put(mesh, b))
    report("over")
if what == "fails":
    # One of several independent calls fails. On some devices others are ready, on some not yet.
    solve = functools.partial(ms.solve, on_failure="raise")
    least_squares = functools.partial(ms.lstsq, on_failure="raise")

    @jax.jit
    def program(first, right, a, b):
        def late(a, after, parity):
            steps = jnp.where(jax.lax.axis_index("x") % 2 == parity, 4000, 0)
            small = jnp.full((60, 60), 1e-3) + after
            small = jax.lax.fori_loop(0, steps, lambda _, m: m @ m * 1e-3, small)
            return a + 0 * small[0, 0]

        x = functools.reduce(lambda x, _: solve(a, x), range(3), b)
        right, after = right + 0 * x[0], 0 * solve(a, b)[0]
        devices = jax.shard_map(late, mesh=mesh, in_specs=(P("x"), P(), P()), out_specs=P("x"))
        others = (solve(devices(a, after, parity), b) for parity in (0, 1))
        is_tall = first.shape[0] > first.shape[1]
        return least_squares(first, right).x if is_tall else solve(first, right), *others

    n = 8 * SIZE
    a, b = put(mesh, 2 * np.eye(n), "x", None), put(mesh, np.ones(n))
    columns = 5 if sys.argv[2] == "tall" else n
    good = np.tile(2 * np.eye(columns), (8 * SIZE if columns < n else 1, 1))
    wrong = np.where(np.arange(columns) == 1, 0, good)
    good, wrong, right = (put(mesh, x, "x") for x in (good, wrong, np.ones(len(good))))
    for _ in range(8):
        report(tried(lambda: program(wrong, right, a, b)))
        report([float(x.addressable_data(0)[0]) for x in program(good, right, a, b)])
if what == "some":
    # A tall matrix without full rank on two of three processes, between calls of all.
    solve = functools.partial(ms.solve, put(mesh, a, "x", None), put(mesh, b))
    report(float(solve().addressable_data(0)[0]))
    if RANK < 2:
        two = mesh_of([0, 1])
        inside = functools.partial(ms.local.lstsq, axis_name="x", on_failure="raise")
        on_two = jax.shard_map(inside, mesh=two, in_specs=P("x"), out_specs=P())
        tall = [put(two, np.ones((8, 2)), "x"), put(two, np.ones(8), "x")]
        report(tried(lambda: jax.jit(on_two)(*tall)))
    report(float(solve().addressable_data(0)[0]))
if what == "meshes":
    for some in ([0, 2, 1, 3], [0, 2]):
        one = mesh_of(some)
        report(tried(lambda m=one: ms.solve(put(m, a, "x", None), put(m, b))))
if what == "libraries":
    # One more library, which changes nothing.
    from meshsolve._library import processes

    paths = [*(["libm.so.6"] if RANK else []), *processes.found()[int(sys.argv[2])].paths]
    os.environ["MESHSOLVE_SCALAPACK"] = ":".join(paths)
    report(tried(lambda: ms.solve(put(mesh, a, "x", None), put(mesh, b))))
if what == "pivots":
    # The row interchanges of a factor are not alike on all processes, and one of them is no row.
    factor = ms.lu_factor(put(mesh, a, "x", None))
    alike = np.arange(n, dtype=np.int32)
    for other in (alike[::-1], alike - RANK):
        rows = other if RANK else alike
        own = jax.make_array_from_callback((n,), NamedSharding(mesh, P()), lambda at, x=rows: x[at])
        changed = dataclasses.replace(factor, pivots=own)
        report(tried(lambda f=changed: f.solve(put(mesh, b))))
if what == "peak":
    # A donated matrix of 64 MiB on each process: the least of three calls after the first one.
    n, rows = 2048 * SIZE, NamedSharding(mesh, P("x", None))
    make = jax.jit(lambda: 2 * jnp.eye(n), out_shardings=rows)
    right, above = put(mesh, np.ones(n)), {"pos": [], "gen": []}

    def status(name):
        text = pathlib.Path("/proc/self/status").read_text()
        return int(text.split(f"{name}:")[1].split()[0])

    for kind in [kind for kind in above for _ in range(4)]:
        there = jax.block_until_ready(make())
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        before = status("VmRSS")
        jax.block_until_ready(ms.solve(there, right, assume_a=kind, overwrite_a=True))
        above[kind].append((status("VmHWM") - before) * 1024 / (8 * n * n / SIZE))
        del there
    for found in above.values():
        report(min(found[1:]))
if what == "uncaught":
    jax.block_until_ready(ms.solve(put(mesh, a, "x", None), put(mesh, b)))
    if RANK == 0:
        raise ValueError("a mistake of the program")
    jax.block_until_ready(ms.solve(put(mesh, a, "x", None), put(mesh, b)))
if what == "memory":
    # The call needs the memory of b once more, which one process does not have.
    n, columns = 2000 * SIZE, NamedSharding(mesh, P(None, "x"))
    rows = NamedSharding(mesh, P("x", None))
    there = jax.jit(lambda: 2 * jnp.eye(n), out_shardings=rows)()
    many = jax.jit(lambda: jnp.ones((n, 8000 * SIZE)), out_shardings=columns)()
    jax.block_until_ready((there, many, ms.solve(put(mesh, a, "x", None), put(mesh, b))))
    solve = jax.jit(lambda a, b: ms.solve(a, b), donate_argnums=(0, 1))
    solve = solve.lower(there, many).compile()
    if RANK == SIZE - 1:
        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 27), used + (1 << 27)))
    report(tried(lambda: solve(there, many)))
if what == "mpi4py":
    # A program's own MPI, begun before with a level of threads, and ended after.
    import ctypes

    mpi = ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)
    level = ctypes.c_int()
    mpi.MPI_Init_thread(None, None, int(sys.argv[3]), ctypes.byref(level))
    for ended in (False, True):
        if ended:
            mpi.MPI_Finalize()
        report(tried(lambda: ms.solve(put(mesh, a, "x", None), put(mesh, b))))
