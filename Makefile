# `make` lists what there is. Everything runs in .venv, which is made from requirements.lock on first use.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-from-lock
DOCS := build/docs-venv
UV_VERSION := 0.13.9

.DEFAULT_GOAL := help
.PHONY: help demo run first-week test test-unit test-long lint bench dashboards manifests docs docs-serve lock clean

help: ## print this list
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):[^#]*## /\1#/' | \
		while IFS='#' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

demo: $(STAMP) ## writers, compactors, a deleter and Spark against one table, and a proof (SECONDS=30 WRITERS=8 ARGS=--keep)
	$(BIN)/firn demo $(if $(SECONDS),--seconds $(SECONDS)) $(if $(WRITERS),--writers $(WRITERS)) $(ARGS)

run: $(STAMP) ## the daemon on embedded servers, its state kept in ./data
	FIRN_LOG_FORMAT=$${FIRN_LOG_FORMAT:-auto} $(BIN)/firn serve --embedded --data ./data $(ARGS)

first-week: $(STAMP) ## install, deploy, write for half an hour, upgrade, maintain; a table of it (ARGS="--minutes 2 --linked")
	$(BIN)/python -m tests.first_week $(ARGS)

test: $(STAMP) ## all tests but the long ones, those without servers first
	$(BIN)/python -m pytest -n $(WORKERS) -m "$(NO_SERVERS)" $(ARGS)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope -m "($(SERVERS)) and not ($(ENGINES) or alone) and not long" $(ARGS)
	$(BIN)/python -m pytest -m "alone and not long" $(ARGS)
	$(BIN)/python -m pytest -n auto --dist loadscope -m "($(ENGINES)) and not long" $(ARGS)

# Servers, browsers and engines wait for themselves most of the time, so these tests are run beside each other (those with
# servers file by file, tests/conftest.py), each worker with servers of its own; what looks at times has the machine alone.
ENGINES := interop or spark
SERVERS := integration or acceptance or $(ENGINES)
NO_SERVERS := not ($(SERVERS)) and not long
# Without engines a worker waits a third of its time, for servers or for a delay that is tested.
WORKERS = $(shell $(BIN)/python -c 'import os; print(os.cpu_count() + 1)')

test-unit: $(STAMP) ## the tests that need no servers: minutes
	$(BIN)/python -m pytest -n $(WORKERS) -m "$(NO_SERVERS)" $(ARGS)

test-long: $(STAMP) ## the tests that take minutes, and many more examples of each property
	$(BIN)/python -m pytest --hypothesis-profile=long --timeout=1800 -m "long or not ($(SERVERS))" $(ARGS)

lint: $(STAMP) ## ruff, mypy, and imports against declared dependencies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 0 tests/unit/test_dependencies.py tests/unit/test_layout.py

bench: $(STAMP) ## the benchmarks (ROW=name for one of them)
	$(BIN)/python -m tests.bench $(ROW) $(ARGS)

dashboards: $(STAMP) ## write Grafana's dashboards anew from the modules in grafana/
	$(BIN)/python -m grafana.generate

docs: $(DOCS)/.made-from-lock ## the documentation as a site in build/site; fails on a broken link or anchor
	$(DOCS)/bin/zensical build --strict --clean
	$(DOCS)/bin/python -m tests.built_site build/site

docs-serve: $(DOCS)/.made-from-lock ## the same on http://localhost:8000, built anew when a page is saved
	$(DOCS)/bin/zensical serve $(ARGS)

$(DOCS)/.made-from-lock: requirements-docs.lock
	@$(PYTHON) -m venv --clear $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

manifests: ## write Kubernetes' manifests anew from the chart in deploy/helm (needs helm)
	sh deploy/kubernetes/render.sh

# Universal: one lock for every Python from 3.11 on, Linux and macOS. Where packages come from is the business of
# whoever installs them, so it names no index.
lock: ## resolve pyproject.toml anew into requirements.lock, the image's and that of `make docs` (ARGS="--upgrade" for newer versions)
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"
	build/lock/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --generate-hashes \
		--custom-compile-command "make lock" --quiet $(ARGS) --output-file requirements.lock
	build/lock/bin/uv pip compile pyproject.toml --universal --python-version 3.13 --extra server --extra maintain \
		--extra s3 --extra orc --generate-hashes \
		--constraint requirements.lock --custom-compile-command "make lock" --no-annotate --quiet \
		--output-file deploy/docker/requirements.lock
	build/lock/bin/uv pip compile --group docs --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command "make lock" --quiet $(ARGS) --output-file requirements-docs.lock

clean: ## remove .venv, caches and build output (./data stays)
	rm -rf $(VENV) build dist *.egg-info storage/native/*.so .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installing on top of an older .venv is enough when the lock moves. It starts afresh when there is no .venv that works
# (none yet, or its Python is gone). What an older source was compiled to goes first: where nothing can be compiled now,
# it would stay, and be loaded. The lock has setuptools, too, so nothing is fetched to build with.
$(STAMP): requirements.lock pyproject.toml $(wildcard storage/native/*.c)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "firn needs Python 3.11 or newer, and '$(PYTHON)' is not. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing what requirements.lock names into $(VENV): some minutes, 2 GB."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@rm -f storage/native/*.so
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -c 'import firn.storage.native.wire_files' 2>/dev/null || \
		echo "Nothing was compiled, as there is no C compiler, or no header files of Python: all works, a backlog drains slower."
	@touch $@
