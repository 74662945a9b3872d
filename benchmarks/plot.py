"""Plots of the results of run.py: time, share, memory, devices, and the split of calls.

Run: python benchmarks/plot.py FOLDER

Each FOLDER/solve-cpu-*.csv gives five SVGs in the same folder: NAME-time, -share, -memory,
-devices, -split. Shares are relative to the processor's peak of fused multiply-adds. Disturbed rows
have hollow marks. Plots omit missing rows and columns; there is no plot without rows.
"""

import csv
import pathlib
import statistics
import sys

import drawing

BOTH = {"cholesky": "positive definite (Cholesky)", "lu": "general (LU)"}
# Legend, colour, mark of each competitor; ours are drawn last, above the others.
LOOKS = {
    "ScaLAPACK": ("ScaLAPACK, 2 processes, OpenBLAS's choice of kernels", drawing.PINK, "v"),
    "ScaLAPACK SkylakeX": ("ScaLAPACK, 2 processes, AVX-512 kernels", drawing.PURPLE, "^"),
    "jnp sharded": ("jax.scipy / jnp, the same shards", drawing.RED, "s"),
    "jnp one device": ("jax.scipy / jnp, one device, all cores", drawing.ORANGE, "D"),
    "scipy": ("scipy, one array, all cores", drawing.GREEN, "P"),
    "faer": ("faer, one array, all cores", drawing.BROWN, "X"),
    "meshsolve keep a": ("meshsolve, 2 devices, A kept", drawing.TEAL, "d"),
    "meshsolve": ("meshsolve, 2 devices, by rows", drawing.BLUE, "o"),
}
LINES = tuple(name for name in LOOKS if name != "meshsolve keep a")
# The columns of seconds, from the beginning of a call to its end.
SPLIT = {
    "outside": ("outside: Python, XLA", drawing.INK),
    "wait": ("waiting for devices", "#b4b4b4"),
    "arrange": ("transposing, mirroring", drawing.ORANGE),
    "factor": ("factorising", drawing.BLUE),
    "solve": ("substituting", drawing.GREEN),
    "other": ("other", drawing.PURPLE),
}
MEMORY = ("jnp sharded", "jnp one device", "scipy", "meshsolve keep a", "meshsolve")


def main() -> None:
    """Draw every table of the folder."""
    drawing.pyplot().rcParams["axes.grid"] = True
    for path in sorted(pathlib.Path(sys.argv[1]).glob("solve-cpu-*.csv")):
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        for name, draw in PLOTS.items():
            figure = draw([row for row in rows if row["routine"] in BOTH])
            if figure:
                target = path.with_name(f"{path.stem}-{name}.svg")
                drawing.save(figure, target, f"{drawing.origin(rows)}; medians")
                print(target)


def _float64(rows: list[dict], **wanted) -> list[dict]:
    wanted |= {"dtype": "float64", "rhs": "1"}
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _lines(rows: list[dict], routine: str, what: str, column: str) -> list[tuple[int, float]]:
    """(n, value) of a competitor, ours on two devices."""
    devices = "2" if what.startswith(("meshsolve", "jnp sharded", "ScaLAPACK")) else "1"
    found = _float64(rows, routine=routine, what=what, devices=devices)
    return sorted((int(row["n"]), float(row[column])) for row in found if row.get(column))


def _disturbed(rows: list[dict], routine: str, what: str) -> set[int]:
    """Orders of the disturbed rows of a line."""
    found = _float64(rows, routine=routine, what=what)
    return {int(row["n"]) for row in found if row.get("disturbed")}


def _median_by_order(rows: list[dict], figure) -> list[tuple[int, float]]:
    """(n, median of ``figure(row)``) over all rows of an order that have it."""
    values: dict[int, list[float]] = {}
    for row in rows:
        if row["dtype"] == "float64" and row.get("peak_gflops"):
            values.setdefault(int(row["n"]), []).append(figure(row))
    return sorted((n, statistics.median(of)) for n, of in values.items())


def _orders(axes, points: list[int]) -> None:
    """An axis of orders, by powers of two."""
    axes.set_xscale("log", base=2)
    places = sorted(set(points))
    axes.set_xticks(
        places, [str(n) if i % 2 == 0 or len(places) < 4 else "" for i, n in enumerate(places)]
    )
    axes.minorticks_off()
    axes.set_xlabel("n")


def _against_n(rows: list[dict], column: str, label: str, names: tuple[str, ...], least: int = 0):
    """One panel for each routine with a line for each competitor, and the legend above."""
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(drawing.WIDTH, 4.9), sharey=True)
    orders, drawn = [], {}
    for (routine, title), axes in zip(BOTH.items(), panels, strict=True):
        for what in names:
            points = [p for p in _lines(rows, routine, what, column) if p[0] >= least]
            if not points:
                continue
            text, colour, mark = LOOKS[what]
            ours = what == "meshsolve"
            style = {"linewidth": 2.4 if ours else 1.3, "markersize": 6 if ours else 5}
            xs, ys = zip(*points, strict=True)
            drawn[text] = axes.plot(xs, ys, color=colour, marker=mark, label=text, **style)[0]
            hollow = [point for point in points if point[0] in _disturbed(rows, routine, what)]
            if hollow:
                axes.plot(
                    *zip(*hollow, strict=True),
                    mark,
                    color=colour,
                    markerfacecolor=(1, 1, 1, 0.75),
                    zorder=3,
                )
            orders += xs
        axes.set_title(title)
    if not drawn:
        return None
    for axes in panels:
        _orders(axes, orders)
    panels[0].set_ylabel(label)
    texts = list(drawn)[::-1]
    figure.legend([drawn[t] for t in texts], texts, loc="outside upper left", labelspacing=0.3)
    return figure


def time(rows: list[dict]):
    """Seconds of a whole call against n, and the seconds at the processor's peak."""
    figure = _against_n(rows, "seconds_median", "seconds of a call, float64", LINES)
    if figure:
        peaks = _median_by_order(rows, lambda row: float(row["peak_gflops"]))
        # For a table without a peak: a line of n^3 alone.
        peak, text = (peaks[-1][1], "dotted: at the peak") if peaks else (50, "dotted: as n³")
        for cubes, axes in zip((1 / 3, 2 / 3), figure.axes, strict=True):
            drawing.log(axes.yaxis)
            low, high = axes.get_xlim()
            bottom, top = axes.get_ylim()
            ends = [cubes * n**3 / peak / 1e9 for n in (low, high)]
            axes.plot((low, high), ends, color=drawing.INK, linestyle=":", zorder=0)
            axes.set_xlim(low, high)
            axes.set_ylim(bottom, top)
        figure.axes[0].annotate(
            text, (0.97, 0.04), xycoords="axes fraction", ha="right", color=drawing.INK
        )
    return figure


def share(rows: list[dict]):
    """The share of the processor's peak against n, and that of faer's product."""
    column, label = _measured_share(rows)
    figure = _against_n(rows, column, f"{label}, float64", LINES)
    if figure:
        figure.axes[0].set_ylim(0, None)
        of_gemm = lambda row: float(row["gemm_gflops"]) / float(row["peak_gflops"])  # noqa: E731
        products = _median_by_order(rows, of_gemm)
        for axes in figure.axes:
            axes.axhline(1, color=drawing.INK, linestyle=":", zorder=0)
            if products:
                xs, ys = zip(*products, strict=True)
                axes.plot(xs, ys, color=drawing.INK, linestyle="--", linewidth=1, zorder=0)
        if products:
            figure.axes[0].annotate(
                "dashed: faer's product", (0.97, 0.04), xycoords="axes fraction", ha="right",
                color=drawing.INK,
            )  # fmt: skip
    return figure


def _measured_share(rows: list[dict]) -> tuple[str, str]:
    """The column of shares, and its label: shares of products if a table has no peak yet."""
    if any(row.get("share_of_peak") for row in rows):
        return "share_of_peak", "share of the peak of multiply-adds"
    return "share_of_gemm", "share of the rate of a matrix product"


def memory(rows: list[dict]):
    """The peak of memory against n."""
    total = [
        row | {"peak": str(1 + float(row["peak_over_a"])) if row["peak_over_a"] else ""}
        for row in rows
    ]
    label = "peak of memory, A itself being 1"
    # Smaller arrays reuse memory of the process.
    figure = _against_n(total, "peak", label, MEMORY, least=4096)
    if figure:
        figure.axes[0].set_ylim(0, None)
        for axes in figure.axes:
            axes.axhline(1, color=drawing.INK, linestyle=":", zorder=0)
    return figure


def devices(rows: list[dict]):
    """Shares on 1, 2, 4, 8 devices of the same cores."""
    from matplotlib import pyplot

    lines, (column, label) = {}, _measured_share(rows)
    for row in _float64(rows, what="meshsolve"):
        if int(row["n"]) >= 4096 and row.get(column):
            point = (int(row["devices"]), float(row[column]))
            lines.setdefault((row["routine"], int(row["n"])), []).append(point)
    lines = {name: sorted(points) for name, points in lines.items() if len(points) > 1}
    if not lines:
        return None
    figure, axes = pyplot.subplots(figsize=(drawing.WIDTH, 3.6))
    colours = {"cholesky": drawing.BLUE, "lu": drawing.RED}
    for (routine, n), points in sorted(lines.items()):
        xs, ys = zip(*points, strict=True)
        text, dashes = f"{BOTH[routine]}, n = {n}", "-" if n > 4096 else "--"
        axes.plot(xs, ys, dashes, color=colours[routine], marker="o", label=text)
    axes.set_xscale("log", base=2)
    places = sorted({x for points in lines.values() for x, _ in points})
    axes.set_xticks(places, list(map(str, places)))
    axes.minorticks_off()
    threads = max(int(row["threads"]) for row in rows)
    axes.set_xlabel(f"devices on {threads} cores")
    axes.set_ylabel(label)
    axes.set_ylim(0, 1.1)
    axes.legend(loc="lower left")
    return figure


def split(rows: list[dict]):
    """The phases of calls, as parts of their seconds."""
    from matplotlib import pyplot

    names = {"meshsolve": "rows", "meshsolve columns": "columns", "meshsolve jit": "rows, jit"}
    bars = []
    for routine, n in [(r, n) for r in BOTH for n in (256, 1024, 4096, 8192, 16384)]:
        for what in names:
            for row in _float64(rows, routine=routine, what=what, devices="2", n=str(n)):
                if row.get("seconds_factor"):
                    method = "LU" if routine == "lu" else "Cholesky"
                    bars.append((f"{method} {n}, {names[what]}", row))
    if not bars:
        return None
    figure, axes = pyplot.subplots(figsize=(drawing.WIDTH, 0.22 * len(bars) + 1.5))
    for place, (_, row) in enumerate(bars):
        parts = {name: float(row.get(f"seconds_{name}") or 0) for name in SPLIT}
        whole = max(float(row["seconds_median"]), sum(parts.values()))
        if not row.get("seconds_outside"):  # an older table without these columns
            parts["other"] = whole - parts["factor"]
        left = 0.0
        for name, seconds in parts.items():
            text, colour = SPLIT[name]
            axes.barh(place, seconds / whole, 0.75, left, color=colour, label=text)
            left += seconds / whole
        reported = f"{whole:.2f} s" if whole >= 1 else f"{1e3 * whole:.3g} ms"
        axes.text(1.005, place, reported, va="center", size=8.5)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.grid(axis="y", visible=False)
    handles, texts = axes.get_legend_handles_labels()
    first = {text: handle for handle, text in zip(handles[::-1], texts[::-1], strict=True)}
    chosen = [text for text, _ in SPLIT.values() if text in first]
    figure.legend([first[text] for text in chosen], chosen, loc="outside upper left", ncols=2)
    axes.set_xlabel("parts of a call, and the time of the whole")
    return figure


PLOTS = {"time": time, "share": share, "memory": memory, "devices": devices, "split": split}

if __name__ == "__main__":
    main()
