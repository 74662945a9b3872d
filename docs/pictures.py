"""Runs the examples and draws their pictures for the page of examples.

Run: python docs/pictures.py [NUMBER ...] [--out FOLDER]
"""

import argparse
import base64
import csv
import io
import pathlib
import re
import runpy
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import drawing  # noqa: E402

DEVICES = ("#7aa6d8", "#e0a868", "#88b888", "#c992b8")
DARK = "#1a1a1a"  # letters on these


def digits(plt, of):
    """Digits that are classified wrongly."""
    stated = np.argmax(of["b"] - np.asarray(of["x"]) / of["inverse"][:, None], axis=1)
    wrong = np.flatnonzero(stated != of["problem"].labels)[:12]
    figure, axes = plt.subplots(3, 4, figsize=(drawing.WIDTH, 4.2))
    ink = plt.matplotlib.colors.to_rgb(drawing.BLUE)
    colors = plt.matplotlib.colors.LinearSegmentedColormap.from_list("", [(*ink, 0), (*ink, 1)])
    for axis in axes.flat:
        axis.axis("off")
    for i, axis in zip(wrong, axes.flat, strict=False):
        axis.imshow(of["problem"].points[i].reshape(8, 8), cmap=colors)
        axis.set_title(f"{of['problem'].labels[i]}, predicted {stated[i]}", fontsize=9)
    return figure


def multi_gpu(plt, of):
    """The memory that the call takes in addition to A, by the number of devices."""
    counts, _, part, above, _ = zip(*reversed(of["table"]), strict=True)
    figure, axis = plt.subplots(figsize=(drawing.WIDTH, 2.6))
    names = [f"{count} device{'s' * (count > 1)}" for count in counts]
    axis.barh(names, part, label="A on each device")
    axis.barh(names, above, left=part, label="in addition to A, in all")
    axis.set(xlabel=f"multiples of A, {of['n']} x {of['n']}")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def gaussian_process(plt, of):
    """The map, its given heights, the prediction, its error, and its standard deviation."""
    height, step = of["elevation"], 3
    fit, x, factor = of["fit"].x, of["x"], of["factor"]
    grid = of["places"].reshape(*height.shape, 2)[::step, ::step].reshape(-1, 2)
    parts = np.array_split(grid, 20)
    mean = np.concatenate([of["predict"](part) for part in parts]) * of["deviation"] + of["mean"]
    across = [np.asarray(of["kernel"](fit, x, part)) for part in parts]
    explained = np.concatenate([(c * np.asarray(factor.solve(c))).sum(0) for c in across])
    sure = of["deviation"] * np.sqrt(np.exp(2 * fit[0]) - explained)
    known = height[::step, ::step]
    mean, sure = mean.reshape(known.shape), sure.reshape(known.shape)
    figure, axes = plt.subplots(2, 2, figsize=(drawing.WIDTH, 4.4))
    rows, columns = np.unravel_index(of["given"], height.shape)
    heights = {"vmin": height.min(), "vmax": height.max(), "cmap": "terrain"}
    error = abs(mean - known)
    errors = {"vmin": 0, "vmax": np.quantile(error, 0.99), "cmap": "magma"}
    shown = axes[0, 0].imshow(known, **heights)
    axes[0, 0].plot(columns / step, rows / step, ".", color=DARK, ms=0.8, rasterized=True)
    axes[0, 0].set_title(f"measured, {of['n']} given")
    axes[0, 1].imshow(mean, **heights)
    axes[0, 1].set_title("predicted")
    figure.colorbar(shown, ax=axes[0], label="m", shrink=0.8)
    axes[1, 0].imshow(error, **errors)
    axes[1, 0].set_title("error")
    shown = axes[1, 1].imshow(sure, **errors)
    axes[1, 1].set_title("standard deviation")
    figure.colorbar(shown, ax=axes[1], label="m", shrink=0.8)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    return figure


def natural_gradient(plt, of):
    """The relative distance of the energy from the exact one."""
    figure, axis = plt.subplots(figsize=(drawing.WIDTH, 2.8))
    axis.plot((np.array(of["energies"]) - of["exact"]) / abs(of["exact"]))
    drawing.log(axis.yaxis)
    axis.set(xlabel="step", ylabel="relative error of the energy")
    axis.grid(alpha=0.3)
    return figure


def scattering(plt, of):
    """The total field."""
    side = np.linspace(-3, 3, 240)
    points = (side + 1j * side[:, None]).ravel()
    outside = points[np.abs(points) > 1.02]
    scattered = [of["scattered"](part)[:, 0] for part in np.array_split(outside, 50)]
    field = np.full(points.shape, np.nan)
    field[np.abs(points) > 1.02] = (
        np.exp(1j * of["k"] * outside.real) + np.concatenate(scattered)
    ).real
    figure, axis = plt.subplots(figsize=(drawing.WIDTH, 4.2))
    shown = axis.imshow(
        field.reshape(240, 240), extent=(-3, 3, -3, 3), cmap="coolwarm", clim=(-2, 2)
    )
    axis.add_patch(plt.Circle((0, 0), 1.02, color=drawing.INK))
    axis.set(xticks=[], yticks=[])
    figure.colorbar(shown, label="Re u", shrink=0.8)
    return figure


def reuse_factor(plt, of):
    """The computed steps, and the time they would take, from the figures of the benchmarks."""
    with open(ROOT / "benchmarks/results/solve-cpu-2-cores.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["n"] == "8192"]
    rows = [row for row in rows if row["routine"] == "cholesky" and row["dtype"] == "float64"]
    rows = [row for row in rows if row["devices"] == "2" or row["what"] == "jnp one device"]
    rows = [row for row in rows if row["rhs"] == "1"]
    seconds = {row["what"]: float(row["seconds_median"]) for row in rows}
    figure, (above, below) = plt.subplots(2, 1, figsize=(drawing.WIDTH, 6))
    shown = above.imshow(
        of["history"][:, ::8], aspect="auto", extent=(0, 360, 0.5, 0), cmap="magma"
    )
    above.set(xlabel="angle", ylabel="time", title="u, 200 steps with one factor")
    figure.colorbar(shown, ax=above)
    count = np.arange(1, 101)
    below.plot(count, count * seconds["jnp one device"], label="jax.scipy on one device, each time")
    below.plot(count, count * seconds["meshsolve"], label="solve, each time")
    once = seconds["meshsolve keep a"] + (count - 1) * seconds["meshsolve ready factor 1 rhs"]
    below.plot(count, once, label="one factor")
    below.set(xlabel="right-hand sides, one after another", ylabel="seconds")
    drawing.log(below.yaxis)
    below.set_title(f"n = 8192, 2 cores; {drawing.origin(rows)}")
    figure.legend(*below.get_legend_handles_labels(), loc="outside lower left")
    below.grid(alpha=0.3)
    return figure


def ffi_call(plt, of):
    """The operands and results of each device."""
    figure, axis = plt.subplots(figsize=(drawing.WIDTH, 2.8))

    def box(x, y, width, text, color):
        axis.add_patch(plt.Rectangle((x + 0.04, y + 0.06), width - 0.08, 0.88, color=color))
        how = {"ha": "center", "va": "center", "fontsize": 8.5, "color": DARK}
        axis.text(x + width / 2, y + 0.5, text, **how)

    for rank, color in enumerate(DEVICES):
        y = 3 - rank
        box(0, y, 1.4, f"place\n({rank}, 0)", color)
        box(1.4, y, 2.6, "a [128, 512]", color)
        box(4, y, 0.8, "b", color)
        box(5.8, y, 2.6, "work:\na's memory", color)
        box(8.4, y, 1.4, "x: b's", color)
        box(9.8, y, 1.1, "info", color)
        how = {"arrowstyle": "->", "color": drawing.INK}
        axis.annotate("", (5.7, y + 0.5), (4.9, y + 0.5), arrowprops=how)
    axis.text(2.4, 4.2, "operands of each device", ha="center")
    axis.text(8.3, 4.2, "results", ha="center")
    axis.set(xlim=(-0.1, 11), ylim=(0, 4.6))
    axis.axis("off")
    return figure


def arrays_of_structures(plt, of):
    """Memory before and after; each cell is a number, and its colour the field."""
    jax, ms = of["jax"], of["ms"]
    fields = of["np"].tile(np.arange(6, dtype=np.float32), (16, 1))
    x = jax.device_put(jax.device_put(fields, jax.devices()[0]), of["by_records"]).copy()
    cells = [np.concatenate([np.ravel(s.data) for s in x.addressable_shards])]
    y = ms.transpose_inplace(x)
    cells.append(np.concatenate([np.ravel(s.data) for s in y.addressable_shards]))
    figure, axes = plt.subplots(2, 1, figsize=(drawing.WIDTH, 1.9))
    titles = "records, [16, 6] on four devices", "vectors, [6, 16], in the same memory"
    for axis, row, title in zip(axes, cells, titles, strict=True):
        axis.pcolormesh(row[None], cmap="Set2", rasterized=False)
        axis.vlines([24, 48, 72], -0.2, 1.2, color=drawing.INK, lw=2, clip_on=False)
        axis.set_title(title, fontsize=9)
        axis.axis("off")
    return figure


def lineax(plt, of):
    """The signal, its observation, and the estimates."""
    figure, axis = plt.subplots(figsize=(drawing.WIDTH, 3.4))
    axis.plot(of["t"], of["first"], ".", ms=2, color=drawing.INK, label="seen", rasterized=True)
    axis.plot(of["t"], of["before"], lw=0.8, color=drawing.ORANGE, label="estimated at first")
    axis.plot(of["t"], of["after"], lw=2.4, label="estimated at last")
    axis.plot(of["t"], of["truth"], "--", lw=1.2, color=drawing.RED, label="truth")
    figure.legend(loc="outside upper left", ncols=2)
    axis.set(xticks=[])
    return figure


def least_squares(plt, of):
    """Three maps: measured, and both fits; the error at held-out heights against the ridge term."""
    height, step, best = of["elevation"], 3, of["fit"].x
    polynomial = np.zeros(height.size)
    polynomial[of["order"][: of["m"]]] = of["fitted"]
    grid = of["places"].reshape(*height.shape, 2)[::step, ::step]
    waves = of["coefficients"](best, of["a"], of["b"])
    parts = np.split(np.resize(grid, (16000, 2)), 20)  # the devices divide each
    heights = [np.asarray(of["cosines"](part, of["i"], of["j"]) @ waves) for part in parts]
    heights = np.concatenate(heights)[: grid[..., 0].size].reshape(grid.shape[:2])
    figure, axes = plt.subplots(2, 2, figsize=(drawing.WIDTH, 4.4))
    axes = axes.ravel()
    maps = {
        f"measured, {height.size}": height[::step, ::step],
        "polynomial of degree 13": polynomial.reshape(height.shape)[::step, ::step] + height.mean(),
        f"cosines, by {of['n']} heights": heights + height.mean(),
    }
    for axis, (title, map_) in zip(axes[:3], maps.items(), strict=True):
        shown = axis.imshow(map_, vmin=height.min(), vmax=height.max(), cmap="terrain")
        axis.set(xticks=[], yticks=[], title=title)
    figure.colorbar(shown, ax=axes[:2], label="m", shrink=0.8)
    ridges = np.logspace(-8, 4, 25)
    for power, label in ((0.0, "power 0"), (best[1], f"power {best[1]:.2f}")):
        tried = [of["value"](np.array([np.log(r), power]), *of["operands"]) for r in ridges]
        axes[3].plot(ridges, tried, label=label)
    axes[3].plot(np.exp(best[0]), of["fit"].fun, "o", color=drawing.INK, label="by gradients")
    drawing.log(axes[3].xaxis)
    drawing.log(axes[3].yaxis)
    axes[3].set(xlabel="ridge", title="error where held out", ylim=(40, 500))
    axes[3].set_yticks([50, 100, 200, 400], ["50 m", "100 m", "200 m", "400 m"])
    axes[3].minorticks_off()
    axes[3].legend(loc="upper right")
    axes[3].grid(alpha=0.3)
    return figure


def eigenproblem(plt, of):
    """Energies by flux, coloured by what is at the edge; an edge state; the charge at a tube."""
    ms, side, middle = of["ms"], of["side"], of["middle"]
    x, y = of["x"], of["y"]
    edge = np.minimum(np.minimum(x, side - 1 - x), np.minimum(y, side - 1 - y)) < 2
    fluxes, energies, weights = np.linspace(0, 0.5, 129), [], []
    for flux in fluxes:
        w, v = ms.eigh(of["hamiltonian"](flux, 0.0, np.zeros(of["n"])), overwrite_a=True)
        energies.append(np.asarray(w))
        weights.append((np.abs(np.asarray(v)[edge]) ** 2).sum(0))
    figure, axes = plt.subplot_mosaic("00\n12", figsize=(drawing.WIDTH, 5.8), height_ratios=(5, 4))
    axes = [axes[name] for name in "012"]
    colors = plt.matplotlib.colors.LinearSegmentedColormap.from_list(
        "", (drawing.BLUE, drawing.ORANGE)
    )
    for at in fluxes, 1 - fluxes:
        at = np.repeat(at, of["n"])
        how = {"s": 0.4, "cmap": colors, "vmin": 0, "vmax": 1, "linewidths": 0, "rasterized": True}
        shown = axes[0].scatter(at, np.ravel(energies), c=np.ravel(weights), **how)
    axes[0].set(xlabel="flux in a cell, in flux quanta", ylabel="energy", xlim=(0, 1))
    axes[0].plot(of["flux"], of["fermi"], "or", ms=4)
    axes[0].set_title("energies without disorder")
    figure.colorbar(shown, ax=axes[0], label="part at the edge")
    square = lambda f: np.asarray(f).reshape(side, side).T  # noqa: E731
    state = np.abs(np.asarray(of["v"])[:, of["k"] - 1]) ** 2
    extent = {"origin": "lower", "extent": (-0.5, side - 0.5, -0.5, side - 0.5)}
    shown = axes[1].imshow(square(state), cmap="magma", vmin=0, **extent)
    axes[1].set_title("highest filled state")
    below = {"location": "bottom", "ticks": plt.MaxNLocator(3)}
    figure.colorbar(shown, ax=axes[1], label="electrons on a site", **below)
    limit = np.abs(of["change"]).max()
    norm = plt.matplotlib.colors.SymLogNorm(limit / 1000, vmin=-limit, vmax=limit)
    shown = axes[2].imshow(square(of["change"]), cmap="coolwarm", norm=norm, **extent)
    axes[2].add_patch(plt.Circle([middle - 0.5] * 2, 0.3 * side, fill=False, color=drawing.INK))
    axes[2].set_title(f"derivative: {of['charge']:.3f} inside")
    bar = figure.colorbar(shown, ax=axes[2], label="electrons per flux quantum", location="bottom")
    bar.set_ticks([-limit, 0, limit], labels=[f"{-limit:.2g}", "0", f"{limit:.2g}"])
    bar.ax.minorticks_off()
    for axis in axes[1:]:
        axis.set(xticks=[], yticks=[])
    return figure


def processes(plt, of):
    """The columns of four processes before a call, while it works, and while its factor lives."""
    ranks, tiles = 4, 4
    figure, axes = plt.subplots(2, 1, figsize=(drawing.WIDTH, 2.1))
    block, cyclic = (
        np.arange(ranks * tiles),
        np.arange(ranks * tiles).reshape(tiles, ranks).T.ravel(),
    )
    for axis, order, title in zip(
        axes, (block, cyclic), ("as you have it", "in the call, and as a factor"), strict=True
    ):
        for place, tile in enumerate(order):
            x = place + 0.5 * (place // tiles)
            axis.add_patch(plt.Rectangle((x, 0), 0.95, 1, color=DEVICES[tile // tiles]))
            axis.text(x + 0.475, 0.5, str(tile), ha="center", va="center", color=DARK, fontsize=8.5)
        for rank in range(ranks):
            axis.text(4.5 * rank + 2, -0.2, f"process {rank}", ha="center", va="top", fontsize=8.5)
        axis.set(xlim=(-0.2, 17.7), ylim=(-0.8, 1.1), title=title)
        axis.title.set_fontsize(9)
        axis.axis("off")
    return figure


DRAWN = {
    "01": (digits, "--no-compare"),
    "02": (multi_gpu,),
    "03": (gaussian_process,),
    "04": (natural_gradient,),
    "05": (scattering, "--n", "256"),
    "06": (reuse_factor,),
    "07": (ffi_call,),
    "08": (arrays_of_structures, "--n", "100000"),
    "09": (lineax,),
    "10": (least_squares,),
    "11": (eigenproblem,),
    "12": (processes, "--n", "256"),
}


def smaller(image: re.Match) -> str:
    """An image within a picture, by at most 128 colours."""
    from PIL import Image

    whole = Image.open(io.BytesIO(base64.b64decode(image[0])))
    made = io.BytesIO()
    whole.convert("RGBA").quantize(128, Image.Quantize.FASTOCTREE).save(made, "png", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def main(numbers: list[str], folder: pathlib.Path) -> None:
    """Run each example in a separate process, as users do."""
    if len(numbers) != 1:
        for number in numbers or DRAWN:
            subprocess.run([sys.executable, __file__, "--out", folder, number], check=True)
        return
    draw, *arguments = DRAWN[numbers[0]]
    (example,) = (ROOT / "examples").glob(f"{numbers[0]}_*.py")
    sys.argv = [str(example), *arguments]
    of = runpy.run_path(str(example), run_name="__main__")
    figure = draw(drawing.pyplot(), of)
    folder.mkdir(exist_ok=True)
    path = folder / f"{example.stem}.svg"
    drawing.save(figure, path)
    path.write_text(re.sub(r"(?<=data:image/png;base64,)[^\"]+", smaller, path.read_text()))
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", metavar="NUMBER", help=f"of {', '.join(DRAWN)}")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/pictures")
    given = parser.parse_args()
    main(given.numbers, given.out)
