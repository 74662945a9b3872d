"""Matrices, meshes, scaled residuals, and fresh processes for code that may hang or abort."""

import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
from typing import NamedTuple

import jax
import numpy as np
import scipy.linalg
from jax.experimental.layout import Format, Layout
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = ("float32", "float64", "complex64", "complex128")
# Device numbers of meshes by their size, in no natural order; orders of matrices, for each device.
ORDERS = {1: (3,), 2: (5, 2), 3: (7, 0, 3), 4: (2, 0, 3, 1), 8: (7, 6, 5, 4, 3, 2, 1, 0)}
SIZES = {"P": 1, "tile-1": 63, "tile": 64, "tile+1": 65, "prime": 37}


def end_log() -> None:
    """Without it the thread of the log, which a test has started, takes the events of others."""
    from meshsolve import _log  # not in each process that imports this file

    _log._stop()
    _log._thread = None


def unit_roundoff(dtype) -> float:
    return float(np.finfo(dtype).eps) / 2


def is_complex(dtype) -> bool:
    return np.issubdtype(np.dtype(dtype), np.complexfloating)


def normal(rng, shape, dtype):
    x = rng.standard_normal(shape)
    if is_complex(dtype):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def spectrum(kind: str, n: int, condition: float, rng) -> np.ndarray:
    """Prescribed eigenvalues, largest 1, as LAPACK's test generators choose them."""
    t = np.arange(n) / max(n - 1, 1)
    values = {
        "one small": np.where(t < 1, 1.0, 1 / condition),
        "one large": np.where(t > 0, 1 / condition, 1.0),
        "geometric": condition**-t,
        "arithmetic": 1 - t * (1 - 1 / condition),
        "random logarithms": np.exp(-rng.random(n) * np.log(condition)),
    }
    return values[kind]


def extreme(kind: str, n: int, dtype) -> float:
    """A factor that brings the norms of a matrix of order n close to an end of the range, "tiny" or
    "huge".
    """
    limits = np.finfo(dtype)
    return (
        float(limits.tiny) * 1e6 if kind == "tiny" else float(limits.max) / (1e3 * max(n, 1) ** 2)
    )


def positive_definite(kind: str, n: int, dtype, rng) -> np.ndarray:
    """An n x n Hermitian positive definite matrix of the named kind."""
    wide = np.complex128 if is_complex(dtype) else np.float64
    eps = float(np.finfo(dtype).eps)
    i = np.arange(n, dtype=float)
    if kind == "kms":
        a = 0.5 ** np.abs(i[:, None] - i)
    elif kind == "minij":
        a = np.minimum(i[:, None], i) + 1
    elif kind == "dominant":
        a = normal(rng, (n, n), wide)
        a = a + a.conj().T + np.diag(2 * np.abs(a).sum(1) + 2 * np.abs(a).sum(0) + 1)
    elif kind in ("tiny", "huge"):
        a = positive_definite("random", n, dtype, rng).astype(wide) * extreme(kind, n, dtype)
    elif kind == "random":
        g = normal(rng, (n, n), wide)
        a = g @ g.conj().T / max(n, 1) + np.eye(n)
    else:
        name, condition = kind.split(":")
        condition = {"2": 2.0, "sqrt": np.sqrt(0.1 / eps), "full": 0.01 / eps}[condition]
        q = np.linalg.qr(normal(rng, (n, n), wide))[0] if n else np.zeros((0, 0))
        a = (q * spectrum(name, n, condition, rng)) @ q.conj().T
    a = (a + a.conj().T) / 2
    return a.astype(dtype)


KINDS = (
    "random",
    "kms",
    "minij",
    "dominant",
    "tiny",
    "huge",
    "one small:2",
    "one large:sqrt",
    "geometric:full",
    "arithmetic:sqrt",
    "random logarithms:full",
)
# Rust's tests cover kinds of matrices, orders and dtypes (`tests/suite/kinds.rs`).
SOME_KINDS = ("random", "geometric:full")
WHOLE = {
    "dtype": DTYPES,
    "p": ORDERS,
    "size": SIZES,
    "storage": ("rows", "columns", "column-major", "replicated", "padded"),
    "axis_type": ("auto", "explicit"),
}
REDUCED = {"dtype": ("float32", "complex128"), "p": (1, 3, 4), "size": ("P", "tile+1")}
WELL_CONDITIONED = ("random", "kms", "dominant", "tiny", "huge", "one small:2")


def general(kind: str, n: int, dtype, rng) -> np.ndarray:
    """An n x n matrix of the named kind without symmetry, if the kind has none."""
    wide = np.complex128 if is_complex(dtype) else np.float64
    eps = float(np.finfo(dtype).eps)
    i = np.arange(n, dtype=float)
    if kind == "random":
        a = normal(rng, (n, n), wide)
    elif kind == "kms":
        a = np.tril(0.5 ** np.abs(i[:, None] - i)) + np.triu(0.25 ** np.abs(i[:, None] - i), 1)
    elif kind == "minij":
        a = np.minimum(i[:, None], i) + 1
    elif kind == "hilbert":
        a = 1 / (i[:, None] + i + 1)
    elif kind == "dominant":
        a = normal(rng, (n, n), wide)
        a = a + np.diag(np.abs(a).sum(0) + 1)
    elif kind == "growth":  # partial pivoting lets entries grow to 2^(n-1) here
        a = np.eye(n) - np.tril(np.ones((n, n)), -1)
        a[:, -1:] = 1
    elif kind in ("tiny", "huge"):
        a = normal(rng, (n, n), wide) * extreme(kind, n, dtype)
    else:
        name, condition = kind.split(":")
        condition = {"2": 2.0, "sqrt": np.sqrt(0.1 / eps), "full": 0.1 / eps}[condition]
        if not n:
            return np.zeros((0, 0), dtype)
        left, right = (np.linalg.qr(normal(rng, (n, n), wide))[0] for _ in range(2))
        a = (left * spectrum(name, n, condition, rng)) @ right
    return a.astype(dtype)


def interchanged(a, piv) -> np.ndarray:
    """P A for scipy's piv."""
    a = np.array(a)
    for i, row in enumerate(np.asarray(piv)):
        a[[i, row]] = a[[row, i]]
    return a


def lu_ratio(a, lu, piv) -> float:
    """norm(P A - L U) / (n norm(A) u) in the 1-norm, for scipy's pair (lu, piv)."""
    wide = np.clongdouble if is_complex(a.dtype) else np.longdouble
    lu = np.asarray(lu).astype(wide)
    lower, upper = np.tril(lu, -1) + np.eye(len(a)), np.triu(lu)
    norm = lambda m: np.abs(m).sum(0).max(initial=0)  # noqa: E731
    scale = max(len(a), 1) * norm(a.astype(wide)) * unit_roundoff(a.dtype)
    return float(norm(interchanged(a, piv) - lower @ upper) / scale) if scale else 0.0


def solve_ratio(a, x, b) -> float:
    """norm(B - A X) / (n norm(A) norm(X) u) in the 1-norm, in twice the working precision."""
    wide = np.clongdouble if is_complex(a.dtype) else np.longdouble
    x, b = (np.asarray(m) for m in (x, b))
    x, b = (m[:, None] if m.ndim == 1 else m for m in (x, b))
    residual = b.astype(wide) - a.astype(wide) @ x.astype(wide)
    norm = lambda m: np.abs(m.astype(wide)).sum(0).max(initial=0)  # noqa: E731
    scale = max(len(a), 1) * norm(a) * norm(x) * unit_roundoff(a.dtype)
    return float(norm(residual) / scale) if scale else float(norm(residual))


def factor_ratio(a, c, lower: bool) -> float:
    """norm(A - L L^H) / (n norm(A) u) in the 1-norm, for scipy's pair (c, lower)."""
    wide = np.clongdouble if is_complex(a.dtype) else np.longdouble
    c = np.asarray(c).astype(wide)
    factor = np.tril(c) if lower else np.triu(c).conj().T
    norm = lambda m: np.abs(m).sum(0).max(initial=0)  # noqa: E731
    scale = max(len(a), 1) * norm(a.astype(wide)) * unit_roundoff(a.dtype)
    return float(norm(a - factor @ factor.conj().T) / scale) if scale else 0.0


def one_triangle(a, lower: bool) -> np.ndarray:
    """A with NaN in the triangle that must not be read."""
    given = np.where(np.tri(len(a), dtype=bool) == lower, a, np.nan)
    np.fill_diagonal(given, a.diagonal())
    return given.astype(a.dtype)


STORAGES = ("rows", "columns", "column-major", "replicated")


def put_matrix(mesh, a, storage: str):
    """A on the mesh in the named storage."""
    spec = {"rows": P("x", None), "replicated": P()}.get(storage, P(None, "x"))
    sharding = NamedSharding(mesh, spec)
    if storage == "column-major":
        return jax.device_put(a, Format(Layout((1, 0)), sharding))
    return jax.device_put(a, sharding)


def lapack_info(a: np.ndarray, lower: bool) -> int:
    """LAPACK's info of potrf on this triangle."""
    (potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), (a,))
    return int(potrf(a, lower=lower)[1])


def mesh_of(order, kind: str = "auto") -> Mesh:
    """A mesh with axis x over the devices of the given numbers."""
    axis_type = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}[kind]
    devices = np.array([jax.devices()[i] for i in order])
    return Mesh(devices, ("x",), axis_types=(axis_type,))


def mesh_set(mesh: Mesh | None):
    """The context that sets a mesh with Explicit axes. JAX needs it where it makes arrays itself,
    as for derivatives, or if no operand of a jitted call shows the mesh. It sets no mesh with Auto
    axes.
    """
    explicit = mesh is not None and AxisType.Explicit in mesh.axis_types
    return jax.set_mesh(mesh) if explicit else contextlib.nullcontext()


def put(mesh: Mesh, x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def nvrtc_libraries() -> list[pathlib.Path]:
    """The libraries of the wheels, by path."""
    spec = importlib.util.find_spec("nvidia")
    places = (spec and spec.submodule_search_locations) or ()
    return [lib for p in places for lib in sorted(pathlib.Path(p).glob("*/lib/libnvrtc.so.*"))]


class Ran(NamedTuple):
    """The values that a program gave to `tell`, and its output."""

    reported: list
    out: str
    err: str


def tell(*values) -> None:
    """Give these to the test that runs this program by run_fresh."""
    with open(int(os.environ["TOLD"]), "a", closefd=False) as reported:
        for value in values:
            print(json.dumps(value, default=lambda x: np.asarray(x).tolist()), file=reported)


def fault_target() -> str:
    """The target whose routine `diagnose` fails on request."""
    sys.path.append(str(ROOT / "benchmarks"))
    import measures

    return measures.fault_target()


def run_fresh(
    code: str, *, timeout: float = 120, env: dict | None = None, code_at_end: int = 0
) -> Ran:
    """Run a program in a separate process; a hang or an abort fails the test."""
    prelude = (
        f"import sys; sys.path[:0] = [{str(ROOT / 'tests/python')!r}]\n"
        "import conftest\nimport jax, jax.numpy as jnp, numpy as np\n"
        "from jax import lax\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
        "import meshsolve as ms\nfrom helpers import *\n"
    )
    with tempfile.TemporaryFile("w+") as reported:
        ran = subprocess.run(
            [sys.executable, "-c", prelude + textwrap.dedent(code)],
            env=os.environ | {"TOLD": str(reported.fileno())} | (env or {}),
            pass_fds=(reported.fileno(),),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert ran.returncode == code_at_end, (
            f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr[-4000:]}"
        )
        reported.seek(0)
        return Ran([json.loads(line) for line in reported], ran.stdout, ran.stderr)
