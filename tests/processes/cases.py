"""Every function that works over several processes, compared with NumPy. Each case reports its
name, and what went wrong or nothing. The argument "brief" leaves out sizes and options.
"""

import sys
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from begin import SIZE, AxisType, P, mesh_of, put, report, whole
from plans import plans
from samples import BRIEF, DTYPES, SPECS, chosen, close, half, matrix, sides

import meshsolve as ms


def solves(dtype, storage):
    """All kinds of matrices and of right-hand sides, both triangles, a mesh in another order."""
    mesh = mesh_of()
    for kind in ("gen", "pos", "her", "sym"):
        for lower in chosen((True, False)) if kind != "gen" else (False,):
            a = matrix(24 * SIZE, dtype, kind)
            for k in chosen((33 + SIZE, 0)) if lower else (3,):
                expect_solved(mesh, a, kind, lower, k, storage)
        if not BRIEF:
            turned = mesh_of(range(SIZE)[::-1])
            expect_solved(turned, matrix(7 * SIZE, dtype, kind), kind, False, 1, storage)


def expect_solved(mesh, a, kind, lower, k, storage):
    """Solve with so many right-hand sides, and expect the solution."""
    b = sides(len(a), k, a.dtype.name)
    there = put(mesh, a if kind == "gen" else half(a, lower), *SPECS[storage])
    x = ms.solve(there, put(mesh, b), assume_a=kind, lower=lower)
    close(x, np.linalg.solve(a.astype(np.complex128), b).astype(a.dtype), a)


def factors(dtype, storage):
    """Factors, and all that they give."""
    n, mesh = 16 * SIZE, mesh_of()
    b = sides(n, 2, dtype)
    for lower in chosen((False, True)):
        a = matrix(n, dtype, "pos")
        f = ms.cho_factor(put(mesh, half(a, lower), *SPECS[storage]), lower=lower)
        assert int(whole(f.info)) == 0
        close(f.solve(put(mesh, b)), np.linalg.solve(a, b), a)
        close(f.logdet(), np.linalg.slogdet(a)[1], a)
        close(f.inv(), np.linalg.inv(a), a)
        rcond = 1 / (np.linalg.norm(a, 1) * np.linalg.norm(np.linalg.inv(a), 1))
        assert 0.9 * rcond <= float(whole(f.rcond())) <= 10 * rcond
    a = matrix(n, dtype)
    f = ms.lu_factor(put(mesh, a, *SPECS[storage]))
    for trans, op in enumerate((a, a.T, a.conj().T)):
        close(f.solve(put(mesh, b), trans=trans), np.linalg.solve(op, b), a)
    _, pivots = scipy.linalg.lu_factor(a)
    assert (whole(f.pivots) == pivots).all()
    of_small = ms.lu_factor(put(mesh, a / 16, *SPECS[storage]))
    close(of_small.det(), np.linalg.det(a / 16), a, factor=500)
    sign, logdet = f.slogdet()
    close(sign, np.linalg.slogdet(a)[0], a)
    close(logdet, np.linalg.slogdet(a)[1], a)
    close(f.inv(), np.linalg.inv(a), a)
    rcond = 1 / (np.linalg.norm(a, 1) * np.linalg.norm(np.linalg.inv(a), 1))
    assert 0.9 * rcond <= float(whole(f.rcond())) <= 10 * rcond


def others(dtype, storage):
    """Inverses, determinants, norms and triangular solves."""
    n, mesh = 12 * SIZE, mesh_of()
    a, pos = matrix(n, dtype), matrix(n, dtype, "pos")
    there = put(mesh, a, *SPECS[storage])
    close(ms.inv(there), np.linalg.inv(a), a)
    close(ms.inv(put(mesh, pos, *SPECS[storage]), assume_a="pos"), np.linalg.inv(pos), pos)
    small = a / 16
    close(ms.det(put(mesh, small, *SPECS[storage])), np.linalg.det(small), a, factor=500)
    close(ms.slogdet(there)[1], np.linalg.slogdet(a)[1], a)
    close(ms.logdet(put(mesh, pos, *SPECS[storage])), np.linalg.slogdet(pos)[1], pos)
    for which in (1, np.inf, "fro"):
        close(ms.norm(there, which), np.linalg.norm(a, which))
    b = sides(n, 3, dtype)
    every = [(lower, trans, unit) for unit in (0, 1) for lower in (0, 1) for trans in (0, 1, 2)]
    for lower, trans, unit in every[::4] if BRIEF else every:
        t = np.tril(a) if lower else np.triu(a)
        t = t / (4 * np.abs(t).max()) + np.eye(n)
        if unit:
            np.fill_diagonal(t, 1)
        t, options = t.astype(dtype), {"lower": bool(lower), "trans": trans}
        options["unit_diagonal"] = bool(unit)
        x = ms.solve_triangular(put(mesh, t, *SPECS[storage]), put(mesh, b), **options)
        close(x, scipy.linalg.solve_triangular(t, b, **options), t)


def eigen(dtype, storage):
    """Eigenvalues and eigenvectors, both triangles, a padded matrix, one that is not finite."""
    mesh, real = mesh_of(), {"float32": 1e-5, "complex64": 1e-5}.get(dtype, 1e-13)
    for n, lower in chosen(((20 * SIZE, False), (7 * SIZE, True))):
        a = matrix(n, dtype, "her")
        a = (a + a.conj().T) / 2
        given = put(mesh, half(a, lower), *SPECS[storage])
        expected = np.linalg.eigvalsh(a.astype(np.complex128))
        size = np.abs(expected).max()
        w = whole(ms.eigvalsh(given, lower=lower))
        assert np.abs(w - expected).max() < 10 * n * real * size, np.abs(w - expected).max()
        found = ms.eigh(given, lower=lower)
        w, v = whole(found.eigenvalues), whole(found.eigenvectors)
        assert np.abs(w - expected).max() < 10 * n * real * size
        assert np.abs(a @ v - v * w).max() < 10 * n * real * size
        assert np.abs(v.conj().T @ v - np.eye(n)).max() < 10 * n * real
        assert found.eigenvectors.sharding.is_equivalent_to(given.sharding, 2)
        part = ms.eigh(given, lower=lower, subset_by_index=(1, 3))
        some = whole(part.eigenvectors)
        assert np.abs(whole(part.eigenvalues) - expected[1:4]).max() < 10 * n * real * size
        assert np.abs(a @ some - some * w[1:4]).max() < 10 * n * real * size
        b = matrix(n, dtype, "pos")
        w, v = map(whole, ms.eigh(put(mesh, a, *SPECS[storage]), put(mesh, b, *SPECS[storage])))
        bound = 100 * n * real * np.linalg.cond(b.astype(np.complex128))
        assert np.abs(a @ v - b @ v * w).max() < bound * size
    a[0, 1] = a[1, 0] = np.nan
    assert np.isnan(whole(ms.eigvalsh(put(mesh, a, *SPECS[storage])))).all()
    if storage == "rows":
        a = matrix(7 * SIZE + 1, dtype, "her")
        w, v = map(whole, ms.eigh(a, mesh=mesh))
        assert v.shape == a.shape and np.abs(a @ v - v * w).max() < 100 * len(a) * real


def tall(dtype, storage):
    """Least squares and QR of tall matrices: many rows, as many as columns, fewer on each."""
    mesh, eps = mesh_of(), float(np.finfo(dtype).eps)
    shapes = {
        "rows": ((40 * SIZE, 7), (6 * SIZE, 6), (4 * SIZE, 4 * SIZE - 1), (3 * SIZE, 2 * SIZE)),
        "columns": ((5 * SIZE, 2 * SIZE),),
    }
    for m, n in shapes[storage][-1:] if BRIEF else shapes[storage]:
        full = sides(m, n, dtype)
        a = put(mesh, full, *SPECS[storage])
        for b in (sides(m, 0, dtype), sides(m, 3, dtype)):
            x, squares, info = ms.lstsq(a, put(mesh, b, *("x", None)[: b.ndim]))
            exact = np.linalg.lstsq(full.astype(np.complex128), b, None)[0].astype(dtype)
            close(x, exact, full)
            assert int(whole(info)) == 0
            rest = np.linalg.norm(b - full @ exact, axis=0) ** 2
            size = np.linalg.norm(b, axis=0) ** 2
            assert (np.abs(whole(squares) - rest) <= 100 * m * eps * size).all(), (squares, rest)
        x = ms.lstsq(a, put(mesh, b), ridge=0.5).x
        normal = full.conj().T @ full + 0.5 * np.eye(n)
        close(x, np.linalg.solve(normal, full.conj().T @ b), normal)
    x, _, info = ms.lstsq(full[:-1], b[:-1], mesh=mesh)
    close(x, np.linalg.lstsq(full[:-1], b[:-1], None)[0], full)
    equal = full.copy()
    equal[:, 1] = equal[:, 0]
    equal = put(mesh, equal, *SPECS[storage])
    x, squares, info = ms.lstsq(equal, b)
    assert int(whole(info)) == 2 and np.isnan(whole(x)).all() and np.isnan(whole(squares)).all()
    try:
        jax.block_until_ready(jax.jit(lambda a: ms.lstsq(a, b, on_failure="raise"))(equal))
    except jax.errors.JaxRuntimeError as error:
        assert "got one whose column 2 depends on those before it" in str(error), error
    else:
        raise AssertionError("no error")
    if storage == "rows":
        expect_factored(dtype)


def expect_factored(dtype):
    """Q and R as LAPACK has them, in every order of the processes."""
    for mesh in chosen((mesh_of(), mesh_of(range(SIZE)[::-1]))):
        for m, n in chosen(((40 * SIZE, 7), (7 * SIZE, 4), (6 * SIZE, 6))):
            full = sides(m, n, dtype)
            exact_q, exact = np.linalg.qr(full.astype(np.complex128))
            for a, at in ((put(mesh, full, "x", None), None), (full[: m - 1], mesh)):
                if at is not None and m < 8 * n:
                    continue
                if at is not None:
                    exact_q, exact = np.linalg.qr(a.astype(np.complex128))
                close(ms.qr(a, "r", mesh=at), exact.astype(dtype), full)
                q, r = ms.qr(a, mesh=at)
                close(r, exact.astype(dtype), full)
                close(q, exact_q.astype(dtype), full)
                q = whole(q).astype(np.complex128)
                bar = 100 * m * float(np.finfo(dtype).eps)
                assert np.abs(q.conj().T @ q - np.eye(n)).max() < bar


def reflectors(dtype, storage):
    """Q and R of matrices of any shape by columns, square ones by rows, and wide least squares."""
    mesh, eps = mesh_of(), float(np.finfo(dtype).eps)
    square, cut = 24 * SIZE, 8 * SIZE - 1
    shapes = [(square + 3, 16 * SIZE), (8 * SIZE, 24 * SIZE)] if storage == "columns" else []
    shapes.append((square, square))
    for m, n in chosen(shapes):
        full, least = sides(m, n, dtype), min(m, n)
        a = put(mesh, full, *SPECS[storage])
        _, exact = np.linalg.qr(full.astype(np.complex128))
        bar = 100 * max(m, n) * eps

        def expect(x, y, size=1.0, bar=bar):
            assert np.abs(whole(x) - y).max() <= bar * size, np.abs(whole(x) - y).max()

        q, r = ms.qr(a)
        expect(r, exact, np.linalg.norm(full) / np.abs(np.diag(exact)).min())
        expect(whole(q) @ whole(r), full, np.abs(full).max())
        expect(whole(q).conj().T @ whole(q), np.eye(least))
        assert np.array_equal(whole(ms.qr(a, "r")), whole(r))
        f = ms.qr(a, "raw")
        assert f.engine == "scalapack" and int(whole(f.info)) == 0
        assert np.array_equal(whole(f.r), whole(r)) and np.array_equal(whole(f.q), whole(q))
        for k in chosen((3, 0, 34)):
            x = sides(m, k, dtype)
            back = f.apply_q(f.apply_qt(put(mesh, x)))
            expect(back, x, np.abs(x).max())
        if m >= n:
            b = sides(m, 2, dtype)
            exact = np.linalg.lstsq(full.astype(np.complex128), b, None)[0].astype(dtype)
            close(f.solve(put(mesh, b)), exact, full)
            c = sides(n, 2, dtype)
            exact = np.linalg.pinv(full.conj().T.astype(np.complex128)) @ c
            close(f.solve(put(mesh, c), trans=2), exact.astype(dtype), full)
            upper = whole(r)
            rcond = 1 / (np.linalg.norm(upper, 1) * np.linalg.norm(np.linalg.inv(upper), 1))
            found = float(whole(f.rcond))
            assert 0.9 * rcond <= found <= 10 * rcond, (found, rcond)
        else:
            b = sides(m, 2, dtype)
            x, squares, info = ms.lstsq(a, put(mesh, b))
            close(x, np.linalg.lstsq(full.astype(np.complex128), b, None)[0].astype(dtype), full)
            assert int(whole(info)) == 0 and (whole(squares) == 0).all()
            x = ms.lstsq(a, put(mesh, b), ridge=0.5).x
            gram = full @ full.conj().T + 0.5 * np.eye(m)
            close(x, full.conj().T @ np.linalg.solve(gram, b), gram)
    full = sides(square, square, dtype)
    full[:, 5] = full[:, 2]
    f = ms.qr(put(mesh, full, *SPECS[storage]), "raw")
    assert int(whole(f.info)) == 6 and float(whole(f.rcond)) == 0
    assert np.isnan(whole(f.solve(sides(square, 1, dtype)))).all()
    if storage == "columns":
        full = sides(9 * SIZE, cut, dtype)
        q, r = ms.qr(full, mesh=mesh)
        assert (
            np.abs(whole(q) @ whole(r) - full).max() <= 100 * len(full) * eps * np.abs(full).max()
        )


def axes():
    """Rows over the axes of a mesh in another order than the mesh has them."""
    devices = np.array(jax.devices()).reshape(SIZE // 2, 2)
    mesh = jax.sharding.Mesh(devices, ("x", "y"))
    full, square, b = sides(40 * SIZE, 5, "float64"), matrix(8 * SIZE, "float64"), np.ones(8 * SIZE)
    for spec in ((("y", "x"), None), (("x", "y"), None), ("y", "x")):
        wide = full if spec[1] is None else np.hstack([full, full**2, full**3, full**4])
        a = put(mesh, wide, *spec)
        q, r = map(whole, ms.qr(a))
        close(r, np.linalg.qr(wide)[1], wide)
        close(q @ r, wide)
        x = ms.lstsq(a, put(mesh, wide[:, 0])).x
        close(x, np.eye(wide.shape[1])[0], wide)
        close(ms.solve(put(mesh, square, *spec), put(mesh, b)), np.linalg.solve(square, b), square)


def committed():
    """Arrays on a device of the process, with mesh=, and right-hand sides there."""
    mesh, here = mesh_of(), jax.local_devices()[0]
    full, b = sides(40 * SIZE + 1, 3, "float64"), sides(40 * SIZE + 1, 0, "float64")
    local = jax.device_put(full, here)
    close(ms.lstsq(local, jax.device_put(b, here), mesh=mesh).x, np.linalg.lstsq(full, b)[0], full)
    close(ms.qr(local, "r", mesh=mesh), np.linalg.qr(full)[1], full)
    wide = put(mesh, sides(4 * SIZE, 12 * SIZE, "float64"), None, "x")
    b = sides(4 * SIZE, 0, "float64")
    x = ms.lstsq(wide, jax.device_put(b, here)).x
    close(x, np.linalg.lstsq(whole(wide), b)[0], whole(wide))
    # Each process alone, with reflectors by rows.
    alone = ms.qr(local, "raw")
    assert alone.storage == "rows" and alone.engine == ""
    assert alone.solve(sides(len(full), 0, "float64")).shape == (3,)


def failures():
    """Matrices without an answer are reported alike everywhere."""
    n, mesh = 8 * SIZE, mesh_of()
    a = np.eye(n)
    a[n - 2, n - 2] = -1
    x, info = ms.solve(
        put(mesh, a, "x", None), put(mesh, np.ones(n)), assume_a="pos", return_info=True
    )
    assert int(whole(info.info)) == n - 1 and np.isnan(whole(x)).all()
    a[n - 2, n - 2] = np.nan
    f = ms.cho_factor(put(mesh, a, "x", None))
    assert int(whole(f.info)) == n - 1
    singular = np.ones((n, n))
    singular[0, 0] = 2
    x, info = ms.solve(put(mesh, singular, "x", None), put(mesh, np.ones(n)), return_info=True)
    assert int(whole(info.info)) == 3 and np.isnan(whole(x)).all()
    try:
        ms.solve(put(mesh, singular, "x", None), put(mesh, np.ones(n)), on_failure="raise")
    except np.linalg.LinAlgError as error:
        assert "pivot 3 is zero or not finite (info = 3)" in str(error), error
    else:
        raise AssertionError("no error")
    a = np.triu(np.ones((n, n)))
    a[4, 4] = 0
    x = ms.solve_triangular(put(mesh, a, "x", None), put(mesh, np.ones(n)))
    assert np.isnan(whole(x)).all()


def transformations(kind):
    """jit, vmap, derivatives, a loop, with both types of axes."""
    n, mesh = 8 * SIZE, mesh_of(kind=AxisType[kind])
    a, b = matrix(n, "float64", "pos"), sides(n, 2, "float64")
    there, right = put(mesh, a, "x", None), put(mesh, b)
    with jax.set_mesh(mesh):
        solve = jax.jit(lambda a, b: ms.solve(a, b, assume_a="pos"))
        close(solve(there, right), np.linalg.solve(a, b), a)
        close(jax.jit(ms.logdet)(there), np.linalg.slogdet(a)[1], a)
        many = np.stack([a, 2 * a])
        x = jax.jit(jax.vmap(ms.solve, (0, None)))(put(mesh, many, None, "x", None), right)
        close(x, np.stack([np.linalg.solve(m, b) for m in many]), a)

        def loss(a, b):
            return jnp.sum(ms.solve(a, b) ** 2)

        of_a, of_b = jax.jit(jax.grad(loss, (0, 1)))(there, right)
        x = np.linalg.solve(a, b)
        lam = np.linalg.solve(a.T, 2 * x)
        close(of_b, lam, a)
        close(of_a, -lam @ x.T, a)

        w, v = np.linalg.eigh(a)
        of_sum = jax.jit(jax.grad(lambda a: jnp.sum(ms.eigvalsh(a)[:2])))(there)
        of_sum = whole(of_sum)
        gap = w[-1] / (w[2] - w[1])
        close((of_sum + of_sum.T) / 2, v[:, :2] @ v[:, :2].T, factor=50 * gap)

        thin, data = sides(40 * SIZE, 3, "float64"), sides(40 * SIZE, 0, "float64")
        given = put(mesh, thin, "x", None), put(mesh, data, "x")

        def misfit(a, b):
            x, squares, _ = ms.lstsq(a, b)
            return jnp.sum(x**2) + jnp.sum(squares)

        def by_hand(a, b):
            x = jnp.linalg.lstsq(a, b)[0]
            return jnp.sum(x**2) + jnp.sum((b - a @ x) ** 2)

        found = jax.jit(jax.grad(misfit, (0, 1)))(*given)
        for got, exact in zip(found, jax.grad(by_hand, (0, 1))(thin, data), strict=True):
            close(got, exact, thin, factor=500)
        of_r = jax.jit(jax.grad(lambda a: jnp.sum(ms.qr(a, "r") ** 3)))(given[0])
        close(of_r, jax.grad(lambda a: jnp.sum(jnp.linalg.qr(a, "r") ** 3))(thin), thin, factor=500)
        batch = np.stack([thin, 2 * thin])
        several = jax.jit(jax.vmap(lambda a, b: ms.lstsq(a, b).x, (0, None)))
        x = several(put(mesh, batch, None, "x", None), given[1])
        close(x, np.stack([np.linalg.lstsq(m, data, None)[0] for m in batch]), thin)

        def step(_, x):
            return ms.solve(there_of[0], x) + right

        def loop(a, b):
            there_of[:] = [a]
            return jax.lax.fori_loop(0, 3, step, b)

        there_of = [there]
        x = b
        for _ in range(3):
            x = np.linalg.solve(a, x) + b
        close(jax.jit(loop)(there, right), x, a)


def independent(programs=3, count=12):
    """Independent calls in programs, with uneven work before each; one call site inlined twice."""
    n, mesh = 8 * SIZE, mesh_of()
    matrices = [matrix(n, "float64") for _ in range(count)]
    b = sides(n, 1, "float64")

    def slow(x, k):
        steps = ((jax.lax.axis_index("x") * 7 + k * 13) % 11) * 20
        small = jnp.full((60, 60), 1e-3) + x[0, 0] * 0
        small = jax.lax.fori_loop(0, steps, lambda _, m: m @ m * 1e-3, small)
        return x + small[0, 0] * 0

    def delayed(x, k):
        part = jax.shard_map(lambda x: slow(x, k), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        return part(x)

    inner = jax.jit(ms.solve)

    @jax.jit
    def program(*matrices):
        some = [ms.solve(delayed(a, k), b) for k, a in enumerate(matrices)]
        return [*some, inner(matrices[0], b), inner(matrices[1], b)]

    there = [put(mesh, a, "x", None) for a in matrices]
    for _ in range(programs):
        found = program(*there)
        for a, x in zip([*matrices, *matrices[:2]], found, strict=True):
            close(x, np.linalg.solve(a, b), a)


def placements():
    """What else a matrix may be: replicated, NumPy's with mesh=, an order to pad; reruns."""
    mesh = mesh_of()
    n = 10 * SIZE
    a, b = matrix(n, "float64"), sides(n, 1, "float64")
    close(ms.solve(put(mesh, a), put(mesh, b)), np.linalg.solve(a, b), a)
    close(ms.solve(put(mesh, a, "x", None), b), np.linalg.solve(a, b), a)
    first = whole(ms.solve(put(mesh, a, "x", None), put(mesh, b)))
    again = whole(ms.solve(put(mesh, a, "x", None), put(mesh, b)))
    assert first.tobytes() == again.tobytes()
    donated = put(mesh, a, "x", None)
    close(ms.solve(donated, put(mesh, b), overwrite_a=True), np.linalg.solve(a, b), a)
    assert donated.is_deleted()
    call = ms.last_call()
    assert call["ranks"] == SIZE and {"arrange", "factor", "solve"} <= set(call["seconds"])
    # Replicated, of an order that the processes do not divide: each has the answer.
    odd = matrix(n + 1, "float64")
    ones = np.ones(n + 1)
    x = ms.solve(put(mesh, odd), put(mesh, ones))
    close(x, np.linalg.solve(odd, ones), odd)
    assert x.sharding.mesh == mesh
    close(ms.lu_factor(put(mesh, odd)).solve(put(mesh, ones)), np.linalg.solve(odd, ones), odd)
    # Right-hand sides on a mesh in another order, and on a device of the process.
    other = put(mesh_of(range(SIZE)[::-1]), b)
    close(ms.solve(put(mesh, a, "x", None), other), np.linalg.solve(a, b), a)
    local = jax.device_put(ones, jax.local_devices()[0])
    close(ms.solve(odd, local, mesh=mesh), np.linalg.solve(odd, ones), odd)
    for given in (odd, put(mesh, odd)):
        x = ms.inv(given, mesh=mesh)
        close(x, np.linalg.inv(odd), odd)
    close(ms.solve(put(mesh, a, None, "x"), b, mesh=mesh), np.linalg.solve(a, b), a)
    # Each process may use its own device alone.
    here = jax.device_put(a, jax.local_devices()[0])
    close(ms.solve(here, b), np.linalg.solve(a, b), a)


def mended():
    """A padded matrix, its condition, the diagonal of a Hermitian one, factors that are moved."""
    n, mesh = 15 * SIZE + 1, mesh_of()
    for kind in ("gen", "pos"):
        a = 1e6 * matrix(n, "float64", kind)
        b = sides(n, 2, "float64")
        close(ms.solve(a, b, assume_a=kind, mesh=mesh), np.linalg.solve(a, b), a)
        factor = (ms.cho_factor if kind == "pos" else ms.lu_factor)(a, mesh=mesh)
        rcond = 1 / (np.linalg.norm(a, 1) * np.linalg.norm(np.linalg.inv(a), 1))
        assert 0.9 * rcond <= float(whole(factor.rcond())) <= 10 * rcond
    n = 12 * SIZE
    a, b = matrix(n, "complex128", "her"), sides(n, 1, "complex128")
    given = put(mesh, half(a, False) + 7j * np.eye(n), "x", None)
    close(ms.solve(given, put(mesh, b), assume_a="her"), np.linalg.solve(a, b), a)
    a = np.full((n, n), np.nan)
    assert np.isnan(float(whole(ms.lu_factor(put(mesh, a, "x", None)).rcond())))
    a = matrix(n, "float64", "pos")
    for factor in (ms.cho_factor(put(mesh, a, "x", None)), ms.lu_factor(put(mesh, a, "x", None))):
        assert factor.engine == "scalapack"
        here = jax.tree.map(lambda x: jax.device_put(whole(x), jax.local_devices()[0]), factor)
        try:
            here.solve(np.ones(n))
        except ValueError as error:
            assert "expected one that is on the processes that have made it" in str(error), error
        else:
            raise AssertionError("no error")


def refusals():
    """What does not work yet is refused by name."""
    n, mesh = 8 * SIZE, mesh_of()
    there = put(mesh, matrix(n, "float64", "pos"), "x", None)
    b = put(mesh, np.ones(n))
    calls = {
        "plan": lambda: ms.plan(there, functions=True),
        "plan ": lambda: ms.plan(there, b, refine=True),
        "sqrtm": lambda: ms.sqrtm(there, assume_a="her"),
        "trace_solve": lambda: ms.trace_solve(there, there),
        "solve": lambda: ms.solve(there, np.ones(n), refine=True),
    }
    for name, call in calls.items():
        try:
            call()
        except ValueError as error:
            assert str(error).startswith(f"meshsolve.{name.strip()}: a: expected "), error
            assert "over several processes" in str(error), error
        else:
            raise AssertionError(f"{name}: no error")


def main(names) -> None:
    """Run the cases of these names, or all."""
    of_dtypes = (solves, factors, others, eigen, tall, reflectors)
    every = {f"{f.__name__} {d} {s}": lambda f=f, d=d, s=s: f(d, s)
             for f in of_dtypes for d in DTYPES for s in SPECS}  # fmt: skip
    every |= {
        f.__name__: f
        for f in (failures, independent, placements, mended, plans, refusals, committed)
    }
    if SIZE == 4:
        every["axes"] = axes
    every |= {f"transformations {k}": lambda k=k: transformations(k) for k in ("Auto", "Explicit")}
    if "programs" in names:
        every = {"programs": lambda: independent(200)}
    for one in names:
        assert any(name.startswith(one) for name in every), f"no case {one}"
    for name, case in every.items():
        if names and not any(name.startswith(one) for one in names):
            continue
        try:
            case()
        except Exception:
            report(name, traceback.format_exc())
        else:
            report(name, "")


main([name for name in sys.argv[1:] if name != "brief"])
