"""Donated operands: an error names them, and the process does not end."""

import pytest

from helpers import run_fresh

pytestmark = pytest.mark.versions

# Each function and method with each operand whose memory can be gone. The call is made after one
# that has worked (warm), or as the first of its kind (cold).
CODE = """
from jax.sharding import AxisType
import lineax as lx

kind, warm = {kind!r}, {warm!r}
mesh = mesh_of(range(4), kind)
dense = 8 * np.eye(8) + np.arange(64).reshape(8, 8) / 64

def rows():
    return put(mesh, (dense + dense.T) / 2, "x", None)

def vector():
    return put(mesh, np.ones(8))

def gone(x):
    ms.inv(x, overwrite_a=True) if x.ndim == 2 else x.delete()
    return x

def without(factor, leaf):
    getattr(factor, leaf).delete()
    return factor

one = dict(mesh=mesh, in_specs=(P("x", None), P()), out_specs=P(), check_vma=False)
calls = {{
    "solve": ("ab", ms.solve),
    "solve refined": ("ab", lambda a, b: ms.solve(a, b, refine=True)),
    "solve pos": ("ab", lambda a, b: ms.solve(a, b, assume_a="pos", return_info=True)),
    "solve mesh": ("ab", lambda a, b: ms.solve(a, b, mesh=mesh)),
    "solve_triangular": ("ab", ms.solve_triangular),
    "inv": ("a", lambda a, b: ms.inv(a)),
    "det": ("a", lambda a, b: ms.det(a)),
    "slogdet": ("a", lambda a, b: ms.slogdet(a)),
    "logdet": ("a", lambda a, b: ms.logdet(a)),
    "norm": ("a", lambda a, b: ms.norm(a)),
    "eigvalsh": ("a", lambda a, b: ms.eigvalsh(a)),
    "eigh": ("a", lambda a, b: ms.eigh(a)),
    "norm columns": ("a", lambda a, b: ms.norm(a, axis=0)),
    "cholesky": ("a", lambda a, b: ms.cholesky(a)),
    "lu_factor": ("a", lambda a, b: ms.lu_factor(a)),
    "cho_factor": ("a", lambda a, b: ms.cho_factor(a)),
    "plan": ("ab", ms.plan),
    "transpose_inplace": ("x", lambda a, b: ms.transpose_inplace(a)),
}}

def refused(name, call):
    try:
        jax.block_until_ready(call())
        tell([name, "nothing"])
    except ValueError as error:
        tell([name, str(error)])

for name, (operands, call) in calls.items():
    if warm:
        jax.block_until_ready(call(rows(), vector()))
    for operand in operands:
        a = gone(rows()) if operand in "ax" else rows()
        b = gone(vector()) if operand == "b" else vector()
        refused(f"{{name}} {{operand}}", lambda: call(a, b))
        # In a program the array that is gone is a constant.
        if name not in ("plan", "transpose_inplace"):
            with mesh_set(mesh):
                refused(f"{{name}} {{operand}}", lambda: jax.jit(lambda: call(a, b))())

methods = {{
    "solve": lambda factor: factor.solve(vector()), "inv": lambda factor: factor.inv(),
    "rcond": lambda factor: factor.rcond(), "__iter__": lambda factor: tuple(factor)[0],
}}
kinds = {{
    ms.lu_factor: ("LUFactor", methods | {{
        "det": lambda factor: factor.det(), "slogdet": lambda factor: factor.slogdet(),
        "lu_solve": lambda factor: ms.lu_solve(factor, vector()),
    }}),
    ms.cho_factor: ("CholeskyFactor", methods | {{
        "logdet": lambda factor: factor.logdet(),
        "solve_triangular": lambda factor: factor.solve_triangular(vector()),
        "dot_triangular": lambda factor: factor.dot_triangular(vector()),
        "cho_solve": lambda factor: ms.cho_solve(factor, vector()),
    }}),
}}
for make, (name, of_it) in kinds.items():
    for method, call in of_it.items():
        if warm:
            jax.block_until_ready(call(make(rows())))
        for leaf in make(rows()).RANKS:
            refused(f"{{name}} {{method}} {{leaf}}", lambda: call(without(make(rows()), leaf)))
    b = gone(vector())
    refused(f"{{name}} solve b", lambda: make(rows()).solve(b))

pair = lambda x: (x, np.arange(8, dtype=np.int32))
refused("lu_solve lu", lambda: ms.lu_solve(pair(gone(rows())), vector()))
refused("lu_solve b", lambda: ms.lu_solve(pair(rows()), gone(vector())))
refused("cho_solve c", lambda: ms.cho_solve((gone(rows()), True), vector()))
refused("cho_solve b", lambda: ms.cho_solve((rows(), True), gone(vector())))

c = gone(jnp.ones(8))
inside = jax.shard_map(lambda a, b: ms.local.solve(a, c, "x"), **one)
refused("local.solve b", lambda: inside(rows(), vector()))
operator = lx.MatrixLinearOperator(gone(rows()), lx.positive_semidefinite_tag)
refused("lu_factor a", lambda: ms.lineax.LU().init(operator, {{}}))
refused("cho_factor a", lambda: ms.lineax.Cholesky().init(operator, {{}}))
"""
SAYS = "expected an array that still has its memory, got one of shape"
REMEDY = (
    "that was donated to an earlier call, or deleted; use what that call returned, or make that "
    "call without overwrite_a, overwrite_b or donate_argnums, which copies"
)


@pytest.mark.parametrize(("kind", "warm"), [("auto", True), ("explicit", False)])
def test_every_function_and_method_names_the_operand_that_is_gone(kind, warm):
    reported = run_fresh(CODE.format(kind=kind, warm=warm), timeout=240).reported
    assert len(reported) > 60
    for name, text in reported:
        *names, operand = name.split()
        if names[0] == "norm":
            operand = "x"
        # The call of a function by keywords has its name first, a method its class's name.
        is_method = names[0] in ("LUFactor", "CholeskyFactor")
        function = names[0] if not is_method else f"{names[0]}.{names[1]}"
        if is_method and names[1] in ("lu_solve", "cho_solve"):
            function = names[1]
        assert text.startswith(f"meshsolve.{function}: {operand}: {SAYS} "), name
        assert text.endswith(REMEDY), name
