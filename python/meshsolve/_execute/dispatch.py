"""How an operation reaches an executor. A traced one passes through its rules for derivatives and
batches first.
"""

import functools
from types import ModuleType

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer
from jax.sharding import NamedSharding

from meshsolve._execute import eager, explicit, partitioned, shards
from meshsolve._execute.batches import ONE, Batch
from meshsolve._execute.traced import by_type
from meshsolve._execute.typed import spec_of, typed
from meshsolve._library.ffi import Operation, operation
from meshsolve._rules.batching import batchable
from meshsolve._rules.linear import solution


def executor(*arrays) -> ModuleType:
    """The executor of a call with these arrays: ``eager``, ``explicit`` or ``partitioned``.

    Each has these functions:
      run: the results of an operation.
      form: the storage of the factor of a matrix.
      spread: a matrix by rows over a mesh, with an identity corner up to an order.
      lengthened_on: an array with rows of zeros more, in a sharding by rows.
      lengthened: right-hand sides with as many rows as a padded matrix.
      widened: a matrix by columns over a mesh, with columns of zeros more.
      cut: the leading part of a padded matrix, or of a solution in the sharding of B.
      as_given: a result in the sharding of the matrix that it is made from.
    """
    for x in arrays:
        if isinstance(x, Tracer):
            shown = any(spec_of(x) is not None for x in arrays if isinstance(x, jax.Array))
            return explicit if shown else partitioned
    return eager


def described(x) -> str:
    """An argument that has to be a number or a word, for messages."""
    return "a traced value" if isinstance(x, Tracer) else repr(x)


def call(op: Operation, operands, own=(), signatures: tuple[eager.Signature, ...] = ()):
    """The results of ``op``, which may overwrite operands that are ``own``. Right-hand sides are
    columns or a vector, and their solution alike.

    The sharding of a matrix sets the storage of ``op``. ``signatures`` are those of arrays, not of
    tracers, if they are known.
    """
    if executor(*operands) is eager:
        return eager.run(op, operands, own or (False,) * len(operands), signatures)
    return shards.on_columns(op, functools.partial(traced, op), [typed(x) for x in operands])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def traced(op: Operation, *operands):
    """The results of ``op`` where an operand is traced; derivatives are in ``derivatives``."""
    if not op.solves:
        return _batchable(op)(*operands)
    results = iter(linear(op, *operands))
    x = next(results)
    return tuple(x if kind == "rhs" else next(results) for kind in op.results)


def linear(op: Operation, *operands, matrix=None):
    """(X, the other results) of a solve, which is linear in its last operand ``b``.

    The factor stands for ``matrix`` or, in its own layout, for itself.
    """
    *leaves, b = operands
    fixed = tuple(map(lax.stop_gradient, leaves))
    b = laid_out(op, leaves[0], b)

    def run(trans, r):
        results = [*_batchable(op._replace(trans=trans))(*fixed, r)]
        return results.pop(op.results.index("rhs")), tuple(results)

    a, of = (leaves[0], of_operand) if matrix is None else (matrix, itself)
    x, more = solution(op, run, of, a, b)
    return x, *more


def itself(op: Operation, a):
    """A matrix that ``op`` applies."""
    del op
    return a


def of_operand(op: Operation, a):
    """The matrix that ``op`` applies: the triangle of a Cholesky factor if that is the operand,
    otherwise the matrix that the operand stands for.
    """
    if op.family in ("triangular", "residual") and op.operands[op.matrix] == "factor":
        unpack = operation("cholesky_to_scipy", op.public, storage=op.storage, lower=op.lower)
        (a,) = traced(unpack, a, jnp.int32(0))
    return a


def laid_out(op: Operation, a, b):
    """Traced columns ``b`` without a mesh, in the sharding that ``op`` gives its solutions with
    Explicit axes. Both then have one type.
    """
    if not jax.typeof(b).sharding.mesh.empty:
        return b
    sharding = by_type(op, a, b.shape[1])
    return b if sharding is None else _beside(sharding, a, b)


# If no mesh is set, an operand tells the program its devices.
@functools.partial(jax.jit, static_argnums=0, keep_unused=True)
def _beside(sharding: NamedSharding, a, b):
    del a
    return jax.sharding.reshard(b, sharding)


@functools.lru_cache(maxsize=256)
def _batchable(op: Operation):
    return batchable(functools.partial(_traced, op, ONE), op.sides, _solutions(op), _many(op))


def _solutions(op: Operation) -> tuple[bool, ...]:
    return tuple(kind in ("rhs", "solution", "residuals") for kind in op.results)


def _many(op: Operation):
    """The operation on a batch, if some operands have a leading axis."""

    @functools.cache
    def many(batched: tuple[bool, ...]):
        if not batched[op.matrix]:
            return None
        run = functools.partial(_traced, op, Batch(batched))
        return batchable(run, None, _solutions(op))

    return many


def _traced(op: Operation, batch: Batch, *operands):
    return op.kept(_program(op, batch)(*operands))


@functools.lru_cache(maxsize=256)
def _program(op: Operation, batch: Batch):
    """The program of an operation, in jit also where a transformation runs it outside of a program.

    Its name tells operations apart. JAX's persistent compilation cache knows a program by its text.
    There only the name shows what ``partitioned`` does.
    """

    def run(*operands):
        return executor(operands[op.matrix]).run(op, operands, batch=batch)

    fields = [str(x) for x in op if not isinstance(x, tuple)]
    fields += ["held"] if "held" in (*op.operands, *op.results) else []
    run.__name__ = "_".join(("meshsolve", *fields, *batch.name))
    return jax.jit(run)
