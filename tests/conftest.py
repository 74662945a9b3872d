"""``TESTS_EVERY=5`` in the environment runs every fifth case of each test, the first one too. The
end of a run says what has taken the time of the tests.
"""

import collections
import os
import sys
import time

import pytest


@pytest.hookimpl(trylast=True)  # of the selected tests
def pytest_collection_modifyitems(config, items):
    every, seen = int(os.environ.get("TESTS_EVERY", "1")), collections.Counter()
    kept, left = [], []
    for item in items:
        test = (item.path, item.originalname)
        (kept if seen[test] % every == 0 else left).append(item)
        seen[test] += 1
    items[:] = kept
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
    terminalreporter.write_line(
        f"{SPENT['all']:.0f} s in tests, {SPENT['compiling']:.0f} s of them to compile; "
        f"{SPENT['working']:.0f} s of processor time, and the rest waits"
    )
