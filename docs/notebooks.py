"""Pages of the documentation as Jupyter notebooks: text, and blocks of Python as cells.

Run: python docs/notebooks.py PAGE.md NOTEBOOK.ipynb
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = (
    *("gaussian-process.md", "natural-gradient.md", "least-squares.md", "eigenproblems.md"),
    "processes.md",
)
"""The pages that the site also has as notebooks."""

_PYTHON = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
# Blocks with the output of the cell before; the notebook makes its own.
_OUTPUT = re.compile(r'^```text title="Output"\n.*?^```\n?', re.M | re.S)
_BLOCK = re.compile(r"^```python\n(.*?)^```\n?", re.M | re.S)
# Links to other pages, and attributes of pictures, mean nothing in a notebook.
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)[^)]*\)")
_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)(\{[^}]*\})?\n?", re.M)


def notebook(page: str) -> dict:
    """The notebook of a page, by nbformat 4."""
    parts = _BLOCK.split(_OUTPUT.sub("", _PICTURE.sub("", page)))
    cells = []
    for number, part in enumerate(parts):
        is_code = number % 2 == 1
        text = part.strip() if is_code else _LINK.sub(r"\1", part).strip()
        if not text:
            continue
        cell = {"cell_type": "code" if is_code else "markdown", "id": f"cell-{number}"}
        cell |= {"metadata": {}, "source": text.splitlines(keepends=True)}
        if is_code:
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell)
    return {"cells": cells, "metadata": _PYTHON, "nbformat": 4, "nbformat_minor": 5}


def text_of(name: str) -> str:
    """The notebook of a page in docs, as the file has it."""
    page = (ROOT / "docs" / name).read_text()
    return json.dumps(notebook(page), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(text_of(sys.argv[1]))
