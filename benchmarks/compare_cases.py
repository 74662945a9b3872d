"""The 300 cases of compare.py.

A case has a routine, a dtype, a storage, a number of ranks, axis types, a number of right-hand
sides, and a way of calling. Every two options of different kinds meet in a case. A case whose call
raises has no result: its message counts. Operands come from a seed that is the number of the case.
Not among the cases are `Rows`, `local.solve`, other engines, and meshes with several axes.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

COUNT = 300
N = 384  # divided by all numbers of ranks
DTYPES = ("float32", "float64", "complex64", "complex128")
STORAGES = ("rows", "columns", "column-major", "replicated")
RANKS = (1, 2, 3, 4)
AXES = ("auto", "explicit")
# Columns of B; for many of them the devices share the columns.
RHS = (1, 5, 40)
WAYS = ("eager", "jit")


class Routine(NamedTuple):
    """A call ``run(ms, a, b)`` of matrices that ``kind`` describes."""

    run: Callable
    kind: str = "general"


def _real(tree):
    """A real number that depends on all entries."""
    import jax

    return sum((abs(leaf) ** 2).sum() for leaf in jax.tree.leaves(tree))


def _gradient(function):
    def run(ms, a, b):
        import jax

        return jax.grad(lambda a, b: _real(function(ms, a, b)), (0, 1))(a, b)

    return run


def _tangent(function):
    def run(ms, a, b):
        import jax

        return jax.jvp(lambda a, b: function(ms, a, b), (a, b), (a, b))[1]

    return run


def _mesh(a):
    """The mesh of A, or a message of meshsolve for a traced A on Auto axes."""
    import jax

    return getattr(jax.typeof(a).sharding, "mesh", None)


def _batch(ms, a, b):
    import jax.numpy as jnp

    return ms.solve(jnp.stack([a, 2 * a]), jnp.stack([b, b]))


_solve = lambda ms, a, b: ms.solve(a, b)  # noqa: E731
_definite = lambda ms, a, b: ms.solve(a, b, assume_a="pos")  # noqa: E731

ROUTINES = {
    "solve": Routine(_solve),
    "solve transposed": Routine(lambda ms, a, b: ms.solve(a, b, transposed=True)),
    "solve donated": Routine(lambda ms, a, b: ms.solve(a + 0, b + 0, overwrite_a=True)),
    "solve refined": Routine(lambda ms, a, b: ms.solve(a, b, refine=True)),
    "solve on a mesh": Routine(lambda ms, a, b: ms.solve(a, b, mesh=_mesh(a))),
    "solve a batch": Routine(_batch),
    "solve with info": Routine(lambda ms, a, b: ms.solve(a, b, return_info=True)),
    "solve pos": Routine(_definite, "definite"),
    "solve pos lower": Routine(
        lambda ms, a, b: ms.solve(a, b, assume_a="pos", lower=True), "definite"
    ),
    "solve sym": Routine(lambda ms, a, b: ms.solve(a, b, assume_a="sym"), "symmetric"),
    "solve her": Routine(lambda ms, a, b: ms.solve(a, b, assume_a="her"), "hermitian"),
    "lu_factor": Routine(lambda ms, a, b: ms.lu_factor(a)),
    "lu_solve": Routine(lambda ms, a, b: ms.lu_factor(a).solve(b)),
    "lu_solve transposed": Routine(lambda ms, a, b: ms.lu_factor(a).solve(b, 1)),
    "lu_solve adjoint": Routine(lambda ms, a, b: ms.lu_factor(a).solve(b, 2)),
    "lu_solve of a pair": Routine(lambda ms, a, b: ms.lu_solve(tuple(ms.lu_factor(a)), b)),
    "cho_solve of a pair": Routine(lambda ms, a, b: ms.cho_solve((a, True), b), "definite"),
    "transpose in place": Routine(lambda ms, a, b: ms.transpose_inplace(a + 0)),
    "lu pair": Routine(lambda ms, a, b: tuple(ms.lu_factor(a))),
    "lu rcond": Routine(lambda ms, a, b: ms.lu_factor(a).rcond()),
    "cho_factor": Routine(lambda ms, a, b: ms.cho_factor(a), "definite"),
    "cho_solve": Routine(lambda ms, a, b: ms.cho_factor(a, lower=True).solve(b), "definite"),
    "cholesky": Routine(lambda ms, a, b: ms.cholesky(a), "definite"),
    "cholesky rcond": Routine(lambda ms, a, b: ms.cho_factor(a).rcond(), "definite"),
    "half of a solve": Routine(lambda ms, a, b: ms.cho_factor(a).solve_triangular(b), "definite"),
    "product with half": Routine(lambda ms, a, b: ms.cho_factor(a).dot_triangular(b), "definite"),
    "solve_triangular": Routine(lambda ms, a, b: ms.solve_triangular(a, b), "definite"),
    "solve_triangular adjoint": Routine(
        lambda ms, a, b: ms.solve_triangular(a, b, trans=2, lower=True), "definite"
    ),
    "inv": Routine(lambda ms, a, b: ms.inv(a)),
    "inv pos": Routine(lambda ms, a, b: ms.inv(a, assume_a="pos"), "definite"),
    "inverse of a factor": Routine(lambda ms, a, b: ms.lu_factor(a).inv()),
    "det": Routine(lambda ms, a, b: ms.det(a / 20)),
    "slogdet": Routine(lambda ms, a, b: ms.slogdet(a)),
    "logdet": Routine(lambda ms, a, b: ms.logdet(a), "definite"),
    "norm 1": Routine(lambda ms, a, b: ms.norm(a, 1)),
    "norm inf": Routine(lambda ms, a, b: ms.norm(a, float("inf"))),
    "norm fro": Routine(lambda ms, a, b: ms.norm(a)),
    "gradient of solve": Routine(_gradient(_solve)),
    "gradient of solve pos": Routine(_gradient(_definite), "definite"),
    "gradient of slogdet": Routine(_gradient(lambda ms, a, b: ms.slogdet(a)[1] + 0 * b.sum())),
    "gradient of inv": Routine(_gradient(lambda ms, a, b: ms.inv(a) @ b)),
    "tangent of solve": Routine(_tangent(_solve)),
    "tangent of cholesky": Routine(_tangent(lambda ms, a, b: ms.cholesky(a)), "definite"),
    "not definite": Routine(
        lambda ms, a, b: ms.solve(a, b, assume_a="pos", on_failure="raise"), "indefinite"
    ),
    "singular": Routine(lambda ms, a, b: ms.solve(a, b, on_failure="raise"), "singular"),
    "not finite": Routine(lambda ms, a, b: ms.lu_factor(a, on_failure="raise"), "nan"),
    "wrong shape": Routine(lambda ms, a, b: ms.solve(a, b[:-1])),
    "wrong word": Routine(lambda ms, a, b: ms.solve(a, b, assume_a="upper")),
    "integers": Routine(lambda ms, a, b: ms.lu_factor((9 * a.real).astype("int32"))),
}


class Case(NamedTuple):
    """One call."""

    routine: str
    dtype: str
    storage: str
    ranks: int
    axes: str
    rhs: int
    way: str

    def __str__(self):
        return ", ".join(map(str, self))


def cases() -> list[Case]:
    """The same ones in every process."""
    import numpy as np

    rng = np.random.default_rng(27)
    kinds = (tuple(ROUTINES), DTYPES, STORAGES, RANKS, AXES, RHS, WAYS)
    draw = lambda: [of[rng.integers(len(of))] for of in kinds]  # noqa: E731
    pairs_of = lambda case: set(itertools.combinations(enumerate(case), 2))  # noqa: E731
    left = {
        ((i, x), (j, y))
        for (i, of_i), (j, of_j) in itertools.combinations(enumerate(kinds), 2)
        for x, y in itertools.product(of_i, of_j)
    }
    chosen = []
    while len(chosen) < COUNT:
        best = draw()
        if left:
            # Of some cases with a pair that is left, the one with the most such pairs.
            pair = min(left, key=str)
            tried = []
            for _ in range(40):
                case = draw()
                for kind, option in pair:
                    case[kind] = option
                tried.append(case)
            best = max(tried, key=lambda case: len(pairs_of(case) & left))
            left -= pairs_of(best)
        if (case := Case(*best)) not in chosen:
            chosen.append(case)
    assert not left, "a case for every pair"
    return chosen


def operands(case: Case, seed: int):
    """A [N, N] and B [N, k] as NumPy arrays."""
    import numpy as np

    rng = np.random.default_rng([27, seed])
    is_complex = case.dtype.startswith("complex")
    draw = lambda *shape: (  # noqa: E731
        rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if is_complex else 0)
    )
    a, b, kind = draw(N, N), draw(N, case.rhs), ROUTINES[case.routine].kind
    if kind in ("definite", "indefinite"):
        a = a @ a.conj().T / N + np.eye(N)
        if kind == "indefinite":
            a[N // 2, N // 2] = -5
    elif kind in ("symmetric", "hermitian"):
        a = a + (a.T if kind == "symmetric" else a.conj().T)
    elif kind == "singular":
        a[:, N // 3] = 0
    elif kind == "nan":
        a[7, 3] = np.nan
    return a.astype(case.dtype), b.astype(case.dtype)
