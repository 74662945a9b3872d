"""Additions of MkDocs to the pages: documents and plots of the repository, notebooks of some pages,
tables of results, and formulas.

A table of figures from benchmarks/results replaces a fenced block ``results``. Its first line names
the file, ``columns`` the head of the table, ``cells`` the text of each further column, made of a
row's fields. In each line ``label | condition | condition`` a condition selects the row of a cell,
such as ``what=scipy n=4096 routine=lu``. ``where`` has the keys that a condition lacks. Cells of
disturbed rows are marked.

The table of the library's routines replaces a fenced block ``routines``.
"""

import csv
import decimal
import html
import json
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"
MARK = "†"
DISTURBED = "disturbed: the processor's peak moved by more than 5 % while this was measured."
COPIED = {
    "design.md": ROOT / "DESIGN.md",
    "changelog.md": ROOT / "CHANGELOG.md",
    "notes.md": ROOT / "benchmarks/NOTES.md",
}
# The weight in the search of Design, notes and the changelog, relative to other pages.
BOOST = 0.2


def on_files(files, config):
    """Add the documents, the plots and the notebooks."""
    from mkdocs.structure.files import File

    sys.path.insert(0, str(ROOT / "docs"))
    import notebooks

    plots = {f"plots/{plot.name}": plot for plot in RESULTS.glob("*.svg")}
    for uri, path in (COPIED | plots).items():
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    for name in notebooks.PAGES:
        uri = f"notebooks/{name.removesuffix('.md')}.ipynb"
        files.append(File.generated(config, uri, content=notebooks.text_of(name)))
    return files


def on_page_markdown(markdown, page=None, **_):
    """Replace the blocks of results; make links in documents from elsewhere links of the site;
    let pages for developers weigh less in the search.
    """
    if page and page.file.src_uri.startswith(("design/", *COPIED)):
        page.meta.setdefault("search", {})["boost"] = BOOST
    if page and page.file.src_uri in COPIED:
        for uri, path in COPIED.items():
            markdown = markdown.replace(f"]({path.relative_to(ROOT)})", f"]({uri})")
        markdown = markdown.replace("](docs/", "](")
    markdown = re.sub(r"^```routines\n```$", lambda _: routines(), markdown, flags=re.M)
    return re.sub(r"^```results\n(.*?)^```$", lambda m: table(m[1]), markdown, flags=re.M | re.S)


def on_page_content(content, **_):
    """Make MathML of formulas in LaTeX, which browsers show without a script."""
    formula = r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>'
    return re.sub(formula, lambda m: _formula(m[2], shown=m[1] == "div"), content, flags=re.S)


def _formula(latex: str, shown: bool) -> str:
    from latex2mathml.converter import convert

    display = "block" if shown else "inline"
    made = convert(html.unescape(latex.strip()), display=display)
    return f'<div class="formula">{made}</div>' if shown else made


def routines() -> str:
    """The table of routines, from the compiled library: operands and results have name, elements
    and shape, results after a slash the operand whose memory they take.
    """
    from meshsolve._library.routines import ROUTINES

    head = "| routine | does | operands | results | attributes |\n|---|---|---|---|---|\n"
    return head + "\n".join(map(_routine, ROUTINES.values()))


def _routine(of) -> str:
    elements = {"a": "", "real": " real", "int32": " int32"}
    square = "square" in of.requires

    def array(x, operands=()) -> str:
        extents = ["n" if square and extent != "k" else extent for extent in x.shape]
        shape = f" `[{', '.join(extents)}]`" if extents else ""
        taken = "" if x.origin is None else f" / {operands[x.origin].name}"
        return f"{x.name}{elements[x.elements]}{shape}{taken}"

    operands = "; ".join(map(array, of.operands))
    results = "; ".join(array(x, of.operands) for x in of.results)
    attributes = ", ".join(f"`{name}`" for name in of.attributes)
    return f"| `{of.name}` | {of.summary} | {operands} | {results} | {attributes} |"


def table(block: str) -> str:
    """The table for a block."""
    name, *lines = block.strip().splitlines()
    rows, settings, disturbed = _read(RESULTS / name), {}, False
    while lines[0].startswith(("columns:", "cells:", "where:")):
        key, _, value = lines.pop(0).partition(":")
        settings[key] = value.strip()
    head = [column.strip() for column in settings["columns"].split("|")]
    made = [head, ["---"] * len(head)]
    for line in lines:
        label, *conditions = (part.strip() for part in line.split("|"))
        with decimal.localcontext(rounding=decimal.ROUND_HALF_UP):
            found = [_row(rows, c, settings.get("where", "")) if c else None for c in conditions]
            cells = [settings["cells"].format(**row) if row else "" for row in found]
        marked = [bool(row and row.get("disturbed")) for row in found]
        disturbed |= any(marked)
        cells = [cell + MARK * mark for cell, mark in zip(cells, marked, strict=True)]
        made.append([label, *cells])
        if len(made[-1]) != len(head):
            raise ValueError(f"{name}: {len(head)} columns expected, got {line!r}")
    rows = "\n".join(f"| {' | '.join(cells)} |" for cells in made)
    return rows + (f"\n\n{MARK} {DISTURBED}" if disturbed else "")


def _read(path: pathlib.Path) -> list[dict]:
    text = path.read_text()
    if path.suffix == ".jsonl":
        return [json.loads(line, parse_float=decimal.Decimal) for line in text.splitlines()]
    return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(text.splitlines())]


def _number(text: str):
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        return text


def _row(rows: list[dict], condition: str, where: str = "") -> dict:
    """The one row that agrees with ``key=value`` for each key."""
    wanted = dict(part.split("=", 1) for part in shlex.split(f"{where} {condition}"))
    agrees = lambda row: all(_same(row.get(k), v) for k, v in wanted.items())  # noqa: E731
    found = [row for row in rows if agrees(row)]
    if len(found) != 1:
        raise ValueError(f"one row with {condition} expected, got {len(found)}")
    return found[0]


def _same(value, text: str) -> bool:
    return str(value).lower() == text.lower()
