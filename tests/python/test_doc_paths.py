"""Paths, targets of make and names in the documents exist; documents keep their length."""

import fnmatch
import functools
import os
import pathlib
import re
import sys

import pytest

from helpers import ROOT

sys.path.insert(0, str(ROOT / "release"))

import prose

pytestmark = pytest.mark.whole_file

TOP = (*prose.TOP, ".github/pull_request_template.md")
DOCUMENTS = [*TOP, *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
SUFFIX = r"\.(pyi?|rs|cc?|cuh?|h|md|toml|lock|yml|css|csv|jsonl?|svg|png|txt)"
PATH = re.compile(rf"[\w.*/-]*/[\w.*/-]*|[\w.*-]+{SUFFIX}")
# With one of these folders a word with a slash is a path; otherwise it is a ratio, a header or a
# module.
FOLDERS = {
    ".ci",
    ".github",
    "src",
    "ffi",
    "kernels",
    "python",
    "tests",
    "benchmarks",
    "docs",
    "examples",
    "release",
}
# Outputs of programs, and paths outside of the tree.
OUTPUTS = ("build/", "dist/", "target/", ".venv", "site-packages/", "~/", "/usr/", "/proc/")
ELSEWHERE = {
    "meshsolve/kernels": "a folder of the user's cache",
    "xla/ffi/api": "headers of jaxlib",
    "xla/ffi/api/collectives_c_api.h": "one of them",
    "program.py": "of the user",
    "solves.json": "what the user asks for",
    "solves-PID.json": "made of it",
    "solves-PID-2.json": "made of it",
    "examples/NN_name.py": "of a new example",
}
# A name of code: a word with an underscore, two capitals or `::`, and its attributes.
NAME = re.compile(r"(?<![\w/.*-])[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*(?![\w/*-])")
IS_CODE = re.compile(r"::|\w_\w|[A-Z].*[A-Z]")
# Names of other projects that the code here does not use.
FOREIGN = {
    "CUDA_MODULE_LOADING",
    "EAGER",
    "DEADLINE_EXCEEDED",
    "ShardingTypeError",
    "NN",
    "T_A",
    "UPLO",
    # Of cuSOLVERMp, NCCL and XLA, in a decision on what could be.
    "cusolverMpCreate",
    "cusolverMpCreateDeviceGrid",
    "cusolverMpCreateMatrixDesc",
    "cusolverMpBufferRegister",
    "request_communicator",
    "get_communicator",
    "ncclComm_t",
    "ncclGetUniqueId",
    "ncclSend",
    "ncclRecv",
    "eigvals_only",
    "jax.experimental.sparse.linalg.lobpcg_standard",
    "jax_remove_custom_partitioning_ptr_from_cache_key",
    "least_squares",
    "linux_x86_64",
    "manylinux_2_34",
    "mmap_mode",
    "platform.libc_ver",
    "return_logdet",
    "vector_norm",
    "xla.sdy.GlobalToLocalShape",
}
CODE = (".rs", ".py", ".pyi", ".cc", ".h", ".cu", ".cuh", ".c", ".toml", "Makefile")
# Folders of the root that hold outputs.
SKIPPED = re.compile(r"\.git|\.venv.*|build|dist|target")


@functools.cache
def names() -> set[str]:
    """Names of all files and folders."""
    found = set()
    for folder, folders, files in os.walk(ROOT):
        if folder == str(ROOT):
            folders[:] = [name for name in folders if not SKIPPED.fullmatch(name)]
        folders[:] = [name for name in folders if name not in ("__pycache__", "target")]
        found.update(folders, files)
    return found


@functools.cache
def words() -> set[str]:
    """All words of the code."""
    found = set()
    for folder, folders, files in os.walk(ROOT):
        if folder == str(ROOT):
            folders[:] = [name for name in folders if not SKIPPED.fullmatch(name)]
        folders[:] = [name for name in folders if name not in ("__pycache__", "target")]
        for name in files:
            if name.endswith(CODE) and name != os.path.basename(__file__):
                text = pathlib.Path(folder, name).read_text(errors="replace")
                found.update(re.findall(r"[A-Za-z_]\w*", text))
    return found


@functools.cache
def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([\w./-]+)(?: [\w./-]+)*:(?!=)", makefile, re.M))


def exists(path: str) -> bool:
    """Whether a path from the root, or a name in any folder, exists; both may be patterns."""
    path = path.rstrip("/")
    if "/" in path:
        return any(True for _ in ROOT.glob(path))
    return any(fnmatch.fnmatchcase(name, path) for name in names())


def is_path(word: str) -> bool:
    if word in ELSEWHERE or word.startswith(OUTPUTS) or "..." in word:
        return False
    if not PATH.fullmatch(word):
        return False
    if not re.search(r"\w", word) or word.startswith("*."):  # such as "*.whl"
        return False
    return "/" not in word or word.split("/")[0] in FOLDERS or bool(re.search(SUFFIX + "$", word))


def wrong(text: str) -> list[str]:
    """Names in code spans that the tree lacks."""
    missing = []
    spans = [span for _, span in SPAN.findall(FENCE.sub("", text))]
    for span in spans:
        parts = span.split()
        for target in re.findall(r"\bmake ((?:-\w+ )?[a-z][\w./-]*)", span):
            name = target.split()[-1]
            missing += [f"make {name}"] * (name not in targets())
        for word in parts:
            word = word.rpartition("=")[2].strip(",;:()\"'").partition("#")[0]
            word = re.sub(r"::?\w+$", "", word)
            missing += [word] * (is_path(word) and word not in targets() and not exists(word))
        for name in NAME.findall(span):
            is_known = all(part in words() for part in re.split(r"::|\.", name))
            is_exempt = name in FOREIGN or exists(name) or not IS_CODE.search(name)
            missing += [name] * (not is_known and not is_exempt)
    return missing


@pytest.mark.parametrize("name", DOCUMENTS)
def test_paths_of_a_document_exist(name):
    assert not wrong((ROOT / name).read_text())


def test_wrong_paths_and_names_are_found():
    text = "`src/nowhere.rs` `make nothing` `src/*.nothing` `nowhere.py` `tests/nowhere/`"
    assert wrong(text) == [
        "src/nowhere.rs",
        "make nothing",
        "src/*.nothing",
        "nowhere.py",
        "tests/nowhere/",
    ]
    right = "`src/lib.rs` `make -j2 lint` `src/*.rs` `lib.rs` `tests/python/` `build/bench` `n/P`"
    assert not wrong(f"{right}\n```\nsrc/nowhere.rs\n```\n")
    retired = "CpuNothing"
    assert wrong(f"`{retired}` and `CpuWorker::{retired}(1)`") == [retired, f"CpuWorker::{retired}"]
    assert not wrong('`CpuWorker::barrier()` `jax.shard_map` `last_call()["workers"]` `I - L`')


@pytest.mark.parametrize(
    "name, most",
    [
        ("DESIGN.md", 200),
        ("docs/design/glossary.md", 40),
        *((name, 40) for name in DOCUMENTS if name.startswith("docs/design/adr/")),
    ],
)
def test_documents_keep_their_length(name, most):
    assert len((ROOT / name).read_text().splitlines()) <= most


@pytest.mark.parametrize(
    "text, lengths",
    [
        ("One two. Three `four five` six!\n\nSeven, e.g. eight.\n", [2, 3, 3]),
        ("- A [link of words](page.md)\n- and one\n", [4, 2]),
        ("# Heading\n\n| a table | of words |\n\n```\nsome code.\n```\n", []),
        ("---\ntitle: none\n---\nOne line\nof four.\n", [4]),
    ],
)
def test_words_of_sentences(text, lengths):
    assert [len(sentence.words) for sentence in prose.sentences(text)] == lengths


def test_long_sentences_fail(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    for count, status in ((40, 0), (41, 1)):
        page.write_text("One. " * 3 + "Word " * count + "\n")
        monkeypatch.setattr("sys.argv", ["prose.py", "--check", str(page)])
        assert prose.main() == status
    page.write_text("word " * 21 + "\n")
    assert prose.main() == 1  # their mean
