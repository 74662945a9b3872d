"""``TESTS_EVERY=5`` in the environment runs one of five parts of the cases of each test, and one
case at least. ``TESTS_PART``, a hexadecimal number as that of a commit, chooses the part. In a file
with the marker ``file_in_parts`` all tests are cases of one; with ``TESTS_OF=file`` in every file.
With ``TESTS_OF=few`` the tests of a file that have up to three cases are cases of one, of which a
third runs, unless the file has the marker ``whole_file``. The end of a run says so, and what has
taken the time of the tests.
"""

import collections
import hashlib
import os
import sys
import time

import pytest

EVERY = int(os.environ.get("TESTS_EVERY", "1"))
TESTS_OF = os.environ.get("TESTS_OF", "test")
assert TESTS_OF in ("test", "few", "file"), f"TESTS_OF: test, few or file, not {TESTS_OF!r}"
NUMBER = int(os.environ.get("TESTS_PART", "0"), 16)


@pytest.hookimpl(trylast=True)  # of the selected tests
def pytest_collection_modifyitems(config, items):
    counts = collections.Counter((item.path, item.originalname) for item in items)
    tests = collections.defaultdict(list)
    for item in items:
        name, every = item.originalname, EVERY
        if TESTS_OF == "file" or item.get_closest_marker("file_in_parts"):
            name = None
        elif item.get_closest_marker("whole_file"):
            pass
        elif TESTS_OF == "few" and counts[item.path, name] <= 3:
            name, every = None, min(EVERY, 3)
        tests[item.path, name, every].append(item)
    kept = set()
    for (*_, every), cases in tests.items():
        # By their order, a part could have one value of an option alone.
        cases.sort(key=lambda item: hashlib.md5(item.nodeid.encode()).digest())
        kept.update(cases[NUMBER % min(every, len(cases)) :: every])
    left = [item for item in items if item not in kept]
    items[:] = [item for item in items if item in kept]
    config.hook.pytest_deselected(items=left)


# Seconds of the tests of this process, in all and by parts; at the end of all processes.
SPENT = collections.Counter()
COMPILING = "/jax/core/compile/backend_compile_duration"


def pytest_collection_finish():
    if (jax := sys.modules.get("jax")) is None:  # no test compiles
        return

    def add(event, seconds, **_):
        if event == COMPILING:
            SPENT["compiling"] += seconds

    jax.monitoring.register_event_duration_secs_listener(add)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    begun, worked = time.perf_counter(), time.process_time()
    done = yield
    SPENT["all"] += time.perf_counter() - begun
    SPENT["working"] += time.process_time() - worked
    return done


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["spent"] = dict(SPENT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    SPENT.update(getattr(node, "workeroutput", {}).get("spent", {}))


def pytest_terminal_summary(terminalreporter):
    if EVERY > 1:
        terminalreporter.write_line(
            f"part {NUMBER % EVERY} of {EVERY} of the cases of tests; TESTS_EVERY=1 has all of them"
        )
    terminalreporter.write_line(
        f"{SPENT['all']:.0f} s in tests, {SPENT['compiling']:.0f} s of them to compile; "
        f"{SPENT['working']:.0f} s of processor time, and the rest waits"
    )
