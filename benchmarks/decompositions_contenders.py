"""The contenders of decompositions.py: programs for one matrix, with their answers."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import measures
import meshsolve as ms
import scalapack
from meshsolve import _core

# Of the blocks of ScaLAPACK and ELPA.
_WIDTHS = (32, 64)


class Contender(NamedTuple):
    """One way to the answer.

    Attributes:
      what: its name.
      call: makes the answer: x, the sizes of R's diagonal, or eigenvalues. None if that is of
        another matrix.
      temporary: what it needs besides A, b and its results as a share of A; None if not known.
      parts: how often it counts the operations: 2 for Q and R.
      timed: makes the answer and gives its own seconds, if others would count with the call.
      end: gives the columns of its libraries, if these are not in this process.
    """

    what: str
    call: Callable[[], Any] | None
    temporary: float | None = None
    parts: int = 1
    timed: Callable[[], float] | None = None
    end: Callable[[], tuple[str, str]] | None = None

    def seconds(self) -> float:
        """The seconds of one call."""
        if self.timed is not None:
            return self.timed()
        start = time.perf_counter()
        jax.block_until_ready(self.call())
        return time.perf_counter() - start


def is_by_rows(m: int, n: int) -> bool:
    """Whether a matrix of QR is taken by rows."""
    return m >= 8 * n


def _compiled(function, arrays, size: int, devices: int):
    """The program of a function, and what it needs besides its operands and results as a share of
    A, whose size is given in bytes.
    """
    program = jax.jit(function).lower(*arrays).compile()
    share = program.memory_analysis().temp_size_in_bytes / size * devices
    return lambda: program(*arrays), share


def _with_scratch(function, arrays, size: int, devices: int):
    """The same as ``_compiled``, with meshsolve's scratch."""
    run, share = _compiled(function, arrays, size, devices)
    jax.block_until_ready(run())
    return run, share + ms.last_call()["scratch_bytes"] / size


def of_least_squares(m: int, n: int, devices: int) -> Iterator[Contender]:
    """The contenders for x."""
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
    yield Contender("meshsolve", run, share + scratch)
    yield Contender("jnp qr", *_compiled(by_qr, shards, a.nbytes, devices))
    yield Contender("jnp qr, one device", *_compiled(by_qr, one, a.nbytes, 1))
    (gels,) = scipy.linalg.get_lapack_funcs(("gels",), (a,))
    work = int(scipy.linalg.lapack.dgels_lwork(m, n, 1)[0])
    columns = np.asfortranarray(a)
    yield Contender("SciPy gels", lambda: gels(columns, b[:, None], lwork=work)[1][:n, 0])
    yield from _of_scalapack("pdgels", "qr", ("lstsq", m, n), devices)


def of_qr(m: int, n: int, devices: int) -> Iterator[Contender]:
    """The contenders for R, or Q and R."""
    a = np.random.default_rng(3).standard_normal((m, n))
    mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,))
    by_rows = is_by_rows(m, n)
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
        yield Contender(what, run, share, parts)
    if not by_rows:
        yield _of_donated("meshsolve R, in place", of_r, shards[0])
    (geqrf,) = scipy.linalg.get_lapack_funcs(("geqrf",), (a,))
    work = int(scipy.linalg.lapack.dgeqrf_lwork(m, n)[0])
    columns = np.asfortranarray(a)
    yield Contender("SciPy R", lambda: (np.abs(np.diag(geqrf(columns, lwork=work)[0])), ()))
    yield _of_faer(a)
    yield from _of_scalapack("pdgeqrf R", "qr", ("qr", m, n), devices)


def of_eigvalsh(m: int, n: int, devices: int) -> Iterator[Contender]:
    """The contenders for eigenvalues."""
    return _of_eigenproblem("eigvalsh", 1, m, n, devices)


def of_eigh(m: int, n: int, devices: int) -> Iterator[Contender]:
    """The contenders for eigenvalues and eigenvectors."""
    return _of_eigenproblem("eigh", 4, m, n, devices)


def _of_eigenproblem(name: str, parts: int, m: int, n: int, devices: int) -> Iterator[Contender]:
    a = _hermitian(name, m, n)
    mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,))
    shards = (jax.device_put(a, NamedSharding(mesh, PartitionSpec("x", None))),)
    one = (jax.device_put(a, jax.devices()[0]),)
    own, theirs, scipys = (getattr(at, name) for at in (ms, jnp.linalg, scipy.linalg))
    yield Contender("meshsolve", *_with_scratch(own, shards, a.nbytes, devices), parts)
    yield Contender("jnp", *_compiled(theirs, shards, a.nbytes, devices), parts)
    yield Contender("jnp, one device", *_compiled(theirs, one, a.nbytes, 1), parts)
    for driver in ("evr", "evd"):
        call = lambda driver=driver: scipys(a, driver=driver)  # noqa: E731
        yield Contender(f"SciPy {driver}", call, None, parts)
    yield _of_faer_eigen(a, parts, vectors=name == "eigh")
    # ScaLAPACK's pdsyevd always makes eigenvectors.
    what = "pdsyevd" if name == "eigh" else "pdsyev"
    yield from _of_scalapack(what, "eigen", (name, n), devices, parts)
    yield from _of_elpa(name, n, devices, parts)


def of_subset(count: int, m: int, n: int, devices: int) -> Iterator[Contender]:
    """The first eigenvectors by meshsolve and SciPy, all eigenvalues, and all eigenvectors."""
    a = _hermitian("eigh", m, n)
    mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,))
    shards = (jax.device_put(a, NamedSharding(mesh, PartitionSpec("x", None))),)
    some = {"subset_by_index": (0, count - 1)}

    def own(what: str, function, parts: int = 1) -> Contender:
        return Contender(what, *_with_scratch(function, shards, a.nbytes, devices), parts)

    def scipys():
        return scipy.linalg.eigh(a, driver="evr", **some)

    yield own(f"meshsolve, lowest {count}", functools.partial(ms.eigh, **some))
    yield Contender(f"SciPy evr, lowest {count}", scipys)
    yield own("meshsolve values", ms.eigvalsh)
    yield own("meshsolve", ms.eigh, 4)


def of_bands(name: str, widths: list[int], m: int, n: int, devices: int) -> Iterator[Contender]:
    """meshsolve's eigenvalues, with eigenvectors for "eigh", by bands of these widths.

    With 0 the library chooses.
    """
    a = _hermitian(name, m, n)
    mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,))
    rows, parts = PartitionSpec("x", None), 4 if name == "eigh" else 1
    shards = (jax.device_put(a, NamedSharding(mesh, rows)),)

    def local(width: int, a):
        place = jnp.stack([jax.lax.axis_index("x"), 0]).astype(jnp.int32)
        real, info = jax.ShapeDtypeStruct((n,), a.dtype), jax.ShapeDtypeStruct((), jnp.int32)
        matrices = [jax.ShapeDtypeStruct(a.shape, a.dtype)] * (2 if name == "eigh" else 1)
        call = jax.ffi.ffi_call(
            ms.ffi_target(), (*matrices, real, info), input_output_aliases={1: 0}
        )
        routine = "eigenvectors" if name == "eigh" else "eigenvalues"
        own = {"lower": np.int64(1), "world": np.int64(devices)}
        if width:
            own["tile"] = np.int64(width)
        *_, w, _ = call(place, a, routine=routine, **own)
        return w

    for width in widths:
        run = jax.shard_map(
            functools.partial(local, width),
            mesh=mesh,
            in_specs=rows,
            out_specs=PartitionSpec(),
            check_vma=False,
        )
        yield Contender(
            f"meshsolve, band {width or 'chosen'}",
            *_compiled(run, shards, a.nbytes, devices),
            parts,
        )


def _hermitian(name: str, m: int, n: int):
    """A random matrix."""
    if m != n or name not in ("eigh", "eigvalsh"):
        raise SystemExit(f"{name}, --shapes: expected square matrices and eigenvalues, got {m}x{n}")
    a = np.random.default_rng(3).standard_normal((n, n))
    return (a + a.T) / 2


def _of_donated(what: str, function, a: jax.Array) -> Contender:
    """A function of a donated A, of which a copy is made before each call."""
    copied = jax.jit(jnp.copy)
    program = jax.jit(function, donate_argnums=0).lower(a).compile()

    def timed() -> float:
        given = jax.block_until_ready(copied(a))
        start = time.perf_counter()
        jax.block_until_ready(program(given))
        return time.perf_counter() - start

    run = lambda: program(jax.block_until_ready(copied(a)))  # noqa: E731
    jax.block_until_ready(run())
    share = program.memory_analysis().temp_size_in_bytes * len(a.sharding.device_set)
    share += ms.last_call()["scratch_bytes"]
    return Contender(what, run, share / a.nbytes, timed=timed)


def _of_faer(a) -> Contender:
    """faer's QR in the memory of a copy of A, which is made before."""
    (m, n), held = a.shape, np.empty(a.shape, order="F")

    def timed() -> float:
        held[:] = a
        return measures.faer_qr("float64", m, n, held.ctypes.data, _core.threads())

    def call():
        timed()
        return np.abs(np.diag(held))

    return Contender("faer R", call, timed=timed)


def _of_faer_eigen(a, parts: int, vectors: bool) -> Contender:
    """faer's eigenvalues, and eigenvectors in memory that is made before."""
    w, v = np.empty(len(a)), np.empty(a.shape) if vectors else None

    def timed() -> float:
        at = None if v is None else v.ctypes.data
        addresses = a.ctypes.data, w.ctypes.data, at
        return measures.faer_eigen("float64", len(a), *addresses, _core.threads())

    def call():
        timed()
        return w

    return Contender("faer", call, None, parts, timed)


def _of_scalapack(
    what: str, program: str, arguments: tuple, devices: int, parts: int = 1
) -> Iterator[Contender]:
    """ScaLAPACK's, with the better one of two widths of blocks."""
    choices = {(*arguments, nb): f"ScaLAPACK {what}" for nb in _WIDTHS}
    return _of_processes(program, choices, devices, parts)


def _of_elpa(task: str, n: int, devices: int, parts: int) -> Iterator[Contender]:
    """ELPA's, with the best number of stages and width of blocks. Each process must have some."""
    widths = [nb for nb in _WIDTHS if (devices - 1) * nb < n]
    choices = {(task, n, s, nb): f"ELPA {s}-stage" for s in (1, 2) for nb in widths}
    return _of_processes("elpa", choices, devices, parts)


def _of_processes(
    program: str, choices: dict[tuple, str], devices: int, parts: int
) -> Iterator[Contender]:
    """Separate processes, with the best one of the choices of arguments, which have names."""

    def start(arguments: tuple) -> scalapack.Program:
        return scalapack.Program("ScaLAPACK", program, arguments, devices)

    def tried(arguments: tuple) -> float:
        one = start(arguments)
        found = [one.solve() for _ in range(2)]
        one.end()
        assert max(each.ratio for each in found) < 10, "an answer"
        return min(each.whole for each in found)

    if not choices:
        return
    try:
        best = min(choices, key=tried)
    except scalapack.Unavailable:
        return
    running = start(best)
    timed = lambda: running.solve().whole  # noqa: E731
    yield Contender(choices[best], None, None, parts, timed, running.end)
