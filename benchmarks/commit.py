"""The commit and the machine of a row of a table."""

import os
import pathlib
import re
import subprocess


def commit() -> str:
    """The short name of the commit, marked if files other than results have changed; "unknown"
    without git.
    """
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
    """The name of the processor in Linux, and the number of cores that this process may use."""
    reported = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in reported if ":" in line)
    named = {name.strip(): value.strip() for name, value in fields.items()}
    wide = ", AVX-512" if "avx512f" in named.get("flags", "").split() else ""
    return f"{named.get('model name', 'CPU')}, {len(os.sched_getaffinity(0))} cores{wide}"
