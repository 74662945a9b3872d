"""set_progress: how far long calls are, for a function, as lines and as bars."""

import pytest

import meshsolve as ms
from helpers import run_fresh

# About two seconds on two cores, which is long enough for a report.
LONG = """
mesh = mesh_of(range(2))
a = jax.jit(lambda: jnp.eye(6144), out_shardings=NamedSharding(mesh, P("x", None)))()
ms.inv(a).block_until_ready()
"""


@pytest.fixture(autouse=True)
def nothing_is_shown():
    yield
    ms.set_progress(False)


def test_a_function_gets_shares_of_the_work():
    ran = run_fresh(
        f"""
        import time
        found = []
        ms.set_progress(found.append)
        exec({LONG!r})
        ms.solve(a[:64, :64], np.ones(64)).block_until_ready()
        while not found or found[-1].stage != "done":
            time.sleep(0.01)
        tell(found)
        """
    )
    (reports,) = ran.reported
    name, n, stage, share, elapsed, remaining = zip(*reports, strict=True)
    assert {*name} == {"lu_inverse"} and {*n} == {6144}
    assert stage[-1] == "done" and "invert" in stage
    assert list(share) == sorted(share) and 0 < share[0] < 1 == share[-1]
    assert elapsed[0] >= 1 and list(elapsed) == sorted(elapsed)
    assert remaining[0] > remaining[-1] == 0
    assert remaining[0] == pytest.approx(elapsed[0] * (1 - share[0]) / share[0])


@pytest.mark.parametrize("bars", [True, False])
def test_bars_and_lines(bars):
    hide = "" if bars else "import sys; sys.modules['tqdm.auto'] = None"
    ran = run_fresh(f"{hide}\nms.set_progress(True)\n{LONG}\nimport time; time.sleep(0.3)")
    assert "meshsolve lu_inverse, n = 6144: " in ran.err
    if bars:
        assert "100 %|" in ran.err
    else:
        assert " s left" in ran.err and "100 % done, " in ran.err


def test_an_error_of_the_function_is_logged_and_ends_the_reports():
    ran = run_fresh(
        f"""
        import time
        def show(progress):
            print("called")
            raise KeyError("mine")
        ms.set_progress(show)
        exec({LONG!r})
        time.sleep(0.3)
        """
    )
    assert ran.out.count("called") == 1
    assert "the function of meshsolve.set_progress has failed" in ran.err
    assert "KeyError: 'mine'" in ran.err


def test_something_else_is_refused():
    message = "set_progress: show: expected True, False or a function, got str"
    with pytest.raises(TypeError, match=message):
        ms.set_progress("yes")
    ms.set_progress(True)
