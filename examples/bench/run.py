"""One solve against its competitors: a CSV line per measurement, each in a fresh process.

Run: python examples/bench/run.py [--sizes 1024,4096,8192] [--devices 2] [--dtype float64]

Every process takes faer's gemm rate on all threads between its own calls, so that `share_of_gemm`
compares what the machine gave at the same time. Times are of whole calls, dispatch included; FLOPs
are n^3/3 for the factorisation and 2 n^2 k for k right-hand sides (4 times that for complex types).
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time

from commit import commit

WHATS = (
    "meshsolve",  # by rows, A donated
    "meshsolve lower",  # the triangle that has to be mirrored
    "meshsolve columns",  # transposed in place; lower, so nothing is mirrored
    "meshsolve columns upper",  # transposed in place and mirrored
    "meshsolve column-major",
    "meshsolve keep a",
    "meshsolve cyclic",  # through block-cyclic order, in place
    "meshsolve padded",  # a matrix on one device, n one less, copied to the mesh
    "meshsolve ready factor",  # only the solve
    "jnp sharded",
    "jnp sharded columns",
    "jnp one device",
    "faer gemm",
)
COLUMNS = (
    *("what", "n", "rhs", "dtype", "devices", "threads", "sharding"),
    *("seconds_min", "seconds_median", "seconds_max", "gflops", "share_of_gemm", "gemm_gflops"),
    *("peak_over_a", "residual_ratio", "jax", "meshsolve", "commit"),
)
GEMM_N = 4096


def main() -> None:
    """Run every measurement in a process of its own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1024,4096,8192")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--rhs", type=int, default=1)
    parser.add_argument("--repeats", type=int, help="calls timed; 11, or 5 above n = 4096")
    parser.add_argument("--what", default=",".join(WHATS), help="comma-separated selection")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options)))
        return
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    here = commit()
    for n in map(int, options.sizes.split(",")):
        for what in options.what.split(","):
            command = [sys.executable, __file__, *sys.argv[1:], "--one", what, "--sizes", str(n)]
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode:
                sys.exit(f"{what} at n = {n} failed:\n{ran.stderr}")
            table.writerow(json.loads(ran.stdout.splitlines()[-1]) | {"commit": here})
            sys.stdout.flush()


def measure(options) -> dict:
    """Measure one competitor at one size."""
    what, n = options.one, int(options.sizes)
    devices = 1 if what == "jnp one device" else options.devices
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy as np

    import meshsolve as ms
    from memory import peak, reset_peak
    from meshsolve import _core

    jax.config.update("jax_enable_x64", True)
    complex_type = options.dtype.startswith("complex")
    weight = 4 if complex_type else 1
    gemm_n = min(n, GEMM_N)
    times, rates, above, ratio = [], [], 0, None
    flops = weight * (n**3 / 3 + 2 * n**2 * options.rhs)
    if what == "meshsolve ready factor":
        flops = weight * 2 * n**2 * options.rhs
    run = None if what == "faer gemm" else _solver(what)
    if run is None:
        flops = weight * 2 * gemm_n**3
    repeats = options.repeats or (11 if n <= 4096 else 5)
    for repeat in range(repeats + 1):
        seconds = _core.gemm_seconds(options.dtype, gemm_n, _core.threads())
        if run is None:
            times.append(seconds)
        else:
            a, b = _system(what, n, options.rhs, options.dtype, devices)
            solve = run(a) if what == "meshsolve ready factor" else run
            before = reset_peak()
            start = time.perf_counter()
            x = jax.block_until_ready(solve(a, b))
            times.append(time.perf_counter() - start)
            above = peak() - before
            if repeat == 0:
                ratio = _ratio(_system(what, n, options.rhs, options.dtype, devices), x)
            del a, b, x, solve
        rates.append(weight * 2 * gemm_n**3 / seconds / 1e9)
    times, rates = times[1:], rates[1:]  # the first call compiles
    median = statistics.median(times)
    size = n * n * np.dtype(options.dtype).itemsize
    return {
        "what": what,
        "n": n if run else gemm_n,
        "rhs": options.rhs if run else "",
        "dtype": options.dtype,
        "devices": devices if run else "",
        "threads": _core.threads(),
        "sharding": _sharding(what) if run and devices > 1 else "",
        "seconds_min": f"{min(times):.5f}",
        "seconds_median": f"{median:.5f}",
        "seconds_max": f"{max(times):.5f}",
        "gflops": f"{flops / median / 1e9:.1f}",
        "share_of_gemm": f"{flops / median / 1e9 / statistics.median(rates):.3f}",
        "gemm_gflops": f"{statistics.median(rates):.1f}",
        "peak_over_a": f"{above / size:.3f}" if run else "",
        "residual_ratio": f"{ratio:.4f}" if run else "",
        "jax": jax.__version__,
        "meshsolve": ms.__version__,
    }


def _solver(what: str):
    import jax

    import meshsolve as ms

    if what.startswith("jnp"):
        cho = jax.scipy.linalg
        return jax.jit(lambda a, b: cho.cho_solve(cho.cho_factor(a), b))
    if what == "meshsolve cyclic":
        return _cyclic_solver()
    if what == "meshsolve ready factor":
        return _ready_factor
    options = {
        "assume_a": "pos",
        "lower": what in ("meshsolve lower", "meshsolve columns", "meshsolve column-major"),
        "overwrite_a": what != "meshsolve keep a",
    }
    if what == "meshsolve padded":
        mesh = jax.make_mesh((len(jax.devices()),), ("x",))
        return lambda a, b: ms.solve(a, b, mesh=mesh, **options)
    return lambda a, b: ms.solve(a, b, **options)


def _ready_factor(a):
    import jax

    import meshsolve as ms

    factor = jax.block_until_ready(ms.cho_factor(a, overwrite_a=True))
    return lambda _, b: factor.solve(b)


def _sharding(what: str) -> str:
    """How A lies."""
    if what == "meshsolve column-major":
        return "column-major"
    if what in ("meshsolve padded", "jnp one device"):
        return "one device"
    return "columns" if "columns" in what else "rows"


def _cyclic_solver():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec

    import meshsolve as ms

    mesh = Mesh(np.array(jax.devices()), ("x",))
    target, rows = ms.ffi_target(), PartitionSpec("x", None)

    def local(a, b):
        place = jnp.stack([lax.axis_index("x"), 0]).astype(jnp.int32)
        like = [jax.ShapeDtypeStruct(m.shape, m.dtype) for m in (a, b)]
        results = (*like, jax.ShapeDtypeStruct((), jnp.int32))
        call = jax.ffi.ffi_call(target, results, input_output_aliases={1: 0, 2: 1})
        attributes = {"world": np.int64(mesh.size), "rhs": "replicated", "order": "cyclic"}
        return call(place, a, b, routine="posv", **attributes)[:2]

    specs = (rows, PartitionSpec())
    whole = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=specs, check_vma=False)
    run = jax.jit(whole, donate_argnums=0)
    return lambda a, b: run(a, b)[1]


def _system(what: str, n: int, k: int, dtype: str, devices: int):
    """1 / (1 + |i-j|) + I (times phases if complex), free of subnormal numbers, and ones."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental.layout import Format, Layout
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))
    where = _sharding(what)
    n = n - 1 if what == "meshsolve padded" else n

    def make():
        i = jnp.arange(n)
        d = i[:, None] - i[None, :]
        a = 1 / (1 + jnp.abs(d)) + jnp.eye(n)
        return (a * jnp.exp(0.3j * d) if dtype.startswith("complex") else a).astype(dtype)

    spec = PartitionSpec("x", None) if where == "rows" else PartitionSpec(None, "x")
    sharding = NamedSharding(mesh, spec)
    if where == "column-major":
        sharding = Format(Layout((1, 0)), sharding)
    if where == "one device":
        return jax.block_until_ready((jax.jit(make)(), jnp.ones((n, k), dtype)))
    a = jax.jit(make, out_shardings=sharding)()
    b = jax.device_put(np.ones((n, k), dtype), NamedSharding(mesh, PartitionSpec()))
    return jax.block_until_ready((a, b))


def _ratio(system, x) -> float:
    import numpy as np

    a, b, x = (np.asarray(m) for m in (*system, x))
    norm = lambda m: float(np.abs(m).sum(0).max())  # noqa: E731
    unit = float(np.finfo(a.dtype).eps) / 2
    return norm(b - a @ x) / (len(a) * norm(a) * norm(x) * unit)


if __name__ == "__main__":
    main()
