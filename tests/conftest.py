"""``TESTS_EVERY=5`` in the environment runs every fifth case of each test, the first one too."""

import collections
import os

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
