"""Parts of the cases of tests (``tests/conftest.py``)."""

import collections
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
FILES = "test_words.py", "test_processes.py"  # the second one has the marker


def cases(every: str, part: str, of: str = "test") -> list[set[str]]:
    """Of each file."""
    files = [HERE / name for name in FILES]
    options = ["-q", "--collect-only", "-p", "no:cacheprovider", *files]
    env = os.environ | {"TESTS_EVERY": every, "TESTS_PART": part, "TESTS_OF": of}
    command = [sys.executable, "-m", "pytest", *options]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    return [{line for line in lines if f"{name}::" in line} for name in FILES]


def test_each_case_is_in_a_part():
    """Three or more cases of a test or file are in different parts; a single one is in all."""
    everything, all_of_file = cases("1", "0")
    three = [cases("3", part) for part in ("0", "10", "fffffffe")]  # 0, 1 and 2
    parts, of_file = zip(*three, strict=True)
    assert set.union(*parts) == everything and set.union(*of_file) == all_of_file
    counts = collections.Counter(re.sub(r"\[.*", "", case) for case in everything)
    single = {case for case in everything if case in counts and counts[case] == 1}
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert parts[one] & parts[other] == single
        assert not of_file[one] & of_file[other]
    assert single and max(counts.values()) > 6
    sizes, of_one = [len(part) for part in parts], [len(part) for part in of_file]
    assert max(sizes) - min(sizes) <= len(counts)
    assert min(of_one) and max(of_one) - min(of_one) <= 1


def test_tests_of_every_file_are_cases_of_one():
    """So that a part of a file leaves out tests with one case, too."""
    everything = cases("1", "0", of="file")
    parts = [cases("2", part, of="file") for part in ("0", "1")]
    for all_of_file, one, other in zip(everything, *parts, strict=True):
        assert one | other == all_of_file and not one & other
        assert one and abs(len(one) - len(other)) <= 1
