# `make demo` and `make test` each need nothing but Python 3.10+: they make the environment, install, and run.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
BIN := $(VENV)/bin

.PHONY: demo test lint tables clean
.DEFAULT_GOAL := test

demo: $(VENV)/installed
	$(BIN)/votestream demo

# One thread a process: threads that wait for each other's core cost more than they bring.
test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# docs/tables from the rows in results/; a test compares them.
TABLES := online ablation augmentation beta offline weight-norms storage bytes rates anytime
tables: $(VENV)/installed
	mkdir -p docs/tables
	for suite in $(TABLES); do $(BIN)/votestream bench table $$suite --out docs/tables/$$suite.md || exit 1; done

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch first and by its pin: a resolver that meets only a range would fetch the newest build.
$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[plots]"
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
