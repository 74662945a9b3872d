"""Parts of the cases of tests (``tests/conftest.py``)."""

import collections
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def cases(every: str, part: str, name: str) -> set[str]:
    options = ["-q", "--collect-only", "-p", "no:cacheprovider", HERE / name]
    env = os.environ | {"TESTS_EVERY": every, "TESTS_PART": part}
    command = [sys.executable, "-m", "pytest", *options]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return {line for line in run.stdout.splitlines() if f"{name}::" in line}


def parts_of_three(name: str) -> list[set[str]]:
    """All of them together are all cases."""
    parts = [cases("3", part, name) for part in ("0", "10", "fffffffe")]  # 0, 1 and 2
    assert set.union(*parts) == cases("1", "0", name)
    return parts


def test_each_case_is_in_a_part():
    """Three or more cases of a test are in different parts; a single one is in all."""
    parts = parts_of_three("test_words.py")
    everything = set.union(*parts)
    counts = collections.Counter(re.sub(r"\[.*", "", case) for case in everything)
    single = {case for case in everything if case in counts and counts[case] == 1}
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert parts[one] & parts[other] == single
    assert single and max(counts.values()) > 6
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= len(counts)


def test_all_tests_of_a_file_are_cases_of_one():
    """Where its marker says so."""
    parts = parts_of_three("test_processes.py")
    assert sum(map(len, parts)) == len(set.union(*parts))
    sizes = [len(part) for part in parts]
    assert min(sizes) and max(sizes) - min(sizes) <= 1
