"""User mistakes, in one form: operation, argument, expected, got, remedy."""


def mistake(operation: str, argument: str, expected: str, got: object, remedy: str) -> ValueError:
    """Describe what is wrong with a call, for ``raise``."""
    return ValueError(_message(operation, argument, expected, got, remedy))


def wrong_type(operation: str, argument: str, expected: str, got: object, remedy: str) -> TypeError:
    """Describe an argument of a type that cannot be used, for ``raise``."""
    return TypeError(_message(operation, argument, expected, got, remedy))


def _message(operation: str, argument: str, expected: str, got: object, remedy: str) -> str:
    return f"meshsolve.{operation}: {argument}: expected {expected}, got {got}; {remedy}"
