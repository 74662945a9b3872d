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
    "figures": "_last = last_call\nlast_call = lambda: _last() | {'scratch_bytes': 1 << 40}\n",
    "sharding": "import jax\n_norm = norm\nnorm = lambda *a, **k: jax.device_put(_norm(*a, **k), "
    "jax.devices()[0])\n",
    "crash": "import os\nnorm = lambda *a, **k: os._exit(3)\n",
    # One copy of A.
    "peak": "import numpy as np\n_norm = norm\n"
    "def norm(a, *b, **k):\n    np.array(a).sum()\n    return _norm(a, *b, **k)\n",
    "time": "import time\n_norm = norm\n"
    "def norm(*a, **k):\n    time.sleep(0.05)\n    return _norm(*a, **k)\n",
}


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import compare

    return compare


def test_cases_meet_in_pairs(compare):
    from compare_cases import AXES, COUNT, DTYPES, RANKS, RHS, ROUTINES, STORAGES, WAYS

    cases = compare.cases()
    assert len(cases) == len(set(cases)) == COUNT and cases == compare.cases()
    kinds = enumerate((ROUTINES, DTYPES, STORAGES, RANKS, AXES, RHS, WAYS))
    for (i, of_i), (j, of_j) in itertools.combinations(kinds, 2):
        assert {(case[i], case[j]) for case in cases} == set(itertools.product(of_i, of_j))


QUICK = ("", "bits")


@pytest.mark.parametrize(
    "defect", [pytest.param(d, marks=() if d in QUICK else pytest.mark.tools) for d in DEFECTS]
)
def test_differences_are_found(compare, monkeypatch, tmp_path, defect):
    """Times of a busy machine differ, too: only a sleep is long enough for a test."""
    monkeypatch.setattr(compare, "ROUNDS", 3)
    monkeypatch.setattr(compare, "MARGIN", 2.0)
    for name, value in compare.ALLOCATOR.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "new"
    shutil.copytree(PACKAGE, folder / "meshsolve")
    with open(folder / "meshsolve/__init__.py", "a") as module:
        module.write(DEFECTS[defect])
    routine = "wrong shape" if defect == "message" else "norm fro"
    number = next(
        i
        for i, case in enumerate(compare.cases())
        if (case.routine, case.way) == (routine, "eager")
        and (defect == "message" or (case.dtype, case.ranks > 1) == ("complex128", True))
    )
    [(_, line)] = compare.lines(str(PACKAGE.parent), str(folder), [number])
    assert line["case"].startswith(routine)
    # An array that is copied takes time, too.
    found = {*line["differs"].split()} - ({"time"} if defect == "peak" else set())
    assert found == {"sharding": {"bits"}, "": set()}.get(defect, {defect})


def test_what_is_measured_differs_again(compare):
    line = lambda *words: {"differs": " ".join(words)}  # noqa: E731
    assert compare.repeated(line("time"), line()) == line()
    assert compare.repeated(line("time"), line("time")) == line("time")
    assert compare.repeated(line("peak"), line("time")) == line()
    assert compare.repeated(line("bits", "time"), line()) == line("bits")
    assert compare.repeated(line("time"), line("message")) == line("message")
