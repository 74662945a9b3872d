"""The library that has computed a row, its version, and the processor of its kernels."""

import pathlib
import tomllib

import environment

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = ("library", "library_version", "architecture", "variables")


def columns(library: str, version: str, architecture: str, variables: str = "") -> dict:
    """The library columns of a row."""
    return dict(zip(COLUMNS, (library, version, architecture, variables), strict=True))


def of_this_process(what: str, threads: int) -> dict:
    """The columns for a competitor in this process. BLAS and LAPACK get ``threads`` threads: the
    solvers of jnp and SciPy are those of SciPy's own library.
    """
    import measures
    from meshsolve import __version__

    variables = environment.blas_variables()
    if what.startswith("meshsolve") or what.startswith("faer"):
        _, kernel = measures.peak_flops("float64", 1)
        name, version = "meshsolve", __version__
        if what.startswith("faer"):
            name, version = "faer", locked("faer")
        return columns(name, version, kernel, variables)
    import scipy.linalg  # noqa: F401, this import loads the library
    import threadpoolctl

    threadpoolctl.threadpool_limits(threads)
    found = [one for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]
    # NumPy has another one, which does no work here.
    found = [one for one in found if "scipy.libs" in one["filepath"]] or found
    joined = lambda key: "; ".join(str(one.get(key) or "unknown") for one in found)  # noqa: E731
    names = "; ".join(f"{one['internal_api']} ({one.get('threading_layer')})" for one in found)
    return columns(names, joined("version"), joined("architecture"), variables)


def locked(package: str) -> str:
    """The version of a Rust package that the library is built with."""
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return next(one["version"] for one in packages if one["name"] == package)
