"""Solves over several processes, against one process and `jnp`, by turns: CSV lines.

Run: python benchmarks/processes.py [--sizes 4096,8192] [--processes 2] [--turns 3]
     [--kinds pos,gen,lstsq,qr]

| what | meaning |
|---|---|
| one process | `solve` on as many devices of one process, with its threads |
| mkl, debian-openmpi, debian-mpich | over the processes, with that `MESHSOLVE_SCALAPACK` |
| debian-openmpi SkylakeX | the same with OpenBLAS's kernels for AVX-512, if the processor has it |
| jnp | `jax.scipy.linalg` on the same shards, over the processes of MPICH or Open MPI |
| jnp, one thread | the same with one thread of its BLAS in each process, which may be faster |

A is by rows, in float64, and donated; there is one right-hand side. Kinds "pos" and "gen" are
solves of order n. "lstsq" has an A of 8 n rows and n / 4 columns, which it keeps. "qr" makes R of
an A of order n. There `jnp` is `jax.numpy.linalg.qr`. Each process has one thread of ScaLAPACK's
BLAS; in row `jnp` as many as it chooses. A turn starts each program anew. It solves once, then
twice more, of which the faster one counts. `seconds_median` is the median of the turns.
The phases are those of `last_call()`. `above_shard` is the peak of the first process's memory in
that solve above that before, over its part of A. `share_of_one` is the time over that of one
process.
"""

import argparse
import csv
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

import environment

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/processes"))
COLUMNS = (
    *("what", "kind", "n", "processes", "seconds_min", "seconds_median", "share_of_one"),
    *("wait", "arrange", "factor", "solve", "above_shard", "residual_ratio"),
    *("peak_gflops", "mpi", "jax", "commit"),
)


def contenders(processes: int) -> dict[str, tuple[list[str], dict[str, str]]]:
    """The command before the program, and the variables, of each row."""
    import launch

    several = {one.name: [*one.command, str(processes)] for one in launch.launchers()}
    rows: dict = {"one process": ([], {})}
    for name, command in several.items():
        rows[name] = (command, {"MESHSOLVE_SCALAPACK": name})
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    if "debian-openmpi" in rows and "avx512f" in flags:
        command, variables = rows["debian-openmpi"]
        rows["debian-openmpi SkylakeX"] = (command, variables | {"OPENBLAS_CORETYPE": "SkylakeX"})
    if several:
        command = next(iter(several.values()))
        rows["jnp"] = (command, {"WHAT": "jnp"})
        rows["jnp, one thread"] = (command, {"WHAT": "jnp", "OPENBLAS_NUM_THREADS": "1"})
    return rows


def measured(command, variables, kind, n, processes) -> dict:
    """The figures of a program."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Of ScaLAPACK's; a variable of a BLAS reaches the competitor only in a row of its own.
    one_thread = {"OPENBLAS_NUM_THREADS": "1"} if "MESHSOLVE_SCALAPACK" in variables else {}
    allowed = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    settings = environment.clean(**variables, **allowed, **one_thread)
    settings.pop("XLA_FLAGS", None)  # each process has one device
    program = [sys.executable, str(HERE / "processes_program.py"), kind, n, processes, port]
    ran = subprocess.run(
        [*command, *map(str, program)], env=settings, capture_output=True, text=True, timeout=900
    )
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode or not lines:
        raise RuntimeError(f"{command}: {ran.stdout}\n{ran.stderr}")
    return json.loads(lines[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="4096,8192")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--kinds", default="pos,gen")
    options = parser.parse_args()
    import jax

    from commit import commit
    from figures import peak_rate

    table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    table.writeheader()
    rows = contenders(options.processes)
    for n in map(int, options.sizes.split(",")):
        for kind in options.kinds.split(","):
            found: dict[str, list[dict]] = {what: [] for what in rows}
            peaks = [peak_rate("float64", os.cpu_count())]
            for _ in range(options.turns):
                for what, (command, variables) in rows.items():
                    one = measured(command, variables, kind, n, options.processes)
                    found[what].append(one)
                peaks.append(peak_rate("float64", os.cpu_count()))
            base = statistics.median(one["seconds"] for one in found["one process"])
            for what, turns in found.items():
                seconds = [one["seconds"] for one in turns]
                best = min(turns, key=lambda one: one["seconds"])
                table.writerow(
                    {
                        "what": what,
                        "kind": kind,
                        "n": n,
                        "processes": 1 if what == "one process" else options.processes,
                        "seconds_min": f"{min(seconds):.4f}",
                        "seconds_median": f"{statistics.median(seconds):.4f}",
                        "share_of_one": f"{statistics.median(seconds) / base:.3f}",
                        **{key: f"{x:.4f}" for key, x in best["phases"].items() if key in COLUMNS},
                        "above_shard": f"{best['above']:.3f}",
                        "residual_ratio": f"{best['ratio']:.4f}",
                        "peak_gflops": f"{statistics.median(peaks):.1f}",
                        "mpi": best["mpi"],
                        "jax": jax.__version__,
                        "commit": commit(),
                    }
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
