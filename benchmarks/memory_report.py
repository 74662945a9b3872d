"""A plot of the results of memory.py: peaks above A, of this library and of jax.scipy.

Run: python benchmarks/memory_report.py [FOLDER]    reads benchmarks/results, and draws there
     python benchmarks/memory_report.py --measure   measures each row of that file again, first;
                                                    some minutes, 9 GB of memory
"""

import json
import pathlib
import subprocess
import sys

import drawing

RESULTS = pathlib.Path(__file__).parent / "results"
TABLE = RESULTS / "memory-cpu.jsonl"
# Fields of a row that are options of memory.py.
OPTIONS = ("what", "n", "columns", "devices", "assume", "storage", "rhs")
SOLVES = {"what": "meshsolve", "storage": "rows", "devices": 2}
# A label, and the fields that select its one row.
BARS = (
    ("solve, in place: general", SOLVES | {"assume": "gen", "keep_a": False}),
    ("solve, in place: positive definite", SOLVES | {"assume": "pos", "keep_a": False}),
    ("cho_factor, ten solves", {"what": "factor", "storage": "rows", "assume": "pos"}),
    ("inv", {"what": "inv", "assume": "gen"}),
    ("solve, refine=True, A kept", {"what": "refine"}),
    ("solve, A kept", SOLVES | {"assume": "pos", "keep_a": True}),
    ("gradient of solve, A kept *", {"what": "grad", "assume": "gen", "storage": "rows"}),
    ("jax.scipy, the same shards *", {"what": "jnp", "storage": "rows"}),
)


def main(folder: pathlib.Path) -> None:
    """Read the rows, draw the bars."""
    rows = _rows()
    values = [_one(rows, wanted)["above_over_a"] for _, wanted in BARS]
    figure, axis = drawing.pyplot().subplots(figsize=(drawing.WIDTH, 3.2))
    colors = [drawing.RED if "scipy" in label else drawing.BLUE for label, _ in BARS]
    bars = axis.barh([label for label, _ in BARS], values, color=colors)
    texts = [f"{value:.3f}" if value < 0.1 else f"{value:.2f}" for value in values]
    axis.bar_label(bars, texts, padding=3)
    axis.invert_yaxis()
    axis.set(xlim=(0, 5), xlabel="peak memory above A and b, times A")
    source = f"float64, 2 CPU devices, by rows, n = 8192 (* 4096); {drawing.origin(rows)}"
    drawing.save(figure, folder / "memory-cpu.svg", source)


def measure() -> None:
    """Replace each row of the table by one of this build."""
    measured = [_again(row) for row in _rows()]
    TABLE.write_text("".join(measured))


def _again(row: dict) -> str:
    given = [f"--{name}={row[name]}" for name in OPTIONS if row.get(name) is not None]
    given += [f"--{name}" for name in ("keep-a", "warm") if row.get(name.replace("-", "_"))]
    given += [] if row.get("lower", True) else ["--upper"]
    command = [sys.executable, pathlib.Path(__file__).with_name("memory.py"), *given]
    line = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(line, end="", flush=True)
    return line


def _rows() -> list[dict]:
    return [json.loads(line) for line in TABLE.read_text().splitlines()]


def _one(rows: list[dict], wanted: dict) -> dict:
    (row,) = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    return row


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments == ["--measure"]:
        measure()
        arguments = []
    main(pathlib.Path(*arguments or [RESULTS]))
