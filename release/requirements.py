"""Prints the requirements of the package and some extras, a line each: for pip, before the wheel
exists.

Run: python release/requirements.py EXTRA ...
"""

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).parents[1]


def requirements(extras: list[str]) -> list[str]:
    """The requirements of the project and of extras, which may name other extras of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = list(project["dependencies"])
    for extra in extras:
        for line in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[(.*)\]", line)
            found += requirements(own[1].split(",")) if own else [line]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
