"""The Python package is a pipeline: what its parts may know of each other."""

import ast
import inspect
import textwrap
from pathlib import Path

import pytest

import meshsolve as ms
from meshsolve._execute import eager, explicit, partitioned

pytestmark = pytest.mark.whole_file

PACKAGE = Path(ms.__file__).parent
FILES = {
    str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")
}
# How an array came to be known: only executors ask.
ASKED = {"Tracer", "AxisType"}
MOST_STATEMENTS = 14
# From the highest: a folder imports from itself and those after it. Executors and rules know each
# other: the rules of a call are calls.
LAYERS = ("_api", "_prepare", "_rules", "_execute", "_library")


def asks(tree: ast.AST) -> set[str]:
    """The names among ``ASKED`` that a module imports or reaches through a module."""
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    reached = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return (imported | reached) & ASKED


def test_only_executors_ask_how_an_array_is_known():
    found = {name: asks(tree) for name, tree in FILES.items()}
    outside = {name for name, some in found.items() if some and not name.startswith("_execute/")}
    assert not outside
    assert any(found.values())


@pytest.mark.parametrize(
    "text", ["from jax.core import Tracer", "import jax\njax.sharding.AxisType.Auto"]
)
def test_modules_that_ask_are_found(text):
    assert asks(ast.parse(text))


def folder_of(name: str) -> str:
    return name.split("/")[0].split(".")[0]


def test_folders_know_those_below():
    for name, tree in FILES.items():
        folder = folder_of(name)
        if folder not in LAYERS:
            continue
        above = LAYERS[: LAYERS.index("_rules" if folder == "_execute" else folder)]
        modules = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        known = {module.split(".")[1] for module in modules if module.startswith("meshsolve._")}
        assert not known.intersection(above), name


def statements(function) -> int:
    """The statements of a function, at any depth, without its docstring."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    count = sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) - 1
    return count - (ast.get_docstring(tree) is not None)


def public():
    """The public functions, and the methods of public classes."""
    for name in ms.__all__:
        thing = getattr(ms, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            for method, function in vars(thing).items():
                where = getattr(inspect.unwrap(function), "__code__", None)
                if inspect.isfunction(function) and where.co_filename.startswith(str(PACKAGE)):
                    yield f"{name}.{method}", function
    yield "local.solve", ms.local.solve


@pytest.mark.parametrize(
    ("name", "function"), list(public()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_public_functions_are_short(name, function):
    assert statements(function) <= MOST_STATEMENTS, name


def test_executors_have_one_interface():
    named = ("run", "form", "spread", "lengthened", "cut", "as_given")
    offered = [
        {name: [*inspect.signature(getattr(executor, name)).parameters] for name in named}
        for executor in (eager, explicit, partitioned)
    ]
    assert offered[0] == offered[1] == offered[2]
