"""Facts that JAX only knows when it lowers a program: its devices, and whether it is exported."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from meshsolve._library.errors import mistake


class Program(NamedTuple):
    """A program that is being lowered.

    Attributes:
      devices: number of devices of the program; None if that is not known.
      is_exported: whether it is for ``jax.export``.
    """

    devices: int | None
    is_exported: bool


def expect(x, check: Callable[[Program], None]) -> Any:
    """X, whose program may raise an error of ``check``, which is hashable."""
    return _expecting.bind(x, check=check)


def expect_not_exported(x, operation: str, expected: str, remedy: str) -> Any:
    """A matrix on Auto axes, whose program refuses export for several devices: the process that
    compiles it decides the distribution of the matrix.
    """
    return expect(x, _not_exported(operation, expected, remedy))


# The same function for the same message: JAX finds compiled programs by it.
@functools.lru_cache(maxsize=256)
def _not_exported(operation: str, expected: str, remedy: str) -> Callable[[Program], None]:
    def check(program: Program) -> None:
        if program.is_exported and program.devices != 1:
            wanted = f"{expected} for jax.export of a program for several devices"
            got = "a matrix on Auto axes, where only the partitioner knows its sharding"
            raise mistake(operation, "a", wanted, got, remedy)

    return check


_expecting = Primitive("meshsolve_expecting")
_expecting.def_impl(lambda x, *, check: x)
_expecting.def_abstract_eval(lambda x, *, check: x)
ad.deflinear2(_expecting, lambda cotangent, x, *, check: [cotangent])
batching.primitive_batchers[_expecting] = lambda xs, axes, *, check: (expect(xs[0], check), axes[0])


def _lower(ctx, x, *, check):
    # This information depends on the version of JAX.
    module = ctx.module_context
    devices = getattr(getattr(module, "axis_context", None), "num_devices", None)
    exported = getattr(getattr(module, "lowering_parameters", None), "for_export", False)
    check(Program(devices, bool(exported)))
    return [x]


mlir.register_lowering(_expecting, _lower)
