"""``on_failure="raise"``: an error where there is no answer, eagerly and in programs, and only
there.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshsolve as ms
from derivatives import number
from helpers import STORAGES, mesh_of, mesh_set, put, put_matrix

pytestmark = [pytest.mark.versions, pytest.mark.whole_file]

ONES = np.ones(8)
MINOR = "leading minor of order 6 is not positive definite"
PIVOT = "pivot 6 is zero or not finite"


def failing(definite: bool):
    """The sixth pivot is zero, or the sixth minor is not positive."""
    a = np.eye(8)
    a[5, 5] = -1 if definite else 0
    return a


# The call, whether it uses Cholesky, the library's routine, the message.
CALLS = {
    "solve": (lambda a, **o: ms.solve(a, ONES, **o), False, "gesv", PIVOT),
    "solve with info": (
        lambda a, **o: ms.solve(a, ONES, return_info=True, **o),
        False,
        "gesv_rcond",
        PIVOT,
    ),
    "solve pos": (lambda a, **o: ms.solve(a, ONES, assume_a="pos", **o), True, "posv", MINOR),
    "solve refined": (lambda a, **o: ms.solve(a, ONES, refine=True, **o), False, "gesv", PIVOT),
    "cho_factor": (ms.cho_factor, True, "potrf", MINOR),
    "lu_factor": (ms.lu_factor, False, "getrf", PIVOT),
    "inv": (ms.inv, False, "lu_inverse", PIVOT),
    "inv pos": (lambda a, **o: ms.inv(a, assume_a="pos", **o), True, "cholesky_inverse", MINOR),
    "solve_triangular": (
        lambda a, **o: ms.solve_triangular(a, ONES, **o),
        False,
        "trtrs",
        "diagonal entry 6 is zero or not finite",
    ),
}


def message(name: str, says: str, definite: bool) -> str:
    kind = "positive definite" if definite else "nonsingular"
    return (
        f"meshsolve.{name}: a: expected a {kind} matrix, got one whose {says} (info = 6); with "
        'on_failure="nan" the answer is NaN, and info has that number'
    )


@pytest.mark.parametrize(("i", "name"), list(enumerate(CALLS)))
def test_where_there_is_no_answer(i, name):
    """Storages and kinds of meshes change from function to function."""
    call, definite, routine, says = CALLS[name]
    kind = ("auto", "explicit")[i % 2]
    mesh = mesh_of(range(4), kind)
    a = failing(definite)
    with pytest.raises(np.linalg.LinAlgError) as raised:
        call(put_matrix(mesh, a, STORAGES[i % 4]), on_failure="raise")
    assert str(raised.value) == message(name.split()[0], says, definite)

    on_mesh = put(mesh, a, *(("x", None) if i // 2 % 2 else (None, "x")))
    with pytest.raises(jax.errors.JaxRuntimeError) as raised, mesh_set(mesh):
        jax.block_until_ready(jax.jit(lambda a: call(a, on_failure="raise"))(on_mesh))
    assert message(routine, says, definite) in str(raised.value)

    good = put(mesh, 2 * np.eye(8), "x", None)
    for run in (call, jax.jit(call, static_argnames="on_failure")):
        with mesh_set(mesh):  # also after a failure
            got, same = run(good, on_failure="raise"), run(good, on_failure="nan")
        jax.tree.map(np.testing.assert_array_equal, got, same)


def test_a_failure_on_one_of_the_other_devices_is_one_of_the_call():
    """Any device may find it."""
    mesh = mesh_of(range(8))
    for where in range(8):
        a = np.eye(16)
        a[2 * where, 2 * where] = 0
        with pytest.raises(np.linalg.LinAlgError, match=f"pivot {2 * where + 1} is"):
            ms.solve(put(mesh, a, "x", None), np.ones(16), on_failure="raise")


def test_derivatives_and_batches():
    mesh = mesh_of(range(4))

    def value(a):
        return number(ms.solve(a, jnp.ones(8), on_failure="raise"))

    one = put(mesh, failing(False), "x", None)
    two = put(mesh, np.stack([np.eye(8), failing(False)]), None, "x")
    for run, a in ((jax.grad(value), one), (jax.jit(jax.grad(value)), one), (jax.vmap(value), two)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=PIVOT):
            jax.block_until_ready(run(a))


@pytest.mark.parametrize("name", CALLS)
def test_batches(name):
    """With leading axes eagerly, where one matrix has no answer; in programs, their error."""
    call, definite, routine, says = CALLS[name]
    good = put(mesh_of(range(4)), np.stack([np.eye(8), 2 * np.eye(8)]), None, "x")
    bad = put(mesh_of(range(4)), np.stack([np.eye(8), failing(definite)]), None, "x")
    got, same = (call(good, on_failure=on_failure) for on_failure in ("raise", "nan"))
    jax.tree.map(np.testing.assert_array_equal, got, same)
    for a in (bad, np.asarray(bad)):
        with pytest.raises(np.linalg.LinAlgError) as raised:
            call(a, on_failure="raise")
        assert str(raised.value) == message(name.split()[0], says, definite)
    with pytest.raises(jax.errors.JaxRuntimeError) as failed:
        jax.block_until_ready(jax.jit(lambda a: call(a, on_failure="raise"))(bad))
    assert message(routine, says, definite) in str(failed.value)


def test_local_solve():
    mesh = mesh_of(range(4))
    spec = jax.sharding.PartitionSpec

    def run(a):
        return ms.local.solve(a, jnp.ones(8), "x", on_failure="raise")

    run = jax.jit(jax.shard_map(run, mesh=mesh, in_specs=spec("x"), out_specs=spec()))
    np.testing.assert_array_equal(run(put(mesh, 2 * np.eye(8), "x")), np.full(8, 0.5))
    with pytest.raises(jax.errors.JaxRuntimeError, match=PIVOT):
        jax.block_until_ready(run(put(mesh, failing(False), "x")))


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_groups_with_matrices_of_their_own(kind):
    """One group would fail, and XLA would end the process, in which the others wait."""
    mesh = jax.make_mesh((2, 4), ("g", "x"), axis_types=(mesh_of((0,), kind).axis_types[0],) * 2)
    two = put(mesh, np.stack([np.eye(8), failing(False)]), "g", "x", None)
    message = (
        r"on_failure: expected \"nan\" where groups of devices have matrices of their own, got "
        r"\"raise\", with groups along \('g',\); use return_info=True or a factor's info"
    )
    if kind == "explicit" and jax.__version_info__ < (0, 10):
        return  # refused in any case
    with mesh_set(mesh), pytest.raises(Exception, match=r"meshsolve\.lu_factor: " + message):
        jax.block_until_ready(ms.lu_factor(two, on_failure="raise"))
    spec = jax.sharding.PartitionSpec
    inside = jax.shard_map(
        lambda a: ms.local.solve(a[0], jnp.ones(8), "x", on_failure="raise"),
        mesh=mesh,
        in_specs=spec("g", "x"),
        out_specs=spec("g"),
        check_vma=False,
    )
    with pytest.raises(ValueError, match=r"meshsolve\.local\.solve: " + message):
        inside(two)


def test_matrices_that_are_closed_over():
    mesh = mesh_of(range(4))
    good, bad = put(mesh, 2 * np.eye(8), "x", None), put(mesh, failing(False), "x", None)
    run = lambda a: jax.jit(lambda b: ms.lu_factor(a, on_failure="raise").solve(b))  # noqa: E731
    np.testing.assert_array_equal(run(good)(ONES), np.full(8, 0.5))
    with pytest.raises(jax.errors.JaxRuntimeError, match=PIVOT):
        jax.block_until_ready(run(bad)(ONES))


def test_no_right_hand_sides():
    bad = put(mesh_of(range(4)), failing(False), "x", None)
    assert ms.solve(bad, np.ones((8, 0))).shape == (8, 0)
    with pytest.raises(np.linalg.LinAlgError, match=PIVOT):
        ms.solve(bad, np.ones((8, 0)), on_failure="raise")


@pytest.mark.parametrize("name", ["cho_factor", "lu_factor", "inv", "solve", "solve_triangular"])
def test_what_else_is_asked_for(name):
    b = (ONES,) if name.startswith("solve") else ()
    call = lambda a, **options: getattr(ms, name)(a, *b, **options)  # noqa: E731
    with pytest.raises(ValueError) as raised:
        call(np.eye(8), on_failure="warn")
    text = str(raised.value)
    assert text.endswith(
        ': on_failure: expected "nan" or "raise", got \'warn\'; use return_info=True or a '
        'factor\'s info to see it, or "raise" for an error'
    )
    assert text.startswith("meshsolve.")
