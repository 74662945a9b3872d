"""Solvers for ``lineax.linear_solve``: ``Cholesky``, ``LU`` and ``QR`` of matrices sharded over
devices.

Needs lineax, ``pip install "meshsolve[lineax]"``; ``import meshsolve`` alone does not load it.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import AbstractMesh, Mesh

from meshsolve._api.cholesky import CholeskyFactor, cho_factor
from meshsolve._api.lu import LUFactor, lu_factor
from meshsolve._api.qr import QRFactor, qr
from meshsolve._execute import eager
from meshsolve._execute.dispatch import executor
from meshsolve._execute.operators import (
    in_program,
    mesh_context,
    mesh_of,
    with_devices,
    without_derivative,
)
from meshsolve._library.errors import mistake

try:
    import equinox as eqx
    import lineax as lx
except ImportError as _error:
    raise ImportError(
        "meshsolve.lineax: expected lineax to be installed, got: "
        f"{_error}; install it with pip install 'meshsolve[lineax]'"
    ) from _error


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """The result of ``init``: the factor of an operator, and flags that say which operator it
    solves.

    A pytree. Give it to ``linear_solve`` as ``state=`` to use one factorisation in several calls.

    Attributes:
      factor: that of F, where F is the matrix A of the operator that ``init`` got, or -A. ``QR``
        has the F = A^T of an A with fewer rows than columns.
      is_negative: whether F is -A.
      is_transposed: whether to solve with F^T.
      is_conjugate: whether to solve with the complex conjugate of F; if both are set, with F^H.
      mesh: the mesh of the factor, if it is known.
      structures: those of the operator's input and output vectors.

    Examples:
      >>> import lineax as lx
      >>> operator = lx.MatrixLinearOperator(2 * jnp.eye(8) + 1)
      >>> state = ms.lineax.LU().init(operator, {})
      >>> x = lx.linear_solve(operator, b, ms.lineax.LU(), state=state).value
    """

    factor: CholeskyFactor | LUFactor | QRFactor
    mesh: AbstractMesh | None
    structures: tuple[Any, Any]
    is_negative: bool = False
    is_transposed: bool = False
    is_conjugate: bool = False

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The factor; everything else is static."""
        flat = (jax.tree.flatten(s) for s in self.structures)
        structures = tuple((tree, tuple(leaves)) for leaves, tree in flat)
        flags = (self.is_negative, self.is_transposed, self.is_conjugate)
        return (self.factor,), (self.mesh, structures, *flags)

    @classmethod
    def tree_unflatten(cls, auxiliary: tuple[Any, ...], children: tuple[Any, ...]) -> "State":
        """The inverse of ``tree_flatten``."""
        mesh, structures, *flags = auxiliary
        before, after = (jax.tree.unflatten(*s) for s in structures)
        return cls(children[0], mesh, (before, after), *flags)


class _Direct(lx.AbstractLinearSolver[State]):
    """All parts of the solvers except the factorisation."""

    def compute(
        self, state: State, vector: Any, options: dict[str, Any]
    ) -> tuple[Any, lx.RESULTS, dict[str, Any]]:
        """X of the state's operator; ``RESULTS.singular`` where the factor's ``info`` is not 0."""
        del options
        b = vector if isinstance(vector, jax.Array) and vector.ndim == 1 else _ravelled(vector)
        work = in_program(f"lineax.{type(self).__name__}", state.factor.work, state.mesh)
        with mesh_context(work, state.mesh):
            factor = dataclasses.replace(state.factor, work=work)
            x = _solved(dataclasses.replace(state, factor=factor), b)
        x = -x if state.is_negative else x
        result = lx.RESULTS.where(
            jnp.asarray(state.factor.info) == 0, lx.RESULTS.successful, lx.RESULTS.singular
        )
        return _unravelled(x, state.structures[0]), result, {}

    def transpose(self, state: State, options: dict[str, Any]) -> tuple[State, dict[str, Any]]:
        """The state of A^T: the same factor."""
        factor, back = state.factor, state.structures[::-1]
        if state.mesh is None:
            # The rest may be a whole program, that of a derivative.
            factor = dataclasses.replace(factor, info=with_devices(factor.info))
        other = not state.is_transposed
        state = dataclasses.replace(state, factor=factor, is_transposed=other, structures=back)
        return state, options

    def conj(self, state: State, options: dict[str, Any]) -> tuple[State, dict[str, Any]]:
        """The state of the conjugate of A: the same factor."""
        return dataclasses.replace(state, is_conjugate=not state.is_conjugate), options

    def assume_full_rank(self) -> bool:
        """True: a singular operator has no solution."""
        return True


class LU(_Direct):
    """Solves with any square operator, by ``meshsolve.lu_factor``.

    A solver for ``lineax.linear_solve``, eagerly, inside ``jax.jit``, under ``jax.vmap`` and
    differentiated. All devices that hold the matrix factor it, once. The same factor serves the
    solves with A^T of derivatives, and those with its conjugate.

    ``linear_solve`` is always a program of its own. It copies A for the factor, to rows over all
    axes of its mesh (Auto axes). If you use a matrix several times,
    ``state = solver.init(operator, {})`` factors it beforehand, as ``meshsolve.lu_factor`` does.
    Then ``linear_solve(operator, b, solver, state=state)`` uses the factor.

    On a mesh with Explicit axes lineax itself refuses vectors that have a sharding; there wrap the
    call of ``linear_solve`` in ``jax.sharding.auto_axes``.

    A singular A gives NaN and ``RESULTS.singular``. On several devices use ``throw=False`` and
    check for that result. Otherwise lineax raises an error, also for its own solvers. In a program
    for several CPU devices this error ends the process (jax 0.10.2).

    Attributes:
      mesh: as in ``meshsolve.solve``: the devices for a matrix that is not sharded over them, or
        whose order they do not divide.

    Examples:
      >>> import lineax as lx
      >>> operator = lx.MatrixLinearOperator(2 * jnp.eye(8) + 1)
      >>> print(lx.linear_solve(operator, b, ms.lineax.LU()).value.round(3))
      [0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1]
    """

    mesh: Mesh | None = eqx.field(default=None, static=True, kw_only=True)

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]) -> State:
        """Factor the operator's matrix.

        Raises:
          ValueError: the operator is not square, or the devices do not divide its order.
        """
        del options
        _check_square("lineax.LU", operator)
        a = _matrix(operator)
        mesh = mesh_of(a)
        a = in_program(f"lineax.{type(self).__name__}", a, mesh)
        with mesh_context(a, mesh):
            factor = lu_factor(a, mesh=self.mesh)
        return _state("lineax.LU", factor, operator)


class QR(_Direct):
    """Solves with an operator of any shape, by ``meshsolve.qr``.

    As ``LU``, at twice the work for a square operator. If the operator has more rows than columns,
    the solution minimises |A x - b|; if it has fewer, it is that of least norm. The rank must be
    full: otherwise the solution is NaN, with ``RESULTS.singular``. The factor of an operator with
    fewer rows than columns is that of its transpose.

    Attributes:
      mesh: as for ``LU``.

    Examples:
      >>> import lineax as lx
      >>> t = jnp.linspace(0.0, 1.0, 8)
      >>> line = lx.MatrixLinearOperator(jnp.stack([t, t**0], 1))
      >>> print(lx.linear_solve(line, 2 * t + 1, ms.lineax.QR()).value.round(3))
      [2. 1.]
    """

    mesh: Mesh | None = eqx.field(default=None, static=True, kw_only=True)

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]) -> State:
        """Factor the operator's matrix, or its transpose.

        Raises:
          ValueError: the devices do not divide the rows or the columns.
        """
        del options
        a = _matrix(operator)
        is_wide = a.shape[0] < a.shape[1]
        mesh = mesh_of(a)
        a = in_program(f"lineax.{type(self).__name__}", a, mesh)
        with mesh_context(a, mesh):
            factor = qr(a.T if is_wide else a, "raw", overwrite_a=is_wide, mesh=self.mesh)
        return _state("lineax.QR", factor, operator, is_transposed=is_wide)


class Cholesky(_Direct):
    """Solves with a positive or negative definite operator, by ``meshsolve.cho_factor``.

    As ``LU``, at half the work. The operator must be tagged ``lineax.positive_semidefinite_tag`` or
    ``negative_semidefinite_tag``, for which -A is factored. Complex operators are Hermitian. One
    triangle of the matrix is read.

    Attributes:
      lower: whether to read the lower triangle.
      mesh: as for ``LU``.

    Examples:
      >>> import lineax as lx
      >>> operator = lx.MatrixLinearOperator(2 * jnp.eye(8) + 1, lx.positive_semidefinite_tag)
      >>> print(lx.linear_solve(operator, b, ms.lineax.Cholesky()).value.round(3))
      [0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1]
    """

    lower: bool = eqx.field(default=False, static=True, kw_only=True)
    mesh: Mesh | None = eqx.field(default=None, static=True, kw_only=True)

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]) -> State:
        """Factor the operator's matrix.

        Raises:
          ValueError: the operator is not square or not tagged as definite, or the devices do not
            divide its order.
        """
        del options
        _check_square("lineax.Cholesky", operator)
        is_negative = lx.is_negative_semidefinite(operator)
        if not (is_negative or lx.is_positive_semidefinite(operator)):
            tags = sorted(map(str, getattr(operator, "tags", ())))
            raise mistake(
                "lineax.Cholesky",
                "operator",
                "one that is known to be positive or negative definite",
                f"a {type(operator).__name__} tagged {', '.join(tags) or 'with nothing'}",
                "tag it with lineax.positive_semidefinite_tag or negative_semidefinite_tag, or use "
                "meshsolve.lineax.LU",
            )
        a = _matrix(operator)
        mesh = mesh_of(a)
        a = in_program(f"lineax.{type(self).__name__}", a, mesh)
        with mesh_context(a, mesh):
            a = -a if is_negative else a
            factor = cho_factor(a, self.lower, overwrite_a=is_negative, mesh=self.mesh)
        return _state("lineax.Cholesky", factor, operator, is_negative=is_negative)


def _check_square(solver: str, operator: lx.AbstractLinearOperator) -> None:
    rows, columns = operator.out_size(), operator.in_size()
    if rows != columns:
        raise mistake(
            solver,
            "operator",
            "a square one",
            f"one from {columns} to {rows} elements",
            "use meshsolve.lineax.QR for least squares",
        )


def _matrix(operator: lx.AbstractLinearOperator):
    """The operator's matrix without its derivative: lineax has its own rule for solves."""
    return without_derivative(operator.as_matrix())


def _state(solver: str, factor, operator: lx.AbstractLinearOperator, **flags: bool) -> State:
    mesh, work = mesh_of(factor.work), factor.work
    if mesh is None and executor(work) is eager:
        raise mistake(
            solver,
            "operator",
            f"an order that all {jax.typeof(work).sharding.mesh.size} devices of its mesh divide, "
            "to make a state of outside of jax.jit",
            f"n = {factor.n}",
            "let lineax.linear_solve make it, or put the matrix on a mesh whose devices divide n",
        )
    structures = operator.in_structure(), operator.out_structure()
    return State(factor, mesh, structures, **flags)


def _solved(state: State, b: jax.Array) -> jax.Array:
    """X of the state's factor for a vector."""
    factor, transposed, conjugate = state.factor, state.is_transposed, state.is_conjugate
    # A Hermitian A is the conjugate of its transpose.
    if isinstance(factor, CholeskyFactor):
        return factor.solve(b) if transposed == conjugate else factor.solve(b.conj()).conj()
    if not transposed and conjugate:
        return factor.solve(b.conj()).conj()
    return factor.solve(b, trans=2 if transposed and conjugate else 1 if transposed else 0)


def _ravelled(vector) -> jax.Array:
    return ravel_pytree(vector)[0]


def _unravelled(x: jax.Array, structure):
    """X as the pytree that ``structure`` describes."""
    leaves, tree = jax.tree.flatten(structure)
    if len(leaves) == 1 and leaves[0].shape == x.shape:
        return jax.tree.unflatten(tree, [x.astype(leaves[0].dtype)])
    parts, first = [], 0
    for leaf in leaves:
        part = x[first : first + leaf.size].reshape(leaf.shape)
        parts.append(part.astype(leaf.dtype))
        first += leaf.size
    return jax.tree.unflatten(tree, parts)
