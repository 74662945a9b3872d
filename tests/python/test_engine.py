"""Whose algorithms: ``engine=``, as far as it goes without CUDA devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from helpers import mesh_of
from meshsolve import _engine

FUNCTIONS = {
    "solve": lambda a, engine: ms.solve(a, jnp.ones(a.shape[0]), engine=engine),
    "cho_factor": lambda a, engine: ms.cho_factor(a, engine=engine),
    "lu_factor": lambda a, engine: ms.lu_factor(a, engine=engine),
    "inv": lambda a, engine: ms.inv(a, engine=engine),
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
    for name in ("cho_factor", "lu_factor", "inv"):
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


def calls(function, a) -> list[str]:
    """The library's calls in the program of a function for CUDA devices."""
    text = jax.jit(function).trace(a).lower(lowering_platforms=("cuda",)).as_text()
    return [line for line in text.splitlines() if "custom_call @meshsolve(" in line]


def of_factor(factor):
    """All that is done with a factor."""
    b = jnp.ones(factor.n, jnp.float32)
    return factor.solve(b), factor.inv(), factor.rcond(), factor[0]


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda a, e: ms.solve(a, jnp.ones(64, jnp.float32), assume_a="pos", engine=e), 1),
        (lambda a, e: ms.solve(a, jnp.ones(64, jnp.float32), return_info=True, engine=e), 1),
        (lambda a, e: ms.inv(a, engine=e), 1),
        (lambda a, e: ms.inv(a, assume_a="pos", engine=e), 1),
        (lambda a, e: (*of_factor(f := ms.cho_factor(a, engine=e)), f.logdet()), 6),
        (lambda a, e: (*of_factor(f := ms.lu_factor(a, engine=e)), f.det()), 6),
        # The inverse of the factor as it lies.
        (lambda a, e: jax.jvp(lambda a: ms.cho_factor(a, engine=e).logdet(), (a,), (a,)), 3),
        (lambda a, e: jax.jvp(lambda a: ms.lu_factor(a, engine=e).slogdet(), (a,), (a,)), 3),
        (lambda a, e: jax.jvp(lambda a: ms.lu_factor(a, engine=e).inv(), (a,), (a,)), 4),
    ],
)
@pytest.mark.parametrize("engine", [None, "cusolvermg"])
def test_programs_for_cuda_say_who_factors(function, count, engine):
    """Whatever is done with a factor, it is read as it was made."""
    made = calls(lambda a: function(a, engine), shaped(64))
    assert len(made) == count
    name = engine or "meshsolve"
    assert all(f'engine = "{name}"' in call for call in made)


def test_orders_without_a_width():
    for n in (0, 7, 2048, 4 * 1024, 4 * 1009):
        _engine.expect_width("solve", n, 4 if n % 4 == 0 else 1)
    with pytest.raises(ValueError) as error:
        calls(lambda a: ms.lu_factor(a, engine="cusolvermg").work, shaped(4 * 1031))
    assert str(error.value) == (
        "meshsolve.lu_factor: a: expected an order whose part for each device, n / 4, has a "
        'divisor from 128 to 1024 (or is at most 1024) with engine="cusolvermg", got 4124; pad A '
        "with an identity corner, B with zeros, to order 4608, or leave engine out"
    )


def test_no_refinement_by_another_engine():
    a = shaped(64)
    with pytest.raises(ValueError) as error:
        calls(lambda a: ms.solve(a, jnp.ones(64), engine="cusolvermg", refine=True), a)
    assert str(error.value) == (
        'meshsolve.solve: refine: expected False with engine="cusolvermg", got True; leave one of '
        "them out"
    )
