"""The operations of compiled programs."""

import itertools
import math
import re
from typing import NamedTuple

FACTORING = (
    "posv",
    "gesv",
    "potrf",
    "getrf",
    "geqrf",
    "gels",
    "gelsr",
    "geqr",
    "tsqr",
    "tsqrf",
    "cholesky_inverse",
    "lu_inverse",
    "posv_rcond",
    "gesv_rcond",
)
COLLECTIVES = {"all-gather", "all-to-all", "all-reduce", "collective-permute", "reduce-scatter"}
# `%x = (f64[8,4]{1,0}, s32[]) custom-call(...), attributes`
OPERATION = re.compile(r"\s*(?:ROOT )?%?[\w.-]+ = (\((?:[^()]|\([^()]*\))*\)|\S+) ([\w-]+)\((.*)")


class Operation(NamedTuple):
    """The operation's name in HLO, the shapes of its results, and the rest of the line."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    rest: str

    @property
    def routine(self) -> str | None:
        """The routine of the library that it calls."""
        ours = 'custom_call_target="meshsolve"' in self.rest
        return re.search(r'routine = "(\w+)"', self.rest)[1] if ours else None


class Call(NamedTuple):
    """A call of the library: its attributes, and the operand whose memory each result takes."""

    attributes: dict[str, str | int]
    aliases: list[int]


def calls_for_cuda(function, *operands) -> list[Call]:
    """The calls in the program of a jitted function for CUDA devices, which need not exist here."""
    traced = function.trace(*operands)
    module = traced.lower(lowering_platforms=("cuda",)).compiler_ir("stablehlo")
    found = []

    def visit(operation):
        for block in itertools.chain.from_iterable(operation.regions):
            for inner in block.operations:
                attributes = inner.attributes
                if inner.name == "stablehlo.custom_call" and "meshsolve" in str(
                    attributes["call_target_name"]
                ):
                    of_ours = {x.name: x.attr.value for x in attributes["mhlo.backend_config"]}
                    aliases = [
                        int(re.search(r"operand_index = (\d+)", str(alias))[1])
                        for alias in attributes["output_operand_aliases"]
                    ]
                    found.append(Call(of_ours, aliases))
                visit(inner)

    visit(module.operation)
    return found


class Program:
    """The operations of a compiled program, or of a jitted function for some operands."""

    def __init__(self, compiled, *operands):
        self.compiled = compiled.lower(*operands).compile() if operands else compiled
        self.operations = []
        for line in self.compiled.as_text().splitlines():
            found = OPERATION.match(line)
            # A missed operation could not fail a test.
            assert found or not re.match(r"\s*(ROOT )?%\S+ = ", line), line
            if found:
                sizes = re.findall(r"\w+\[([\d,]*)\]", found[1])
                shapes = tuple(tuple(int(n) for n in s.split(",") if n) for s in sizes)
                name = found[2].removesuffix("-start")
                self.operations.append(Operation(name, shapes, found[3]))

    def routines(self) -> list[str]:
        """The routines of the library, one for each call."""
        return [op.routine for op in self.operations if op.routine]

    def factorisations(self) -> int:
        """The number of calls that factor a matrix."""
        return sum(name in FACTORING for name in self.routines())

    def has(self, name: str) -> bool:
        """Whether there is an operation of this name."""
        return any(op.name == name for op in self.operations)

    def collectives(self) -> set[str]:
        """The kinds of exchanges between devices."""
        return COLLECTIVES & {op.name for op in self.operations}

    def makes(self, *shape: int) -> bool:
        """Whether an operation on a device has a result of this shape."""
        return any(shape in op.shapes for op in self.operations)

    def makers(self, size: int) -> set[str]:
        """The operations that have a result of that many elements or more."""
        return {
            op.name for op in self.operations if max(map(math.prod, op.shapes), default=0) >= size
        }
