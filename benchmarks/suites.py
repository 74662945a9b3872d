"""The rows of `make bench`, `make bench-full` and `make bench-check`, in order.

"growth" is a part of "full": orders up to 16384, which take ten minutes, and 8192 on more devices.
"""

from typing import NamedTuple

import scalapack
from contenders import WHATS

BOTH = ("cholesky", "lu")
# From the first order on, rows of n right-hand sides take minutes; the other is the largest order.
LARGE, HUGE = 8192, 16384


class Case(NamedTuple):
    """One row of the table; rows of competitors on one device have ``devices`` 1."""

    routine: str
    what: str
    n: int
    dtype: str = "float64"
    devices: int = 2


def _small() -> list[Case]:
    """Steady state of small orders, where dispatch counts."""
    ours = ("meshsolve", "meshsolve jit")
    sizes = [(r, n) for n in (256, 1024) for r in BOTH]
    cases = [Case(r, w, n) for r, n in sizes for w in (*ours, "jnp one device")]
    return cases + [Case(r, w, n, devices=1) for r, n in sizes for w in ours]


def _competitors() -> list[Case]:
    """All competitors; the slowest only for the smaller matrices."""
    few = ("meshsolve", "meshsolve columns", "meshsolve keep a", "meshsolve ready factor 1 rhs")
    few += ("jnp sharded", "jnp one device", "scipy", "faer", "ScaLAPACK", "ScaLAPACK SkylakeX")
    cases = []
    for n in (4096, LARGE):
        cases += [Case(r, w, n) for r in BOTH for w in few]
        cases += [Case("lu", "meshsolve refine", n)]
    cases += [Case(r, "meshsolve column-major", 4096) for r in BOTH]
    others = ("meshsolve", "meshsolve columns", "jnp sharded", "jnp one device")
    cases += [Case(r, w, 4096) for r in ("inverse", "gradient") for w in others]
    return cases + [Case(r, "meshsolve", 2048) for r in BOTH]


def _devices(n: int) -> list[Case]:
    return [Case(r, "meshsolve", n, devices=p) for r in BOTH for p in (1, 4, 8)]


def _dtypes(n: int) -> list[Case]:
    dtypes = ("float32", "complex64", "complex128")
    return [Case(r, "meshsolve", n, dtype) for dtype in dtypes for r in BOTH]


def _growth() -> list[Case]:
    whats = ("meshsolve", "jnp one device", "scipy", "faer")
    return [Case(r, w, n) for n in (2048, HUGE) for r in BOTH for w in whats] + _devices(LARGE)


def _everything(n: int) -> list[Case]:
    every = lambda r: (*WHATS[r], *(scalapack.WHATS if r in BOTH else ()), "faer gemm")  # noqa: E731
    return [Case(r, w, n) for r in WHATS for w in every(r) if n < LARGE or not w.endswith(" n rhs")]


def _bench() -> list[Case]:
    gemm = [Case("cholesky", "faer gemm", 4096)]
    return gemm + _competitors() + _devices(4096) + _dtypes(4096) + _small()


def _full() -> list[Case]:
    more = [case for n in (4096, 8192, 1024) for case in _everything(n)]
    return _bench() + _growth() + more + _dtypes(1024) + _dtypes(LARGE)


def _check() -> list[Case]:
    """Shares that show a regression, in two minutes."""
    whats = ("meshsolve", "meshsolve columns", "meshsolve keep a")
    return [Case(r, w, 4096) for r in BOTH for w in whats] + [
        Case("cholesky", "meshsolve", 4096, devices=4),
        Case("cholesky", "meshsolve", 4096, "complex128"),
        Case("lu", "meshsolve", 4096, "float32"),
        Case("cholesky", "meshsolve", 1024),
        Case("inverse", "meshsolve", 4096),
    ]


SUITES = {"bench": _bench, "growth": _growth, "full": _full, "check": _check}


def cases(suite: str) -> list[Case]:
    """The rows of a suite, each once."""
    return list(dict.fromkeys(SUITES[suite]()))
