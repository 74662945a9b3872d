"""The documentation: every example runs and prints what it says, every public name is described.

The pages are written for a program with four devices. Here there are eight, of which
``jax.make_mesh((4,), ...)`` takes the first four; what pages set in the environment has no effect
any more, and that and other settings are put back.
"""

import contextlib
import doctest
import importlib.util
import inspect
import io
import logging
import os
import re
import textwrap
import typing
from unittest import mock

import jax
import pytest

import meshsolve as ms
import meshsolve.info
import meshsolve.lineax
from helpers import ROOT

FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```$", re.M | re.S)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PAGES = {page.name: page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}


def blocks(page):
    """(line, language, options, text) of each fenced block."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield line, found[2], found[3].strip(), textwrap.dedent(found[4])


def has_code(page) -> bool:
    return any(language == "python" for _, language, *_ in blocks(page))


@pytest.fixture
def settings_put_back():
    assert len(jax.devices()) == 8  # made here, if no test has before
    logger, seconds = logging.getLogger("meshsolve"), ms.timeout()
    level, handlers = logger.level, [*logger.handlers]
    with mock.patch.dict(os.environ):
        yield
    jax.config.update("jax_enable_x64", True)
    ms.set_timeout(seconds)
    logger.setLevel(level)
    logger.handlers[:] = handlers


@pytest.mark.filterwarnings("ignore:The default axis_types")  # of jax.make_mesh, before 0.9
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if has_code(page)])
def test_code_of_a_page(name, settings_put_back):
    """All blocks in order, in one namespace; an "Output" is that of the block before it."""
    printed, space = None, {"__name__": name}
    for line, language, options, text in blocks(PAGES[name]):
        if language == "python":
            code = compile("\n" * line + text, str(PAGES[name]), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, space)
            printed = out.getvalue()
        elif "Output" in options:
            assert printed is not None, f"{name}, line {line}: nothing ran before this output"
            if not doctest.OutputChecker().check_output(text, printed, FLAGS):
                pytest.fail(f"{name}, line {line}: expected\n{text}\ngot\n{printed}")
            printed = None


def test_blocks_are_of_known_languages():
    """So that none is left out above by the way it is spelled."""
    for name, page in PAGES.items():
        fences = len(re.findall(r"^ *```", page.read_text(), re.M))
        made = list(blocks(page))
        assert fences == 2 * len(made) or name == "README.md", f"{name}: a fence without a language"
        assert {language for _, language, *_ in made} <= {"python", "sh", "text", "results"}, name


def test_tables_of_results():
    """Each is filled from the files that were measured."""
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs/hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = PAGES["performance.md"].read_text()
    made = hooks.on_page_markdown(page)
    assert "```results" in page and "```results" not in made
    assert re.search(r"\| `solve`, by rows \| 0\.\d{3} \(0\.\d\d\), 1\.0 A \|", made)
    with pytest.raises(ValueError, match="one row with what=nobody expected, got 0"):
        hooks.table("cpu-2-cores.csv\ncolumns: a | b\ncells: {n}\nx | what=nobody")


MODULES = (
    *("_calls", "_ffi", "cholesky", "info", "inverse", "lineax", "local", "lu", "norm"),
    *("plan", "solve", "transpose", "triangular"),
)


@pytest.fixture(scope="module")
def names():
    """Those that the examples of the package's docstring leave, with which the others begin."""
    space = {}
    (test,) = [t for t in doctest.DocTestFinder().find(ms) if t.name == "meshsolve"]
    test.globs = space
    run(test, keep=True)
    return space


def run(test, keep=False) -> None:
    said = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    runner.run(test, out=said.append, clear_globs=not keep)
    assert not runner.failures, "".join(said)


@pytest.mark.filterwarnings("ignore:The default axis_types")
@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name, names, settings_put_back):
    tests = doctest.DocTestFinder().find(importlib.import_module(f"meshsolve.{name}"), globs=names)
    tests = [test for test in tests if test.examples]
    assert tests
    for test in tests:
        run(test)


def public():
    """Everything that users call, by the name that they write after ``meshsolve.``."""
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
    """Type checkers look at the overloads, the interpreter at what follows them."""
    names = list(inspect.signature(public()[name]).parameters)
    overloads = typing.get_overloads(public()[name])
    assert len(overloads) == 3
    assert all(list(inspect.signature(each).parameters) == names for each in overloads)


def test_functions_md_and_the_reference_have_every_public_name():
    functions, reference = (PAGES[page].read_text() for page in ("functions.md", "reference.md"))
    overview = functions.partition("## What all have in common")[0]
    for name, thing in public().items():
        assert f"\n### {name}\n" in functions, f"{name} has no section"
        where = f"::: {thing.__module__}.{thing.__name__}\n"
        assert where in reference, f"{name} is not in the reference"
        section = functions.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        assert "```python\n" in section, f"{name} has no example"
        if not inspect.isclass(thing):
            assert f"{name}" in overview, f"{name} is not in the overview"
            continue
        of_tuples = dir(tuple) if issubclass(thing, tuple) else ()
        for member in vars(thing):
            told = member.startswith("_") or member in of_tuples or member.startswith("tree_")
            is_method = inspect.isfunction(getattr(thing, member, None))
            assert told or not is_method or f"`.{member}(" in section, f"{name}.{member}"
    for name in (*ms.__all__, "lineax"):
        assert name in functions


def test_the_pages_link_to_each_other_and_are_all_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    added = {"design.md", "changelog.md"}
    pages = {name for name in PAGES if name != "README.md"}
    for name in pages | added:
        assert f": {name}\n" in navigation
    for name in pages:
        for target in re.findall(r"\]\(([\w-]+\.md)", PAGES[name].read_text()):
            assert target in pages | added, f"{name} links to {target}"
    for target in re.findall(r"\]\(([\w./-]+)\)", PAGES["README.md"].read_text()):
        assert (ROOT / target).exists(), f"README.md links to {target}"
