"""What compiled programs do, as their text says."""

import re

FACTORING = ("posv", "gesv", "potrf", "getrf", "poinv", "geinv", "posvx", "gesvx")


def calls(hlo: str, *routines: str) -> int:
    """How often the program calls these routines of the library."""
    lines = [line for line in hlo.splitlines() if 'custom_call_target="meshsolve"' in line]
    return sum(f'routine = "{name}"' in line for line in lines for name in routines)


def collectives(hlo: str) -> set[str]:
    """The kinds of exchanges between devices."""
    names = "all-gather|all-to-all|all-reduce|collective-permute|reduce-scatter"
    return set(re.findall(rf" ({names})(?:-start)?\(", hlo))
