"""Grids of options: cases in which every two options meet, and random cases of the whole grid."""

from collections.abc import Callable, Iterable

import numpy as np
from allpairspy import AllPairs


class Case(dict):
    """An option of each kind, by name."""

    def __str__(self):
        """The name of a test."""
        return ",".join(f"{name}={option}" for name, option in self.items())


class Grid:
    """Kinds of options by name; ``possible`` decides whether a case, or part of one, can be."""

    def __init__(self, possible: Callable[[dict], bool] = lambda _: True, **kinds: Iterable):
        self.kinds = {name: list(options) for name, options in kinds.items()}
        self.possible = possible

    def case(self, **options) -> Case:
        """The case of these options, with the first option of each kind that is not named."""
        assert options.keys() <= self.kinds.keys()
        return Case({kind: of[0] for kind, of in self.kinds.items()} | options)

    def pairs(self, **few: Iterable) -> list[Case]:
        """A few cases in which every two options meet, if that is possible; ``few`` reduces some
        kinds.
        """
        rows = AllPairs(
            [list(few.get(kind, of)) for kind, of in self.kinds.items()],
            filter_func=lambda row: self.possible(dict(zip(self.kinds, row, strict=False))),
        )
        return [Case(zip(self.kinds, row, strict=True)) for row in rows]

    def draw(self, seed) -> Case:
        """A random case, the same for each seed."""
        rng = np.random.default_rng(seed)
        while True:
            made = {kind: of[rng.integers(len(of))] for kind, of in self.kinds.items()}
            if self.possible(made):
                return Case(made)
