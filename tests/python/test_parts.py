"""Parts of the cases of tests (``tests/conftest.py``)."""

import collections
import itertools
import os
import re
import subprocess
import sys

import pytest

from helpers import ROOT

FILES = {"test_plain.py": "", "test_whole.py": "whole_file", "test_in_parts.py": "file_in_parts"}
TESTS = """
import pytest

pytestmark = [MARKERS]

def test_one():
    pass

def test_other():
    pass

@pytest.mark.parametrize("case", range(2))
def test_two(case):
    pass

@pytest.mark.parametrize("case", range(20))
def test_many(case):
    pass
"""


@pytest.fixture
def cases(tmp_path):
    """A function: of each file, the cases in a part."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    for name, marker in FILES.items():
        code = TESTS.replace("MARKERS", marker and f"pytest.mark.{marker}")
        (tmp_path / name).write_text(code)

    def of_part(every: str, part: str, of: str) -> list[set[str]]:
        options = ["-q", "--collect-only", "-p", "no:cacheprovider", "--rootdir", tmp_path]
        env = os.environ | {"TESTS_EVERY": every, "TESTS_PART": part, "TESTS_OF": of}
        command = [sys.executable, "-m", "pytest", *options, *(tmp_path / name for name in FILES)]
        run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        lines = run.stdout.splitlines()
        return [{line for line in lines if f"{name}::" in line} for name in FILES]

    return of_part


@pytest.mark.parametrize("of", ["test", "few"])
def test_each_case_is_in_a_part(cases, of):
    """In one only, unless it is one of few of its test, and these run always."""
    three = [cases("3", part, of) for part in ("0", "1", "fffffffe")]  # parts 0, 1 and 2
    for name, whole, *parts in zip(FILES, cases("1", "0", of), *three, strict=True):
        assert set.union(*parts) == whole and len(whole) == 24
        run_always = name != "test_in_parts.py" and (of == "test" or name == "test_whole.py")
        single = {case for case in whole if case.endswith(("_one", "_other"))}
        assert set.intersection(*parts) == (single if run_always else set())
        for one, other in itertools.combinations(parts, 2):
            assert run_always or not one & other
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 2
        counts = [collections.Counter(re.sub(r"\[.*", "", case) for case in p) for p in parts]
        many = [sum(n for name, n in count.items() if name.endswith("many")) for count in counts]
        assert name == "test_in_parts.py" or sorted(many) == [6, 7, 7]


def test_tests_of_every_file_are_cases_of_one(cases):
    """So that a part of a file leaves out tests with one case, too."""
    parts = [cases("2", part, "file") for part in ("0", "1")]
    for whole, one, other in zip(cases("1", "0", "file"), *parts, strict=True):
        assert one | other == whole and not one & other
        assert len(one) == len(other) == 12


def test_an_unknown_choice_is_an_error(cases):
    with pytest.raises(subprocess.CalledProcessError) as error:
        cases("2", "0", "files")
    assert "TESTS_OF: test, few or file, not 'files'" in error.value.stdout + error.value.stderr
