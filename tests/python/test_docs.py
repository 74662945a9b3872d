"""The documentation: every example prints its stated output, every public name is described.

The pages are written for a program with four devices. Here there are eight, of which
``jax.make_mesh((4,), ...)`` takes the first four. Environment settings of the pages have no effect
here; other settings are restored.
"""

import contextlib
import csv
import doctest
import importlib.util
import inspect
import io
import json
import logging
import os
import re
import textwrap
import typing
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshsolve as ms
import meshsolve.info
import meshsolve.lineax
from helpers import ROOT, end_log, mesh_of, put

pytestmark = pytest.mark.whole_file

FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```$", re.M | re.S)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DOCS = ROOT / "docs"
PAGES = {"README.md": ROOT / "README.md"}
PAGES |= {page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md"))}


def blocks(page):
    """(line, language, options, text) of each fenced block."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield line, found[2], found[3].strip(), textwrap.dedent(found[4])


def is_cited(options: str) -> bool:
    return options.startswith('title="examples/')


def has_code(page) -> bool:
    return any(
        language == "python" and not is_cited(options) for _, language, options, _ in blocks(page)
    )


@pytest.fixture
def settings_put_back():
    assert len(jax.devices()) == 8  # made here, if no test has before
    logger, seconds = logging.getLogger("meshsolve"), ms.timeout()
    level, handlers = logger.level, [*logger.handlers]
    with mock.patch.dict(os.environ):
        # Processes that a page starts have one device, as the reader's.
        os.environ.pop("XLA_FLAGS", None)
        yield
    jax.config.update("jax_enable_x64", True)
    ms.set_timeout(seconds)
    logger.setLevel(level)
    logger.handlers[:] = handlers
    end_log()


@pytest.mark.filterwarnings("ignore:The default axis_types")  # of jax.make_mesh, before 0.9
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if has_code(page)])
def test_code_of_a_page(name, settings_put_back):
    """All blocks in order, in one namespace; an "Output" is that of the block before it."""
    printed, space = None, {"__name__": name}
    for line, language, options, text in blocks(PAGES[name]):
        if language == "python" and not is_cited(options):
            code = compile("\n" * line + text, str(PAGES[name]), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, space)
            printed = out.getvalue()
        elif "Output" in options:
            assert printed is not None, f"{name}, line {line}: nothing ran before this output"
            if not doctest.OutputChecker().check_output(text, printed, FLAGS):
                pytest.fail(f"{name}, line {line}: expected\n{text}\ngot\n{printed}")
            printed = None


def test_code_that_is_cited_is_in_the_examples():
    """test_examples.py runs the examples."""
    cited = [(o, text) for page in PAGES.values() for _, _, o, text in blocks(page) if is_cited(o)]
    assert cited
    for options, text in cited:
        example = (ROOT / options.split('"')[1]).read_text()
        lines = [line.strip() for line in text.splitlines()]
        assert "\n".join(lines) in "\n".join(line.strip() for line in example.splitlines()), options


def test_blocks_are_of_known_languages():
    """Otherwise a misspelled language would leave out a block above."""
    for name, page in PAGES.items():
        fences = len(re.findall(r"^ *```", page.read_text(), re.M))
        made = list(blocks(page))
        assert fences == 2 * len(made) or name == "README.md", f"{name}: a fence without a language"
        assert {language for _, language, *_ in made} <= {
            "python",
            "sh",
            "text",
            "results",
            "routines",
        }, name


def test_tables_of_results():
    """Measured files fill each of them, and the library that of its routines."""
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs/hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    made = hooks.on_page_markdown(PAGES["design/ffi.md"].read_text())
    assert "```routines" not in made and "b `[n, k]` | x `[n, k]` / b | `rhs`, `trans` |" in made
    page = PAGES["performance.md"].read_text()
    made = hooks.on_page_markdown(page)
    assert "```results" in page and "```results" not in made
    assert re.search(r"\| `solve`, by rows \| 0\.\d{3} \(0\.\d\d, 0\.\d\d\), 1\.0 A†? \|", made)
    with pytest.raises(ValueError, match="one row with what=nobody expected, got 0"):
        hooks.table("solve-cpu-2-cores.csv\ncolumns: a | b\ncells: {n}\nx | what=nobody")


MODULES = (
    *(
        "_api.calls",
        "_api.cholesky",
        "_api.eigen",
        "_api.functions",
        "_api.inverse",
        "_api.least_squares",
        "_api.lu",
        "_api.norm",
        "_api.plan",
    ),
    *("_api.solve", "_api.transpose", "_api.triangular", "_library.ffi", "_execute.rows"),
    *("info", "lineax", "local"),
)


@pytest.fixture(scope="module")
def names():
    """The names that the examples of the package's docstring leave, with which the others begin."""
    space = {}
    (test,) = [t for t in doctest.DocTestFinder().find(ms) if t.name == "meshsolve"]
    test.globs = space
    run(test, keep=True)
    return space


def run(test, keep=False) -> None:
    stated = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    runner.run(test, out=stated.append, clear_globs=not keep)
    assert not runner.failures, "".join(stated)


@pytest.mark.filterwarnings("ignore:The default axis_types")
@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name, names, settings_put_back):
    tests = doctest.DocTestFinder().find(importlib.import_module(f"meshsolve.{name}"), globs=names)
    tests = [test for test in tests if test.examples]
    assert tests
    for test in tests:
        run(test)


def public():
    """All public names, as users write them after ``meshsolve.``."""
    found = {name: getattr(ms, name) for name in ms.__all__}
    found.pop("local"), found.pop("__version__")
    found["local.solve"] = ms.local.solve
    found |= {f"lineax.{name}": getattr(ms.lineax, name) for name in ("LU", "Cholesky", "State")}
    return found


@pytest.mark.parametrize("name", public())
def test_docstrings_are_complete(name):
    thing = public()[name]
    text = inspect.getdoc(thing) or ""
    assert "Examples:\n" in text
    if inspect.isclass(thing):
        return
    assert "Raises:\n" in text or "Raises nothing" in text
    arguments = text.partition("Args:\n")[2]
    for argument in inspect.signature(thing).parameters:
        assert f"\n  {argument}: " in f"\n{arguments}", f"{name}: {argument} is not described"


@pytest.mark.parametrize("name", ["solve", "local.solve"])
def test_the_types_of_a_call_are_those_of_all_its_arguments(name):
    """Type checkers read the overloads, the interpreter the definition after them."""
    names = list(inspect.signature(public()[name]).parameters)
    overloads = typing.get_overloads(public()[name])
    assert len(overloads) == 3
    assert all(list(inspect.signature(each).parameters) == names for each in overloads)


def test_functions_md_and_the_reference_have_every_public_name():
    functions, reference = (PAGES[page].read_text() for page in ("functions.md", "reference.md"))
    for name, thing in public().items():
        entry = f"{thing.__module__}.{thing.__name__}"
        shown = (entry, entry.rpartition(".")[0])  # itself, or all of its module
        assert any(f"::: {one}\n" in reference for one in shown), f"{name} is not in the reference"
        assert f"](reference.md#{entry})" in functions, f"{name} has no link to its entry"
    for factor in ms.LUFactor, ms.CholeskyFactor:
        for member, value in vars(factor).items():
            is_method = inspect.isfunction(value) and not member.startswith("_")
            assert not is_method or f"`.{member}(" in functions, f"{factor.__name__}.{member}"
    for name in (*ms.__all__, "lineax"):
        assert name in functions


def test_the_pages_link_to_each_other_and_are_all_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    decisions = PAGES["design/adr/index.md"].read_text()
    added = {"design.md", "changelog.md", "notes.md"}
    pages = {name for name in PAGES if name != "README.md"}
    for name in pages | added:
        in_index = name.startswith("design/adr/0") and f"({name.rpartition('/')[2]})" in decisions
        assert in_index or f": {name}\n" in navigation, name
    for name in pages:
        for target in re.findall(r"\]\(([\w./-]+\.md)", PAGES[name].read_text()):
            found = os.path.normpath(os.path.join(os.path.dirname(name), target))
            assert found in pages | added, f"{name} links to {target}"
    for top in ("README.md", "DESIGN.md", "CONTRIBUTING.md", "SECURITY.md"):
        for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", (ROOT / top).read_text()):
            assert (ROOT / target).exists(), f"{top} links to {target}"


# The rows of README.md's table, in order.
ROWS = ("meshsolve", "meshsolve keep a", "jnp sharded", "jnp one device", "ScaLAPACK", "faer")
ONE = ("jnp one device", "faer")  # of one device


def test_figures_of_the_readme_are_those_of_the_results():
    """Seconds with their marks; the site makes its table of the file."""
    readme = PAGES["README.md"].read_text()
    table = readme.partition("| n = 8192 | positive definite | general |")[2]
    cells = re.findall(r"^\| .*? \| ([\d.]+)(†?) \| ([\d.]+)(†?) \|$", table, re.M)
    with open(ROOT / "benchmarks/results/solve-cpu-2-cores.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["n"] == "8192"]
    rows = [row for row in rows if row["dtype"] == "float64"]
    for what, found in zip(ROWS, cells, strict=True):
        devices = "1" if what in ONE else "2"
        for routine, text, mark in ("cholesky", *found[:2]), ("lu", *found[2:]):
            key = (routine, what, devices)
            (row,) = [r for r in rows if (r["routine"], r["what"], r["devices"]) == key]
            assert abs(float(row["seconds_median"]) - float(text)) <= 0.00051, key
            assert (row["disturbed"] == "yes") == bool(mark), key


def test_plots_have_the_figures_of_one_commit():
    """All rows of a plot's table name the same commit, and the plot names it too."""
    results = ROOT / "benchmarks/results"
    plots = sorted(results.glob("*.svg"))
    assert len(plots) >= 8
    for plot in plots:
        (table,) = [t for t in results.glob("*.[cj]s*") if plot.stem.startswith(t.stem)]
        lines = table.read_text().splitlines()
        of_json = table.suffix == ".jsonl"
        rows = [json.loads(line) for line in lines] if of_json else csv.DictReader(lines)
        (commit,) = {row["commit"] for row in rows}
        assert f"commit {commit}" in plot.read_text(), plot.name


@pytest.mark.parametrize("name", ["README.md", "index.md"])
def test_memory_of_the_first_screen_is_that_of_the_results(name):
    text = PAGES[name].read_text()
    stated = re.search(r"needs ([\d.]+) to ([\d.]+) A.*?needs (\d) A", text, re.S)
    with open(ROOT / "benchmarks/results/memory-cpu.jsonl") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if (row["devices"], row["storage"]) == (2, "rows")]
    ours = [r["above_over_a"] for r in rows if r["what"] == "meshsolve" and not r["keep_a"]]
    (theirs,) = [row["above_over_a"] for row in rows if row["what"] == "jnp"]
    made = (f"{min(ours):.3f}", f"{max(ours):.3f}", f"{theirs:.0f}")
    assert stated is not None and stated.groups() == made


def test_messages_of_jax_are_those_of_the_page_of_errors():
    """A cause for each line of the table; of several messages one, by version."""
    page = PAGES["errors.md"].read_text().partition("### Messages of JAX's own\n")[2]
    lines = re.findall(r"^\| (.*?) \| ", page.partition("\n## ")[0], re.M)[1:]
    mesh = mesh_of(range(4), "explicit")
    a, b = put(mesh, np.eye(8), "x", None), jnp.ones(8)
    here = jax.device_put(np.eye(63), jax.devices()[0])
    i = jnp.arange(8)

    def constrained(b):
        return ms.solve(jax.lax.with_sharding_constraint(jnp.eye(8), a.sharding), b)

    def on_set_mesh():
        with jax.set_mesh(mesh):
            jax.jit(constrained)(b)

    raised = [
        lambda: put(mesh, here, "x", None),
        lambda: jax.grad(lambda a: ms.solve(a, b).sum())(a),
        lambda: jax.jit(lambda b: ms.solve(a, b))(b),
        lambda: a + a.T,
        lambda: jax.jit(constrained)(b),
        on_set_mesh,
        lambda: jax.jit(lambda a: a.at[i, i].add(1.0))(a),
        lambda: here @ ms.solve(here, jnp.ones(63), mesh=mesh),
    ]
    for line, action in zip(lines, raised, strict=True):
        with pytest.raises(Exception) as error:
            action()
        stated = f"{error.typename}: {error.value}"
        texts = [text for pair in re.findall(r"`` (.+?) ``|`(.+?)`", line) for text in pair if text]
        parts = [re.split(r" \.\.\. |^\.\.\. ", text) for text in texts]
        assert any(all(p.strip() in stated for p in some) for some in parts), stated
