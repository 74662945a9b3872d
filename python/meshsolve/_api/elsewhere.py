"""Names of linear algebra that this library does not have, and their replacements."""

_ONE_DEVICE = "for a matrix that one device can hold use {}"
_INSTEAD = {
    "eig": _ONE_DEVICE.format("jnp.linalg.eig, on a CPU"),
    "eigvals": _ONE_DEVICE.format("jnp.linalg.eigvals, on a CPU"),
    "svd": _ONE_DEVICE.format("jnp.linalg.svd"),
    "svdvals": _ONE_DEVICE.format("jnp.linalg.svdvals"),
    "matrix_rank": _ONE_DEVICE.format("jnp.linalg.matrix_rank"),
    "polar": _ONE_DEVICE.format("jax.scipy.linalg.polar"),
    "schur": _ONE_DEVICE.format("jax.scipy.linalg.schur, on a CPU"),
    "hessenberg": _ONE_DEVICE.format("jax.scipy.linalg.hessenberg, on a CPU"),
    "fractional_matrix_power": "of a Hermitian matrix there are sqrtm and inv_sqrtm",
    "funm": _ONE_DEVICE.format("jax.scipy.linalg.funm, on a CPU"),
    "ldl": 'an indefinite Hermitian A is solved by solve(a, b, assume_a="her"), which uses LU',
    "matmul": "products of sharded arrays are JAX's own, a @ b",
    "lu": "lu_factor(a) is the factorisation, whose parts are lu, piv = lu_factor(a)",
    "inverse": "the function is inv",
    "matrix_norm": "the function is norm",
    "triangular": "the function is solve_triangular",
    "transpose": "transpose_inplace(x) transposes in the memory of x, and x.T is JAX's own",
    "cholesky_solve": "the function is cho_solve",
    "logabsdet": "slogdet(a).logabsdet, or logdet(a) of a positive definite A",
}


def absent(name: str) -> AttributeError:
    """Describe a name that the package does not have, for ``raise``."""
    instead = _INSTEAD.get(name)
    reported = f"module 'meshsolve' has no attribute {name!r}"
    return AttributeError(f"{reported}; {instead}" if instead else reported)
