"""Dense linear solvers for JAX arrays that are sharded over devices.

>>> import meshsolve as ms
>>> x = ms.solve(a, b, assume_a="pos")

Importing registers nothing, loads no GPU library and changes no setting.
"""

from meshsolve._core import __version__, last_call, set_timeout, timeout
from meshsolve._ffi import ffi_target
from meshsolve.solve import SolveInfo, solve

__all__ = [
    "SolveInfo",
    "__version__",
    "ffi_target",
    "last_call",
    "set_timeout",
    "solve",
    "timeout",
]
