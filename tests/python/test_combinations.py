"""Every function, called in every way, of operands in every place: all pairs of options, and among
the slow tests some of all combinations.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from allpairspy import AllPairs
from jax.sharding import AxisType, Mesh

from derivatives import FUNCTIONS, number, operands
from helpers import put

AXES = [
    list(FUNCTIONS),
    [(2, 2), (2, 4), (1, 2), (4, 1), (1, 1)],
    ["auto", "explicit"],
    ["a mesh set", "none set"],
    ["numpy", (), ("x",), (None, "x"), ("x", "y"), ("y", "x"), (("x", "y"),), (None, ("y", "x"))],
    ["numpy", "one device", (), ("x",), (None, "y"), ("y", "x"), (("x", "y"),)],
    ["eager", "jit", "closed over", "many b", "many", "gradient", "tangents"],
    [False, True],  # what is mapped or differentiated is in jit
    ["float64", "complex128"],
]
# Where JAX must be told of Explicit axes: it makes arrays of its own, or all it sees has no mesh.
TOLD = ("closed over", "gradient", "tangents")


def called(how: str, function, a, b):
    """The function called in that way, and what it is then called with."""
    if how in ("eager", "jit"):
        return function, (a, b)
    if how == "closed over":
        return lambda b: function(a, b), (b,)
    if how == "many b":
        return jax.vmap(function, (None, 0)), (a, b)
    if how == "many":
        return jax.vmap(function), (a, b)
    if how == "gradient":
        return jax.grad(lambda a, b: number(function(a, b)), (0, 1)), (a, b)
    return lambda a, b: jax.jvp(function, (a, b), (a, b)), (a, b)


@pytest.mark.parametrize("case", list(AllPairs(AXES)), ids=lambda c: "-".join(map(str, c)))
def test_pairs_of_options(case):
    name, shape, axis_type, is_set, of_a, of_b, how, in_jit, dtype = case
    function, rng = FUNCTIONS[name], np.random.default_rng(len(str(case)))
    devices = rng.permutation(jax.devices())[: np.prod(shape)].reshape(shape)
    kind = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}[axis_type]
    mesh = Mesh(devices, ("x", "y"), axis_types=(kind, kind))
    pairs = [operands(dtype, k=8, seed=i) for i in range(3)]
    a = np.stack([np.asarray(function.prepare(jnp.asarray(a))) for a, _ in pairs])
    b = np.stack([b for _, b in pairs])
    a, b = a if how == "many" else a[0], b if how.startswith("many") else b[0]

    def placed(x, where):
        if isinstance(where, str):
            return x if where == "numpy" else jnp.asarray(x)
        return put(mesh, x, *(None,) * (x.ndim - 2), *where)

    at_a, at_b = placed(a, of_a), placed(b, of_b)
    if how in ("gradient", "tangents"):
        at_a, at_b = jnp.asarray(at_a), jnp.asarray(at_b)
    given, expected = called(how, function.ours, at_a, at_b), called(how, function.jnps, a, b)
    told = is_set == "a mesh set" or (axis_type == "explicit" and how in TOLD)
    jit = how in ("jit", "closed over") or (in_jit and how != "eager")
    with jax.set_mesh(mesh) if told else contextlib.nullcontext():
        got = (jax.jit(given[0]) if jit else given[0])(*given[1])
    wanted = expected[0](*expected[1])
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-10 * max(1, np.abs(y).max()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500))
def test_random_combinations(seed):
    rng = np.random.default_rng([5, seed])
    test_pairs_of_options([options[rng.integers(len(options))] for options in AXES])
