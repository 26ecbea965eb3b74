# The verbs that people and CI use. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# dev builds in seconds, image is optimised without link-time work, release is what ships.
PROFILE ?= dev
# current uses the current kubeconfig context instead of a cluster of our own.
CLUSTER ?=
# How images get to the nodes: push:REGISTRY, or load:COMMAND with {} for the archive; empty: our own cluster's store.
IMAGES ?=
export CLUSTER IMAGES PROFILE

HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
PROFILE_DIR := $(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
BIN := $(CURDIR)/target/$(HOST)/$(PROFILE_DIR)
export CUDDY_BIN := $(BIN)
export CUDDY_COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
export CUDDY_DATE ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)
VENV := $(CURDIR)/target/venv

.PHONY: help setup build fmt lint test test-unit test-e2e test-cluster demo local cluster-up cluster-down cluster-shell \
	images install crds docs check-generated bench mutants deny

help: ## Lists the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## Installs what building and testing need (Debian packages, Python clients)
	@scripts/setup

build: ## Builds every program
	cargo build --workspace --profile $(PROFILE)

fmt: ## Formats the code
	cargo fmt --all

lint: setup ## Formatting, clippy, scripts, generated files
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	git ls-files | xargs grep -lE '^#!/usr/bin/env bash' | xargs shellcheck -x -P SCRIPTDIR -P e2e/cluster
	$(MAKE) --no-print-directory check-generated

test: test-unit test-e2e ## Every test, those against the real cluster included

test-unit: setup build ## Tests that need no cluster: the code's own, and a local environment from outside
	cargo test --workspace
	$(VENV)/bin/pytest -q e2e/local

test-e2e: images install ## Tests against the real cluster
	e2e/on-cluster $(VENV)/bin/pytest -q e2e/tests

test-cluster: setup ## Proves the test cluster itself, on a second one
	e2e/cluster/test

demo: ## A real Environment from nothing, step by step
	@scripts/demo

local: ## The sheltered environment without a cluster and without root, with a first call
	@scripts/local

cluster-up: ## Starts the cluster (idempotent)
	@e2e/cluster/up

cluster-down: ## Ends the cluster and leaves nothing behind
	@e2e/cluster/down

cluster-shell: build ## A shell with kubectl, helm and cuddy that reaches the cluster
	@e2e/cluster/shell

images: setup build ## Makes the images and brings them to the cluster
	@e2e/images $(BIN)

install: ## Installs the operator from its charts
	@e2e/install

crds: ## Generates the CRDs' YAML from the types
	cargo run -q -p cuddy-crds --bin crdgen
	cp crds/yaml/*.yaml charts/cuddy-crds/templates/

docs: ## Generates what is generated of the documentation
	cargo test -q -p cuddy-commands

check-generated: ## Fails when a generated file is not what its source makes
	mkdir -p target/crds && cargo run -q -p cuddy-crds --bin crdgen target/crds && diff -r target/crds crds/yaml
	diff -r crds/yaml charts/cuddy-crds/templates

# What is measured; image takes minutes less to build than release.
BENCH_PROFILE ?= release
# Which measurements, by name; empty means all.
BENCH ?=
bench: setup ## Measures, beside the peers, and writes bench/results
	$(MAKE) --no-print-directory images install PROFILE=$(BENCH_PROFILE)
	CUDDY_BIN=$(CURDIR)/target/$(HOST)/$(BENCH_PROFILE) BENCH_PROFILE=$(BENCH_PROFILE) \
		e2e/on-cluster $(VENV)/bin/python bench/run.py $(BENCH)

mutants: setup ## Switches off each safeguard in turn and lists the tests that notice
	e2e/mutations/run

deny: ## Licences, sources and duplicates of the dependencies
	@command -v cargo-deny >/dev/null || cargo install --locked --root target/tools cargo-deny@0.20.2
	PATH="$(CURDIR)/target/tools/bin:$$PATH" cargo deny check bans licenses sources
