"""Matrices of lineax's operators: inside of lineax's primitives JAX does not see their devices."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from meshsolve._execute import lowered
from meshsolve._library.errors import mistake

# Since JAX 0.9 its axis would be Explicit by default.
_ONE_DEVICE = AbstractMesh((1,), ("x",), axis_types=(AxisType.Auto,))


def in_program(solver: str, a, mesh: AbstractMesh | None):
    """A traced matrix or factor, with a check that it is on the devices of the program. If the
    program closes over it, JAX does not see these devices in lineax's primitives.
    """
    if mesh is None or mesh.size == 1 or not isinstance(jnp.zeros(()), Tracer):
        return a

    def check(program: lowered.Program) -> None:
        if program.devices not in (None, mesh.size):
            raise mistake(
                solver,
                "operator",
                "an operand of the program, as is its vector, or both on the same devices",
                f"an operator on {mesh.size} devices, which a program for {program.devices} closes "
                "over",
                "pass the operator (or its state) through jax.jit, or set its mesh with "
                "jax.set_mesh",
            )

    return lowered.expect(a, check)


def without_derivative(a):
    """A matrix without its derivative."""
    return lax.stop_gradient(a) if isinstance(a, Tracer) else a


def mesh_of(a) -> AbstractMesh | None:
    """The mesh of a matrix; one device if it is not sharded. None if a traced matrix does not show
    it, or if the devices of the whole mesh do not divide the order.
    """
    n, whole = a.shape[0], _mapped(a)
    mesh = jax.typeof(whole).sharding.mesh
    if mesh.empty:
        return None if isinstance(whole, Tracer) else _ONE_DEVICE
    return None if n % mesh.size else mesh


def _mapped(a: Any) -> Any:
    """The array of the whole batch, if ``jax.vmap`` maps over the matrix outside of programs."""
    while isinstance(a, Tracer) and isinstance(getattr(a, "val", None), jax.Array):
        a = a.val
    return a


def mesh_context(a, mesh: AbstractMesh | None):
    """A context in which ``mesh`` distributes a traced matrix by rows over all axes. The
    alternative, ``custom_partitioning``, needs the devices of the program. A primitive of lineax,
    which may be the whole program, does not ask for them.
    """
    known = not jax.sharding.get_abstract_mesh().empty
    if mesh is None or known or not isinstance(a, Tracer) or AxisType.Explicit in mesh.axis_types:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(mesh)


def _partition(mesh, operands, results):
    everywhere = NamedSharding(mesh, PartitionSpec())
    return mesh, lambda x: x, everywhere, (everywhere,)


_scalar = custom_partitioning(lambda x: x)
_scalar.def_partition(partition=_partition, sharding_rule="->")
# A program that contains this scalar knows its devices. It runs only under jit.
with_devices = jax.jit(_scalar)
