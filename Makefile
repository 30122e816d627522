# The one developer command. `make` lists what it can do; every target installs what it lacks.
#
# Set CARGO_TARGET_DIR to build elsewhere; `make demo ARGS="--runtime 30s"` passes options on.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build deb release demo test page-and-check check units doc deny process-tests vm-test bench bench-history \
	lab fuzz clean web web-test neon-test rust-tools vm-tools clock-tools drive-tools lab-tools node-tools telemetry-tools api-tools \
	ansible-tools package-tools cinder-tools csi-tools store-tools postgres-tools browser-tools tools built-tests \
	tests-of-tools tests-of-simulator tests-of-processes tests-of-hosts \
	report-pictures console-pictures test-long attacks-long restarts-long playbooks-long xfstests-long postgres-long \
	fsx-long api-long kubernetes-long image-long mutations-long hosts-long databases-long \
	soak check-release

ARGS ?=
# The simulator also tries worlds that nobody has seen: the commit says which.
export FLASHYARD_SIM_SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 4d))
# Seconds each fuzz target runs for under `make fuzz`.
FUZZ_SECONDS ?= 60
# Seconds of simulation under `make soak`.
SOAK_SECONDS ?= 3600
FLASHYARD := $${CARGO_TARGET_DIR:-target}/release/flashyard
# Always the whole workspace: another choice of packages would build dependencies again, with other
# features.

# The program as the tests have it. Built for itself, without what only tests depend on, dependencies
# would have other features, and most of it would be built once more.
DEBUG_FLASHYARD := cargo test --workspace --quiet --no-run --test help

# What `make build` builds, and no test is: without debug assertions, and with those features of
# libraries only that the program itself asks for.
CHECK_RELEASE := cargo check --package flashyard --quiet --config .ci/as-released.toml

# What the virtual machine needs beside the kernels, which the tests fetch by themselves.
VM_PACKAGES := qemu-system-x86 fio nvme-cli busybox-static e2fsprogs xfsprogs util-linux keyutils kmod \
	xz-utils mdadm
# What makes drives carry something, for tests of how that is seen and wiped.
DRIVE_PACKAGES := util-linux mount e2fsprogs xfsprogs btrfs-progs f2fs-tools squashfs-tools \
	erofs-utils dosfstools bcache-tools cryptsetup-bin gdisk lvm2
# What experiments and volumes as block devices need.
LAB_PACKAGES := fio xfsprogs mount mariadb-server-core mariadb-client-core \
	openjdk-17-jre-headless
# Where programs are built that no distribution has; the lab looks for them there.
export FLASHYARD_LAB_TOOLS ?= $(CURDIR)/target/lab-tools
# A clock of its own for a node, of which days pass in seconds.
CLOCK_PACKAGES := faketime
# Receivers of what a node tells about itself.
TELEMETRY_PACKAGES := prometheus rsyslog rsyslog-gnutls
# What judges the package.
PACKAGE_PACKAGES := systemd
# What playbooks set up on servers, which share this machine's files, and cannot fetch there.
ANSIBLE_PACKAGES := python3-apt nftables xfsprogs e2fsprogs fio procps iproute2 openssl systemd
# Versions of ansible-core that the collection supports, beside the one of `make test`. Debian 12's
# Python runs the earlier ones. The later ones are left out where there is no Python 3.12.
OTHER_ANSIBLE := 2.17 2.18 2.20 2.21
# What builds for aarch64 and runs it here.
NEON_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
# Programs that tests of xfstests call.
XFSTESTS_PACKAGES := xfsprogs e2fsprogs mount util-linux acl attr bc dump fio gawk libcap2-bin \
	psmisc quota uuid-runtime xfsdump
# What benchmarks are compared with.
BENCH_PACKAGES := libisal2

# Targets that take hours, or tools that not every machine has; each can be run alone.
LONG := attacks-long restarts-long playbooks-long xfstests-long postgres-long fsx-long api-long kubernetes-long \
	image-long mutations-long hosts-long databases-long soak neon-test fuzz
# What brings the tools of `make process-tests`.
PROCESS_TOOLS := clock-tools drive-tools lab-tools postgres-tools telemetry-tools api-tools ansible-tools \
	package-tools cinder-tools csi-tools store-tools
# Programs of tests that wait for others' tools for the most part, and run beside the rest.
TOOLS_TESTS := ansible cinder database generated_clients lab openapi
# Programs of tests that only compute: they get what processors the rest leave.
SIMULATOR_TESTS := crafted lies pool pool_survives promises
# Tries the simulator itself, for as long as all of those take.
LONG_TESTS_OF_SIMULATOR := mutations
TEST_FILES := $(wildcard crates/*/tests/*.rs tests/*/tests/*.rs examples/tests/*.rs) \
	$(patsubst %/main.rs,%.rs,$(wildcard crates/*/tests/*/main.rs tests/*/tests/*/main.rs))
OTHER_TESTS := $(sort $(filter-out $(TOOLS_TESTS) $(SIMULATOR_TESTS) $(LONG_TESTS_OF_SIMULATOR),$(basename $(notdir $(filter-out tests/vm/%,$(TEST_FILES))))))

# Without the feature the target has no tests, so that `make test` does not run them.
LONG_FEATURE := --features flashyard/long,vm/long
LONG_TESTS := cargo test --workspace $(LONG_FEATURE) --test long -- --nocapture --test-threads=1

help: ## list the targets
	@echo "Flashyard's developer command. Targets:"
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

build: web ## the flashyard binary, optimised, with its web page
	cargo build --release -p flashyard

deb: build ## a Debian package of it, in target/deb
	deploy/package $(FLASHYARD) target/deb

release: check-release build ## the files of a release, in target/dist; see docs/releasing.md
	deploy/release $(FLASHYARD) target/dist

# A release is what a commit says, under a version that the changelog has.
check-release:
	@git diff --quiet HEAD || { echo "there are changes that are not committed" >&2; exit 1; }
	@version=$$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml | head -1); \
	grep -q "^## $$version\b" CHANGELOG.md || { \
		echo "CHANGELOG.md has no section \"## $$version\"" >&2; exit 1; }

demo: build ## a raid6 pool: verified I/O, kill it, lose a drive, verify, figures
	$(FLASHYARD) demo $(ARGS)

# What waits for the network runs beside what computes, and what waits for clocks and processes beside
# the simulator.
test: ## everything that guards data (allow an hour when cold)
	@$(MAKE) --no-print-directory --jobs 2 tools page-and-check
	@$(MAKE) --no-print-directory built-tests
	@$(MAKE) --no-print-directory --jobs 3 tests-of-simulator tests-of-tools tests-of-hosts

# The page first: the server embeds it, and would be built once more.
page-and-check: web
	@$(MAKE) --no-print-directory check

check: rust-tools deny ## format, lints, dependencies, tidy rules, unit tests: before every commit
	cargo fmt --all --check
	cargo clippy --workspace $(LONG_FEATURE) --all-targets --quiet -- --deny warnings
	$(CHECK_RELEASE)
	cargo test --workspace --quiet --test floors --test labels --test layering \
		--test pages --test prose --test sources
	$(MAKE) --no-print-directory units

# Beside `check` and `test`: it checks every crate and dependency in a way of its own, for minutes.
# Private items are documented too, so links to them lead somewhere.
doc: export RUSTDOCFLAGS := --deny warnings --allow rustdoc::private_intra_doc_links
doc: rust-tools ## documentation of all crates, warnings denied, links checked, examples run
	cargo doc --workspace --no-deps --document-private-items
	cargo test --workspace --quiet --doc

deny: ## licences, duplicate versions and sources of all dependencies
	@.ci/install --deny
	cargo fetch --locked --quiet
	$${CARGO_TARGET_DIR:-target}/deny/bin/cargo-deny --offline check bans licenses sources

units: rust-tools
	cargo test --workspace --quiet --lib --bins

process-tests: rust-tools $(PROCESS_TOOLS) ## whole processes, connections, drives on files; the simulator; fuzz corpora
	@$(MAKE) --no-print-directory built-tests
	@$(MAKE) --no-print-directory --jobs 3 tests-of-simulator tests-of-tools tests-of-processes

built-tests:
	cargo test --workspace --no-run

# What they say comes at their end: two streams in one are of no use to anybody.
define said_at_the_end
@$(1) >"$${CARGO_TARGET_DIR:-target}/$@.log" 2>&1 || { cat "$${CARGO_TARGET_DIR:-target}/$@.log"; exit 1; }
@cat "$${CARGO_TARGET_DIR:-target}/$@.log"
endef

tests-of-tools:
	$(call said_at_the_end,cargo test --workspace $(TOOLS_TESTS:%=--test %))

tests-of-simulator:
	$(call said_at_the_end,nice -n 19 cargo test --workspace $(SIMULATOR_TESTS:%=--test %))

tests-of-processes:
	cargo test --workspace $(OTHER_TESTS:%=--test %)

# A browser and virtual machines want processors, and come when the other processes have ended.
tests-of-hosts: tests-of-processes
	@$(MAKE) --no-print-directory web-test
	@$(MAKE) --no-print-directory vm-test

web: web/dist/index.html ## the web page, which `make build` embeds

# Anew when a source of it changed, the description of the API among them.
web/dist/index.html: docs/openapi.json web/package-lock.json web/index.html \
		$(wildcard web/*.ts web/src/*.* web/src/*/*.*)
	@$(MAKE) --no-print-directory node-tools
	cd web && npm install --no-save --no-audit --no-fund --ignore-scripts && npm run build
	@touch $@

web-test: rust-tools browser-tools web ## the web page in a real browser, against a real node
	$(DEBUG_FLASHYARD)
	cd web && CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-../target} npm test

vm-test: rust-tools vm-tools cinder-tools ## Debian's 6.12 kernel as a host, in QEMU; the main paths with 6.1
	$(DEBUG_FLASHYARD)
	cargo test --workspace --test hosts -- --test-threads=2 --nocapture

restarts-long: rust-tools lab-tools vm-tools ## restarts at random instants, under attached volumes and real hosts
	FLASHYARD_RESTARTS=200 cargo test --workspace --test restarts
	$(DEBUG_FLASHYARD)
	FLASHYARD_RESTARTS=200 cargo test --workspace --test hosts -- --nocapture restart

playbooks-long: rust-tools ansible-tools vm-tools ## playbooks: a rolling upgrade under I/O; servers with systemd, in QEMU; sanity; other Ansible
	@.ci/install --ansible-sanity
	cargo test --workspace $(LONG_FEATURE) --test ansible -- --nocapture rolling sanity
	$(DEBUG_FLASHYARD)
	cargo test --workspace $(LONG_FEATURE) --test hosts -- --test-threads=1 --nocapture playbooks
	for version in $(OTHER_ANSIBLE); do \
		.ci/install --ansible $$version || { [ $$? = 3 ] && continue || exit; }; \
		.ci/install --ansible-sanity $$version || exit; \
		FLASHYARD_ANSIBLE=$$version cargo test --workspace $(LONG_FEATURE) --test ansible -- \
			--nocapture of_the_collection_pass; \
	done

neon-test: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
neon-test: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER := \
	qemu-aarch64-static -L /usr/aarch64-linux-gnu
neon-test: rust-tools ## parity's kernels for aarch64, in QEMU
	@.ci/install --packages $(NEON_PACKAGES)
	@.ci/install --rust-target aarch64-unknown-linux-gnu
	cargo test --package parity --lib --target aarch64-unknown-linux-gnu

test-long: ## what is too long for `make test`: suites, databases, soaks; all of it, whatever fails
	$(MAKE) --no-print-directory --keep-going $(LONG)

attacks-long: rust-tools build ## all attacks of peers without a key at once, for ATTACK_SECONDS; what they cost a host
	FLASHYARD_PROGRAM=$$(realpath $(FLASHYARD)) $(LONG_TESTS) attacked::

# XFSTESTS names the folder; XFSTESTS_TESTS what to run there, else what docs/TESTING.md says.
xfstests-long: rust-tools build ## xfstests on attached volumes, beside plain loop devices; needs XFSTESTS
	@[ -x "$${XFSTESTS:-}/check" ] || { \
		echo "XFSTESTS has to name a folder in which xfstests was built: sources at" >&2; \
		echo "https://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git; docs/TESTING.md says how" >&2; \
		exit 1; }
	@.ci/install --packages $(XFSTESTS_PACKAGES)
	FLASHYARD_PROGRAM=$$(realpath $(FLASHYARD)) $(LONG_TESTS) xfstests:: outcomes::

postgres-long: rust-tools postgres-tools ## PostgreSQL on an attached volume, POSTGRES_ROUNDS of kills and clones
	$(LONG_TESTS) postgresql::

fsx-long: rust-tools ## fsx on attached volumes, FSX_OPERATIONS each, while the node is killed
	@.ci/install --packages xfsprogs mount
	@.ci/install --fsx $(FLASHYARD_LAB_TOOLS)
	$(LONG_TESTS) fsx::

databases-long: rust-tools lab-tools ## experiments over databases, which Ctrl-C ends and the same command goes on with
	cargo test --workspace $(LONG_FEATURE) --test database -- ctrl_c

api-long: rust-tools api-tools ## ODD_REQUESTS odd requests to the REST API, from ODD_SEED; a client in Go
	@.ci/install --go-client
	cargo test --workspace $(LONG_FEATURE) --test generated_clients -- go_client
	ODD_REQUESTS=$${ODD_REQUESTS:-500000} \
		cargo test --workspace --test openapi -- --nocapture odd_requests

kubernetes-long: rust-tools csi-tools ## the driver under Kubernetes' own controllers and sidecars; 300 volumes on one host
	@.ci/install --packages openssl
	@.ci/install --orchestrator $(FLASHYARD_LAB_TOOLS)
	cargo test --workspace $(LONG_FEATURE) --test kubernetes -- --nocapture --test-threads=1 \
		density:: sidecars::

image-long: rust-tools ## the container image, without a daemon or a registry, and a node in it
	@.ci/install --packages binutils buildah mmdebstrap
	$(DEBUG_FLASHYARD)
	.ci/image $${CARGO_TARGET_DIR:-target}/debug/flashyard

mutations-long: rust-tools ## faults planted in the pool, each of which the simulator has to find
	cargo test --workspace --test $(LONG_TESTS_OF_SIMULATOR)

hosts-long: rust-tools vm-tools build ## what `make vm-test` tries with Linux 6.12 alone, with 6.1 too; a thousand volumes; a bad network; a plan over RDMA
	$(DEBUG_FLASHYARD)
	cargo test --workspace $(LONG_FEATURE) --test hosts -- --test-threads=2 --nocapture also_linux_6_1
	cargo test --workspace $(LONG_FEATURE) --test hosts -- --nocapture linux_6_12_many linux_6_12_rdma_loss
	cargo test --workspace $(LONG_FEATURE) --test hosts -- --nocapture linux_6_12_rdma_plan

soak: web ## the simulator for SOAK_SECONDS: every scenario, several numbers of shards
	cargo build --profile soak -p flashyard
	.ci/soak $${CARGO_TARGET_DIR:-target}/soak/flashyard $(SOAK_SECONDS) $(FLASHYARD_SIM_SEED)

bench: ## throughput and latency tables (target/bench/*.json); see docs/TESTING.md
	@.ci/install --packages $(BENCH_PACKAGES)
	cargo bench --bench '*' $(ARGS)

bench-history: ## the course of every figure, as target/bench/history.html
	@cargo run --quiet --package bench

lab: build lab-tools ## the published experiments at size small; results and pages in target/lab
	mkdir -p target/lab
	for plan in $$($(FLASHYARD) lab list --output json | sed -nE 's/.*"name": "(.*)".*/\1/p'); do \
		$(FLASHYARD) lab run $$plan --size small --restart --results target/lab/$$plan.json || exit; \
		$(FLASHYARD) lab report target/lab/$$plan.json --format html --to target/lab/$$plan.html || exit; \
	done

report-pictures: ## the first screens of the committed results' reports, in docs/results
	@.ci/install --packages chromium pngquant
	$(DEBUG_FLASHYARD)
	.ci/report-pictures $${CARGO_TARGET_DIR:-target}/debug/flashyard docs/results

console-pictures: rust-tools web ## the pictures of docs/console.md, from a real node after PICTURES_MINUTES of load
	@.ci/install --packages chromium
	$(DEBUG_FLASHYARD)
	cd web && CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-../target} PICTURES=1 npm test pictures

fuzz: ## every fuzz target for FUZZ_SECONDS each (needs a nightly toolchain and cargo-fuzz)
	for target in $$(cd fuzz && cargo +nightly fuzz list); do \
		(cd fuzz && cargo +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS)); \
	done

clean: ## remove everything built or downloaded
	cargo clean
	rm -rf target

rust-tools:
	@.ci/install --rust

telemetry-tools:
	@.ci/install --packages $(TELEMETRY_PACKAGES)

package-tools:
	@.ci/install --packages $(PACKAGE_PACKAGES)

clock-tools:
	@.ci/install --packages $(CLOCK_PACKAGES)

drive-tools:
	@.ci/install --packages $(DRIVE_PACKAGES)

lab-tools: ## what experiments need beside this program
	@.ci/install --packages $(LAB_PACKAGES)
	@.ci/install --go-tpc $(FLASHYARD_LAB_TOOLS)
	@.ci/install --go-ycsb $(FLASHYARD_LAB_TOOLS)
	@.ci/install --cassandra $(FLASHYARD_LAB_TOOLS)

# Tests run a server of their own; one that Debian starts is left alone.
postgres-tools:
	@.ci/install --packages postgresql xfsprogs mount

api-tools:
	@.ci/install --schemathesis
	@.ci/install --openapi

ansible-tools:
	@.ci/install --packages $(ANSIBLE_PACKAGES)
	@.ci/install --ansible

cinder-tools:
	@.ci/install --cinder

csi-tools:
	@.ci/install --packages e2fsprogs xfsprogs mount
	@.ci/install --csi-sanity $(FLASHYARD_LAB_TOOLS)
	@.ci/install --kubernetes $(FLASHYARD_LAB_TOOLS)

# An S3 store over files.
store-tools:
	@.ci/install --packages openjdk-17-jre-headless
	@.ci/install --s3proxy $(FLASHYARD_LAB_TOOLS)

browser-tools:
	@.ci/install --packages chromium

# One after the other: only one may install packages at a time.
tools: ## all that tests need beside this program
	@for one in $(PROCESS_TOOLS) browser-tools vm-tools; do $(MAKE) --no-print-directory $$one; done

node-tools:
	@.ci/install --node

vm-tools:
	@.ci/install --packages $(VM_PACKAGES)
