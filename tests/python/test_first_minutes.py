"""The first minutes of somebody new, with nothing but the wheel and the built site: install, the
first solve, a matrix of one's own, an error, a gradient, and pages that answer questions.
"""

import json
import math
import os
import re
import subprocess
import sys

import pytest

from helpers import ROOT

OWN = """
import numpy as np
matrix = np.random.default_rng(0).standard_normal((101, 101)) + 20 * np.eye(101)
mine = ms.solve(matrix, np.ones(101), mesh=mesh)
print("own", float(np.abs(matrix @ np.asarray(mine) - 1).max()) < 1e-12)
try:
    ms.solve(matrix[:, :100], np.ones(101))
except ValueError as error:
    print("error", error)
with jax.set_mesh(mesh):
    shifted = jax.jit(lambda s: ms.solve(a + s * jnp.eye(len(a)), b, assume_a="pos").sum())
    slope = jax.grad(shifted)(0.0)
inverse = np.linalg.inv(np.asarray(a))
print("gradient", bool(abs(slope + (inverse @ inverse @ np.asarray(b)).sum()) < 1e-8 * abs(slope)))
"""

# What people ask, and the page that answers.
QUESTIONS = {
    "how do I install from source without a compiler": "install.html",
    "my matrix is not divisible by the number of devices": "faq.html",
    "what is copied, donation with overwrite_a": "sharding.html",
    "gradient of log determinant": "gradients.html",
    "batch of matrices vmap": "batching.html",
    "several machines mpirun slurm": "processes.html",
    "least squares with a ridge term": "least-squares.html",
    "eigenvalues of a Hermitian matrix eigh": "eigenproblems.html",
    "the call hangs, timeout and Ctrl-C": "errors.html",
    "which versions of JAX are supported": "versions.html",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The folder of the installed wheel alone."""
    found = sorted((ROOT / "dist").glob("*.whl"))
    if not found:
        pytest.skip("no wheel in dist: make build/ready.stamp")
    folder = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", folder, found[-1]], check=True, timeout=120)
    return folder


@pytest.mark.tools
def test_a_first_program_from_the_wheel(wheel, tmp_path):
    page = (ROOT / "docs/first-solve.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    program = tmp_path / "first.py"
    where = "print('from', ms.__file__)\n"
    program.write_text("\n".join([*blocks, where, OWN]))
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    ran = subprocess.run(
        [sys.executable, program],
        env=keep | {"PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert f"from {wheel}/meshsolve/__init__.py" in lines
    assert "own True" in lines and "gradient True" in lines
    (error,) = [line for line in lines if line.startswith("error ")]
    assert "meshsolve.solve: a: expected a square matrix" in error and "(101, 100)" in error
    # The first screens need no second look at standard error.
    assert "Error" not in ran.stderr and "Traceback" not in ran.stderr


def words(text: str) -> list[str]:
    """Words without the s of plurals, as the search of the site stems them."""
    return [w.rstrip("s") for w in re.findall(r"[a-z_]+", re.sub(r"<[^>]+>", " ", text).lower())]


def ranked(sections: list[dict], question: str) -> list[str]:
    """Pages by how well one of their sections fits: rare words and those of titles count more."""
    known = [set(words(f"{s['title']} {s['text']}")) for s in sections]
    best: dict[str, float] = {}
    for section, own in zip(sections, known, strict=True):
        title, text = words(section["title"]), words(section["text"])
        score = 0.0
        for word in set(words(question)) & own:
            rarity = math.log(len(known) / sum(word in other for other in known))
            score += rarity * (10 * (word in title) + math.log1p(text.count(word)))
        page = section["location"].partition("#")[0]
        best[page] = max(best.get(page, 0.0), score)
    return sorted(best, key=lambda page: -best[page])


@pytest.mark.tools
def test_pages_answer_questions(tmp_path):
    pytest.importorskip("mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path)]
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path}
    subprocess.run(build, cwd=ROOT, env=env, check=True, capture_output=True, timeout=300)
    index = json.loads((tmp_path / "search/search_index.json").read_text())
    users = ("design/", "design.html", "notes.html", "changelog.html", "reference.html")
    sections = [s for s in index["docs"] if not s["location"].startswith(users)]
    for question, page in QUESTIONS.items():
        assert page in ranked(sections, question)[:3], (question, ranked(sections, question)[:5])
        assert (tmp_path / page).exists()
    made = sorted(path.name for path in (tmp_path / "notebooks").iterdir())
    assert made and all(name.endswith(".ipynb") for name in made)
