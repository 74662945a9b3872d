"""Methods to transpose a matrix, and copies, in one process: the Cargo example transpose_rivals and
NumPy. Indices fill the arrays, so that every element of an answer can be checked.
"""

import ctypes
import json
import mmap
import pathlib
import subprocess
import time
import tomllib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLE = "transpose_rivals"
# The number of each request for a plan; transpose_rivals/lib.rs has the same numbers.
PLANS = {"chosen": 0, "C2R": 1, "R2C": 2, "shared scratch": 3}
# Methods with one thread.
SINGLE = ("transpose crate", "numpy")
SHARDS = 4
ACROSS = f"across {SHARDS} shards"
METHODS = (*PLANS, ACROSS, "out of place", *SINGLE)
_NUMPY = {4: np.uint32, 8: np.uint64, 16: np.complex128}


def build() -> pathlib.Path:
    """Build the example; return the path of its library."""
    command = ["cargo", "build", "--release", "--locked", "--message-format=json"]
    command += ["--example", EXAMPLE]
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = map(json.loads, ran.stdout.splitlines())
    (made,) = (m for m in messages if m.get("target", {}).get("name") == EXAMPLE)
    return pathlib.Path(made["filenames"][0])


def versions() -> str:
    """The versions of all measured libraries, and of the compiler."""
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    locked = {package["name"]: package["version"] for package in packages}
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    names = [f"{name} {locked[name]}" for name in ("meshsolve", "transpose")]
    return ", ".join([*names, f"numpy {np.__version__}", " ".join(rustc.stdout.split()[:2])])


class Memory:
    """Touched anonymous memory, of ordinary or of huge pages."""

    def __init__(self, count: int, huge: bool):
        self._map = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if huge:
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self.bytes = np.frombuffer(self._map, np.uint8)
        self.bytes[:: mmap.PAGESIZE] = 0
        self.address = ctypes.c_void_p(self.bytes.ctypes.data)


class Rivals:
    """The competitors on arrays of up to ``count`` bytes; the second array has ``second``."""

    def __init__(self, count: int, second: int, huge: bool):
        self._library = ctypes.CDLL(str(build()))
        self._library.rivals_plan.restype = ctypes.c_ssize_t
        self._library.rivals_misplaced.restype = ctypes.c_size_t
        self.first, self.second = Memory(count, huge), Memory(second, huge)

    def plan(self, method: str, shape: tuple, threads: int) -> tuple[int, str] | None:
        """Bytes that the method needs in addition to the array, and its own description; None if it
        does not apply.
        """
        rows, cols, size = shape
        if method in PLANS:
            text = ctypes.create_string_buffer(256)
            numbers = _sizes(rows, cols, size, threads)
            extra = self._library.rivals_plan(PLANS[method], *numbers, text, ctypes.c_size_t(256))
            return None if extra < 0 else (extra, text.value.decode())
        if method == ACROSS:
            return (0, "") if rows == cols and rows % SHARDS == 0 else None
        if method == "transpose crate":
            return max(rows, cols) * size, ""
        return rows * cols * size, ""

    def copy_seconds(self, count: int, threads: int) -> tuple[float, float]:
        """Seconds of an ordinary and a streaming copy of ``count`` bytes, or of all bytes of the
        second array.
        """
        count = min(count, self.second.bytes.size)
        addresses = (self.first.address, self.second.address)
        call = lambda streaming: self._library.rivals_copy(  # noqa: E731
            *addresses, *_sizes(count, threads), ctypes.c_bool(streaming)
        )
        return _seconds(lambda: call(False)), _seconds(lambda: call(True))

    def seconds(self, method: str, shape: tuple, threads: int, check: bool) -> float:
        """Seconds of one transposition, with the faster kind of stores if there are two. Raises
        AssertionError if ``check`` finds a misplaced element.
        """
        rows, cols, size = shape
        if check:
            self._library.rivals_fill(self.first.address, *_sizes(rows * cols, size, threads))
        numbers, result, kept = _sizes(rows, cols, size, threads), self.first, None
        if method in PLANS:
            run = lambda: self._library.rivals_transpose(  # noqa: E731
                PLANS[method], self.first.address, *numbers
            )
            seconds = _seconds(run)
        elif method == ACROSS:
            call = self._library.rivals_transpose_square
            parts = (rows, SHARDS, size, threads)
            seconds = _seconds(lambda: call(self.first.address, *_sizes(*parts)))
        elif method == "transpose crate":
            run = self._library.rivals_transpose_crate
            seconds = _seconds(lambda: run(self.first.address, *numbers[:3]))
        elif method == "out of place":
            result = self.second
            call = lambda streaming: self._library.rivals_out_of_place(  # noqa: E731
                self.first.address, self.second.address, *numbers, ctypes.c_bool(streaming)
            )
            seconds = min(_seconds(lambda: call(True)), _seconds(lambda: call(False)))
        else:
            x = self.first.bytes[: rows * cols * size].view(_NUMPY[size]).reshape(rows, cols)
            start = time.perf_counter()
            kept = np.ascontiguousarray(x.T)
            seconds = time.perf_counter() - start
        if check:
            address = result.address if kept is None else ctypes.c_void_p(kept.ctypes.data)
            wrong = self._library.rivals_misplaced(address, *numbers)
            assert wrong == 0, f"{method}, {rows} x {cols} of {size} bytes: {wrong} misplaced"
        return seconds


def _sizes(*numbers: int) -> tuple:
    return tuple(map(ctypes.c_size_t, numbers))


def _seconds(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
