"""The functions that have derivatives, in all calls and with operands in all shardings. The tests
take all pairs of options, and the slow tests some of all combinations.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

from derivatives import FUNCTIONS, number, operands
from grids import Grid
from helpers import put

pytestmark = pytest.mark.versions

# One for each kind of derivative rule; the slow tests take all.
SOME = [
    *("solve", "solve pos", "solve refined", "cho_solve", "lu_solve of a pair, adjoint"),
    *("cholesky", "product with half", "inverse of a factor", "det", "norm"),
]

# Other tests have the rest: of batches test_batching.py, of a jitted jvp test_derivatives.py.
WAYS = [
    *("eager", "jit", "jit that closes over A", "jit of vmap over B", "vmap"),
    *("grad", "jit of grad", "jvp"),
]


def possible(case: dict) -> bool:
    """JAX needs a set mesh with Explicit axes where it makes arrays itself, or sees no array on
    them.
    """
    reported = any(word in case["how"] for word in ("closes over", "grad", "jvp"))
    without = case.get("axis_type") == "explicit" and case.get("is_set") == "no mesh set"
    return not (reported and without)


GRID = Grid(
    possible,
    how=[
        *("eager", "jit", "jit that closes over A"),
        *("vmap over B", "jit of vmap over B", "vmap", "jit of vmap"),
        *("grad", "jit of grad", "jvp", "jit of jvp"),
    ],
    axis_type=["auto", "explicit"],
    is_set=["no mesh set", "a mesh set"],
    name=SOME,
    shape=[(2, 2), (2, 4), (1, 2), (4, 1), (1, 1)],
    # The shardings of A and B.
    of_a=[
        "numpy",
        (),
        ("x",),
        (None, "x"),
        ("x", "y"),
        ("y", "x"),
        (("x", "y"),),
        (None, ("y", "x")),
    ],
    of_b=["numpy", "one device", (), ("x",), (None, "y"), ("y", "x"), (("x", "y"),)],
    k=[None, 8, 40],  # right-hand sides: a vector, few and many columns
    dtype=["float64", "complex128"],
)


def called(how: str, function, a, b, lay=lambda x, _: x):
    """The result of the function, called in that way, for batches A and B or the first of each.
    ``lay`` gives an operand, "A" or "B", its sharding.
    """
    run = jax.jit if how.startswith("jit") else lambda f: f
    first = lay(a[0], "A"), lay(b[0], "B")
    if "closes over" in how:
        return run(lambda b: function(first[0], b))(first[1])
    if "over B" in how:
        return run(jax.vmap(function, (None, 0)))(first[0], lay(b, "B"))
    if "vmap" in how:
        return run(jax.vmap(function))(lay(a, "A"), lay(b, "B"))
    if "grad" in how:
        return run(jax.grad(lambda a, b: number(function(a, b)), (0, 1)))(*first)
    if "jvp" in how:
        second = lay(a[1], "A"), lay(b[1], "B")
        return run(lambda *x: jax.jvp(function, x[:2], x[2:]))(*first, *second)
    return run(function)(*first)


def reference(how: str, function, a, b):
    """What `called` has to give. Calls of matrices one by one share their programs."""
    if "grad" in how or "jvp" in how:
        return called(how if how.startswith("jit") else f"jit of {how}", function, a, b)
    if "vmap" not in how:
        return function(a[0], b[0])
    one_a = "over B" in how
    results = [function(a[0 if one_a else i], x) for i, x in enumerate(b)]
    return jax.tree.map(lambda *x: np.stack(x), *results)


def check_pairs_of_options(how, axis_type, is_set, name, shape, of_a, of_b, k, dtype, seed=0):
    order = np.random.default_rng([seed, *map(ord, name)]).permutation(len(jax.devices()))
    devices = np.array(jax.devices())[order[: np.prod(shape)]].reshape(shape)
    kind = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}[axis_type]
    mesh = Mesh(devices, ("x", "y"), axis_types=(kind, kind))
    function = FUNCTIONS[name]
    pairs = [operands(dtype, k=k or 1, seed=i) for i in range(3)]
    a = np.stack([np.asarray(function.prepare(a)) for a, _ in pairs])
    b = np.stack([b if k else b[:, 0] for _, b in pairs])

    places, ranks = {"A": of_a, "B": of_b}, {"A": 2, "B": 2 if k else 1}

    def lay(x, which):
        where, rank = places[which], ranks[which]
        if isinstance(where, str):
            return x if where == "numpy" else jnp.asarray(x)
        return put(mesh, x, *(None,) * (x.ndim - rank), *where[-rank:])

    wanted = reference(how, function.jnps, a, b)
    with jax.set_mesh(mesh) if is_set == "a mesh set" else contextlib.nullcontext():
        got = called(how, function.ours, a, b, lay)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-10 * max(1, np.abs(y).max()))


@pytest.mark.parametrize("case", GRID.pairs(how=WAYS), ids=str)
def test_pairs_of_options(case):
    check_pairs_of_options(**case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500))
def test_random_combinations(seed):
    every = Grid(**GRID.kinds | {"name": FUNCTIONS}, possible=possible)
    check_pairs_of_options(**every.draw([5, seed]), seed=seed)
