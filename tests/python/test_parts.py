"""Parts of the cases of tests (``tests/conftest.py``)."""

import collections
import os
import pathlib
import re
import subprocess
import sys

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


def test_each_case_is_in_a_part():
    """In one only, unless it is one of few in a file of which such cases run always."""
    everything = cases("3", "0"), cases("3", "10"), cases("3", "fffffffe")  # parts 0, 1 and 2
    for name, whole, *three in zip(FILES, cases("1", "0"), *everything, strict=True):
        assert set.union(*three) == whole
        counts = collections.Counter(re.sub(r"\[.*", "", case) for case in whole)
        few = {case for case in whole if counts[re.sub(r"\[.*", "", case)] < 3}
        assert few and (max(counts.values()) > 6 or name == "test_processes.py")
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert three[one] & three[other] == (few if name == "test_words.py" else set())
        sizes = [len(part) for part in three]
        assert min(sizes) and max(sizes) - min(sizes) <= len(counts)


def test_tests_of_every_file_are_cases_of_one():
    """So that a part of a file leaves out tests with one case, too."""
    everything = cases("1", "0", of="file")
    parts = [cases("2", part, of="file") for part in ("0", "1")]
    for all_of_file, one, other in zip(everything, *parts, strict=True):
        assert one | other == all_of_file and not one & other
        assert one and abs(len(one) - len(other)) <= 1
