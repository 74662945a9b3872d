"""Failures, where a matrix has no answer: NaN and ``info``, or an error."""

import re

import numpy as np

from meshsolve import _core
from meshsolve._library.errors import mistake, no_answer
from meshsolve._library.ffi import Operation


def raises(operation: str, on_failure: str) -> bool:
    """Whether a failure is to be an error."""
    if on_failure not in ("nan", "raise"):
        remedy = 'use return_info=True or a factor\'s info to see it, or "raise" for an error'
        raise mistake(operation, "on_failure", '"nan" or "raise"', repr(on_failure), remedy)
    return on_failure == "raise"


def expect_one_call(operation: str, groups: tuple[str, ...]) -> None:
    """Refuse an error that only one of several groups of devices would have. The other groups would
    wait for it in XLA, which ends the process.
    """
    if groups:
        raise mistake(
            operation,
            "on_failure",
            '"nan" where groups of devices have matrices of their own',
            f'"raise", with groups along {groups}',
            "use return_info=True or a factor's info",
        )


def of_program(operation: str, error: Exception) -> np.linalg.LinAlgError | None:
    """The error of an operation, from the error of its program. None if the program did not fail in
    a routine of the library.
    """
    reported = re.search(r"meshsolve\.\w+: (a: expected .* \(info = \d+\); [^\n]*)", str(error))
    return reported and np.linalg.LinAlgError(f"meshsolve.{operation}: {reported[1]}")


def check(op: Operation, results) -> None:
    """Wait for ``op`` and raise its error; in traced programs the library raises it."""
    info = int(results[op.results.index("info")])
    if info > 0:
        is_eigen = "eigenvalues" in op.results
        n = op.order or (results[op.results.index("eigenvalues")].shape[-1] if is_eigen else 0)
        kind, got = _core.failure(op.routine, op.function, n, info)
        raise no_answer(op.public, kind, got, info, gives_info=not is_eigen)


def expect_pivots(operation: str, info: int) -> None:
    """Raise the error of a matrix with a pivot that is zero or not finite."""
    if info > 0:
        got = f"pivot {info} is zero or not finite"
        raise no_answer(operation, "nonsingular", got, info)
