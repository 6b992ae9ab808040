# make demo   set up .venv, build, run published experiments and print the results with the published ones
# make check-bbr  the test cases of the BBR draft for all versions: the study bbr-suite, figures of what failed in check-bbr/
# make agree  48 cells on the simulator and on Linux (dumbbell linux build comes first): writes docs/validation-engines.md
# make agree-live  30 cells on the simulator and on the real clock, 24 minutes: writes docs/validation-live.md
# make agree-stacks  15 cells of a QUIC stack in virtual time and over real UDP, 8 minutes (dumbbell stack build quinn comes first): writes docs/validation-stacks.md
# make docs   the documentation site, in target/site: open target/site/index.html; nothing of it asks a network
# make docs-check  opens every page of that site in headless Chromium, wide and narrow: errors, requests, links, pictures, search
# make test   cargo test, and the quick tests of pytest; names the slowest ten
# make test-slow  the tests of pytest that take more than 0.7 s, then those that assert times, one by one
# make test-all  make test, make test-slow and the tests that are marked long
# make debug  the extension for who works on an algorithm: compiled in seconds, runs some times slower; make build undoes it
# make search property tests with examples that make test does not draw, in Python SEARCH (10) times as many
# make fuzz   every fuzz target for FUZZ_SECONDS (60); needs the nightly toolchain of Rust
# make killed  kills 20 runs on each engine at random moments: nothing is left, and the sweep goes on
# make lint   rustfmt, clippy, ruff, mypy, types of scripts; do the fuzz targets compile
# make audit  are faults known of the crates and packages that dumbbell needs, and are their licences allowed? Asks the network
# make lowest  an environment with the oldest versions of packages that dumbbell allows, before make test
# make features  the crate dumbbell-core with each of its features alone
# make wasm   the simulator for web pages, in target/wasm
# make vega   renews the libraries for charts in pages from the npm registry: python/dumbbell/figures/vega
# make package  what publishing needs: crates packaged and built from their packages, documentation without warnings, features, stubs, oldest Rust
# make pgo    the extension built by a profile of training runs, which makes it faster with the same results: 6 minutes
# make wheel  the package as a wheel in target/wheels, with experiments and references in it, built so where llvm-profdata can be had
# make sdist  the sources as a package for pip, in target/wheels
# make wheel-test  installs that wheel in a fresh environment and runs its commands in an empty folder
# make bench-sweep  10,000 short runs through dumbbell run, in times of what the simulations alone take
# make bench  packets a second of the engine, appended to benches/history.csv; then where the time goes: docs/speed.md
# make where  the second part of that alone
# make ladder  time per packet from 1 flow to 100,000 and from 1 Mbit/s to 1 Tbit/s: docs/speed.md; 10 minutes
# make steps  what a packet costs at both ends of each large step of that: docs/speed.md; counts what is missing, 1 minute a cell, and CELLS="cake,bbr2,1000" anew
# make bench-peers  the same dumbbells on ns-3, and on csg-htsim with CSG_HTSIM=DIR of its sources: docs/peers.md
# make bench-pgo  the same built by a profile, as wheels are; no history
# make guard  does a packet of three cases take over 2 % more instructions than committed? Needs valgrind; 1 to 2 minutes
# make guard-update REASON="…"  commits them as they are now, for who means a change
#
# Needs Rust 1.85 or newer and Python 3.11 or newer.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
OLDEST_RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# what the extension is made from: a test that changes is no reason to make it again
RUST_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates \( -name tests -o -name examples -o -name benches \) -prune \
	-o \( -name '*.rs' ! -name tests.rs -o -name Cargo.toml \) -print)
# of Cargo.toml. .ci/run takes ci, which has the same results: release needs two and a half minutes, half of them on one core
PROFILE ?= release
# with ci, Python compiles modules when something imports them: few of them are
UNCOMPILED := $(if $(filter ci,$(PROFILE)),--no-compile)

.PHONY: demo agree agree-live agree-stacks check-bbr docs build debug test test-all fuzz lint wheel wheel-test bench clean tools nightly
.DELETE_ON_ERROR:

demo: build
	$(BIN)/dumbbell run sce/one-flow-reno-cubic -o demo.duckdb
	@$(BIN)/dumbbell compare demo.duckdb sce
	@printf '\n%s\n\n' 'The same runs against real Linux 6.12:'
	@$(BIN)/dumbbell compare demo.duckdb linux-6.12 --scores
	@printf '%s\n' '' 'The results are in demo.duckdb. Next, for example:' '' \
		'    source $(BIN)/activate' \
		'    dumbbell plot demo.duckdb --reference linux-6.12 -o errors.png    # where RTT differs from Linux' \
		'    dumbbell table demo.duckdb --rows bottleneck.rate --columns base_rtt --value rtt'

agree: build
	$(BIN)/dumbbell run validation/agree -o agree.duckdb
	$(BIN)/dumbbell run validation/agree -o agree.duckdb --engine linux
	$(BIN)/python -m studies.validation.engines agree.duckdb

agree-live: build
	$(BIN)/dumbbell run validation/live -o live.duckdb
	$(BIN)/dumbbell run validation/live -o live.duckdb --engine live
	$(BIN)/python -m studies.validation.engines --live live.duckdb

agree-stacks: build
	$(BIN)/python -m studies.validation.stacks

check-bbr: build
	$(BIN)/python -m studies.bbr_suite.gather --figures check-bbr
	$(BIN)/dumbbell study page bbr-suite

docs: $(STAMPS)/native $(STAMPS)/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo 'the site is in target/site/index.html'

.PHONY: docs-check
docs-check: docs
	$(BIN)/python -m website.browser

build: $(STAMPS)/native

debug: $(STAMPS)/requirements | tools
	@rm -f $(STAMPS)/native
	$(BIN)/maturin develop --profile quick --quiet

# what a build by a profile has for its flags: the same target, named, for training and use, or else names of functions differ
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
PGO = RUSTFLAGS="$$flags" CARGO_TARGET_DIR="$(CURDIR)/target/pgo"
.PHONY: pgo
pgo: $(STAMPS)/requirements | tools
	@flags=$$($(BIN)/python -m benches.pgo $(HOST)) && if [ -n "$$flags" ]; then \
		$(PGO) $(BIN)/maturin develop --release --target $(HOST) --quiet && touch $(STAMPS)/native; \
	else $(MAKE) --no-print-directory build; fi

# property tests draw the same examples each time, those of this seed
test: export PROPTEST_RNG_SEED ?= 1
# compiled modules are kept, though not beside the sources: tests start Python some hundred times
test test-slow test-all: export PYTHONDONTWRITEBYTECODE :=
test test-slow test-all: export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache
# processes of pytest
TEST_JOBS ?= 2
test: $(STAMPS)/native $(STAMPS)/dev
	@if $(HAS_WASM32); then $(MAKE) --no-print-directory wasm; \
	else rm -rf target/wasm; echo "Rust's standard library for $(WASM32) cannot be had: the module for web pages is not tested"; fi
	cargo test --workspace --quiet
	$(PYTEST) --numprocesses $(TEST_JOBS) --dist loadgroup
	@echo 'make test-slow runs the tests that are marked slow or timed, make test-all these and the long ones'

PYTEST = $(BIN)/python -m pytest --durations 10
.PHONY: test-slow
test-slow: $(STAMPS)/native $(STAMPS)/dev
	$(PYTEST) --numprocesses $(TEST_JOBS) --dist loadgroup -m slow --slow $(LONG)
	$(PYTEST) -m timed $(LONG) $$(grep -l 'mark\.timed' tests/test_*.py studies/*/test_*.py)

test-all: LONG := --long
test-all: test test-slow
	$(PYTEST) --numprocesses $(TEST_JOBS) --dist loadgroup -m 'long and not slow and not timed' --slow --long

SEARCH ?= 10
.PHONY: search
search: $(STAMPS)/native $(STAMPS)/dev
	cargo test --workspace --quiet --test '*_properties' --test link_traces --test traffic --test delays
	DUMBBELL_SEARCH=$(SEARCH) $(BIN)/python -m pytest --timeout 0 tests/test_junk.py tests/test_places.py tests/test_schema.py tests/test_check_traces.py

.PHONY: killed
killed: $(STAMPS)/native $(STAMPS)/dev
	DUMBBELL_KILLS=20 $(BIN)/python -m pytest tests/test_killed.py tests/test_shell.py

WASM32 := wasm32-unknown-unknown
HAS_WASM32 = { test -d "$$(rustc --print sysroot)/lib/rustlib/$(WASM32)" || rustup target add $(WASM32); }
# the tests' runs are short: what optimising the module costs is ten times what it saves them
WASM_ci := --config profile.ci.opt-level=0
.PHONY: wasm
wasm: | tools
	@$(HAS_WASM32) || { echo "make wasm needs Rust's standard library for $(WASM32)" >&2; exit 1; }
	cargo build --quiet --profile $(PROFILE) $(WASM_$(PROFILE)) -p dumbbell-wasm --target $(WASM32)
	@mkdir -p target/wasm
	@cp target/$(WASM32)/$(PROFILE)/dumbbell_wasm.wasm target/wasm/dumbbell.wasm
	@cp crates/dumbbell-wasm/js/dumbbell.js crates/dumbbell-wasm/js/package.json target/wasm/

FUZZ_SECONDS ?= 60
FUZZ_TARGETS := config aqm receiver_sender simulation frames link_trace net
CARGO_FUZZ := target/tools/bin/cargo-fuzz

# What is fuzzed has no unsafe code but prefetches: sanitizers would find nothing and cost a factor of ten.
fuzz: nightly $(CARGO_FUZZ)
	@status=0; for target in $(FUZZ_TARGETS); do \
		echo "$$target: $(FUZZ_SECONDS) s"; \
		PATH="$(CURDIR)/target/tools/bin:$$PATH" cargo +nightly fuzz run --sanitizer none $$target -- \
			-max_total_time=$(FUZZ_SECONDS) -max_len=2048 -len_control=0 -timeout=20 -print_final_stats=1 || status=1; \
	done; exit $$status

nightly: tools
	@cargo +nightly --version >/dev/null 2>&1 \
		|| { echo "make fuzz needs the nightly toolchain of Rust: rustup toolchain install nightly" >&2; exit 1; }

$(CARGO_FUZZ): | tools
	cargo install --quiet --root target/tools cargo-fuzz

# make -j 2 lint does both at once
.PHONY: lint-rust lint-python lint-scripts
lint: lint-rust lint-python lint-scripts

# libFuzzer itself is neither compiled nor linked by a check: its library need not be there
lint-rust: features
	rustfmt --check --edition 2021 $$(find crates benches fuzz/src fuzz/fuzz_targets -name '*.rs')
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	CUSTOM_LIBFUZZER_PATH=/unused/libFuzzer.a cargo check --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz-check

lint-python: $(STAMPS)/dev
	$(BIN)/ruff check --quiet python tests studies website benches conftest.py
	$(BIN)/ruff format --check --quiet python tests studies website benches conftest.py
	$(BIN)/mypy

# types of the scripts of pages, which TypeScript infers
TYPESCRIPT := 5.9.3
lint-scripts:
	@if ! command -v npm >/dev/null; then echo 'npm not found: the scripts of pages are not checked'; \
	elif [ -x target/tools/typescript/node_modules/.bin/tsc ] \
		|| npm install --silent --no-fund --no-audit --prefix target/tools/typescript typescript@$(TYPESCRIPT) >/dev/null; then \
		target/tools/typescript/node_modules/.bin/tsc -p jsconfig.json; \
	else echo 'typescript cannot be had: the scripts of pages are not checked'; fi

# versions are those of VERSIONS
VEGA := python/dumbbell/figures/vega
.PHONY: vega
vega:
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && while read -r name version file; do \
		(cd "$$folder" && npm pack --silent "$$name@$$version" && tar xzf "$$name-$$version.tgz") || exit 1; \
		cp "$$folder/package/$$file" $(VEGA)/ && cp "$$folder/package/LICENSE" "$(VEGA)/LICENSE-$$name" || exit 1; \
		rm -rf "$$folder/package"; \
	done < $(VEGA)/VERSIONS
	cd $(VEGA) && sha256sum *.js LICENSE-* > SHA256SUMS

# advisories, licences and sources of crates, by deny.toml; faults that are known of the pinned Python packages
CARGO_DENY := target/tools/bin/cargo-deny
.PHONY: audit lowest
audit: $(CARGO_DENY) $(STAMPS)/venv
	$(CARGO_DENY) --all-features check
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --requirement requirements.txt --no-deps

$(CARGO_DENY): | tools
	cargo install --quiet --locked --root target/tools cargo-deny

# an environment with the oldest versions that pyproject.toml allows, for make test
lowest: $(STAMPS)/venv
	$(BIN)/python -m pip install --quiet uv maturin
	$(BIN)/uv pip install --quiet --python $(BIN)/python --resolution lowest-direct -r pyproject.toml --all-extras
	@touch $(STAMPS)/requirements $(STAMPS)/dev

.PHONY: features stubs package
features: | tools
	@for features in '' config cake; do echo "dumbbell-core with the features: $${features:-none}"; \
		cargo clippy --quiet -p dumbbell-core --lib --no-default-features --features "$$features" -- -D warnings || exit 1; done

stubs: $(STAMPS)/native $(STAMPS)/dev
	MYPYPATH=python $(BIN)/python -m mypy.stubtest dumbbell._native --mypy-config-file pyproject.toml

# the crates build from each other's packages; nothing may be uncommitted
package: features stubs
	cargo package --quiet --workspace
	RUSTDOCFLAGS='-D warnings' cargo doc --quiet --workspace --no-deps
	@if cargo +$(OLDEST_RUST) --version >/dev/null 2>&1; then echo "cargo check with Rust $(OLDEST_RUST)"; \
		cargo +$(OLDEST_RUST) check --quiet --workspace --target-dir target/oldest-rust; \
	else echo "Rust $(OLDEST_RUST) is not there, so it is not checked: rustup toolchain install $(OLDEST_RUST) --profile minimal"; fi

# The name of the wheel says which glibc it needs: 2.17 with zig, which is installed if need be, otherwise one as new as this machine's.
ZIG := 0.15.2
wheel: $(STAMPS)/requirements | tools
	@rm -f target/wheels/dumbbell-*.whl
	@if [ "$$(uname -s)" != Linux ]; then zig=; \
	elif command -v zig >/dev/null || $(BIN)/python -c 'import ziglang' 2>/dev/null || $(BIN)/python -m pip install --quiet 'ziglang==$(ZIG)'; then \
		zig='--zig --compatibility manylinux2014'; \
	else zig=; echo 'zig not found: the wheel needs a glibc as new as here'; fi; \
	flags=$$($(BIN)/python -m benches.pgo $(HOST)) || exit 1; PATH="$(abspath $(BIN)):$$PATH"; \
	if [ -n "$$flags" ]; then $(PGO) maturin build --release --target $(HOST) --strip --out target/wheels $$zig; \
	else maturin build --release --strip --out target/wheels $$zig; fi

wheel-test: wheel
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && mkdir "$$folder/empty" \
		&& $(PYTHON) -m venv "$$folder/venv" \
		&& "$$folder/venv/bin/python" -m pip install --quiet --constraint requirements.txt target/wheels/dumbbell-*.whl \
		&& cd "$$folder/empty" && PATH="$$folder/venv/bin:$$PATH" && unset PYTHONPATH \
		&& dumbbell list experiments | grep sce/one-flow-reno-cubic \
		&& dumbbell run sce/one-flow-reno-cubic \
		&& dumbbell draft sce results.duckdb | grep '^## 5.1.1' \
		&& echo 'the wheel works in an empty folder'

# The sources as a package for pip, which builds them where Rust is. Nothing may be uncommitted that it is to have.
.PHONY: sdist
sdist: $(STAMPS)/requirements
	$(BIN)/maturin sdist --out target/wheels

# BENCH_HISTORY= keeps no history
BENCH_HISTORY := $(shell git describe --always --dirty 2>/dev/null)
bench: $(STAMPS)/native
	BENCH_HISTORY=$(BENCH_HISTORY) cargo bench --quiet -p dumbbell-sim --bench packets
	$(BIN)/python -m benches.where

.PHONY: where ladder steps bench-peers
where: $(STAMPS)/native
	$(BIN)/python -m benches.where

ladder: $(STAMPS)/native
	$(BIN)/python -m benches.ladder

steps: $(STAMPS)/native
	$(BIN)/python -m benches.steps $(CELLS)

bench-peers: $(STAMPS)/native
	$(BIN)/python -m benches.peers

# CASES="a f" are these alone
.PHONY: bench-pgo
bench-pgo: $(STAMPS)/venv
	@flags=$$($(BIN)/python -m benches.pgo $(HOST)) && \
		BENCH_HISTORY= RUSTFLAGS="$$flags" cargo bench --quiet -p dumbbell-sim --bench packets --target $(HOST) --target-dir target/pgo -- $(CASES)

# instructions per packet of three cases against those of benches/instructions.toml
.PHONY: guard guard-update
guard: $(STAMPS)/venv
	$(BIN)/python -m benches.guard

guard-update: $(STAMPS)/venv
	@$(BIN)/python -m benches.guard --update '$(subst ','\'',$(REASON))'

.PHONY: bench-sweep
# compiled modules are kept, as where dumbbell is installed
bench-sweep: export PYTHONDONTWRITEBYTECODE :=
bench-sweep: export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache
bench-sweep: build
	$(BIN)/python benches/sweep.py

# frames per second of the live engine by several ways to get at frames, against a bridge of the kernel's: 1 minute
.PHONY: bench-live
bench-live:
	cargo run --quiet --release -p dumbbell-live --example forward

clean:
	rm -rf $(VENV) target fuzz/target fuzz/corpus fuzz/artifacts demo.duckdb agree.duckdb live.duckdb check-bbr python/dumbbell/_native*.so

tools:
	@cargo --version >/dev/null 2>&1 || { echo "dumbbell needs Rust 1.85 or newer (https://rustup.rs): cargo not found" >&2; exit 1; }
	@cargo --version | awk '{ split($$2, v, "."); exit !(v[1] > 1 || v[2] >= 85) }' \
		|| { echo "dumbbell needs Rust 1.85 or newer, found: $$(cargo --version)" >&2; exit 1; }
	@test -n "$(PYTHON)" || { echo "dumbbell needs Python 3.11 or newer; PYTHON=/path/to/python3 names another" >&2; exit 1; }

$(STAMPS)/venv: | tools
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/requirements: requirements.txt $(STAMPS)/venv
	$(BIN)/python -m pip install --quiet $(UNCOMPILED) -r requirements.txt
	@touch $@

$(STAMPS)/dev: requirements-dev.txt $(STAMPS)/requirements
	$(BIN)/python -m pip install --quiet $(UNCOMPILED) -r requirements-dev.txt
	@touch $@

$(STAMPS)/site: requirements-docs.txt $(STAMPS)/requirements
	$(BIN)/python -m pip install --quiet $(UNCOMPILED) -r requirements-docs.txt
	@touch $@

$(STAMPS)/native: $(RUST_SOURCES) $(STAMPS)/requirements | tools
	$(BIN)/maturin develop --profile $(PROFILE) --quiet
	@touch $@
