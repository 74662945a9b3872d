"""Cholesky factors as triangles: solves and products with L of A = L L^H.

On CPU devices the factor's memory is such a triangle (see ``CholeskyFactor.work``) and is used in
place. CUDA devices distribute its columns block-cyclically: there it is unpacked first.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.backend import backends

from meshsolve._execute import dispatch, meshes
from meshsolve._library import ffi
from meshsolve._library.ffi import Operation
from meshsolve._prepare.operands import promoted


class _Triangle(NamedTuple):
    """L as a triangle T of an array, and the kind of that operand.

    Attributes:
      array: [m, m], whose other triangle is not defined.
      kind: "factor" or "matrix".
      lower: which triangle T is: L if true, else L^H.
      storage: of the factor.
    """

    array: jax.Array
    kind: str
    lower: bool
    storage: str

    def turned(self, trans: int) -> tuple[int, bool]:
        """(Which of T, T^T, T^H, whether conjugated) for L, L^T or L^H."""
        if self.lower:
            return trans, False
        return {0: (2, False), 1: (0, True), 2: (0, False)}[trans]


def _triangle_of(factor, dtype) -> _Triangle:
    work = promoted(factor.work, dtype)
    if _platforms(work) == {"cpu"}:
        return _Triangle(work, "factor", factor.storage == "column-major", factor.storage)
    lower = factor.storage == "column-major"
    op = ffi.cholesky_to_scipy(factor.storage, lower)._replace(engine=factor.engine)
    (c,) = dispatch.call(op, (work, factor.info), (False, False))
    return _Triangle(c, "matrix", lower, factor.storage)


def _platforms(x) -> set[str]:
    """The platforms of the devices that X may be on; a traced X may be on any."""
    if isinstance(x, Tracer):
        return {backend.platform for backend in backends().values()}
    return {device.platform for device in x.devices()}


def solve(factor, b, trans: int, own_b: bool):
    """(X, info) with L, L^T or L^H times X = B; NaN if there is no factor."""
    triangle = _triangle_of(factor, b.dtype)
    trans, conjugated = triangle.turned(trans)
    op = ffi.trtrs(triangle.lower, 0, trans, False)
    op = _of(op, triangle, "CholeskyFactor.solve_triangular")
    if conjugated:
        b, own_b = meshes.where_it_lies(_conjugate, b), True
    x, _ = dispatch.call(op, (triangle.array, b), (False, own_b))
    return meshes.where_it_lies(_finished, x, factor.info, conjugated), factor.info


def multiply(factor, z, trans: int):
    """(L Z, L^T Z or L^H Z, info); NaN if there is no factor."""
    triangle = _triangle_of(factor, z.dtype)
    trans, conjugated = triangle.turned(trans)
    op = ffi.residual("triangular", triangle.lower, trans)
    op = _of(op, triangle, "CholeskyFactor.dot_triangular")
    zero, x = meshes.where_it_lies(_residual_operands, z, conjugated)
    (y,) = dispatch.call(op, (triangle.array, zero, x), (False, True, True))
    return meshes.where_it_lies(_finished, y, factor.info, conjugated), factor.info


def _of(op: Operation, triangle: _Triangle, public: str) -> Operation:
    operands = (triangle.kind, *op.operands[1:])
    return op._replace(public=public, operands=operands, storage=triangle.storage)


_conjugate = jax.jit(jnp.conj)


@functools.partial(jax.jit, static_argnums=1)
def _residual_operands(z, conjugated: bool):
    """B and X such that B - T X is T Z, or T times the conjugate of Z."""
    return jnp.zeros_like(z), -z.conj() if conjugated else -z


@functools.partial(jax.jit, static_argnums=2)
def _finished(x, info, conjugated: bool):
    x = x.conj() if conjugated else x
    # A sum, which keeps infinities: under vmap a select has no sharding if JAX knows no mesh.
    return x + jnp.where(info == 0, -0.0, jnp.nan).astype(x.real.dtype)
