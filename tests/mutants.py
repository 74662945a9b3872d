"""Breaks the library on purpose, one change at a time, and reports which changes the tests notice.

    python tests/mutants.py --count 30 --seed 24    # 30 that compile, of `cargo mutants`
    python tests/mutants.py --chosen                # those of CHOSEN, in Python and C++

Needs cargo-mutants (`cargo install cargo-mutants`). Works in a copy of the committed tree, in
build/mutants. The first failing test kills a change; the cheap tests come first.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
COPY = ROOT / "build" / "mutants"
# The sources of mutants: layouts, workers, algorithms, routines, the rendezvous and call sites.
FILES = ("layout/**", "comm/**", "algorithms/**", "routines/**", "rendezvous/**", "sites/**")
# Fast to compile, as each change is compiled.
RUST = (
    "cargo --config profile.release.package.meshsolve.opt-level=1 test --release --locked --quiet"
)
# Commands, and the seconds after which they count as hanging.
STAGES = {
    f"{RUST} --test suite --test alone -- --skip kernels::": 300,
    f"{RUST} --tests": 600,
}
PYTEST = "make test-python CASES=1 PYTEST_ADDOPTS='-x {}'"
LAST = {PYTEST.format(""): 1800}

UNVIABLE = "does not compile"


class Chosen(NamedTuple):
    """A file, a text in it, its replacement, and the tests that come first."""

    file: str
    old: str
    new: str
    first: str

    @property
    def name(self) -> str:
        return f"{self.file}: {self.old!r} > {self.new!r}"

    def make(self) -> None:
        """Change the file in the copy, which is as committed."""
        path = COPY / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            sys.exit(f"{self.file} has {text.count(self.old)} of {self.old!r}")
        path.write_text(text.replace(self.old, self.new))


def of_python(file: str, old: str, new: str, tests: str) -> Chosen:
    """A change of a file of the Python package, with the name of a file of its tests."""
    first = PYTEST.format(f"tests/python/test_{tests}.py")
    return Chosen(f"python/meshsolve/{file}.py", old, new, first)


CHOSEN = [
    of_python("_execute/traced", "& (i >= a.shape[0])", "& (i > a.shape[0])", "solve"),
    of_python(
        "_prepare/padding", "return is_distributed and n %", "return is_distributed or n %", "solve"
    ),
    of_python(
        "_prepare/leading", "-position and shape[position] == size", "-position", "leading_axes"
    ),
    of_python("_prepare/leading", "if 0 in batch:", "if False:", "batching"),
    of_python(
        "_rules/derivatives",
        "jnp.sum((inverse.conj() * da).real)",
        "jnp.sum((inverse * da).real)",
        "derivatives",
    ),
    of_python("_rules/refinement", "return good, (r /", "return good | True, (r /", "refine"),
    of_python(
        "_execute/placements",
        "rank = lax.axis_index(self.axes) if self.axes",
        "rank = 0 if self.axes",
        "solve",
    ),
    Chosen(
        "ffi/handlers.cc",
        "if (!text.has_value()) return false;",
        "if (!text.has_value()) return true;",
        PYTEST.format("tests/python/test_ffi.py"),
    ),
    Chosen(
        "ffi/handlers.cc",
        "value = *flag;",
        "value = !*flag;",
        PYTEST.format("tests/python/test_ffi.py"),
    ),
    Chosen(
        "kernels/columns.cu",
        "k = CYCLE ? last : last - 1;",
        "k = last - 1;",
        f"{RUST} --test suite kernels::columns",
    ),
]


def drawn(seed: int) -> list[dict]:
    """Mutants as `cargo mutants` lists them, with their differences, in random order."""
    command = ["cargo", "mutants", "--list", "--json"]
    for file in FILES:
        command += ["-f", f"src/{file}"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    mutants = json.loads(listed)
    random.Random(seed).shuffle(mutants)
    return mutants


def run(command: str, limit: float) -> bool:
    """Whether the command succeeds within ``limit`` seconds."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    env = {**os.environ, "CARGO_INCREMENTAL": "1", "CARGO_PROFILE_RELEASE_DEBUG": "0"}
    with subprocess.Popen(
        command, shell=True, cwd=COPY, env=env, start_new_session=True, **quiet
    ) as process:
        try:
            return process.wait(limit) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return False


def fate(stages: dict[str, float]) -> str:
    """The stage that notices the change in the copy."""
    if not run(f"{RUST} --no-run --tests", 600):
        return UNVIABLE
    for stage, limit in stages.items():
        if not run(stage, limit):
            return f"killed by {stage}"
    return "SURVIVES"


def asked_for(name: str, options: argparse.Namespace) -> bool:
    """Whether ``--only`` selects a mutant."""
    return any(text in name for text in options.only)


def changes(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], None], dict]]:
    """Names of changes, functions that make them in the copy, and the stages before STAGES."""
    if options.chosen:
        for chosen in CHOSEN:
            if asked_for(chosen.name, options):
                yield chosen.name, chosen.make, {chosen.first: 600}
        return
    for mutant in drawn(options.seed):
        patch = ["patch", "--quiet", mutant["file"]]
        diff = mutant["diff"].encode()
        if asked_for(mutant["name"], options):
            make = partial(subprocess.run, patch, input=diff, cwd=COPY, check=True)
            yield mutant["name"], make, {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--only", nargs="*", default=[""], help="those with this in their names")
    parser.add_argument("--stages", type=int, default=3, help="only the first ones")
    options = parser.parse_args()
    if not COPY.exists():
        COPY.parent.mkdir(exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", ROOT, COPY], check=True)
    subprocess.run(["git", "fetch", "--quiet", "origin", "HEAD"], cwd=COPY, check=True)
    subprocess.run(["git", "reset", "--quiet", "--hard", "FETCH_HEAD"], cwd=COPY, check=True)
    stages = dict(list((STAGES | LAST).items())[: options.stages])
    # Tests that fail in any case would kill every mutant.
    come_first = {x.first for x in CHOSEN if options.chosen and asked_for(x.name, options)}
    if not all(run(stage, 3600) for stage in [*stages, *come_first]):
        sys.exit("the tests fail without any change")
    left = len(CHOSEN) if options.chosen else options.count
    for name, make, first in changes(options):
        subprocess.run(["git", "checkout", "--quiet", "."], cwd=COPY, check=True)
        make()
        began = time.monotonic()
        verdict = fate(first | (LAST if name.startswith("python/") else stages))
        print(f"{verdict} ({time.monotonic() - began:.0f} s): {name}", flush=True)
        left -= verdict != UNVIABLE
        if not left:
            break
    subprocess.run(["git", "checkout", "--quiet", "."], cwd=COPY, check=True)


if __name__ == "__main__":
    main()
