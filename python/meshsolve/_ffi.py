"""Calls of the compiled library, and its registration with XLA."""

import atexit
import functools
import os
import sys
import threading
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import backend

from meshsolve import _core, _cuda, _engine, _log
from meshsolve._errors import wrong_process

_TARGET = "meshsolve"
_lock = threading.Lock()
_process: int | None = None


def ffi_target() -> str:
    """Register the FFI handlers on first use and return the name of the call target.

    Use it to write your own ``jax.ffi.ffi_call`` inside ``jax.shard_map``. docs/design/ffi.md lists
    operands, results and attributes of each routine; ``examples/07_ffi_call.py`` is an example.
    Such a call has no derivative and no rule for ``jax.vmap``.

    Raises:
      RuntimeError: in a fork of a process that has used the library.

    Examples:
      >>> ms.ffi_target()
      'meshsolve'
    """
    enter()
    with _lock:
        return _register()


def enter() -> None:
    """Begin a use of the library: refuse a fork, which would hang, and start the logging."""
    if _process is not None and os.getpid() != _process:
        raise wrong_process(os.getpid(), _process)
    _log.attend()


@functools.cache
def _register() -> str:
    global _process
    # A state type can only be registered for a backend that exists.
    exist = backend.backends()
    for name, platform in (("cpu", "cpu"), ("cuda", "CUDA")):
        if name in exist:
            _register_for(name, platform)
            _core.set_visible(name, jax.local_device_count(name))
    _core.set_cuda_folders(_cuda.search_folders())
    _process = os.getpid()
    atexit.register(_end)
    version = ".".join(map(str, _core.ffi_api_version()))
    _log.logger.info(
        "meshsolve %s registered with jax %s (FFI API %s), %d thread(s) a call",
        _core.__version__,
        jax.__version__,
        version,
        _core.threads(),
    )
    return _TARGET


def _end() -> None:
    """End running calls before the interpreter ends, as JAX waits for them. Programs that print or
    call back end first, unless an exception has ended the user's program.
    """
    if os.getpid() != _process:
        return
    try:
        if getattr(sys, "last_value", None) is None:
            jax.effects_barrier()
    finally:
        _core.close()


def _register_for(name: str, platform: str) -> None:
    symbols = {
        stage: _core.symbol(f"{name}_{stage}")
        for stage in ("type_id", "type_info", "instantiate", "execute")
    }
    # Each platform has its own registry of types.
    instance = {stage: symbols.pop(stage) for stage in ("type_id", "type_info")}
    jax.ffi.register_ffi_type(f"{_TARGET}_{name}_instance", instance, platform=platform)  # type: ignore
    jax.ffi.register_ffi_target(_TARGET, symbols, platform=platform)


_MATRICES = ("matrix", "factor", "held")


class Operation(NamedTuple):
    """A routine of the library; every device of a mesh axis calls it on its shards.

    Attributes:
      routine: its name (docs/design/ffi.md lists them).
      operands: the kind of each operand: "matrix" (A as the user has it), "factor" (in the solver's
        form), "held" (that form in the memory and the sharding of A), "rhs", "pivots" (int32 [n]),
        "scalar" (int32), "real".
      results: the kind of each result, also "value" (a scalar of A's dtype). A matrix, factor or
        rhs takes the memory of the operand of that kind.
      public: the function that users called, for messages.
      storage: the storage of A, now or when it was factored: "rows", "columns", "column-major".
      lower: which triangle of A is read or made.
      order: order of A without its padding; 0 if it has none.
      trans: solve with A, A^T or A^H (0, 1, 2).
      unit_diagonal: whether the diagonal of a triangular A is all ones and not read.
      structure: "general", or one with one triangle: "hermitian", "symmetric" or "triangular".
      norm: the norm to compute: "1", "inf", "fro".
      logarithmic: whether a determinant is only wanted as sign and logarithm.
      raises: whether the call fails if there is no answer, instead of giving NaN and info.
      engine: the engine that factors, or has made the factor: "" for this library, or "cusolvermg".
    """

    routine: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    public: str
    storage: str = "rows"
    lower: bool = False
    order: int = 0
    trans: int = 0
    structure: str = "general"
    unit_diagonal: bool = False
    norm: str = "1"
    logarithmic: bool = False
    raises: bool = False
    engine: str = ""

    @property
    def matrix(self) -> int:
        """Position of the matrix or factor among the operands."""
        return next(i for i, kind in enumerate(self.operands) if kind in _MATRICES)

    @property
    def rhs(self) -> int | None:
        """Position of the right-hand sides among the operands, if there are any."""
        return self.operands.index("rhs") if "rhs" in self.operands else None

    @property
    def is_cholesky(self) -> bool:
        """Whether the routine needs a positive definite matrix, or its factor."""
        return self.routine.startswith(("po", "cholesky_"))

    @property
    def solves(self) -> bool:
        """Whether it gives op(A)^-1 B for right-hand sides B, its last operand."""
        return self.operands[-1] == "rhs" and self.routine != "residual"

    @property
    def held(self) -> "Operation":
        """The same operation with a factor that stays in the memory and the sharding of its matrix.
        As an array it has no meaning: only this library may read it.
        """
        operands, results = (
            tuple("held" if kind == "factor" else kind for kind in kinds)
            for kinds in (self.operands, self.results)
        )
        return self._replace(operands=operands, results=results)

    @property
    def drops_factor(self) -> bool:
        """Whether a solve makes a factor that is of no use to the caller."""
        return self.operands == ("matrix", "rhs") and "factor" in self.results

    @property
    def taken(self) -> dict[int, int]:
        """Which result takes the memory of which operand: {result: operand}."""
        of = {"rhs": self.rhs, **dict.fromkeys(_MATRICES, self.matrix)}
        return {i: of[kind] for i, kind in enumerate(self.results) if kind in of}


def posv(lower: bool, order: int, trans: int, condition: bool = False) -> Operation:
    """A, B -> factor, X, info, and rcond if ``condition``."""
    name, results = _solver("posv", condition)
    return Operation(name, ("matrix", "rhs"), results, "solve", "rows", lower, order, trans)


def _solver(name: str, condition: bool) -> tuple[str, tuple[str, ...]]:
    """Name and results of a routine that factors and solves."""
    results = ("factor", "rhs", "scalar")
    return (f"{name}_rcond", (*results, "real")) if condition else (name, results)


def potrf(lower: bool, order: int) -> Operation:
    """A -> factor, info, norm."""
    results = ("factor", "scalar", "real")
    return Operation("potrf", ("matrix",), results, "cho_factor", "rows", lower, order)


def potrs(storage: str, order: int, trans: int = 0) -> Operation:
    """Factor, info, B -> X."""
    operands = ("factor", "scalar", "rhs")
    return Operation("potrs", operands, ("rhs",), "cho_solve", storage, order=order, trans=trans)


def cholesky_from_scipy(lower: bool) -> Operation:
    """C of scipy's (c, lower) -> factor."""
    return Operation("cholesky_from_scipy", ("matrix",), ("factor",), "cho_solve", "rows", lower)


def cholesky_to_scipy(storage: str, lower: bool) -> Operation:
    """Factor, info -> c of scipy's (c, lower)."""
    return Operation(
        "cholesky_to_scipy", ("factor", "scalar"), ("matrix",), "cho_factor", storage, lower
    )


def logdet(storage: str) -> Operation:
    """Factor, info -> log det A."""
    operands = ("factor", "scalar")
    return Operation("logdet", operands, ("real",), "CholeskyFactor.logdet", storage, False)


def pocon(storage: str, order: int) -> Operation:
    """Factor, info, norm -> rcond."""
    operands = ("factor", "scalar", "real")
    return Operation("pocon", operands, ("real",), "CholeskyFactor.rcond", storage, order=order)


def gesv(structure: str, lower: bool, order: int, trans: int, condition: bool = False) -> Operation:
    """A, B -> factor, X, info, and rcond if ``condition``."""
    name, results = _solver("gesv", condition)
    return Operation(
        name,
        ("matrix", "rhs"),
        results,
        "solve",
        lower=lower,
        order=order,
        trans=trans,
        structure=structure,
    )


def getrf(public: str, order: int, structure: str = "general", lower: bool = False) -> Operation:
    """A -> factor, pivots, info, norm."""
    return Operation(
        "getrf",
        ("matrix",),
        ("factor", "pivots", "scalar", "real"),
        public,
        lower=lower,
        order=order,
        structure=structure,
    )


def getrs(storage: str, order: int, trans: int) -> Operation:
    """Factor, pivots, info, B -> X."""
    operands = ("factor", "pivots", "scalar", "rhs")
    return Operation("getrs", operands, ("rhs",), "lu_solve", storage, order=order, trans=trans)


def lu_from_scipy() -> Operation:
    """Lu of scipy's (lu, piv) -> factor, info."""
    return Operation("lu_from_scipy", ("matrix",), ("factor", "scalar"), "lu_solve")


def lu_to_scipy(storage: str) -> Operation:
    """Factor -> lu of scipy's (lu, piv)."""
    return Operation("lu_to_scipy", ("factor",), ("matrix",), "lu_factor", storage)


def lu_inverse(structure: str, lower: bool, order: int) -> Operation:
    """A -> its inverse, info."""
    results = ("matrix", "scalar")
    return Operation(
        "lu_inverse", ("matrix",), results, "inv", lower=lower, order=order, structure=structure
    )


def getri(storage: str, order: int) -> Operation:
    """Factor, pivots, info -> inverse."""
    operands = ("factor", "pivots", "scalar")
    return Operation("getri", operands, ("matrix",), "LUFactor.inv", storage, order=order)


def getri_transposed(order: int) -> Operation:
    """Factor by rows, pivots, info -> the transpose of the inverse."""
    return getri("rows", order)._replace(routine="getri_transposed")


def cholesky_inverse(lower: bool, order: int) -> Operation:
    """A -> its inverse, info."""
    return Operation(
        "cholesky_inverse", ("matrix",), ("matrix", "scalar"), "inv", "rows", lower, order
    )


def potri(storage: str, order: int) -> Operation:
    """Factor, info -> inverse."""
    operands = ("factor", "scalar")
    return Operation("potri", operands, ("matrix",), "CholeskyFactor.inv", storage, False, order)


def det(storage: str, logarithmic: bool = False) -> Operation:
    """Factor, pivots -> det A, sign, log |det A|."""
    results = ("value", "value", "real")
    public = "LUFactor.slogdet" if logarithmic else "LUFactor.det"
    return Operation("det", ("factor", "pivots"), results, public, storage, logarithmic=logarithmic)


def trtrs(lower: bool, order: int, trans: int, unit_diagonal: bool) -> Operation:
    """T, B -> X, info."""
    return Operation(
        "trtrs",
        ("matrix", "rhs"),
        ("rhs", "scalar"),
        "solve_triangular",
        lower=lower,
        order=order,
        trans=trans,
        unit_diagonal=unit_diagonal,
    )


def residual(structure: str, lower: bool, trans: int) -> Operation:
    """A, B, X -> B - op(A) X; of a "triangular" A only one triangle counts."""
    return Operation(
        "residual",
        ("matrix", "rhs", "rhs"),
        ("rhs",),
        "solve",
        lower=lower,
        trans=trans,
        structure=structure,
    )


def lange(norm: str, order: int) -> Operation:
    """A -> its norm."""
    return Operation("lange", ("matrix",), ("real",), "norm", order=order, norm=norm)


def gecon(storage: str, order: int) -> Operation:
    """Factor, pivots, info, norm -> rcond."""
    operands = ("factor", "pivots", "scalar", "real")
    return Operation("gecon", operands, ("real",), "LUFactor.rcond", storage, order=order)


def call(op: Operation, place, world: int, rhs: str, operands, alone: bool = False):
    """Call the library with one device's operands; a tuple of its results.

    Args:
      op: the routine to call.
      place: int32[2], rank along the axis, and group (which of the concurrent calls).
      world: number of devices on the axis.
      rhs: "replicated" (b is equal on all devices) or "columns" (each has its own).
      alone: whether no other device makes a call at the same time.
      operands: matrices are [n/world, n], or [n, n/world] if their storage is "column-major".
    """
    matrix, b = operands[op.matrix], None if op.rhs is None else operands[op.rhs]
    if op.engine:
        _engine.expect_width(op.public, op.routine, max(matrix.shape), world)
    real = jnp.finfo(matrix.dtype).dtype
    like = {
        "matrix": matrix,
        "factor": matrix,
        "held": matrix,
        "rhs": b,
        "pivots": jax.ShapeDtypeStruct((max(matrix.shape),), np.int32),
        "scalar": jax.ShapeDtypeStruct((), np.int32),
        "value": jax.ShapeDtypeStruct((), matrix.dtype),
        "real": jax.ShapeDtypeStruct((), real),
    }
    results = [jax.ShapeDtypeStruct(like[kind].shape, like[kind].dtype) for kind in op.results]
    # Operand 0 is `place`.
    aliases = {operand + 1: result for result, operand in op.taken.items()}
    layouts: dict = {}
    if op.storage == "column-major":
        layout = {"matrix": (1, 0), "factor": (1, 0)}
        layouts = {
            "input_layouts": [None, *(layout.get(kind) for kind in op.operands)],
            "output_layouts": [layout.get(kind) for kind in op.results],
        }
    run = jax.ffi.ffi_call(ffi_target(), results, input_output_aliases=aliases, **layouts)
    attributes = {
        "world": np.int64(world),
        "storage": op.storage,
        "lower": np.int64(op.lower),
        "rhs": rhs,
        "order_of_a": np.int64(op.order),
        "trans": np.int64(op.trans),
        "structure": op.structure,
        "unit_diagonal": np.int64(op.unit_diagonal),
        "norm": op.norm,
        "on_failure": "raise" if op.raises else "nan",
        "engine": op.engine or "meshsolve",
        "alone": np.int64(alone),
    }
    return tuple(run(place, *operands, routine=op.routine, **attributes))


def transpose(place, world: int, x):
    """One device's [m, n] transposed in its memory, as an array of shape [m, n] still."""
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    run = jax.ffi.ffi_call(ffi_target(), like, input_output_aliases={1: 0})
    return run(place, x, routine="transpose", world=np.int64(world))
