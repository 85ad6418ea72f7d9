# Every target sets itself up: it makes $(VENV) from requirements.lock when that is missing or out of date.
#   make test PYTHON=python3.13 VENV=.venv313     another interpreter, beside the first
#   make test ARGS="-k inbox -x"                  more arguments for pytest
PYTHON ?=
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin

# pyright need not ask whether a newer pyright exists.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PYTHON
# What is compiled once is kept: the tests are rewritten as they are loaded, and programs are started hundreds of times.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test trials matrix lint ruff mypy pyright page pages diagrams reference docs lock bench budget clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make the virtual environment (every other target does so itself)
	@.ci/setup $(VENV)

demo: setup ## run the flow flows/demo.yaml
	@$(BIN)/turnchart run demo

# One process a core, each test file in one of them. ARGS="-n 0" runs all in one process, as a debugger needs it.
test: setup ## run the tests, all but the slow ones
	$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

trials: export TURNCHART_TRIALS ?= full
trials: setup ## run all the slow tests
	$(BIN)/python -m pytest -m slow --timeout=600 $(ARGS)

matrix: setup ## run the tests on every Python, with the oldest and newest dependencies (ARGS for pytest)
	@ARGS="$(ARGS)" .ci/matrix $(PYTHONS)

lint: ruff mypy pyright ## check style, format and types

ruff: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

mypy: setup
	$(BIN)/mypy

pyright: setup
	$(BIN)/pyright --pythonpath $(BIN)/python

page: ## put the renderer of the HTML pages where they take it from (needs npm)
	@.ci/bundle

pages: page setup ## try the HTML pages in Chromium
	@VENV=$(VENV) .ci/check_pages $(ARGS)

diagrams: setup ## write the committed exports in diagrams/ and docs/gallery.md anew
	@BIN=$(BIN) .ci/check_diagrams --write

reference: setup ## write the pages of docs/reference anew that are made from the program
	TURNCHART_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q -n 0 tests/docs/test_reference.py tests/flows/test_problem_page.py

docs: setup ## build the site of the documentation in build/docs/site; warnings are errors
	$(BIN)/python .ci/site

lock: setup ## write requirements.lock anew, with the newest releases that pyproject.toml allows
	$(BIN)/python -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/lock/bin/uv pip compile pyproject.toml --group dev --group docs --universal --python-version 3.11 --upgrade \
		--generate-hashes --no-emit-index-url --no-emit-find-links --quiet \
		--custom-compile-command "make lock" --output-file requirements.lock

bench: setup ## measure speed (tests/bench)
	$(BIN)/python tests/bench $(ARGS)

budget: setup ## count what a turn costs, beside tests/bench/budget.json (ARGS=--write writes that anew)
	$(BIN)/python -m tests.bench.budget $(ARGS)

clean: ## remove caches and what was built (the virtual environment stays)
	rm -rf build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf .ci/mermaid/node_modules .ci/page/node_modules .ci/yaml/node_modules
	find machine hooks flows diagrams tests -type d -name __pycache__ -prune -exec rm -rf {} +
