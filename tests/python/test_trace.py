"""``MESHSOLVE_TRACE``: a file of the workers' spans, in separate processes."""

import json
import re

import pytest

from helpers import run_fresh

pytestmark = pytest.mark.versions

TWO_SOLVES = """
mesh = mesh_of(range(2))
a, b = np.eye(96) + 0.01, np.ones(96)
for spec, assume in ((("x", None), "pos"), ((None, "x"), "gen")):
    x = ms.solve(put(mesh, a, *spec), b, assume_a=assume)
    x.block_until_ready()
    np.testing.assert_allclose(a @ x, b)
"""


def test_two_solves_are_in_one_file(tmp_path):
    env = {"MESHSOLVE_TRACE": str(tmp_path / "solves.json"), "MESHSOLVE_THREADS": "2"}
    [pid] = run_fresh("import os\ntell(os.getpid())" + TWO_SOLVES, env=env).reported
    [file] = tmp_path.iterdir()
    assert file.name == f"solves-{pid}.json"
    events = json.loads(file.read_text())
    assert {event["pid"] for event in events} == {pid}
    calls = [event for event in events if event["ph"] == "b"]
    reported = [(call["name"], call["args"]["call"], call["args"]["dtype"]) for call in calls]
    assert reported == [("posv n=96", 1, "float64"), ("gesv n=96", 2, "float64")]
    spans = [event for event in events if event["ph"] == "X"]
    rows = {(span["args"]["call"], span["tid"]) for span in spans}
    assert rows == {(1, 0), (1, 1), (2, 0), (2, 1)}
    names = [{span["name"] for span in spans if span["args"]["call"] == n} for n in (1, 2)]
    both = {"arrange", "factor", "solve", "barrier", "wait for panel", "update"}
    assert names[0] >= both | {"potrf", "trsm panel"} and "transpose" not in names[0]
    assert names[1] >= both | {"getrf panel", "swap rows", "transpose"}


def test_processes_have_files_of_their_own(tmp_path):
    env = {"MESHSOLVE_TRACE": str(tmp_path / "solves.json")}
    for _ in range(2):
        run_fresh("ms.transpose_inplace(jnp.ones((8, 4)))", env=env)
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    for file in files:
        [call] = [event for event in json.loads(file.read_text()) if event["ph"] == "b"]
        assert call["args"]["routine"] == "transpose"


def test_calls_that_fail_leave_a_complete_file(tmp_path):
    env = {"MESHSOLVE_TRACE": str(tmp_path / "failed")}
    run_fresh(
        """
        assert np.isnan(ms.solve(-np.eye(8), np.ones(8), assume_a="pos")).all()
        """,
        env=env,
    )
    [file] = tmp_path.iterdir()
    assert re.fullmatch(r"failed-\d+", file.name)
    assert [e["name"] for e in json.loads(file.read_text()) if e["name"] == "potrf"] == ["potrf"]


def test_a_file_that_cannot_be_written_is_told_once(tmp_path):
    path = tmp_path / "nowhere" / "solves.json"
    message = (
        f'meshsolve: MESHSOLVE_TRACE="{path}": expected a file that can be written, got: No such '
        "file or directory (os error 2); calls are not traced\n"
    )
    err = run_fresh(TWO_SOLVES, env={"MESHSOLVE_TRACE": str(path)}).err
    assert message in err and err.count("MESHSOLVE_TRACE") == 1


def test_without_the_variable_there_is_no_file(tmp_path):
    code = f"import os\nos.chdir({str(tmp_path)!r})" + TWO_SOLVES
    run_fresh(code, env={"MESHSOLVE_TRACE": ""})
    assert not list(tmp_path.iterdir())
