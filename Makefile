# Two commands do everything: `make demo` (a real measurement with a report to open)
# and `make test`. Both set up what is missing, into .venv in this folder.

# Steps of tests/parts.py: what measures nothing is made at the same time, once everything is compiled.
TEST := build-tests test-unit,lint+test-rust test-bench
TEST_ALL := $(TEST) test-bench-rest test-debian,test-kernel+test-thorough+bench-tools smoke
BENCHMARKS := bench-engine bench-build bench-turnover bench-search bench-referee bench-compare bench-truth bench-causes bench-exhaustion bench-balancers bench-watch bench-serve bench-campaign

.PHONY: demo docs wheel sentences test test-all build-tests test-rust test-unit test-thorough test-bench test-bench-rest test-kernel test-arm test-nics test-debian setup-bookworm setup-trixie demo-bookworm demo-trixie test-hosts test-guests test-comparisons test-studies test-causes test-interrupts test-campaign test-vdpa lint fmt setup develop clean help manual fuzz profile-engine bench-tools bench smoke $(BENCHMARKS)
.DEFAULT_GOAL := help

# Where it is set, every command of every test would compile the lab anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
CARGO_RELEASE := cargo build --quiet --release --locked --manifest-path engine/Cargo.toml
DEBIAN := .venv/debian
ENGINE_SOURCES := $(shell find engine -name target -prune -o -type f -print)

help:
	@echo "make demo    measure a real Open vSwitch and write a report (as root)"
	@echo "make test    lint, Rust, unit and browser tests, the essential tests with real daemons (as root)"
	@echo "make test-all        all of make test, all other tests with real daemons, smoke rounds (as root)"
	@echo "make test-nics  measure a real Open vSwitch between emulated NICs, by ssh and on the spot (as root, 15 minutes)"
	@echo "make docs    build the documentation site into site/"
	@echo "make wheel   build dist/*.whl in a bare Debian 12, for other systems too (as root, 5 minutes)"
	@echo "make bench-engine    compare the engine with its peers, in one table (as root, 10 minutes)"
	@echo "make bench-balancers compare connections a second of real balancers with wrk (as root, 15 minutes)"
	@echo "make bench-build     compare the creation of rules, ports and veth pairs with plain commands (as root, 30 minutes)"
	@echo "make bench-causes    plant causes in real devices; which does the lab name first (as root, 25 minutes)"
	@echo "make bench-compare   count false alarms of A against A, and how often a small change is found (as root, 20 minutes)"
	@echo "make bench-exhaustion  exhaust a resource of real balancers; does the lab name it (as root, 20 minutes)"
	@echo "make bench-referee   hold published NDRs of a real switch against trials that no search sees (as root, 40 minutes)"
	@echo "make bench-search    check searches for NDR and PDR on simulated devices of known rates (40 minutes)"
	@echo "make bench-serve     time the pages of pinchpoint serve over 1,000 runs (2 minutes)"
	@echo "make bench-campaign  schedule 100,000 points on 1,000 simulated machines that fail (no root, 1 minute)"
	@echo "make test-campaign   measure 60 points on a Ray cluster of four nodes, two of which are killed (as root, 5 minutes)"
	@echo "make bench-turnover  build 200 benches in a row; none may fail for lack of hugepages (as root, 12 minutes)"
	@echo "make test-debian  measure a real Open vSwitch in a bare Debian 12 and in a bare 13, from nothing (as root, 20 minutes)"
	@echo "make test-hosts      benches and campaigns over hosts by ssh that are killed and cut, 200 times at random (as root, 30 minutes)"
	@echo "make test-guests     kernels of guests under qemu, and what is left of killed ones (as root, 6 minutes)"
	@echo "make test-comparisons  comparisons at once that are killed at every step (as root, 5 minutes)"
	@echo "make test-studies    studies that take minutes each, step by step (as root, 5 minutes)"
	@echo "make smoke           run one short round of every benchmark (as root, 2 minutes)"
	@echo "make bench-watch     measure what a loaded switch loses to being watched (as root, 4 minutes)"
	@echo "make bench           run bench-engine and bench-build, and measure the lab's own time per trial"
	@echo "make profile-engine  profile the engine's core (as root)"
	@echo "make fuzz    fuzz the engine's parsers, FUZZ_SECONDS (60) each"
	@echo "make sentences  write every sentence that the lab can print into sentences.txt"
	@echo "make lint    formatters, clippy, ruff, strict types"
	@echo "make fmt     format everything"
	@echo "make clean   remove build outputs; run folders stay"

setup: .venv/.packages .venv/.installed .venv/lib/pinchpoint/uml-ptrace.so

# For tests, checks, benchmarks and documentation; 1.3 GB more than what measures.
develop: setup .venv/.development

demo: setup
	$(BIN)/pinchpoint run studies/quickstart
	@echo "pinchpoint is on your PATH after: . $(BIN)/activate"

# Each part is a target of its own; the times are printed at the end, and what was skipped.
test: setup .venv/.test-packages
	@tests/parts.py $(TEST)

test-all: setup .venv/.test-packages
	@BENCH=--smoke tests/parts.py $(TEST_ALL)

build-tests: develop
	cargo test --quiet --no-run --manifest-path engine/Cargo.toml --features dpdk

test-rust: develop
	cargo test --quiet --manifest-path engine/Cargo.toml --features dpdk
	packaging/with-hugepages 256 cargo test --quiet --manifest-path engine/Cargo.toml --features dpdk -- --ignored --test-threads=1

test-unit: setup .venv/.test-packages
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder -m "not thorough" tests/browser tests/unit

test-thorough: setup .venv/.test-packages
	$(BIN)/pytest -n auto -m thorough tests/browser tests/unit

test-bench: setup .venv/.test-packages
	$(BIN)/pytest -m tier1 tests/bench

test-bench-rest: setup .venv/.test-packages
	$(BIN)/pytest -m "not tier1 and not subject" tests/bench

# What `make test-all` has no time for; each is run when its subject changes, and prints what it is about.
test-guests test-comparisons test-studies test-causes test-interrupts: setup .venv/.test-packages
	$(BIN)/pytest -m "subject(target='$@')" tests/bench

test-kernel: setup .venv/.test-packages
	packaging/in-user-mode-linux --limit 600 $(CURDIR)/$(BIN)/pytest tests/kernel

# The engine on Arm, without DPDK: tests of the pure crates under qemu's user mode, and a stream through memory.
ARM := aarch64-unknown-linux-gnu
ON_ARM := --quiet --locked --manifest-path engine/Cargo.toml --target $(ARM)
test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER := qemu-aarch64-static -L /usr/aarch64-linux-gnu
test-arm:
	@packaging/install-packages arm
	rustup target add $(ARM)
	cargo test $(ON_ARM) $(addprefix --package pinchpoint-,wire traffic import workload)
	cargo run $(ON_ARM) --package pinchpoint-engine -- send --from mem:a --to mem:a --rate 1k --time 1s

# Each is a virtual machine of its own, emulated where KVM cannot be used.
test-nics: setup .venv/.test-packages
	$(BIN)/pytest tests/nics

# The set-up and the demo where there is nothing but git and make. Both are set up at the same time: a linker has one CPU.
test-debian: .venv/.test-packages
	@rm -rf $(DEBIAN)
	@tests/parts.py setup-bookworm,setup-trixie demo-bookworm demo-trixie
	@rm -rf $(DEBIAN)

setup-bookworm setup-trixie: setup-%:
	@timeout --kill-after=60 1500 packaging/in-debian --keep $(DEBIAN)/$* $* make setup

demo-bookworm demo-trixie: demo-%:
	@timeout --kill-after=60 300 packaging/in-debian --keep $(DEBIAN)/$* $* make demo

# As root. FAULTS: --faults N, --hosts N, --seed N. Fails where something is left, or a finished trial is lost or made
# twice. tests/bench has a short round.
test-hosts: setup .venv/.test-packages
	$(BIN)/pytest -m "subject(target='$@')" tests/bench
	@$(BIN)/python tests/bench/host_faults.py $(FAULTS)

# Nodes are network namespaces of this machine. `make test-all` has the short form: two nodes, one of which is killed.
# Here as well: a head that dies, and a node whose actor cannot live.
test-campaign: develop
	$(BIN)/pytest -s tests/cluster

# Checks that every benchmark still runs; only the output of a failed one is shown.
smoke: develop
	@for name in $(BENCHMARKS); do \
		$(MAKE) --no-print-directory $$name BENCH=--smoke >.venv/smoke.log 2>&1 || \
			{ cat .venv/smoke.log; echo "make $$name BENCH=--smoke failed" >&2; exit 1; }; \
	done

# The notice that it turns off is on MkDocs 2, which this project does not use.
docs: develop
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "site/index.html"

# The oldest of the systems that it is for has the oldest glibc.
wheel:
	@packaging/in-debian --keep $(DEBIAN)/wheel bookworm packaging/build-wheel dist
	@mkdir -p dist && cp $(DEBIAN)/wheel/root/pinchpoint/dist/*.whl dist/
	@rm -rf $(DEBIAN)/wheel

# To be read aloud, and compared with what was printed before.
sentences:
	@python3 packaging/reference/sentences.py sentences.txt

# What the wheel installs in share/: man pages and completion scripts, from the commands.
manual: develop
	$(BIN)/python packaging/reference/manual.py packaging/wheel/data/share

lint: develop
	cargo fmt --manifest-path engine/Cargo.toml --all --check
	cargo clippy --quiet --manifest-path engine/Cargo.toml --all-targets --features dpdk -- -D warnings
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

fmt:
	cargo fmt --manifest-path engine/Cargo.toml --all
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Every benchmark takes BENCH=--smoke: one short round of each row; a missing peer is then no failure.
# BENCH takes options of the table: --only WORDS, --rounds N, --json.
bench: bench-tools
	@$(BIN)/python benchmarks/run.py $(BENCH)

# Also --scale SHARE, of the numbers that are built.
bench-build: bench-tools
	@$(BIN)/python benchmarks/build_rows.py $(BENCH)

# BENCH takes --comparisons N, --changed N, --benches N, --more ACTIONS, --json.
bench-compare: develop
	@$(BIN)/python benchmarks/compare_rows.py $(BENCH)
# BENCH: --runs N, --scenario FILE, --json. Fails where an aim is missed.
bench-referee: develop
	@$(BIN)/python benchmarks/referee_rows.py $(BENCH)

# BENCH: --benches N, --scenario FILE, --json.
bench-turnover: develop
	@$(BIN)/python benchmarks/turnover_rows.py $(BENCH)

# BENCH: --seconds S, --json. Fails where a published rate is more than 1 % off.
bench-truth: develop
	@$(BIN)/python benchmarks/truth_rows.py $(BENCH)

# BENCH: --rounds N, --only WORDS, --confirm, --traffic SECONDS, --json. Fails where a planted cause is not first.
bench-causes: develop
	@$(BIN)/python benchmarks/cause_rows.py $(BENCH)

# BENCH: --rounds N, --seed N, --only WORDS, --traffic SECONDS, --json. Fails where fewer than 19 of 20 are named.
bench-exhaustion: develop
	@$(BIN)/python benchmarks/exhaustion_rows.py $(BENCH)

# BENCH takes options of the table: --only WORDS, --rounds N, --json.
bench-balancers: develop $(if $(findstring --smoke,$(BENCH)),,.venv/.bench-packages)
	@$(BIN)/python benchmarks/balancer_rows.py $(BENCH)

# BENCH: --pairs N, --scenario FILE, --json.
bench-watch: develop
	@$(BIN)/python benchmarks/watch_rows.py $(BENCH)

# No root and no network. BENCH: --units N, --machines N, --json. Fails where an aim is missed.
bench-campaign: develop
	@$(BIN)/python benchmarks/campaign_rows.py $(BENCH)

# No root and no network. BENCH: --runs N, --json. Fails where a page takes longer than it should.
bench-serve: develop
	@$(BIN)/python benchmarks/serve_rows.py $(BENCH)

bench-engine: bench-tools
	@$(BIN)/python benchmarks/engine_rows.py $(BENCH)

# No root and no network: BENCH takes --seeds N, --only WORDS, --method NAME, --json. Fails where an aim is missed.
bench-search: develop
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/search_rows.py $(BENCH)

# The wheel's engine has no symbols; cargo puts the one that has them back, without building it anew.
profile-engine: bench-tools
	@$(CARGO_RELEASE) --features dpdk --package pinchpoint-engine
	@$(BIN)/python benchmarks/engine_profile.py

bench-tools: develop $(if $(findstring --smoke,$(BENCH)),,.venv/.bench-packages)
	@$(CARGO_RELEASE) --package pinchpoint-port --example drop_sink
	@$(CARGO_RELEASE) --package pinchpoint-traffic --example account
	@test ! -d engine/sockets || $(CARGO_RELEASE) --package pinchpoint-sockets --example rr

# The engine on /dev/vhost-vdpa-N in a guest under qemu: fetches a kernel and its source once, 250 MB.
test-vdpa: setup .venv/.test-packages
	@packaging/guest-kernel --release 6.12
	@packaging/vdpa-sim
	$(BIN)/pytest -q tests/bench/test_vdpa.py

fuzz: .venv/.packages
	@packaging/check-rust
	engine/fuzz/run

clean:
	rm -rf .venv engine/target

# Each stamp is a finished step; the scripts say what they install before they do.
.venv/.packages: packaging/install-packages
	@packaging/install-packages run
	@mkdir -p .venv && touch $@

.venv/.test-packages: packaging/install-packages packaging/guest-kernel | .venv/.development
	@packaging/install-packages test
	@mkdir -p .venv && touch $@

.venv/.bench-packages: packaging/install-packages
	@packaging/install-packages bench
	@mkdir -p .venv && touch $@

.venv/.installed: pyproject.toml $(ENGINE_SOURCES) packaging/wheel/scripts/pinchpoint | .venv/.packages
	@packaging/check-rust
	test -x $(BIN)/pip || python3 -m venv .venv
	@echo "Installing the lab and building the engine (release) into .venv"
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# The extras of the package that is installed: it is not built again.
.venv/.development: pyproject.toml | .venv/.installed
	@echo "Installing what tests and documentation need into .venv"
	@$(BIN)/pip install --quiet --disable-pip-version-check 'pinchpoint[dev,export,campaign,mcp]'
	@touch $@

# User-mode Linux needs it on processors with AMX.
.venv/lib/pinchpoint/uml-ptrace.so: lab/pinchpoint/host/uml_ptrace.c | .venv/.packages
	@mkdir -p $(@D)
	@cc -O2 -Wall -Wextra -shared -fPIC -o $@ $<
