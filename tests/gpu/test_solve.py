"""Solvers on CUDA devices against NumPy: all dtypes and shardings, over all devices."""

import os
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from platforms import BENCHMARKS, devices, needs_cuda, needs_driver

import measures
import meshsolve as ms
from meshsolve._library.cuda import search_folders

DTYPES = ("float32", "float64", "complex64", "complex128")
SPECS = {"rows": P("x", None), "columns": P(None, "x"), "replicated": P()}


def mesh():
    return Mesh(np.array(devices()), ("x",))


def matrix(n, dtype, positive=False):
    random = np.random.default_rng(n)
    a = random.standard_normal((n, n)) + 1j * random.standard_normal((n, n))
    a = a if np.dtype(dtype).kind == "c" else a.real
    return (a @ a.conj().T + n * np.eye(n) if positive else a).astype(dtype)


def ratio(a, x, b):
    """norm(b - a x) / (n norm(a) norm(x) u), 1-norms."""
    norm = lambda m: np.abs(m).sum(0).max()  # noqa: E731
    u = np.finfo(a.dtype).eps / 2
    x, b = (np.asarray(m).reshape(len(a), -1) for m in (x, b))
    return norm(b - a @ x) / (len(a) * norm(a) * norm(x) * u)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("assume", ["pos", "gen"])
@pytest.mark.parametrize("columns", [None, 3, 100])
def test_solve(dtype, spec, assume, columns):
    n = 840
    a = matrix(n, dtype, assume == "pos")
    b = np.ones(n if columns is None else (n, columns), dtype)
    x = ms.solve(jax.device_put(a, NamedSharding(mesh(), SPECS[spec])), b, assume_a=assume)
    assert ratio(a, x, b) < 30


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", ["rows", "columns"])
def test_factors(dtype, spec):
    n = 840
    a, b = matrix(n, dtype), np.ones(n, dtype)
    factor = ms.lu_factor(jax.device_put(a, NamedSharding(mesh(), SPECS[spec])))
    for trans, applied in enumerate((a, a.T, a.conj().T)):
        assert ratio(applied, factor.solve(b, trans=trans), b) < 30
    sign, logdet = np.linalg.slogdet(a)
    got = factor.slogdet()
    u = np.finfo(dtype).eps
    assert abs(got[0] - sign) < 1e4 * u and abs(got[1] - logdet) < 1e4 * u * abs(logdet)
    assert float(factor.rcond()) == pytest.approx(1 / np.linalg.cond(a, 1), rel=2)
    lu, piv = factor
    rows = np.arange(n)
    for i, p in enumerate(np.asarray(piv)):
        rows[[i, p]] = rows[[p, i]]
    lower = np.tril(lu, -1) + np.eye(n, dtype=dtype)
    assert np.abs(lower @ np.triu(lu) - a[rows]).max() < 1e3 * u * np.abs(a).max()


@pytest.mark.parametrize("dtype", DTYPES)
def test_inverses_triangles_and_norms(dtype):
    n = 840
    a = matrix(n, dtype, positive=True)
    sharded = jax.device_put(a, NamedSharding(mesh(), P("x", None)))
    identity = np.eye(n, dtype=dtype)
    for assume in ("pos", "gen"):
        assert ratio(a, ms.inv(sharded, assume_a=assume), identity) < 30
    t = np.tril(a)
    x = ms.solve_triangular(jax.device_put(t, sharded.sharding), identity[:, 0], lower=True)
    assert ratio(t, x, identity[:, 0]) < 30
    for ord in (1, np.inf, "fro"):
        assert float(ms.norm(sharded, ord)) == pytest.approx(np.linalg.norm(a, ord), rel=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("assume", ["pos", "gen"])
def test_traces(assume, dtype):
    a, b = matrix(840, dtype, assume == "pos"), matrix(840, dtype)
    rows = NamedSharding(mesh(), SPECS["rows"])
    found = ms.trace_solve(*(jax.device_put(x, rows) for x in (a, b)), assume_a=assume)
    expected, size = np.trace(np.linalg.solve(a, b)), np.abs(np.linalg.inv(a)).sum()
    assert abs(found - expected) < 100 * np.finfo(dtype).eps * size * np.abs(b).max()


@needs_cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", ["rows", "columns"])
def test_cusolvermg(dtype, spec):
    n = 840 * len(devices())
    b = np.ones((n, 3), dtype)
    for assume, factor_of in (("pos", ms.cho_factor), ("gen", ms.lu_factor)):
        a = matrix(n, dtype, assume == "pos")
        sharded = jax.device_put(a, NamedSharding(mesh(), SPECS[spec]))
        x = ms.solve(sharded, b, assume_a=assume, engine="cusolvermg")
        assert ratio(a, x, b) < 30
        factor = factor_of(sharded, engine="cusolvermg")
        assert ratio(a, factor.solve(b), b) < 30
        assert float(factor.rcond()) == pytest.approx(1 / np.linalg.cond(a, 1), rel=2)
        inverse = ms.inv(sharded, assume_a=assume, engine="cusolvermg")
        assert ratio(a, inverse, np.eye(n, dtype=dtype)) < 30
    lu, piv = factor
    rows = np.arange(n)
    for i, p in enumerate(np.asarray(piv)):
        rows[[i, p]] = rows[[p, i]]
    lower = np.tril(lu, -1) + np.eye(n, dtype=dtype)
    difference = np.abs(lower @ np.triu(lu) - a[rows]).max()
    assert difference < 1e3 * np.finfo(dtype).eps * np.abs(a).max()


@needs_cuda
@pytest.mark.parametrize("columns", [512, 640, 1009])
def test_widths_of_cusolvermg(columns):
    """Widths of tile columns: the widest one without another choice, 320, and a prime beyond 512,
    which LU refuses with a message.
    """
    one, n = Mesh(np.array(devices()[:1]), ("x",)), columns
    b = np.ones((n, 3))
    for assume in ("pos", "gen"):
        a = matrix(n, "float64", assume == "pos")
        sharded = jax.device_put(a, NamedSharding(one, P("x", None)))
        how = {"assume_a": assume, "engine": "cusolvermg"}
        if assume == "gen" and columns == 1009:
            with pytest.raises(ValueError, match="to order 1024"):
                ms.solve(sharded, b, **how)
        else:
            assert ratio(a, ms.solve(sharded, b, **how), b) < 30


BY_NCCL = """
import sys
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import meshsolve as ms

n, devices = 840, jax.devices("cuda")[: int(sys.argv[1])]
rows = NamedSharding(Mesh(np.array(devices), ("x",)), PartitionSpec("x", None))
a = np.random.default_rng(0).standard_normal((n, n)).astype("float32")
b = np.ones(n, "float32")
for _ in range(2):
    for assume, matrix in (("pos", a @ a.T + n * np.eye(n, dtype="float32")), ("gen", a)):
        x = np.asarray(ms.solve(jax.device_put(matrix, rows), b, assume_a=assume))
        residual = np.abs(b - matrix @ x).max() / (np.abs(matrix).sum(1).max() * np.abs(x).max())
        assert residual < 30 * n * np.finfo("float32").eps, (assume, residual)
"""


@needs_cuda
@pytest.mark.parametrize("count", sorted({1, len(devices())}))
def test_panels_by_nccl(count):
    # NCCL prints its version when it makes the first communicators.
    env = os.environ | {"MESHSOLVE_PANELS": "nccl", "NCCL_DEBUG": "VERSION"}
    command = [sys.executable, "-c", BY_NCCL, str(count)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert "NCCL version" in ran.stdout + ran.stderr


def test_a_gradient():
    n = 420
    a, b = matrix(n, "float64", positive=True), np.ones(n)
    rows = NamedSharding(mesh(), P("x", None))
    value = lambda a: ms.solve(a, b, assume_a="pos").sum()  # noqa: E731
    gradient = jax.jit(jax.grad(value))(jax.device_put(a, rows))
    x = np.linalg.solve(a, b)
    np.testing.assert_allclose(gradient, -np.outer(x, x), rtol=1e-8)


@needs_driver
@pytest.mark.parametrize("routine", ["posv", "gesv"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_ranks_that_share_a_device(routine, ranks):
    """The code of several devices, with a stream for each rank."""
    folders = search_folders()
    large = 24 * (8 if os.environ.get("TESTS_EVERY", "1") != "1" else 64)
    for n, width in ((large, None), (large, 32), (24 * 7, 5)):
        _, error = measures.cuda_ranks(0, routine, n, ranks, width, 2, folders)
        assert error < 1e-11


def test_no_solution_is_nan_and_info():
    a = matrix(840, "float64", positive=True)
    a[700, 700] = -1
    rows = NamedSharding(mesh(), P("x", None))
    x, info = ms.solve(jax.device_put(a, rows), np.ones(840), assume_a="pos", return_info=True)
    assert int(info.info) == 701 and bool(jnp.isnan(x).all())


@needs_cuda
def test_sanitizer():
    """One LU, by the code that calls of JAX run."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("no compute-sanitizer")
    code = (
        f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "import measures\n"
        "from meshsolve._library.cuda import search_folders\n"
        "_, error = measures.cuda_ranks(0, 'gesv', 840, 1, None, 0, search_folders())\n"
        "assert error < 1e-11, error\n"
    )
    command = [sanitizer, "--tool", "memcheck", "--error-exitcode", "9"]
    ran = subprocess.run(
        [*command, sys.executable, "-c", code], capture_output=True, text=True, timeout=280
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
