"""The way of every public call: its arrays become a request, an executor runs that, and its results
become what the user expects.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from meshsolve._execute import dispatch, eager, meshes
from meshsolve._library import engines, failures, ffi
from meshsolve._library.ffi import Operation
from meshsolve._library.routines import ROUTINES
from meshsolve._prepare import leading, padding
from meshsolve._prepare.operands import (
    DTYPES,
    as_array,
    as_typed,
    check_any,
    check_rhs,
    check_square,
    common_dtype,
    expect_alive,
    promoted,
)

_NOTHING: Mapping[str, Any] = {}
# Operands of the dtype of the call.
_TYPED = ("matrix", "factor", "rhs", "aligned")


class Request(NamedTuple):
    """A call whose arrays need no more checks, conversions or padding.

    Attributes:
      op: the operation.
      n: the order of A without its padding; its rows, if it may be tall.
      form: the storage of the factor that the call makes.
    """

    op: Operation
    n: int
    form: str


def first(request: Request, results) -> jax.Array:
    """The result of a call that has no other."""
    del request
    return results[0]


class Call(NamedTuple):
    """What a user asks of a public function, without the arrays.

    Attributes:
      op: the operation, without what the other attributes and the arrays decide.
      names: the names of the arrays, for messages.
      result: gives what the function returns, from the request and the results.
      on_failure, mesh, engine: as in ``solve``; or the engine of a factor.
      n: the order of the factor that the call uses.
      factor: the class of that.
      method: its method, if that is not what messages name.
    """

    op: Operation
    names: tuple[str, ...] = ("a", "b")
    result: Callable[[Request, Any], Any] = first
    on_failure: str = "nan"
    mesh: Mesh | None = None
    engine: str | None = None
    n: int | None = None
    factor: str = ""
    method: str = ""

    def request(self, n: int, columns: int, a, form: Callable[[Operation, Any], str]) -> Request:
        """The request of a call with the matrix or factor A, which may be padded: its order or rows
        without padding, and its columns.
        """
        public, engine = self.op.public, self.engine or ""
        if self.n is None:
            engine = engines.checked(public, self.engine, meshes.platforms(a))
        raises = failures.raises(public, self.on_failure)
        order = n if a.shape[0] != n else 0
        if self.op.any_shape:
            order = columns if self.op.divided(a.shape) != columns else 0
        op = self.op._replace(order=order, raises=raises, engine=engine)
        makes = "factor" in op.results and not op.drops_factor
        if makes and not engine:
            op = op._replace(engine=meshes.engine_of(a, op.divided(a.shape)))
        return Request(op, n, form(op, a) if makes else "rows")


def run(call: Call, arrays, own=(), by=dispatch.call, rest: Mapping[str, Any] = _NOTHING) -> Any:
    """The result of a call; ``own`` says which of its arrays it may overwrite. ``rest`` are leaves
    of its factor that it does not take.

    ``by(op, operands, own, signatures)`` gives the results of its operation.
    """
    ffi.enter()
    own = own or (False,) * len(arrays)
    signatures = eager.plain(call, (*arrays, *rest.values()))[: len(arrays)]
    widest = jax.dtypes.canonicalize_dtype(float)
    if signatures and (request := _plain(widest, call, *signatures)):
        results = by(request.op, arrays, own, signatures)
        return _finished(call, request, results, arrays)
    if call.factor:
        named = dict(zip(call.names, arrays, strict=True))
        expect_alive(call.method or call.op.public, **named, **rest)
    return _general(call, arrays, own, by)


@functools.lru_cache(maxsize=1024)
def _plain(widest: np.dtype, call: Call, *arrays: eager.Signature) -> Request | None:
    """The request of arrays that need no conversion, padding or batch; None for others. JAX's
    results have at most the precision of ``widest``.
    """
    op, mesh = call.op, call.mesh
    a = arrays[op.matrix]
    m = op.rows(a.shape) if a.ndim == 2 else 0
    n = m if call.n is None else call.n
    fits = op.any_shape or (op.takes_tall and m >= a.shape[-1])
    whole = a.shape if m and fits else (m, m)
    shapes = {"matrix": whole, "factor": whole, "pivots": (m,), "info": (), "real": ()}
    shapes |= {"coefficients": (min(whole),), "number": ()}
    for kind, x in zip(op.operands, arrays, strict=True):
        sides = kind in ("rhs", "aligned") and x.ndim in (1, 2) and x.shape[0] == m == n
        if not (sides or x.shape == shapes.get(kind)) or 0 in x.shape:
            return None
        if kind in _TYPED and x.dtype != a.dtype:
            return None
    there = mesh is None or (
        isinstance(mesh, Mesh) and padding.lies_on(a.sharding, mesh, op.divided(a.shape))
    )
    exact = a.dtype.name in DTYPES and np.finfo(a.dtype).eps >= np.finfo(widest).eps
    return call.request(n, op.divided(a.shape), a, eager.form_of) if there and exact else None


def _general(call: Call, given, own, by) -> Any:
    """The result of a call with any arrays."""
    op, raises = call.op, failures.raises(call.op.public, call.on_failure)
    arrays, n = _checked(call, given)
    pairs = list(zip(arrays, map(_rank, op.operands, arrays), strict=True))
    if any(len(x.shape) > rank for x, rank in pairs):
        one = lambda *x: run(call, x, (), by)  # noqa: E731
        return leading.over(op.public, one, *pairs, raises=raises)
    columns = op.divided(arrays[op.matrix].shape)
    arrays = _converted(call, arrays)
    a, b = arrays[op.matrix], None if op.sides is None else arrays[-1]
    request = call.request(n, columns, a, dispatch.executor(a).form)
    own = [mine or x is not user for mine, x, user in zip(own, arrays, given, strict=True)]
    if a.size == 0 or (b is not None and b.size == 0):
        return call.result(request, _of_nothing(request.op, n, arrays, own, by))
    operands = arrays
    if op.rhs is not None and n != op.rows(a.shape):
        operands = [*arrays[:-1], dispatch.executor(a, b).lengthened(b, a, op.rows(a.shape))]
        own[-1] = True
    return _finished(call, request, by(request.op, operands, tuple(own), ()), arrays)


def _checked(call: Call, given) -> tuple[list[Any], int]:
    """Arrays with shapes and dtypes of JAX's, and the order of A."""
    op, public = call.op, call.op.public
    arrays = []
    for kind, name, x in zip(op.operands, call.names, given, strict=True):
        owner = public if kind in ("rhs", "aligned") else call.factor or public
        arrays.append(as_typed(owner, name, x) if kind == "matrix" else as_array(owner, name, x))
    n, i = call.n, op.matrix
    if n is None:
        check = check_any if op.takes_tall or op.any_shape else check_square
        n = check(public, arrays[i], call.names[i])
    if op.sides is not None:
        of_a = arrays[i].shape[-2:] if op.takes_tall else None
        if op.any_shape:
            of_a = (n, op.divided(arrays[i].shape))
        check_rhs(public, arrays[-1], n, call.names[-1], of_a)
    return arrays, n


def _rank(kind: str, x) -> int:
    """The number of axes of an operand of one call."""
    if kind in ("rhs", "aligned"):
        return min(x.ndim, 2)
    return 2 if kind in _TYPED else int(kind in ("pivots", "coefficients"))


def _converted(call: Call, arrays) -> list[Any]:
    """The arrays in their common dtype, and the matrix on the mesh of the call."""
    op, public = call.op, call.op.public
    typed = [i for i, kind in enumerate(op.operands) if kind in _TYPED]
    named = ["the factor" if op.operands[i] == "factor" else call.names[i] for i in typed]
    dtype = common_dtype(public, " and ".join(named), *(arrays[i] for i in typed))
    padding.check_mesh(public, call.mesh)
    converted = [*arrays]
    for i in typed:
        if op.operands[i] == "matrix" and i == op.matrix:
            put = padding.tall_on_mesh if op.takes_tall else padding.on_mesh
            put = padding.columns_on_mesh if op.any_shape else put
            converted[i] = put(public, arrays[i], call.mesh, dtype)
        elif op.operands[i] == "aligned":
            rows = converted[op.matrix].shape[0]
            converted[i] = padding.as_long(public, arrays[i], rows, call.mesh, dtype)
        elif op.operands[i] == "matrix":
            converted[i] = padding.like(public, arrays[i], arrays[op.matrix], call.mesh, dtype)
        else:
            converted[i] = promoted(arrays[i], dtype)
    for i, kind in enumerate(op.operands):
        if kind == "coefficients":
            converted[i] = promoted(arrays[i], dtype)
    return converted


def _of_nothing(op: Operation, n: int, arrays, own, by):
    """The results for a matrix without rows, or no right-hand sides. ``solve`` factors A if its
    info is wanted.
    """
    a, b = arrays[op.matrix], arrays[-1]
    if n and op.drops_factor and (op.raises or op.has("condition")):
        results = by(op, (a, jnp.zeros((a.shape[0], 1), a.dtype)), (own[0], True), ())
        return (None, b, *results[2:])
    zero = jnp.zeros((), jnp.finfo(a.dtype).dtype)
    made = {"matrix": a, "factor": a, "rhs": b, "value": jnp.ones((), a.dtype)}
    made |= {"pivots": jnp.zeros(0, jnp.int32), "info": jnp.int32(0), "real": zero}
    made["eigenvalues"] = jnp.zeros(0, zero.dtype)
    if op.takes_tall:
        squares = jnp.sum((b.conj() * b).real, axis=0, keepdims=b.ndim == 1)
        made |= {"solution": jnp.zeros((a.shape[1], *b.shape[1:]), b.dtype), "residuals": squares}
        made["triangle"] = jnp.zeros((a.shape[1],) * 2, a.dtype)
    if op.any_shape:
        shape = op.rows(a.shape), op.divided(a.shape)
        made |= {"coefficients": jnp.zeros(0, a.dtype), "factor": jnp.zeros(shape[::-1], a.dtype)}
        made |= {"matrix": jnp.zeros((shape[0], 0), a.dtype)}
        made |= {"upper": jnp.zeros((0, shape[1]), a.dtype)}
        made |= {"real": zero + 1}
        return tuple(made[kind] for kind in op.results)
    named = {"rcond": zero + 1, "trace": jnp.zeros((), a.dtype)}
    results = zip(ROUTINES[op.routine].results, op.results, strict=True)
    return tuple(named.get(array.name, made[kind]) for array, kind in results)


def _finished(call: Call, request: Request, results, arrays) -> Any:
    """What the function returns: solutions and inverses have the size and the sharding of what they
    are made from.
    """
    op, results = request.op, list(results)
    for i, kind in enumerate(op.results):
        x = results[i]
        if kind == "rhs" and x.shape != arrays[-1].shape:
            results[i] = dispatch.executor(x).cut(x, arrays[-1].shape, arrays[-1])
        elif kind == "matrix" and x.shape[0] != request.n and not op.any_shape:
            results[i] = dispatch.executor(x).cut(x, (request.n, min(x.shape[1], request.n)))
        elif kind == "matrix" and "matrix" in op.operands and x.shape == arrays[op.matrix].shape:
            results[i] = dispatch.executor(x).as_given(x, arrays[op.matrix])
    return call.result(request, results)
