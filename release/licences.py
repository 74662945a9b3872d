"""Checks the Rust dependencies: their licences, their source and their versions of Rust. The
licences are allowed, and THIRD-PARTY-LICENCES names those in the wheel. The packages come from
crates.io. None of them needs a newer Rust than this project declares.

Run: python release/licences.py            check them; exit code 1 for a fault
     python release/licences.py --write    write THIRD-PARTY-LICENCES, after a change of Cargo.lock

A library under a choice of licences with Apache-2.0, this project's licence, is used under it; of
the others the file has the texts.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTICES = ROOT / "THIRD-PARTY-LICENCES"
OURS = {"Apache-2.0"}
ALLOWED = OURS | {
    *("MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "0BSD", "BSL-1.0", "Unlicense"),
    *("CC0-1.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"),
}
SOURCE = "registry+https://github.com/rust-lang/crates.io-index"
# The targets of wheels; other systems need other packages.
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
HEAD = """\
The compiled module of meshsolve (meshsolve/_core.abi3.so) contains the libraries below. Their
sources are at https://crates.io under these names and versions; none of them has been changed.
Made by release/licences.py.

Under the Apache License, Version 2.0, whose text is in the file LICENSE:

  the standard library of Rust; the headers of XLA's FFI (OpenXLA)
"""
MIT = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def satisfied(expression: str | None, by: set[str]) -> bool:
    """Whether an SPDX expression leaves a choice among these licences."""
    words = re.findall(r"[()]|[\w.+-]+", (expression or "").replace("/", " OR "))

    def term():
        if words[0] == "(":
            words.pop(0)
            value = alternatives()
            words.pop(0)
            return value
        name = words.pop(0)
        if words[:1] == ["WITH"]:
            name = f"{name} WITH {words[1]}"
            del words[:2]
        return name in by

    def all_of():
        value = term()
        while words[:1] == ["AND"]:
            words.pop(0)
            value = term() and value
        return value

    def alternatives():
        value = all_of()
        while words[:1] == ["OR"]:
            words.pop(0)
            value = all_of() or value
        return value

    return bool(words) and alternatives() and not words


def described(target: str) -> dict:
    """Cargo's metadata of the packages of the wheel on that target, with build dependencies."""
    command = [
        "cargo",
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        target,
    ]
    ran = subprocess.run(command, cwd=ROOT / "ffi", capture_output=True, text=True)
    if ran.returncode:
        sys.exit(ran.stderr)
    return json.loads(ran.stdout)


def linked(metadata: dict) -> set[str]:
    """The packages in the compiled module, without those that only run during the build."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    macros = {
        package["id"]
        for package in metadata["packages"]
        if any("proc-macro" in target["kind"] for target in package["targets"])
    }
    found, new = set(), [metadata["resolve"]["root"]]
    while new:
        node = nodes[new.pop()]
        for needed in node["deps"]:
            normal = any(kind["kind"] is None for kind in needed["dep_kinds"])
            if normal and needed["pkg"] not in found | macros:
                found.add(needed["pkg"])
                new.append(needed["pkg"])
    return found - {package["id"] for package in metadata["packages"] if not package["source"]}


def version(text: str | None) -> tuple[int, ...]:
    """A version of Rust, or none, as numbers: (1, 89, 0)."""
    numbers = [int(part) for part in (text or "0").split(".")]
    return (*numbers, *(0,) * (3 - len(numbers)))


def faults(package: dict, rust: str) -> list[str]:
    """The reasons why a dependency, as cargo describes it, is refused with that oldest Rust."""
    name, licence = f"{package['name']} {package['version']}", package["license"]
    found = []
    if not satisfied(licence, ALLOWED):
        found.append(
            f"{name}: expected a licence among {', '.join(sorted(ALLOWED))}, got {licence}"
        )
    if package["source"] not in (None, SOURCE):
        found.append(f"{name}: expected a package of crates.io, got {package['source']}")
    if version(package["rust_version"]) > version(rust):
        found.append(f"{name}: expected Rust {rust} or older, got {package['rust_version']}")
    return found


def text_of(package: dict) -> str:
    """The licence text of the package, or the usual text with its authors."""
    folder = pathlib.Path(package["manifest_path"]).parent
    names = ("LICEN[SC]E*", "COPYING*", "NOTICE*")
    files = sorted({path for name in names for path in folder.glob(name) if path.is_file()})
    texts = [path.read_text().strip() for path in files]
    if not any(path.name.startswith("LICEN") for path in files):
        if package["license"] != "MIT":
            sys.exit(f"licences: {package['name']}: expected a file with its licence, got none")
        authors = ", ".join(author.removesuffix(" <>") for author in package["authors"])
        texts.insert(0, f"Copyright (c) {authors or 'its authors'}\n\n{MIT.strip()}")
    return "\n\n".join(texts)


def notices(packages: list[dict]) -> str:
    """The content of THIRD-PARTY-LICENCES, which goes into the wheel."""
    name = lambda package: f"{package['name']} {package['version']}"  # noqa: E731
    ours = [package for package in packages if satisfied(package["license"], OURS)]
    text = HEAD + "".join(f"  {name(package)}\n" for package in ours)
    texts: dict[str, list[str]] = {}
    for package in packages:
        if package not in ours:
            stated = f"{name(package)} ({package['license']})"
            texts.setdefault(text_of(package), []).append(stated)
    for licence, names in texts.items():
        text += f"\n{'-' * 80}\n{chr(10).join(names)}\n\n{licence}\n"
    return text


def main() -> None:
    """Check the file, or write it."""
    every = [described(target) for target in TARGETS]
    packages = {package["id"]: package for m in every for package in m["packages"]}
    ids = sorted(set().union(*map(linked, every)), key=lambda i: (packages[i]["name"], i))
    made = notices([packages[i] for i in ids])
    rust = packages[every[0]["resolve"]["root"]]["rust_version"]
    refused = [fault for package in packages.values() for fault in faults(package, rust)]
    if refused:
        sys.exit("licences: " + "; ".join(refused))
    if "--write" in sys.argv:
        NOTICES.write_text(made)
    elif not NOTICES.exists() or NOTICES.read_text() != made:
        sys.exit(f"licences: {NOTICES.name} is not that of Cargo.lock; run with --write")
    print(f"licences: {len(packages)} packages are allowed, {len(ids)} of them in the wheel")


if __name__ == "__main__":
    main()
