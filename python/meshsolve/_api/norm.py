"""Norms of sharded matrices and vectors: ``norm``."""

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike

from meshsolve._execute import meshes
from meshsolve._execute.dispatch import described
from meshsolve._execute.rows import Rows
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import operation
from meshsolve._prepare import padding
from meshsolve._prepare.operands import as_array, as_typed, common_dtype, promoted
from meshsolve._prepare.pipeline import Call, run

# Norms of square matrices that have a routine in the library.
_NAMES = {1: "1", np.inf: "inf", "fro": "fro", None: "fro"}
_OF_TRANSPOSE = {"1": "inf", "inf": "1", "fro": "fro"}
_OF_MATRICES = (None, "fro", 1, -1, np.inf, -np.inf)


def norm(
    x: ArrayLike | Rows,
    ord: int | float | Literal["fro"] | None = None,
    axis: int | tuple[int, int] | None = None,
    keepdims: bool = False,
    *,
    mesh: Mesh | None = None,
) -> jax.Array:
    """A norm of a matrix or vector with all devices that hold it.

    ``jnp.linalg.norm``, without the norms of singular values (2, -2, "nuc" of a matrix). The call
    moves, copies and writes nothing of x. The norms 1, ``jnp.inf`` and "fro" of square matrices are
    this library's own, by rows or by columns, row-major or column-major. Their sums are binary64
    whatever x is; inside ``jax.jit`` XLA copies a column-major x. All other norms are JAX's
    reductions. No square over- or underflows.

    Derivatives are of every order, and a gradient is sharded as x. The derivative of the Frobenius
    norm is NaN where x is zero. The derivative of the other norms of a matrix is that of the
    largest sum. If several sums are the largest, the norm is not smooth, and they have equal
    shares. An entry that is zero has no share, as in jnp. Under ``jax.vmap`` norms of square
    matrices are found one after another, all others at once.

    Args:
      x: of any shape; float32, float64, complex64 or complex128.
      ord: of a matrix 1: the largest sum of moduli over a column; ``jnp.inf``: over a row; -1 and
        ``-jnp.inf``: the least ones; "fro" or None: the root of the sum of all squares. Of a vector
        ``jnp.inf`` and ``-jnp.inf``: the largest and the least modulus. 0: the number of entries
        that are not zero. Another number p: the p-th root of the sum of p-th powers. None: 2.
      axis: None: x is a vector or a matrix. If ``ord`` is None x has any shape, and the norm is
        that of all its entries. An axis: norms of vectors along it. Two of them: norms of matrices
        with these rows and columns, (-2, -1) for a batch.
      keepdims: keep the axes, of size 1.
      mesh: the devices to work on, for a square matrix that is not sharded over them, whatever n.

    Returns:
      A real scalar, replicated over the devices of x, or an array without these axes. 0 for no
      entries; NaN if there is a NaN; infinite only if the norm itself is too large for its dtype.

    Raises:
      ValueError: another ``ord`` or ``axis``, n not divisible by the devices.
      TypeError: a dtype that is not supported.

    Source: LAPACK's ``lange``; squares as in Blue, ACM Trans. Math. Softw. 4, 1978
    (docs/design/algorithms.md).

    Examples:
      >>> print(ms.norm(a, 1), ms.norm(a, jnp.inf), ms.norm(a, "fro").round(3))
      10.0 10.0 11.314
      >>> print(ms.norm(b).round(3), ms.norm(a, axis=0)[:2].round(3))
      2.828 [4. 4.]
    """
    given: Any = x if hasattr(x, "shape") else as_typed("norm", "x", x)
    axes = _axes(axis, len(given.shape), ord)
    _check_order(ord, len(axes))
    name = _routine(given, axes, ord)
    if name:
        value = run(Call(operation("lange", "norm", norm=name), ("x",), mesh=mesh), (given,))
        return jnp.expand_dims(value, axes) if keepdims else value
    return _by_jax(given, ord, axes, bool(keepdims), mesh)


def _routine(x, axes: tuple[int, ...], ord) -> str | None:
    """The norm of a square matrix that the library finds; None for others."""
    rank, sides = len(x.shape), {*x.shape[-2:]}
    if {*axes} != {rank - 2, rank - 1} or len(sides) > 1 or ord not in _NAMES:
        return None
    if sides == {0} and not isinstance(x, Rows):
        return None
    return _NAMES[ord] if axes[0] < axes[1] else _OF_TRANSPOSE[_NAMES[ord]]


def _by_jax(x, ord, axes: tuple[int, ...], keepdims: bool, mesh: Mesh | None) -> jax.Array:
    x = as_typed("norm", "x", x)
    dtype = common_dtype("norm", "x", x)
    padding.check_mesh("norm", mesh)
    nothing = x.shape[-2:] == (0, 0) and len(axes) == 2 and ord in _NAMES
    if isinstance(x, Rows) or (mesh is not None and not nothing):
        expected = "None for what is not a square matrix, or for its least sums"
        remedy = "put x on the mesh with jax.device_put"
        raise mistake("norm", "mesh", expected, "a mesh", remedy)
    x = promoted(as_array("norm", "x", x), dtype)
    return meshes.where_it_lies(_reduced, x, ord, axes, keepdims)


def _axes(axis, rank: int, ord) -> tuple[int, ...]:
    """The axes, from 0, of the vectors or matrices, or all axes of x."""
    if axis is None:
        if rank in (1, 2) or ord is None:
            return tuple(range(rank))
        expected, got = "axes of vectors or matrices", f"None, and x with {rank} axes"
        remedy = "give axis=(-2, -1) for the matrices of a batch"
        raise mistake("norm", "axis", expected, got, remedy)
    given = axis if isinstance(axis, tuple) else (axis,)
    known = all(isinstance(i, (int, np.integer)) and -rank <= i < rank for i in given)
    axes = tuple(int(i) % rank for i in given) if known else ()
    if len(axes) not in (1, 2) or len({*axes}) < len(axes):
        expected = f"an axis from {-rank} to {rank - 1}, or two different ones, or None"
        remedy = "one axis is that of vectors, two are the rows and columns of matrices"
        raise mistake("norm", "axis", expected, repr(axis), remedy)
    return axes


def _check_order(ord, axes: int) -> None:
    known = ord is None or isinstance(ord, (int, float, str, np.number))
    if axes == 2:
        if known and ord in _OF_MATRICES:
            return
        expected = '1, -1, jnp.inf, -jnp.inf, "fro" or None for matrices'
        remedy = "2, -2 and 'nuc' take singular values, of one device's matrix: jnp.linalg.norm"
    else:
        if known and not isinstance(ord, str):
            return
        expected, remedy = "a number or None for vectors", '"fro" is a norm of matrices'
    raise mistake("norm", "ord", expected, described(ord), remedy)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _reduced(x, ord, axes: tuple[int, ...], keepdims: bool) -> jax.Array:
    """Norms by reductions, which XLA partitions."""
    options: Any = {"axis": axes, "keepdims": keepdims}
    if x.size == 0:
        return jnp.sum(jnp.abs(x), **options)
    if ord in (None, "fro") or (ord == 2 and len(axes) == 1):
        return _euclidean(x, axes, keepdims)
    if len(axes) == 1:
        return jnp.linalg.norm(x, ord, axes[0], keepdims)
    sums = jnp.sum(jnp.abs(x), axis=axes[0 if abs(ord) == 1 else 1], keepdims=True)
    return jnp.max(sums, **options) if ord > 0 else jnp.min(sums, **options)


def _euclidean(x, axes: tuple[int, ...], keepdims: bool):
    """The root of the sum of squares, scaled to a largest modulus of 1."""
    size = jnp.max(jnp.abs(jax.lax.stop_gradient(x)), axis=axes, keepdims=True)
    size = jnp.where((size > 0) & jnp.isfinite(size), size, 1)
    scaled = x / size
    squares = jnp.sum((scaled * scaled.conj()).real, axis=axes, keepdims=True)
    value = size * jnp.sqrt(squares)
    return value if keepdims else jnp.squeeze(value, axes)
