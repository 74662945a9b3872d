"""Paths, targets of make and names of files in the documents exist; documents keep their length."""

import fnmatch
import functools
import os
import re

import pytest

from helpers import ROOT

TOP = ("README.md", "CONTRIBUTING.md", "DESIGN.md")
DOCUMENTS = [*TOP, *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
SUFFIX = r"\.(pyi?|rs|cc?|cuh?|h|md|toml|lock|yml|css|csv|jsonl?|svg|png|txt)"
PATH = re.compile(rf"[\w.*/-]*/[\w.*/-]*|[\w.*-]+{SUFFIX}")
# Folders whose names make a path of what has a slash: else it is a ratio, a header or a module.
FOLDERS = {
    ".ci",
    "src",
    "ffi",
    "kernels",
    "python",
    "tests",
    "benchmarks",
    "docs",
    "examples",
    "release",
}
# What programs make, and what lies outside of the tree.
OUTPUTS = ("build/", "dist/", "target/", ".venv", "site-packages/", "~/", "/usr/", "/proc/")
ELSEWHERE = {
    "meshsolve/kernels": "a folder of the user's cache",
    "xla/ffi/api": "headers of jaxlib",
    "program.py": "of the user",
    "solves.json": "what the user asks for",
    "solves-PID.json": "made of it",
    "solves-PID-2.json": "made of it",
    "examples/NN_name.py": "of a new example",
}
# Of the root, where outputs are.
SKIPPED = re.compile(r"\.git|\.venv.*|build|dist|target")


@functools.cache
def names() -> set[str]:
    """Names of all files and folders."""
    found = set()
    for folder, folders, files in os.walk(ROOT):
        if folder == str(ROOT):
            folders[:] = [name for name in folders if not SKIPPED.fullmatch(name)]
        folders[:] = [name for name in folders if name not in ("__pycache__", "target")]
        found.update(folders, files)
    return found


@functools.cache
def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([\w./-]+)(?: [\w./-]+)*:(?!=)", makefile, re.M))


def exists(path: str) -> bool:
    """A path from the root, or a name that may be in any folder; both may be patterns."""
    path = path.rstrip("/")
    if "/" in path:
        return any(True for _ in ROOT.glob(path))
    return any(fnmatch.fnmatchcase(name, path) for name in names())


def is_path(word: str) -> bool:
    if word in ELSEWHERE or word.startswith(OUTPUTS) or "..." in word:
        return False
    if not PATH.fullmatch(word):
        return False
    if not re.search(r"\w", word) or word.startswith("*."):  # such as "*.whl"
        return False
    return "/" not in word or word.split("/")[0] in FOLDERS or bool(re.search(SUFFIX + "$", word))


def wrong(text: str) -> list[str]:
    """What code spans name and the tree lacks."""
    missing = []
    spans = [span for _, span in SPAN.findall(FENCE.sub("", text))]
    for span in spans:
        words = span.split()
        for target in re.findall(r"\bmake ((?:-\w+ )?[a-z][\w./-]*)", span):
            name = target.split()[-1]
            missing += [f"make {name}"] * (name not in targets())
        for word in words:
            word = word.rpartition("=")[2].strip(",;:()\"'").partition("#")[0]
            word = re.sub(r"::?\w+$", "", word)
            missing += [word] * (is_path(word) and word not in targets() and not exists(word))
    return missing


@pytest.mark.parametrize("name", DOCUMENTS)
def test_paths_of_a_document_exist(name):
    assert not wrong((ROOT / name).read_text())


def test_wrong_paths_are_found():
    text = "`src/nowhere.rs` `make nothing` `src/*.nothing` `nowhere.py` `tests/nowhere/`"
    assert wrong(text) == [
        "src/nowhere.rs",
        "make nothing",
        "src/*.nothing",
        "nowhere.py",
        "tests/nowhere/",
    ]
    right = "`src/lib.rs` `make -j2 lint` `src/*.rs` `lib.rs` `tests/python/` `build/bench` `n/P`"
    assert not wrong(f"{right}\n```\nsrc/nowhere.rs\n```\n")


@pytest.mark.parametrize(
    "name, most",
    [
        ("DESIGN.md", 200),
        ("docs/design/glossary.md", 40),
        *((name, 40) for name in DOCUMENTS if name.startswith("docs/design/adr/")),
    ],
)
def test_documents_keep_their_length(name, most):
    assert len((ROOT / name).read_text().splitlines()) <= most
