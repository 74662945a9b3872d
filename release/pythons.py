"""Finds the Python of an environment: the newest since 3.12, for the newest JAX, or the oldest
supported.

Run: python release/pythons.py newest|oldest [--or-else]

Prints the path of an interpreter on PATH or among pyenv's versions. Without one it fails; with
``--or-else`` it prints its own interpreter and reports that on standard error.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

OLDEST = (3, 11)
NEWEST_AT_LEAST = (3, 12)
# A release that can make environments; wheels of the stable ABI need the global lock.
_ASK = """
import ensurepip, sys, sysconfig, venv
locks = not sysconfig.get_config_var("Py_GIL_DISABLED")
print(*sys.version_info[:3] if locks and sys.version_info.releaselevel == "final" else (0, 0, 0))
"""


def candidates() -> list[str]:
    """Interpreters by their names on PATH and in pyenv's folders."""
    found = [sys.executable]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder and pathlib.Path(folder).is_dir():
            found += [str(p) for p in sorted(pathlib.Path(folder).glob("python3*"))]
    root = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
    found += [str(p) for p in sorted(root.glob("versions/*/bin/python3"))]
    named = [p for p in found if re.fullmatch(r"python3?(\.\d+)?", pathlib.Path(p).name)]
    return list(dict.fromkeys(named))


def version(path: str) -> tuple[int, ...]:
    """The version of an interpreter that runs and can make environments; otherwise (0, 0, 0)."""
    try:
        ran = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, timeout=60)
        return tuple(map(int, ran.stdout.split())) if ran.returncode == 0 else (0, 0, 0)
    except (OSError, subprocess.TimeoutExpired):
        return 0, 0, 0


def python(which: str) -> str | None:
    """The interpreter for the "newest" or the "oldest" environment; None if there is none."""
    found = [(version(path), path) for path in candidates()]
    if which == "oldest":
        fit = [(v, path) for v, path in found if v[:2] == OLDEST]
    else:
        fit = [(v, path) for v, path in found if v[:2] >= NEWEST_AT_LEAST]
    # Of equal versions the first on PATH.
    return max(fit, key=lambda pair: pair[0])[1] if fit else None


def main() -> None:
    """Print the interpreter."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("which", choices=("newest", "oldest"))
    parser.add_argument("--or-else", action="store_true", help="fall back to this interpreter")
    options = parser.parse_args()
    path = python(options.which)
    if path is None:
        wanted = "3.11" if options.which == "oldest" else "3.12 or newer"
        where = "on PATH or among pyenv's versions"
        if not options.or_else:
            sys.exit(f"No Python {wanted} that runs is {where}: install one.")
        path = sys.executable
        print(f"No Python {wanted} that runs is {where}: taking {path}.", file=sys.stderr)
    print(path)


if __name__ == "__main__":
    main()
