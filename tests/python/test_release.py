"""The metadata of a release: one version everywhere, allowed licences, extras of JAX."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import meshsolve as ms
from helpers import ROOT
from meshsolve import _core

sys.path.insert(0, str(ROOT / "release"))
import licences

pytestmark = pytest.mark.whole_file


def test_one_version():
    """The version of Cargo.toml."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    changes = re.search(r"^## (\S+), ", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert ms.__version__ == importlib.metadata.version("meshsolve") == version == changes[1]


def test_the_wheel_has_no_benchmarks_and_no_faults():
    """It has neither their functions nor their texts; `benchmarks/native` builds both."""
    functions = ("gemm_seconds", "peak_flops", "faer_solve", "cuda_ranks", "cuda_transposition")
    texts = [name.encode() for name in (*functions, "was asked to fail", "check.cu")]
    wheel = pathlib.Path(_core.__file__).read_bytes()
    [bench] = (ROOT / "build/native").glob("meshsolve_bench*.so")
    assert not any(hasattr(_core, name) for name in functions)
    assert not any(text in wheel for text in texts)
    assert all(text in bench.read_bytes() for text in texts)
    assert "diagnose" not in _core.routine_table()


def test_the_oldest_jax_is_the_same_everywhere():
    project = (ROOT / "pyproject.toml").read_text()
    built = re.search(r"jaxlib==([\d.]+)", project)[1]
    assert set(re.findall(r"jax(?:\[[\w-]+\])?>=([\d.]+)", project)) == {built}
    assert f"OLDEST_JAX := {built}\n" in (ROOT / "Makefile").read_text()


def test_extras_are_those_of_jax():
    of_jax = importlib.metadata.metadata("jax").get_all("Provides-Extra")
    needed = importlib.metadata.requires("meshsolve")
    for extra in ("cuda12", "cuda13", "cuda12-local", "cuda13-local"):
        assert extra in of_jax
        (line,) = [line for line in needed if f"extra == '{extra}'" in line]
        assert line.startswith(f"jax[{extra}]>=")


def test_the_pythons_of_the_environments():
    """If only this one exists, it serves one of the two environments, and a message names the
    other.
    """
    alone = {"PATH": "", "PYENV_ROOT": "/nowhere", "HOME": "/nowhere"}
    is_new = sys.version_info >= (3, 12)
    for which, fits in (("newest", is_new), ("oldest", sys.version_info[:2] == (3, 11))):
        for more in ([], ["--or-else"]):
            command = [sys.executable, str(ROOT / "release/pythons.py"), which, *more]
            ran = subprocess.run(command, env=alone, capture_output=True, text=True)
            wanted = {"newest": "3.12 or newer", "oldest": "3.11"}[which]
            none = f"No Python {wanted} that runs is on PATH or among pyenv's versions: "
            if fits or more:
                assert (ran.returncode, ran.stdout) == (0, f"{sys.executable}\n")
            else:
                assert ran.returncode == 1 and ran.stderr == f"{none}install one.\n"
            if more and not fits:
                assert ran.stderr == f"{none}taking {sys.executable}.\n"


@pytest.mark.parametrize(
    ("expression", "is_allowed", "is_ours"),
    [
        ("MIT", True, False),
        ("MIT/Apache-2.0", True, True),
        ("MIT OR GPL-3.0-only", True, False),
        ("MIT AND GPL-3.0-only", False, False),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True, False),
        ("GPL-2.0-only OR (Apache-2.0 AND GPL-3.0-only)", False, False),
        ("MPL-2.0 OR Apache-2.0 WITH LLVM-exception", True, False),
        ("MIT Apache-2.0", False, False),
        ("", False, False),
        (None, False, False),
    ],
)
def test_expressions_of_licences(expression, is_allowed, is_ours):
    assert licences.satisfied(expression, licences.ALLOWED) == is_allowed
    assert licences.satisfied(expression, licences.OURS) == is_ours


def test_dependencies_that_cannot_be():
    """By licence, by source, by the version of Rust; an allowed one has no faults."""
    package = {"name": "it", "version": "1.0", "license": "MIT OR GPL-3.0-only"}
    package |= {"source": licences.SOURCE, "rust_version": "1.85"}
    assert licences.faults(package, "1.89") == []
    assert licences.faults(package | {"source": None, "rust_version": None}, "1.89") == []
    copyleft = licences.faults(package | {"license": "GPL-3.0-only"}, "1.89")
    assert len(copyleft) == 1 and copyleft[0].endswith("got GPL-3.0-only")
    fork = licences.faults(package | {"source": "git+https://example.org/it"}, "1.89")
    assert fork == ["it 1.0: expected a package of crates.io, got git+https://example.org/it"]
    newer = licences.faults(package | {"rust_version": "1.89.1"}, "1.89")
    assert newer == ["it 1.0: expected Rust 1.89 or older, got 1.89.1"]


def test_circles_among_modules_are_found(tmp_path):
    """Modules of a folder use each other in one direction. Parents and children use each other."""
    texts = {
        "lib.rs": "mod a;\nmod b;",
        "a/mod.rs": "mod deep;\npub use deep::X;\nuse crate::b::{self, Y};",
        "a/deep.rs": "use super::Z;\nuse crate::b::Y; // use crate::b::W;",
        "b.rs": "pub struct Y;",
    }
    (tmp_path / "a").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, str(ROOT / "release/circles.py"), str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""
    (tmp_path / "b.rs").write_text("fn f() { crate::a::deep::run(); }")
    inline = subprocess.run(command, capture_output=True, text=True).stdout
    assert "b -> a: b uses crate::a::deep::run\n" in inline
    (tmp_path / "b.rs").write_text("use std::sync::Arc;\nuse crate::{c, a::deep::{X as Z}};")
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stdout == (
        "a -> b: a uses crate::b::self\n"
        "b -> a: b uses crate::a::deep::X\n"
        "expected modules that use each other in one direction, got this circle\n"
    )
