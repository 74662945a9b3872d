"""plan of what is not a solve: lstsq and qr of matrices that are not square, eigvalsh, eigh."""

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshsolve as ms
from helpers import mesh_of, put, put_matrix

pytestmark = pytest.mark.whole_file

TALL, WIDE = (4096, 64), (64, 4096)
KEPT = "A is copied: overwrite_a is not set"


def scratch_of(results, routine: str) -> int:
    jax.block_until_ready(results)
    assert ms.last_call()["routine"] == routine
    return ms.last_call()["scratch_bytes"]


@pytest.mark.parametrize(
    ("shape", "spec", "has_b", "routine", "moves", "copies"),
    [
        (TALL, P("x", None), True, "gels", [], []),
        (TALL, P(None, "x"), True, "gels", ["A is moved to rows"], ["copy of A"]),
        (TALL, P("x", None), False, "tsqr", [KEPT], ["Q"]),
        (
            TALL,
            P(None, "x"),
            False,
            "geqrf",
            [KEPT],
            ["Q", "reflectors"],
        ),
        (WIDE, P(None, "x"), False, "geqrf", [KEPT], ["Q", "R", "reflectors"]),
        (WIDE, P("x", None), False, "geqrf", ["A is moved to columns"], ["Q", "R", "copy of A"]),
        (WIDE, P("x", None), True, "geqrf", ["A^H is copied, by columns"], ["A^H"]),
    ],
)
def test_what_lstsq_and_qr_need(shape, spec, has_b, routine, moves, copies):
    a = np.random.default_rng(0).standard_normal(shape)
    mesh = mesh_of(range(4))
    b, given = put(mesh, np.ones(shape[0]), "x"), put(mesh, a, *spec)
    report = ms.plan(given, b if has_b else None)
    assert (report.m, report.n, report.devices) == (*shape, 4)
    assert report.moves == moves
    sizes = report.bytes_per_device
    assert {name for name, size in sizes.items() if size == sizes["A"]} == {"A", *copies}
    if routine in ("gels", "tsqr"):
        made = ms.lstsq(given, b) if has_b else ms.qr(given)
        assert report.scratch_bytes == scratch_of(made, routine)
        assert f"{shape[0]} x {shape[1]}" in str(report) and "tiles:" not in str(report)
    else:
        made = ms.lstsq(given, b) if has_b else ms.qr(given, "raw")
        assert report.scratch_bytes >= scratch_of(made, "ormqr" if has_b else "geqrf")
        assert (report.transposition is None) == has_b, "A^H by columns is A in memory"
        assert "tiles:" in str(report)


def test_a_mesh_for_what_is_not_on_it():
    mesh = mesh_of(range(4))
    report = ms.plan(np.ones((4097, 63)), np.ones(4097), mesh=mesh)
    assert report.moves == ["A is copied to shards of rows, padded", "b is moved to the rows of A"]
    assert report.padded == 4100
    assert "4097 x 63, padded to 4100" in str(report)
    assert "64 x 63, padded to 64" in str(ms.plan(np.ones((64, 63)), mesh=mesh))
    report = ms.plan(np.ones((97, 63)), mesh=mesh)
    assert report.moves == ["A is copied to shards of columns, padded"] and report.padded == 64
    report = ms.plan(put(mesh, np.ones((4096, 64)), "x", None), overwrite_a=True)
    assert report.moves == [] and "Q" not in report.bytes_per_device


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"inverse": True}, "inverse"),
        ({"refine": True}, "refine"),
        ({"assume_a": "pos"}, "assume_a='pos'"),
        ({"lower": True}, "lower"),
        ({"overwrite_b": True}, "overwrite_b"),
        ({"overwrite_a": True, "b": np.ones(4)}, "overwrite_a"),
    ],
)
def test_what_lstsq_and_qr_do_not_take(options, got):
    expected = rf"plan: a: expected a square matrix, .* got shape \(4, 3\) and {got}; leave it out"
    with pytest.raises(ValueError, match=expected):
        ms.plan(np.ones((4, 3)), **options)


@pytest.mark.parametrize("storage", ["rows", "columns"])
def test_what_eigh_needs(storage):
    a = put_matrix(mesh_of(range(4)), np.eye(512), storage)
    report = ms.plan(a, None, True, eigenvectors=True, overwrite_a=True)
    turned = "eigenvectors are transposed across the devices, in their memory"
    assert (turned in report.moves) == (storage == "columns")
    assert report.bytes_per_device["eigenvectors"] == report.bytes_per_device["A"]
    ms.eigh(a).eigenvectors.block_until_ready()
    assert report.scratch_bytes == ms.last_call()["scratch_bytes"]


@pytest.mark.parametrize("storage", ["rows", "columns"])
def test_what_functions_need(storage):
    a = put_matrix(mesh_of(range(4)), np.eye(512), storage)
    report = ms.plan(a, None, True, functions=True, overwrite_a=True)
    assert "eigenvectors are transposed across the devices, in their memory" in report.moves
    assert report.bytes_per_device["eigenvectors"] == report.bytes_per_device["A"]
    ms.inv_sqrtm(a).block_until_ready()
    assert report.scratch_bytes == ms.last_call()["scratch_bytes"]
    with pytest.raises(ValueError, match="functions: expected A alone, as inv_sqrtm takes it"):
        ms.plan(a, np.ones(512), functions=True)


def test_what_eigvalsh_needs():
    """Of the triangle that is not that of the solver's columns it tells that it is mirrored."""
    a = put(mesh_of(range(4)), np.eye(512), "x", None)
    mirrored = "the lower triangle is mirrored in place"
    for lower, moves in ((True, [mirrored]), (False, [])):
        report = ms.plan(a, None, lower, eigenvalues=True, overwrite_a=True)
        assert report.moves == moves and report.widths == [(32, 16)]
        ms.eigvalsh(a, lower=lower).block_until_ready()
        assert report.scratch_bytes == ms.last_call()["scratch_bytes"]
    with pytest.raises(ValueError, match="eigenvectors: expected A alone, as eigh takes it"):
        ms.plan(a, np.ones(512), eigenvectors=True)
    with pytest.raises(ValueError, match="eigenvalues: expected A alone, as eigvalsh takes it"):
        ms.plan(a, np.ones(512), eigenvalues=True)
    with pytest.raises(ValueError, match="inverse: expected False with eigenvalues, got True"):
        ms.plan(a, inverse=True, eigenvalues=True)


def test_totals_and_free_memory():
    a = put_matrix(mesh_of(range(2)), np.eye(256), P("x", None))
    report = ms.plan(a, np.ones(256))
    amounts = sum(report.bytes_per_device.values())
    assert report.total_bytes == 2 * amounts + report.scratch_bytes
    assert report.free_bytes is not None and 1 << 20 < report.free_bytes < 1 << 50
    assert report.seconds is None and "time:" not in str(report)
    assert str(report).splitlines()[-1].startswith("total:         ")
    assert str(report).endswith(" free")


@pytest.mark.parametrize(
    ("options", "shape", "columns"),
    [
        ({}, (4096, 4096), 1),
        ({"assume_a": "pos", "refine": True}, (2048, 2048), 3),
        ({"assume_a": "pos"}, (2048, 2048), 0),
        ({"inverse": True}, (2048, 2048), 0),
        ({"eigenvalues": True}, (1600, 1600), 0),
        ({"eigenvectors": True}, (1600, 1600), 0),
        ({"functions": True}, (1600, 1600), 0),
        ({}, (1 << 20, 32), 1),
        ({}, (1 << 20, 32), 0),
        ({}, (5, 5), 1),
    ],
)
def test_an_estimate_of_the_time(options, shape, columns, capsys):
    mesh = mesh_of(range(2))
    spec = P("x", None) if shape[0] % 2 == 0 else P()
    a = jax.ShapeDtypeStruct(shape, np.float64, sharding=NamedSharding(mesh, spec))
    b = jax.ShapeDtypeStruct((shape[0], columns), np.float64) if columns else None
    report = ms.plan(a, b, calibrate=True, **options)
    assert report.seconds is not None and 0 < report.seconds < 3600
    assert f"time:          about {report.seconds:.2g} s" in capsys.readouterr().out


def test_an_estimate_grows_with_the_matrix():
    def of_order(n):
        report = ms.plan(jax.ShapeDtypeStruct((n, n), np.float64), calibrate=True)
        return report.seconds

    # By 64 at least, but for noise.
    assert of_order(1 << 16) > 8 * of_order(1 << 13)
