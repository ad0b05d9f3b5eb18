# Every target creates .venv from the lock file when it is missing or out of date.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Bytecode is kept: tests start many processes, and each would compile the package again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help install run test test-full test-adapters tests lint format bench clean

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

$(STAMP): requirements.lock pyproject.toml
	@echo "creating .venv from requirements.lock (once; one to three minutes, silent meanwhile) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock 2>&1 | { grep -v 'is ignored: it is neither' || true; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -c "import torch, undertow" && touch $@

install: $(STAMP) ## create .venv with the exact pins of requirements.lock

run: $(STAMP)    ## a first look: something of every study, ending in one report
	@$(BIN)/undertow tour

lint: $(STAMP)   ## ruff and mypy
	$(BIN)/ruff check conftest.py src tests benchmarks
	$(BIN)/ruff format --check conftest.py src tests benchmarks
	$(BIN)/mypy

format: $(STAMP) ## apply ruff's fixes and formatting
	$(BIN)/ruff check --fix conftest.py src tests benchmarks
	$(BIN)/ruff format conftest.py src tests benchmarks

test: $(STAMP)   ## lint, types and every test but the longest, side by side
	@$(MAKE) --no-print-directory -j2 lint tests

test-full: lint  ## every test, also the long ones
	$(PYTEST) --hypothesis-profile=full

tests: $(STAMP)  ## every test but the longest
	$(PYTEST) -m "not full"

.venv-adapters/.installed: requirements-adapters.lock requirements.lock pyproject.toml
	@echo "creating .venv-adapters from requirements-adapters.lock (once; some minutes, silent meanwhile) …"
	@test -x .venv-adapters/bin/python || $(PYTHON) -m venv .venv-adapters
	@.venv-adapters/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-adapters.lock 2>&1 | { grep -v 'is ignored: it is neither' || true; }
	@.venv-adapters/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@.venv-adapters/bin/python -c "import torch, undertow, lightning, transformers, accelerate, peft, tensorboard, torchcrepe" && touch $@

# Tests that are skipped where other people's packages are missing, with these packages, whose versions are pinned too.
ADAPTERS := tests/probe/test_adapters.py tests/test_examples.py tests/jacobian/test_transformers_networks.py

test-adapters: .venv-adapters/.installed ## callbacks, examples and architectures of Lightning, transformers and others
	env -u PYTHONDONTWRITEBYTECODE .venv-adapters/bin/python -m pytest -q -n 2 --dist worksteal -m "not full" $(ADAPTERS)

bench: $(STAMP)  ## every benchmark at its CPU size
	@for b in benchmarks/[a-z]*.py; do echo "== $$b"; $(BIN)/python $$b || exit 1; done

clean:           ## remove caches and the environment
	rm -rf .venv .venv-adapters .mypy_cache .ruff_cache .pytest_cache .hypothesis
