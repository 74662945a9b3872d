"""Least squares with a tall matrix by rows, or QR, by turns: a CSV line for each contender and
shape.

Run: python benchmarks/least_squares.py [--task lstsq] [--devices 2] [--shapes MxN,...] [--turns 5]

| what, of task "lstsq" | meaning |
|---|---|
| meshsolve | `lstsq` on the shards of all devices |
| jnp qr | `jnp.linalg.qr` and a triangular solve, on the same shards |
| jnp qr, one device | the same with all of A on one device |
| SciPy gels | LAPACK's driver by SciPy, which overwrites a copy of A |

| what, of task "qr" | meaning |
|---|---|
| meshsolve R | by columns `qr(a, "raw")`, R and the reflectors; by rows `qr(a, "r")` |
| meshsolve | Q and R |
| jnp | Q and R by `jnp.linalg.qr` on the same shards |
| jnp, one device | the same with all of A on one device |
| SciPy R | LAPACK's `geqrf` by SciPy, which overwrites a copy of A |

| what, of both | meaning |
|---|---|
| product | the product kernel of updates, 4096 x 4096 in tiles of 128 |

QR is of an A by columns, or by rows if it has at least 8 times as many rows as columns.

A turn calls each contender once. `gflops` counts 2 m n^2 - 2 n^3 / 3 operations, and as many again
for Q.
Peak, libraries and `disturbed` are as in run.py. `temporary` is what XLA's program needs besides A,
b and the results, on all devices, as a share of A; for meshsolve its scratch, too.
"""

import argparse
import csv
import statistics
import sys
import time

import environment
from libraries import COLUMNS as LIBRARIES

COLUMNS = (
    *("what", "m", "n", "devices", "seconds_min", "seconds_median", "gflops"),
    *("share_of_peak", "share_of_product", "temporary"),
    *("peak_gflops", "peak_moved", "disturbed", *LIBRARIES, "jax", "commit"),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=("lstsq", "qr"), default="lstsq")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--shapes")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    environment.begin_on_cpu(options.devices)
    import jax

    import measures
    from commit import commit
    from figures import of_peak, peak_rate
    from libraries import of_this_process
    from meshsolve import _core

    threads = _core.threads()
    jax.config.update("jax_enable_x64", True)
    table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    table.writeheader()
    shapes, task = {
        "lstsq": ("1048576x64,32768x1024", _of_least_squares),
        "qr": ("4096x4096,32768x1024,1048576x64", _of_qr),
    }[options.task]
    for m, n in (map(int, shape.split("x")) for shape in (options.shapes or shapes).split(",")):
        contenders = list(task(m, n, options.devices))
        _expect_alike(contenders)
        seconds = {what: [] for what, *_ in contenders}
        peaks, products = [peak_rate("float64", threads)], []
        for _ in range(options.turns):
            for what, run, *_ in contenders:
                start = time.perf_counter()
                jax.block_until_ready(run())
                seconds[what].append(time.perf_counter() - start)
            products.append(measures.update_flops("float64", 4096, threads, 128) / 1e9)
            peaks.append(peak_rate("float64", threads))
        peak, product = statistics.median(peaks), statistics.median(products)
        operations = 2 * m * n**2 - 2 * n**3 / 3
        rows = [(what, seconds[what], *more) for what, _, *more in contenders]
        for what, times, temporary, parts in [*rows, ("product", (), 0.0, 1)]:
            rate = parts * operations / statistics.median(times) / 1e9 if times else product
            row = {
                "what": what,
                "m": m,
                "n": n,
                "devices": options.devices,
                "gflops": f"{rate:.1f}",
            }
            if times:
                row["seconds_min"] = f"{min(times):.4f}"
                row["seconds_median"] = f"{statistics.median(times):.4f}"
                row["temporary"] = f"{temporary:.3f}" if temporary is not None else ""
            row |= {
                "share_of_peak": f"{rate / peak:.3f}",
                "share_of_product": f"{rate / product:.3f}",
            }
            of = of_this_process("meshsolve" if what == "product" else what.split(" R")[0], threads)
            row |= of_peak(peaks) | of
            table.writerow(row | {"jax": jax.__version__, "commit": commit()})
            sys.stdout.flush()


def _compiled(function, arrays, size: int, devices: int):
    """The program of a function, and what it needs besides its operands and results as a share of
    A, whose size is given in bytes.
    """
    import jax

    program = jax.jit(function).lower(*arrays).compile()
    share = program.memory_analysis().temp_size_in_bytes / size * devices
    return lambda: program(*arrays), share


def _of_least_squares(m: int, n: int, devices: int):
    """(name, a function that gives x, what it needs as a share of A, times it counts the
    operations).
    """
    import jax
    import jax.numpy as jnp
    import numpy as np
    import scipy.linalg
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    import meshsolve as ms

    side = np.random.default_rng(3)
    a, b = side.standard_normal((m, n)), side.standard_normal(m)
    mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,))
    by_rows = NamedSharding(mesh, PartitionSpec("x"))
    shards = jax.device_put(a, by_rows), jax.device_put(b, by_rows)
    one = jax.device_put(a, jax.devices()[0]), jax.device_put(b, jax.devices()[0])

    def by_qr(a, b):
        q, r = jnp.linalg.qr(a)
        return jax.scipy.linalg.solve_triangular(r, q.T @ b)

    run, share = _compiled(lambda a, b: ms.lstsq(a, b).x, shards, a.nbytes, devices)
    jax.block_until_ready(run())
    scratch = ms.last_call()["scratch_bytes"] / a.nbytes
    yield "meshsolve", run, share + scratch, 1
    yield "jnp qr", *_compiled(by_qr, shards, a.nbytes, devices), 1
    yield "jnp qr, one device", *_compiled(by_qr, one, a.nbytes, 1), 1
    (gels,) = scipy.linalg.get_lapack_funcs(("gels",), (a,))
    work = int(scipy.linalg.lapack.dgels_lwork(m, n, 1)[0])
    columns = np.asfortranarray(a)
    yield "SciPy gels", lambda: gels(columns, b[:, None], lwork=work)[1][:n, 0], None, 1


def _of_qr(m: int, n: int, devices: int):
    """The same for R, or Q and R; the functions give the sizes of the diagonal of R."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import scipy.linalg
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    import meshsolve as ms

    a = np.random.default_rng(3).standard_normal((m, n))
    mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,))
    by_rows = m >= 8 * n
    spec = PartitionSpec("x", None) if by_rows else PartitionSpec(None, "x")
    shards = (jax.device_put(a, NamedSharding(mesh, spec)),)
    one = (jax.device_put(a, jax.devices()[0]),)
    size = lambda r: jnp.abs(jnp.diagonal(r))  # noqa: E731

    def of_r(a):
        factor = ms.qr(a, "r" if by_rows else "raw")
        return size(factor if by_rows else factor.work), factor

    cases = (
        ("meshsolve R", of_r, shards, 1),
        ("meshsolve", lambda a: (size((both := ms.qr(a)).R), both), shards, 2),
        ("jnp", lambda a: (size((both := jnp.linalg.qr(a)).R), both), shards, 2),
        ("jnp, one device", lambda a: (size((both := jnp.linalg.qr(a)).R), both), one, 2),
    )
    for what, function, arrays, parts in cases:
        run, share = _compiled(function, arrays, a.nbytes, devices if arrays is shards else 1)
        if what.startswith("meshsolve"):
            jax.block_until_ready(run())
            share += ms.last_call()["scratch_bytes"] / a.nbytes
        yield what, run, share, parts
    (geqrf,) = scipy.linalg.get_lapack_funcs(("geqrf",), (a,))
    work = int(scipy.linalg.lapack.dgeqrf_lwork(m, n)[0])
    columns = np.asfortranarray(a)
    yield "SciPy R", lambda: (np.abs(np.diag(geqrf(columns, lwork=work)[0])), ()), None, 1


def _expect_alike(contenders) -> None:
    """Fail if the contenders do not agree."""
    import numpy as np

    def answer(run):
        found = run()
        return np.asarray(found[0] if isinstance(found, tuple) else found)

    (_, first, *_), *others = contenders
    x = answer(first)
    for what, run, *_ in others:
        off = np.abs(answer(run) - x).max() / np.abs(x).max()
        if off > 1e-8:
            raise SystemExit(f"{what}: expected the solution of meshsolve, got one {off:.1e} away")


if __name__ == "__main__":
    main()
