"""Parts of the cases of tests (``tests/conftest.py``)."""

import collections
import itertools
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
# The first one has the marker `whole_file`, the second one `file_in_parts`.
FILES = "test_words.py", "test_processes.py", "test_storage.py"


def cases(every: str, part: str, of: str = "test") -> list[set[str]]:
    """Of each file, the cases in a part."""
    files = [HERE / name for name in FILES]
    options = ["-q", "--collect-only", "-p", "no:cacheprovider", *files]
    env = os.environ | {"TESTS_EVERY": every, "TESTS_PART": part, "TESTS_OF": of}
    command = [sys.executable, "-m", "pytest", *options]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    return [{line for line in lines if f"{name}::" in line} for name in FILES]


@pytest.mark.parametrize("of", ["test", "few"])
def test_each_case_is_in_a_part(of):
    """In one only, unless it is one of few of its test, and these run always."""
    three = [cases("3", part, of) for part in ("0", "10", "fffffffe")]  # parts 0, 1 and 2
    for name, whole, *parts in zip(FILES, cases("1", "0", of), *three, strict=True):
        assert set.union(*parts) == whole
        counts = collections.Counter(re.sub(r"\[.*", "", case) for case in whole)
        few = {case for case in whole if counts[re.sub(r"\[.*", "", case)] < 3}
        assert few and (name == FILES[1] or max(counts.values()) > 6)
        run_always = name != FILES[1] and (of == "test" or name == FILES[0])
        assert set.intersection(*parts) == (
            {c for c in few if c in counts} if run_always else set()
        )
        for one, other in itertools.combinations(parts, 2):
            assert one & other <= (few if run_always else set())
        sizes = [len(part) for part in parts]
        assert min(sizes) and max(sizes) - min(sizes) <= len(counts)


def test_tests_of_every_file_are_cases_of_one():
    """So that a part of a file leaves out tests with one case, too."""
    everything = cases("1", "0", of="file")
    parts = [cases("2", part, of="file") for part in ("0", "1")]
    for all_of_file, one, other in zip(everything, *parts, strict=True):
        assert one | other == all_of_file and not one & other
        assert one and abs(len(one) - len(other)) <= 1
