"""What the package and extras of it ask for, a line each: for pip, before the wheel is there.

Run: python release/requirements.py EXTRA ...
"""

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).parents[1]


def requirements(extras: list[str]) -> list[str]:
    """Of the project and of its extras, in which one may name others of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = list(project["dependencies"])
    for extra in extras:
        for line in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[(.*)\]", line)
            found += requirements(own[1].split(",")) if own else [line]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
