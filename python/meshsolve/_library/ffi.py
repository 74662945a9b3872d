"""Calls of the compiled library, and its registration with XLA."""

import atexit
import contextlib
import functools
import os
import sys
import threading
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import backend

from meshsolve import _core, _log
from meshsolve._library import cuda, engines
from meshsolve._library.errors import wrong_process
from meshsolve._library.routines import ROUTINES

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
    _core.set_cuda_folders(cuda.search_folders())
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
    orderly = getattr(sys, "last_value", None) is None
    try:
        if orderly:
            try:
                jax.effects_barrier()
            except Exception:
                # The error of a program with a callback. Others may still wait for this process.
                _finish()
                raise
            _finish()
    finally:
        _core.close(orderly)


def _finish() -> None:
    """Wait for all arrays if other processes may wait for this one's part of them."""
    for array in jax.live_arrays() if jax.process_count() > 1 else ():
        with contextlib.suppress(Exception):
            array.block_until_ready()


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
      operands: the kind of each operand, as in ``routines``, or "held": a factor in the memory and
        the sharding of A.
      results: the kind of each result.
      public: the function that users called, for messages.
      storage: the storage of A, now or when it was factored: "rows", "columns", "column-major".
      lower: which triangle of A is read or made.
      order: order of A without its padding (its columns, if A may have any shape); 0 if it has
        none.
      trans: solve with A, A^T or A^H (0, 1, 2).
      unit_diagonal: whether the diagonal of a triangular A is all ones and not read.
      structure: "general", or one with one triangle: "hermitian", "symmetric" or "triangular".
      norm: the norm to compute: "1", "inf", "fro".
      logarithmic: whether a determinant is only wanted as sign and logarithm.
      degenerate: what pairs of equal eigenvalues give to derivatives of eigenvectors: "nan" or
        "zero".
      function: of a Hermitian matrix: "sqrt", "log", "exp", "inverse_sqrt" or "inverse".
      first: the first of the eigenvectors to find, counted from 0.
      vectors: their number, or 0 for all. Other columns of the result have no meaning.
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
    degenerate: str = "nan"
    function: str = "sqrt"
    first: int = 0
    vectors: int = 0
    raises: bool = False
    engine: str = ""

    @property
    def matrix(self) -> int:
        """Position of the matrix or factor among the operands."""
        return [kind in _MATRICES for kind in self.operands].index(True)

    @property
    def rhs(self) -> int | None:
        """Position of the right-hand sides among the operands, if there are any."""
        return self.operands.index("rhs") if "rhs" in self.operands else None

    @property
    def sides(self) -> int | None:
        """The same, or the position of those whose rows are distributed as the rows of A."""
        return self.operands.index("aligned") if "aligned" in self.operands else self.rhs

    @property
    def takes_tall(self) -> bool:
        """Whether A may have more rows than columns, and is distributed by rows."""
        return "whole rows" in ROUTINES[self.routine].requires

    @property
    def needs_tall_shards(self) -> bool:
        """Whether each device needs at least as many rows as A has columns."""
        return "tall shards" in ROUTINES[self.routine].requires

    @property
    def any_shape(self) -> bool:
        """Whether A may have any shape. It is by columns, or by rows if it is square."""
        return "whole columns, or square" in ROUTINES[self.routine].requires

    def rows(self, shape: tuple[int, ...]) -> int:
        """The rows of the matrix that an array of this shape is, or whose factor it is."""
        is_factor = self.operands[self.matrix] != "matrix"
        turned = self.any_shape and is_factor and self.storage != "column-major"
        return shape[-1] if turned else shape[-2]

    def divided(self, shape: tuple[int, ...]) -> int:
        """The rows or columns of a matrix or factor of this shape that devices divide."""
        if not self.any_shape:
            return shape[-2]
        return shape[-1] if self.rows(shape) == shape[-2] else shape[-2]

    @property
    def extent(self) -> str:
        """The name of that number, for messages."""
        return "m" if self.takes_tall else "n"

    @property
    def family(self) -> str:
        """The factorisation that the routine makes or uses, or what it does instead."""
        return ROUTINES[self.routine].family

    def has(self, stage: str) -> bool:
        """Whether it is a stage of the routine."""
        return stage in ROUTINES[self.routine].stages

    @property
    def solves(self) -> bool:
        """Whether it gives op(A)^-1 B for right-hand sides B, its last operand."""
        return self.has("solve") and self.family != "residual"

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
        """Whether a routine makes a factor that is of no use to the caller."""
        is_of_no_use = self.operands == ("matrix", "rhs") or "eigenvalues" in self.results
        return is_of_no_use and "factor" in self.results

    def kept(self, results: tuple) -> tuple:
        """The results, with None for such a factor."""
        if not self.drops_factor:
            return results
        pairs = zip(self.results, results, strict=True)
        return tuple(None if kind == "factor" else x for kind, x in pairs)

    @property
    def taken(self) -> dict[int, int]:
        """Which result takes the memory of which operand: {result: operand}."""
        return ROUTINES[self.routine].aliases


@functools.lru_cache(maxsize=1024)
def operation(name: str, public: str, **fields: Any) -> Operation:
    """A routine with the operands and results of the table, called by the function ``public``."""
    routine = ROUTINES[name]
    operands, results = (
        tuple(array.kind for array in arrays) for arrays in (routine.operands, routine.results)
    )
    return Operation(name, operands, results, public, **fields)


def ticket():
    """int32: a number that no other call of this process gets."""
    like = jax.ShapeDtypeStruct((), np.int32)
    # Two calls are two numbers, also in a loop.
    draw = jax.ffi.ffi_call(ffi_target(), like, has_side_effect=True)
    return draw(jnp.zeros(2, jnp.int32), routine="ticket", world=np.int64(1))


def call(op: Operation, place, world: int, rhs: str, operands, alone: bool = False):
    """Call the library with one device's operands; a tuple of its results.

    Args:
      op: the routine to call.
      place: int32[2], rank along the axis, and group (which of the concurrent calls); over
        processes int32[3], with the ticket.
      world: number of devices on the axis.
      rhs: "replicated" (b is equal on all devices) or "columns" (each has its own).
      alone: whether no other device makes a call at the same time.
      operands: matrices are [n/world, n], or [n, n/world] if their storage is "column-major".
    """
    matrix, b = operands[op.matrix], None if op.sides is None else operands[op.sides]
    if op.engine == engines.MG:
        engines.expect_width(op.public, op.routine, max(matrix.shape), world)
    order = max(matrix.shape)
    extents = {**dict.fromkeys(("m", "n", "min(m, n)"), order), "k": 0 if b is None else b.shape[1]}
    if op.takes_tall:  # by rows; others take square matrices, but for those of any shape
        extents["n"] = matrix.shape[1]
    elif op.any_shape:
        m, local = matrix.shape if op.storage != "rows" else matrix.shape[::-1]
        if op.storage == "columns" and op.operands[op.matrix] == "factor":
            m, local = local, m
        n = local * world
        extents |= {"m": m, "n": n, "min(m, n)": min(m, n), "n / devices": local}
    dtypes = {"a": matrix.dtype, "real": jnp.finfo(matrix.dtype).dtype, "int32": np.int32}
    routine, results = ROUTINES[op.routine], []
    for array, kind in zip(routine.results, op.results, strict=True):
        shape = matrix.shape if kind in _MATRICES else tuple(extents[x] for x in array.shape)
        results.append(jax.ShapeDtypeStruct(shape, dtypes[array.elements]))
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
    own = {
        "rhs": rhs,
        "trans": np.int64(op.trans),
        "structure": op.structure,
        "lower": np.int64(op.lower),
        "unit_diagonal": np.int64(op.unit_diagonal),
        "norm": op.norm,
        "function": op.function,
        "first": np.int64(op.first),
        "vectors": np.int64(op.vectors),
    }
    attributes = {
        "routine": op.routine,
        "world": np.int64(world),
        "storage": op.storage,
        "order_of_a": np.int64(op.order),
        "on_failure": "raise" if op.raises else "nan",
        "engine": op.engine or "meshsolve",
        "alone": np.int64(alone),
        **{name: own[name] for name in routine.attributes},
    }
    return tuple(run(place, *operands, **attributes))


def transpose(place, world: int, x):
    """One device's [m, n] transposed in its memory, as an array of shape [m, n] still."""
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    run = jax.ffi.ffi_call(ffi_target(), like, input_output_aliases={1: 0})
    return run(place, x, routine="transpose", world=np.int64(world))
