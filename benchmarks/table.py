"""A table of figures as CSV, kept while it grows."""

import csv
import pathlib
import sys
from collections.abc import Sequence


class Table:
    """Rows by their ``keys``: printed as they come, or kept in the file ``path``, where each
    replaces the same row of an earlier commit. ``fixed`` is part of every row; it has "commit".
    """

    def __init__(
        self,
        path: pathlib.Path | None,
        columns: Sequence[str],
        keys: Sequence[str],
        fixed: dict[str, str],
    ):
        self._path, self._columns, self._keys, self._fixed = path, columns, keys, fixed
        self._rows = {}
        if path is None:
            csv.DictWriter(sys.stdout, columns).writeheader()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with open(path, newline="") as file:
                self._rows = {self._key(row): row for row in csv.DictReader(file)}

    def _key(self, row: dict) -> tuple:
        return tuple(str(row[name]) for name in self._keys)

    @property
    def rows(self) -> list[dict]:
        """The rows in the file."""
        return list(self._rows.values())

    def has(self, row: dict) -> bool:
        """Whether this commit has measured a row with these keys."""
        return self._rows.get(self._key(row), {}).get("commit") == self._fixed["commit"]

    def add(self, row: dict) -> None:
        """Add a row that was measured now."""
        row = row | self._fixed
        if self._path is None:
            csv.DictWriter(sys.stdout, self._columns).writerow(row)
            sys.stdout.flush()
            return
        self._rows[self._key(row)] = row
        new = self._path.with_suffix(".new")
        with open(new, "w", newline="") as file:
            table = csv.DictWriter(file, self._columns, lineterminator="\n")
            table.writeheader()
            table.writerows(self._rows.values())
        new.replace(self._path)
