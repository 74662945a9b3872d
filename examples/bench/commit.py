"""The commit that a row of a table was taken on."""

import pathlib
import subprocess


def commit() -> str:
    """Its short name, marked where more than results differs from it; "unknown" without git."""
    named = _git("rev-parse", "--short", "HEAD")
    if named.returncode:
        return "unknown"
    changed = _git("diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)examples/bench/results")
    return named.stdout.strip() + ("-changed" if changed.returncode else "")


def _git(*arguments: str) -> subprocess.CompletedProcess:
    here = str(pathlib.Path(__file__).resolve().parent)
    return subprocess.run(["git", "-C", here, *arguments], capture_output=True, text=True)
