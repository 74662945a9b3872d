"""In-place transposition on a CUDA device against the library's own copy kernel: a CSV line each.

Run: python benchmarks/gpu.py [--out build/bench] [--quick] [--methods chosen,C2R,R2C]
     [--repeats 9] [--device 0] [--no-plot]

The shapes are those of the CPU table (transpose.py) and shards of 8 to 64 GB, as the device's
memory allows. Every element is checked once on the device. Throughput counts one read and one write
of every element. Its share is relative to a copy of one half of the same array to the other by
`kernels/copy.cu`, in turn with it. Times are the device's own, medians. The plot shows the share of
each plan.
"""

import argparse
import csv
import pathlib
import statistics
import sys

import drawing
import measures
from commit import commit, driver
from meshsolve._library.cuda import search_folders
from transpose import shapes

COLUMNS = (
    *("kind", "rows", "cols", "bytes", "method", "gb_per_s", "copy_gb_per_s", "share_of_copy"),
    *("scratch_bytes", "plan", "device", "driver", "cuda", "commit"),
)
# Least share of a copy, by the algorithm of the plan.
BARS = {"square": 0.80, "blocks": 0.40, "panels": 0.32, "skinny": 0.30}
# Scratch of calls of the library: a part of the array, or bytes for a small one.
SHARE, SMALL = 32, 4 << 20


def shards() -> list[tuple[str, int, int, int]]:
    """Shards of n x n float64 over four devices, 8 to 64 GB each."""
    return [("shard", n, n // 4, 8) for n in (65536, 92672, 131072, 180224)]


def main() -> int:
    """Measure the selected shapes; the exit code is 1 without a device."""
    options = _options()
    folders = search_folders()
    try:
        name, free, version = measures.cuda_device(options.device, folders)
    except RuntimeError as error:
        print(f"no CUDA device: {error}", file=sys.stderr)
        return 1
    cuda = ".".join(map(str, version))
    fixed = {"device": name, "driver": driver(), "cuda": cuda, "commit": commit()}
    chosen = [*shapes(), *shards()]
    if options.quick:
        chosen = [_quick(*shape) for shape in chosen]
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"transpose-gpu-{name.lower().replace(' ', '-')}.csv"
    rows = []
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        for kind, *shape in dict.fromkeys(chosen):
            for method in options.methods.split(","):
                if _fits(shape, free):
                    row = measured(options.device, shape, method, options.repeats, folders)
                    rows.append({"kind": kind} | row | fixed)
                    table.writerow(rows[-1])
                    file.flush()
    print(f"{path}: {name}, CUDA {cuda}, commit {fixed['commit']}")
    print("\n".join(_verdicts(rows)))
    if not options.no_plot:
        _draw(rows, path.with_suffix(".svg"))
    return 0


def measured(device: int, shape, method: str, repeats: int, folders) -> dict:
    """A row of the table."""
    rows, cols, size = shape
    count = rows * cols * size
    offered = max(count // SHARE, min(count + count // 8 + 64, SMALL))
    found = measures.cuda_transposition(device, rows, cols, size, method, offered, repeats, folders)
    rate = 2 * count / statistics.median(found["seconds"]) / 1e9
    # Half of the array is read and half is written.
    copy = count / statistics.median(found["copy_seconds"]) / 1e9
    return {
        "rows": rows,
        "cols": cols,
        "bytes": size,
        "method": method,
        "gb_per_s": f"{rate:.1f}",
        "copy_gb_per_s": f"{copy:.1f}",
        "share_of_copy": f"{rate / copy:.3f}",
        "scratch_bytes": found["scratch_bytes"],
        "plan": found["plan"],
    }


def _fits(shape, free: int) -> bool:
    rows, cols, size = shape
    return rows * cols * size * (1 + 1 / SHARE) + SMALL < free


def _quick(kind: str, rows: int, cols: int, size: int) -> tuple[str, int, int, int]:
    """A tiny shape of that kind; short sides stay."""
    small = [side if side <= 32 else 33 + side % 64 for side in (rows, cols)]
    return kind, *(small if rows != cols else small[:1] * 2), size


def _verdicts(rows: list[dict]):
    for name, bar in BARS.items():
        those = [row for row in rows if row["plan"].startswith(name) and row["method"] == "chosen"]
        if those:
            worst = min(those, key=lambda row: float(row["share_of_copy"]))
            share = float(worst["share_of_copy"])
            what = f"{worst['rows']} x {worst['cols']} of {worst['bytes']}"
            verdict = "ok  " if share >= bar else "MISS"
            yield f"{verdict} {name}: least {share:.2f} ({what}), bar {bar:.2f}"


def _draw(rows: list[dict], path: pathlib.Path) -> None:
    figure, axes = drawing.pyplot().subplots(figsize=(drawing.WIDTH, 0.17 * len(rows) + 1.5))
    names = [f"{r['kind']}: {r['rows']} x {r['cols']} of {r['bytes']}, {r['method']}" for r in rows]
    axes.barh(range(len(rows)), [float(row["share_of_copy"]) for row in rows])
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("share of a copy")
    drawing.save(
        figure, path, "{device}, CUDA {cuda}, commit {commit}".format(**rows[0]) if rows else ""
    )


def _options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument("--quick", action="store_true", help="tiny arrays: does it work?")
    parser.add_argument("--methods", default="chosen,C2R,R2C")
    parser.add_argument("--no-plot", action="store_true", help="only the table")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--device", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
