"""Mixed precision: a factor in the next lower precision, and refinement of its solutions.

Residuals use A itself, in the working precision. A solution is good when, for each column,
norm(b - A x) <= sqrt(n) u norm(A) norm(x) in the infinity norm, LAPACK's rule (``dsgesv``).
Refinement ends early when a step does not halve the residual: then the full factorisation is
cheaper.

Source: Buttari, Dongarra, Langou, Langou, Luszczek, Kurzak, Int. J. High Perform. Comput. Appl. 21
(2007); Higham, Accuracy and Stability of Numerical Algorithms, chapter 12.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from meshsolve._execute import dispatch, eager, meshes
from meshsolve._execute.dispatch import executor
from meshsolve._execute.placements import axes_of
from meshsolve._execute.shards import on_columns
from meshsolve._execute.traced import by_type
from meshsolve._execute.typed import replicated
from meshsolve._library.errors import mistake, wrong_type
from meshsolve._library.ffi import Operation, operation
from meshsolve._rules import derivatives
from meshsolve._rules.batching import batchable
from meshsolve._rules.linear import solution

_LOWER = {"float64": "float32", "complex128": "complex64"}
# The limit of LAPACK.
_STEPS = 30


def check_dtype(dtype) -> None:
    """Refuse a dtype without a lower precision."""
    if dtype.name not in _LOWER:
        raise wrong_type(
            "solve",
            "refine",
            "False for float32 and complex64",
            f"True for {dtype}",
            "float64 and complex128 are factored in half their precision and refined",
        )


def lower_dtype(dtype):
    """The dtype that A is factored in."""
    check_dtype(dtype)
    return jnp.dtype(_LOWER[dtype.name])


def solve(op: Operation, operands, own, signatures=()):
    """(None, X, info[, rcond], steps): the results of ``op`` without its factor, and the number of
    steps. It is -1 if the working precision alone has given X.
    """
    del signatures
    a, b = operands
    if op.engine:
        remedy = "leave one of them out"
        raise mistake("solve", "refine", f'False with engine="{op.engine}"', "True", remedy)
    check_dtype(a.dtype)
    if executor(a, b) is not eager:
        kinds = op._replace(results=(*op.results, "info"))
        return on_columns(kinds, lambda a, b: (None, *_differentiable(op)(a, b)), operands)

    def full(a, b, mine=own[0]):
        return dispatch.call(op, (a, b), (mine, False))[1:]

    a = meshes.anchored(a)
    at, sharding = eager.eager_placement("solve", a), a.sharding
    if at is None:
        home = rest = sharding
        if isinstance(sharding, NamedSharding):
            # Replicated over devices that do not divide n: the first device works for all.
            home = meshes.home(b, sharding.mesh)
            rest = NamedSharding(sharding.mesh, PartitionSpec())
            a = a.addressable_data(0)
            full = functools.partial(full, mine=False)
        with meshes.device_context(a):
            x, *more = _refined(op, a, jax.device_put(b, a.sharding), full)
        return None, jax.device_put(x, home), *jax.device_put(more, rest)
    home, target = meshes.home(b, at.mesh), NamedSharding(at.mesh, at.spec("matrix", ""))
    with meshes.mesh_context(at.mesh):
        # Once, and not for each residual, if A is in blocks or replicated.
        if not sharding.is_equivalent_to(target, 2):
            a, mine = eager.moved(a, target)
            full = functools.partial(full, mine=mine)
        return None, *_refined(op, a, jax.device_put(b, home), full)


@functools.lru_cache(maxsize=256)
def _differentiable(op: Operation):
    """A function whose derivatives are those of the full factorisation, which then also gives the
    solution.
    """

    def full(a, b):
        return dispatch.traced(op, a, b)[1:]

    def in_full(_, a, b):
        x, *more = full(a, b)
        return (x,), (*more, jnp.int32(-1))

    refined = jax.jit(lambda a, b: _refined(op, _where_solved(op, a), b, full))
    solutions = (True, *(False,) * (3 if op.has("condition") else 2))
    each = batchable(refined, 1, solutions)

    def solved(a, b):
        fixed = lax.stop_gradient(a)

        def run(trans, r):
            if trans == op.trans:
                x, *more = each(fixed, r)
            else:
                _, x, *more = dispatch.traced(op._replace(trans=trans), fixed, r)
                more = (*more, jnp.int32(-1))
            return x, tuple(more)

        x, more = solution(op, run, dispatch.itself, a, dispatch.laid_out(op, a, b))
        return x, *more

    run = jax.custom_jvp(solved)
    rule = derivatives.by(in_full)
    run.defjvp(functools.partial(rule, None), symbolic_zeros=True)
    return run


def _where_solved(op: Operation, a):
    """A traced A, with Explicit axes in the sharding of ``op``: arrays that are made from it in
    several ways then have one type.
    """
    there = by_type(op, a)
    return a if there is None else jax.sharding.reshard(a, there)


def _refined(op: Operation, a, b, full):
    norm, factor, correct = _lower_factor(op, a)
    half = "hermitian" if op.family == "cholesky" else op.structure
    take = operation("residual", "solve", structure=half, lower=op.lower, trans=op.trans)
    residual = lambda x: dispatch.call(take, (a, b, x))[0]  # noqa: E731
    unit = float(jnp.finfo(a.dtype).eps) / 2
    bound = norm.astype(jnp.finfo(a.dtype).dtype) * (a.shape[0] ** 0.5 * unit)
    x, previous = correct(b), jnp.inf
    if executor(x) is not eager:
        return _traced(op, a, b, x, correct, residual, bound, factor, full)
    for step in range(_STEPS):
        r = residual(x)
        good, size = _judge(x, r, bound)
        if good:
            return x, jnp.int32(0), *_rcond(op, factor), jnp.int32(step)
        if not size < previous / 2:
            break
        x, previous = _sum(x, correct(r)), size
    del factor, correct
    return *full(a, b), jnp.int32(-1)


def _traced(op: Operation, a, b, x, correct, residual, bound, factor, full):
    """The same refinement, where the traced program itself decides about convergence."""

    def improve(state):
        x, r, _, size, step = state
        x = _sum(x, correct(r))
        r = residual(x)
        good, new = _judge(x, r, bound)
        return x, r, good | ~(new < size / 2), new, step + 1

    def ends(state):
        return ~state[2] & (state[4] < _STEPS)

    r = residual(x)
    good, size = _judge(x, r, bound)
    state = (x, r, good | ~jnp.isfinite(size), size, jnp.int32(0))
    x, r, _, _, step = lax.while_loop(ends, improve, state)
    good, _ = _judge(x, r, bound)
    done = lambda: (x, jnp.int32(0), *_rcond(op, factor), step)  # noqa: E731
    return lax.cond(good, done, lambda: (*full(a, b), jnp.int32(-1)))


def _lower_factor(op: Operation, a):
    """(Infinity norm of op(A), operation and operands of rcond, solve for a correction)."""
    work = a.astype(_LOWER[a.dtype.name])
    # The norms of a Hermitian or symmetric matrix are equal, and the 1-norm is that of A^T.
    definite = op.family == "cholesky"
    rows = not definite and op.structure == "general" and op.trans == 0
    norm = _row_sum(work, op.order or a.shape[0]) if rows else None
    made = {"lower": op.lower, "order": op.order, "structure": op.structure}
    used = {"storage": executor(work).form(op, work), "order": op.order}
    routines = ("potrf", "potrs", "pocon") if definite else ("getrf", "getrs", "gecon")
    each = zip(routines, (made, used | {"trans": op.trans}, used), strict=True)
    factor, back, condition = (operation(name, "solve", **fields) for name, fields in each)
    *leaves, anorm = dispatch.call(factor, (work,), (True,))

    def correct(r):
        scaled, size = _scaled(r, work.dtype)
        (x,) = dispatch.call(back, (*leaves, scaled), (False,) * len(leaves) + (True,))
        return _unscaled(x, size, r.dtype)

    estimate = (condition, (*leaves, anorm))
    return anorm if norm is None else norm, estimate, correct


def _rcond(op: Operation, factor):
    """The estimate of rcond by the factor in lower precision, if it is wanted."""
    if not op.has("condition"):
        return ()
    (rcond,) = dispatch.call(*factor)
    return (rcond.astype(jnp.float64),)


def _row_sum(a, order: int):
    """The largest sum of a row, without the identity corner that pads A."""
    if executor(a) is not eager:
        return replicated(jnp.abs(a).sum(1))[:order].max()
    sharding = a.sharding if isinstance(a.sharding, NamedSharding) else None
    return _largest_row(sharding, order)(a)


@functools.lru_cache(maxsize=256)
def _largest_row(sharding: NamedSharding | None, order: int):
    """The largest row sum of a matrix in its own sharding; devices send only sums."""

    def sums(a):
        # Row by row, because XLA may make an array of all absolute values at once.
        local = lax.map(lambda row: jnp.abs(row).sum(), a)
        return lax.psum(local, by_column) if by_column else local

    spec = PartitionSpec(*(*(sharding.spec if sharding else ()), None, None)[:2])
    _, by_column = axes_of(spec)
    if sharding:
        out = PartitionSpec(spec[0])
        sums = jax.shard_map(
            sums, mesh=sharding.mesh, in_specs=spec, out_specs=out, check_vma=False
        )
    return jax.jit(lambda a: replicated(sums(a))[:order].max())


@functools.partial(jax.jit, static_argnums=1)
def _scaled(r, dtype):
    """(R, scaled to a largest entry of 1 so that it does not underflow in ``dtype``; the scale)."""
    size = jnp.abs(r).max()
    size = jnp.where((size > 0) & jnp.isfinite(size), size, 1)
    return (r / size).astype(dtype), size


@functools.partial(jax.jit, static_argnums=2)
def _unscaled(x, size, dtype):
    return x.astype(dtype) * size


@functools.partial(jax.jit, donate_argnums=0)
def _sum(x, d):
    return x + d


@jax.jit
def _judge(x, r, bound):
    """Whether X is good, and the largest relative residual of its columns."""
    x, r = jnp.abs(x).max(0), jnp.abs(r).max(0)
    limit = bound * x
    good = (jnp.isfinite(limit) & (r <= limit)).all()
    return good, (r / jnp.where(x > 0, x, 1)).max()
