"""Which matrices are tall enough to be factored by rows."""

import jax
from jax.sharding import Mesh, PartitionSpec

from meshsolve._execute import dispatch, eager, meshes
from meshsolve._execute.placements import axes_of, devices_along
from meshsolve._execute.typed import spec_of
from meshsolve._library import processes
from meshsolve._prepare import padding

# Rows for each column from which rows are faster than columns on one device.
_LEAST = 8


def stays_by_rows(a, mesh: Mesh | None) -> bool:
    """Whether ``qr`` works on the rows of A: each device that has some has as many as there are
    columns. In a program that does not show the devices of A, these may be all that exist.
    """
    if getattr(a, "ndim", 0) < 2 or 0 in a.shape:
        return False
    m, n = a.shape[-2:]
    if isinstance(mesh, Mesh) and not padding.lies_on(getattr(a, "sharding", None), mesh, m):
        return m >= n * max(_LEAST, mesh.size)
    if dispatch.executor(a) is eager:
        there = meshes.of_array(a)
        return m >= _LEAST * n if there is None else _has_rows(a, there.spec, there.mesh)
    if (spec := spec_of(a)) is not None:
        return _has_rows(a, spec, jax.typeof(a).sharding.mesh)
    ambient = jax.sharding.get_abstract_mesh()
    return _is_tall_for(m, n, jax.device_count() if ambient.empty else ambient.size)


def is_over_processes(a, mesh: Mesh | None) -> bool:
    """Whether A is, or may be, on devices of several processes."""
    if mesh is not None:
        return processes.several(mesh)
    if dispatch.executor(a) is eager:
        there = meshes.of_array(a)
        return there is not None and processes.several(there.mesh)
    return jax.process_count() > 1


def _is_tall_for(m: int, n: int, devices: int) -> bool:
    """Whether so many devices work by rows on a matrix that is not distributed."""
    return m >= n * max(_LEAST, devices) and (m % devices == 0 or n % devices != 0)


def _has_rows(a, spec, mesh) -> bool:
    """Whether A is distributed by rows alone, and each device has enough of them; or A is
    replicated, and would have enough.
    """
    spec = PartitionSpec(*(*spec, *(None,) * a.ndim)[a.ndim - 2 : a.ndim])
    by_row, by_column = axes_of(spec)
    m, n = a.shape[-2:]
    if not by_row and not by_column:
        return _is_tall_for(m, n, mesh.size)
    devices = devices_along(spec, mesh)
    return bool(by_row) and not by_column and m % devices == 0 and m // devices >= n
