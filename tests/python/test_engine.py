"""The choice of algorithms: ``engine=``, tested without CUDA devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from compiled import calls_for_cuda
from helpers import mesh_of
from meshsolve._library import engines

pytestmark = pytest.mark.whole_file

FUNCTIONS = {
    "solve": lambda a, engine: ms.solve(a, jnp.ones(a.shape[0]), engine=engine),
    "cho_factor": lambda a, engine: ms.cho_factor(a, engine=engine),
    "lu_factor": lambda a, engine: ms.lu_factor(a, engine=engine),
    "inv": lambda a, engine: ms.inv(a, engine=engine),
    "eigvalsh": lambda a, engine: ms.eigvalsh(a, engine=engine),
    "eigh": lambda a, engine: ms.eigh(a, engine=engine),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_engine(name):
    a = jax.device_put(np.eye(4), NamedSharding(mesh_of(range(2)), P("x", None)))
    with pytest.raises(ValueError) as error:
        FUNCTIONS[name](a, "magma")
    assert str(error.value) == (
        f"meshsolve.{name}: engine: expected None or \"cusolvermg\", got 'magma'; leave it out for "
        "this library's own algorithms"
    )
    with pytest.raises(ValueError) as error:
        FUNCTIONS[name](a, "cusolvermg")
    assert str(error.value) == (
        f"meshsolve.{name}: engine: expected None for arrays that are not on CUDA devices, got "
        '"cusolvermg" for one on cpu; leave it out, or put A on CUDA devices'
    )


def test_a_batch_keeps_its_engine():
    a = jnp.stack([jnp.eye(4)] * 2)
    host = 'engine: expected "meshsolve" for arrays in the host\'s memory'
    for name in ("cho_factor", "lu_factor", "inv", "eigh"):
        with pytest.raises(jax.errors.JaxRuntimeError, match=host):
            jax.block_until_ready(FUNCTIONS[name](a, "cusolvermg"))
    with pytest.raises(jax.errors.JaxRuntimeError, match=host):
        jax.block_until_ready(ms.solve(a, jnp.ones((2, 4, 1)), engine="cusolvermg"))


def test_a_program_for_the_host_fails_when_it_runs():
    a = jax.device_put(np.eye(4), NamedSharding(mesh_of(range(2)), P("x", None)))
    run = jax.jit(lambda a: ms.solve(a, jnp.ones(4), assume_a="pos", engine="cusolvermg"))
    with pytest.raises(jax.errors.JaxRuntimeError, match='engine: expected "meshsolve" for arrays'):
        jax.block_until_ready(run(a))


def shaped(n: int, world: int = 4):
    sharding = NamedSharding(mesh_of(range(world), "explicit"), P("x", None))
    return jax.ShapeDtypeStruct((n, n), jnp.float32, sharding=sharding)


B = np.ones(64, np.float32)


def of_factor(factor):
    """All uses of a factor."""
    return factor.solve(B), factor.inv(), factor.rcond(), factor[0]


def along(function):
    """The function and its derivative along its argument."""
    return lambda a, e: jax.jvp(lambda a: function(a, e), (a,), (a,))


# Functions, and the number of their calls.
CALLS = {
    "solve pos": (lambda a, e: ms.solve(a, B, assume_a="pos", engine=e), 1),
    "solve with info": (lambda a, e: ms.solve(a, B, return_info=True, engine=e), 1),
    "inv": (lambda a, e: ms.inv(a, engine=e), 1),
    "inv pos": (lambda a, e: ms.inv(a, assume_a="pos", engine=e), 1),
    "cho_factor": (lambda a, e: (*of_factor(f := ms.cho_factor(a, engine=e)), f.logdet()), 6),
    "lu_factor": (lambda a, e: (*of_factor(f := ms.lu_factor(a, engine=e)), f.det()), 6),
    # The inverse from the factor in place.
    "logdet along": (along(lambda a, e: ms.cho_factor(a, engine=e).logdet()), 3),
    "slogdet along": (along(lambda a, e: ms.lu_factor(a, engine=e).slogdet()), 3),
    "eigvalsh": (lambda a, e: ms.eigvalsh(a, engine=e), 1),
    "eigh": (lambda a, e: ms.eigh(a, engine=e), 1),
    "eigvalsh along": (along(lambda a, e: ms.eigvalsh(a, engine=e)), 1),
    "inv along": (along(lambda a, e: ms.lu_factor(a, engine=e).inv()), 4),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("engine", [None, "cusolvermg"])
def test_programs_for_cuda_say_who_factors(name, engine):
    """Every use of a factor reads it with the engine that made it."""
    function, count = CALLS[name]
    made = calls_for_cuda(jax.jit(lambda a: function(a, engine)), shaped(64))
    assert [call.attributes["engine"] for call in made] == [engine or "meshsolve"] * count


def test_orders_without_a_width():
    for n in (0, 7, 2048, 4 * 1024, 4 * 1009):
        engines.expect_width("solve", "posv", n, 4 if n % 4 == 0 else 1)
    with pytest.raises(ValueError, match=r"got 4036; pad A .* to order 4096"):
        engines.expect_width("solve", "gesv", 4 * 1009, 4)
    factor = jax.jit(lambda a: ms.lu_factor(a, engine="cusolvermg").work)
    with pytest.raises(ValueError) as error:
        factor.trace(shaped(4 * 1031))
    assert str(error.value) == (
        "meshsolve.lu_factor: a: expected an order whose part for each device, n / 4, has a "
        'divisor from 128 to 512 (or is at most 512) with engine="cusolvermg", got 4124; pad A '
        "with an identity corner, B with zeros, to order 4608, or leave engine out"
    )


def test_no_refinement_by_another_engine():
    refined = jax.jit(lambda a: ms.solve(a, B, engine="cusolvermg", refine=True))
    with pytest.raises(ValueError) as error:
        refined.trace(shaped(64))
    assert str(error.value) == (
        'meshsolve.solve: refine: expected False with engine="cusolvermg", got True; leave one of '
        "them out"
    )
