"""The choice of engine: this library, or a vendor's solver for several devices. Over several
processes it is ScaLAPACK (``processes``).
"""

from meshsolve import _core
from meshsolve._library.errors import mistake

MG = "cusolvermg"


def checked(operation: str, engine: str | None, platforms: set[str]) -> str:
    """The library's name of an engine, "" for its own, for a matrix on devices of ``platforms``."""
    if engine is None:
        return ""
    if engine != MG:
        remedy = "leave it out for this library's own algorithms"
        raise mistake(operation, "engine", f'None or "{MG}"', repr(engine), remedy)
    # Those of a traced A are not known; the call itself refuses CPU devices.
    if not platforms <= {"gpu", "cuda"}:
        raise mistake(
            operation,
            "engine",
            "None for arrays that are not on CUDA devices",
            f'"{MG}" for one on {", ".join(sorted(platforms))}',
            "leave it out, or put A on CUDA devices",
        )
    return MG


def expect_width(operation: str, routine: str, n: int, world: int) -> None:
    """Refuse an order for which cuSolverMg has no width of tile columns."""
    order, widest = _core.engine_order(routine, n, world)
    if order != n:
        raise mistake(
            operation,
            "a",
            f"an order whose part for each device, n / {world}, has a divisor from 128 to {widest} "
            f'(or is at most {widest}) with engine="{MG}"',
            f"{n}",
            f"pad A with an identity corner, B with zeros, to order {order}, or leave engine out",
        )
