# Needs Python >= 3.11, make and a network; everything else goes into the virtual environment $(VENV).
#
#   make demo         train the network of examples/train_digits.py (on the GPU where there is one)
#   make test         the tests; TESTS="tests/runtime -k storage" picks some
#   make lint type    ruff; mypy --strict
#   make generate     write dispatch/generated and the kernels' registrations anew
#   make wheel-check  build the wheel, install it elsewhere and run a program with it
#   make bench        host time of small calls, beside NumPy and (where installed) PyTorch
#   make opinfo       OPINFO=path/to/opinfo.py [OPINFO_ARGS="--grad"]: against PyTorch's own samples
#   make gpu-check    on a GPU, with its own python3 and nothing installed: is everything right (GPU_ARGS=--help)
#   make gpu-bench    on a GPU: how fast, beside PyTorch where it is installed (GPU_ARGS=--help)
#   make clean        remove what these targets made

PYTHON ?= $(firstword $(foreach python,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(python) -c 'import sys; sys.version_info >= (3, 11) and print("$(python)")' 2>/dev/null)))
VENV ?= .venv
ORACLE ?= .oracle
WORKERS ?= auto
DEMO_ARGS ?=
TESTS ?=
OPINFO ?=
OPINFO_ARGS ?=
GPU_PYTHON ?= python3
GPU_ARGS ?=

BIN := $(VENV)/bin
# -P keeps the root's modules (this folder is the package itself) out of the top level of sys.path.
RUN := $(BIN)/python -P

# cuda13, cuda12 or nothing, by the CUDA version that the driver supports.
ifndef CUDA
CUDA := $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[A-Za-z ]*Version: *\([0-9][0-9]*\).*/\1/p' | head -n 1 \
	| awk '$$1 >= 13 { print "cuda13" } $$1 == 12 { print "cuda12" }')
endif
comma := ,
EXTRA := $(if $(strip $(CUDA)),$(comma)$(strip $(CUDA)))

# One stamp for each set of extras: a second run installs nothing, a changed pyproject.toml installs again.
stamp = $(VENV)/.installed-$(1)$(if $(strip $(CUDA)),-$(strip $(CUDA)))
DEMO_READY := $(call stamp,perf)
TEST_READY := $(call stamp,test)
DEV_READY := $(call stamp,dev)

.PHONY: demo test lint type generate generate-check wheel-check bench gpu-check gpu-bench opinfo clean

demo: $(DEMO_READY)
	$(RUN) examples/train_digits.py $(DEMO_ARGS)

test: $(TEST_READY)
	$(RUN) -m pytest -n $(WORKERS) $(TESTS)

lint: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy does not read the import hook of an editable install, so it gets the root under the package's name.
type: $(DEV_READY)
	mkdir -p $(VENV)/typing && ln -sfn "$(CURDIR)" $(VENV)/typing/triten
	MYPYPATH=$(VENV)/typing $(RUN) -m mypy -p triten.runtime -p triten.dispatch

generate: $(DEV_READY)
	$(RUN) -m triten.dispatch.codegen

generate-check: $(DEV_READY)
	$(RUN) -m triten.dispatch.codegen --check

# `build/` of an earlier wheel would add modules that are no longer there.
wheel-check: $(BIN)/python
	rm -rf build
	set -e; work=$$(mktemp -d); trap 'rm -rf "$$work" build' EXIT; \
	$(RUN) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$$work" .; \
	$(RUN) -m venv "$$work/venv"; \
	"$$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$$work"/triten-*.whl; \
	"$$work/venv/bin/python" -I .ci/wheel_program.py

bench: $(DEMO_READY)
	$(RUN) -m triten.perf overhead
	$(RUN) -m triten.perf import-time
	$(RUN) -m triten.perf memory

# The checkout as it stands, under the package's name, for a Python that has CuPy and Triton but no triten.
AS_PACKAGE = set -e; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; ln -s "$(CURDIR)" "$$work/triten"; \
	PYTHONPATH="$$work" PYTHONUNBUFFERED=1 $(GPU_PYTHON) -P

gpu-check:
	@$(AS_PACKAGE) tests/gpu/check.py $(GPU_ARGS)

gpu-bench:
	@$(AS_PACKAGE) -m triten.perf gpu $(GPU_ARGS)

opinfo: $(ORACLE)/.installed
	@test -n "$(OPINFO)" || { echo "make opinfo needs OPINFO=path/to/opinfo.py" >&2; exit 2; }
	$(ORACLE)/bin/python -P "$(OPINFO)" $(OPINFO_ARGS)

clean:
	rm -rf $(VENV) $(ORACLE) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 found; name one: make PYTHON=/path/to/python" >&2; exit 2; }
	"$(PYTHON)" -m venv $(VENV)

INSTALL = $(RUN) -m pip install --quiet --disable-pip-version-check

$(DEMO_READY): pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[perf$(EXTRA)]'
	@touch $@

$(TEST_READY): pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[test$(EXTRA)]'
	@touch $@

$(DEV_READY): pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[test,dev$(EXTRA)]'
	@touch $@

$(ORACLE)/.installed: pyproject.toml
	"$(PYTHON)" -m venv $(ORACLE)
	$(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check \
		'torch == 2.13.0' expecttest -e '.[test]'
	@touch $@
