"""Programs around the calls: a user's own shard_map, export, caches, lowering, shapes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from derivatives import number, operands
from helpers import mesh_of, mesh_set, put, put_matrix, run_fresh, unit_roundoff

pytestmark = pytest.mark.versions

CUSTOM_CALL = [export.DisabledSafetyCheck.custom_call("meshsolve")]


def residual_ratio(a, x, b) -> float:
    norm = lambda m: np.linalg.norm(m, 1)  # noqa: E731
    return norm(b - a @ x) / (len(a) * norm(a) * norm(x) * unit_roundoff(a.dtype))


@pytest.mark.parametrize(
    ("kind", "storage", "dtype"),
    [
        ("auto", "rows", "float64"),
        ("auto", "columns", "complex128"),
        ("explicit", "rows", "complex64"),
        ("explicit", "columns", "float32"),
    ],
)
def test_inside_a_shard_map_of_ones_own(kind, storage, dtype):
    mesh = mesh_of((3, 1, 0, 2), kind)
    a, b = operands(dtype, 24)
    spec = P("x", None) if storage == "rows" else P(None, "x")
    cases = {
        "gen": (a, a, {}),
        "pos": (a @ a.conj().T, np.tril(a @ a.conj().T), {"assume_a": "pos", "lower": True}),
        "transposed": (a.T, a, {"transposed": True}),
        "sym": (a + a.T, np.triu(a + a.T), {"assume_a": "sym"}),
    }
    for whole, given, options in cases.values():
        for rhs in (b, b[:, 0]):

            def local(a, b, options=options):
                x, info = ms.local.solve(2 * a, b, "x", return_info=True, **options)
                return x, info.info, info.rcond

            f = jax.shard_map(local, mesh=mesh, in_specs=(spec, P()), out_specs=P())
            x, info, rcond = jax.jit(f)(put_matrix(mesh, given, storage), put(mesh, rhs))
            assert residual_ratio(2 * whole, np.asarray(x), rhs) <= 30
            assert info == 0 and 0 < rcond <= 1 and x.shape == rhs.shape


def test_several_axes_and_groups_side_by_side():
    mesh = jax.make_mesh((2, 2, 2), ("i", "j", "k"))
    a, b = operands("float64", 16)
    local = lambda a, b: ms.local.solve(a, b, ("k", "i"))  # noqa: E731
    f = jax.shard_map(
        local, mesh=mesh, in_specs=(P(("k", "i"), None), P(None, "j")), out_specs=P(None, "j")
    )
    b = np.concatenate([b, -b[:, :1]], 1)
    x = jax.jit(f)(put(mesh, a, ("k", "i"), None), put(mesh, b, None, "j"))
    np.testing.assert_allclose(x, np.linalg.solve(a, b), atol=1e-13)


def test_messages_of_local_solve():
    mesh = mesh_of(range(4))
    a, b = operands("float64")
    with pytest.raises(
        ValueError,
        match=r"meshsolve\.local\.solve: axis_name: expected an axis of the jax\.shard_map over "
        r"all axes of a mesh that this is called in, got 'x', with axes \[\] there; outside of "
        r"shard_map use meshsolve\.solve",
    ):
        ms.local.solve(a, b, "x")

    def run(local, *spec):
        specs = (P(*spec or ("x", None)), P())
        return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P())(a, b)

    with pytest.raises(ValueError, match=r"got 'y', with axes \['x'\] there"):
        run(lambda a, b: ms.local.solve(a, b, "y"))
    with pytest.raises(ValueError, match=r"a: expected a device's rows \[n/4, n\] or columns"):
        run(lambda a, b: ms.local.solve(a, b, "x"), None, None)
    with pytest.raises(ValueError, match=r"local\.solve: b: expected shape \[8\] or \[8, k\]"):
        run(lambda a, b: ms.local.solve(a, b[1:], "x"))
    with pytest.raises(ValueError, match=r"differentiate meshsolve\.solve, outside of shard_map"):
        jax.grad(lambda b: run(lambda a, _: ms.local.solve(a, b, "x")).sum())(b)
    with pytest.raises(ValueError, match=r"or meshsolve\.local\.solve inside"):
        run(lambda a, b: ms.solve(a[:, :2], b[:2]))


def test_export_of_local_and_of_explicit_programs():
    a, b = operands("float64")
    for kind in ("auto", "explicit"):
        mesh = mesh_of(range(4), kind)
        on_mesh = put(mesh, a, "x", None), put(mesh, b)
        inner = lambda a, b: ms.local.solve(a, b, "x")  # noqa: E731
        local = jax.shard_map(inner, mesh=mesh, in_specs=(P("x", None), P()), out_specs=P())
        programs = [local]
        if kind == "explicit":
            programs += [ms.solve, lambda a, b: jax.grad(lambda b: ms.solve(a, b).sum())(b)]
        wanted = [np.linalg.solve(a, b)] * 2 + [np.linalg.solve(a.T, np.ones_like(b))]
        for program, x in zip(programs, wanted, strict=False):
            with mesh_set(mesh):
                made = export.export(jax.jit(program), disabled_checks=CUSTOM_CALL)(*on_mesh)
                again = export.deserialize(made.serialize())
                np.testing.assert_allclose(again.call(*on_mesh), x, atol=1e-13)


def test_shapes_and_lowering_ahead_of_time():
    mesh = mesh_of(range(4))
    a, b = operands("float64")
    on_mesh = put(mesh, a, "x", None), put(mesh, b)
    shape = jax.eval_shape(ms.solve, *on_mesh)
    assert (shape.shape, shape.dtype) == (b.shape, b.dtype)
    factor = jax.eval_shape(ms.lu_factor, on_mesh[0])
    assert isinstance(factor, ms.LUFactor) and factor.work.shape == a.shape
    assert jax.eval_shape(lambda f, b: f.solve(b), factor, on_mesh[1]).shape == b.shape
    compiled = jax.jit(jax.grad(lambda a, b: number(ms.solve(a, b)))).lower(*on_mesh).compile()
    wanted = jax.grad(lambda a, b: number(jnp.linalg.solve(a, b)))(a, b)
    np.testing.assert_allclose(compiled(*on_mesh), wanted, atol=1e-12)


def test_the_persistent_compilation_cache(tmp_path):
    """With Explicit axes; with Auto axes JAX identifies programs by an address by default."""
    program = f"""
        from jax import monitoring
        hits = []
        monitoring.register_event_listener(lambda e, **_: hits.append("cache_hit" in e))
        jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        mesh = mesh_of(range(4), "explicit")
        a = put(mesh, 2 * np.eye(8), "x", None)
        del hits[:]
        x = jax.jit(lambda a: ms.solve(3 * a, jnp.ones(8)))(a)
        tell(sum(hits))
        np.testing.assert_allclose(x, 1 / 6)
    """
    first, second = (run_fresh(program).reported for _ in range(2))
    assert first == [0] and second[0] > 0


def test_loops_and_branches():
    mesh = mesh_of(range(4))
    a, b = operands("float64", k=1)
    a, b = put(mesh, a, "x", None), put(mesh, b[:, 0])
    inverse = np.linalg.inv(a)
    three = np.linalg.matrix_power(inverse, 3) @ np.asarray(b)
    solve = lambda b: ms.solve(a, b)  # noqa: E731
    programs = {
        "scan": lambda b: jax.lax.scan(lambda c, _: (solve(c), None), b, None, 3)[0],
        "fori_loop": lambda b: jax.lax.fori_loop(0, 3, lambda _, c: solve(c), b),
        "while_loop": lambda b: jax.lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, solve(s[1])), (0, b)
        )[1],
        "cond": lambda b: jax.lax.cond(b[0] < 9, lambda b: solve(solve(solve(b))), jnp.sin, b),
    }
    for name, program in programs.items():
        np.testing.assert_allclose(jax.jit(program)(b), three, atol=1e-13, err_msg=name)


def test_programs_of_different_operations_differ_in_the_compilation_cache():
    """Also with Auto axes, where their text does not show what the partitioner will call."""
    mesh = mesh_of(range(4))
    a, b = operands("float64")
    a, b = put(mesh, a, "x", None), put(mesh, b)
    calls = [lambda a, b, t=t: ms.solve_triangular(a, b, t) for t in range(3)]
    calls += [lambda a, b, u=u: ms.solve_triangular(a, b, unit_diagonal=u) for u in (True,)]
    texts = [jax.jit(call).lower(a, b).as_text() for call in calls]
    pointers = re.compile(r'backend_config = "\d+"')
    assert len({pointers.sub("", text) for text in texts}) == len(texts)
