"""QR of sharded matrices: ``qr``."""

import dataclasses
import functools
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from meshsolve._api import factors
from meshsolve._api.triangular import solve_triangular
from meshsolve._execute import dispatch, eager, meshes
from meshsolve._library.errors import mistake
from meshsolve._library.ffi import operation
from meshsolve._prepare.pipeline import Call, Request, first, run
from meshsolve._rules.qr import both, leading, triangle, unit_like

Mode = Literal["reduced", "r", "raw"]
"""What ``qr`` returns."""


class QRResult(NamedTuple):
    """The result of ``qr``, as ``jnp.linalg.qr`` gives it. A pytree.

    Attributes:
      Q: [m, min(m, n)] with orthonormal columns, in the sharding of A if it has A's shape.
      R: [min(m, n), n], upper triangular, sharded by columns.

    Examples:
      >>> q, r = ms.qr(a)
      >>> bool(jnp.allclose(q @ r, a, atol=1e-5))
      True
    """

    Q: jax.Array
    R: jax.Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["work", "tau", "info"],
    meta_fields=["m", "n", "storage"],
)
@dataclasses.dataclass(frozen=True)
class QRFactor:
    """The factors A = Q R of a matrix [m, n], with Q as reflectors; ``qr(a, mode="raw")`` makes it.

    A pytree: it passes in and out of ``jax.jit``. You can save and restore its leaves, also as
    NumPy arrays. It has no derivatives; ``qr`` and ``lstsq`` have them.

    Attributes:
      work: [n, m], larger if A was padded for its mesh: the transpose of scipy's ``qr`` in
        ``mode="raw"``, sharded by rows. If ``storage`` is "column-major", it is ``qr`` itself,
        sharded by columns. It does not depend on the number of devices.
      tau: [min(m, n)], replicated: the coefficients of the reflectors, as scipy's.
      info: int32 scalar. 0, or i > 0: column i of the first min(m, n) is not finite, or depends on
        the columns before it: |R_ii| is at most min(m, n sqrt(m)) eps times its norm.
      m, n: the rows and columns of A.
      storage: "column-major" if A was sharded by columns and column-major in memory, else
        "columns".

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

    RANKS: ClassVar[dict[str, int]] = {"work": 2, "tau": 1, "info": 0}
    engine: ClassVar[str] = ""

    @property
    def r(self) -> jax.Array:
        """R [min(m, n), n], upper triangular, sharded by columns: a new array."""
        r = self._used("qr_triangle", "r")
        return leading(r, (min(self.m, self.n), self.n))

    @property
    def q(self) -> jax.Array:
        """The first min(m, n) columns of Q: a new array, sharded by columns. That of a wide A is
        replicated where the devices do not divide m; inside of programs JAX decides.
        """
        least = min(self.m, self.n)
        if self.m >= self._columns:
            return leading(self._used("orgqr", "q"), (self.m, least))
        unit = unit_like(self.work, self.m, least)
        return self._used("ormqr", "q", unit, trans=0)

    def apply_q(self, x: ArrayLike) -> jax.Array:
        """Q X with the square Q [m, m], for X [m] or [m, k]. By the reflectors, without Q."""
        return self._used("ormqr", "apply_q", x, trans=0)

    def apply_qt(self, x: ArrayLike) -> jax.Array:
        """Q^H X with the square Q [m, m], for X [m] or [m, k]. By the reflectors, without Q."""
        return self._used("ormqr", "apply_qt", x, trans=2)

    def solve(self, b: ArrayLike) -> jax.Array:
        """The X [n] or [n, k] that minimises |B - A X|, for B [m] or [m, k]; NaN if ``info`` is not
        0.

        It solves A X = B if A is square. A must not have fewer rows than columns: a
        ``ValueError`` says so.
        """
        self._expect_tall("solve")
        if self._columns == self.n:
            return self._first(self._used("qr_solve", "solve", b), b)
        # Padding is zeros, so R of A itself solves. It is on one device.
        y = self._first(self._used("ormqr", "solve", b, trans=2), b)
        x = solve_triangular(self.r, y[..., None] if jnp.ndim(b) == 1 else y)
        return self._unless_dependent(x[..., 0] if jnp.ndim(b) == 1 else x, jnp.nan)

    @property
    def rcond(self) -> jax.Array:
        """An estimate of the reciprocal of R's condition number, 1 / (norm1(R) norm1(R^-1)).

        A real scalar. That of A in the 2-norm is the same number within a factor n, as R has A's
        singular values. Nearly dependent columns make it small. It is 0 if ``info`` is not 0, and
        may not be asked for fewer rows than columns: a ``ValueError`` says so. See
        ``LUFactor.rcond`` for the estimate.
        """
        self._expect_tall("rcond")
        if self._columns == self.n:
            return self._used("qr_rcond", "rcond")
        return self._unless_dependent(qr(self.r, "raw").rcond, 0)

    def _expect_tall(self, method: str) -> None:
        if self.m < self.n:
            raise mistake(
                f"QRFactor.{method}",
                "factor",
                "the factor of a matrix with at least as many rows as columns",
                f"that of one of shape {(self.m, self.n)}",
                "factor its conjugate transpose",
            )

    def _first(self, y, b):
        """The first n rows of an array as ``b``, or of a batch."""
        return y[..., : self.n] if jnp.ndim(b) == 1 else y[..., : self.n, :]

    def _unless_dependent(self, x, instead):
        """X of a padded factor, or ``instead`` of it where ``info`` is not 0."""
        info = self.info
        if dispatch.executor(x, info) is eager:
            on = meshes.of_array(x)
            whole = NamedSharding(on.mesh, PartitionSpec()) if on else next(iter(x.devices()))
            info = jax.device_put(info, whole)

        def chosen(x, info):
            info = info.reshape(info.shape + (1,) * (x.ndim - info.ndim))
            return jnp.where(info == 0, x, instead)

        return meshes.where_it_lies(chosen, x, info)

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

    Signs are LAPACK's: the diagonal of R is real. Rectangles are factored by columns. One that is
    sharded by rows is moved for that, which takes a copy. For a solution alone of a tall A by rows
    ``lstsq`` moves and copies nothing.

    Q and R have derivatives of every order, in both modes, where R is regular (for a wide A: the
    square block of its first columns). Under ``jax.vmap`` matrices are factored one after another.

    Args:
      a: [m, n], or a batch [..., m, n], in any sharding; float32, float64, complex64 or complex128.
      mode: "reduced": Q and R; "r": R alone; "raw": a ``QRFactor``, which has Q as reflectors.
      overwrite_a: donate A: its memory becomes that of the reflectors. Without it, the call makes
        one copy. Q has memory of its own.
      mesh: the devices to work on, for an A that is not sharded over them, whatever m and n.

    Returns:
      (Q, R) as a ``QRResult``, R, or a ``QRFactor``.

    Raises:
      ValueError: an unknown mode, or n not divisible by the devices and no ``mesh``.
      TypeError: a dtype that is not supported.

    Source: right-looking Householder QR by tile columns with lookahead, in the compact WY form
    (Schreiber and Van Loan, SIAM J. Sci. Stat. Comput. 10, 1989; docs/design/algorithms.md).

    Examples:
      >>> q, r = ms.qr(a)
      >>> print(jnp.abs(q.T @ q - jnp.eye(8)).max() < 1e-5)
      True
    """
    if mode not in ("reduced", "r", "raw"):
        expected, remedy = '"reduced", "r" or "raw"', 'the square Q is qr(a, "raw").apply_q(eye)'
        raise mistake("qr", "mode", expected, repr(mode), remedy)
    op = operation("geqrf", "qr")
    if mode == "raw":
        return run(Call(op, ("a",), _factor, mesh=mesh), (a,), (bool(overwrite_a),))
    by, results, result = {
        "reduced": (both, ("matrix", "upper", "info"), _reduced),
        "r": (triangle, ("upper", "info"), first),
    }[mode]
    call = Call(op._replace(results=results), ("a",), result, mesh=mesh)
    return run(call, (a,), (bool(overwrite_a),), by)


def _factor(request: Request, results) -> QRFactor:
    work, tau, info = results
    columns = work.shape[-1] if request.form == "column-major" else work.shape[-2]
    return QRFactor(work, tau, info, request.n, request.op.order or columns, request.form)


def _reduced(request: Request, results) -> QRResult:
    del request
    q, r, _ = results
    return QRResult(q, r)
