"""Cholesky factors as triangles: solves and products with L of A = L L^H.

On CPU devices the factor's memory is such a triangle (see ``CholeskyFactor.work``) and is used in
place. CUDA devices distribute its columns block-cyclically: there it is unpacked first.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.backend import backends

from meshsolve._execute import dispatch, meshes
from meshsolve._execute.meshes import platforms
from meshsolve._library.ffi import Operation, operation


class _Triangle(NamedTuple):
    """L as a triangle T of an array, and the kind of that operand.

    Attributes:
      array: [m, m], whose other triangle is not defined.
      kind: "factor" or "matrix".
      lower: which triangle T is: L if true, else L^H.
    """

    array: jax.Array
    kind: str
    lower: bool


def _triangle_of(op: Operation, work, info, b) -> tuple[_Triangle, int, bool]:
    """(L, which of T, T^T, T^H is wanted, whether conjugated) for L, L^T or L^H."""
    del b
    lower = op.storage == "column-major"
    turned = (2, False), (0, True), (0, False)  # for T = L^H
    trans, conjugated = (op.trans, False) if lower else turned[op.trans]
    # A traced factor may be on any device.
    if (platforms(work) or {backend.platform for backend in backends().values()}) == {"cpu"}:
        return _Triangle(work, "factor", lower), trans, conjugated
    fields = {"storage": op.storage, "lower": lower, "engine": op.engine}
    unpack = operation("cholesky_to_scipy", op.public, **fields)
    (c,) = dispatch.call(unpack, (work, info))
    return _Triangle(c, "matrix", lower), trans, conjugated


def solve(op: Operation, operands, own, signatures=()):
    """(X,) with L, L^T or L^H times X = B, as ``op.trans`` says; NaN if there is no factor."""
    del signatures
    (_, info, b), own_b = operands, own[-1]
    triangle, trans, conjugated = _triangle_of(op, *operands)
    if conjugated:
        b, own_b = meshes.where_it_lies(_conjugate, b), True
    once = _of(operation("trtrs", op.public, lower=triangle.lower, trans=trans), triangle, op)
    x, _ = dispatch.call(once, (triangle.array, b), (False, own_b))
    return (meshes.where_it_lies(_finished, x, info, conjugated),)


def multiply(op: Operation, operands, own, signatures=()):
    """(L Z, L^T Z or L^H Z,), as ``op.trans`` says; NaN if there is no factor."""
    del own, signatures
    _, info, z = operands
    triangle, trans, conjugated = _triangle_of(op, *operands)
    # Outside of a program zeros lie as Z does.
    zero = meshes.where_it_lies(jnp.zeros_like, z)
    x = meshes.where_it_lies(_negated, z, conjugated)
    fields = {"structure": "triangular", "lower": triangle.lower, "trans": trans}
    once = _of(operation("residual", op.public, **fields), triangle, op)
    (y,) = dispatch.call(once, (triangle.array, zero, x), (False, True, True))
    return (meshes.where_it_lies(_finished, y, info, conjugated),)


def _of(once: Operation, triangle: _Triangle, op: Operation) -> Operation:
    operands = (triangle.kind, *once.operands[1:])
    return once._replace(operands=operands, storage=op.storage)


_conjugate = jax.jit(jnp.conj)


@functools.partial(jax.jit, static_argnums=1)
def _negated(z, conjugated: bool):
    """X such that -T X is T Z, or T times the conjugate of Z."""
    return -z.conj() if conjugated else -z


@functools.partial(jax.jit, static_argnums=2)
def _finished(x, info, conjugated: bool):
    x = x.conj() if conjugated else x
    # A sum, which keeps infinities: under vmap a select has no sharding if JAX knows no mesh.
    return x + jnp.where(info == 0, -0.0, jnp.nan).astype(x.real.dtype)
