# Each target sets up what it needs; `make demo` and `make test` are all that a newcomer has to know.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install

.PHONY: demo test check format bench bench-million lock openapi clean help

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

$(VENV)/.runtime: requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Stoa needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Stoa into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements.lock -r requirements-build.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	@echo "Installing the development tools ..."
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements-bench.lock
	@$(PIP) --require-hashes -r requirements-bench.lock
	@touch $@

demo: $(VENV)/.runtime ## a running store with sample data; PORT= chooses the port
	@exec $(BIN)/stoa demo --port $(PORT)

test: $(VENV)/.dev ## the whole suite, in parallel
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

check: $(VENV)/.bench ## the rest of the gate: format, lint, types, import rules, OpenAPI drift
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright --warnings
	@$(BIN)/lint-imports
	@$(BIN)/stoa openapi | diff -u openapi.json - || { echo 'openapi.json is out of date: run make openapi'; exit 1; }

format: $(VENV)/.dev ## format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

openapi: $(VENV)/.runtime ## write openapi.json anew from the declarations
	@$(BIN)/stoa openapi > openapi.json.new && mv openapi.json.new openapi.json

bench: $(VENV)/.bench ## the performance table, beside its limit and a baseline
	@$(BIN)/python -m benchmarks

bench-million: $(VENV)/.bench ## the same with a store of a million products beside it
	@$(BIN)/python -m benchmarks --million

lock: $(VENV)/.dev ## lock the dependencies anew: versions and hashes, no addresses
	@for group in "" build dev bench; do \
	  $(BIN)/uv pip compile pyproject.toml $${group:+--group $$group -c requirements.lock} --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --upgrade \
	    -o requirements$${group:+-$$group}.lock; \
	done

clean: ## remove the environment and the demo's data
	@rm -rf $(VENV) .stoa
