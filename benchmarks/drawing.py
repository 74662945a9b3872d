"""One style for all plots: narrow, transparent, and readable on light and on dark pages.

A telephone shows a figure of ``WIDTH`` inches in its natural size, so that letters of 9 points have
9 pixels. The colours have about the same contrast with white and with a dark page.
"""

import pathlib

WIDTH = 5
INK = "#797979"
BLUE, RED, ORANGE, GREEN = "#2378da", "#d1485b", "#b0680e", "#4f8633"
PURPLE, BROWN, TEAL, PINK = "#995fc2", "#a66a50", "#188683", "#c34a9b"
PALE = "#3a7faf"


def pyplot():
    """matplotlib.pyplot, in this style and without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    matplotlib.rcParams.update(
        dict.fromkeys(inked, INK)
        | {
            "figure.constrained_layout.use": True,
            "font.size": 9,
            "axes.titlesize": 9.5,
            "legend.fontsize": 9,
            "legend.frameon": False,
            "grid.color": INK,
            "grid.alpha": 0.35,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": matplotlib.cycler(
                color=[BLUE, RED, GREEN, ORANGE, PURPLE, TEAL, PINK, BROWN]
            ),
            "axes.facecolor": "none",
            "figure.facecolor": "none",
            "savefig.facecolor": "none",
            "image.interpolation": "none",
            "savefig.dpi": 150,  # of dots that are drawn as an image
            "svg.fonttype": "none",
            "svg.hashsalt": "meshsolve",
        }
    )
    import matplotlib.pyplot

    return matplotlib.pyplot


def save(figure, path: pathlib.Path, source: str = "") -> None:
    """Write an SVG, with a line on the source of its figures."""
    if source:
        figure.supxlabel(source, size=8, x=0.01, ha="left")
    figure.savefig(path, metadata={"Date": None})


def log(axis) -> None:
    """A logarithmic axis, whose numbers need no small exponents."""
    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def origin(rows: list[dict]) -> str:
    """The machine, if the rows name it, and the commit."""
    machines = [row["machine"] for row in rows if row.get("machine")][-1:]
    commits = dict.fromkeys(row["commit"] for row in rows)
    return "; ".join((*machines, f"commit {', '.join(commits)}"))
