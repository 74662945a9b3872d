"""Lists what only the owner of the project can add, and where: addresses, names, URLs.

Run: python release/owner.py

Exit code 1 if anything is missing. `make release-check` prints the same list and goes on.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A file, a pattern that it has as soon as the owner has added something, and what that is.
ADDED = (
    ("pyproject.toml", r"^\[project\.urls\]$", "the URL of the repository: [project.urls]"),
    ("CITATION.cff", r"^repository-code:", "the URL of the repository: repository-code"),
    ("pyproject.toml", r"^authors = ", "the authors: authors; CITATION.cff has an entity for them"),
)
# A comment before what the owner replaces.
MARK = re.compile(r"<!-- owner: (.+?), instead of .*?-->", re.S)


def missing(root: pathlib.Path = ROOT) -> list[str]:
    """A line for each thing, with its file."""
    lines = []
    for name, pattern, what in ADDED:
        if not re.search(pattern, (root / name).read_text(), re.M):
            lines.append(f"{name}: {what}")
    for page in sorted(root.glob("*.md")):
        lines += [f"{page.name}: {what}" for what in MARK.findall(page.read_text())]
    return lines


def report(lines: list[str]) -> str:
    """The list as text."""
    if not lines:
        return "owner: nothing is missing"
    return "\n  ".join(
        [f"owner: {len(lines)} things are missing that only the owner knows", *lines]
    )


if __name__ == "__main__":
    found = missing()
    print(report(found))
    sys.exit(bool(found))
