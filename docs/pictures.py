"""Runs the examples and draws their pictures for the page of examples.

Run: python docs/pictures.py [NUMBER ...] [--out FOLDER]
"""

import argparse
import csv
import io
import pathlib
import runpy
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEVICES = ("#7aa6d8", "#e0a868", "#88b888", "#c992b8")
GREY = "#555555"


def digits(plt, of):
    """Digits that are classified wrongly."""
    stated = np.argmax(of["b"] - np.asarray(of["x"]) / of["inverse"][:, None], axis=1)
    wrong = np.flatnonzero(stated != of["problem"].labels)[:12]
    figure, axes = plt.subplots(1, len(wrong), figsize=(10, 1.5))
    for i, axis in zip(wrong, axes, strict=True):
        axis.imshow(of["problem"].points[i].reshape(8, 8), cmap="Greys")
        axis.set_title(f"{of['problem'].labels[i]}, predicted {stated[i]}", fontsize=8)
        axis.axis("off")
    return figure


def multi_gpu(plt, of):
    """The memory that the call takes in addition to A, by the number of devices."""
    counts, _, part, above, _ = zip(*reversed(of["table"]), strict=True)
    figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
    names = [f"{count} device{'s' * (count > 1)}" for count in counts]
    axis.barh(names, part, color=GREY, label="A on each device")
    axis.barh(names, above, left=part, label="in addition to A, in all")
    axis.set(xlabel=f"multiples of A, {of['n']} x {of['n']}")
    axis.legend(fontsize=8)
    return figure


def gaussian_process(plt, of):
    """The map, its given heights, the prediction, and its standard deviation."""
    height, step = of["elevation"], 3
    fit, x, factor = of["fit"].x, of["x"], of["factor"]
    grid = of["places"].reshape(*height.shape, 2)[::step, ::step].reshape(-1, 2)
    parts = np.array_split(grid, 20)
    mean = np.concatenate([of["predict"](part) for part in parts]) * of["deviation"] + of["mean"]
    across = [np.asarray(of["kernel"](fit, x, part)) for part in parts]
    explained = np.concatenate([(c * np.asarray(factor.solve(c))).sum(0) for c in across])
    sure = of["deviation"] * np.sqrt(np.exp(2 * fit[0]) - explained)
    shape = height[::step, ::step].shape
    figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
    rows, columns = np.unravel_index(of["given"], height.shape)
    limits = {"vmin": height.min(), "vmax": height.max(), "cmap": "terrain"}
    axes[0].imshow(height[::step, ::step], **limits)
    axes[0].plot(columns / step, rows / step, ".k", ms=0.8)
    axes[0].set_title(f"measured, {of['n']} given")
    shown = axes[1].imshow(mean.reshape(shape), **limits)
    axes[1].set_title("predicted")
    figure.colorbar(shown, ax=axes[:2], label="m", shrink=0.8)
    axes[2].set_title("standard deviation")
    shown = axes[2].imshow(sure.reshape(shape), cmap="magma")
    figure.colorbar(shown, ax=axes[2], label="m", shrink=0.8)
    for axis in axes:
        axis.set(xticks=[], yticks=[])
    return figure


def natural_gradient(plt, of):
    """The relative distance of the energy from the exact one."""
    figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
    axis.semilogy((np.array(of["energies"]) - of["exact"]) / abs(of["exact"]))
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
    figure, axis = plt.subplots(figsize=(4.4, 4), layout="constrained")
    shown = axis.imshow(field.reshape(240, 240), extent=(-3, 3, -3, 3), cmap="RdBu_r", clim=(-2, 2))
    axis.add_patch(plt.Circle((0, 0), 1.02, color=GREY))
    axis.set(xticks=[], yticks=[])
    figure.colorbar(shown, label="Re u", shrink=0.8)
    return figure


def reuse_factor(plt, of):
    """The computed steps, and the time they would take, from the figures of the benchmarks."""
    with open(ROOT / "benchmarks/results/solve-cpu-2-cores.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["n"] == "8192"]
    rows = [row for row in rows if row["routine"] == "cholesky" and row["dtype"] == "float64"]
    rows = [row for row in rows if row["devices"] == "2" or row["what"] == "jnp one device"]
    seconds = {row["what"]: float(row["seconds_median"]) for row in rows}
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
    shown = left.imshow(of["history"][:, ::8], aspect="auto", extent=(0, 360, 0.5, 0), cmap="magma")
    left.set(xlabel="angle", ylabel="time", title="u, 200 steps with one factor")
    figure.colorbar(shown, ax=left)
    count = np.arange(1, 101)
    right.plot(count, count * seconds["jnp one device"], label="jax.scipy on one device, each time")
    right.plot(count, count * seconds["meshsolve"], label="solve, each time")
    once = seconds["meshsolve keep a"] + (count - 1) * seconds["meshsolve ready factor"]
    right.plot(count, once, label="one factor")
    right.set(xlabel="right-hand sides, one after another", ylabel="seconds", yscale="log")
    right.set_title("by the benchmarks, n = 8192, 2 cores")
    right.legend(fontsize=8)
    right.grid(alpha=0.3)
    return figure


def ffi_call(plt, of):
    """The operands and results of each device."""
    figure, axis = plt.subplots(figsize=(8, 2.8), layout="constrained")

    def box(x, y, width, height, text, color):
        made = plt.Rectangle((x, y), width, height, facecolor=color, edgecolor="white", lw=2)
        axis.add_patch(made)
        axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8)

    for rank, color in enumerate(DEVICES):
        y = 3 - rank
        box(0, y, 1.2, 1, f"place\n({rank}, 0)", color)
        box(1.5, y, 4, 1, "a [128, 512]", color)
        box(5.8, y, 0.8, 1, "b", color)
        box(7.6, y, 4, 1, "work: a's memory", color)
        box(11.9, y, 1.2, 1, "x: b's", color)
        box(13.4, y, 0.8, 1, "info", color)
        axis.annotate("", (7.5, y + 0.5), (6.7, y + 0.5), arrowprops={"arrowstyle": "->"})
    axis.text(3.3, 4.2, "operands of each device", ha="center")
    axis.text(10.9, 4.2, "results", ha="center")
    axis.set(xlim=(-0.1, 14.3), ylim=(0, 4.6))
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
    figure, axes = plt.subplots(2, 1, figsize=(10, 1.9), layout="constrained")
    titles = "records, [16, 6] on four devices", "vectors, [6, 16], in the same memory"
    for axis, row, title in zip(axes, cells, titles, strict=True):
        axis.pcolormesh(row[None], cmap="Set2", edgecolors="white", linewidth=0.5)
        axis.vlines([24, 48, 72], 0, 1, color="black", lw=2)
        axis.set_title(title, fontsize=9)
        axis.axis("off")
    return figure


def lineax(plt, of):
    """The signal, its observation, and the estimates."""
    figure, axis = plt.subplots(figsize=(9, 3), layout="constrained")
    axis.plot(of["t"], of["first"], ".", ms=2, color="#aaaaaa", label="seen")
    axis.plot(of["t"], of["before"], lw=0.8, label="estimated at first")
    axis.plot(of["t"], of["after"], lw=2, label="estimated at last")
    axis.plot(of["t"], of["truth"], "k--", lw=1, label="truth")
    axis.legend(fontsize=8)
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
    figure, axes = plt.subplots(1, 4, figsize=(13, 2.7), layout="constrained")
    maps = {
        f"measured, {height.size}": height[::step, ::step],
        "polynomial of degree 13": polynomial.reshape(height.shape)[::step, ::step] + height.mean(),
        f"cosines, by {of['n']} heights": heights + height.mean(),
    }
    for axis, (title, map_) in zip(axes[:3], maps.items(), strict=True):
        shown = axis.imshow(map_, vmin=height.min(), vmax=height.max(), cmap="terrain")
        axis.set(xticks=[], yticks=[], title=title)
    figure.colorbar(shown, ax=axes[:3], label="m", shrink=0.8)
    ridges = np.logspace(-8, 4, 25)
    for power, label in ((0.0, "power 0"), (best[1], f"power {best[1]:.2f}")):
        tried = [of["value"](np.array([np.log(r), power]), *of["operands"]) for r in ridges]
        axes[3].loglog(ridges, tried, label=label)
    axes[3].loglog(np.exp(best[0]), of["fit"].fun, "ok", label="found by gradients")
    axes[3].set(xlabel="ridge", ylabel="error where held out, m", ylim=(40, 500))
    axes[3].set_yticks([50, 100, 200, 400], ["50", "100", "200", "400"])
    axes[3].minorticks_off()
    axes[3].legend(fontsize=8, loc="upper right")
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
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    figure.get_layout_engine().set(wspace=0.04)
    colors = plt.matplotlib.colors.LinearSegmentedColormap.from_list("", ("#14304f", "#e8a33d"))
    for at in fluxes, 1 - fluxes:
        at = np.repeat(at, of["n"])
        how = {"s": 0.4, "cmap": colors, "vmin": 0, "vmax": 1, "linewidths": 0}
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
    figure.colorbar(shown, ax=axes[1], label="electrons on a site")
    limit = np.abs(of["change"]).max()
    norm = plt.matplotlib.colors.SymLogNorm(limit / 1000, vmin=-limit, vmax=limit)
    shown = axes[2].imshow(square(of["change"]), cmap="RdBu_r", norm=norm, **extent)
    axes[2].add_patch(plt.Circle([middle - 0.5] * 2, 0.3 * side, fill=False, color=GREY))
    axes[2].set_title(f"derivative: {of['charge']:.4f} in the circle")
    figure.colorbar(shown, ax=axes[2], label="electrons per flux quantum")
    for axis in axes[1:]:
        axis.set(xticks=[], yticks=[])
    return figure


def processes(plt, of):
    """The columns of four processes before a call, while it works, and while its factor lives."""
    ranks, tiles = 4, 4
    figure, axes = plt.subplots(2, 1, figsize=(8, 1.9), layout="constrained")
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
            axis.text(x + 0.475, 0.5, str(tile), ha="center", va="center", fontsize=8)
        for rank in range(ranks):
            axis.text(4.5 * rank + 2, -0.2, f"process {rank}", ha="center", va="top", fontsize=8)
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


def main(numbers: list[str], folder: pathlib.Path) -> None:
    """Run each example in a separate process, as users do."""
    if len(numbers) != 1:
        for number in numbers or DRAWN:
            subprocess.run([sys.executable, __file__, "--out", folder, number], check=True)
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    draw, *arguments = DRAWN[numbers[0]]
    (example,) = (ROOT / "examples").glob(f"{numbers[0]}_*.py")
    sys.argv = [str(example), *arguments]
    figure = draw(plt, runpy.run_path(str(example), run_name="__main__"))
    folder.mkdir(exist_ok=True)
    path = folder / f"{example.stem}.png"
    whole, colors = io.BytesIO(), 128 if draw in (gaussian_process, least_squares) else 256
    figure.savefig(whole, dpi=110, bbox_inches="tight")
    Image.open(whole).convert("RGB").quantize(colors).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", metavar="NUMBER", help=f"of {', '.join(DRAWN)}")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/pictures")
    given = parser.parse_args()
    main(given.numbers, given.out)
