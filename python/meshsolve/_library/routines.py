"""The routines of the compiled library as data (``src/routines``)."""

from typing import NamedTuple

from meshsolve import _core


class Array(NamedTuple):
    """An operand or result.

    Attributes:
      name: its name in messages.
      kind: "matrix" (A as the user has it), "factor" (in the solver's form), "rhs", "pivots",
        "info", "real" (a real scalar) or "value" (a scalar of A's dtype). Of least squares
        "aligned" (right-hand sides by rows, as A), "solution", "residuals" and "triangle". Of QR
        "upper" (R by columns) and "coefficients" (of the reflectors). "number" is a real scalar.
        "eigenvalues" are those of A.
      elements: "a" (those of A), "real" (real ones in A's precision) or "int32".
      shape: the extents, for A [m, n] and k right-hand sides.
      origin: the position of the operand that a result starts as; None if there is none.
    """

    name: str
    kind: str
    elements: str
    shape: tuple[str, ...]
    origin: int | None


class Routine(NamedTuple):
    """A routine.

    Attributes:
      name: its name.
      summary: what it does.
      family: "cholesky", "lu", "triangular", "residual", "norm", "qr", "tsqr",
        "eigen", "transpose" or "ticket".
      operands, results: its arrays; the operand ``place``, which comes first, is left out.
      attributes: those that not all routines have.
      stages: what it does.
      requires: "square", "whole columns", "whole columns, or square", "whole rows", "tall", "tall
        shards".
      across: whether it works over several processes.
    """

    name: str
    summary: str
    family: str
    operands: tuple[Array, ...]
    results: tuple[Array, ...]
    attributes: tuple[str, ...]
    stages: tuple[str, ...]
    requires: tuple[str, ...]
    across: bool

    @property
    def aliases(self) -> dict[int, int]:
        """Which result takes the memory of which operand: {result: operand}."""
        origins = enumerate(array.origin for array in self.results)
        return {result: origin for result, origin in origins if origin is not None}


def _array(of: dict) -> Array:
    return Array(of["name"], of["kind"], of["elements"], tuple(of["shape"]), of["from"])


def _routine(name: str, of: dict) -> Routine:
    operands, results = (tuple(map(_array, of[key])) for key in ("operands", "results"))
    attributes, stages, requires = (tuple(of[k]) for k in ("attributes", "stages", "requires"))
    return Routine(
        name,
        of["summary"],
        of["family"],
        operands,
        results,
        attributes,
        stages,
        requires,
        of["across"],
    )


ROUTINES = {name: _routine(name, of) for name, of in _core.routine_table().items()}
