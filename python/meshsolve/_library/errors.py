"""Mistakes of users, in one form: operation, argument, expected, got, remedy."""

import numpy as np


def mistake(operation: str, argument: str, expected: str, got: object, remedy: str) -> ValueError:
    """Describe a mistake in a call, for ``raise``."""
    return ValueError(_message(operation, argument, expected, got, remedy))


def wrong_type(operation: str, argument: str, expected: str, got: object, remedy: str) -> TypeError:
    """Describe an argument of a type that is not supported, for ``raise``."""
    return TypeError(_message(operation, argument, expected, got, remedy))


def no_answer(
    operation: str,
    kind: str,
    got: str,
    info: int,
    gives_info: bool = True,
    argument: str = "a",
) -> np.linalg.LinAlgError:
    """Describe a matrix without an answer, for ``raise``. The operation may give ``info``."""
    text = _message(
        operation,
        argument,
        f"a {kind} matrix",
        f"one whose {got} (info = {info})",
        'with on_failure="nan" the answer is NaN' + ", and info has that number" * gives_info,
    )
    return np.linalg.LinAlgError(text)


def wrong_process(got: int, expected: int) -> RuntimeError:
    """Describe a use in a fork of a process that has used the library, for ``raise``."""
    return RuntimeError(
        f"meshsolve: expected the process that has used it, {expected}, got a fork of that, {got}; "
        'neither JAX nor meshsolve works there: start processes by multiprocessing\'s "spawn" or '
        '"forkserver", or fork before the first use'
    )


def _message(operation: str, argument: str, expected: str, got: object, remedy: str) -> str:
    return f"meshsolve.{operation}: {argument}: expected {expected}, got {got}; {remedy}"
