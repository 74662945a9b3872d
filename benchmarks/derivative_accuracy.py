"""The accuracy of derivatives of least squares: a CSV line for each condition of the matrix.

Run: python benchmarks/derivative_accuracy.py

Relative errors in float64, for monomials at 2000 random places; the reference is QR in long double.

| column | meaning |
|---|---|
| lstsq | x itself, for the right-hand side that is the tangent below |
| jvp | `jax.jvp` of `lstsq` with respect to b, a smooth tangent |
| semi-normal | the same by R^-1 R^-H A^T b alone, without the step of refinement |
| grad | `jax.grad` with respect to b, for a smooth cotangent of A x |
| wide jvp, wide grad | the same of the wide A^T, for a tangent A^T y and a cotangent, both smooth |
"""

import csv
import sys

import numpy as np

import environment

COLUMNS = ("columns", "condition", "lstsq", "jvp", "semi-normal", "grad", "wide jvp", "wide grad")


def main() -> None:
    """Print the table."""
    environment.begin_on_cpu(4)
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    import meshsolve as ms

    jax.config.update("jax_enable_x64", True)
    table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    table.writeheader()
    p = np.random.default_rng(0).random(2000)
    b, change, cotangent = np.sin(5 * p), np.cos(3 * p), np.cos(2 * p)
    for n in (6, 8, 10, 12):
        a = p[:, None] ** np.arange(n)
        q, r = orthogonal(a.astype(np.longdouble))
        x = substituted(r, q.T @ change.astype(np.longdouble))
        gradient = q @ (q.T @ cotangent.astype(np.longdouble))

        def solution(b, a=a):
            return ms.lstsq(a, b).x

        def of_wide(c, a=a):
            return ms.lstsq(a.T, c).x

        triangle = ms.qr(a, "r")
        half = solve_triangular(triangle, a.T @ change, trans=1)
        found = {
            "lstsq": (solution(change), x),
            "jvp": (jax.jvp(solution, (jnp.asarray(b),), (jnp.asarray(change),))[1], x),
            "semi-normal": (solve_triangular(triangle, half), x),
            "grad": (jax.vjp(solution, jnp.asarray(b))[1](a.T @ cotangent)[0], gradient),
            "wide jvp": (
                jax.jvp(of_wide, (jnp.asarray(a.T @ b),), (jnp.asarray(a.T @ change),))[1],
                q @ (q.T @ change.astype(np.longdouble)),
            ),
            "wide grad": (
                jax.vjp(of_wide, jnp.asarray(a.T @ b))[1](jnp.asarray(change))[0],
                x,
            ),
        }
        errors = {what: f"{error(*pair):.1e}" for what, pair in found.items()}
        table.writerow({"columns": n, "condition": f"{np.linalg.cond(a):.1e}"} | errors)


def orthogonal(a):
    """Q and R by Gram and Schmidt's method, twice."""
    q, whole = a.copy(), np.eye(a.shape[1], dtype=a.dtype)
    for _ in range(2):
        r = np.zeros_like(whole)
        for j in range(a.shape[1]):
            for k in range(j):
                r[k, j] = q[:, k] @ q[:, j]
                q[:, j] -= r[k, j] * q[:, k]
            r[j, j] = np.sqrt(q[:, j] @ q[:, j])
            q[:, j] /= r[j, j]
        whole = r @ whole
    return q, whole


def substituted(r, y):
    """R^-1 Y"""
    x = np.zeros_like(y)
    for i in reversed(range(len(r))):
        x[i] = (y[i] - r[i, i + 1 :] @ x[i + 1 :]) / r[i, i]
    return x


def error(found, expected) -> float:
    """The relative error of a vector."""
    off = np.asarray(found).astype(np.longdouble) - expected
    return float(np.linalg.norm(off) / np.linalg.norm(expected))


if __name__ == "__main__":
    main()
