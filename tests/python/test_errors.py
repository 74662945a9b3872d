"""User mistakes: each message as users see it."""

import functools
import itertools
import re

import jax
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from helpers import mesh_of, put, run_fresh

pytestmark = [pytest.mark.versions, pytest.mark.whole_file]

EYE, ONES = np.eye(4), np.ones(4)


@pytest.mark.parametrize(
    ("a", "b", "options", "error", "message"),
    [
        (
            EYE,
            ONES,
            {"assume_a": "banded"},
            ValueError,
            'meshsolve.solve: assume_a: expected one of "gen", "pos", "her", "sym", got '
            "'banded'; "
            'for other structures use "gen", which is right for every matrix',
        ),
        (
            np.ones((4, 3)),
            ONES,
            {"assume_a": "pos"},
            ValueError,
            "meshsolve.solve: a: expected a square matrix [n, n], or a batch of "
            "them, got shape (4, 3); give as many rows as columns",
        ),
        (
            np.ones(4),
            ONES,
            {"assume_a": "pos"},
            ValueError,
            "meshsolve.solve: a: expected a square matrix [n, n], or a batch of them, got shape "
            "(4,); give as many rows as columns",
        ),
        (
            EYE,
            np.ones(5),
            {"assume_a": "pos"},
            ValueError,
            "meshsolve.solve: b: expected shape [4] or [4, k], to go with a of shape (4, 4), got "
            "shape (5,); give one right-hand side per column",
        ),
        (
            EYE.astype(np.float16),
            ONES.astype(np.float16),
            {"assume_a": "pos"},
            TypeError,
            "meshsolve.solve: a and b: expected dtypes that promote to one of float32, float64, "
            "complex64, complex128, got float16 and float16, which promote to float16; convert "
            "with .astype(jnp.float32)",
        ),
    ],
)
def test_messages(a, b, options, error, message):
    with pytest.raises(error) as raised:
        ms.solve(a, b, **options)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ms.cho_factor(np.ones((4, 3))),
            ValueError,
            "meshsolve.cho_factor: a: expected a square matrix [n, n], or a batch of "
            "them, got shape (4, 3); give as many rows as columns",
        ),
        (
            lambda: ms.cho_factor(EYE.astype(np.float16)),
            TypeError,
            "meshsolve.cho_factor: a: expected a dtype that promotes to one of float32, float64, "
            "complex64, complex128, got float16, which promotes to float16; convert with "
            ".astype(jnp.float32)",
        ),
        (
            lambda: ms.cho_factor(EYE).solve(np.ones((5, 2))),
            ValueError,
            "meshsolve.cho_solve: b: expected shape [4] or [4, k], to go with a of shape (4, 4), "
            "got shape (5, 2); give one right-hand side per column",
        ),
        (
            lambda: ms.cho_solve(EYE, ONES),
            TypeError,
            "meshsolve.cho_solve: c_and_lower: expected a CholeskyFactor or a pair (c, lower), got "
            "ndarray; pass what cho_factor returned",
        ),
        (
            lambda: ms.cho_solve((np.ones((4, 3)), True), ONES),
            ValueError,
            "meshsolve.cho_solve: c: expected a square matrix [n, n], or a batch of "
            "them, got shape (4, 3); give as many rows as columns",
        ),
        (
            lambda: ms.cho_solve((EYE.astype(np.float16), True), ONES.astype(np.float16)),
            TypeError,
            "meshsolve.cho_solve: c and b: expected dtypes that promote to one of float32, "
            "float64, complex64, complex128, got float16 and float16, which promote to float16; "
            "convert with .astype(jnp.float32)",
        ),
        (
            lambda: ms.cho_solve(tuple(ms.lu_factor(EYE)), ONES),
            TypeError,
            "meshsolve.cho_solve: lower: expected a bool, got a ArrayImpl; pass what cho_factor "
            "returned",
        ),
        (
            lambda: ms.solve(ms.lu_factor(EYE), ONES),
            TypeError,
            "meshsolve.solve: a: expected an array, or what makes one, got LUFactor; a factor is "
            "for its own methods, and for lu_solve or cho_solve",
        ),
        (
            lambda: ms.solve(EYE, ONES, assume_a="pos", mesh="x"),
            TypeError,
            "meshsolve.solve: mesh: expected a jax.sharding.Mesh, got str; see jax.make_mesh",
        ),
        (
            lambda: jax.jit(ms.cho_solve)((EYE, True), ONES),
            TypeError,
            "meshsolve.cho_solve: lower: expected a Python bool, got a traced value; make it "
            "static: pass c alone through jax.jit, or a CholeskyFactor",
        ),
    ],
)
def test_messages_of_the_other_functions(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_n_that_the_devices_do_not_divide(jit, kind):
    """Two ways of four make eight, which do not divide 12; a one-way sharding always fits."""
    mesh = jax.make_mesh((2, 4), ("y", "x"), axis_types=(kind, kind))
    solve = jax.jit(ms.solve, static_argnames="assume_a") if jit else ms.solve
    with pytest.raises(Exception) as raised:
        solve(put(mesh, np.eye(12), "y", "x"), put(mesh, np.ones(12)), assume_a="pos")
    assert (
        "meshsolve.solve: a: expected n divisible by the 8 devices on mesh axes ('y', 'x'), got n "
        "= 12; give mesh=, which pads A for you, use a mesh whose size divides n, or put A on one "
        "device" in str(raised.value)
    )
    # Each device, or one, solves a replicated one.
    x = solve(put(mesh, 4 * np.eye(12)), put(mesh, np.ones(12)), assume_a="pos")
    np.testing.assert_array_equal(x, 0.25 * np.ones(12))
    if not jit:  # the remedy
        a = put(mesh, 4 * np.eye(12), "y", "x")
        x = ms.solve(a, put(mesh, np.ones(12)), assume_a="pos", mesh=mesh)
        np.testing.assert_array_equal(x, 0.25 * np.ones(12))


@pytest.mark.parametrize("kinds", [*itertools.permutations((AxisType.Auto, AxisType.Explicit))])
def test_axes_of_both_types(kinds):
    mesh = jax.make_mesh((2, 4), ("y", "x"), axis_types=kinds)
    a, b = put(mesh, 2 * np.eye(8), "x", None), put(mesh, np.ones(8))
    whole, onto = 2 * np.eye(8), functools.partial(ms.solve, mesh=mesh)
    inside = "inside jax.jit use jax.sharding.auto_axes or explicit_axes, or such a mesh"
    given = "give a mesh whose axes are of one type"
    calls = [
        (ms.solve, a, b, "a: expected an array on a mesh", inside),
        (ms.solve, whole, b, "the mesh that is set: expected one", inside),
        (ms.solve, 2 * np.eye(9), np.ones(9), "the mesh that is set: expected one", inside),
        (onto, whole, b, "mesh: expected a mesh", given),
    ]
    with jax.set_mesh(mesh):
        for solve, matrix, rhs, expected, remedy in calls:
            with pytest.raises(ValueError) as raised:
                jax.jit(solve)(matrix, rhs)
            assert str(raised.value) == (
                f"meshsolve.solve: {expected} whose axes are all Explicit or all Auto, got axis "
                f"types {dict(zip(('y', 'x'), kinds, strict=True))}; {remedy}; eagerly both work"
            )
            np.testing.assert_array_equal(solve(matrix, rhs), 0.5 * np.ones(len(rhs)))
        for spec in (("x", None), (None, "y"), ("x", "y"), ()):
            x = ms.solve(put(mesh, whole, *spec), b, refine=True)
            np.testing.assert_array_equal(x, 0.5 * np.ones(8))


def test_an_order_that_the_mesh_that_is_set_does_not_divide():
    message = (
        "meshsolve.inv: a: expected an array that is sharded over a mesh, got one without a "
        "sharding in a program for several devices; give A a NamedSharding or mesh=, or set a mesh "
        "whose devices divide n with jax.set_mesh"
    )
    with jax.set_mesh(mesh_of(range(2))), pytest.raises(Exception, match=re.escape(message)):
        jax.jit(ms.inv)(np.eye(9))


def test_inside_shard_map():
    mesh = mesh_of(range(2))
    local = jax.shard_map(
        lambda a, b: ms.solve(a, b, assume_a="pos"), mesh=mesh, in_specs=P(), out_specs=P()
    )
    with pytest.raises(ValueError, match="got the shard of one device, inside shard_map"):
        local(put(mesh, EYE), put(mesh, ONES))


def test_timeout_setting():
    before = ms.timeout()
    for bad in (0, -1, 1e-4, 1e10, float("nan"), float("inf")):
        with pytest.raises(
            ValueError, match=r"set_timeout: seconds: expected a number from 0\.001 to 1e9"
        ):
            ms.set_timeout(bad)
    ms.set_timeout(1.5)
    assert ms.timeout() == 1.5
    ms.set_timeout(before)


def test_float64_setting():
    assert ms.float64_math() == "native"
    with pytest.raises(
        ValueError,
        match=r'set_float64_math: math: expected "native" or "emulated", got "integers"',
    ):
        ms.set_float64_math("integers")
    ms.set_float64_math("emulated")
    try:
        assert ms.float64_math() == "emulated"
        ms.solve(np.eye(4), np.ones(4)).block_until_ready()
        # CPU devices multiply natively in any case.
        assert ms.last_call()["float64"] == "native"
    finally:
        ms.set_float64_math("native")


@pytest.mark.parametrize("value, math", [("emulated", "emulated"), ("integers", "native")])
def test_float64_setting_of_the_environment(value, math):
    ran = run_fresh("tell(ms.float64_math())", env={"MESHSOLVE_FLOAT64": value})
    assert ran.reported == [math]
    assert ('MESHSOLVE_FLOAT64="integers" is nothing' in ran.err) == (value == "integers")
