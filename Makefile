# make demo   sets up .venv, builds, runs published experiments, and prints the results next to the published ones
# make check-bbr  runs the test cases of the BBR draft for all versions (study bbr-suite), and draws failed cases in check-bbr/
# make agree  runs 48 cells on the simulator and on Linux (after dumbbell linux build), and writes docs/validation-engines.md
# make agree-apps  runs 75 cells with applications on the simulator and on Linux (after dumbbell linux build), and writes docs/validation-apps.md
# make agree-live  runs 30 cells on the simulator and on the real clock in 24 minutes, and writes docs/validation-live.md
# make agree-stacks  runs 15 cells of a QUIC stack in virtual time and over real UDP in 8 minutes (after dumbbell stack build quinn), and writes
#             docs/validation-stacks.md
# make agree-evaluations  runs what others published of evaluations again, in a minute, and writes docs/validation-evaluations.md
# make docs   builds the documentation site: open target/site/index.html; it needs no network
# make reference  writes docs/reference: every key of an experiment file and every column of the results
# make man    writes a manual page for each command into target/man
# make docs-check  opens every page of that site in headless Chromium, wide and narrow, and checks errors, requests, links, pictures and search
# make test   runs cargo test and the quick tests of pytest, and names the slowest ten
# make test-slow  runs the tests of pytest that take more than 0.7 s, then those that assert times, one by one
# make test-all  runs make test, make test-slow and the tests that are marked long
# make debug  builds an unoptimised extension for development: it compiles in seconds and runs several times slower; make build undoes it
# make search runs property tests with examples that make test does not draw, in Python SEARCH (10) times as many
# make fuzz   runs every fuzz target for FUZZ_SECONDS (60); needs the nightly toolchain of Rust
# make modes  compares the ways in which the engine can compute a run, over 10,000 random configurations each
# make killed  kills 20 runs per engine at random moments, and checks that nothing is left behind and that the sweep resumes
# make lint   runs rustfmt, clippy, ruff, mypy and tsc, and compiles the fuzz targets
# make audit  looks up known vulnerabilities of the crates and packages that dumbbell needs, and checks their licences; needs the network
# make lowest  installs the oldest versions of packages that dumbbell allows; make test then runs with them
# make features  checks the crate dumbbell-core without its features
# make wasm   builds the simulator for web pages in target/wasm
# make play   builds the page of the playground, python/dumbbell/play/built/play.html, with the simulator of make wasm; it needs npm
# make bench-play  measures sizes, frame times and memory of the playground in headless Chromium
# make vega   renews the libraries for charts in pages from the npm registry: python/dumbbell/figures/vega
# make package  checks what publishing needs: crates that build from their packages, documentation without warnings, features, stubs, oldest Rust
# make pgo    builds the extension by a profile of training runs in 6 minutes: it is faster, with the same results
# make wheel  builds the package as a wheel in target/wheels, with experiments and references, by a profile where llvm-profdata is available
# make sdist  builds the source package for pip in target/wheels
# make wheel-test  installs that wheel in a fresh environment and runs its commands in an empty folder
# make bench-sweep  times 10,000 short runs through dumbbell run against the simulations alone
# make bench-simulate  times dumbbell.simulate and dumbbell.simulate_many against their simulations alone, and steps of agents, in a minute
# make bench  measures packets per second of the engine, appends them to benches/history.csv, and writes where the time goes to docs/speed.md
# make where  does the second part of make bench alone
# make ladder  measures time per packet from 1 flow to 100,000 and from 1 Mbit/s to 1 Tbit/s in 10 minutes, for docs/speed.md
# make steps  counts instructions per packet at both ends of each large step of the ladder, for docs/speed.md: missing cells, 1 minute each, and those of
#             CELLS="cake,bbr2,1000" again
# make bench-peers  runs the same dumbbells on ns-3, and on csg-htsim with CSG_HTSIM=DIR of its sources, for docs/peers.md
# make bench-pgo  measures packets per second built by a profile, as wheels are, and keeps no history
# make guard  fails if a packet of three cases takes over 2 % more instructions than committed; needs valgrind and 1 to 2 minutes
# make guard-update REASON="…"  records the present instructions after an intended change
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
# sources of the extension: a changed test does not rebuild it
RUST_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates \( -name tests -o -name examples -o -name benches \) -prune \
	-o \( -name '*.rs' ! -name tests.rs -o -name Cargo.toml \) -print)
# a profile of Cargo.toml. .ci/run uses ci, which has the same results: release takes two and a half minutes, half of them on one core
PROFILE ?= release
# with ci, Python compiles modules when they are imported: most never are
UNCOMPILED := $(if $(filter ci,$(PROFILE)),--no-compile)

.PHONY: demo agree agree-apps agree-live agree-stacks agree-evaluations check-bbr docs build debug test test-all fuzz lint wheel wheel-test bench clean tools nightly
.DELETE_ON_ERROR:

demo: build
	$(BIN)/dumbbell run sce/one-flow-reno-cubic -o demo.duckdb
	@$(BIN)/dumbbell validate demo.duckdb sce
	@printf '\n%s\n\n' 'The same runs against real Linux 6.12:'
	@$(BIN)/dumbbell validate demo.duckdb linux-6.12 --scores
	@printf '%s\n' '' 'The results are in demo.duckdb. Next, for example:' '' \
		'    source $(BIN)/activate' \
		'    dumbbell plot demo.duckdb --reference linux-6.12 -o errors.png    # where RTT differs from Linux' \
		'    dumbbell table demo.duckdb --rows bottleneck.rate --columns base_rtt --value rtt'

agree: build
	$(BIN)/dumbbell run validation/agree -o agree.duckdb
	$(BIN)/dumbbell run validation/agree -o agree.duckdb --engine linux
	$(BIN)/python -m studies.validation.engines agree.duckdb

agree-apps: build
	$(BIN)/dumbbell run validation/apps -o agree-apps.duckdb
	$(BIN)/dumbbell run validation/apps-more -o agree-apps.duckdb
	$(BIN)/dumbbell run validation/apps -o agree-apps.duckdb --engine linux
	$(BIN)/dumbbell run validation/apps-more -o agree-apps.duckdb --engine linux
	$(BIN)/python -m studies.validation.apps_page agree-apps.duckdb

agree-live: build
	$(BIN)/dumbbell run validation/live -o live.duckdb
	$(BIN)/dumbbell run validation/live -o live.duckdb --engine live
	$(BIN)/python -m studies.validation.engines --live live.duckdb

agree-stacks: build
	$(BIN)/python -m studies.validation.stacks

agree-evaluations: build
	$(BIN)/python -m studies.validation.evaluations

check-bbr: build
	$(BIN)/python -m studies.bbr_suite.gather --figures check-bbr
	$(BIN)/dumbbell study page bbr-suite

docs: $(STAMPS)/native $(STAMPS)/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo 'the site is in target/site/index.html'

.PHONY: docs-check man reference
reference: $(STAMPS)/native
	$(BIN)/python -m website.reference_pages

man: $(STAMPS)/native
	$(BIN)/python -m website.man target/man
	@echo 'man -l target/man/dumbbell.1 shows the first manual page'

docs-check: docs
	$(BIN)/python -m website.browser

build: $(STAMPS)/native

debug: $(STAMPS)/requirements | tools
	@rm -f $(STAMPS)/native
	$(BIN)/maturin develop --profile quick --quiet

# flags of a build by a profile: training and use name the same target, or else names of functions differ
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
PGO = RUSTFLAGS="$$flags" CARGO_TARGET_DIR="$(CURDIR)/target/pgo"
.PHONY: pgo
pgo: $(STAMPS)/requirements | tools
	@flags=$$($(BIN)/python -m benches.pgo $(HOST)) && if [ -n "$$flags" ]; then \
		$(PGO) $(BIN)/maturin develop --release --target $(HOST) --quiet && touch $(STAMPS)/native; \
	else $(MAKE) --no-print-directory build; fi

# property tests draw the examples of this seed each time
test: export PROPTEST_RNG_SEED ?= 1
# Python keeps compiled modules outside the sources: tests start it some hundred times
test test-slow test-all: export PYTHONDONTWRITEBYTECODE :=
test test-slow test-all: export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache
# processes of pytest
TEST_JOBS ?= 2
test: $(STAMPS)/native $(STAMPS)/dev
	@if ! $(HAS_WASM32); then rm -rf target/wasm $(PLAY); \
		echo "Rust's standard library for $(WASM32) cannot be had: the module for web pages is not tested"; \
	elif command -v npm >/dev/null && $(MAKE) --no-print-directory $(STAMPS)/packages; then $(MAKE) --no-print-directory play; \
	else rm -rf $(PLAY); $(MAKE) --no-print-directory wasm; echo 'packages of npm cannot be had: the playground is not tested'; fi
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
	DUMBBELL_SEARCH=$(SEARCH) $(BIN)/python -m pytest --timeout 0 tests/test_junk.py tests/test_places.py tests/test_schema.py tests/test_judged_traces.py

.PHONY: modes
modes:
	DUMBBELL_CASES=10000 cargo test --quiet --profile ci -p dumbbell-sim --test ahead --test threads

.PHONY: killed
killed: $(STAMPS)/native $(STAMPS)/dev
	DUMBBELL_KILLS=20 $(BIN)/python -m pytest tests/test_killed.py tests/test_shell.py

WASM32 := wasm32-unknown-unknown
HAS_WASM32 = { test -d "$$(rustc --print sysroot)/lib/rustlib/$(WASM32)" || rustup target add $(WASM32); }
# the tests' runs are short: optimising the module costs ten times what it saves
WASM_ci := --config profile.ci.opt-level=0
# pages load it: small comes before fast
WASM_release := --config 'profile.release.opt-level="z"' --config profile.release.strip=true
# compressed, the module is a fourteenth smaller then
ARRANGE_release := if command -v node >/dev/null; then node crates/dumbbell-wasm/arrange.mjs target/wasm/dumbbell.wasm; fi
.PHONY: wasm
wasm: | tools
	@$(HAS_WASM32) || { echo "make wasm needs Rust's standard library for $(WASM32)" >&2; exit 1; }
	cargo build --quiet --profile $(PROFILE) $(WASM_$(PROFILE)) -p dumbbell-wasm --target $(WASM32)
	@mkdir -p target/wasm
	@cp target/$(WASM32)/$(PROFILE)/dumbbell_wasm.wasm target/wasm/dumbbell.wasm
	@$(ARRANGE_$(PROFILE))
	@cp crates/dumbbell-wasm/js/dumbbell.js crates/dumbbell-wasm/js/package.json target/wasm/

# a page that others load is worth half a minute
SMALL_release := --small
.PHONY: play
PLAY := python/dumbbell/play/built/play.html
play: $(STAMPS)/packages wasm
	node web/play/build.mjs target/wasm/dumbbell.wasm $(PLAY) $(SMALL_$(PROFILE))

FUZZ_SECONDS ?= 60
FUZZ_TARGETS := config aqm receiver_sender simulation frames link_trace net
CARGO_FUZZ := target/tools/bin/cargo-fuzz

# The fuzzed code has no unsafe code except for prefetches: sanitizers would find nothing and cost a factor of ten.
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

# TypeScript infers the types of the scripts of pages; the playground declares its own
lint-scripts:
	@if ! command -v npm >/dev/null; then echo 'npm not found: the scripts of pages are not checked'; \
	elif $(MAKE) --no-print-directory $(STAMPS)/packages; then \
		web/play/node_modules/.bin/tsc -p jsconfig.json && web/play/node_modules/.bin/tsc --noEmit -p web/play/tsconfig.json; \
	else echo 'packages of npm cannot be had: the scripts of pages are not checked'; fi

# the file VERSIONS names the versions
VEGA := python/dumbbell/figures/vega
.PHONY: vega
vega:
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && while read -r name version file; do \
		(cd "$$folder" && npm pack --silent "$$name@$$version" && tar xzf "$$name-$$version.tgz") || exit 1; \
		cp "$$folder/package/$$file" $(VEGA)/ && cp "$$folder/package/LICENSE" "$(VEGA)/LICENSE-$$name" || exit 1; \
		rm -rf "$$folder/package"; \
	done < $(VEGA)/VERSIONS
	cd $(VEGA) && sha256sum *.js LICENSE-* > SHA256SUMS

# deny.toml configures advisories, licences and sources of crates; pip-audit looks up the pinned Python packages
CARGO_DENY := target/tools/bin/cargo-deny
.PHONY: audit lowest
audit: $(CARGO_DENY) $(STAMPS)/venv
	$(CARGO_DENY) --all-features check
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --requirement requirements.txt --no-deps

$(CARGO_DENY): | tools
	cargo install --quiet --locked --root target/tools cargo-deny

# pyproject.toml names the oldest versions
lowest: $(STAMPS)/venv
	$(BIN)/python -m pip install --quiet uv maturin
	$(BIN)/uv pip install --quiet --python $(BIN)/python --resolution lowest-direct -r pyproject.toml --all-extras
	@touch $(STAMPS)/requirements $(STAMPS)/dev

.PHONY: features stubs package
features: | tools
	cargo clippy --quiet -p dumbbell-core --lib --no-default-features -- -D warnings

stubs: $(STAMPS)/native $(STAMPS)/dev
	MYPYPATH=python $(BIN)/python -m mypy.stubtest dumbbell._native --mypy-config-file pyproject.toml

# the crates build from each other's packages; all changes must be committed
package: features stubs
	cargo package --quiet --workspace
	RUSTDOCFLAGS='-D warnings' cargo doc --quiet --workspace --no-deps
	@if cargo +$(OLDEST_RUST) --version >/dev/null 2>&1; then echo "cargo check with Rust $(OLDEST_RUST)"; \
		cargo +$(OLDEST_RUST) check --quiet --workspace --target-dir target/oldest-rust; \
	else echo "Rust $(OLDEST_RUST) is not there, so it is not checked: rustup toolchain install $(OLDEST_RUST) --profile minimal"; fi

# The name of the wheel contains the glibc that it needs: 2.17 with zig, which is installed if necessary, otherwise that of this machine.
ZIG := 0.15.2
wheel: $(STAMPS)/requirements play | tools
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
		&& dumbbell study tables sce results.duckdb | grep '^## 5.1.1' \
		&& dumbbell play sce/one-flow --cell 1 -o play.html && grep -c 'id="module"' play.html \
		&& echo 'the wheel works in an empty folder'

# pip builds the source package where Rust is installed. All files in it must be committed.
.PHONY: sdist
sdist: $(STAMPS)/requirements play
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

# compares instructions per packet of three cases with benches/instructions.toml
.PHONY: guard guard-update
guard: $(STAMPS)/venv
	$(BIN)/python -m benches.guard

guard-update: $(STAMPS)/venv
	@$(BIN)/python -m benches.guard --update '$(subst ','\'',$(REASON))'

.PHONY: bench-sweep
# Python keeps compiled modules, as in an installed dumbbell
bench-sweep: export PYTHONDONTWRITEBYTECODE :=
bench-sweep: export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache
bench-sweep: build
	$(BIN)/python benches/sweep.py

.PHONY: bench-play
bench-play: $(STAMPS)/native play
	$(BIN)/python -m benches.playground

.PHONY: bench-simulate
bench-simulate: export PYTHONDONTWRITEBYTECODE :=
bench-simulate: export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache
bench-simulate: build
	$(BIN)/python -m benches.simulate

# measures frames per second of the live engine by several ways to receive frames, against a bridge of the kernel, in 1 minute
.PHONY: bench-live
bench-live:
	cargo run --quiet --release -p dumbbell-live --example forward

clean:
	rm -rf $(VENV) target fuzz/target fuzz/corpus fuzz/artifacts demo.duckdb agree.duckdb agree-apps.duckdb live.duckdb check-bbr python/dumbbell/_native*.so

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

# web/play/package-lock.json pins the packages of npm that build the playground
$(STAMPS)/packages: web/play/package.json web/play/package-lock.json
	@command -v npm >/dev/null || { echo 'the playground needs npm (https://nodejs.org): npm not found' >&2; exit 1; }
	npm --prefix web/play ci --silent
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/native: $(RUST_SOURCES) $(STAMPS)/requirements | tools
	$(BIN)/maturin develop --profile $(PROFILE) --quiet
	@touch $@
