"""The comparator of two builds: it finds what differs, and nothing else."""

import itertools
import pathlib
import shutil

import pytest

import meshsolve
from helpers import ROOT

PACKAGE = pathlib.Path(meshsolve.__file__).parent
# Appended to `meshsolve/__init__.py`: a defect, and the word that a line has for it.
DEFECTS = {
    "": "",
    "bits": "_norm = norm\nnorm = lambda *a, **k: _norm(*a, **k) * (1 + 2**-50)\n",
    "message": "def solve(*a, **k): raise ValueError('something else')\n",
    "scratch": "_last = last_call\nlast_call = lambda: _last() | {'scratch_bytes': 1}\n",
    "peak": "import numpy as np\n_norm = norm\n"
    "def norm(*a, **k):\n    np.ones(2 << 20).sum()\n    return _norm(*a, **k)\n",
    "time": "import time\n_norm = norm\n"
    "def norm(*a, **k):\n    time.sleep(0.05)\n    return _norm(*a, **k)\n",
}


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import compare

    return compare


def test_cases_meet_in_pairs(compare):
    from compare_cases import COUNT, DTYPES, RANKS, ROUTINES, STORAGES, WAYS

    cases = compare.cases()
    assert len(cases) == len(set(cases)) == COUNT and cases == compare.cases()
    kinds = enumerate((ROUTINES, DTYPES, STORAGES, RANKS, WAYS))
    for (i, of_i), (j, of_j) in itertools.combinations(kinds, 2):
        assert {(case[i], case[j]) for case in cases} == set(itertools.product(of_i, of_j))


@pytest.mark.parametrize("defect", DEFECTS)
def test_differences_are_found(compare, monkeypatch, tmp_path, defect):
    """Times of a busy machine differ, too: only a sleep is long enough for a test."""
    import turns

    monkeypatch.setattr(compare, "ROUNDS", 3)
    monkeypatch.setattr(compare, "MARGIN", 2.0)
    folder = tmp_path / "new"
    shutil.copytree(PACKAGE, folder / "meshsolve")
    with open(folder / "meshsolve/__init__.py", "a") as module:
        module.write(DEFECTS[defect])
    routine = "wrong shape" if defect == "message" else "norm fro"
    number = next(
        i
        for i, case in enumerate(compare.cases())
        if case.routine == routine and case.way == "eager"
    )
    old, script = str(PACKAGE.parent), compare.__file__
    workers = {
        name: turns.Worker([script, "--serve", str(where)], name, False)
        for name, where in (("old", old), ("new", folder), ("again", old))
    }
    try:
        for worker in workers.values():
            worker.ask("prepare")
        line = compare.compared(workers, number)
    finally:
        for worker in workers.values():
            worker.end()
    assert line["case"].startswith(routine)
    # An array that is made takes time, too.
    assert line["differs"] == {"peak": "peak time"}.get(defect, defect)
