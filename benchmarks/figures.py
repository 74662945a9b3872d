"""The figures of a row, from seconds of calls and rates that were measured at the same time."""

import statistics
import time

# A row is disturbed if the processor's peak moved by more.
MOVED = 0.05
# Time for threads of the previous call to go to sleep.
REST = 0.05
GEMM_N = 4096


def weight(dtype: str) -> int:
    """Real operations for one operation."""
    return 4 if dtype.startswith("complex") else 1


def gemm_rate(dtype: str, n: int) -> float:
    """GF/s of faer's product on all threads."""
    import measures
    from meshsolve import _core

    n = min(n, GEMM_N)
    seconds = measures.gemm_seconds(dtype, n, _core.threads())
    return weight(dtype) * 2 * n**3 / seconds / 1e9


def peak_rate(dtype: str, threads: int) -> float:
    """GF/s of fused multiply-adds, in real operations also for complex types."""
    import measures

    time.sleep(REST)
    return measures.peak_flops(dtype, threads)[0] / 1e9


def of_peak(peaks: list[float]) -> dict:
    """The columns of the peak before and after each turn."""
    moved = 1 - min(peaks) / max(peaks)
    return {
        "peak_gflops": f"{statistics.median(peaks):.1f}",
        "peak_moved": f"{moved:.3f}",
        "disturbed": "yes" if moved > MOVED else "",
    }


def shares(routine, ready, n, rhs, dtype, times, factor, rates, peaks=(), updates=()) -> dict:
    """The columns of seconds and rates; shares of the peak if there are ``peaks``, and of the
    updates' product if there are ``updates``.
    """
    cubes = {"cholesky": 1 / 3, "inverse": 2, "triangular": 0, "gemm": 2}.get(routine, 2 / 3) * n**3
    squares = {"cholesky": 2, "lu": 2, "triangular": 1}.get(routine, 0) * n**2 * rhs
    median = statistics.median(times)
    rate = weight(dtype) * (cubes * (not ready) + squares) / median / 1e9
    row = {
        "seconds_min": f"{min(times):.5f}",
        "seconds_median": f"{median:.5f}",
        "seconds_max": f"{max(times):.5f}",
        "gflops": f"{rate:.1f}",
    }
    known = {"peak": peaks, "gemm": rates, "update": updates}
    known = {name: statistics.median(of) for name, of in known.items() if of}
    for name in known.keys() - {"update"}:
        row[f"share_of_{name}"] = f"{rate / known[name]:.3f}"
    for name in known.keys() - {"peak"}:
        row[f"{name}_gflops"] = f"{known[name]:.1f}"
    if factor:
        seconds = statistics.median(factor)
        row["seconds_factor"] = f"{seconds:.5f}"
        cubes = 2 / 3 * n**3 if routine == "inverse" else cubes
        factored = weight(dtype) * cubes / seconds / 1e9
        row |= {f"share_of_{name}_factor": f"{factored / known[name]:.3f}" for name in known}
    return row | ({"calls": len(times)} | of_peak(list(peaks)) if peaks else {})
