"""Products of distributed matrices in rules for derivatives."""

import jax
from jax import lax

from meshsolve._execute.typed import spec_of
from meshsolve._rules.derivatives import transposed


def adjoint(x, like=None):
    """X^H; with Explicit axes in the sharding of ``like``, if given."""
    if like is None:
        return x.conj().T
    return transposed(x.conj(), jax.typeof(like).sharding)


def matmul(x, y, like):
    """X Y; with Explicit axes in the sharding of an array of the same shape."""
    axes = (((1,), (0,)), ((), ()))
    out = None if spec_of(like) is None else jax.typeof(like).sharding
    return lax.dot_general(x, y, axes, precision="highest", out_sharding=out)
