"""Measures the length of sentences in the documentation.

Run: python release/prose.py [--check] [FILE ...]

Prints, for each file, the number of sentences, their mean number of words and the longest one. Code
blocks, tables, headings, front matter and pictures do not count. A list item is a separate
sentence; a code span is one word. ``--check`` fails if a sentence has more than 40 words, or if the
mean over all files is above 20.
"""

import argparse
import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOP = ("README.md", "CONTRIBUTING.md", "DESIGN.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
LONGEST, MEAN = 40, 20
FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s+")
# Lines that stand alone: headings, tables, pictures, directives, marks of admonitions, HTML.
SKIPPED = re.compile(r"\s*(#|\||!\[|!!!|\?\?\?|:::|<)")
END = re.compile(r"[.!?][\"')\]*_]*\s+(?![a-z])")
# A single capital may precede a name: two sentences then count as one.
ABBREVIATED = re.compile(r"(\b(e\.g|i\.e|et al|cf|vs|[A-Z]))\.\s+$")


class Sentence(NamedTuple):
    """The first line of a sentence, and its words."""

    line: int
    words: list[str]


def pages() -> list[pathlib.Path]:
    """The documents that users and contributors read."""
    top = [ROOT / name for name in TOP]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def paragraphs(text: str):
    """Each paragraph and list item, as a list of (line, text)."""
    part, fenced = [], False
    lines = text.splitlines()
    front = lines.index("---", 1) + 1 if lines[:1] == ["---"] else 0
    for number, line in enumerate(lines[front:], front + 1):
        item = ITEM.match(line)
        fence = FENCE.match(line)
        if fence or fenced or item or not line.strip() or SKIPPED.match(line):
            if part:
                yield part
            part = []
        fenced ^= bool(fence)
        if fence or fenced or not line.strip() or SKIPPED.match(line):
            continue
        part.append((number, line[item.end() :] if item else line))
    if part:
        yield part


def plain(text: str) -> str:
    """The text without marks: a code span is one word, a link its text."""
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", lambda m: "Code" + "\n" * m[0].count("\n"), text)
    text = re.sub(r"!\[[^]]*\]\([^)]*\)", "", text)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def sentences(text: str) -> list[Sentence]:
    """All sentences of a page, in order."""
    found = []
    for part in paragraphs(text):
        first = part[0][0]
        joined = plain("\n".join(line for _, line in part)) + "\n"
        begin = 0
        ends = [m.end() for m in END.finditer(joined) if not ABBREVIATED.search(joined[: m.end()])]
        for end in [*ends, len(joined)]:
            words = [word for word in joined[begin:end].split() if re.search(r"\w", word)]
            lead = len(joined[begin:end]) - len(joined[begin:end].lstrip())
            if words:
                found.append(Sentence(first + joined.count("\n", 0, begin + lead), words))
            begin = end
    return found


def main() -> int:
    """Print the lengths; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="these instead of all pages")
    parser.add_argument("--check", action="store_true", help="fail where the limits are passed")
    options = parser.parse_args()
    count = total = 0
    failures = []
    for page in options.files or pages():
        found = sentences(page.read_text())
        name = page.resolve().relative_to(ROOT) if page.resolve().is_relative_to(ROOT) else page
        lengths = [len(sentence.words) for sentence in found] or [0]
        count, total = count + len(found), total + sum(lengths)
        mean = sum(lengths) / max(len(found), 1)
        print(f"{name}: {len(found)} sentences, mean {mean:.1f}, longest {max(lengths)}")
        for line, words in found:
            if len(words) > LONGEST:
                failures.append(f"{name}:{line}: {len(words)} words: {' '.join(words[:8])} ...")
    mean = total / max(count, 1)
    print(f"all: {count} sentences, mean {mean:.1f}")
    if mean > MEAN:
        failures.append(f"the mean is above {MEAN}")
    if options.check:
        print(*failures, sep="\n", file=sys.stderr)
    return 1 if options.check and failures else 0


if __name__ == "__main__":
    sys.exit(main())
