"""QR of sharded matrices: ``qr``."""

import dataclasses
import functools
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from jax.typing import ArrayLike

from meshsolve._api import factors, reflectors
from meshsolve._api.triangular import solve_triangular
from meshsolve._api.types import Trans
from meshsolve._execute import dispatch, eager, meshes
from meshsolve._execute.typed import replicated, resharded, respecified, spec_of
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import operation
from meshsolve._prepare.operands import as_array, check_rhs, check_trans
from meshsolve._prepare.pipeline import Call, Request, first, run
from meshsolve._prepare.tall import is_over_processes, stays_by_rows
from meshsolve._rules.qr import both, by_reflectors, leading, triangle, unit_like

Mode = Literal["reduced", "r", "raw"]
"""What ``qr`` returns."""


# Those of a factor keep the padding of A.
_REFLECTORS = ("reflectors", "triangle", "triangle", "info")


class QRResult(NamedTuple):
    """The result of ``qr``, as ``jnp.linalg.qr`` gives it. A pytree.

    Attributes:
      Q: [m, min(m, n)] with orthonormal columns, in the sharding of A if it has A's shape.
      R: [min(m, n), n], upper triangular, sharded by columns; on all devices if A is tall and its
        rows stay where they are.

    Examples:
      >>> q, r = ms.qr(a)
      >>> bool(jnp.allclose(q @ r, a, atol=1e-5))
      True
    """

    Q: jax.Array
    R: jax.Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["work", "tau", "info", "triangle", "t"],
    meta_fields=["m", "n", "storage", "engine"],
)
@dataclasses.dataclass(frozen=True)
class QRFactor:
    """The factors A = Q R of a matrix [m, n], with Q as reflectors; ``qr(a, mode="raw")`` makes it.

    A pytree: it passes in and out of ``jax.jit``. You can save and restore its leaves, also as
    NumPy arrays. It has no derivatives; ``qr`` and ``lstsq`` have them.

    Attributes:
      work: [n, m], larger if A was padded for its mesh: the transpose of scipy's ``qr`` in
        ``mode="raw"``, sharded by rows. If ``storage`` is "column-major", it is ``qr`` itself,
        sharded by columns. It does not depend on the number of devices. If ``storage`` is "rows",
        it is V [m, n] of Q = I - V T V^H, sharded by rows, with its ones and zeros.
      tau: [min(m, n)], replicated: the coefficients of the reflectors, as scipy's.
      info: int32 scalar. 0, or i > 0: column i of the first min(m, n) is not finite, or depends on
        the columns before it: |R_ii| is at most min(m, n sqrt(m)) eps times its norm.
      m, n: the rows and columns of A.
      storage: "rows" if A stayed by rows; "column-major" if A was sharded by columns and
        column-major in memory; else "columns".
      triangle, t: R [n, n] and T [n, n], replicated, if ``storage`` is "rows"; else None.
      engine: "", or "scalapack" over several processes. Then ``work`` depends on their number: use
        the factor there.

    Examples:
      >>> factor = ms.qr(a, mode="raw")
      >>> x = factor.solve(b)
      >>> print(factor.apply_q(factor.apply_qt(b)).round(3))
      [1. 1. 1. 1. 1. 1. 1. 1.]
    """

    work: jax.Array
    tau: jax.Array
    info: jax.Array
    m: int
    n: int
    storage: str
    triangle: jax.Array | None = None
    t: jax.Array | None = None
    engine: str = ""

    RANKS: ClassVar[dict[str, int]] = {"work": 2, "tau": 1, "info": 0}

    @property
    def r(self) -> jax.Array:
        """R [min(m, n), n], upper triangular, sharded by columns: a new array; ``triangle``, if
        there is one.
        """
        if self.triangle is not None:
            return as_array("QRFactor.r", "triangle", self.triangle)
        r = self._used("qr_triangle", "r")
        return leading(r, (min(self.m, self.n), self.n))

    @property
    def q(self) -> jax.Array:
        """The first min(m, n) columns of Q: a new array, sharded by columns, or by rows if
        ``storage`` is "rows". That of a wide A is replicated where the devices do not divide m;
        inside of programs JAX decides.
        """
        least = min(self.m, self.n)
        if self.storage == "rows":
            return reflectors.columns(self)
        if self.m >= self._columns:
            return leading(self._used("orgqr", "q"), (self.m, least))
        unit = unit_like(self.work, self.m, least)
        return self._times("q", unit, 0)

    def apply_q(self, x: ArrayLike) -> jax.Array:
        """Q X with the square Q [m, m], for X [m] or [m, k]. By the reflectors, without Q."""
        return self._times("apply_q", x, 0)

    def apply_qt(self, x: ArrayLike) -> jax.Array:
        """Q^H X with the square Q [m, m], for X [m] or [m, k]. By the reflectors, without Q."""
        return self._times("apply_qt", x, 2)

    def solve(self, b: ArrayLike, trans: Trans = 0) -> jax.Array:
        """The X that minimises |B - A X| (``trans`` 0), or the one of least norm with A^T X = B (1)
        or A^H X = B (2); NaN if ``info`` is not 0.

        B is [m] or [m, k], and X [n] or [n, k]; with a transpose B has n rows, and X has m. A must
        not have fewer rows than columns: a ``ValueError`` says so.
        """
        self._expect_tall("solve")
        code = check_trans("QRFactor.solve", trans)
        if self.storage == "rows":
            return reflectors.solution("QRFactor.solve", self, b, code)
        if not code and self._columns == self.n:
            x = self._used("qr_solve", "solve", b)
            return x[..., : self.n] if jnp.ndim(b) == 1 else x[..., : self.n, :]
        return self._solution(b, code)

    def _solution(self, b, code: Trans) -> jax.Array:
        """The same with a transpose, or for a factor that was padded."""
        b = as_array("QRFactor.solve", "b", b)
        check_rhs("QRFactor.solve", b, self.n if code else self.m, of_a=(self.m, self.n))
        x = meshes.where_it_lies(functools.partial(reflectors.as_columns, code == 1), b)
        if code:
            x = self._used("ormqr", "solve", self._substituted(x, 2), trans=0)
        else:
            x = self._substituted(self._used("ormqr", "solve", x, trans=2), 0)
        x = self._unless_dependent(x, jnp.nan)
        x = x.conj() if code == 1 else x
        return x[..., 0] if b.ndim == 1 else x

    def _substituted(self, y, trans: Trans) -> jax.Array:
        """R^-1 or R^-H times the first rows of Y, with zeros for other rows of A."""
        rows = self.m if trans else self.n
        y = meshes.where_it_lies(functools.partial(_of_rows, self._columns), y)
        x = solve_triangular(self._regular(), y, trans=trans)
        return meshes.where_it_lies(functools.partial(_of_rows, rows), x)

    def _regular(self) -> jax.Array:
        """R, square and with its first entry on the diagonal of its padding: that changes neither
        solutions nor the condition.
        """
        r = self.r if self.storage == "rows" else self._used("qr_triangle", "r")
        return meshes.where_it_lies(functools.partial(_filled, self.n), r)

    @property
    def rcond(self) -> jax.Array:
        """An estimate of the reciprocal of R's condition number, 1 / (norm1(R) norm1(R^-1)).

        A real scalar. That of A in the 2-norm is the same number within a factor n, as R has A's
        singular values. Nearly dependent columns make it small. It is 0 if ``info`` is not 0, and
        may not be asked for fewer rows than columns: a ``ValueError`` says so. See
        ``LUFactor.rcond`` for the estimate.
        """
        self._expect_tall("rcond")
        if self.storage != "rows" and self._columns == self.n:
            return self._used("qr_rcond", "rcond")
        return self._unless_dependent(qr(self._regular(), "raw").rcond, 0)

    def _expect_tall(self, method: str) -> None:
        if self.m < self.n:
            raise mistake(
                f"QRFactor.{method}",
                "factor",
                "the factor of a matrix with at least as many rows as columns",
                f"that of one of shape {(self.m, self.n)}",
                "factor its conjugate transpose",
            )

    def _unless_dependent(self, x, instead):
        """X of a padded factor, or ``instead`` of it where ``info`` is not 0."""
        info = self.info
        if dispatch.executor(x, info) is eager:
            on = meshes.of_array(x)
            whole = NamedSharding(on.mesh, PartitionSpec()) if on else x.sharding
            info = jax.device_put(info, whole)

        def chosen(x, info):
            info = info.reshape(info.shape + (1,) * (x.ndim - info.ndim))
            return jnp.where(info == 0, x, instead)

        return meshes.where_it_lies(chosen, x, info)

    def _times(self, method: str, x, trans: Trans) -> jax.Array:
        """Q X or Q^H X."""
        if self.storage == "rows":
            return reflectors.times(f"QRFactor.{method}", self, x, trans == 2)
        return self._used("ormqr", method, x, trans=trans)

    @property
    def _columns(self) -> int:
        """The columns of A with its padding."""
        return self.work.shape[-1 if self.storage == "column-major" else -2]

    def _used(self, routine: str, method: str, *sides, **fields) -> Any:
        op = operation(routine, f"QRFactor.{method}", storage=self.storage, **fields)
        names = {
            "qr_rcond": ("work", "info"),
            "qr_solve": ("work", "tau", "info", "b"),
            "ormqr": ("work", "tau", "x"),
        }
        call = Call(op, names.get(routine, ("work", "tau")), n=self.m)
        return factors.used(self, call, *sides)


def qr(
    a: ArrayLike,
    mode: Mode = "reduced",
    *,
    overwrite_a: bool = False,
    mesh: Mesh | None = None,
) -> Any:
    """A = Q R with all devices that hold A, for an A of any shape, by Householder reflectors.

    Signs are LAPACK's, in every sharding: the diagonal of R is real. Rectangles are factored by
    columns. A tall one by rows stays as it lies, if each device has at least as many rows as A has
    columns. Others by rows are moved, which takes a copy. On one device, replicated, and with
    ``mesh=``, A is taken by rows if it has 8 times as many rows as columns, and each device has
    enough. Inside of ``jax.jit`` with Auto axes the sharding is not known, so that rule counts all
    devices that exist, or those of the mesh that is set.

    Q and R have derivatives of every order, in both modes, where R is regular (for a wide A: the
    square block of its first columns). Under ``jax.vmap`` matrices are factored one after another.

    Args:
      a: [m, n], or a batch [..., m, n], in any sharding; float32, float64, complex64 or complex128.
      mode: "reduced": Q and R; "r": R alone; "raw": a ``QRFactor``, which has Q as reflectors.
      overwrite_a: donate A: its memory becomes that of the reflectors, by rows that of Q. Without
        it, the call makes one copy. Q of an A by columns has memory of its own. By rows "r" only
        reads A.
      mesh: the devices to work on, for an A that is not sharded over them, whatever m and n.

    Returns:
      (Q, R) as a ``QRResult``, R, or a ``QRFactor``. Where A was padded for its mesh, Q and R are
      on one device.

    Raises:
      ValueError: an unknown mode, or n not divisible by the devices and no ``mesh``.
      TypeError: a dtype that is not supported.

    Source: right-looking Householder QR by tile columns with lookahead, in the compact WY form
    (Schreiber and Van Loan, SIAM J. Sci. Stat. Comput. 10, 1989); by rows Demmel, Grigori, Hoemmen
    and Langou, SIAM J. Sci. Comput. 34, 2012 (docs/design/algorithms.md).

    Examples:
      >>> q, r = ms.qr(a)
      >>> print(jnp.abs(q.T @ q - jnp.eye(8)).max() < 1e-5)
      True
    """
    if mode not in ("reduced", "r", "raw"):
        expected, remedy = '"reduced", "r" or "raw"', 'the square Q is qr(a, "raw").apply_q(eye)'
        raise mistake("qr", "mode", expected, repr(mode), remedy)
    op = operation("geqrf", "qr")
    if mode == "raw" and stays_by_rows(a, mesh) and not is_over_processes(a, mesh):
        op = operation("tsqrf", "qr")._replace(results=_REFLECTORS)
        call = Call(op, ("a",), _factor_by_rows, mesh=mesh)
        return run(call, (a,), (bool(overwrite_a),), by_reflectors)
    if mode == "raw":
        return run(Call(op, ("a",), _factor, mesh=mesh), (a,), (bool(overwrite_a),))
    by, result, results, by_rows = {
        "reduced": (both, _reduced, ("matrix", "upper", "info"), "tsqr"),
        "r": (triangle, first, ("upper", "info"), "geqr"),
    }[mode]
    op = operation(by_rows, "qr") if stays_by_rows(a, mesh) else op._replace(results=results)
    call = Call(op, ("a",), result, mesh=mesh)
    return run(call, (a,), (bool(overwrite_a),), by)


def _of_rows(rows: int, y):
    """The first rows of Y, or Y with rows of zeros more."""
    if spec := spec_of(y):
        y = respecified(y, *spec[:-2], None, spec[-1])
    missing = rows - y.shape[-2]
    return jnp.pad(y, [*[(0, 0)] * (y.ndim - 2), (0, max(missing, 0)), (0, 0)])[..., :rows, :]


def _filled(n: int, r):
    """A square R with its first entry on the diagonal from row n on."""
    order = r.shape[-1]
    r = _of_rows(order, r)
    if n == order:
        return r
    padding = jnp.diag(jnp.arange(order) >= n).astype(r.dtype)
    first = replicated(r)[..., :1, :1]
    return r + resharded(first * padding, jax.typeof(r).sharding)


def _factor(request: Request, results) -> QRFactor:
    work, tau, info = results
    columns = work.shape[-1] if request.form == "column-major" else work.shape[-2]
    op = request.op
    n = op.order or columns
    return QRFactor(work, tau, info, request.n, n, request.form, engine=op.engine)


def _factor_by_rows(request: Request, results) -> QRFactor:
    v, r, t, info = results
    tau = meshes.where_it_lies(functools.partial(jnp.diagonal, axis1=-2, axis2=-1), t)
    return QRFactor(v, tau, info, request.n, r.shape[-1], "rows", r, t)


def _reduced(request: Request, results) -> QRResult:
    del request
    q, r, _ = results
    if dispatch.executor(q, r) is eager:
        # A padded one has been cut on one device.
        alone = [x.sharding for x in (q, r) if isinstance(x.sharding, SingleDeviceSharding)]
        if len(alone) == 1:
            q, r = jax.device_put((q, r), alone[0])
    return QRResult(q, r)
