"""Checks whether the wheel and the sdist can be published, for `make release-check`.

Run: python release/check.py WHEEL [--only STEP ...]

Builds the sdist, and a wheel from the sdist alone, inspects them and the given wheel, and installs
that wheel in empty environments. There, with the oldest and the newest JAX, it runs the examples
outside of the checkout. Each step prints its results; the first failure ends the program with exit
code 1. The last step lists what only the owner can add, and does not fail.
"""

import argparse
import email
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile

import owner
import pythons

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build/release"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
OLDEST = re.search(r"jax>=([\d.]+)", str(PROJECT["project"]["dependencies"]))[1]
EXTRAS = ("cuda12", "cuda13", "cuda12-local", "cuda13-local")  # JAX's own
# System libraries that a compiled module may need (PEP 600): no library of CUDA, none of ours.
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0"}
LIBRARIES |= {"libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# With these an example takes seconds.
SMALL = {"--n": "400", "--samples": "400", "--steps": "20"}


def run(*command, **options) -> str:
    """Run a command and return its output; exit if it fails."""
    command = [str(word) for word in command]
    ran = subprocess.run(command, capture_output=True, text=True, **options)
    if ran.returncode:
        sys.exit(f"{' '.join(command)}\n{ran.stdout}\n{ran.stderr}\nexit code {ran.returncode}")
    return ran.stdout


def expect(what: str, expected, got) -> None:
    """Exit if they differ."""
    if expected != got:
        sys.exit(f"{what}: expected {expected}, got {got}")


def environment(name: str, *requirements, made_with: str = sys.executable) -> pathlib.Path:
    """The Python of a new environment that has the requirements."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    run(made_with, "-m", "venv", folder)
    python = folder / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", *requirements)
    run(python, "-m", "pip", "check")
    return python


def metadata(wheel: pathlib.Path):
    """The metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return email.message_from_bytes(archive.read(f"meshsolve-{VERSION}.dist-info/METADATA"))


def contents(wheel: pathlib.Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def versions(wheel: pathlib.Path) -> None:
    """All versions are that of Cargo.toml."""
    top = re.search(r"^## (\S+), (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    expect("CHANGELOG.md", VERSION, top[1])
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    expect("CITATION.cff", VERSION, cited[1])
    expect("Cargo.lock", [VERSION], [p["version"] for p in lock if p["name"] == "meshsolve"])
    expect("the wheel's metadata", VERSION, metadata(wheel)["Version"])
    expect("pyproject.toml's dynamic fields", ["version"], PROJECT["project"]["dynamic"])
    print(f"version {VERSION}, {top[2]}")


def tags(wheel: pathlib.Path) -> None:
    """One wheel for every Python from 3.11 on, for the systems that its symbols allow."""
    _, _, python, abi, platform = wheel.stem.split("-")
    expect("tags", ("cp311", "abi3"), (python, abi))
    tools = environment("tools", "auditwheel", "twine")
    stated = " ".join(run(tools, "-m", "auditwheel", "show", wheel).split())
    found = re.search(r'consistent with the following platform tag: "(\w+)"', stated)
    expect("the platform of the symbols", platform.split(".")[0], found and found[1])
    needed = """
import sys, zipfile, io
from elftools.elf.elffile import ELFFile
wheel = zipfile.ZipFile(sys.argv[1])
for name in wheel.namelist():
    if ".so" in name:
        section = ELFFile(io.BytesIO(wheel.read(name))).get_section_by_name(".dynamic")
        print(*[t.needed for t in section.iter_tags("DT_NEEDED")], sep="\\n")
"""
    libraries = set(run(tools, "-c", needed, wheel).split())
    expect("libraries that are neither the system's", set(), libraries - LIBRARIES)
    print(f"wheel {python}-{abi}-{platform} needs {', '.join(sorted(libraries))}")


def sdist(wheel: pathlib.Path) -> None:
    """The sdist is complete, builds by itself, and gives the same files."""
    maturin = pathlib.Path(sys.executable).parent / "maturin"
    shutil.rmtree(WORK / "sdist", ignore_errors=True)
    run(maturin, "sdist", "--out", WORK / "sdist", cwd=ROOT)
    (archive,) = (WORK / "sdist").glob("*.tar.gz")
    run(WORK / "tools/bin/python", "-m", "twine", "check", "--strict", wheel, archive)
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    for name in ("Cargo.lock", "LICENSE", "THIRD-PARTY-LICENCES", "README.md", "ffi/handlers.cc"):
        expect(f"{name} in the sdist", True, name in names)
    with tempfile.TemporaryDirectory() as folder:
        # Compiled dependencies may be reused; the sdist's own parts are stored elsewhere.
        environ = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target")}
        pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps")
        run(*pip, "--wheel-dir", folder, archive, cwd=folder, env=environ)
        (built,) = pathlib.Path(folder).glob("*.whl")
        missing = contents(wheel) ^ contents(built)
        expect("files that only one of both wheels has", set(), missing)
        # It is for this machine, with the plain platform tag.
        name = built.name.rpartition("-")[0]
        expect("the sdist's wheel", wheel.name.rpartition("-")[0], name)
    size = archive.stat().st_size
    print(f"sdist {archive.name}: {len(names)} files, {size >> 10} KiB, builds {name}")


def extras(wheel: pathlib.Path) -> None:
    """The extras of CUDA are JAX's of the same names; programs without a GPU need none of them."""
    stated = metadata(wheel).get_all("Requires-Dist")
    for extra in EXTRAS:
        lines = [line for line in stated if re.search(rf"extra == '{extra}'", line)]
        expect(extra, [f"jax[{extra}]>={OLDEST} ; extra == '{extra}'"], lines)
    print("extras " + ", ".join(sorted(metadata(wheel).get_all("Provides-Extra"))))


def licences(wheel: pathlib.Path) -> None:
    """The licences of the libraries in the wheel, and the files that name them."""
    print(run(sys.executable, ROOT / "release/licences.py").strip())
    stated = metadata(wheel)
    expect("licence", "Apache-2.0", stated["License-Expression"])
    files = {f"meshsolve-{VERSION}.dist-info/licenses/{n}" for n in stated.get_all("License-File")}
    expect("files of licences in the wheel", files, files & contents(wheel))


def installed(wheel: pathlib.Path) -> None:
    """In empty environments: info, and all examples, with the oldest and the newest JAX, each on
    its Python.
    """
    for name, jax in (("oldest", f"jax=={OLDEST}"), ("newest", "jax")):
        made_with = pythons.python(name)
        if made_with is None:
            sys.exit(f"no Python for the {name} JAX: see release/pythons.py")
        python = environment(name, f"{wheel}[examples,lineax]", jax, made_with=made_with)
        # None of ours, and none of JAX's that the user has set.
        ours = ("PYTHON", "JAX_", "XLA_", "MESHSOLVE_", "VIRTUAL_ENV")
        environ = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "examples", f"{folder}/examples", ignore=_folders)
            shutil.copytree(ROOT / "benchmarks", f"{folder}/benchmarks", ignore=_folders)
            here = {"cwd": folder, "env": environ, "timeout": 600}
            info = json.loads(run(python, "-m", "meshsolve.info", "--json", **here))
            expect("meshsolve.__version__", VERSION, info["meshsolve"])
            known = (
                "import importlib.metadata as m; print(m.metadata('jax').get_all('Provides-Extra'))"
            )
            provided = run(python, "-c", known, **here)
            expect("extras that JAX lacks", [], [e for e in EXTRAS if f"'{e}'" not in provided])
            examples = sorted(pathlib.Path(folder).glob("examples/[0-9]*.py"))
            for example in examples:
                text = example.read_text()
                sizes = [w for s in SMALL.items() if f'add_argument("{s[0]}"' in text for w in s]
                run(python, example, *sizes, **here)
            versions = f"jax {info['jax']}, Python {info['python']}"
            print(f"{name}: {versions}, {len(examples)} examples run from the wheel")


def owned(wheel: pathlib.Path) -> None:
    """What only the owner can add is listed."""
    print(owner.report(owner.missing()))


def _folders(folder: str, names: list[str]) -> list[str]:
    """The folders to leave out: the examples only use modules of the benchmarks."""
    return [n for n in names if pathlib.Path(folder, n).is_dir()]


STEPS = (versions, tags, sdist, extras, licences, installed, owned)


def main() -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=[step.__name__ for step in STEPS])
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    for step in STEPS:
        if not options.only or step.__name__ in options.only:
            step(options.wheel.resolve())


if __name__ == "__main__":
    main()
