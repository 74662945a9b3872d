"""Dense linear solvers for JAX arrays that are sharded over devices.

Importing the package registers nothing, loads no GPU library and changes no setting.
``meshsolve.lineax`` has solvers for lineax; its first use imports lineax.

Examples:
  >>> import jax
  >>> import jax.numpy as jnp
  >>> import numpy as np
  >>> from jax.sharding import NamedSharding, PartitionSpec as P
  >>> import meshsolve as ms

  >>> mesh = jax.make_mesh((4,), ("x",))
  >>> a = jax.device_put(2 * jnp.eye(8) + 1, NamedSharding(mesh, P("x", None)))  # by rows
  >>> b = jnp.ones(8)
  >>> x = ms.solve(a, b, assume_a="pos")
  >>> print(x.round(3))
  [0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1]

The examples of the functions use these names.
"""

import importlib
from typing import Any

from meshsolve import local
from meshsolve._api.calls import (
    cancel,
    float64_math,
    last_call,
    set_float64_math,
    set_timeout,
    timeout,
)
from meshsolve._api.cholesky import CholeskyFactor, cho_factor, cho_solve, cholesky, logdet
from meshsolve._api.eigen import EighResult, eigh, eigvalsh
from meshsolve._api.elsewhere import absent
from meshsolve._api.functions import cond, expm, inv_sqrtm, logm, pinv, sqrtm
from meshsolve._api.inverse import inv, trace_solve
from meshsolve._api.least_squares import LeastSquares, lstsq
from meshsolve._api.lu import LUFactor, SlogdetResult, det, lu_factor, lu_solve, slogdet
from meshsolve._api.norm import norm
from meshsolve._api.plan import Plan, plan
from meshsolve._api.progress import Progress, set_progress
from meshsolve._api.qr import QRFactor, QRResult, qr
from meshsolve._api.solve import SolveInfo, solve
from meshsolve._api.transpose import transpose_inplace
from meshsolve._api.triangular import solve_triangular
from meshsolve._core import __version__
from meshsolve._execute.rows import Rows
from meshsolve._library.ffi import ffi_target

__all__ = [
    "CholeskyFactor",
    "EighResult",
    "LUFactor",
    "LeastSquares",
    "Plan",
    "Progress",
    "QRFactor",
    "QRResult",
    "Rows",
    "SlogdetResult",
    "SolveInfo",
    "__version__",
    "cancel",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
    "expm",
    "ffi_target",
    "float64_math",
    "inv",
    "inv_sqrtm",
    "last_call",
    "local",
    "logdet",
    "logm",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "norm",
    "pinv",
    "plan",
    "qr",
    "set_float64_math",
    "set_progress",
    "set_timeout",
    "slogdet",
    "solve",
    "solve_triangular",
    "sqrtm",
    "timeout",
    "trace_solve",
    "transpose_inplace",
]


def __getattr__(name: str) -> Any:
    if name == "lineax":
        return importlib.import_module("meshsolve.lineax")
    raise absent(name)


def __dir__() -> list[str]:
    return [*__all__, "lineax"]
