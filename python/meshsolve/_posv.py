"""How ``solve`` reaches the routine ``posv``: eagerly, traced with Explicit axes, or partitioned.

Modes of the right-hand sides: few are "replicated" and all devices work on each; many are dealt out
by "columns". Columns that the devices do not divide enter and leave by "rows" and are exchanged,
with zero columns added, inside the call.
"""

import contextlib
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from meshsolve import _ffi
from meshsolve._errors import mistake
from meshsolve._sharding import Rows, ambient_rows, rows_for, traced_sharding

# Up to this many right-hand sides are few.
_FEW = 32


def _mode(k: int, rows: Rows) -> str:
    if k <= _FEW:
        return "replicated"
    return "rows" if k % rows.world else "columns"


def _local(rows: Rows, lower: bool, mode: str, a, b):
    """One device's part, where the axes of ``rows.mesh`` have names."""
    call = functools.partial(_ffi.posv, rows.place(), a, world=rows.world, lower=lower)
    if mode != "rows":
        return call(b, rhs=mode)
    k = b.shape[1]
    b = jnp.pad(b, ((0, 0), (0, -k % rows.world)))
    b = lax.all_to_all(b, rows.axes, split_axis=1, concat_axis=0, tiled=True)
    work, x, info = call(b, rhs="columns")
    x = lax.all_to_all(x, rows.axes, split_axis=0, concat_axis=1, tiled=True)
    return work, x[:, :k], info


def _sharded(rows: Rows, lower: bool, mode: str):
    """(a, b) -> (work, x, info) on whole arrays."""
    return jax.shard_map(
        functools.partial(_local, rows, lower, mode),
        mesh=rows.mesh,
        in_specs=(rows.matrix, rows.rhs(mode)),
        out_specs=(rows.matrix, rows.rhs(mode), PartitionSpec()),
        check_vma=False,
    )


def _one_device(a, b, lower):
    mode = "replicated" if b.shape[1] <= _FEW else "columns"
    return _ffi.posv(jnp.zeros(2, jnp.int32), a, b, world=1, lower=lower, rhs=mode)


# Eager: mesh and specs are those of the arrays.


def eager(a, b, lower: bool, own_a: bool, own_b: bool):
    """(x, info) for arrays that are not traced; those that are ``own`` may be overwritten."""
    if isinstance(a.sharding, SingleDeviceSharding):
        if b.sharding.device_set != a.sharding.device_set:
            b, own_b = jax.device_put(b, a.sharding), False
        (x, info), _ = _eager_call(None, lower, "", own_a, own_b)(a, b)
        return x, info
    if not isinstance(a.sharding, NamedSharding):
        raise mistake(
            "solve",
            "a",
            "an array with a NamedSharding, or on one device",
            f"a {type(a.sharding).__name__}",
            "use jax.device_put(x, NamedSharding(mesh, PartitionSpec('x', None)))",
        )
    mesh = a.sharding.mesh
    assert isinstance(mesh, Mesh), "an array that is not traced lies on devices"
    rows = rows_for("solve", mesh, a.sharding.spec, a.shape[0])
    mode = _mode(b.shape[1], rows)
    home = _home(b, mesh)
    a, moved_a = _moved(a, NamedSharding(mesh, rows.matrix))
    b, moved_b = _moved(b, NamedSharding(mesh, rows.rhs(mode)))
    with _mesh_context(mesh):
        run = _eager_call(rows, lower, mode, own_a or moved_a, own_b or moved_b)
        (x, info), _ = run(a, b)
    return (x if x.sharding == home else jax.device_put(x, home)), info


@functools.lru_cache(maxsize=256)
def _eager_call(rows: Rows | None, lower: bool, mode: str, donate_a: bool, donate_b: bool):
    def run(a, b):
        call = _sharded(rows, lower, mode) if rows else functools.partial(_one_device, lower=lower)
        work, x, info = call(a, b)
        # A donated A can only be used in place if its memory is also returned; the caller drops it.
        return (x, info), work if donate_a else None

    donated = tuple(i for i, donate in enumerate((donate_a, donate_b)) if donate)
    return jax.jit(run, donate_argnums=donated)


def _moved(x, target: NamedSharding):
    """(x in sharding ``target``, whether that is memory of its own)."""
    if x.sharding == target:
        return x, False
    y = jax.device_put(x, target)
    pointers = [{s.data.unsafe_buffer_pointer() for s in z.addressable_shards} for z in (x, y)]
    return y, pointers[0].isdisjoint(pointers[1])


def _home(b, mesh: Mesh) -> NamedSharding:
    """The sharding that the solution goes back to."""
    if isinstance(b.sharding, NamedSharding) and b.sharding.mesh == mesh:
        return b.sharding
    return NamedSharding(mesh, PartitionSpec())


def _mesh_context(mesh: Mesh):
    """The array's own mesh where the user has set another one."""
    ambient = jax.sharding.get_abstract_mesh()
    if ambient.empty or ambient == mesh.abstract_mesh:
        return contextlib.nullcontext()
    return jax.set_mesh(mesh)


# Traced: Explicit axes are part of the types; with Auto axes the partitioner knows mesh and specs.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def traced(a, b, lower: bool):
    """(x, info) where a or b is traced."""
    n, k = a.shape[0], b.shape[1]
    sharding = traced_sharding("solve", "a", a)
    if sharding is not None:
        rows = rows_for("solve", sharding.mesh, sharding.spec, n)
    else:
        rows = ambient_rows(n)
    if rows is None:
        _, x, info = _partitioned(a, b, lower)
        return x, info
    mode = _mode(k, rows)
    home = jax.typeof(b).sharding
    explicit = set(rows.mesh.axis_types) == {AxisType.Explicit}
    if explicit:
        a, b = _reshard(a, rows.mesh, rows.matrix), _reshard(b, rows.mesh, rows.rhs(mode))
    _, x, info = _sharded(rows, lower, mode)(a, b)
    if explicit and not home.mesh.empty:
        x = _reshard(x, rows.mesh, home.spec)
    return x, info


def _reshard(x, mesh, spec):
    return jax.sharding.reshard(x, NamedSharding(mesh, spec))


@traced.defjvp
def _refuse_derivative(lower, primals, tangents):
    raise mistake(
        "solve",
        "a, b",
        "arrays that are not differentiated",
        "a request for a derivative",
        "solve has no derivative rule in this version; wrap it in jax.lax.custom_linear_solve",
    )


def _partition(lower, mesh, operands, results):
    del results
    a, b = operands
    if mesh.empty or not isinstance(a.sharding, NamedSharding):
        raise mistake(
            "solve",
            "a",
            "an array that is sharded over a mesh",
            "one without a sharding in a program for several devices",
            "give A a NamedSharding, or set the mesh with jax.set_mesh",
        )
    rows = rows_for("solve", mesh, a.sharding.spec, a.shape[0])
    mode = _mode(b.shape[1], rows)
    matrix, rhs, scalar = (
        NamedSharding(mesh, spec) for spec in (rows.matrix, rows.rhs(mode), PartitionSpec())
    )
    local = functools.partial(_local, rows, lower, mode)
    return mesh, local, (matrix, rhs, scalar), (matrix, rhs)


def _infer_sharding(lower, mesh, operands, results):
    del lower, results
    a, b = operands
    return a.sharding, b.sharding, NamedSharding(mesh, PartitionSpec())


_partitioned = custom_partitioning(_one_device, static_argnums=(2,))
_partitioned.def_partition(
    partition=_partition,
    infer_sharding_from_operands=_infer_sharding,
    sharding_rule="i j, m k -> i j, m k, ",
)
