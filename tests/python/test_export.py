"""Programs that are exported, and messages for those that cannot be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshsolve as ms
from helpers import mesh_of, put

EXPORTED = {
    "solve": (ms.solve, None),
    "qr": (lambda a, b: ms.qr(a).R, None),
    "lstsq": (lambda a, b: ms.lstsq(a, b).x, None),
    "eigvalsh": (lambda a, b: ms.eigvalsh(a), None),
    "eigh": (lambda a, b: ms.eigh(a).eigenvalues, None),
    "cholesky": (lambda a, b: ms.cholesky(a), None),
    "gradient": (lambda a, b: jax.grad(lambda a: ms.solve(a, b).sum())(a), "derivatives"),
}


@pytest.mark.versions
@pytest.mark.parametrize("name", EXPORTED)
def test_exports(name):
    """On Explicit axes; on Auto axes within the mesh, or with a message that says so."""
    function, refused = EXPORTED[name]
    matrix, b = np.eye(8) * 3 + 1, np.ones(8)

    def exported(*operands):
        checks = [jax.export.DisabledSafetyCheck.custom_call("meshsolve")]
        program = jax.export.export(jax.jit(function), disabled_checks=checks)(*operands)
        return jax.export.deserialize(program.serialize())

    for kind in ("explicit", "auto"):
        mesh = mesh_of(range(4), kind)
        a, on_mesh = put(mesh, matrix, "x", None), put(mesh, b)
        wanted = function(jnp.asarray(matrix), b)
        with jax.set_mesh(mesh):
            if kind == "explicit" or not refused:
                got = exported(a, on_mesh).call(a, on_mesh)
                np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)
            else:
                with pytest.raises(ValueError) as raised:
                    exported(a, on_mesh)
                assert str(raised.value) == (
                    "meshsolve.derivatives: a: expected Explicit axes for jax.export of a program "
                    "for several devices, got a matrix on Auto axes, where only the partitioner "
                    "knows its sharding; put it on a mesh with Explicit axes"
                )
    with pytest.raises(ValueError) as raised:
        exported(a, on_mesh)
    public = "solve" if name == "gradient" else name
    assert str(raised.value) == (
        f"meshsolve.{public}: a: expected Explicit axes, or a mesh that is set, for jax.export of "
        "a program for several devices, got a matrix on Auto axes, where only the partitioner "
        "knows its sharding; export within jax.set_mesh(mesh), whose devices divide n"
    )
    np.testing.assert_allclose(exported(matrix, b).call(matrix, b), wanted, rtol=0, atol=1e-12)
