"""Solves and least squares inside your own ``jax.shard_map``, on the shard of each device."""

import math
from typing import Literal, overload

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from meshsolve._api.least_squares import LeastSquares, ridge_of
from meshsolve._api.solve import SolveInfo, solving
from meshsolve._api.types import AssumeA, OnFailure
from meshsolve._execute import shards
from meshsolve._execute.placements import Placement, surrounding
from meshsolve._library import failures
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import operation
from meshsolve._prepare.operands import as_array, check_rhs, common_dtype, promoted


@overload
def solve(
    a: ArrayLike,
    b: ArrayLike,
    axis_name: str | tuple[str, ...],
    lower: bool = ...,
    *,
    assume_a: AssumeA = ...,
    transposed: bool = ...,
    return_info: Literal[False] = ...,
    on_failure: OnFailure = ...,
) -> jax.Array: ...


@overload
def solve(
    a: ArrayLike,
    b: ArrayLike,
    axis_name: str | tuple[str, ...],
    lower: bool = ...,
    *,
    assume_a: AssumeA = ...,
    transposed: bool = ...,
    return_info: Literal[True],
    on_failure: OnFailure = ...,
) -> tuple[jax.Array, SolveInfo]: ...


@overload
def solve(
    a: ArrayLike,
    b: ArrayLike,
    axis_name: str | tuple[str, ...],
    lower: bool = ...,
    *,
    assume_a: AssumeA = ...,
    transposed: bool = ...,
    return_info: bool = ...,
    on_failure: OnFailure = ...,
) -> jax.Array | tuple[jax.Array, SolveInfo]: ...


def solve(
    a: ArrayLike,
    b: ArrayLike,
    axis_name: str | tuple[str, ...],
    lower: bool = False,
    *,
    assume_a: AssumeA = "gen",
    transposed: bool = False,
    return_info: bool = False,
    on_failure: OnFailure = "nan",
) -> jax.Array | tuple[jax.Array, SolveInfo]:
    """Solve A X = B together with all devices along a mesh axis, inside of ``jax.shard_map``.

    This is ``meshsolve.solve`` without a choice of storage: the algorithm alone moves data between
    devices. ``jax.export`` works on programs that use it (with
    ``DisabledSafetyCheck.custom_call("meshsolve")``).

    No derivatives: take those of ``meshsolve.solve`` outside of ``shard_map``. Here a device only
    has a shard, and ``shard_map`` would have to sum the gradient of a replicated B. No rule for
    ``jax.vmap``, as all devices take part in one call: give right-hand sides as columns of B.

    Args:
      a: this device's rows [n/P, n] of A, or its columns [n, n/P], for P devices along the axis;
        float32, float64, complex64 or complex128. Its memory is overwritten; XLA copies A if you
        use it elsewhere.
      b: [n] or [n, k], the same on all devices.
      axis_name: the axis of ``shard_map`` that distributes A, or several axes in that order.
      lower: which triangle is read, as for ``meshsolve.solve``.
      assume_a: the structure of A, likewise.
      transposed: solve A^T X = B.
      return_info: also return a ``SolveInfo``.
      on_failure: "nan", or "raise": the program fails if there is no answer.

    Returns:
      x of the shape of b, the same on all devices; with ``return_info`` the pair (x, SolveInfo).

    Raises:
      ValueError: not inside of ``shard_map`` over that axis, wrong shapes, unknown ``assume_a``, a
        request for a derivative.
      TypeError: a dtype that is not supported.

    Source: as ``meshsolve.solve``.

    Examples:
      >>> specs = P("x", None), P()
      >>> inside = lambda a, b: ms.local.solve(a, b, "x")
      >>> x = jax.jit(jax.shard_map(inside, mesh=mesh, in_specs=specs, out_specs=P()))(a, b)
      >>> print(x.round(3))
      [0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1]
    """
    op = solving("local.solve", assume_a, bool(lower), bool(transposed), bool(return_info))
    raises = failures.raises("local.solve", on_failure)
    mesh, axes = _mesh_and_axes("local.solve", axis_name, raises)
    a, b = _checked(a, b, math.prod(mesh.shape[axis] for axis in axes))
    at = Placement(mesh, axes, "rows" if a.shape[1] == b.shape[0] else "columns")
    op = op._replace(storage=at.storage, raises=raises)
    run = _without_derivative(
        "local.solve", lambda a, b: shards.local(op, at, "replicated", a, b)[1:]
    )
    if b.size == 0:
        info = run(a, jnp.zeros((b.shape[0], 1), b.dtype))[1:] if return_info else ()
        x = b
    else:
        _, x, *info = shards.on_columns(op, lambda a, b: (None, *run(a, b)), (a, b))
    return (x, SolveInfo(*info)) if return_info else x


def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    axis_name: str | tuple[str, ...],
    *,
    ridge: ArrayLike | None = None,
    on_failure: OnFailure = "nan",
) -> LeastSquares:
    """Minimise |B - A X|^2, plus ``ridge`` |X|^2, together with all devices along a mesh axis,
    inside of ``jax.shard_map``.

    This is ``meshsolve.lstsq`` for a tall A by rows, which is neither written nor copied. As
    ``local.solve`` it has no derivatives and no rule for ``jax.vmap``, and works in ``jax.export``.

    Args:
      a: this device's rows [m/P, n] of A, for P devices along the axis and m >= n; float32,
        float64, complex64 or complex128.
      b: the same rows of B, [m/P] or [m/P, k].
      axis_name: the axis of ``shard_map`` that distributes the rows, or several axes in that order.
      ridge: None, or the weight of |X|^2, a real number that is not negative, the same on all
        devices.
      on_failure: "nan", or "raise": the program fails if a column depends on others.

    Returns:
      A ``LeastSquares`` (x, residuals, info), the same on all devices.

    Raises:
      ValueError: not inside of ``shard_map`` over that axis, wrong shapes, a negative ``ridge``, a
        request for a derivative.
      TypeError: a dtype that is not supported.

    Source: as ``meshsolve.lstsq``.

    Examples:
      >>> t = jnp.linspace(0.0, 1.0, 8)
      >>> by_rows = NamedSharding(mesh, P("x"))
      >>> line, y = jax.device_put((jnp.stack([t, t**0], 1), 2 * t + 1), by_rows)
      >>> inside = lambda a, b: ms.local.lstsq(a, b, "x").x
      >>> fit = jax.jit(jax.shard_map(inside, mesh=mesh, in_specs=P("x"), out_specs=P()))
      >>> print(fit(line, y).round(3))
      [2. 1.]
    """
    name = "local.lstsq"
    raises = failures.raises(name, on_failure)
    mesh, axes = _mesh_and_axes(name, axis_name, raises)
    world = math.prod(mesh.shape[axis] for axis in axes)
    a, b = as_array(name, "a", a), as_array(name, "b", b)
    if a.ndim != 2 or a.shape[0] * world < a.shape[1]:
        expected = f"a device's rows [m/{world}, n] of a tall matrix, m >= n"
        remedy = "give in_specs=P(axis_name, None) for it; meshsolve.lstsq takes others"
        raise mistake(name, "a", expected, f"shape {a.shape}", remedy)
    check_rhs(name, b, a.shape[0], of_a=a.shape)
    if b.ndim > 2:
        expected, remedy = f"shape [{len(b)}] or [{len(b)}, k]", "give them as columns of b"
        raise mistake(name, "b", expected, f"shape {b.shape}", remedy)
    weight = ridge_of(name, ridge, a, b)
    dtype = common_dtype(name, "a and b", a, b)
    a, b = promoted(a, dtype), promoted(b, dtype)
    at, op = Placement(mesh, axes), operation("gels", name, raises=raises)
    run = _without_derivative(name, lambda *arrays: shards.local(op, at, "replicated", *arrays))
    x, residuals, info = shards.on_columns(op, run, (a, weight, b))
    return LeastSquares(x, residuals[0] if b.ndim == 1 else residuals, info)


def _mesh_and_axes(public: str, axis_name: str | tuple[str, ...], raises: bool):
    """The mesh of the surrounding shard_map, and the axes that distribute A."""
    axes = (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)
    mesh, named = surrounding()
    if not axes or not set(named).issuperset(axes):
        raise mistake(
            public,
            "axis_name",
            "an axis of the jax.shard_map over all axes of a mesh that this is called in",
            f"{axis_name!r}, with axes {named} there",
            f"outside of shard_map use meshsolve.{public.removeprefix('local.')}",
        )
    if raises:
        others = (axis for axis in mesh.axis_names if axis not in axes and mesh.shape[axis] > 1)
        failures.expect_one_call(public, tuple(others))
    return mesh, axes


def _checked(a, b, world: int) -> tuple[jax.Array, jax.Array]:
    """Shards of A on so many devices and B, in their common dtype."""
    a, b = as_array("local.solve", "a", a), as_array("local.solve", "b", b)
    n = max(a.shape) if a.ndim == 2 else 0
    if a.shape not in ((n // world, n), (n, n // world)) or n % world:
        raise mistake(
            "local.solve",
            "a",
            f"a device's rows [n/{world}, n] or columns [n, n/{world}]",
            f"shape {a.shape}",
            "give in_specs=P(axis_name, None) for it",
        )
    check_rhs("local.solve", b, n)
    if b.ndim > 2:
        expected, remedy = f"shape [{n}] or [{n}, k]", "give them as columns of b"
        raise mistake("local.solve", "b", expected, f"shape {b.shape}", remedy)
    dtype = common_dtype("local.solve", "a and b", a, b)
    return promoted(a, dtype), promoted(b, dtype)


def _without_derivative(public: str, function):
    run = jax.custom_jvp(function)

    @run.defjvp
    def _(primals, tangents):
        del primals, tangents
        raise mistake(
            public,
            "a, b",
            "arrays that are not differentiated",
            "a request for a derivative",
            f"differentiate meshsolve.{public.removeprefix('local.')}, outside of shard_map",
        )

    return run
