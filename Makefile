# `make demo` and `make test` each need nothing but Python 3.11+: they make the environment, install, and run.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
BIN := $(VENV)/bin
COMPAT := .venv-compat
# Without what it depends on: it asks for pandas 2, and works with the pandas 3 that the others have. It needs Java, too.
CAPYMOA := capymoa jpype1 deprecated wrapt seaborn
EXPORT := .venv-export
EXPORT_PIP := $(EXPORT)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt
RAY := .venv-ray
LABELSTUDIO := .venv-labelstudio
RAY_PIP := $(RAY)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt
MINIMUM := .venv-minimum
COMPAT_PIP := $(COMPAT)/bin/pip install --quiet --disable-pip-version-check -c constraints-compat.txt

.PHONY: demo serve test test-browser test-compat test-export test-minimum test-ray test-labelstudio
.PHONY: lint coverage release tables clean
.DEFAULT_GOAL := test

demo: $(VENV)/installed
	$(BIN)/votestream demo

# The page and the service, with the demo's classes to play with; what it learns stays in build/.
serve: $(VENV)/installed-serve
	mkdir -p build
	$(BIN)/votestream serve build/demo.safetensors --sample

# One thread a process: threads that wait for each other's core cost more than they bring.
test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal

# The page in Chromium, which is installed where there is none and we are root. Without it the tests are skipped.
test-browser: $(VENV)/installed-browser
	if [ "$$(id -u)" = 0 ] && ! command -v chromium >/dev/null && command -v apt-get >/dev/null; then \
	  apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium || true; fi
	OMP_NUM_THREADS=1 $(BIN)/pytest tests_browser -rs

# With the libraries that VoteStream works with but does not need, in an environment of their own.
test-compat: $(COMPAT)/installed
	OMP_NUM_THREADS=1 $(COMPAT)/bin/pytest -rs tests_compat src/votestream/compat

# Exported models in other programs for ONNX files, in an environment of their own.
test-export: $(EXPORT)/installed
	OMP_NUM_THREADS=1 $(EXPORT)/bin/pytest -rs tests_export

# The commands, the service, export, files, data, plots, and the contract of a few learners, with the oldest version of each
# package that pyproject.toml allows, in an environment of its own. Warnings of old packages are shown and are no failures.
MINIMUM_TESTS := tests/test_exits.py tests/test_photos_cli.py tests/serve/web/test_routes.py tests/serve/web/test_server.py tests/export \
  tests/test_golden_files.py tests/test_data_in.py tests/test_sklearn_usage.py tests/test_bench_plots.py tests/test_contract.py \
  -k "not test_contract or gaussian_voting or candidates_voting or ncm or slda or icarl or er-"
test-minimum: $(MINIMUM)/installed
	OMP_NUM_THREADS=1 $(MINIMUM)/bin/pytest -n $(JOBS) --dist worksteal -W default $(MINIMUM_TESTS)

# On a Ray cluster of several nodes on this machine, in an environment of its own. Without Ray the tests are skipped.
test-ray: $(RAY)/installed
	OMP_NUM_THREADS=1 $(RAY)/bin/pytest -rs tests_ray || [ $$? -eq 5 ]  # 5: all of them

# With the real Label Studio, in an environment of its own: it pins many packages. Without it the tests are skipped.
test-labelstudio: $(VENV)/installed-dev $(LABELSTUDIO)/installed
	OMP_NUM_THREADS=1 $(BIN)/pytest -rs tests_labelstudio

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

# The same tests, slower, with what they run written down. The page in build/coverage/html shows every line.
coverage: $(VENV)/installed-dev
	rm -rf build/coverage && mkdir -p build/coverage
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal --cov --cov-report=term --cov-report=html:build/coverage/html

# Wheel and sdist as they would go out, checked and tested; nothing is published. All in the unpacked sdist: first its tests
# with the installed wheel, then its tests with its own source.
RELEASE := build/release
IN_SDIST := cd $(RELEASE)/sdist && OMP_NUM_THREADS=1 .venv/bin
release: $(VENV)/installed-release
	rm -rf $(RELEASE)
	$(BIN)/python -m build --outdir $(RELEASE)/dist
	$(BIN)/twine check --strict $(RELEASE)/dist/*
	$(BIN)/python .ci/release.py $(RELEASE)/dist
	mkdir $(RELEASE)/sdist
	tar -xzf $(RELEASE)/dist/*.tar.gz -C $(RELEASE)/sdist --strip-components 1
	$(PYTHON) -m venv $(RELEASE)/sdist/.venv
	$(IN_SDIST)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(IN_SDIST)/pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls ../dist/*.whl)[dev]"
	$(IN_SDIST)/python -c "import sys, votestream; sys.exit('site-packages' not in votestream.__file__)"
	$(IN_SDIST)/pytest -n $(JOBS) --dist worksteal tests README.md docs .venv/lib/python3*/site-packages/votestream
	$(IN_SDIST)/pip install --quiet --disable-pip-version-check --no-deps -e .
	$(IN_SDIST)/pytest -n $(JOBS) --dist worksteal
	@echo "$(RELEASE)/dist is ready to be published."

# docs/tables from the rows in results/; a test compares them.
TABLES := online ablation augmentation beta offline weight-norms storage bytes rates anytime
tables: $(VENV)/installed
	mkdir -p docs/tables
	for suite in $(TABLES); do $(BIN)/votestream bench table $$suite --out docs/tables/$$suite.md || exit 1; done
	$(BIN)/votestream bench plot online ablation augmentation offline --kind paper --out docs/images/against_the_paper.png

# The site, into build/docs/index.html, to be opened from disk: warnings are errors, links inside it are checked.
.PHONY: docs docs-links
SPHINX := OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet -d build/doctrees
docs: $(VENV)/installed-docs
	rm -rf build/docs build/doctrees
	$(SPHINX) -b html docs build/docs
	PYTHONPATH=docs $(BIN)/python -m generators.check build/docs

# Links to other sites, which need a network: no part of the checks, as other people's sites come and go.
docs-links: $(VENV)/installed-docs
	$(SPHINX) -b linkcheck docs build/docs-links

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

# Half an environment, as where Debian's python3-venv is missing, would be taken for a whole one by the next call.
$(VENV)/bin/python:
	@$(PYTHON) -c "import sys; v = sys.version.split()[0]; sys.exit(sys.version_info < (3, 11) and \
	  f'VoteStream needs Python 3.11 or newer, got {v}: name another one, as in make $(MAKECMDGOALS) PYTHON=python3.12')"
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@echo "Installing torch and the other packages; this takes some minutes and happens once."

# torch first and by its pin: a resolver that meets only a range would fetch the newest build.
$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[plots]"
	touch $@

$(VENV)/installed-serve: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[serve]"
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

$(VENV)/installed-release: $(VENV)/installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt build twine
	touch $@

$(VENV)/installed-browser: $(VENV)/installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt playwright
	touch $@

# All at once; where that fails, as without a network, one by one: what is missing is skipped by its tests.
$(COMPAT)/installed: pyproject.toml constraints.txt constraints-compat.txt tests_compat/requirements.txt
	$(PYTHON) -m venv $(COMPAT)
	$(COMPAT_PIP) torch
	$(COMPAT_PIP) -e . pytest pandas
	$(COMPAT_PIP) -r tests_compat/requirements.txt || \
	  for package in $$(grep -v '^#' tests_compat/requirements.txt); do \
	    $(COMPAT_PIP) $$package || echo "$$package could not be installed: its tests will be skipped"; \
	  done
	$(COMPAT_PIP) --no-deps $(CAPYMOA) || echo "capymoa could not be installed: its tests will be skipped"
	touch $@

$(RAY)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RAY)
	$(RAY_PIP) torch
	$(RAY_PIP) -e . pytest
	$(RAY_PIP) -e ".[ray]" || echo "ray could not be installed: its tests will be skipped"
	touch $@

# All at once; where that fails, one by one: what is missing is skipped by its tests.
$(EXPORT)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(EXPORT)
	$(EXPORT_PIP) torch
	$(EXPORT_PIP) -e ".[export]" pytest onnxruntime
	$(EXPORT_PIP) openvino opencv-python-headless || \
	  for package in openvino opencv-python-headless; do \
	    $(EXPORT_PIP) $$package || echo "$$package could not be installed: its tests will be skipped"; \
	  done
	touch $@

$(LABELSTUDIO)/installed: tests_labelstudio/requirements.txt
	$(PYTHON) -m venv --clear $(LABELSTUDIO)
	$(LABELSTUDIO)/bin/pip install --quiet --disable-pip-version-check -r tests_labelstudio/requirements.txt || \
	  echo "Label Studio could not be installed: its tests will be skipped"
	touch $@

# torch is the pinned one, by pip: uv resolves the rest without it, and pip adds what torch needs.
$(MINIMUM)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(MINIMUM)
	$(MINIMUM)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch uv
	echo 'torch; python_version < "0"' > $(MINIMUM)/without-torch.txt
	$(MINIMUM)/bin/uv pip compile --quiet --no-header --no-annotate --python $(MINIMUM)/bin/python --resolution lowest-direct \
	  --extra dev --override $(MINIMUM)/without-torch.txt --output-file $(MINIMUM)/pins.txt pyproject.toml
	$(MINIMUM)/bin/pip install --quiet --disable-pip-version-check --no-deps -r $(MINIMUM)/pins.txt -e .
	$(MINIMUM)/bin/pip check
	touch $@

clean:
	rm -rf $(VENV) $(COMPAT) $(EXPORT) $(MINIMUM) $(RAY) $(LABELSTUDIO)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
