"""CUDA devices without one: registrations with JAX, programs, messages."""

import ctypes
import json
import os
import subprocess
import sys
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import calls_for_cuda
from helpers import ROOT, mesh_of
from meshsolve import _core
from meshsolve._api import transpose
from meshsolve._execute import placements

REGISTER = """
import json
import jax
from jax.extend import backend

{patch}
calls = []
for name in ("register_ffi_type", "register_ffi_target"):
    def listen(*given, name=name, real=getattr(jax.ffi, name), **more):
        calls.append([name, more["platform"], given[0], sorted(given[1])])
        real(*given, **more)
    setattr(jax.ffi, name, listen)
import meshsolve as ms
assert calls == []
ms.ffi_target(), ms.ffi_target()
print(json.dumps(calls))
"""
INSTANCE, HANDLERS = ["type_id", "type_info"], ["execute", "instantiate"]


def registered(patch: str = ""):
    code = REGISTER.format(patch=patch)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def of(platform: str, name: str):
    """Types come first, as a target refers to them."""
    return [
        ["register_ffi_type", platform, f"meshsolve_{name}_instance", INSTANCE],
        ["register_ffi_target", platform, "meshsolve", HANDLERS],
    ]


def test_without_a_cuda_backend_nothing_is_registered_for_it():
    assert registered() == of("cpu", "cpu")


def test_a_cuda_backend_gets_handlers_and_a_type_of_its_own():
    there = "own = backend.backends()\nbackend.backends = lambda: own | {'cuda': None}\n"
    there += "jax.local_device_count = lambda name: 1"
    assert registered(there) == of("cpu", "cpu") + of("CUDA", "cuda")


def test_importing_initialises_no_backend():
    code = (
        "import jax, meshsolve\n"
        # Refused once a backend exists.
        "jax.config.update('jax_num_cpu_devices', 3)\n"
        "print(len(jax.devices()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "3\n", ran.stderr


def test_symbols_of_both_platforms_are_different_ones():
    names = [f"{p}_{s}" for p in ("cpu", "cuda") for s in INSTANCE + HANDLERS]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    assert len({address(_core.symbol(name), b"xla._CUSTOM_CALL_TARGET") for name in names}) == 8
    with pytest.raises(ValueError, match='the FFI layer has no symbol "execute"'):
        _core.symbol("execute")


@pytest.mark.parametrize("sharded", [False, True])
def test_the_program_of_a_transposition_for_cuda(sharded):
    """One call, whose result takes the memory of its operand."""
    mesh, spec = mesh_of(range(4)), P("x", None)
    sharding = NamedSharding(mesh, spec) if sharded else None
    x = jax.ShapeDtypeStruct((64, 32), jnp.float32, sharding=sharding)
    program = transpose._transposed(mesh if sharded else None, spec if sharded else P())
    (call,) = calls_for_cuda(program, x)
    assert (call.attributes["routine"], call.aliases) == ("transpose", [1])


class Elsewhere(NamedTuple):
    """A stand-in for a device of JAX."""

    platform: str


def test_solvers_refuse_devices_of_other_platforms():
    placements.expect_known("solve", jax.devices("cpu"))
    with pytest.raises(ValueError) as error:
        placements.expect_known("solve", [*jax.devices("cpu"), Elsewhere("tpu")])
    assert str(error.value) == (
        "meshsolve.solve: a: expected an array on CPU or CUDA devices, got one on devices of "
        'platform tpu; move it with jax.device_put(a, jax.devices("cpu")[0])'
    )


def test_what_is_known_of_several_gpus_is_said_once():
    placements._warn_of_several_gpus.cache_clear()
    message = "several GPUs have been tested on emulated devices only: check residuals"
    with pytest.warns(UserWarning, match=message):
        placements.expect_known("solve", [Elsewhere("gpu")] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        placements.expect_known("solve", [Elsewhere("gpu")] * 2)
        placements._warn_of_several_gpus.cache_clear()
        placements.expect_known("solve", [Elsewhere("gpu")])


@pytest.mark.parametrize("spec", [P("x", None), P(None, "x")])
@pytest.mark.parametrize(("assume", "routine"), [("pos", "posv"), ("gen", "gesv")])
def test_the_program_of_a_solve_for_cuda(spec, assume, routine):
    """One call, whose results take the memory of a and b."""
    mesh = mesh_of(range(4), "explicit")
    a = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(mesh, spec))
    b = jax.ShapeDtypeStruct((64,), jnp.float32, sharding=NamedSharding(mesh, P()))
    (call,) = calls_for_cuda(jax.jit(lambda a, b: ms.solve(a, b, assume_a=assume)), a, b)
    assert (call.attributes["routine"], call.attributes["world"]) == (routine, 4)
    assert call.aliases == [1, 2]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["benchmarks/gpu.py"], 1),
        (["benchmarks/gpu_solve.py"], 1),
        (["-m", "pytest", "-q", "tests/gpu"], 3),
    ],
)
def test_what_needs_a_device_says_that_there_is_none(command, code):
    environment = os.environ | {"JAX_PLATFORMS": "", "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == code and "no CUDA device: " in ran.stdout + ran.stderr
