"""Writes the table of routines of docs/design/ffi.md from the compiled library.

Run: python release/ffi_reference.py

The table is between two marks. A test compares it with the library's.
"""

import pathlib

from meshsolve._library.routines import ROUTINES, Array, Routine

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs/design/ffi.md"
BEGIN, END = "<!-- made by release/ffi_reference.py -->\n", "<!-- end -->\n"
HEAD = "| routine | does | operands | results | attributes |\n|---|---|---|---|---|\n"
ELEMENTS = {"a": "", "real": " real", "int32": " int32"}


def array(of: Array, routine: Routine, operands: tuple[Array, ...] = ()) -> str:
    """Name, elements and shape; after a slash the operand whose memory it takes."""
    square = "square" in routine.requires
    extents = ["n" if square and extent != "k" else extent for extent in of.shape]
    shape = f" `[{', '.join(extents)}]`" if extents else ""
    taken = "" if of.origin is None else f" / {operands[of.origin].name}"
    return f"{of.name}{ELEMENTS[of.elements]}{shape}{taken}"


def row(of: Routine) -> str:
    """The line of a routine."""
    operands = "; ".join(array(x, of) for x in of.operands)
    results = "; ".join(array(x, of, of.operands) for x in of.results)
    attributes = ", ".join(f"`{name}`" for name in of.attributes)
    return f"| `{of.name}` | {of.summary} | {operands} | {results} | {attributes} |\n"


def page(text: str) -> str:
    """The page with the library's table."""
    before, rest = text.split(BEGIN)
    table = HEAD + "".join(map(row, ROUTINES.values()))
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
