"""How a GPU machine really treats FFI handlers, and its baselines.

    python benchmarks/gpu_probe.py --out FOLDER [--platform cuda|cpu] [--quick]

Compiles gpu_probe.cc, then checks how XLA calls handlers, measures gemm, copies, Cholesky and LU
through jax.numpy, and runs this project's CPU tests. Each check and each case is a process of its
own; the parent never imports jax. gpu_probe.json and gpu_baselines.csv are written after every
step, so that an interrupted run keeps its results.
"""

import argparse
import csv
import ctypes
import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import tempfile
import threading
import time
import timeit
import traceback
from pathlib import Path

from gpu_probe_build import build_handlers, compile_kernels, found, load, loaded, run

MIB = 1 << 20
MARK = "@@"  # begins the result line of a child; all other output is ignored
STAGES = ("instantiate", "prepare", "initialize", "execute")
FIELDS = ("stage", "tag", "run", "device", "thread", "in", "out", "state", "stream", "current")
COLUMNS = (
    *("case", "dtype", "n", "seconds", "rate", "unit", "peak_over_input_bytes", "residual"),
    *("note", "device", "driver", "cuda", "jax", "jaxlib", "python", "commit"),
)

# ---- In a child: jax, the registered handlers, their log ----


class Probe:
    """The package jax with the handlers of gpu_probe.cc registered; a child has one."""

    def __init__(self, platform, library):
        import jax
        import numpy as np

        jax.config.update("jax_enable_x64", True)
        self.jax, self.jnp, self.np, self.wait = jax, jax.numpy, np, jax.block_until_ready
        self.cuda = platform == "cuda"
        # The backend first: a state type that is registered before it exists breaks it.
        self.devices = jax.local_devices()
        lib, capsule = load(library), jax.ffi.pycapsule
        register, where = jax.ffi.register_ffi_target, "CUDA" if self.cuda else "cpu"
        register("gpu_probe_plain", capsule(lib.ProbePlain), platform=where)
        self.lib, self.trouble = lib, None
        try:
            ids = {n: capsule(getattr(lib, f"probe_{n}")()) for n in ("type_id", "type_info")}
            jax.ffi.register_ffi_type("gpu_probe_site", ids, platform=where)
            handlers = {s: capsule(getattr(lib, f"Probe{s.title()}")) for s in STAGES}
            register("gpu_probe_stages", handlers, platform=where)
            register("gpu_probe", {s: handlers[s] for s in STAGES[::3]}, platform=where)
        except Exception as error:  # the stateless checks can still run
            self.trouble = f"registering a state type failed: {error}"

    def _call(self, x, target="gpu_probe", alias=False, **attributes):
        if self.trouble and target != "gpu_probe_plain":
            raise RuntimeError(self.trouble)
        shape = self.jax.ShapeDtypeStruct(x.shape, x.dtype)
        f = self.jax.ffi.ffi_call(target, shape, input_output_aliases={0: 0} if alias else None)
        return f(x, **{k: self.np.int64(v) for k, v in attributes.items()})

    def _plain(self, **attributes):
        return self.jax.jit(lambda x: self._call(x, "gpu_probe_plain", **attributes))

    def _sharded(self, f, devices=None, shape=(256, 64), **options):
        """A jitted shard_map of f, and an array for it with `shape` on each device."""
        jax, sharding = self.jax, self.jax.sharding
        devices = self.np.array(self.devices if devices is None else devices)
        mesh = sharding.Mesh(devices, ("x",), axis_types=(sharding.AxisType.Auto,))
        spec = sharding.PartitionSpec("x", None)
        g = jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        shape, where = (len(devices) * shape[0], shape[1]), sharding.NamedSharding(mesh, spec)
        make = jax.jit(lambda: jax.lax.broadcasted_iota("float32", shape, 0), out_shardings=where)
        return jax.jit(g, **options), self.wait(make())

    def _log(self, stage=None):
        """Records of the handlers since the previous call."""
        rows = self.np.zeros((self.lib.probe_log_size(), len(FIELDS)), self.np.int64)
        self.lib.probe_log_take(rows.ctypes.data_as(ctypes.c_void_p))
        log = [dict(zip(FIELDS, map(int, row), strict=True)) for row in rows]
        return [r for r in log if stage in (None, STAGES[r["stage"]])]

    def _launch(self, g, x, stage="execute"):
        self.wait(g(x))
        return self._log(stage)

    def _attempt(self, f, *args):
        """None, or the error in Python and where it occurred."""
        where = "at the call"
        try:
            y = f(*args)
            where = "when waiting"
            self.wait(y)
        except Exception as error:
            return f"{where}: {type(error).__name__}: {str(error).splitlines()[0][:240]}"
        return None

    def _ordinal(self, device):
        return device.local_hardware_id if self.cuda else device.id

    def _pointers(self, x):
        shards = x.addressable_shards
        return {self._ordinal(s.device): s.data.unsafe_buffer_pointer() for s in shards}

    def _growth(self, f, *args):
        """Result of f, and the rise of the peak above the memory in use before it."""

        def now(gpu, cpu):  # bytes of device 0, or of the process
            if self.cuda:
                return self.devices[0].memory_stats()[gpu]
            status = Path("/proc/self/status").read_text()
            return 1024 * int(re.search(rf"{cpu}:\s+(\d+)", status)[1])

        if not self.cuda:
            Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
        before = now("bytes_in_use", "VmRSS")
        result = self.wait(f(*args))
        return result, now("peak_bytes_in_use", "VmHWM") - before


# ---- Checks: the docstring states the expectation ----


class Checks(Probe):
    """Each returns (ok, got); ok None means that the result is recorded, not judged."""

    def environment(self):
        """Devices of the platform asked for; state types can be registered."""
        first = self.devices[0]
        got = {"devices": [d.device_kind for d in self.devices], "states": self.trouble or "work"}
        got["version"] = getattr(getattr(first, "client", None), "platform_version", None)
        if self.cuda:
            got["cuda"] = "driver {} runtime {} sm_{}".format(*map(self.lib.probe_cuda, range(3)))
        return first.platform == ("gpu" if self.cuda else "cpu") and not self.trouble, got

    def stages(self):
        """Cuda: all four; cpu: instantiate, execute; execute once per launch and device."""
        g, x = self._sharded(lambda x: self._call(x, "gpu_probe_stages"))
        seen = [[STAGES[r["stage"]] for r in self._launch(g, x, None)] for _ in range(3)]
        counts = [{s: names.count(s) for s in STAGES} for names in seen]
        called = [any(c[s] for c in counts) for s in STAGES] == [True, self.cuda, self.cuda, True]
        return called and all(c["execute"] == len(self.devices) for c in counts), counts

    def identity(self):
        """RunId per launch, ordinal = device (not rank), state per site; cuda: own threads."""
        meshes = (self.devices, self.devices[::-1], self.devices[-1:])
        pairs = [self._sharded(self._call, mesh) for mesh in meshes]
        seen = [{r["device"]: r["in"] for r in self._launch(g, x)} for g, x in pairs]
        two = lambda x: self._call(self._call(x, tag=1), tag=2)  # noqa: E731
        g, x = self._sharded(two)
        launches = [self._launch(g, x) for _ in range(5)]
        runs = [sorted({r["run"] for r in log}) for log in launches]
        threads = [{r["device"]: r["thread"] for r in log} for log in launches]
        log = [r for launch in launches for r in launch]
        states = [{r["state"] for r in log if r["tag"] == tag} for tag in (1, 2)]
        other = {r["state"] for r in self._launch(self._sharded(two)[0], x)}
        good = {
            "ordinal_is_device_on_all_meshes": seen == [self._pointers(x) for _, x in pairs],
            "one_run_id_per_launch": len({*map(tuple, runs)}) == 5 and {*map(len, runs)} == {1},
            "one_state_per_site": [len(s) for s in states] == [1, 1],
            "current_device_is_ordinal": all(r["current"] in (r["device"], -1) for r in log),
            "own_threads": all(len(set(t.values())) == len(self.devices) for t in threads),
        }
        got = good | {"runs": runs, "threads": threads, "python": threading.get_native_id()}
        comm = {Path(f"/proc/self/task/{r['thread']}/comm") for r in log}
        got["thread_names"] = sorted({c.read_text().strip() for c in comm if c.exists()})
        got["second_identical_jit_shares_state"] = bool(other & (states[0] | states[1]))
        got["streams"] = len({(r["device"], r["stream"]) for r in log})
        return all(ok for name, ok in good.items() if self.cuda or name != "own_threads"), got

    def aliasing(self):
        """Donated: input, handler in and out, result are one address and the peak stays."""
        shape, got, ok = (1024, 16384), {}, True
        total = 4 * shape[0] * shape[1] * (1 if self.cuda else len(self.devices))
        for name, argument in {"donated": (0,), "not_donated": ()}.items():
            call = functools.partial(self._call, alias=True)
            g, x = self._sharded(call, None, shape, donate_argnums=argument)
            g, before = g.lower(x).compile(), self._pointers(x)
            y, grown = self._growth(g, x)
            after, log = self._pointers(y), self._log("execute")
            in_place = all(r["in"] == r["out"] == after[r["device"]] for r in log)
            equal = all(r["in"] == before[r["device"]] for r in log)
            got[name] = {"in_place": in_place, "input_too": equal, "copies": grown / total}
            copies_right = not self.cuda or round(grown / total) == 1 - len(argument)
            ok = ok and in_place and equal == bool(argument) and copies_right
            del x, y
        return ok, got

    def stream(self):
        """A memset and a kernel on the given stream are ordered with XLA's own work."""
        kernels, x = compile_kernels(self.lib, self.lib.probe_cuda(2)), self.jnp.ones((2048, 2048))
        g = self.jax.jit(lambda x: 2 * self._call(x @ x, "gpu_probe_plain", op=3))
        x = x.astype("float32") / 2048
        wrong = max(float(abs(g(x) - 2 * (1 + 1 / 2048)).max()) for _ in range(20))
        got = {"largest_error": wrong, "kernels": kernels}
        return wrong < 1e-6 and all(r["stream"] for r in self._log()), got

    def scratch(self):
        """Scratch counts in peak_bytes_in_use, own cudaMalloc does not; cpu: no scratch."""
        size, x = 256 * MIB, self.jnp.ones((256, 256))
        own, ask = (self._plain(op=op, bytes=size).lower(x).compile() for op in (4, 5))
        if not self.cuda:
            trouble = self._attempt(ask, x)
            return trouble is not None, trouble
        got = {"asked": size, "own_malloc": self._growth(own, x)[1]}
        free = self.lib.probe_cuda(3)
        got["scratch"] = self._growth(ask, x)[1]
        got["free_memory_fell_by"] = free - self.lib.probe_cuda(3)
        return got["own_malloc"] < size // 8 and size <= got["scratch"] < 1.2 * size, got

    def handler_error(self):
        """A Python exception with our text and code; the process lives, the next call works."""
        x, good, bad = self.jnp.ones((8, 8)), self._plain(op=0), self._plain(op=1)
        got = [self._attempt(f, x) for f in (bad, good, bad, good)]
        ours = [bool(s and "probe error" in s and "FAILED_PRECONDITION" in s) for s in got]
        return ours == [True, False] * 2 and got[1] is got[3] is None, got

    def _meet(self, f=None, launches=10, **attributes):
        """Launches a program of blocking rendezvous; returns its outcome and its seconds."""
        start, attributes = time.perf_counter(), {"n": len(self.devices), **attributes}
        g, x = self._sharded(f or functools.partial(self._call, **attributes))
        tried = []
        while len(tried) < launches and not any(tried):
            tried.append(self._attempt(g, x))
        seconds = round(time.perf_counter() - start, 3)
        return {"launches": len(tried), "seconds": seconds, "trouble": tried[-1]}

    def rendezvous(self):
        """Blocking rendezvous of all devices work, once per launch and in fori_loop."""
        call = functools.partial(self._call, alias=True, n=len(self.devices))
        loop = lambda x: self.jax.lax.fori_loop(0, 50, lambda i, y: call(self.jnp.sin(y) + i), x)  # noqa: E731
        got = {"once": self._meet(), "loop": self._meet(loop)}
        return not any(result["trouble"] for result in got.values()), got

    def rendezvous_twelve(self):
        """Cuda: twelve independent rendezvous run, in one order on all devices; cpu: recorded."""

        def f(x):
            work = [x * i for i in range(12)]  # unequal, so that a scheduler may reorder
            work[::2] = [w @ (w.T @ w) for w in work[::2]]
            work[1::2] = [self.jnp.cumsum(self.jnp.cos(w), axis=0) for w in work[1::2]]
            n = len(self.devices)
            return sum(self._call(w, tag=i, n=n, ms=4000) for i, w in enumerate(work))

        got, order = self._meet(f), {}
        for r in self._log("execute"):
            order.setdefault((r["run"], r["device"]), []).append(r["tag"])
        orders = got["orders"] = sorted(set(map(tuple, order.values())))[:6]
        return not got["trouble"] and len(orders) == 1 if self.cuda else None, got

    def failure_poisoned(self):
        """One device fails and poisons the rendezvous: the error at once, the next call works."""
        bad = self._ordinal(self.devices[-1])
        got = self._meet(None, 1, bad=bad, poison=1, ms=20000)
        got["next_calls"] = self._meet(None, 3)
        ok = got["seconds"] < 8 and "probe failed" in str(got["trouble"])
        return ok and not got["next_calls"]["trouble"], got

    def failure_unpoisoned(self):
        """Recorded: one device fails, the others stay blocked (25 s; XLA may end the process)."""
        bad, ms = self._ordinal(self.devices[-1]), 25000 if self.cuda else 3000
        return None, self._meet(None, 1, bad=bad, ms=ms)

    def third_device(self):
        """A stream of one device copies between two others (with two: within the other)."""
        ways = [(0, 1, 2), (1, 0, 2), (0, 0, 2)] if len(self.devices) > 2 else [(0, 0, 1)]
        stated = [self.lib.probe_copy_by(*way).decode(errors="replace") for way in ways]
        reported = {
            "{} to {} by {}".format(*way): text for way, text in zip(ways, stated, strict=True)
        }
        return not any(stated), {way: text or "works" for way, text in reported.items()}

    def libraries(self):
        """Cuda: cuBLAS and cuSOLVER are loaded by jax itself; the others recorded."""
        a, linalg, got = 4 * self.jnp.eye(64) + 0.01, self.jnp.linalg, {}
        self.wait((a @ a, linalg.cholesky(a), linalg.solve(a, a)))
        for name in ("cublas", "cusolver", "nvrtc", "cusolverMg", "nccl", "cudart", "cuda"):
            disk = [] if (mapped := loaded(name)) else found(f"lib*/lib{name}.so.*")
            got[name] = {"loaded": mapped, "on_disk": sorted(map(str, disk))[:3]}
        both = bool(got["cublas"]["loaded"] and got["cusolver"]["loaded"])
        return both if self.cuda else None, got


CHECKS = {name: f for name, f in vars(Checks).items() if not name.startswith("_")}
# The needs of checks, and checks that may end the process.
NEEDS = {
    "stream": ["a GPU"],
    "failure_poisoned": ["several devices"],
    "rendezvous_twelve": ["time"],
}
NEEDS["failure_unpoisoned"] = ["several devices", "time"]
NEEDS["third_device"] = ["a GPU", "several devices"]
MAY_DIE = ("rendezvous_twelve", "failure_unpoisoned")


class Cases(Checks):
    """Each public method measures one case and returns rows of the table."""

    def _time(self, f, *args):
        times = timeit.repeat(lambda: self.wait(f(*args)), repeat=6, number=1)
        return sorted(times[1:])[2]

    def _matrix(self, dtype, n, symmetric=False):
        """A matrix from one fused kernel, which leaves no higher peak behind."""
        jnp = self.jnp

        def make():
            i, j = (self.jax.lax.broadcasted_iota("uint32", (n, n), k) for k in (0, 1))
            if symmetric:  # Kac-Murdock-Szego: positive definite, condition below 9
                return jnp.exp2(-jnp.abs(i.astype(dtype) - j.astype(dtype)))
            h = (i * 73856093) ^ (j * 19349663)  # an integer hash: rows do get exchanged
            h = (h ^ (h >> 16)) * jnp.uint32(0x7FEB352D)
            h = (h ^ (h >> 15)) * jnp.uint32(0x846CA68B)
            return (h ^ (h >> 16)).astype(dtype) / 2**32 - jnp.asarray(0.5, dtype)

        return self.wait(self.jax.jit(make)())

    def gemm(self, dtype, n):
        """The rate of a square product at full precision."""
        product = self.jax.jit(lambda a: self.jnp.matmul(a, a, precision="highest"))
        seconds = self._time(product, self._matrix(dtype, n))
        return [{"seconds": seconds, "rate": 2e-9 * n**3 / seconds, "unit": "GF/s"}]

    def copy(self, dtype, n):
        """Copies of n bytes, by our kernel and by memcpy, timed by events in one handler."""
        note = compile_kernels(self.lib, self.lib.probe_cuda(2)) if self.cuda else "host"
        x, f, rows = self.jnp.arange(n // 4, dtype=dtype), self._plain(op=6, reps=10), []
        trouble = self._attempt(f, x)
        if not trouble and not bool((f(x) == x).all()):
            trouble = "the copy differs from the input"
        for i, case in enumerate(("copy_kernel", "memcpy_d2d")):
            if rate := self.lib.probe_measured(i):
                row = {"case": case, "seconds": 2 * n / rate, "rate": 1e-9 * rate}
                rows.append(row | {"unit": "GB/s (2 x bytes)", "note": trouble or note})
        return rows or [{"note": trouble}]

    def _solve(self, a, function, flops):
        """One right-hand side. Peak first: only a fresh process shows it."""
        n, jnp, b = len(a), self.jnp, self.jnp.ones((len(a), 1), a.dtype)
        f = self.jax.jit(function).lower(a, b).compile()
        x, peak = self._growth(f, a, b)
        seconds = self._time(f, a, b)
        r = b - jnp.matmul(a, x, precision="highest")
        norm = [float(jnp.linalg.norm(v, 1)) for v in (r, a, x)]
        residual = norm[0] / (n * norm[1] * norm[2] * float(jnp.finfo(a.dtype).eps) / 2)
        row = {"seconds": seconds, "rate": 1e-9 * (flops + 2 * n**2) / seconds, "unit": "GF/s"}
        return [row | {"peak_over_input_bytes": peak, "residual": residual}]

    def cholesky_solve(self, dtype, n):
        """Both jax.scipy.linalg.cho_factor and cho_solve in one jit."""
        import jax.scipy.linalg as la

        a = self._matrix(dtype, n, symmetric=True)
        return self._solve(a, lambda a, b: la.cho_solve(la.cho_factor(a), b), n**3 / 3)

    def lu_solve(self, dtype, n):
        """The function jax.numpy.linalg.solve."""
        return self._solve(self._matrix(dtype, n), self.jnp.linalg.solve, 2 * n**3 / 3)


def cases(cuda, quick):
    """Names 'case:dtype:n' of all the measurements; for a copy n is in bytes."""
    sizes = ((1024, 2048) if quick else (4096, 8192, 16384)) if cuda else (256, 512)
    copies = ((256 * MIB,) if quick else (1024 * MIB, 4096 * MIB)) if cuda else (16 * MIB,)
    types, solvers = ("float64", "float32"), ("cholesky_solve", "lu_solve")
    yield from (f"gemm:{t}:{n}" for t in types for n in sizes[-2:])
    yield from (f"copy:float32:{n}" for n in copies)
    yield from (f"{c}:{t}:{n}" for t in types for n in sizes for c in solvers)


def chosen(args):
    """The checks and cases after the environment; exits if --only matches no name."""
    begins = tuple(args.only.split(","))
    names = [*list(CHECKS)[1:], *cases(args.platform == "cuda", args.quick)]
    if not (found := [name for name in names if name.startswith(begins)]):
        sys.exit(f"gpu_probe: --only: expected beginnings of {', '.join(names)}, got {args.only}")
    return found


# ---- Child and parent ----


def child(name, *arguments):
    """Runs one check or case and prints its record; no record means that it ended the process."""
    (case, *size), start = name.split(":"), time.perf_counter()
    try:
        method = getattr(Cases(*arguments), case)
        got = method(size[0], int(size[1])) if size else method()
        record = {"rows": got} if size else {"ok": got[0], "got": got[1]}
    except Exception:
        record = {"ok": False, "got": traceback.format_exc(limit=-2)[-900:]}
    record["took"] = round(time.perf_counter() - start, 2)
    print("\n" + MARK + json.dumps(record, default=str), flush=True)


def _stated(error):
    """The last lines of a process's errors: its fatal lines if there are any."""
    fatal = r"^(?:F\d{4} |terminate|.*(?:Fatal|what\(\)|Error:)).*$"
    return " | ".join((re.findall(fatal, error, re.M) or error.strip().splitlines())[-3:])[-600:]


class Run:
    """The parent: starts children within the budget and writes what they report."""

    def __init__(self, args):
        self.args, self.start, self.cuda = args, time.monotonic(), args.platform == "cuda"
        smi = ["nvidia-smi", "--format=csv,noheader", "--query-gpu=driver_version"]
        self.machine = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib")}
        self.machine |= {"python": sys.version.split()[0], "cpus": os.cpu_count()}
        for name, command in {"driver": smi, "commit": ["git", "rev-parse", "HEAD"]}.items():
            code, out, _ = run(command, 20)
            self.machine[name] = out.split()[0] if code == 0 and out else None
        self.report = {"machine": self.machine, "checks": [], "baselines": []}

    def _left(self):
        return self.args.budget - (time.monotonic() - self.start)

    def _say(self, text):
        """Prints one line, then writes both files, so that no result is lost."""
        print(f"[{time.monotonic() - self.start:6.1f} s] {text}", flush=True)
        self.args.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.report, indent=1, default=str)
        Path(self.args.out, "gpu_probe.json").write_text(text + "\n")
        with open(Path(self.args.out, "gpu_baselines.csv"), "w", newline="") as file:
            table = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            table.writeheader()
            table.writerows(self.machine | row for row in self.report["baselines"])

    def _child(self, name, limit):
        """The record of one check or case, also if its process hung or died."""
        env = {"JAX_PLATFORMS": self.args.platform, "TF_CPP_MIN_LOG_LEVEL": "1"}
        if self.cuda:  # otherwise every process would first take most of the memory
            env["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        else:
            env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
        command = [sys.executable, __file__, "--child", name, self.args.platform, self.handlers]
        code, out, error = run(command, limit, env=os.environ | env)
        records = [line[len(MARK) :] for line in out.splitlines() if line.startswith(MARK)]
        if records:
            return json.loads(records[0])
        how = f"hung for {limit:.0f} s" if code is None else f"process ended with {code}"
        return {"ok": None if name in MAY_DIE else False, "got": f"{how}: {_stated(error)}"}

    def _add(self, name, record):
        """Files a record under checks or baselines and prints it."""
        if name in CHECKS:
            record = {"name": name, "expected": CHECKS[name].__doc__, **record}
            self.report["checks"].append(record)
            word = {True: "ok", False: "FAILED", None: "recorded"}[record["ok"]]
            return self._say(f"{word:8} {name}: {json.dumps(record['got'], default=str)[:400]}")
        case = dict(zip(("case", "dtype", "n"), name.split(":"), strict=True))
        for row in record.get("rows") or [{"note": record["got"]}]:
            self.report["baselines"].append(case | row)
            values = [f"{v:.5g}" if isinstance(v, float) else str(v) for v in row.values()]
            self._say(" ".join([name, *values]))

    def children(self):
        """All checks, the environment first, then all cases that fit the time budget."""
        self._add("environment", first := self._child("environment", 200))
        if not isinstance(first["got"], dict):
            return self._say(f"jax cannot use {self.args.platform}: no further checks")
        devices = first["got"]["devices"]
        self.machine["device"] = f"{len(devices)} x {devices[0]}"
        self.machine["cuda"] = first["got"].get("cuda")
        lack = {"several devices": len(devices) < 2, "a GPU": not self.cuda}
        lack["time"] = self.args.quick
        for name in chosen(self.args):
            room = self._left() - (0 if name in CHECKS else self.args.suite_timeout)
            if lacks := [need for need in NEEDS.get(name, ()) if lack[need]]:
                self._add(name, {"ok": None, "got": f"skipped: needs {lacks[0]}"})
            elif room < 15:
                self._add(name, {"ok": None, "got": "not run: the time budget is spent"})
            else:
                self._add(name, self._child(name, min(90, room)))

    def suite(self):
        """The project's own tests, on CPU devices of this machine."""
        start, env = time.monotonic(), os.environ | {"JAX_PLATFORMS": "cpu"}
        code, _, error = run([sys.executable, "-c", "import meshsolve"], 60, env=env)
        result = {"ran": False, "why": f"meshsolve is not importable: {_stated(error)}"}
        if code == 0:
            suite = ["-m", "pytest", "tests/python", "-x", "-q", "-p", "no:cacheprovider"]
            limit = max(5, min(self.args.suite_timeout, self._left() - 3))
            code, out, error = run([sys.executable, *suite], limit, env=env)
            words = r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed|deselected)"
            counts = {word: int(n) for n, word in re.findall(words, out.strip()[-200:])}
            result = {"ran": True, "code": code, "timed_out": code is None, "counts": counts}
            result["end"] = out.strip()[-120 if code == 0 else -1500 :] + _stated(error)
        self.report["suite"] = result | {"seconds": round(time.monotonic() - start, 1)}
        self._say(f"suite: {json.dumps(self.report['suite'])[:1500]}")

    def all(self):
        """Runs everything; returns 1 if a check failed."""
        with tempfile.TemporaryDirectory() as folder:
            self.handlers = str(Path(folder, "gpu_probe.so"))
            self.report["build"] = build_handlers(self.args.platform, self.handlers)
            self._say(f"{self.machine}, built by {self.report['build'].split()[0]}")
            self.children()
        if self.args.suite_timeout > 0:
            self.suite()
        oks = [check["ok"] for check in self.report["checks"]]
        self.report["seconds"] = round(time.monotonic() - self.start, 1)
        self._say(f"{oks.count(True)} ok, {oks.count(False)} failed; see {self.args.out}")
        return int(False in oks)


def main():
    """Reads the command line."""
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--platform", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="small sizes, no slow checks")
    parser.add_argument("--only", default="", help="checks and cases whose names begin so: a,b")
    parser.add_argument("--budget", type=float, default=560, help="seconds for everything")
    parser.add_argument("--suite-timeout", type=float, default=200, help="for pytest; 0: skip it")
    args = parser.parse_args()
    chosen(args)
    return Run(args).all()


if __name__ == "__main__":
    sys.exit(main())
