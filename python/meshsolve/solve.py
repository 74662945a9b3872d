"""Linear systems with a sharded matrix: ``solve``."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshsolve import _dispatch, _ffi, _padding
from meshsolve._errors import mistake
from meshsolve._operands import as_array, check_rhs, check_square, common_dtype, promoted


class SolveInfo(NamedTuple):
    """What ``solve(..., return_info=True)`` says beside the solution.

    Attributes:
      info: int32 scalar. 0: solved. i > 0: the leading minor of order i of A is not positive
        definite and the solution is NaN (LAPACK's ``info`` of ``potrf``).
    """

    info: jax.Array


def solve(
    a,
    b,
    lower: bool = False,
    *,
    assume_a: str = "gen",
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    return_info: bool = False,
    mesh: Mesh | None = None,
):
    """Solve A X = B with all devices that hold A, in the memory of A.

    The call of ``jax.scipy.linalg.solve`` for a matrix that is sharded over one mesh axis by rows,
    ``P('x', None)``, or by columns, ``P(None, 'x')``; mesh and spec are read from the array.
    Nothing is gathered: on each device the call needs its shard, a little scratch, and the
    right-hand sides. Columns are transposed within each shard's memory first; an array that is
    column-major already, ``Format(Layout((1, 0)), sharding)``, is solved as it lies (outside of
    ``jax.jit``; inside, layouts are not known, and XLA copies it). A replicated or two-way sharded
    A is resharded to rows by XLA, which takes a copy. ``meshsolve.plan`` tells all this beforehand.

    Works eagerly and inside ``jax.jit``, on meshes with Auto and with Explicit axes. Not yet
    differentiable.

    Args:
      a: [n, n], float32, float64, complex64 or complex128; Hermitian positive definite. Only one
        triangle is read. n must be divisible by the number of devices on the axis, or ``mesh``
        given.
      b: [n] or [n, k] right-hand sides in any sharding, on A's devices or elsewhere.
      lower: whether A's lower triangle is read instead of its upper one.
      assume_a: "pos" ("positive definite"); nothing else in this version.
      overwrite_a: donate A: the call then makes no copy of it and A is deleted. Without, one copy
        is made. Has no effect inside ``jax.jit``, where XLA decides about copies.
      overwrite_b: donate B, likewise.
      check_finite: accepted for compatibility; entries that are not finite lead to NaN.
      return_info: also return a ``SolveInfo``.
      mesh: the devices to solve on, for an A that is not sharded over them (a NumPy array, an array
        on one device or on other devices) whatever n: A is copied to shards of rows, padded with an
        identity corner to a multiple of the number of devices. Memory: that copy, and one device's
        rows while they are made. An A that is sharded over ``mesh`` already is used as it is.
        Inside ``jax.jit``, if its axes are Explicit, within ``jax.set_mesh(mesh)``.

    Returns:
      x of the shape and sharding of b (replicated over A's devices if b does not lie there); NaN
      where A is not positive definite. With ``return_info`` the pair (x, SolveInfo).

    Raises:
      ValueError: wrong shapes, an unknown ``assume_a``, n not divisible by the devices.
      TypeError: a dtype that cannot be used.
      jax.errors.JaxRuntimeError: a device did not take part in the call; see ``set_timeout``.

    Source: right-looking Cholesky by tile columns with lookahead (DESIGN.md); ``info`` is LAPACK's.
    """
    del check_finite
    if assume_a not in ("pos", "positive definite"):
        raise mistake(
            "solve",
            "assume_a",
            '"pos"',
            repr(assume_a),
            "this version solves positive definite systems only; for others gather the matrix and "
            "use jax.scipy.linalg.solve",
        )
    n = check_square("solve", np.asarray(a) if not hasattr(a, "shape") else a)
    given = a
    a, moved = _padding.on_mesh("solve", a, mesh)
    a, b_array = as_array(a), as_array(b)
    check_rhs("solve", b_array, n)
    dtype = common_dtype("solve", "a and b", a, b_array)
    a = promoted(a, dtype)
    own_a = overwrite_a or moved or a is not given
    x, info = solved(
        lambda b, own_b: _dispatch.call(
            _ffi.posv(bool(lower), n if a.shape[0] != n else 0), (a, b), (own_a, own_b)
        )[1:],
        promoted(b_array, dtype),
        overwrite_b or b_array is not b or b_array.dtype != dtype,
        a,
    )
    return (x, SolveInfo(info)) if return_info else x


def solved(run, b, own_b: bool, a):
    """(x, info) of ``run(b, own)`` on columns of full length for right-hand sides as users have
    them: vectors, shorter than a padded A, empty.
    """
    vector, rows = b.ndim == 1, b.shape[0]
    own_b = own_b or vector
    b = b[:, None] if vector else b
    if b.size == 0:
        x, info = b, jnp.int32(0)
    elif rows == a.shape[0]:
        x, info = run(b, own_b)
    else:
        x, info = _padded(run, b, a)
    return (x[:, 0] if vector else x), info


def _padded(run, b, a):
    k = b.shape[1]
    padded = _padding.padded_rows(b, a.shape[0])
    if isinstance(a, Tracer) or isinstance(b, Tracer):
        x, info = run(padded, True)
        return x[: b.shape[0]], info
    mesh = a.sharding.mesh
    if k > _dispatch.FEW:
        # Dealt by columns, so that rows can be cut off whatever their number.
        padded = jnp.pad(padded, ((0, 0), (0, -k % mesh.size)))
    x, info = run(padded, True)
    if padded.shape[1] > k or not isinstance(b.sharding, NamedSharding):
        x = jax.device_put(x, NamedSharding(mesh, PartitionSpec()))
    return jax.device_put(x[: b.shape[0], :k], _dispatch.home(b, mesh)), info
