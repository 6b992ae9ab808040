# make demo   set up .venv, build, run published experiments and print the results with the published ones
# make validation  what agrees with what: runs linux, sce and a closed form, writes docs/validation.md
# make agree  48 cells on the simulator and on Linux (dumbbell linux build comes first): writes docs/validation-engines.md
# make agree-live  30 cells on the simulator and on the real clock, 24 minutes: writes docs/validation-live.md
# make linux  every measured cell of real Linux against the simulator: writes docs/validation-linux.md
# make sce    every table of the SCE draft: runs its 1220 tests, writes sce.md, sce.csv and the errors as maps into sce/
# make sce-questions  what the draft leaves open: runs experiments/sce/findings-*, writes docs/findings/sce.md and its figures
# make abe    Alternative Backoff with ECN: runs experiments/abe, writes abe.md, the figures into abe/, and docs/findings/abe.md
# make l4s    DualPI2 as in its authors' reports: runs experiments/l4s, writes l4s.md, the figures into l4s/ and docs/findings/dualpi2-versions.md
# make l4s-questions  six questions about L4S: writes docs/findings/dualpi2.md and its figures
# make l4s-classic  Prague in a queue of RFC 3168: writes docs/findings/l4s-classic.md and its figures; dumbbell linux build comes first
# make csaqm  BBRv2 and DCTCP over STEP, PI2, CSAQM and tail drop: runs experiments/csaqm for hours, writes csaqm.md, all figures and csaqm/claims.md (which of the paper's claims hold), and docs/findings/coexistence.md with its figures
# make check-bbr  the test cases of the BBR draft for all versions: writes docs/findings/bbr-suite.md and its evidence, and figures of what failed into check-bbr/
# make bbr    BBR against others: runs experiments/bbr, writes docs/findings/bbr.md and its figures
# make bbr-traces  states of one BBR flow on Linux and in the simulator: writes docs/findings/bbr-traces.md and its figures
# make docs   the documentation site, in target/site: open target/site/index.html; nothing of it asks a network
# make docs-check  opens every page of that site in headless Chromium, wide and narrow: errors, requests, links, pictures, search
# make reference  every key of experiment files and every column of results: writes docs/reference.md, and docs/linux-keys.md
# make test   cargo test and pytest
# make search property tests with examples that make test does not draw, in Python SEARCH (10) times as many
# make fuzz   every fuzz target for FUZZ_SECONDS (60); needs the nightly toolchain of Rust
# make killed  kills 20 runs on each engine at random moments: nothing is left, and the sweep goes on
# make lint   rustfmt, clippy, ruff, mypy; do the fuzz targets compile
# make wheel  the package as a wheel in target/wheels, with experiments and references in it
# make wheel-test  installs that wheel in a fresh environment and runs its commands in an empty folder
# make bench  packets a second of the engine, appended to benches/history.csv
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
RUST_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name Cargo.toml)

.PHONY: demo agree agree-live validation linux sce sce-questions abe l4s l4s-questions l4s-classic csaqm bbr bbr-traces check-bbr reference docs build test fuzz lint wheel wheel-test bench clean tools nightly
.DELETE_ON_ERROR:

demo: build
	$(BIN)/dumbbell run experiments/sce/one-flow-reno-cubic.toml -o demo.duckdb
	@$(BIN)/dumbbell compare demo.duckdb references/sce.csv
	@printf '\n%s\n\n' 'The same runs against real Linux 6.12:'
	@$(BIN)/dumbbell compare demo.duckdb references/linux-6.12.csv --scores
	@printf '%s\n' '' 'The results are in demo.duckdb. Next, for example:' '' \
		'    source $(BIN)/activate' \
		'    dumbbell plot demo.duckdb --reference references/linux-6.12.csv -o errors.png    # where RTT differs from Linux' \
		'    dumbbell table demo.duckdb --rows bottleneck.rate --columns base_rtt --value rtt'

validation: build
	$(BIN)/dumbbell study run validation
	$(BIN)/dumbbell study page validation .

# every cell of real Linux against the simulator
linux: build
	$(BIN)/dumbbell study run validation
	$(BIN)/python -m studies.validation.rows linux.duckdb two.duckdb

sce: build
	$(BIN)/dumbbell run experiments/sce/one-flow.toml experiments/sce/two-flow.toml -o sce.duckdb
	@$(BIN)/dumbbell draft sce sce.duckdb --heat-maps sce > sce.md
	@$(BIN)/dumbbell draft sce sce.duckdb --csv > sce.csv
	@$(BIN)/dumbbell compare sce.duckdb references/sce.csv --scores

sce-questions: build
	$(BIN)/dumbbell study run sce
	$(BIN)/dumbbell study page sce .

abe: build
	$(BIN)/dumbbell study run abe
	@$(BIN)/dumbbell paper abe abe.duckdb -o abe > abe.md
	$(BIN)/dumbbell study page abe .

L4S := equal-rtt equal-rtt-web mixed-rtt overload counts alone
l4s: build
	$(BIN)/dumbbell run $(foreach kind,$(L4S),experiments/l4s/versions-$(kind).toml experiments/l4s/2021-$(kind).toml) -o l4s.duckdb
	@$(BIN)/dumbbell paper l4s l4s.duckdb -o l4s > l4s.md
	$(BIN)/dumbbell study run dualpi2_versions
	$(BIN)/dumbbell study page dualpi2_versions .

l4s-questions: build
	$(BIN)/dumbbell study run dualpi2
	$(BIN)/dumbbell study page dualpi2 .

# the cells of DCTCP need dumbbell linux build once
l4s-classic: build
	$(BIN)/dumbbell study run l4s_classic
	$(BIN)/dumbbell study page l4s_classic .

csaqm: build
	$(BIN)/dumbbell study run coexistence
	@$(BIN)/dumbbell paper csaqm csaqm.duckdb -o csaqm > csaqm.md
	@$(BIN)/dumbbell claims csaqm.duckdb --markdown > csaqm/claims.md
	$(BIN)/dumbbell study page coexistence .

agree: build
	$(BIN)/dumbbell run engines/agree -o agree.duckdb
	$(BIN)/dumbbell run engines/agree -o agree.duckdb --engine linux
	$(BIN)/python -m studies.validation.engines agree.duckdb

agree-live: build
	$(BIN)/dumbbell run engines/live -o live.duckdb
	$(BIN)/dumbbell run engines/live -o live.duckdb --engine live
	$(BIN)/python -m studies.validation.engines --live live.duckdb

check-bbr: build
	$(BIN)/python -m studies.bbr_suite.gather --figures check-bbr
	$(BIN)/dumbbell study page bbr-suite
bbr: build
	$(BIN)/dumbbell study run bbr
	$(BIN)/dumbbell study page bbr .

bbr-traces: build
	$(BIN)/dumbbell study run bbr-traces
	$(BIN)/dumbbell study page bbr-traces .

reference: build
	$(BIN)/dumbbell describe --all > docs/reference.md
	$(BIN)/dumbbell linux keys > docs/linux-keys.md

docs: $(STAMPS)/native $(STAMPS)/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo 'the site is in target/site/index.html'

.PHONY: docs-check
docs-check: docs
	$(BIN)/python -m website.browser

build: $(STAMPS)/native

# property tests draw the same examples each time, those of this seed
test: export PROPTEST_RNG_SEED ?= 1
test: $(STAMPS)/native $(STAMPS)/dev
	cargo test --workspace --quiet
	$(BIN)/python -m pytest

SEARCH ?= 10
.PHONY: search
search: $(STAMPS)/native $(STAMPS)/dev
	cargo test --workspace --quiet --test '*_properties' --test link_traces --test traffic --test delays
	DUMBBELL_SEARCH=$(SEARCH) $(BIN)/python -m pytest --timeout 0 tests/test_junk.py tests/test_places.py tests/test_schema.py tests/test_check_traces.py

.PHONY: killed
killed: $(STAMPS)/native $(STAMPS)/dev
	DUMBBELL_KILLS=20 $(BIN)/python -m pytest tests/test_killed.py tests/test_shell.py

FUZZ_SECONDS ?= 60
FUZZ_TARGETS := config aqm receiver_sender simulation
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

lint: $(STAMPS)/dev
	rustfmt --check --edition 2021 $$(find crates benches fuzz/src fuzz/fuzz_targets -name '*.rs')
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	@if command -v c++ >/dev/null; then echo "cargo check of the fuzz targets"; \
		cargo check --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz-check; \
	else echo "no C++ compiler, which libFuzzer needs: the fuzz targets are not checked"; fi
	$(BIN)/ruff check --quiet python tests studies website
	$(BIN)/ruff format --check --quiet python tests studies website
	$(BIN)/mypy

# The name of the wheel says which glibc it needs: 2.17 if zig is there (pip install ziglang), otherwise one as new as this machine's.
wheel: $(STAMPS)/requirements | tools
	@rm -f target/wheels/dumbbell-*.whl
	@if command -v zig >/dev/null || $(BIN)/python -c 'import ziglang' 2>/dev/null; then zig='--zig --compatibility manylinux2014'; \
	else zig=; echo 'zig not found: the wheel needs a glibc as new as here'; fi; \
	PATH="$(abspath $(BIN)):$$PATH" maturin build --release --strip --out target/wheels $$zig

wheel-test: wheel
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && mkdir "$$folder/empty" \
		&& $(PYTHON) -m venv "$$folder/venv" \
		&& "$$folder/venv/bin/python" -m pip install --quiet --constraint requirements.txt target/wheels/dumbbell-*.whl \
		&& cd "$$folder/empty" && PATH="$$folder/venv/bin:$$PATH" && unset PYTHONPATH \
		&& dumbbell list experiments | grep sce/one-flow-reno-cubic \
		&& dumbbell run sce/one-flow-reno-cubic \
		&& dumbbell draft sce results.duckdb | grep '^## 5.1.1' \
		&& echo 'the wheel works in an empty folder'

# BENCH_HISTORY= keeps no history
BENCH_HISTORY := $(shell git describe --always --dirty 2>/dev/null)
bench:
	BENCH_HISTORY=$(BENCH_HISTORY) cargo bench --quiet -p dumbbell-sim --bench packets

# frames per second of the live engine by several ways to get at frames, against a bridge of the kernel's: 1 minute
.PHONY: bench-live
bench-live:
	cargo run --quiet --release -p dumbbell-live --example forward

clean:
	rm -rf $(VENV) target fuzz/target fuzz/corpus fuzz/artifacts demo.duckdb agree.duckdb live.duckdb linux.duckdb two.duckdb linux-l4s.duckdb linux-bbr.duckdb sce.duckdb sce-questions.duckdb sce.md sce.csv sce abe.duckdb abe-beta.duckdb abe-prr.duckdb abe-unpaced.duckdb \
		abe.md abe l4s.duckdb l4s-versions.duckdb l4s.md l4s l4s-questions.duckdb l4s-classic.duckdb l4s-classic-linux.duckdb csaqm.duckdb csaqm-questions.duckdb csaqm.md csaqm bbr.duckdb bbr-traces.duckdb check-bbr python/dumbbell/_native*.so

tools:
	@cargo --version >/dev/null 2>&1 || { echo "dumbbell needs Rust 1.85 or newer (https://rustup.rs): cargo not found" >&2; exit 1; }
	@cargo --version | awk '{ split($$2, v, "."); exit !(v[1] > 1 || v[2] >= 85) }' \
		|| { echo "dumbbell needs Rust 1.85 or newer, found: $$(cargo --version)" >&2; exit 1; }
	@test -n "$(PYTHON)" || { echo "dumbbell needs Python 3.11 or newer; PYTHON=/path/to/python3 names another" >&2; exit 1; }

$(STAMPS)/venv: | tools
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/requirements: requirements.txt $(STAMPS)/venv
	$(BIN)/python -m pip install --quiet -r requirements.txt
	@touch $@

$(STAMPS)/dev: requirements-dev.txt $(STAMPS)/requirements
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	@touch $@

$(STAMPS)/site: requirements-docs.txt $(STAMPS)/requirements
	$(BIN)/python -m pip install --quiet -r requirements-docs.txt
	@touch $@

$(STAMPS)/native: $(RUST_SOURCES) $(STAMPS)/requirements | tools
	$(BIN)/maturin develop --release --quiet
	@touch $@
