"""set_progress: how far long calls are, for a function, as lines and as bars."""

import pytest

import meshsolve as ms
from helpers import end_log, run_fresh

pytestmark = pytest.mark.file_in_parts

# Orders grow until a call takes long enough for a report, whatever the machine.
LONG = """
import time
rows, n, seconds = NamedSharding(mesh_of(range(2)), P("x", None)), 3072, 0
while seconds < 2.5:
    n += 768
    a = jax.jit(lambda: jnp.eye(n), out_shardings=rows)()
    ms.inv(a).block_until_ready()
    took = ms.last_call()["seconds"]
    seconds = took["total"] - took["wait"]
"""


@pytest.fixture(autouse=True)
def nothing_is_shown():
    yield
    ms.set_progress(False)
    end_log()


def test_a_function_gets_shares_of_the_work():
    ran = run_fresh(
        f"""
        found = []
        ms.set_progress(found.append)
        exec({LONG!r})
        ms.solve(a[:64, :64], np.ones(64)).block_until_ready()
        while not found or found[-1][1:3] != (n, "done"):
            time.sleep(0.01)
        tell([progress for progress in found if progress.n == n], took)
        """
    )
    reports, took = ran.reported
    name, _, stage, share, elapsed, remaining = zip(*reports, strict=True)
    # Calls of inv alone are reported, the short one of solve is not.
    assert {*name} == {"lu_inverse"} and {*stage} <= {"factor", "invert", "done"}
    assert stage[-1] == "done" and len(stage) > 1
    assert list(share) == sorted(share) and 0 < share[0] < 1 == share[-1]
    assert elapsed[0] >= 1 and list(elapsed) == sorted(elapsed)
    assert elapsed[-1] == took["total"] - took["wait"] < took["total"]
    assert remaining[0] > remaining[-1] == 0
    assert remaining[0] == pytest.approx(elapsed[0] * (1 - share[0]) / share[0])


@pytest.mark.parametrize("bars", [True, False])
def test_bars_and_lines(bars):
    hide = "" if bars else "import sys; sys.modules['tqdm.auto'] = None"
    ran = run_fresh(f"{hide}\nms.set_progress(True)\n{LONG}\ntime.sleep(0.3)")
    assert "meshsolve lu_inverse, n = " in ran.err
    if bars:
        assert "100 %|" in ran.err
    else:
        assert " s left" in ran.err and "100 % done, " in ran.err


def test_an_error_of_the_function_is_logged_and_ends_the_reports():
    ran = run_fresh(
        f"""
        calls = []
        def show(progress):
            calls.append(progress)
            raise KeyError("mine")
        ms.set_progress(show)
        exec({LONG!r})
        end = time.monotonic() + 20
        while not calls and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.3)
        tell(len(calls))
        """
    )
    assert ran.reported == [1]
    assert "the function of meshsolve.set_progress has failed" in ran.err
    assert "KeyError: 'mine'" in ran.err


def test_something_else_is_refused():
    message = "set_progress: show: expected True, False or a function, got str"
    with pytest.raises(TypeError, match=message):
        ms.set_progress("yes")
    ms.set_progress(True)
