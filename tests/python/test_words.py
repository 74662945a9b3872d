"""Words that the project has given up are nowhere but in CHANGELOG.md and in this list."""

import fnmatch
import os
import pathlib
import re

import pytest

from helpers import ROOT

pytestmark = pytest.mark.whole_file

# Files of others, records, and the list itself.
EXEMPT = (
    "CHANGELOG.md",
    "Cargo.lock",
    "LICENSE",
    "THIRD-PARTY-LICENCES",
    "benchmarks/results/*",
    "docs/pictures/[01]*.svg",
    "release/licences.py",
    "tests/loom/Cargo.lock",
    "tests/python/test_words.py",
)
OUTPUTS = re.compile(r"\.git|\.venv.*|build|dist|target|__pycache__|\.\w+_cache")
# Each pattern with the files in which it means something else.
OF_REGISTERS = (
    "kernels/*",
    "src/transpose/*",
    "src/scalar/*",
    "src/device/cpu/product/*",
    "src/device/cpu/reflect/*",
    "src/device/cpu/passes.rs",
    "src/device/cpu/vectors.rs",
    "benchmarks/native/src/cpu/peak.rs",
    "tests/kernels/emulate.*",
    "tests/suite/transpose_skinny.rs",
    "docs/design/cuda.md",
    "docs/design/transposition.md",
    "docs/design/glossary.md",
)
RETIRED = {
    # A worker is a thread of a call; lanes are those of a warp or a vector register.
    r"\b[Ll]anes?\b": OF_REGISTERS,
    r"\w(?<!P)(?<!X)Lane\b": (),
    # Communicator, group of workers, rendezvous of devices, barrier of workers.
    r"\b([Cc]rew|[Mm]eetings?)\b": (),
    r"\b(Team|team)\b": (),
    # Baseline.
    r"\b[Yy]ardsticks?\b": (),
    # Routines that do what no routine of LAPACK does have names of their own.
    r"\b(gesvx|posvx|lupack|luunpack|getrit|geinv|poinv)\b": (),
    # Distribution.
    r"\bOrder::(Natural|Cyclic)\b": (),
    r"\b(dealt|deals?|deed)\b": (),
    # Folders.
    r"\bexamples/bench\b": (),
    r"\bsrc/(dist|backend)\b": (),
    r"\bbackend::(host|cuda)\b": (),
    # CPU devices.
    r"\bCPU host devices?\b": (),
    # Constants of several values, functions of several meanings.
    r"\bFEW\b": (),
    r"\b(fn|solver::|engine::)tile_width\b": (),
    # Prose.
    r"\b(said|told|[Bb]eside|[Ww]hoever|broken off|where (they|it) lies?)\b": (),
}


def texts():
    """Every text file of the tree by its path."""
    found = {}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not OUTPUTS.fullmatch(name)]
        for name in files:
            path = pathlib.Path(folder, name)
            relative = path.relative_to(ROOT).as_posix()
            if any(fnmatch.fnmatch(relative, pattern) for pattern in EXEMPT):
                continue
            try:
                found[relative] = path.read_text()
            except UnicodeDecodeError:
                continue
    return found


@pytest.fixture(scope="module")
def tree():
    return texts()


def found(pattern: str, allowed: tuple[str, ...], tree: dict[str, str]) -> list[str]:
    """Where a pattern is in files that are not allowed to have it."""
    return [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for path, text in tree.items()
        if not any(fnmatch.fnmatch(path, glob) for glob in allowed)
        for match in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize("pattern", RETIRED)
def test_retired_words_are_gone(pattern, tree):
    assert not found(pattern, RETIRED[pattern], tree)


def test_retired_words_are_found():
    """With the paths and lines, but not where they are allowed."""
    tree = {"a.rs": "one\ntwo lanes\n", "kernels/b.cu": "lanes", "c.md": "It was dealt by a crew."}
    assert found(r"\b[Ll]anes?\b", OF_REGISTERS, tree) == ["a.rs:2: lanes"]
    assert found(r"\b(dealt|deals?|deed)\b", (), tree) == ["c.md:1: dealt"]
    assert len(texts()) > 300
