# `make demo` and `make test` need python3 and make, and set everything else up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
C_PART := $(wildcard src/upsweep/_short_way*.[ch]) packaging/c_part.py

.PHONY: demo test test-all fuzz check registers docs bench lab-offline release

demo: $(VENV)/demo.ready
	$(BIN)/upsweep demo

# Two processes share bytecode with the hundred that the tests start. The threads of PyTorch and of linear algebra would spin on the
# cores while they wait for work.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 2 --dist worksteal
test: $(VENV)/test.ready
	$(PYTEST) -m "not slow" tests src

# Every kernel for every chip, and all else that the tests above take a part of.
test-all: $(VENV)/test.ready
	$(PYTEST) tests src

# Random calls against an oracle, for UPSWEEP_FUZZ_SECONDS (an hour); a difference prints the line that shows it again.
fuzz: $(VENV)/test.ready
	$(BIN)/python tests/fuzz --seconds $${UPSWEEP_FUZZ_SECONDS:-3600}

check: $(VENV)/test.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# Registers and spills of the GPU's kernels on every chip that they are compiled for; no GPU is needed.
registers: $(VENV)/test.ready
	$(BIN)/python benchmarks/registers.py

docs: $(VENV)/test.ready
	$(BIN)/mkdocs build --strict

# One file with the whole lab and its own Python, for machines where nothing may be installed; needs npm.
lab-offline: $(VENV)/test.ready
	$(BIN)/upsweep lab --html lab.html --python

bench: $(VENV)/demo.ready
	$(BIN)/python benchmarks/cpu.py

# The sdist and the wheel for any machine that the workflow on GitHub uploads, built and tried here: a clean environment for that wheel
# and for the one that brings the C part for this machine.
release: $(VENV)/release.ready
	rm -rf dist src/upsweep/cpu/built
	$(BIN)/python packaging/kernels.py
	HATCH_BUILD_NO_HOOKS=true $(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	PATH="$(abspath $(BIN)):$$PATH" sh tests/packaging/check.sh $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	rm -rf src/upsweep/cpu/built

$(VENV)/demo.ready: pyproject.toml $(C_PART) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

# pip compiles to bytecode on one core, and compiles what nobody imports: the packages' own tests, a third of all, folders of which
# a few files or none are read, and a file of PyTorch that only Python 3.12 can read. Another file that this Python cannot read stops
# nothing.
$(VENV)/test.ready: pyproject.toml $(C_PART) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[demo,lab,cuda13]' --group test --group check --group docs
	-$(BIN)/python -m compileall -qq -j 0 -x '/(tests?|statsmodels|fontTools|lexers|pip|distutils|physics|testing|experimental|pallas|dataframe|benchmarks|torchgen)/|/py312_' $(VENV)/lib
	touch $@

$(VENV)/release.ready: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --group release
	touch $@

# Dependency groups are known to pip from 25.1 on.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$@ -m pip install --quiet --upgrade 'pip>=25.1'
