"""Ctrl-C, the end of the interpreter, forks, logging: each in its own process."""

import os
import re
import signal

import pytest

from helpers import run_fresh

pytestmark = [pytest.mark.file_in_parts, pytest.mark.versions]

# A call of a second or more on any machine, by one thread, and one that ends at once.
LONG = """
import os, signal, threading, time
mesh = mesh_of(range(2))
small = put(mesh, 2 * np.eye(8), "x", None)
def check():
    np.testing.assert_array_equal(ms.solve(small, np.ones(8)), np.full(8, 0.5))
check()
a = jax.block_until_ready(jax.device_put(jnp.eye(6144), NamedSharding(mesh, P("x", None))))
x = ms.solve(a, put(mesh, np.ones((6144, 1))), overwrite_a=True)
"""
ONE_THREAD = {"MESHSOLVE_THREADS": "1"}
# Background jobs of some shells ignore SIGINT.
INTERRUPTED = """
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    x.block_until_ready()
except KeyboardInterrupt:
    tell("interrupted" if not x.is_ready() else "over")
"""


def test_an_interrupted_call_goes_on_and_the_next_one_works():
    ran = run_fresh(LONG + INTERRUPTED + "check()\ntell(x.min(), x.max())", env=ONE_THREAD)
    assert ran.reported == ["interrupted", 1, 1]


def test_an_interrupted_call_is_ended_by_cancel():
    code = """
while not (ended := ms.cancel()):
    assert not x.is_ready()
try:
    x.block_until_ready()
except jax.errors.JaxRuntimeError as error:
    tell(str(error))
check()
tell(ended, ms.cancel())
"""
    state, error, *counts = run_fresh(LONG + INTERRUPTED + code, env=ONE_THREAD).reported
    assert state == "interrupted" and counts == [1, 0]
    assert error.startswith("CANCELLED: ")
    assert error.endswith("meshsolve: the call was ended by meshsolve.cancel()")


# A function that is registered before the library's first use runs after it at the end.
UNCAUGHT = (
    """
import atexit
def what_became_of_them():
    for y in (x, *later):
        try:
            y.block_until_ready()
            tell("over")
        except jax.errors.JaxRuntimeError as error:
            tell(str(error))
atexit.register(what_became_of_them)
"""
    + LONG
    + """
b = put(mesh, np.ones((64, 1)))
later = [ms.solve(put(mesh, np.eye(64), "x", None), b) for _ in range(2)]
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
"""
)


@pytest.mark.parametrize("wait", ["later[-1].block_until_ready()", "time.sleep(60)"])
def test_calls_are_ended_when_ctrl_c_is_not_caught(wait):
    """The running call, and those after it."""
    reported = run_fresh(UNCAUGHT + wait, env=ONE_THREAD, code_at_end=-signal.SIGINT).reported
    text = "meshsolve: the call was ended because the process ends"
    assert len(reported) == 3 and all(error.startswith("CANCELLED: ") for error in reported), (
        reported
    )
    assert all(error.endswith(text) for error in reported), reported


def test_what_a_program_prints_is_not_lost_at_the_end():
    code = """
def run(a, b):
    x = ms.solve(a, b)
    jax.debug.print("largest {}", x.max())
    return x
a = put(mesh_of(range(2)), 2 * np.eye(3072), "x", None)
x = jax.jit(run)(a, np.ones(3072))
tell(x.is_ready())
"""
    ran = run_fresh(code, env=ONE_THREAD)
    assert ran.reported == [False] and ran.out == "largest 0.5\n"


def test_the_interpreter_ends_during_a_call():
    assert run_fresh(LONG + "tell(x.is_ready())", env=ONE_THREAD).reported == [False]


def test_a_fork_is_refused_before_it_hangs():
    ran = run_fresh(
        """
        import os, signal, warnings
        warnings.simplefilter("ignore")
        mesh = mesh_of(range(2))
        a, b = put(mesh, 4 * np.eye(8), "x", None), put(mesh, np.ones(8))
        factor = ms.cho_factor(a)
        calls = {
            "solve": lambda: ms.solve(a, b), "jit": lambda: jax.jit(ms.det)(a),
            "factor": factor.logdet, "numpy": lambda: ms.inv(np.eye(3)),
            "transpose": lambda: ms.transpose_inplace(a), "target": ms.ffi_target,
        }
        for name, call in calls.items():
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                try:
                    call()
                except RuntimeError as error:
                    tell([name, str(error), os.getppid(), os.getpid()])
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, name
        np.testing.assert_array_equal(ms.solve(a, b), np.full(8, 0.25))
        """
    )
    names = ["solve", "jit", "factor", "numpy", "transpose", "target"]
    assert [name for name, *_ in ran.reported] == names
    for _, message, parent, child in ran.reported:
        assert message == (
            f"meshsolve: expected the process that has used it, {parent}, got a fork of that, "
            f"{child}; neither JAX nor meshsolve works there: start processes by "
            'multiprocessing\'s "spawn" or "forkserver", or fork before the first use'
        )


def test_a_fork_before_the_first_use_works():
    ran = run_fresh(
        """
        import os
        child = os.fork()
        np.testing.assert_array_equal(ms.solve(2 * np.eye(4), np.ones(4)), np.full(4, 0.5))
        if child:
            tell(os.waitpid(child, 0)[1])
        """
    )
    assert ran.reported == [0]


LOGGED = """
import logging
class Tell(logging.Handler):
    def emit(self, record):
        if record.name == "meshsolve":
            tell([record.levelname, record.getMessage()])
logging.basicConfig(level=logging.INFO, handlers=[Tell()])
"""


def test_a_line_for_each_call():
    code = """
mesh = mesh_of(range(4))
a = put(mesh, np.eye(96, dtype=np.float32), None, "x")
factor = ms.lu_factor(a)
jax.jit(lambda f, b: f.solve(b))(factor, np.ones((96, 3), np.float32)).block_until_ready()
ms.transpose_inplace(put(mesh, np.ones((8, 4)), "x", None)).block_until_ready()
"""
    levels, lines = zip(*run_fresh(LOGGED + code).reported, strict=True)
    assert levels == ("INFO",) * 4
    version = r"meshsolve \S+ registered with jax \S+ \(FFI API 0\.2\), \d+ thread\(s\) a call"
    assert re.fullmatch(version, lines[0])
    seconds = r"info 0: \d+\.\d{3} s \(wait \d+\.\d{3}, .*factor \d+\.\d{3}.*\)"
    assert re.fullmatch(
        rf"getrf: n = 96, float32, 4 device\(s\), \d+ worker\(s\), {seconds}", lines[1]
    )
    assert lines[2].startswith("getrs: n = 96, 3 right-hand side(s), float32, 4 device(s), ")
    assert lines[3].startswith("transpose: n = ")


def test_progress_of_a_long_call():
    ran = run_fresh(LOGGED + LONG + "x.block_until_ready()", env=ONE_THREAD)
    panels = [re.fullmatch(r"panel (\d+) of 48", line) for _, line in ran.reported]
    done = [int(panel[1]) for panel in panels if panel]
    assert done == sorted(done) and all(1 < panel <= 48 for panel in done)
    assert ran.reported[-1][1].startswith("gesv: n = 6144, ")


@pytest.mark.parametrize("level", ["WARNING", "INFO"])
def test_logging_that_is_off_starts_nothing(level):
    ran = run_fresh(
        f"""
        import logging, threading
        logging.getLogger("meshsolve").setLevel("{level}")
        ms.solve(np.eye(8), np.ones(8)).block_until_ready()
        tell(*(thread.name for thread in threading.enumerate()))
        """
    )
    assert ("meshsolve-log" in ran.reported) == (level == "INFO")


def test_little_work_has_one_thread_unless_more_are_asked_for():
    code = """
import os
{ask}
b = np.ones(640)
for dtype, k in (("float64", 1), ("float64", 2000), ("complex128", 1)):
    for n in (320, 512, 640):
        a = put(mesh_of(range(2)), np.eye(n, dtype=dtype), "x", None)
        jax.block_until_ready(ms.solve(a, np.ones((n, k))))
        tell(ms.last_call()["workers"])
"""
    left = 'del os.environ["MESHSOLVE_THREADS"]'
    two = 'os.environ["MESHSOLVE_THREADS"] = "2"'
    assert run_fresh(code.format(ask=two)).reported == [2] * 9
    several = run_fresh(code.format(ask=left)).reported
    little = [True, True, False, False, False, False, True, False, False]
    cores = len(os.sched_getaffinity(0))
    assert [count == 1 for count in several] == [few or cores == 1 for few in little]


def test_tiles_are_wide_where_every_worker_has_many():
    ran = run_fresh("""
        import os
        os.environ["MESHSOLVE_THREADS"] = "1"
        rng, mesh = np.random.default_rng(3), mesh_of(range(2))

        def tile_and_error(n, dtype, assume):
            a, x = normal(rng, (n, n), dtype), normal(rng, (n, 2), dtype)
            a = (a + a.T.conj() + 6 * n**0.5 * np.eye(n)).astype(dtype) if assume == "pos" else a
            b = put(mesh, a @ x)
            solved = np.asarray(ms.solve(put(mesh, a, "x", None), b, assume_a=assume))
            off = np.abs(a @ solved - np.asarray(b)).sum(0).max()
            norms = np.abs(a).sum(0).max() * np.abs(solved).sum(0).max()
            return ms.last_call()["tile"], off / (n * norms * np.finfo(dtype).eps / 2)

        for case in [(4094, "float32", "gen"), (4096, "float32", "pos")]:
            tell(tile_and_error(*case))
        factor = ms.lu_factor(put(mesh, np.eye(4096), "x", None))
        assert ms.inv(np.eye(4096), mesh=mesh)[0, 0] == 1
        tell("tile=256" in repr(factor), ms.last_call()["tile"])
    """)
    (general, off), (definite, off_definite), factor, inverse = ran.reported
    assert (general, definite, factor, inverse) == (128, 256, True, 128)
    assert max(off, off_definite) < 3
