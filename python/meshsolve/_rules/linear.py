"""Solutions of op(A) X = B as functions that JAX knows to be linear in B.

``lax.custom_linear_solve`` derives the transpose of a solve from that. A product op(A) X, which is
never computed itself, gives derivatives of all orders in both modes.

The products gather nothing of A's size: each device has some columns of X at a time. A's cotangent
is the product of two blocks of vectors. Its distribution is that of A because theirs is: see
``Sides``.
"""

import functools
import sys
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from meshsolve._execute.sides import Sides
from meshsolve._execute.typed import resharded
from meshsolve._library.ffi import Operation
from meshsolve._rules.batching import folded, unfolded

# Right-hand sides of a product that all devices hold at a time: the least number of them, and the
# largest number of parts. Before 0.10 JAX fails to transpose a loop over parts.
_LEAST_COLUMNS = 128 if jax.__version_info__ >= (0, 10) else sys.maxsize
_MOST_PARTS = 64


def solution(op: Operation, run, of, a, b) -> tuple[Any, Any]:
    """(X, other results) of op(A) X = B.

    Args:
      op: the solve, and which transpose of A it takes.
      run: gives (op(A)^-1 B, other results) for a transpose and right-hand sides.
      of: makes A, or an array that has A as a triangle, from ``op`` and ``a``.
      a: A, or the operand of ``of``.
      b: the right-hand sides [n, k].
    """

    def solve(_, r):
        return run(op.trans, r)

    def solve_transposed(_, r):
        if op.trans == 2:  # conj(A) X = R
            x, more = run(0, r.conj())
            return x.conj(), more
        return run(1 - op.trans, r)

    applied = lambda x: _applying.bind(a, x, op=op, of=of)  # noqa: E731
    solved: Any = lax.custom_linear_solve(applied, b, solve, solve_transposed, has_aux=True)
    return solved


# Op(A) X is a primitive because a primitive has a transpose rule. JAX transposes a plain function
# for each solve, also if nothing uses the result, and then computes its work on A alone.
_applying = Primitive("meshsolve_applying")
# For A, A^T, A^H and conj(A).
_TRANSPOSES = {0: 1, 1: 0, 2: 3, 3: 2}


@_applying.def_impl
def _apply(a, x, *, op, of):
    matrix = of(op, a)
    y = product(op, Sides.of(matrix), matrix, x)
    return y + x if op.unit_diagonal else y


def _jvp_of_applying(primals, tangents, *, op, of):
    (a, x), (da, dx) = primals, tangents
    parts = []
    if type(da) is not ad.Zero:
        matrix, change = jax.jvp(functools.partial(of, op), (a,), (da,))
        parts.append(product(op, Sides.of(matrix), change, x))
    if type(dx) is not ad.Zero:
        parts.append(_applying.bind(a, dx, op=op, of=of))
    return _applying.bind(a, x, op=op, of=of), functools.reduce(lax.add, parts)


def _transpose_of_applying(y, a, x, *, op, of):
    del x
    if type(y) is ad.Zero:
        return None, None
    back = op._replace(trans=_TRANSPOSES[op.trans])
    return None, _applying.bind(a, y, op=back, of=of)


def _batch_of_applying(operands, axes, *, op, of):
    (a, x), (along_a, along_x) = operands, axes
    size = x.shape[along_x] if along_a is None else a.shape[along_a]
    if size == 0:
        return (x[None][:0], 0) if along_x is None else (x, along_x)
    if along_a is not None:
        run = functools.partial(_apply, op=op, of=of)
        return jax.vmap(run, (along_a, along_x))(a, x), 0
    x = jnp.moveaxis(x, along_x, 0)
    return unfolded(_applying.bind(a, folded(x), op=op, of=of), size), 0


_applying.def_abstract_eval(lambda a, x, *, op, of: x)
ad.primitive_jvps[_applying] = _jvp_of_applying
ad.primitive_transposes[_applying] = _transpose_of_applying
batching.primitive_batchers[_applying] = _batch_of_applying
mlir.register_lowering(_applying, mlir.lower_fun(_apply, multiple_results=False))


def product(op: Operation, sides: Sides, a, x):
    """Op(A) X in the sharding of X, by some columns at a time, as each device needs all rows of
    these.

    The diagonal is left out if A has ones there. ``sides`` are those of A, or of the matrix whose
    tangent A is.
    """
    return _product(op, sides.shardings, sides.marks, a, x)


# In jit, which traces it once.
@functools.partial(jax.jit, static_argnums=(0, 1))
def _product(op: Operation, shardings, marks, a, x):
    if op.trans >= 2:
        back = op._replace(trans=3 - op.trans)
        return _product(back, shardings, marks, a, x.conj()).conj()
    sides = Sides(shardings, marks)
    if op.family == "triangular":
        a = triangle(a, op.lower, op.unit_diagonal)
    n, k = x.shape
    parts = max(1, -(-k // max(_LEAST_COLUMNS, n // _MOST_PARTS)))
    many = parts > 1
    y = _by_parts(op, parts, shardings, marks, a, x) if many else _columns(op, sides, a, x)
    return resharded(y, jax.typeof(x).sharding)


def _columns(op: Operation, sides: Sides, a, x):
    if op.trans:
        return sides.columns(dot(a, sides.rows(x), 0, sides.shardings[1]))
    return sides.rows(dot(a, sides.columns(x), 1, sides.shardings[0]))


# In jit, because eagerly a loop over a new function would be compiled in every call.
@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _by_parts(op: Operation, parts: int, shardings, marks, a, x):
    sides, k = Sides(shardings, marks), x.shape[1]
    some = unfolded(jnp.pad(sides.distributed(x), ((0, 0), (0, -k % parts))), parts)
    # Without a checkpoint the backward pass would keep the columns of each device.
    columns = jax.checkpoint(lambda x: _columns(op, sides, a, x))
    return sides.distributed(folded(lax.map(columns, some))[:, :k])


# In jit, where A also gives the mask its devices.
@functools.partial(jax.jit, static_argnums=(1, 2))
def triangle(a, lower: bool, without_diagonal: bool = False):
    """A with zeros outside of one of its triangles, in A's sharding."""
    ones = jnp.ones(a.shape, bool)
    kept = jnp.tril(ones, -without_diagonal) if lower else jnp.triu(ones, without_diagonal)
    return lax.select(resharded(kept, jax.typeof(a).sharding), a, jnp.zeros_like(a))


def dot(a, x, contracted: int, sharding):
    """A X or A^T X; with Explicit axes in the given sharding."""
    axes = (((contracted,), (0,)), ((), ()))
    return lax.dot_general(a, x, axes, precision="highest", out_sharding=sharding)
