# Every target installs what it needs on a machine that has python3 (3.11 or newer), cargo, g++, make.
#
#   make demo        handwritten digits on CPU devices; then time, memory and residual against jax.scipy
#   make demo-processes   a solve over two processes, by ScaLAPACK
#   make test        the quick tests: Rust with two of four types (CUDA kernels too, as plain C++), the kernels
#                    through the compilers of CUDA, a part of the cases of Python on the newest and the
#                    oldest JAX, and of the longest of Rust; in one commit of four model checking (CASES=1: all
#                    cases; on the oldest JAX the same part)
#   make test-tools  benchmarks, plots and pictures at length, the pages in a browser; `make test` has smoke tests
#   make test-slow   all cases, and the long ones: random samples of the grid, transpositions of up to 17 GB (skipped
#                    if memory is short), the benchmarks on small arrays, the GPU probe without a GPU;
#                    tests of JAX's version on the oldest and (`make test-between`) on 0.9, 0.10, 0.11
#   make test-sanitize   the Rust tests with the address and the thread sanitizer (needs the component
#                    rust-src of the toolchain); half an hour
#   make test-miri   small Rust tests interpreted by Miri (needs a nightly toolchain with miri and rust-src);
#                    four minutes
#   make test-valgrind   some of the Rust tests under valgrind's memcheck (needs valgrind); 6 minutes
#   make test-aarch64   the Rust tests cross-compiled for aarch64, under qemu's emulation (needs packages of
#                    Debian: CONTRIBUTING.md); an hour
#   make wheel-aarch64   the wheel for aarch64, cross-compiled, in build/aarch64; ten minutes
#   make first-gpu-run   the first run on a CUDA device, at most 25 minutes: what works, fails, or is slow,
#                    in build/first-gpu-run; `make gpu-kit` compiles its kernels beforehand on a machine
#                    without a GPU
#   make test-gpu    builds the wheel, runs the GPU probe and the tests of CUDA devices (needs an
#                    NVIDIA GPU and JAX with its CUDA libraries in $(VENV))
#   make lint        formatters and linters, as in CI; `make format` applies the formatters
#   make bench       factors, inverses, determinants against their competitors: a table, plots and
#                    traces of calls in $(RESULTS), and a comparison with the aims; about half an hour, 8 GB of memory. After
#                    an interruption it continues. ScaLAPACK takes part if its packages are installed
#                    (CONTRIBUTING.md)
#   make bench-full  all routines and rows, n = 256 to 16384: an hour and a half, 16 GB
#   make compare OLD=a.whl   the wheel against an older one in 300 cases: bits, messages, memory, time;
#                    ten minutes, on a machine that is otherwise idle
#   make bench-check a few shares against the committed ones; two minutes, not for CI
#   make bench-transpose   the transposition against copies and its competitors: tables, plots and a
#                    comparison with the bars, in $(RESULTS); about ten minutes, 12 GB of memory
#   make bench-products   the products of the updates against faer and BLAS libraries, those of the system
#                    too if they are installed: a table in $(RESULTS); a quarter of an hour
#   make bench-gpu   the transposition on a CUDA device against the library's own copy kernel; solves
#                    on all of them against jax.numpy's and products, which continue after an interruption
#   make docs        the documentation as a site, in build/site; a broken link is an error
#   make pictures    runs the examples and draws the pictures of the documentation, in docs/pictures
#   make wheel       the wheel, in dist/
#   make release-check   whether wheel and sdist can be published; installs two versions of JAX, some minutes

PYTHON ?= python3
# The newest JAX on the newest Python of this machine, at least 3.12.
VENV := .venv
# The oldest supported JAX, on the oldest supported Python. It is also the build environment: the
# handlers are compiled against its headers (see pyproject.toml).
OLDEST := .venv-oldest
# With its Python and headers `ffi/` is built, for the wheel and for the tests.
export PYO3_PYTHON := $(abspath $(OLDEST)/bin/python)
OLDEST_JAX := 0.8.3
# One JAX of each series between the oldest and the newest; 0.10.2 is the last for Python 3.11.
BETWEEN_JAX := 0.9.2 0.10.2 0.11.2
BIN := $(VENV)/bin
WHEEL := build/wheel.stamp
SOURCES := Cargo.toml Cargo.lock pyproject.toml README.md LICENSE THIRD-PARTY-LICENCES \
	$(shell find src ffi kernels python -type f -not -path '*/__pycache__/*')
# The compiled part of the benchmarks and tests, which is not in the wheel.
NATIVE := build/native.stamp
CXX_SOURCES := $(wildcard ffi/*.cc ffi/*.h kernels/*.cu kernels/*.cuh tests/kernels/*.cc \
	tests/kernels/*.h benchmarks/*.cc benchmarks/native/kernels/*.cu benchmarks/scalapack/*.c \
	benchmarks/scalapack/*.h)
# The assemblers of the CUDA compilers among the tests' requirements: they report registers and
# spills.
ASSEMBLERS := "nvidia-cuda-nvcc-cu12==12.8.*" "nvidia-cuda-nvcc>=13"
# Files of the project, by the name of their schema.
SCHEMA = $(BIN)/check-jsonschema --quiet --builtin-schema vendor.$(1)
PY_SOURCES := python examples benchmarks tests release docs/hooks.py docs/notebooks.py docs/pictures.py
LOOM := tests/loom/Cargo.toml
RESULTS := build/bench
ROUTINES := cholesky,lu,inverse,triangular,determinant,gradient
# Tracing and compiling, by one thread, take most of the time of a test. Each worker takes a stretch
# of the tests, as neighbours use the same programs.
WORKERS := -n 2 --dist worksteal
# Installs the requirements of extras: $(call INSTALL,folder of the environment's programs,extras). Python
# itself compiles the modules that are imported, which are few.
INSTALL = $(1)/pip install --quiet --no-compile $$($(1)/python release/requirements.py $(2))
VALGRIND := valgrind --quiet --fair-sched=yes --error-exitcode=9 --leak-check=full \
	--errors-for-leak-kinds=definite
REINSTALL := --force-reinstall --no-deps
# What builds the wheel.
BUILDERS := "jax==$(OLDEST_JAX)" "jaxlib==$(OLDEST_JAX)" "maturin>=1.9,<2"
# Runs commands without their output; one line reports what they made, and their seconds. Of a
# command that fails, all output follows: $(call QUIETLY,build,what,commands joined by &&).
QUIETLY = @mkdir -p build; log=build/$(subst /,-,$@).log; begin=$$(date +%s); \
	test ! -t 1 || printf '%s ...\r' '$(1)ing $(2)'; \
	if { $(3); } > $$log 2>&1; \
	then echo "$(if $(filter build,$(1)),built,$(1)ed) $(2) in $$(($$(date +%s) - begin)) s"; rm $$log; \
	else code=$$?; echo "could not $(1) $(2):" >&2; cat $$log >&2; exit $$code; fi
# A commit chooses one of so many parts of the cases of each Python test, and of the longest loops of Rust
# tests; `make test CASES=1` has all.
CASES := 16
PART := $(shell git rev-parse HEAD 2> /dev/null || echo 0)
OF_A_PART = TESTS_EVERY=$(CASES) TESTS_PART=$(PART)
# 0 to 3, by another digit of the commit: $(call DIGIT,its place from the end).
DIGIT = $(shell echo $$((0x$$(printf %s 000$(PART) | tail -c $(1) | head -c 1) % 4)))
# Rust tests of generic functions have half of the types, and one commit of four runs the model checker.
export TESTS_TYPES := $(if $(filter 1,$(CASES)),all,$(if $(filter 0 1,$(call DIGIT,2)),f64_and_c64,f32_and_c128))
CHECKS_MODELS := $(filter 1,$(CASES))$(filter 0,$(call DIGIT,3))
# The oldest JAX runs a twentieth of the tests of each file; `make test-slow` runs all.
EVERY := 20
# All routines on emulated devices: a commit has one type, on ranks that share a device or do not.
LEFT_OUT := $(if $(filter-out all,$(TESTS_TYPES)),$(addprefix solve::ranks_,$(if $(filter 0 2,$(call DIGIT,2)),\
	that_share_a_device::,on_three_devices::f32:: on_three_devices::c64::)))
EMULATED = $(OF_A_PART) cargo test --release --locked --quiet --test suite -- --test-threads 1 $(addprefix --skip ,$(LEFT_OUT))
# About half of their time, with one type.
HALF := kernels::solve::ranks_ kernels::engine::
# All other tests of the same program.
ON_CPUS := --skip kernels::
CLIPPY := cargo clippy --quiet --release --locked --target-dir target/lint
# The variable hides an advertisement.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.PHONY: demo demo-processes test test-binaries test-rust test-kernels test-python test-oldest test-tools test-slow test-between test-sanitize \
	test-address test-thread test-miri test-valgrind test-aarch64 wheel-aarch64 aarch64-tools test-gpu first-gpu-run gpu-kit \
	lint lint-rust lint-files lint-package format bench bench-full bench-check compare bench-gpu bench-products bench-transpose docs pictures \
	wheel release-check clean

demo: build/ready.stamp
	@$(BIN)/python examples/01_solve.py

# pip has installed Intel's ScaLAPACK and MPICH, as the tests require.
demo-processes: build/ready.stamp
	@$(BIN)/mpiexec -n 2 $(BIN)/python examples/12_processes.py

test: test-rust test-kernels test-python test-oldest

# After the wheel, because cargo builds one thing at a time.
test-binaries: $(WHEEL)
	cargo test --release --locked --quiet --no-run --tests

# Tests on emulated devices wait for the driver, which works by one thread at a time. So two processes
# run them, each with one thread, and the other tests run meanwhile.
test-rust: test-binaries
	$(EMULATED) $(HALF) & half=$$!; \
	$(EMULATED) kernels:: $(addprefix --skip ,$(HALF)) & other=$$!; \
	$(if $(CHECKS_MODELS),cargo test --release --quiet --manifest-path $(LOOM) &&) \
	$(OF_A_PART) cargo test --release --locked --quiet --test suite --test alone -- $(ON_CPUS) && \
	cargo test --release --locked --quiet --doc; \
	rest=$$?; wait $$half && wait $$other && exit $$rest

test-kernels: build/cuda.stamp $(NATIVE)
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup tests/kernels

# The cache spares recompiling the programs of the previous run; older JAX warns of each.
test-python: build/ready.stamp $(NATIVE)
	$(OF_A_PART) TESTS_OF=few \
		JAX_COMPILATION_CACHE_DIR=$(abspath build/programs) JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 \
		JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1 \
		$(BIN)/python -m pytest -q $(WORKERS) --durations=10

# Tests of what depends on JAX's version, a twentieth: the wheel is the same.
test-oldest: build/oldest.stamp $(NATIVE)
	TESTS_EVERY=$(EVERY) TESTS_PART=$(PART) TESTS_OF=file \
		$(OLDEST)/bin/python -m pytest -q $(WORKERS) --durations=5 -m "versions and not slow and not tools"

# The thread sanitizer has to see the locks of the standard library, so that is built with it.
LIBRARY_thread := -Zbuild-std
SANITIZED = RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=$(1) -Cunsafe-allow-abi-mismatch=sanitizer" \
	cargo test $(LIBRARY_$(1)) --release --locked --quiet --target x86_64-unknown-linux-gnu --target-dir target/$(1)

test-sanitize: test-address test-thread

test-slow test-address test-thread test-miri test-valgrind test-aarch64: export TESTS_TYPES := all

# The planted faults come first: a sanitizer must see them. The emulated driver keeps destroyed
# objects, to refuse them.
test-address:
	$(call SANITIZED,address) --no-run --test suite --test alone
	! $(call SANITIZED,address) --test alone -- --ignored sanitizers::a_number 2> /dev/null
	$(call SANITIZED,address) --test suite --test alone -- $(ON_CPUS)
	ASAN_OPTIONS=detect_leaks=0 $(call SANITIZED,address) --test suite -- kernels::

# Without the kernels, as the C++ of the emulated driver is not instrumented. Rayon runs products of
# the tests on one thread.
test-thread: export RAYON_NUM_THREADS := 1
test-thread:
	$(call SANITIZED,thread) --no-run --test suite --test alone
	! $(call SANITIZED,thread) --test alone -- --ignored sanitizers::two_threads 2> /dev/null
	$(call SANITIZED,thread) --test suite --test alone -- $(ON_CPUS)

# Tests of `tests/alone` then start no process: Miri cannot, and qemu starts no program for aarch64.
BY_THEMSELVES := MESHSOLVE_TESTS_ALONE=1

# Interpreted, so only small tests. Threads that wait for the next call are no leak.
MIRI := MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks" \
	cargo +nightly miri test --locked --quiet --target-dir target/miri
MIRI_TESTS := layout::the_worked layout_algebra::empty layout_algebra::misuse layout_algebra::tiles_of \
	transpose::plans transpose_fast::plans_choose transpose_skinny::plans_choose calls::attributes \
	calls::a_panic calls::equal_ranks calls::twelve small:: units::matrix units::routines::solver::sizes::lines \
	units::routines::solver::sizes::sums
test-miri:
	@cargo +nightly miri --version > /dev/null 2>&1 || { echo "test-miri: no nightly toolchain with Miri \
	here: rustup toolchain install nightly --component miri,rust-src"; exit 1; }
	$(MIRI) --test suite -- $(ON_CPUS) $(MIRI_TESTS)
	$(BY_THEMSELVES) $(MIRI) --test alone -- scratch::

# valgrind does not support AVX-512, so that the kernels are those for AVX2.
test-valgrind:
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$(VALGRIND)" \
		cargo test --release --locked --quiet --test suite \
		-- --test-threads 1 $(ON_CPUS) calls:: on_cpu_devices:: transpose_panel:: units::device::cpu::one_stage

# A compiler that has the standard library for aarch64: the first on PATH, or that of Debian's rustc-web.
AARCH64 := aarch64-unknown-linux-gnu
AARCH64_RUSTC = $(shell for rustc in rustc /usr/bin/rustc; do \
	ls $$($$rustc --print target-libdir --target $(AARCH64))/libstd-*.rlib > /dev/null 2>&1 && \
	echo $$rustc && break; done)
AARCH64_ENV = RUSTC=$(AARCH64_RUSTC) CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
AARCH64_MISSING = { echo "$@: CONTRIBUTING.md names the packages, but there is no $(1)" >&2; exit 1; }

# qemu takes the C library of /lib: its loader and its other parts must be of one version.
aarch64-tools:
	@for tool in cargo aarch64-linux-gnu-g++ qemu-aarch64 /lib/ld-linux-aarch64.so.1; do \
		command -v $$tool > /dev/null || $(call AARCH64_MISSING,$$tool); done
	@test -n "$(AARCH64_RUSTC)" || $(call AARCH64_MISSING,rustc with the standard library for $(AARCH64))

# Groups of tests of which some take minutes under emulation, or have a limit of one.
AARCH64_SKIP := larger_matrices algorithms::scalars::factor_and_solve inverses_from_factors kinds:: \
	shared_steps_give solve_lines:: update:: transpose_panel::small_shapes residuals_of_many_columns \
	thin_q_and_r_by_rows
# qemu keeps memory for each thread that ends: two processes have the tests, and the longest loops, of
# transpositions, an eighth of their cases.
test-aarch64: export TESTS_EVERY := 8
test-aarch64: export TESTS_PART := $(PART)
test-aarch64: aarch64-tools
	for part in "--skip units::" units::; do \
		$(AARCH64_ENV) cargo test --release --locked --package meshsolve --test suite --target $(AARCH64) \
		-- $(ON_CPUS) $(AARCH64_SKIP:%=--skip %) $$part || exit 1; done
	$(BY_THEMSELVES) $(AARCH64_ENV) cargo test --release --locked --package meshsolve --test alone \
		--target $(AARCH64) -- log:: scratch::

# maturin finds no Python for aarch64 and needs none: the wheel is abi3.
wheel-aarch64: aarch64-tools $(OLDEST)/ready.stamp
	$(call QUIETLY,build,the wheel for aarch64,$(AARCH64_ENV) $(OLDEST)/bin/maturin build --quiet --release --locked \
		--target $(AARCH64) --out build/aarch64)

test-tools: build/ready.stamp build/bench.stamp $(VENV)/lint.stamp $(NATIVE)
	$(BIN)/python -m pytest -q $(WORKERS) -m "tools and not slow"

test-slow: build/ready.stamp build/bench.stamp build/cuda.stamp test-between test-tools $(NATIVE)
	cargo test --release --locked --test suite -- transpose_large:: --ignored --test-threads 1 --nocapture
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup -m slow tests/kernels
	$(BIN)/python -m pytest -q -m slow
	$(MAKE) test-rust test-python CASES=1
	$(MAKE) test-oldest EVERY=1

test-between: $(BETWEEN_JAX:%=test-jax-%)

test-jax-%: build/jax-%.stamp $(NATIVE)
	.venv-$*/bin/python -m pytest -q $(WORKERS) -m "versions and not slow and not tools"

first-gpu-run: build/ready.stamp $(NATIVE)
	$(BIN)/python benchmarks/first_gpu_run.py

gpu-kit: build/ready.stamp $(NATIVE)
	$(BIN)/python benchmarks/first_gpu_run.py --prepare sm_80,sm_90,sm_100

test-gpu: build/ready.stamp $(NATIVE)
	$(BIN)/python -m pytest -q tests/gpu
	$(BIN)/python benchmarks/gpu_probe.py --out build/gpu-probe

lint: lint-rust lint-files lint-package

# With a folder of its own, so that it need not wait for the build of the wheel.
lint-rust: export TESTS_TYPES := all
lint-rust: $(OLDEST)/ready.stamp
	cargo fmt --all --check
	cargo fmt --check --manifest-path $(LOOM)
	$(CLIPPY) --workspace --all-targets -- -D warnings
	$(CLIPPY) --package meshsolve-ffi --no-default-features -- -D warnings

# Without the package, so that it need not wait either.
lint-files: $(VENV)/lint.stamp
	$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)
	$(BIN)/ruff format --check $(PY_SOURCES)
	$(BIN)/ruff check $(PY_SOURCES)
	$(BIN)/python release/licences.py
	$(BIN)/python release/prose.py --check
	$(BIN)/python release/circles.py src
	$(call SCHEMA,citation-file-format) CITATION.cff
	$(call SCHEMA,github-workflows) .github/workflows/*.yml
	$(call SCHEMA,github-issue-config) .github/ISSUE_TEMPLATE/config.yml
	$(call SCHEMA,github-issue-forms) .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(BIN)/zizmor --quiet --offline --persona pedantic .github

lint-package: build/ready.stamp $(VENV)/lint.stamp
	$(BIN)/basedpyright --level error
	$(BIN)/python tests/public_types.py
	$(MKDOCS) build

format: $(VENV)/lint.stamp
	cargo fmt --all
	cargo fmt --manifest-path $(LOOM)
	$(BIN)/clang-format -i $(CXX_SOURCES)
	$(BIN)/ruff format $(PY_SOURCES)
	$(BIN)/ruff check --fix $(PY_SOURCES)

bench: build/bench.stamp
	$(BIN)/python benchmarks/run.py --suite bench --routine $(ROUTINES) --out $(RESULTS)
	$(BIN)/python benchmarks/plot.py $(RESULTS)
	$(BIN)/python benchmarks/bars.py $(RESULTS)
	$(BIN)/python benchmarks/traces.py --out $(RESULTS)

bench-full: build/bench.stamp
	$(BIN)/python benchmarks/run.py --suite full --routine $(ROUTINES) --out $(RESULTS)
	$(BIN)/python benchmarks/plot.py $(RESULTS)
	$(BIN)/python benchmarks/bars.py $(RESULTS)

compare: build/ready.stamp
	$(BIN)/python benchmarks/compare.py $(or $(OLD),$(error compare needs OLD, a wheel to compare with)) dist/*.whl

bench-check: build/ready.stamp $(NATIVE)
	rm -rf build/check
	$(BIN)/python benchmarks/run.py --suite check --out build/check
	$(BIN)/python benchmarks/check.py build/check benchmarks/results

bench-gpu: build/bench.stamp
	$(BIN)/python benchmarks/gpu.py --out $(RESULTS)
	$(BIN)/python benchmarks/gpu_solve.py --out $(RESULTS)

bench-products: build/bench.stamp
	$(BIN)/python benchmarks/products.py --out $(RESULTS)

bench-transpose: build/bench.stamp
	$(BIN)/python benchmarks/transpose.py --out $(RESULTS)

docs: build/ready.stamp $(VENV)/lint.stamp
	$(MKDOCS) build

pictures: build/bench.stamp
	$(BIN)/python docs/pictures.py
	$(BIN)/python benchmarks/memory_report.py

wheel: $(WHEEL)

# The environment has the tools that have built the wheel.
release-check: $(WHEEL)
	$(OLDEST)/bin/python release/check.py dist/*.whl

$(OLDEST)/ready.stamp:
	@$$($(PYTHON) release/pythons.py oldest --or-else) -m venv $(OLDEST)
	$(call QUIETLY,install,what builds the wheel,$(OLDEST)/bin/pip install --quiet --no-compile $(BUILDERS))
	@touch $@

$(WHEEL): $(SOURCES) $(OLDEST)/ready.stamp
	@rm -rf dist
	$(call QUIETLY,build,the wheel,$(OLDEST)/bin/maturin build --quiet --release --locked --out dist)
	@touch $@

$(NATIVE): $(WHEEL) $(shell find benchmarks/native -type f) tests/common/diagnose.rs
	$(call QUIETLY,build,the compiled part of the benchmarks,PYO3_BUILD_EXTENSION_MODULE=1 \
		cargo build --quiet --release --locked --package meshsolve-bench)
	@mkdir -p build/native
	@strip -o build/native/meshsolve_bench.abi3.so target/release/libmeshsolve_bench.so
	@touch $@

# It has all requirements of the tests but the wheel: `make -j2` installs them during its build.
$(VENV)/ready.stamp: pyproject.toml
	@$$($(PYTHON) release/pythons.py newest --or-else) -m venv $(VENV)
	$(call QUIETLY,install,the newest JAX and the packages of the tests,$(call INSTALL,$(BIN),test))
	@touch $@

# Reinstalled, because the version number does not change with each build. One pip at a time works in an
# environment.
build/ready.stamp: $(WHEEL) $(VENV)/ready.stamp $(if $(filter lint% docs test-tools,$(MAKECMDGOALS)),$(VENV)/lint.stamp)
	$(call QUIETLY,install,the wheel,$(BIN)/pip install --quiet $(REINSTALL) dist/*.whl)
	@touch $@

# The newest version of every other package that works with that JAX, also during the wheel's build.
$(OLDEST)/packages.stamp: $(OLDEST)/ready.stamp pyproject.toml
	$(call QUIETLY,install,the oldest JAX and the packages of the tests,$(call INSTALL,$(OLDEST)/bin,test) "jax==$(OLDEST_JAX)")
	@touch $@

build/oldest.stamp: $(WHEEL) $(OLDEST)/packages.stamp
	$(call QUIETLY,install,the wheel for the oldest JAX,$(OLDEST)/bin/pip install --quiet $(REINSTALL) dist/*.whl)
	@touch $@

# On the newest Python, as 0.11 needs 3.12. Make would delete these files, which no rule names.
.SECONDARY: $(BETWEEN_JAX:%=build/jax-%.stamp)
build/jax-%.stamp: $(WHEEL)
	@$$($(PYTHON) release/pythons.py newest --or-else) -m venv .venv-$*
	$(call QUIETLY,install,JAX $* and the packages of the tests,$(call INSTALL,.venv-$*/bin,test) "jax==$*" && \
		.venv-$*/bin/pip install --quiet $(REINSTALL) dist/*.whl)
	@touch $@

build/bench.stamp: build/ready.stamp $(NATIVE)
	$(call QUIETLY,install,what benchmarks need,$(call INSTALL,$(BIN),bench))
	@touch $@

build/cuda.stamp: build/ready.stamp
	$(call QUIETLY,install,the assemblers of CUDA,$(BIN)/pip install --quiet --no-deps $(ASSEMBLERS))
	@touch $@

# The environment also has the requirements of the documentation.
$(VENV)/lint.stamp: $(VENV)/ready.stamp
	$(call QUIETLY,install,formatters and linters,$(call INSTALL,$(BIN),lint docs))
	@touch $@

clean:
	rm -rf build dist target $(VENV) $(OLDEST) $(BETWEEN_JAX:%=.venv-%)
