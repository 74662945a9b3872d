"""Solves inside your own ``jax.shard_map``, on the shard of each device."""

import math
from typing import Literal, overload

import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.typing import ArrayLike

from meshsolve._api.solve import SolveInfo, solved, structure_of
from meshsolve._api.types import AssumeA, OnFailure
from meshsolve._execute import shards
from meshsolve._execute.placements import Placement
from meshsolve._library import ffi
from meshsolve._library.errors import mistake
from meshsolve._prepare import failures
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
    structure = structure_of("local.solve", assume_a)
    raises = failures.raises("local.solve", on_failure)
    axes = (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)
    mesh = jax.sharding.get_abstract_mesh()
    manual = set(mesh.axis_types) == {AxisType.Manual}
    if not axes or not manual or not set(mesh.axis_names).issuperset(axes):
        raise mistake(
            "local.solve",
            "axis_name",
            "an axis of the jax.shard_map over all axes of a mesh that this is called in",
            f"{axis_name!r}, with axes {list(mesh.axis_names) if manual else []} there",
            "outside of shard_map use meshsolve.solve",
        )
    if raises:
        others = (axis for axis in mesh.axis_names if axis not in axes and mesh.shape[axis] > 1)
        failures.expect_one_call("local.solve", tuple(others))
    a, b = as_array("local.solve", "a", a), as_array("local.solve", "b", b)
    world = math.prod(mesh.shape[axis] for axis in axes)
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
    a, b = promoted(a, dtype), promoted(b, dtype)
    at = Placement(mesh, axes, "rows" if a.shape[1] == n else "columns")
    if structure == "positive definite":
        op = ffi.posv(bool(lower), 0, int(transposed), return_info)
    else:
        op = ffi.gesv(structure, bool(lower), 0, int(transposed), return_info)
    op = op._replace(public="local.solve", storage=at.storage, raises=raises)

    @jax.custom_jvp
    def run(a, b):
        return shards.local(op, at, "replicated", a, b)[1:]

    @run.defjvp
    def _(primals, tangents):
        del primals, tangents
        raise mistake(
            "local.solve",
            "a, b",
            "arrays that are not differentiated",
            "a request for a derivative",
            "differentiate meshsolve.solve, outside of shard_map",
        )

    if b.size == 0:
        return (b, SolveInfo(*run(a, jnp.zeros((n, 1), dtype))[1:])) if return_info else b
    x, *info = solved(lambda b, _: run(a, b), b, True, jax.ShapeDtypeStruct((n, n), dtype))
    return (x, SolveInfo(*info)) if return_info else x
