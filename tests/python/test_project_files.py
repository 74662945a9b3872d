"""Workflows, templates, citation and classifiers: they parse, and agree with the Makefile and with
Cargo.toml. `make lint` checks them by their schemas. Builds print one line.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml

from helpers import ROOT

sys.path.insert(0, str(ROOT / "release"))
import owner
import pythons

pytestmark = pytest.mark.whole_file

GITHUB = ROOT / ".github"
WORKFLOWS = {path.name: path.read_text() for path in (GITHUB / "workflows").glob("*.yml")}
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()


def made(name: str) -> list[str]:
    """The words of a variable of the Makefile."""
    return re.search(rf"^{name} := (.+)$", MAKEFILE, re.M)[1].split()


def jobs(name: str) -> dict:
    return yaml.safe_load(WORKFLOWS[name])["jobs"]


def steps():
    """Each step of each workflow."""
    for name in WORKFLOWS:
        for job in jobs(name).values():
            yield from job["steps"]


def test_workflows_are_marked_and_have_few_rights():
    assert set(WORKFLOWS) == {"tests.yml", "wheels.yml", "advisories.yml"}
    for name, text in WORKFLOWS.items():
        assert text.startswith("# Never run: "), name
        assert yaml.safe_load(text)["permissions"] == {}, name
        for key, job in jobs(name).items():
            assert "permissions" in job and job["timeout-minutes"] <= 180, (name, key)
            writes = {k for k, v in job["permissions"].items() if v == "write"}
            assert writes <= {"id-token", "attestations"}, (name, key)


def test_actions_are_pinned_alike():
    """By a hash with the version after it; the same in all workflows."""
    found = [line for text in WORKFLOWS.values() for line in re.findall(r"uses: (.+)", text)]
    assert found
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", x) for x in found)
    assert len(set(found)) == len({x.partition("@")[0] for x in found})


def test_versions_of_the_workflows():
    """Those of the Makefile, of Cargo.toml and of release/pythons.py."""
    tests = jobs("tests.yml")
    assert tests["between"]["strategy"]["matrix"]["jax"] == made("BETWEEN_JAX")
    assert tests["oldest-rust"]["env"]["RUSTUP_TOOLCHAIN"] == CARGO["rust-version"]
    newest = yaml.safe_load(WORKFLOWS["tests.yml"])["env"]["RUSTUP_TOOLCHAIN"]
    assert jobs("wheels.yml")["wheel"]["env"]["RUSTUP_TOOLCHAIN"] == newest
    oldest = ".".join(map(str, pythons.OLDEST))
    (wheel,) = (
        s["run"] for s in jobs("wheels.yml")["wheel"]["steps"] if "make" in s.get("run", "")
    )
    assert f"/cp{oldest.replace('.', '')}-cp" in wheel
    for job in ("all", "between"):
        (python,) = [
            s["with"] for s in tests[job]["steps"] if "python-version" in s.get("with", {})
        ]
        first, last = python["python-version"].split()
        assert first == oldest and tuple(map(int, last.split("."))) >= pythons.NEWEST_AT_LEAST


def test_commands_of_the_workflows_exist():
    commands = "\n".join(step.get("run", "") for step in steps())
    targets = set(re.findall(r'\bmake "?([\w-]+)', commands))
    assert targets == {"test", "wheel", "release-check", "test-jax-"}
    assert all(f"\n{target}" in MAKEFILE for target in targets)
    files = set(re.findall(r"(?:release|\.ci|tests)/[\w./-]+", commands))
    assert ".ci/run" in files and all((ROOT / file).is_file() for file in files)


def test_publication_is_guarded():
    """By a variable, a list that is empty, and an environment."""
    wheels = jobs("wheels.yml")
    assert "vars.PUBLISH == 'true'" in wheels["complete"]["if"]
    assert any(
        step.get("run") == "python3 release/owner.py" for step in wheels["complete"]["steps"]
    )
    assert "complete" in wheels["publish"]["needs"] and wheels["publish"]["environment"] == "pypi"
    assert all("password" not in step.get("with", {}) for step in wheels["publish"]["steps"])


def test_classifiers():
    """They have each Python from the oldest on, and no licence: that is an expression."""
    found = PROJECT["classifiers"]
    assert found == sorted(set(found))
    pattern = r"Programming Language :: Python :: 3\.(\d+)"
    minors = [int(match[1]) for each in found if (match := re.fullmatch(pattern, each))]
    assert PROJECT["requires-python"] == f">=3.{min(minors)}"
    assert sorted(minors) == list(range(min(minors), max(minors) + 1))
    assert (3, min(minors)) == pythons.OLDEST and (3, max(minors)) >= pythons.NEWEST_AT_LEAST
    assert not any(each.startswith("License ::") for each in found)
    for number in ("12", "13"):
        is_stated = f"Environment :: GPU :: NVIDIA CUDA :: {number}" in found
        assert is_stated == (f"cuda{number}" in PROJECT["optional-dependencies"])


def test_citation():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (CARGO["version"], CARGO["license"])
    assert PROJECT["license"] == CARGO["license"]
    assert cited["title"] == f"meshsolve: {PROJECT['description'].replace('Dense', 'dense')}"


def test_the_page_of_versions():
    page = (ROOT / "docs/versions.md").read_text()
    (oldest,) = made("OLDEST_JAX")
    assert f"| {oldest}, the oldest |" in page
    assert f"| {', '.join(reversed(made('BETWEEN_JAX')))} |" in page
    assert f"| {CARGO['rust-version']} and newer;" in page
    install = (ROOT / "docs/install.md").read_text()
    assert f"| Rust, with cargo | {CARGO['rust-version']} or newer;" in install
    assert f"jaxlib {oldest}" in install


def test_templates_ask_for_what_is_needed():
    bug = yaml.safe_load((GITHUB / "ISSUE_TEMPLATE/bug.yml").read_text())
    (info,) = [part for part in bug["body"] if part.get("id") == "info"]
    assert info["validations"]["required"]
    assert info["attributes"]["label"] == "Output of `python -m meshsolve.info`"


@pytest.fixture
def copy(tmp_path):
    """The files that the owner completes."""
    for name in ("pyproject.toml", "CITATION.cff", "SECURITY.md", "CODE_OF_CONDUCT.md"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


ADDITIONS = {
    "pyproject.toml": lambda t: t.replace("[project]", '[project]\nauthors = [{name = "A"}]'),
    "CITATION.cff": lambda t: t + "repository-code: https://example.org\n",
    "SECURITY.md": lambda t: owner.MARK.sub("", t),
    "CODE_OF_CONDUCT.md": lambda t: owner.MARK.sub("", t),
}


def test_what_only_the_owner_knows(copy):
    """The list gets shorter with each addition, and empty at last."""
    missing = owner.missing(copy)
    assert set(missing) <= set(owner.missing())
    for name, change in ADDITIONS.items():
        (copy / name).write_text(change((copy / name).read_text()))
        fewer = owner.missing(copy)
        assert len(fewer) <= len(missing)
        missing = fewer
    with (copy / "pyproject.toml").open("a") as file:
        file.write('[project.urls]\nSource = "https://example.org"\n')
    assert owner.missing(copy) == [] and owner.report([]) == "owner: nothing is missing"


def test_what_is_missing_is_found(copy):
    (copy / "SECURITY.md").write_text("<!-- owner: an address,\n of reports, instead of this. -->")
    assert "SECURITY.md: an address,\n of reports" in owner.missing(copy)
    (copy / "CITATION.cff").write_text("repository: unknown\n")
    assert "CITATION.cff: the URL of the repository: repository-code" in owner.missing(copy)
    assert owner.report(["a", "b"]).splitlines()[1:] == ["  a", "  b"]


def test_builds_print_one_line_or_their_errors(tmp_path):
    quietly = re.search(r"^QUIETLY = .*?; fi$", MAKEFILE, re.M | re.S)[0]
    rule = "{0}:\n\t$(call QUIETLY,build,the wheel,echo one && {0})\n\t@touch made-by-{0}\n"
    (tmp_path / "Makefile").write_text(f"{quietly}\n{rule.format('true')}{rule.format('false')}")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}

    def make(target):
        how = {"cwd": tmp_path, "env": environ, "capture_output": True, "text": True}
        return subprocess.run(["make", target], **how)

    ran = make("true")
    assert ran.returncode == 0 and re.fullmatch(r"built the wheel in \d+ s\n", ran.stdout)
    assert (tmp_path / "made-by-true").exists() and not ran.stderr
    ran = make("false")
    assert ran.returncode and ran.stderr.startswith("could not build the wheel:\none\n")
    assert not (tmp_path / "made-by-false").exists() and not ran.stdout
