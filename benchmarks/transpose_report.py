"""Plots of the results of transpose.py, and a comparison with the bars.

Run: python benchmarks/transpose_report.py FOLDER
"""

import csv
import pathlib
import sys

import drawing

# Least share of a copy, by the algorithm of the chosen plan, on all cores.
BARS = {"square": 0.85, "blocks": 0.40, "panels": 0.32, "skinny": 0.30, "C2R, R2C": 0.15}
LEAST_OF_LANDSCAPE = 0.10
# Least speed over the `transpose` crate, above this number of bytes.
TIMES_THE_CRATE, LARGE = 10, 64e6


def report(folder: pathlib.Path) -> None:
    """Compare every table in the folder with the bars; draw it next to its CSV."""
    drawing.pyplot()
    for path in sorted(folder.glob("transpose-*cpu-*.csv")):
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        print(f"{path.name}: {rows[0]['versions']}, commit {rows[0]['commit']}")
        lines, figure = _landscape(rows) if "landscape" in path.name else _table(rows)
        print("\n".join(lines))
        drawing.save(figure, path.with_suffix(".svg"), drawing.origin(rows))


def family(row: dict) -> str:
    """The bar of this row, if any."""
    if row["kind"] == "skinny":
        return "skinny"
    if not row["plan"]:
        return "no plan"
    first = row["plan"].split()[0]
    return "C2R, R2C" if first in ("C2R", "R2C") else first


def _share(row: dict) -> float:
    return float(row["share_of_copy"])


def _name(row: dict) -> str:
    return f"{row['rows']} x {row['cols']} of {row['bytes']}"


def _verdict(what: str, worst: float, where: str, bar: float) -> str:
    return (
        f"{'ok  ' if worst >= bar else 'MISS'} {what}: least {worst:.2f} ({where}), bar {bar:.2f}"
    )


def _least(what: str, groups: dict[str, list[dict]]) -> list[str]:
    """A verdict on the slowest row of every group that is not empty."""
    worst = {name: min(rows, key=_share) for name, rows in groups.items() if rows}
    return [
        _verdict(what.format(name), _share(row), _name(row), BARS[name])
        for name, row in worst.items()
    ]


def _table(rows: list[dict]):
    threads = max(int(row["threads"]) for row in rows)
    full = [r for r in rows if int(r["threads"]) == threads]
    groups = {name: [] for name in BARS}
    for row in full:
        if row["method"] in ("chosen", "shared scratch"):
            groups[family(row)].append(row)
    lines = _least("share of copy, {}", groups)
    # These are not chosen for most shapes, but measured on all: take the better of the two.
    forced = {}
    for row in full:
        if row["method"] in ("C2R", "R2C") and row["kind"] != "skinny":
            forced[_name(row)] = max(row, forced.get(_name(row), row), key=_share)
    lines += _least("share of copy, {} on all shapes", {"C2R, R2C": list(forced.values())})
    crate = {_name(r): float(r["gb_per_s"]) for r in rows if r["method"] == "transpose crate"}
    times = {}
    for row in full:
        shape, count = _name(row), int(row["rows"]) * int(row["cols"]) * int(row["bytes"])
        if row["method"] == "chosen" and shape in crate and count > LARGE:
            times[shape] = float(row["gb_per_s"]) / crate[shape]
    if times:
        where = min(times, key=times.get)
        what = "times the transpose crate above 64 MB"
        lines.append(_verdict(what, times[where], where, TIMES_THE_CRATE))
    return lines, _bars(rows, threads)


def _bars(rows: list[dict], threads: int):
    """A line for each shape, with a mark for each method."""
    from matplotlib import pyplot

    shapes = list(dict.fromkeys((r["kind"], _name(r)) for r in rows))
    methods = list(dict.fromkeys(r["method"] for r in rows))
    most = {}  # every method with as many threads as it has
    for row in sorted(rows, key=lambda r: int(r["threads"])):
        most[row["kind"], _name(row), row["method"]] = row
    figure, axes = pyplot.subplots(figsize=(drawing.WIDTH, 0.19 * len(shapes) + 1.5))
    marks = zip(methods, "osv^DPX*<>"[: len(methods)], strict=True)
    for k, (method, mark) in enumerate(marks):
        places, shares = [], []
        for place, (kind, shape) in enumerate(shapes):
            row = most.get((kind, shape, method))
            if row:
                # All relative to the copy of this shape by all threads.
                copy = float(most[kind, shape, methods[0]]["copy_gb_per_s"])
                places.append(place)
                shares.append(float(row["gb_per_s"]) / copy)
        first = k == 0
        axes.plot(
            shares, places, mark, markersize=6.5 if first else 4, label=method, zorder=3 + first
        )
    axes.set_yticks(range(len(shapes)), [f"{kind}: {shape} B" for kind, shape in shapes], size=8)
    axes.set_ylim(len(shapes) - 0.5, -0.5)
    axes.set_xlim(0, None)
    axes.set_xlabel(f"share of a copy by {threads} threads")
    axes.grid()
    figure.legend(loc="outside upper left", ncols=3)
    return figure


def _landscape(rows: list[dict]):
    from matplotlib import pyplot

    methods = list(dict.fromkeys(r["method"] for r in rows))
    lines = []
    size = (drawing.WIDTH, 4.5 * len(methods))
    figure, axes = pyplot.subplots(len(methods), 1, figsize=size, squeeze=False)
    top = max(map(_share, rows))
    for method, plot in zip(methods, axes[:, 0], strict=True):
        ours = [r for r in rows if r["method"] == method]
        worst = min(ours, key=_share)
        what = f"landscape, {method}, {len(ours)} shapes"
        lines.append(_verdict(what, _share(worst), _name(worst), LEAST_OF_LANDSCAPE))
        # Marks show the algorithm.
        for name, mark in zip((*BARS, "no plan"), "sDP^ov", strict=True):
            of = [r for r in ours if family(r) == name]
            if of:
                colours = plot.scatter(
                    *([int(r[side]) for r in of] for side in ("cols", "rows")),
                    c=list(map(_share, of)),
                    marker=mark,
                    s=45,
                    vmin=0,
                    vmax=top,
                    cmap="viridis",
                    edgecolors=drawing.INK,
                    linewidths=0.4,
                    label=name,
                )
        figure.colorbar(colours, ax=plot, label="share of a copy")
        plot.set_title(
            f"{method}: elements of {ours[0]['bytes']} bytes, {ours[0]['threads']} threads",
        )
        plot.set_xlabel("columns, n")
        plot.set_ylabel("rows, m")
        plot.legend(loc="lower left", bbox_to_anchor=(0, 1.06), ncols=3)
    return lines, figure


if __name__ == "__main__":
    report(pathlib.Path(sys.argv[1]))
