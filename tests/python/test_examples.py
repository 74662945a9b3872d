"""The numbered examples, each as users run it, in a process without settings for JAX."""

import os
import subprocess
import sys

import pytest

from helpers import ROOT

pytestmark = pytest.mark.file_in_parts

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def run_example(name, *arguments, **environment) -> str:
    """The output; an example that fails also fails the test."""
    (path,) = (ROOT / "examples").glob(f"{name}*.py")
    ours = ("JAX_PLATFORMS", "JAX_ENABLE_X64", "XLA_FLAGS", "MESHSOLVE_CACHE_DIR")
    env = {key: value for key, value in os.environ.items() if key not in ours} | environment
    command = [sys.executable, path, *arguments]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr[-4000:]}"
    return ran.stdout


def number(out: str, before: str) -> float:
    """The first number after a text."""
    return float(out.partition(before)[2].split()[0].strip(",;"))


def test_they_are_short_and_each_is_on_the_page_of_examples():
    page = (ROOT / "docs/examples.md").read_text()
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) < 80, f"{path.name} has 80 lines or more"
        assert f"examples/{path.name}" in page, f"{path.name} is not on the page"
        assert f"pictures/{path.stem}.svg" in page
        assert (ROOT / f"docs/pictures/{path.stem}.svg").stat().st_size < 150_000


def test_pictures(tmp_path):
    """Two pictures of examples, and the plot of memory."""
    for script in (["docs/pictures.py", "07", "08", "--out"], ["benchmarks/memory_report.py"]):
        command = [sys.executable, ROOT / script[0], *script[1:], tmp_path]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert ran.returncode == 0, ran.stderr
    made = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    names = {"07_ffi_call.svg", "08_arrays_of_structures.svg", "memory-cpu.svg"}
    assert set(made) == names and min(made.values()) > 2000


def test_digits():
    out = run_example("01", "--samples", "400", "--no-compare")
    assert "4 CPU devices" in out and "peak memory" in out and "jax.scipy" not in out
    assert number(out, "accuracy") > 90 and number(out, "residual ratio") <= 3


def test_a_synthetic_kernel_beside_jax_scipy():
    out = run_example("01", "--n", "512")
    assert "Matern" in out and number(out, "residual ratio") <= 3
    ours, theirs = (line.split() for line in out.splitlines()[-2:])
    assert ours[:-5] == ["meshsolve.solve,", "in", "place"]
    assert theirs[:-5] == ["jax.scipy", "on", "the", "same", "shards"]
    for *_, seconds, memory, times, a, ratio in (ours, theirs):
        # The system counts the memory of a process up to some hundred KiB; A has 2 MiB.
        assert (times, a) == ("x", "A") and float(seconds) < 60 and float(memory) > -0.5
        assert float(ratio) <= 3
    assert float(ours[-4]) < 1 < float(theirs[-4])


def test_all_visible_devices():
    out = run_example("02", "--n", "512")
    lines = [line.split() for line in out.splitlines()[2:]]
    assert [line[0] for line in lines] == ["4", "2", "1"]
    assert all(float(line[-1]) < 3 for line in lines)


def test_direct_call():
    out = run_example("07")
    assert "info 0" in out and "on 4 devices" in out and number(out, "residual ratio") <= 3


@pytest.mark.parametrize("devices", [pytest.param(1, marks=pytest.mark.tools), 4])
def test_arrays_of_structures(devices):
    flags = f"--xla_force_host_platform_device_count={devices}"
    out = run_example("08", "--n", "100003", XLA_FLAGS=flags)
    assert f"on {devices} CPU devices" in out and "the same as by copies: True" in out


def test_gaussian_process():
    out = run_example("03", "--n", "400")
    first, best = number(out, "loss"), number(out, "->")
    assert best < first - 0.3 and number(out, "gradient") < 1e-5
    assert number(out, "held out") < number(out, "nearest given height:")


def test_natural_gradient():
    out = run_example("04", "--samples", "256", "--steps", "40")
    assert 0 < number(out, "exactly -15.322595:") < 1e-3


def test_scattering():
    out = run_example("05", "--n", "256")
    assert number(out, "off Mie's series") < 1e-12 and number(out, "off a source's") < 1e-12


def test_reuse_of_a_factor():
    out = run_example("06", "--n", "256", "--steps", "20")
    assert number(out, "largest error") < 1e-12 and "a step without" in out


def test_lineax():
    out = run_example("09", "--n", "256")
    assert number(out, "estimate") < 1e-8 and number(out, "gradient") < 1e-4
    assert number(out, "->") < number(out, "misfit")


def test_least_squares():
    out = run_example("10", "--m", "4000", "--given", "400")
    lines = [line.split() for line in out.splitlines()[2:6]]
    assert [line[0] for line in lines] == ["7", "9", "11", "13"]
    assert float(lines[0][2]) < 1e-8 and float(lines[3][2]) < 1e-4 and not float(lines[3][5]) < 1
    assert number(out, "gradient") < 1e-5 and number(out, "->") < number(out, "held out")
    assert number(out, "others") < number(out, "without a ridge term")


def test_eigenproblem():
    out = run_example("11", "--side", "16")
    assert number(out, "free, eigenvalues") < 1e-12 and number(out, "of the energy") < 1e-12
    assert abs(number(out, "Chern number") - 1) < 0.01
    assert abs(number(out, "per flux quantum:") - 1) < 0.01 and number(out, "derivative") < 1e-6


def test_devices_of_one_process():
    """tests/python/test_several_processes.py runs it with several."""
    out = run_example("12", "--n", "256")
    assert out.count("1 process(es), 4 devices, n = 256") == 2
    assert number(out, "b^T A^-1 b =") > 3
