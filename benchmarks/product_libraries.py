"""Libraries that multiply matrices, in this process: our kernel, faer, and others by ctypes.

A contender has ``columns()``, the library columns of a row, and ``product(operands, threads)``.
That makes a function which computes one product and returns its seconds. Operands are those of
products.py.
"""

import abc
import ctypes
import functools
import time

import numpy as np

import libraries

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


class Absent(Exception):
    """The reason why a contender does not take part."""


class Native:
    """meshsolve's kernel, or faer, on the threads of the compiled benchmark."""

    def __init__(self, method: str):
        self._method = method

    def columns(self) -> dict:
        """The library columns of a row."""
        return libraries.of_this_process(self._method, 1)

    def product(self, x, threads: int):
        """A function that computes one product and returns its seconds."""
        import measures

        addresses = (of.ctypes.data for of in (x.a, x.b, x.c))
        sizes = (x.dtype, *x.shape, x.stride, *addresses, self._method, threads)
        if measures.multiply(*sizes) is None:
            raise Absent("no kernel for this processor")
        return lambda: measures.multiply(*sizes)


class Cblas(abc.ABC):
    """`cblas_?gemm` of a library. The subclasses know its threads and its version."""

    prefix = ""

    def __init__(self, path: str):
        self._library = _loaded(path)

    def call(self, name: str, *arguments, returns: type | None = None):
        """What one of its functions returns."""
        function = getattr(self._library, self.prefix + name)
        function.restype = returns
        found = function(*arguments)
        return found.decode() if isinstance(found, bytes) else found

    @abc.abstractmethod
    def set_threads(self, threads: int) -> None:
        """Set its number of threads."""

    @abc.abstractmethod
    def columns(self) -> dict:
        """The library columns of a row."""

    def product(self, x, threads: int):
        """A function that computes one product and returns its seconds."""
        (m, n, k), letter = map(ctypes.c_int, x.shape), LETTERS[x.dtype]
        real, stride = ctypes.c_float if letter in "sc" else ctypes.c_double, x.stride
        minus, one = (
            real(of) if letter in "sd" else (real * 2)(of, 0)  # complex numbers are by address
            for of in (-1, 1)
        )
        a, b, c = map(_pointer, (x.a, x.b, x.c))
        columns, as_it_is = 102, 111
        function = getattr(self._library, f"{self.prefix}cblas_{letter}gemm")
        function.restype = None
        arguments = (columns, as_it_is, as_it_is, m, n, k, minus, a, stride, b, stride, one, c)
        return functools.partial(_seconds, self, threads, lambda: function(*arguments, stride))


class OpenBlas(Cblas):
    """The system's OpenBLAS, or with other names SciPy's."""

    def columns(self) -> dict:
        """The library columns of a row."""
        version = self.call("openblas_get_config", returns=ctypes.c_char_p)
        kernels = self.call("openblas_get_corename", returns=ctypes.c_char_p)
        return libraries.columns("openblas", version.split()[1], kernels)

    def set_threads(self, threads: int) -> None:
        """Set its number of threads."""
        self.call("openblas_set_num_threads", threads)


class SciPys(OpenBlas):
    """SciPy's own OpenBLAS."""

    prefix = "scipy_"

    def __init__(self):
        import scipy.linalg  # noqa: F401, this import loads the library
        import threadpoolctl

        paths = [one["filepath"] for one in threadpoolctl.threadpool_info()]
        paths = [path for path in paths if "scipy.libs" in path and "openblas" in path]
        if not paths:
            raise Absent("SciPy has no library of its own")
        super().__init__(paths[0])


class Blis(Cblas):
    """BLIS."""

    def columns(self) -> dict:
        """The library columns of a row."""
        version = self.call("bli_info_get_version_str", returns=ctypes.c_char_p)
        number = self.call("bli_arch_query_id", returns=ctypes.c_int)
        return libraries.columns(
            "blis", version, self.call("bli_arch_string", number, returns=ctypes.c_char_p)
        )

    def set_threads(self, threads: int) -> None:
        """Set its number of threads."""
        self.call("bli_thread_set_num_threads", ctypes.c_long(threads))


class OneDnn(Cblas):
    """oneDNN. Its matrices are by rows: it computes the transpose of C from those of B and A."""

    def __init__(self):
        super().__init__("libdnnl.so.2")

    def columns(self) -> dict:
        """The library columns of a row."""
        numbers = self.call("dnnl_version", returns=ctypes.POINTER(ctypes.c_int))
        kernels = int(self.call("dnnl_get_effective_cpu_isa", returns=ctypes.c_int))
        wide = "AVX-512" if kernels & 0x20 else "AVX2" if kernels & 0x4 else "older"
        return libraries.columns("onednn", ".".join(map(str, numbers[:3])), wide)

    def set_threads(self, threads: int) -> None:
        """Set the threads of OpenMP, which it uses."""
        _loaded("libgomp.so.1").omp_set_num_threads(threads)

    def product(self, x, threads: int):
        """A function that computes one product and returns its seconds."""
        if x.dtype != "float32":
            raise Absent("float32 only")
        (m, n, k), stride = map(ctypes.c_int64, x.shape), ctypes.c_int64(x.stride)
        a, b, c = map(_pointer, (x.a, x.b, x.c))
        as_it_is, minus, one = ctypes.c_char(b"N"), ctypes.c_float(-1), ctypes.c_float(1)
        function = self._library.dnnl_sgemm
        arguments = (as_it_is, as_it_is, n, m, k, minus, b, stride, a, stride, one, c, stride)
        return functools.partial(_seconds, self, threads, lambda: function(*arguments))


@functools.cache
def _loaded(name: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise Absent(str(error)) from None


def _pointer(x: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


def _seconds(library: Cblas, threads: int, call) -> float:
    library.set_threads(threads)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# How to make each contender.
ALL = {
    "meshsolve": lambda: Native("meshsolve"),
    "faer": lambda: Native("faer"),
    "faer alone": lambda: Native("faer alone"),
    "OpenBLAS of SciPy": SciPys,
    "OpenBLAS": lambda: OpenBlas("libopenblas.so.0"),
    "BLIS": lambda: Blis("libblis.so.4"),
    "oneDNN": OneDnn,
}
