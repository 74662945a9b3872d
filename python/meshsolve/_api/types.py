"""Types of arguments that are words."""

from typing import Literal, TypeAlias

AssumeA: TypeAlias = Literal[
    "gen", "general", "pos", "positive definite", "her", "hermitian", "sym", "symmetric"
]
OnFailure: TypeAlias = Literal["nan", "raise"]
Engine: TypeAlias = Literal["cusolvermg"]
Trans: TypeAlias = Literal[0, 1, 2, "N", "T", "C"]
