"""Parts of the cases of tests (``tests/conftest.py``)."""

import collections
import os
import pathlib
import re
import subprocess
import sys

WORDS = pathlib.Path(__file__).with_name("test_words.py")


def cases(every: str, part: str) -> set[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-p",
        "no:cacheprovider",
        WORDS,
    ]
    env = os.environ | {"TESTS_EVERY": every, "TESTS_PART": part}
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return {line for line in run.stdout.splitlines() if "test_words.py::" in line}


def test_each_case_is_in_a_part():
    """Three or more cases of a test are in different parts; a single one is in all."""
    everything = cases("1", "0")
    parts = [cases("3", part) for part in ("0", "10", "fffffffe")]  # 0, 1 and 2
    assert set.union(*parts) == everything
    counts = collections.Counter(re.sub(r"\[.*", "", case) for case in everything)
    single = {case for case in everything if case in counts and counts[case] == 1}
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert parts[one] & parts[other] == single
    assert single and max(counts.values()) > 6
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= len(counts)
