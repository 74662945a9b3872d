"""Pages as notebooks: cells, and that they run in a process of their own."""

import json
import re
import subprocess
import sys

import pytest

from helpers import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import notebooks

pytestmark = pytest.mark.whole_file


def made(name):
    return json.loads(notebooks.text_of(name))


def code(name):
    return ["".join(c["source"]) for c in made(name)["cells"] if c["cell_type"] == "code"]


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_cells_are_the_blocks_of_the_page(name):
    page = (ROOT / "docs" / name).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert blocks and code(name) == [block.strip() for block in blocks]
    book = made(name)
    assert (book["nbformat"], book["metadata"]["kernelspec"]["language"]) == (4, "python")
    texts = "".join(
        line for c in book["cells"] if c["cell_type"] == "markdown" for line in c["source"]
    )
    assert 'title="Output"' not in texts
    assert not re.search(r"\]\((?!https?:)", texts), "links that a notebook cannot follow"
    assert len({c["id"] for c in book["cells"]}) == len(book["cells"])
    assert f"notebooks/{name.removesuffix('.md')}.ipynb" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", notebooks.PAGES)
def test_a_notebook_runs(name, tmp_path):
    program = tmp_path / "cells.py"
    program.write_text("\n".join(code(name)))
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
