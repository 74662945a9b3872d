"""The commit that a row of a table was taken on, and the machine."""

import os
import pathlib
import re
import subprocess


def commit() -> str:
    """Its short name, marked where more than results differs from it; "unknown" without git."""
    named = _git("rev-parse", "--short", "HEAD")
    if named.returncode:
        return "unknown"
    changed = _git("diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)benchmarks/results")
    return named.stdout.strip() + ("-changed" if changed.returncode else "")


def _git(*arguments: str) -> subprocess.CompletedProcess:
    here = str(pathlib.Path(__file__).resolve().parent)
    command = ["git", "-C", here, *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", "")


def driver() -> str:
    """The version of NVIDIA's driver, if there is one."""
    reported = pathlib.Path("/proc/driver/nvidia/version")
    found = re.search(r"\d+\.\d+(\.\d+)?", reported.read_text()) if reported.exists() else None
    return found[0] if found else ""


def machine() -> str:
    """Its processor, as Linux names it, and how many cores this process may use."""
    reported = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in reported if ":" in line)
    named = {name.strip(): value.strip() for name, value in fields.items()}
    wide = ", AVX-512" if "avx512f" in named.get("flags", "").split() else ""
    return f"{named.get('model name', 'CPU')}, {len(os.sched_getaffinity(0))} cores{wide}"
