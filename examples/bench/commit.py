"""The commit that a row of a table was taken on."""

import pathlib
import subprocess


def commit() -> str:
    """Its short name, marked where files differ from it; "unknown" outside of a checkout."""
    here = str(pathlib.Path(__file__).resolve().parent)
    command = ["git", "-C", here, "describe", "--always", "--dirty", "--exclude", "*"]
    ran = subprocess.run(command, capture_output=True, text=True)
    return ran.stdout.strip() or "unknown"
