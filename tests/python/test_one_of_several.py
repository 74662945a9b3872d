"""A large matrix that one of several devices solves gives one warning, whatever its origin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshsolve as ms
from helpers import mesh_of, put, run_fresh

pytestmark = pytest.mark.versions

CODE = """
import warnings
n, ones = 2048, jnp.ones(2048)
mesh, explicit = mesh_of(range(4)), mesh_of(range(4), "explicit")
a = put(mesh, 2 * np.eye(n), "x", None)
calls = {{
    "forgotten": lambda: ms.solve(2 * jnp.eye(n), ones),
    "made inside": lambda: jax.jit(lambda b: ms.solve(2 * jnp.eye(n), b))(ones),
    "closed over": lambda: jax.jit(lambda b: ms.solve(a, b))(ones),
    "factor": lambda: ms.cho_factor(2 * jnp.eye(n)).work,
    "distributed": lambda: ms.solve(a, ones),
    "mesh": lambda: ms.solve(2 * np.eye(n), ones, mesh=explicit),
    "groups": lambda: ms.solve(put(mesh, np.stack([2 * np.eye(n)] * 4), "x"), ones[:, None]),
    "small": lambda: ms.solve(2 * jnp.eye(512), ones[:512]),
}}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name in {names} * 2:
        calls[name]().block_until_ready()
for warning in caught:
    if "meshsolve" in str(warning.message):
        tell([warning.category.__name__, warning.filename, str(warning.message)])
"""
TEXT = (
    "meshsolve: a matrix of order 2048 is solved by 1 of 8 devices. For all "
    "of them distribute it, jax.device_put(a, NamedSharding(mesh, PartitionSpec('x', None))), or "
    "give mesh=; inside jax.jit give it as an argument, or constrain it where it is made "
    '(docs/sharding.md). warnings.filterwarnings("ignore", "meshsolve: ") silences this'
)


@pytest.mark.parametrize("name", ["forgotten", "made inside", "closed over", "factor"])
def test_a_warning_once(name):
    assert run_fresh(CODE.format(names=[name])).reported == [["UserWarning", "<string>", TEXT]]


def test_no_warning():
    """Of distributed matrices, and of small ones that one device can solve."""
    assert run_fresh(CODE.format(names=["distributed", "mesh", "groups", "small"])).reported == []


def test_the_warning_as_an_error():
    code = """
    import warnings
    warnings.simplefilter("error", UserWarning)
    try:
        ms.solve(2 * jnp.eye(2048), jnp.ones(2048)).block_until_ready()
    except UserWarning as warning:
        tell(str(warning))
    tell(ms.solve(2 * jnp.eye(8), jnp.ones(8)).max())
    """
    assert run_fresh(code).reported == [TEXT, 0.5]


def test_plan_and_last_call_tell():
    report = ms.plan(jax.ShapeDtypeStruct((4096, 4096), np.float64), np.ones(4096))
    assert (report.devices, report.visible) == (1, 8)
    assert "n = 4096, float64, 1 of 8 devices, one device\n" in str(report)
    on_all = ms.plan(put(mesh_of(range(8)), np.eye(8), "x", None))
    assert "n = 8, float64, 8 device(s), rows\n" in str(on_all)
    ms.solve(jnp.eye(8), jnp.ones(8)).block_until_ready()
    stated = ms.last_call()
    assert (stated["ranks"], stated["visible"]) == (1, 8)
