"""The measured systems, and the calls of this library and its competitors that solve them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import measures
import meshsolve as ms
from meshsolve import _core

# For these a factor is made once, and its solves are timed, with one right-hand side and with n.
READY = tuple(
    f"{who} ready factor {k} rhs"
    for who in ("meshsolve", "jnp sharded", "jnp one device")
    for k in ("1", "n")
)
_COMMON = (
    "meshsolve",  # by rows, A donated
    "meshsolve columns",
    "meshsolve column-major",
    "meshsolve keep a",
    "meshsolve padded",  # a matrix on one device, of order n - 1, copied to the mesh
    "jnp sharded",
    "jnp sharded columns",
    "jnp one device",
    "scipy",  # on one device, all cores, column-major as in LAPACK
    "faer",  # its own solvers, likewise
    "meshsolve jit",  # inside a jax.jit; A kept
    *READY,
)
_FEW = ("meshsolve", "meshsolve columns", "jnp sharded", "jnp one device", "scipy")
WHATS = {
    "cholesky": (
        *_COMMON,
        "meshsolve lower",  # the triangle that has to be mirrored
        "meshsolve columns upper",  # mirrored and transposed; "columns" are only transposed
        "meshsolve cyclic",  # through block-cyclic order, in place
    ),
    "lu": (
        *_COMMON,
        "meshsolve refine",  # a factor in half the precision, refined; A kept
    ),
    # A^-1 of the matrix of "lu".
    "inverse": _FEW,
    # The upper triangle of the matrix of "cholesky", with one right-hand side and with n.
    "triangular": tuple(f"{who} {k} rhs" for who in _FEW for k in ("1", "n")),
    # Sign and logarithm, of the matrix of "lu".
    "determinant": _FEW,
    # The gradient of the solution's square with respect to A, of the matrix of "lu"; A kept.
    "gradient": _FEW[:-1],
}


class Contender(NamedTuple):
    """One row: a function for new (A, B) of each call, the call, and the check of its answer."""

    system: Callable
    solve: Callable
    check: Callable


def sharding(what: str) -> str:
    """The storage of A."""
    if what == "meshsolve column-major":
        return "column-major"
    if what == "faer" or what.startswith("scipy"):
        return "one device column-major"
    if what == "meshsolve padded" or what.startswith("jnp one device"):
        return "one device"
    return "columns" if "columns" in what else "rows"


def right_hand_sides(what: str, n: int, asked: int) -> int:
    """The number of right-hand sides in one call."""
    return {"1": 1, "n": n}[what.split()[-2]] if what.endswith(" rhs") else asked


def contender(what: str, routine: str, n: int, rhs: int, dtype: str) -> Contender:
    """A row of the table. A is that of ``matrix``, made anew for each call, so that rows that wait
    for their turn hold no memory. B is all ones.
    """
    n = n - 1 if what == "meshsolve padded" else n
    mesh = Mesh(np.array(jax.devices()), ("x",))
    where = sharding(what)
    spec = PartitionSpec("x", None) if where == "rows" else PartitionSpec(None, "x")
    placed = NamedSharding(mesh, spec)
    if where == "column-major":
        placed = Format(Layout((1, 0)), placed)
    # Many right-hand sides are distributed by columns, the layout of the solver.
    rhs_spec = PartitionSpec(None, "x") if rhs == n and rhs % mesh.size == 0 else PartitionSpec()
    rhs_placed = NamedSharding(mesh, rhs_spec)
    if where.startswith("one device"):
        placed = rhs_placed = None
    make = jax.jit(lambda: matrix(routine, n, dtype), out_shardings=placed)
    ones = jax.jit(lambda: jnp.ones((n, rhs), dtype), out_shardings=rhs_placed)

    def check(x) -> float:
        """The scaled residual. For a determinant the distance of its logarithm from NumPy's. For a
        gradient G = -Z X^T, A^T Z = 2 X, the residual of A^T G B = -2 X X^T B.
        """
        a, unit = np.asarray(make()), float(jnp.finfo(dtype).eps) / 2
        if routine == "determinant":
            (sign, logarithm), (right, exact) = map(np.asarray, x), np.linalg.slogdet(a)
            apart = abs(logarithm - exact) + abs(sign - right)
            return float(apart / (n * unit * max(abs(exact), 1)))
        b, x = np.ones((n, rhs), dtype), np.asarray(x)
        a = np.triu(a) if routine == "triangular" else a
        if routine == "gradient":
            y = np.linalg.solve(a, b)
            a, b, x = a.T, -2 * y @ (y.T @ b), x @ b
        x = x @ b if routine == "inverse" else x
        norm = lambda m: float(np.abs(m).sum(0).max())  # noqa: E731
        return norm(b - a @ x) / (n * norm(a) * norm(x) * unit)

    if what in READY:
        b = ones()
        solve = _ready(what, routine, make())
        return Contender(lambda: (None, b), lambda _, b: solve(b), check)
    if what == "faer" or what.startswith("scipy"):
        turned = jax.jit(lambda: matrix(routine, n, dtype).T)
        new = lambda: (np.array(turned()).T, np.ones((n, rhs), dtype, order="F"))  # noqa: E731
        return Contender(new, Faer(routine) if what == "faer" else _scipy(routine), check)
    new = lambda: jax.block_until_ready((make(), ones()))  # noqa: E731
    return Contender(new, solver(what, routine), check)


def matrix(routine: str, n: int, dtype: str):
    """A: 1 / (1 + |i-j|) + I (times phases if complex) for Cholesky and triangular, which has no
    subnormal numbers. Otherwise random numbers, nearly normal, of variance 1, at a tenth of the
    time of normal ones.
    """
    make = _positive_definite if routine in ("cholesky", "triangular") else _general
    return make(n, dtype)


def _positive_definite(n: int, dtype: str):
    i = jnp.arange(n)
    d = i[:, None] - i[None, :]
    a = 1 / (1 + jnp.abs(d)) + jnp.eye(n)
    return (a * jnp.exp(0.3j * d) if dtype.startswith("complex") else a).astype(dtype)


def _general(n: int, dtype: str):
    if dtype.startswith("complex"):
        return ((_random(n, 0) + 1j * _random(n, 1)) * 0.5**0.5).astype(dtype)
    return _random(n, 0).astype(dtype)


def _random(n: int, seed: int):
    """Sums of four uniform numbers, 16 bits each of two hashes of an entry's index."""

    def mixed(z):
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            z = (z ^ (z >> shift)) * jnp.uint32(factor)
        return z ^ (z >> 16)

    i = jnp.arange(n, dtype=jnp.uint32)
    first = mixed(i[:, None] * jnp.uint32(n) + i + jnp.uint32(seed * 0x9E3779B9))
    words = (first, mixed(first + jnp.uint32(1)))
    parts = [(word >> shift) & 0xFFFF for word in words for shift in (0, 16)]
    finer = (words[0] * words[1]).astype(jnp.float64) / (1 << 32)  # otherwise many were equal
    return (sum(parts) + finer - 2 * (1 << 16) + 1.5) * (3**0.5 / (1 << 16))


def _scipy(routine: str):
    import scipy.linalg

    if routine == "inverse":
        return lambda a, _: scipy.linalg.inv(a, overwrite_a=True, check_finite=False)
    if routine == "triangular":
        solve = scipy.linalg.solve_triangular
        return lambda a, b: solve(a, b, overwrite_b=True, check_finite=False)
    if routine == "determinant":
        return _logarithm_of_scipys_factor
    assume = {"cholesky": "pos", "lu": "gen"}[routine]
    options = {"assume_a": assume, "overwrite_a": True, "check_finite": False}
    return lambda a, b: scipy.linalg.solve(a, b, **options)


def _logarithm_of_scipys_factor(a, _):
    """Sign and logarithm of the determinant, as SciPy has no slogdet."""
    import scipy.linalg

    lu, piv = scipy.linalg.lu_factor(a, overwrite_a=True, check_finite=False)
    diagonal = lu.diagonal()
    swaps = np.count_nonzero(piv != np.arange(len(piv)))
    sign = (-1) ** swaps * np.prod(diagonal / np.abs(diagonal))
    return sign, np.log(np.abs(diagonal)).sum()


class Faer:
    """faer's own solvers, on all cores, in the memory of A and B; ``factor`` has the seconds of the
    last factorisation.
    """

    def __init__(self, routine: str):
        self._positive_definite = routine == "cholesky"
        self.factor = 0.0

    def __call__(self, a, b):
        """X, in the memory of B."""
        threads, (n, k), name = _core.threads(), b.shape, a.dtype.name
        addresses = a.ctypes.data, b.ctypes.data
        self.factor = measures.faer_solve(name, n, k, *addresses, self._positive_definite, threads)
        return b


def solver(what: str, routine: str):
    """(A, B) -> X, which may take the memory of A."""
    if what.startswith("jnp"):
        cho = jax.scipy.linalg
        if routine == "lu":
            return jax.jit(jnp.linalg.solve)
        if routine == "inverse":
            return jax.jit(lambda a, _: jnp.linalg.inv(a))
        if routine == "triangular":
            return jax.jit(cho.solve_triangular)
        if routine == "determinant":
            return jax.jit(lambda a, _: jnp.linalg.slogdet(a))
        if routine == "gradient":
            return _gradient(jnp.linalg.solve)
        return jax.jit(lambda a, b: cho.cho_solve(cho.cho_factor(a), b))
    if what == "meshsolve cyclic":
        return ffi_solver("posv", order="cyclic")
    if routine == "inverse":
        return lambda a, _: ms.inv(a, overwrite_a=True)
    if routine == "triangular":
        return lambda a, b: ms.solve_triangular(a, b, overwrite_b=True)
    if routine == "determinant":
        return lambda a, _: ms.slogdet(a, overwrite_a=True)
    if routine == "gradient":
        return _gradient(ms.solve)
    options = {
        "assume_a": {"cholesky": "pos", "lu": "gen"}[routine],
        "lower": what in ("meshsolve lower", "meshsolve columns", "meshsolve column-major"),
        "overwrite_a": what != "meshsolve keep a",
        "refine": what == "meshsolve refine",
    }
    if what == "meshsolve padded":
        mesh = jax.make_mesh((len(jax.devices()),), ("x",))
        return lambda a, b: ms.solve(a, b, mesh=mesh, **options)
    if what == "meshsolve jit":
        return jax.jit(lambda a, b: ms.solve(a, b, assume_a=options["assume_a"]))
    return lambda a, b: ms.solve(a, b, **options)


def _gradient(solve):
    return jax.jit(jax.grad(lambda a, b: (solve(a, b) ** 2).sum()))


def _ready(what: str, routine: str, a):
    """B -> X with a ready factor of A; JAX's has the sharding of A."""
    if what.startswith("meshsolve"):
        made = {"cholesky": ms.cho_factor, "lu": ms.lu_factor}[routine](a, overwrite_a=True)
        return jax.block_until_ready(made).solve
    linalg = jax.scipy.linalg
    if routine == "cholesky":
        factor = jax.jit(lambda a: linalg.cho_factor(a)[0], out_shardings=a.sharding)
        solve = jax.jit(lambda c, b: linalg.cho_solve((c, False), b))
    else:
        lies = a.sharding
        whole = (
            NamedSharding(lies.mesh, PartitionSpec()) if isinstance(lies, NamedSharding) else lies
        )
        factor = jax.jit(linalg.lu_factor, out_shardings=(lies, whole))
        solve = jax.jit(linalg.lu_solve)
    made = jax.block_until_ready(factor(a))
    return lambda b: solve(made, b)


def ffi_solver(routine: str, **attributes):
    """(A, B) -> X by a call of the target with these attributes; A is donated."""
    mesh = Mesh(np.array(jax.devices()), ("x",))
    target, rows = ms.ffi_target(), PartitionSpec("x", None)

    def local(a, b):
        place = jnp.stack([lax.axis_index("x"), 0]).astype(jnp.int32)
        like = [jax.ShapeDtypeStruct(m.shape, m.dtype) for m in (a, b)]
        results = (*like, jax.ShapeDtypeStruct((), jnp.int32))
        call = jax.ffi.ffi_call(target, results, input_output_aliases={1: 0, 2: 1})
        fixed = {"world": np.int64(mesh.size), "rhs": "replicated", "routine": routine}
        return call(place, a, b, **fixed, **attributes)[:2]

    specs = (rows, PartitionSpec())
    whole = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=specs, check_vma=False)
    run = jax.jit(whole, donate_argnums=0)
    return lambda a, b: run(a, b)[1]
