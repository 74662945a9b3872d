"""Peak memory of one sharded call, above that before it, in this fresh process.

Run: python benchmarks/memory.py --n 8192 --devices 2 --what meshsolve [--keep-a]
     python benchmarks/memory.py --n 8192 --devices 1 --platform cuda
     python benchmarks/memory.py --n 22391 --columns 22409 --devices 1 --what transpose
     python benchmarks/memory.py --n 4096 --devices 2 + --n 4096 --devices 2 --what inv

Prints one JSON line: bytes of A, bytes above, and their ratio. Several cases, with "+" between them
and as many devices each, take one process, and unused memory goes back to the system in between.
"other_bytes" is the memory of the process before a case, in addition to A and b. `--what` names the
call. meshsolve is one solve; factor is cho_factor, or lu_factor with `--assume gen`, and ten
solves. refine is a solve by a factor in half the precision. inv is meshsolve.inv, lu-inv the
inverse of a factor, which is kept, eigvalsh, eigh and sqrtm those of meshsolve. lstsq is that of a
tall n x columns array. grad is the gradient of a solution's square with respect to A and b, logdet
that of log |det A|. jnp is jax.scipy.linalg's factorisation and solve on the same shards. transpose
is meshsolve.transpose_inplace of an n x columns array, jnp.transpose the same by XLA, donated. With
storage "padded" A is on one device and n - 1 is solved: its sharded copy is 1. "two ways" is a
matrix in blocks: half of the devices share its rows, and half its columns. `--again 3` solves three
more times: "seconds" is their median, and "residual_ratio" norm(b - A x) / (n norm(A) norm(x) u),
in 1-norms and with the unit roundoff u.

On CPU devices it is the resident memory of the process. On CUDA devices it is the peak of JAX's
allocator, summed over devices. That peak is of the whole process: one case at a time.
"before_bytes" is its height above the memory in use before the call.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import sys
import time

import environment
from commit import commit

_TRANSPOSITIONS = ("transpose", "jnp.transpose")
_WHATS = (
    "meshsolve",
    "factor",
    "refine",
    "inv",
    "eigvalsh",
    "eigh",
    "sqrtm",
    "lstsq",
    "lu-inv",
    "grad",
    "logdet",
    "jnp",
    *_TRANSPOSITIONS,
)
# Those that solve A x = b.
_SOLVING = ("meshsolve", "factor", "refine", "jnp")
_STORAGES = ("rows", "columns", "column-major", "padded", "two ways", "replicated")


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=8192)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--platform", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--columns", type=int, help="of an array that is transposed or tall; n if left out"
    )
    parser.add_argument("--what", choices=_WHATS, default="meshsolve")
    parser.add_argument("--assume", choices=("pos", "gen"), default="pos", help="of A")
    parser.add_argument("--storage", choices=_STORAGES, default="rows", help="how A lies")
    parser.add_argument("--upper", action="store_true", help="A's upper triangle is given")
    parser.add_argument("--keep-a", action="store_true", help="do not donate A")
    parser.add_argument(
        "--warm", action="store_true", help="call at full size before, so that nothing compiles"
    )
    parser.add_argument("--rhs", type=int, default=1, help="right-hand sides")
    parser.add_argument("--again", type=int, default=0, help="more solves, for their seconds")
    cases = [parser.parse_args(case) for case in _split(sys.argv[1:])]
    if any(options.warm and options.what in _TRANSPOSITIONS for options in cases):
        parser.error("--warm: expected a case that is no transposition, which is made before")
    [(devices, platform)] = {(options.devices, options.platform) for options in cases}
    if platform == "cpu":
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    elif len(cases) > 1 or cases[0].what in _TRANSPOSITIONS:
        parser.error("--platform cuda: expected one case that is no transposition")
    if any(options.again and options.what not in _SOLVING for options in cases):
        parser.error("--again: expected a case that solves A x = b")
    os.environ["JAX_PLATFORMS"] = platform
    # An allocator that grows counts pieces up to twice as large as those that were asked for.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "true"
    environment.restart()
    for options in cases:
        transposes = options.what in _TRANSPOSITIONS
        print(json.dumps(transposition(options) if transposes else measure(options)), flush=True)
        ctypes.CDLL(None).malloc_trim(0)


def _split(arguments: list[str]) -> list[list[str]]:
    cases = [[]]
    for argument in arguments:
        if argument == "+":
            cases.append([])
        else:
            cases[-1].append(argument)
    return cases


def transposition(options) -> dict:
    """The same for one transposition, and the scratch that the call has taken."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import meshsolve as ms

    jax.config.update("jax_enable_x64", True)
    rows, cols = options.n, options.columns or options.n
    mesh = Mesh(np.array(jax.devices()), ("x",))
    specs = (PartitionSpec("x", None), PartitionSpec(None, "x"))
    given, turned = (NamedSharding(mesh, spec) for spec in specs)
    if options.storage == "columns":
        given, turned = turned, given

    def matrix(rows, cols):
        make = lambda: jnp.arange(float(rows * cols)).reshape(rows, cols)  # noqa: E731
        return jax.block_until_ready(jax.jit(make, out_shardings=given)())

    transpose = ms.transpose_inplace
    if options.what == "jnp.transpose":
        transpose = jax.jit(jnp.transpose, donate_argnums=0, out_shardings=turned)
    jax.block_until_ready(transpose(matrix(64 * options.devices, 128 * options.devices)))
    above = []
    for _ in range(2):  # the first call also compiles
        x = matrix(rows, cols)
        before = reset_peak()
        y = jax.block_until_ready(transpose(x))
        above.append(peak() - before)
        del x
        _check_transpose(y, rows, cols)
        del y
    x_bytes = rows * cols * 8
    ours = options.what == "transpose"
    return {
        "what": options.what,
        "n": rows,
        "columns": cols,
        "devices": options.devices,
        "storage": options.storage,
        "a_bytes": x_bytes,
        "above_bytes": above[0],
        "above_over_a": above[0] / x_bytes,
        "above_again_bytes": above[1],
        "scratch_bytes": ms.last_call()["scratch_bytes"] if ours else None,
        "jax": jax.__version__,
        "commit": commit(),
    }


def _check_transpose(y, rows: int, cols: int) -> None:
    import numpy as np

    for j, i in np.random.default_rng(0).integers((cols, rows), size=(9, 2)).tolist():
        assert float(y[j, i]) == i * cols + j


def measure(options) -> dict:
    """Solve at small size, so that code and threads exist, then measure at full size."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental.layout import Format, Layout
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_enable_x64", True)
    devices = np.array(jax.devices()[: options.devices])
    mesh, axes = Mesh(devices, ("x",)), "x"
    if options.storage == "two ways":
        mesh, axes = Mesh(devices.reshape(2, -1), ("y", "x")), ("y", "x")
    specs = {"rows": ("x", None), "two ways": ("y", "x"), "replicated": ()}
    sharding = NamedSharding(mesh, PartitionSpec(*specs.get(options.storage, (None, "x"))))
    if options.storage == "column-major":
        sharding = Format(Layout((1, 0)), sharding)
    padded = options.storage == "padded"
    if padded:
        sharding = None

    tall = options.what == "lstsq"

    def columns_of(n):
        return n * options.columns // options.n if options.columns else n

    def matrix(n):
        n -= padded
        i = jnp.arange(n, dtype=jnp.float64)
        j = i[: columns_of(n)]
        kms = lambda: 0.5 ** jnp.abs(i[:, None] - j[None, :])  # noqa: E731
        return jax.block_until_ready(jax.jit(kms, out_shardings=sharding)())

    def rhs(n):
        n -= padded
        # Few are replicated, many distributed by columns: the layouts of the solver.
        spec = PartitionSpec() if options.rhs <= 32 else PartitionSpec(None, axes)
        spec = PartitionSpec(axes) if tall else spec
        ones = lambda: jnp.ones((n, options.rhs))  # noqa: E731
        made = jax.jit(ones, out_shardings=None if padded else NamedSharding(mesh, spec))()
        return jax.block_until_ready(made)

    solve = _solver(options, mesh if padded else None)
    n, small = options.n, 256 * options.devices
    for size in (small, n) if options.warm else (small,):
        solve(matrix(size), rhs(size)).block_until_ready()
    if options.warm:
        ctypes.CDLL(None).malloc_trim(0)

    a, b = matrix(n), rhs(n)
    held = sum(shard.data.nbytes for x in (a, b) for shard in x.addressable_shards)
    before = reset_peak()
    earlier = peak() - before
    x = solve(a, b).block_until_ready()
    above = peak() - before
    assert bool(jnp.isfinite(x).all())
    a_bytes = n * columns_of(n) * 8
    row = {
        "what": options.what,
        "n": n,
        "columns": columns_of(n),
        "devices": options.devices,
        "storage": options.storage,
        "assume": options.assume,
        "lower": not options.upper,
        "rhs": options.rhs,
        "keep_a": options.keep_a,
        "warm": options.warm,
        "a_bytes": a_bytes,
        "above_bytes": above,
        "above_over_a": above / a_bytes,
        "before_bytes": earlier,
        "other_bytes": before - held,
        "jax": jax.__version__,
        "commit": commit(),
    }
    if not options.again:
        return row
    seconds = []
    for _ in range(options.again):
        a, b = matrix(n), rhs(n)
        begin = time.perf_counter()
        x = solve(a, b).block_until_ready()
        seconds.append(time.perf_counter() - begin)
    a, b = matrix(n), rhs(n)  # the call may have taken the others
    norm = lambda m: float(jnp.abs(m).sum(0).max())  # noqa: E731
    ratio = norm(b - a @ x) / (n * norm(a) * norm(x) * 2.0**-53)
    return row | {"seconds": statistics.median(seconds), "residual_ratio": ratio}


def _solver(options, mesh):
    import jax

    import meshsolve as ms

    lower, keep = not options.upper, options.keep_a
    scipy, general = jax.scipy.linalg, options.assume == "gen"

    def jnp(a, b):
        if general:
            return scipy.lu_solve(scipy.lu_factor(a), b)
        return scipy.cho_solve(scipy.cho_factor(a, lower), b)

    def factor(a, b):
        if general:
            made = ms.lu_factor(a, overwrite_a=not keep, mesh=mesh)
        else:
            made = ms.cho_factor(a, lower, overwrite_a=not keep, mesh=mesh)
        for _ in range(10):
            x = made.solve(b).block_until_ready()
        return x

    def solve(a, b):
        options_of = {"assume_a": options.assume, "mesh": mesh, "refine": options.what == "refine"}
        donated = {"overwrite_a": not keep, "overwrite_b": not keep}
        return ms.solve(a, b, lower, **options_of, **donated)

    def inv(a, b):
        return ms.inv(a, not keep, assume_a=options.assume, lower=lower, mesh=mesh)

    def eigvalsh(a, b):
        return ms.eigvalsh(a, overwrite_a=not keep, mesh=mesh)

    def eigh(a, b):
        return ms.eigh(a, overwrite_a=not keep, mesh=mesh).eigenvectors

    def sqrtm(a, b):
        return ms.sqrtm(a, assume_a="her", overwrite_a=not keep, mesh=mesh)

    def lstsq(a, b):
        return ms.lstsq(a, b, mesh=mesh).x

    def lu_inv(a, b):
        return ms.lu_factor(a, not keep, mesh=mesh).inv()

    def grad(a, b):
        solve = lambda a, b: ms.solve(a, b, lower, assume_a=options.assume)  # noqa: E731
        return of_value(lambda a, b: (solve(a, b) ** 2).sum())(a, b)[0]

    def logdet(a, b):
        value = (lambda a: ms.slogdet(a)[1]) if general else (lambda a: ms.cho_factor(a).logdet())
        return of_value(lambda a, b: value(a))(a, b)[0]

    def of_value(function):
        return jax.jit(jax.grad(function, (0, 1)))

    solvers = {"jnp": jnp, "factor": factor, "inv": inv, "lu-inv": lu_inv}
    solvers |= {"grad": grad, "logdet": logdet, "eigvalsh": eigvalsh, "eigh": eigh}
    solvers |= {"sqrtm": sqrtm, "lstsq": lstsq}
    return solvers.get(options.what, solve)


def _status(field: str) -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}; Linux is needed to measure memory")


def _of_devices(what: str) -> int | None:
    """Bytes that JAX's allocators count, if they do."""
    import jax

    counts = [device.memory_stats() for device in jax.devices()]
    return sum(count[what] for count in counts if count) if all(counts) else None


def reset_peak() -> int:
    """Start a new peak, if the system can; return the bytes in use now."""
    in_use = _of_devices("bytes_in_use")
    if in_use is not None:
        return in_use
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """The most bytes in use since ``reset_peak``, or in the life of the process."""
    most = _of_devices("peak_bytes_in_use")
    return _status("VmHWM") if most is None else most


if __name__ == "__main__":
    main()
