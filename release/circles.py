"""Finds circles among the modules of a crate, from the paths in its code.

At each level of the tree, the modules of one folder may use each other in one direction only. A
module also stands for all that is below it. A parent and its children may use each other.

    python release/circles.py src
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

Module = tuple[str, ...]


def modules(root: Path) -> dict[Module, str]:
    """The text of each module, without comments."""
    found = {}
    for path in root.rglob("*.rs"):
        parts = path.relative_to(root).with_suffix("").parts
        name = parts[:-1] if parts[-1] in ("mod", "lib") else parts
        found[name] = re.sub(r"//.*", "", path.read_text())
    return found


def expanded(tree: str) -> list[str]:
    """`a::{b, c::{d, e}}` as its paths."""
    tree = tree.strip()
    start = tree.find("{")
    if start < 0:
        return [re.sub(r"\s+as\s+\w+$", "", tree)]
    parts, depth, current = [], 0, ""
    for letter in tree[start + 1 : tree.rindex("}")] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    return [tree[:start] + path for part in parts if part.strip() for path in expanded(part)]


def target(module: Module, path: str, known: dict[Module, str]) -> Module | None:
    """The module of the crate that a path names, from inside of a module."""
    first, *rest = (part.strip() for part in path.split("::"))
    full: Module
    if first == "crate":
        full = tuple(rest)
    elif first == "self":
        full = module + tuple(rest)
    elif first == "super":
        ups = 1
        while rest and rest[0] == "super":
            rest, ups = rest[1:], ups + 1
        full = module[:-ups] + tuple(rest)
    elif (*module, first) in known:
        full = (*module, first, *rest)
    else:
        return None
    while full and full not in known:
        full = full[:-1]
    return full or None


def uses(root: Path) -> dict[tuple[Module, Module], list[str]]:
    """Which modules of one folder use each other, with an example of each."""
    known = modules(root)
    edges = defaultdict(list)
    for module, text in sorted(known.items()):
        trees = re.findall(r"(?:^|\s)use\s+([^;]+);", text)
        paths = [path for tree in trees for path in expanded(tree)]
        paths += re.findall(r"(?<![\w:])(?:crate|super|self)(?:::\w+)+", text)
        for path in paths:
            other = target(module, path, known)
            if other is None:
                continue
            level = 0
            while level < min(len(module), len(other)) and module[level] == other[level]:
                level += 1
            # Of a module and one below it, one is the parent of the other.
            if level < min(len(module), len(other)):
                pair = (module[: level + 1], other[: level + 1])
                edges[pair].append(f"{'::'.join(module)} uses {path.strip()}")
    return edges


def circle(edges: dict[tuple[Module, Module], list[str]]) -> list[Module]:
    """A shortest circle, or nothing."""
    after = defaultdict(set)
    for one, other in edges:
        after[one].add(other)
    best: list[Module] = []
    for start in sorted(after):
        ways = [[start]]
        seen = {start}
        while ways:
            way = ways.pop(0)
            if start in after[way[-1]] and (not best or len(way) < len(best)):
                best = way
            for other in sorted(after[way[-1]] - seen):
                seen.add(other)
                ways.append([*way, other])
    return best


def main(root: str) -> int:
    """Print a circle, if there is one, and return its length."""
    edges = uses(Path(root))
    found = circle(edges)
    for one, other in zip(found, found[1:] + found[:1], strict=True):
        print(f"{'::'.join(one)} -> {'::'.join(other)}: {edges[one, other][0]}")
    if found:
        print("expected modules that use each other in one direction, got this circle")
    return len(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
