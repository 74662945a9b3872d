"""The FFI layer from XLA's view: rendezvous, order, failures, direct calls.

A test that may hang or abort when a rule of the rendezvous is broken runs in its own process.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from helpers import fault_target, mesh_of, positive_definite, put, run_fresh, solve_ratio

pytestmark = pytest.mark.versions

# Six calls or more of the target in one program. Each is on a matrix that takes a while to make, so
# that devices take the calls in different order.
MANY_CALLS = """
    mesh = mesh_of(range(4))
    rng = np.random.default_rng(0)
    n = 64
    a = positive_definite("random", n, "float64", rng)
    target = ms.ffi_target()

    def one_call(a, b):
        place = jnp.stack([lax.axis_index("x"), 0]).astype(np.int32)
        like = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
        call = jax.ffi.ffi_call(target, (like(a), like(b), jax.ShapeDtypeStruct((), np.int32)),
                                input_output_aliases={1: 0, 2: 1})
        return call(place, a, b, routine="posv", world=np.int64(4), rhs="replicated")[1]

    def late(a, i):
        z = a * (i + 1)
        y = jnp.sin(z)
        return z + 0 * (y @ (y.T @ y) if i % 2 else jnp.cumsum(jnp.cos(y), axis=0))

    def run(program, launches):
        f = jax.jit(jax.shard_map(program, mesh=mesh, in_specs=(P("x", None), P()), out_specs=P(),
                                  check_vma=False))
        a_dev, b = put(mesh, a, "x", None), put(mesh, np.ones((n, 1)))
        for _ in range(launches):
            xs = jax.block_until_ready(f(a_dev, b))
        for i, x in enumerate(xs):
            assert solve_ratio(a * (i + 1), x, np.ones((n, 1))) < 3
"""


def test_twelve_independent_solves_in_one_program():
    """With a handler that blocks, devices would wait for each other in different calls for ever."""
    run_fresh(
        MANY_CALLS
        + """
    run(lambda a, b: [one_call(late(a, i), b + i * 0) for i in range(12)], 40)
    """,
        env={"MESHSOLVE_TIMEOUT": "30"},
    )


def test_solves_and_collectives_side_by_side():
    """Work after a promise waits in a collective for other devices. If a promise completes on a
    thread that is needed elsewhere, it hangs or aborts here.
    """
    run_fresh(
        MANY_CALLS
        + """
    def program(a, b):
        xs = []
        for i in range(6):
            x = one_call(late(a, i), b)
            total = lax.psum(x, "x")                   # needs this call on all devices
            other = lax.psum(jnp.sin(b) * i, "x")      # needs no call
            xs.append(total / 4 + 0 * other)
        return xs
    run(program, 40)
    """,
        env={"MESHSOLVE_TIMEOUT": "30"},
    )


def test_loops_and_branches():
    mesh = mesh_of(range(4))
    rng = np.random.default_rng(0)
    a = positive_definite("random", 32, "float64", rng)
    a_dev, b = put(mesh, a, "x", None), put(mesh, np.ones((32, 1)))

    @jax.jit
    def inverse_power(a, b):
        step = lambda _, x: ms.solve(a, x, assume_a="pos")  # noqa: E731
        return lax.fori_loop(0, 5, step, b)

    x = np.ones((32, 1))
    for _ in range(5):
        x = np.linalg.solve(a, x)
    np.testing.assert_allclose(inverse_power(a_dev, b), x, rtol=1e-10)

    @jax.jit
    def branch(a, b, flag):
        return lax.cond(flag, lambda: ms.solve(a, b, assume_a="pos"), lambda: b)

    np.testing.assert_allclose(branch(a_dev, b, True), np.linalg.solve(a, b), rtol=1e-10)
    np.testing.assert_array_equal(branch(a_dev, b, False), b)


def test_two_python_threads_run_two_programs():
    run_fresh("""
        import threading
        rng = np.random.default_rng(0)
        a = positive_definite("random", 48, "float64", rng)
        failures = []

        def work(order, scale):
            try:
                mesh = mesh_of(order)
                f = jax.jit(lambda a, b: ms.solve(scale * a, b, assume_a="pos"))
                a_dev, b = put(mesh, a, "x", None), put(mesh, np.ones((48, 2)))
                for _ in range(40):
                    x = jax.block_until_ready(f(a_dev, b))
                    assert solve_ratio(scale * a, x, np.ones((48, 2))) < 3
            except BaseException as e:
                failures.append(e)
        threads = [threading.Thread(target=work, args=args)
                   for args in (((0, 1, 2, 3), 1.0), ((3, 2, 1, 0), 2.0))]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not failures, failures
    """)


def direct(mesh, attributes, place=None, operand=None):
    """A direct call of a target on every device of the axis, as a user may write it. The target has
    the routine `diagnose`, which fails on request.
    """
    target = fault_target()

    def local(x):
        here = lax.axis_index("x") if place is None else place(lax.axis_index("x"))
        where = jnp.stack([jnp.asarray(here, np.int32), jnp.int32(0)])
        call = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(x.shape, x.dtype))
        return call(where, x, **attributes)

    f = jax.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    x = put(mesh, np.arange(8.0) if operand is None else operand, "x")
    return np.asarray(jax.block_until_ready(jax.jit(f)(x)))


DIAGNOSE = {"routine": "diagnose", "world": np.int64(4)}


def test_one_device_failing_or_panicking_is_an_error_on_all_and_the_process_lives():
    mesh = mesh_of(range(4))
    for fault, text in (
        ("error", "meshsolve.diagnose: rank 2 was asked to fail"),
        ("panic", "a panic in worker 2 of a call was caught: rank 2 was asked to panic"),
    ):
        for _ in range(3):
            with pytest.raises(jax.errors.JaxRuntimeError, match=text):
                direct(mesh, DIAGNOSE | {"fault": fault, "fault_rank": np.int64(2)})
        np.testing.assert_array_equal(direct(mesh, DIAGNOSE), np.arange(8.0))


def test_wrong_places_are_errors_on_all():
    mesh = mesh_of(range(4))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"both claim rank [03] of 4"):
        direct(mesh, DIAGNOSE, place=lambda rank: rank // 2 * 3)
    with pytest.raises(jax.errors.JaxRuntimeError, match="expected a rank below world = 4, got 99"):
        direct(mesh, DIAGNOSE, place=lambda rank: jnp.where(rank == 1, 99, rank))
    with pytest.raises(jax.errors.JaxRuntimeError, match="world = 4, got -1"):
        direct(mesh, DIAGNOSE, place=lambda rank: rank - 1)
    np.testing.assert_array_equal(direct(mesh, DIAGNOSE), np.arange(8.0))


def test_wrong_attributes_are_refused_when_compiling():
    mesh = mesh_of(range(4))
    for attributes, text in (
        ({"routine": "posw", "world": np.int64(4)}, "one of .*posv.*, got .*posw"),
        ({"routine": "diagnose"}, "`world`: expected the number of devices .* got 0"),
        (DIAGNOSE | {"falt": "error"}, "3 attributes were given, of which only"),
        (DIAGNOSE | {"fault": "fire"}, "expected none, error or panic, got .*fire"),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match=text):
            direct(mesh, attributes)


def test_attributes_are_integers_of_any_width_and_booleans():
    mesh = mesh_of(range(4))
    for rank, value in ((2, np.int64(2)), (2, np.int32(2)), (1, True), (0, False)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"rank {rank} was asked to fail"):
            direct(mesh, DIAGNOSE | {"fault": "error", "fault_rank": value})


def test_an_element_type_that_is_not_served():
    with pytest.raises(
        jax.errors.JaxRuntimeError, match="has XLA's element type 10; expected int32"
    ):
        direct(mesh_of(range(4)), DIAGNOSE, operand=np.arange(8, dtype=np.float16))


def test_a_device_that_never_arrives_is_named_and_the_next_call_works():
    run_fresh(
        """
        mesh = mesh_of(range(4))
        target = fault_target()
        assert ms.timeout() == 0.5

        def local(x, absent):
            rank = lax.axis_index("x")
            place = jnp.stack([rank, 0]).astype(np.int32)
            call = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(x.shape, x.dtype))
            meet = lambda: call(place, x, routine="diagnose", world=np.int64(4))
            return lax.cond(rank == absent, lambda: x, meet)
        f = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"),
                                  check_vma=False))
        x = put(mesh, np.arange(8.0), "x")
        for absent in (2, 0):
            try:
                jax.block_until_ready(f(x, absent))
                raise SystemExit("no error")
            except jax.errors.JaxRuntimeError as e:
                text = f"meshsolve.diagnose: rank {absent} of 4 did not arrive within 0."
                assert text in str(e) and "set_timeout" in str(e), e
        np.testing.assert_array_equal(f(x, -1), np.arange(8.0))
        """,
        env={"MESHSOLVE_TIMEOUT": "0.5"},
    )


def test_more_launches_than_cores_in_flight():
    mesh = mesh_of(range(4))
    a, b = put(mesh, np.eye(16), "x", None), put(mesh, np.ones((16, 1)))
    f = jax.jit(lambda a, b: ms.solve(a, b, assume_a="pos"))
    xs = [f(a, (i + 1) * b) for i in range(12)]
    for i, x in enumerate(xs):
        np.testing.assert_allclose(x, i + 1)


def test_both_distributions_agree():
    mesh = mesh_of((2, 0, 1))
    rng = np.random.default_rng(0)
    a, b = positive_definite("random", 303, "complex128", rng), np.ones((303, 2), complex)
    target = ms.ffi_target()

    def solve(order):
        def local(a, b):
            place = jnp.stack([lax.axis_index("x"), 0]).astype(np.int32)
            like = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)  # noqa: E731
            results = (like(a), like(b), jax.ShapeDtypeStruct((), np.int32))
            call = jax.ffi.ffi_call(target, results, input_output_aliases={1: 0, 2: 1})
            attributes = {"world": np.int64(3), "rhs": "replicated", "tile": np.int64(20)}
            return call(place, a, b, routine="posv", order=order, **attributes)[1]

        f = jax.shard_map(
            local, mesh=mesh, in_specs=(P("x", None), P()), out_specs=P(), check_vma=False
        )
        return jax.jit(f)(put(mesh, a, "x", None), put(mesh, b))

    for order in ("natural", "cyclic"):
        assert solve_ratio(a, solve(order), b) < 3
