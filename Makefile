# Needs Python >= 3.11, make and a network; everything else goes into the virtual environment $(VENV).
#
#   make demo         train the network of examples/train_digits.py (on the GPU where there is one)
#   make environment  everything that the tests, the checks of the code and the documentation need, at once
#   make test         the tests; TESTS="tests/runtime -k storage" picks some
#   make test-quick   a representative choice of the tests: about a minute on two cores, without third-party packages
#   make affected     the tests that a change against main can reach, or against BASE=...: at most three minutes
#   make mutants      draw N=20 faults by SEED=0, and list those that the affected tests do not find; TASKS=1: CONTRIBUTING's
#   make test-random  the tests with a seed of their own, which is printed; SEED=... takes that one again
#   make lint type    ruff; mypy --strict
#   make generate     write dispatch/generated and the index of the CPU's kernels anew
#   make coverage     write dispatch/coverage.md anew: which operators there are and what each has
#   make docs         the documentation, as pages in docs/_build; a warning is an error. DOCS_ARGS=-E reads every page again
#   make wheel-check  build the wheel, install it elsewhere and run a program with it
#   make release-check  build sdist and wheel into dist/, check their metadata, install each elsewhere and run a program
#   make changelog    what the next release's part of CHANGELOG.md says; VERSION=0.2.0 writes it and removes the fragments
#   make bench        the benchmark suite, beside NumPy and (where installed) PyTorch; BENCH_ARGS="--quick -o r.json"
#   make screenshot   the pictures in docs/performance.md: RESULT=full.json, or LIVE=URL of a running `perf serve`; needs a Chromium
#   make bench-launch host time of a kernel's launch: on the GPU, or where there is none over a stand-in for its driver
#   make aot          every kernel compiled for sm_80, sm_90 and sm_100 (cards by name) and held to its budget; needs no GPU
#   make kernel-wheels  wheels of compiled kernels into dist/, for TARGETS="80 86 89 90 100 120"; needs no GPU
#   make conformance  every operator of PyTorch's database against PyTorch; CONFORMANCE_ARGS="errors --ops add" picks some
#   make programs     other people's programs for PyTorch, under both; docs/programs.md. PROGRAMS_ARGS="--only timm" picks some
#   make clients      third-party Triton and PyTorch packages, without PyTorch; docs/clients.md. CLIENTS_ARGS="--only liger" picks some
#   make matrix       the oldest and newest versions of Python and of what is needed; MATRIX_ARGS="--rows 3.12 --check base" picks some
#   make oldest       a choice of tests at the oldest versions that pyproject.toml allows, without Triton and CuPy
#   make triton-versions  Triton programs in the emulator, under each version before the newest that pyproject.toml allows
#   make fuzz         campaigns that look for faults with drawn cases; SECONDS=600 SEED=2 CAMPAIGNS=samples; docs/fuzzing.md
#   make gpu-check    on a GPU, with its own python3 and nothing installed: is everything right (GPU_ARGS=--help)
#   make emulate      the same check without a GPU: compiled kernels executed on the CPU; EMULATE_ARGS=--first-pass is quick
#   make planted-faults  write the table of the faults that the emulator finds anew; the tests plant half of them
#   make rehearse     a day with a GPU without one: check and benchmark over CuPy and a stand-in for NVIDIA's driver
#   make rehearse-bench  every row of the GPU's benchmark at tiny sizes, on emulated devices of sm_80 and sm_90; ROWS=softmax picks
#   make gpu-bench    on a GPU: how fast, beside PyTorch where it is installed (GPU_ARGS=--help)
#   make gpu-plan     on a GPU: check, flushes, tuning, variants and new rows in 30 minutes, each part with its budget
#   make clean        remove what these targets made

PYTHON ?= $(firstword $(foreach python,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(python) -c 'import sys; sys.version_info >= (3, 11) and print("$(python)")' 2>/dev/null)))
VENV ?= .venv
ORACLE ?= .oracle
WORKERS ?= auto
DEMO_ARGS ?=
TESTS ?=
SEED ?=
BASE ?=
N ?= 20
TASKS ?=
AOT_ARGS ?=
TARGETS ?= 80 86 89 90 100 120
KERNEL_WHEELS_ARGS ?=
EMULATE_ARGS ?=
REHEARSE_ARGS ?=
ROWS ?=
DOCS_ARGS ?=
BENCH_ARGS ?=
CONFORMANCE_ARGS ?=
SECONDS ?= 60
CAMPAIGNS ?=
FUZZ_ARGS ?=
PROGRAMS ?= .programs
PROGRAMS_ARGS ?=
CLIENTS ?= .clients
CLIENTS_ARGS ?=
MATRIX_ARGS ?=
MUTANTS_ARGS ?=
VERSION ?=
GPU_PYTHON ?= python3
GPU_ARGS ?=

BIN := $(VENV)/bin
REHEARSALS := $(VENV)/rehearsals
RUN := $(BIN)/python

# cuda13, cuda12 or nothing, by the CUDA version that the driver supports.
ifndef CUDA
CUDA := $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[A-Za-z ]*Version: *\([0-9][0-9]*\).*/\1/p' | head -n 1 \
	| awk '$$1 >= 13 { print "cuda13" } $$1 == 12 { print "cuda12" }')
endif
comma := ,
EXTRA := $(if $(strip $(CUDA)),$(comma)$(strip $(CUDA)))

# Tests of the CUDA driver run over a stand-in for libcuda.so.1, GPU or none: CuPy they need all the same.
LINUX_X86_64 := $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m))
TEST_CUDA := $(or $(strip $(CUDA)),$(if $(LINUX_X86_64),cuda13))

# One stamp for each set of extras: a second run installs nothing, a changed pyproject.toml installs again.
stamp = $(VENV)/.installed-$(1)$(if $(strip $(CUDA)),-$(strip $(CUDA)))
DEMO_READY := $(call stamp,perf)
TEST_READY := $(VENV)/.installed-test$(if $(TEST_CUDA),-$(TEST_CUDA))
DEV_READY := $(call stamp,dev)
QUICK_READY := $(VENV)/.installed-quick
DOCS_READY := $(VENV)/.installed-docs
RELEASE_READY := $(VENV)/.installed-release

.PHONY: demo environment test test-quick test-random affected mutants lint commit-messages type generate generate-check coverage docs wheel-check release-check changelog bench screenshot bench-launch aot kernel-wheels \
	gpu-check emulate planted-faults rehearse gpu-bench gpu-plan conformance fuzz programs clients matrix oldest triton-versions clean

demo: $(DEMO_READY)
	@echo "Training the network of examples/train_digits.py: some 5 seconds on two cores"
	$(RUN) examples/train_digits.py $(DEMO_ARGS)

# One resolution instead of three; the targets of a single one install what they need by themselves.
environment: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[test,dev,docs,ecosystem$(if $(TEST_CUDA),$(comma)$(TEST_CUDA))]'
	@touch $(TEST_READY) $(DEV_READY) $(DOCS_READY)

test: $(TEST_READY)
	$(RUN) -m pytest -n $(WORKERS) --durations=10 $(TESTS)

# Everything that another target has installed serves, too.
test-quick: $(if $(wildcard $(TEST_READY) $(DEV_READY)),,$(QUICK_READY))
	$(RUN) -m triten.tests.affected --quick

affected: $(TEST_READY)
	$(RUN) -m triten.tests.affected $(if $(BASE),--base $(BASE))

mutants: $(TEST_READY) $(DEV_READY)
	nice $(RUN) -m triten.tests.mutation $(if $(TASKS),--tasks,--number $(N) --seed $(or $(SEED),0)) $(MUTANTS_ARGS)

test-random: $(TEST_READY)
	seed=$(or $(SEED),$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')); echo "SEED=$$seed"; \
	$(RUN) -m pytest -n $(WORKERS) --seed $$seed --hypothesis-seed $$seed $(TESTS)

commit-messages:
	$(PYTHON) .ci/commit_messages.py

lint: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(DEV_READY)
	$(BIN)/mypy

generate: $(DEV_READY)
	$(RUN) -m triten.dispatch.codegen
	$(RUN) -m triten.dispatch.codegen.array_api
	$(RUN) -m triten.dispatch.codegen.kernel_index

coverage: $(DEV_READY)
	$(RUN) -m triten.dispatch.coverage --format markdown > coverage.tmp
	mv coverage.tmp dispatch/coverage.md

# Sphinx reads only changed pages again. After a warning it reads all, since it warns only of pages that it reads.
docs: $(DOCS_READY)
	$(RUN) -m sphinx -b html -n -W --keep-going -j auto $(DOCS_ARGS) docs docs/_build || { rm -rf docs/_build/.doctrees; exit 1; }

generate-check: $(DEV_READY)
	$(RUN) -m triten.dispatch.codegen --check
	$(RUN) -m triten.dispatch.codegen.array_api --check
	$(RUN) -m triten.dispatch.codegen.kernel_index --check

# The time in an archive is that of the last commit (reproducible-builds.org), not that of the checkout.
wheel-check release-check: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)

# `build/` of an earlier wheel would add modules that are no longer there. Two builds give the same bytes.
wheel-check: $(BIN)/python
	set -e; work=$$(mktemp -d); trap 'rm -rf "$$work" build' EXIT; \
	for folder in "$$work/first" "$$work"; do \
		rm -rf build; \
		$(RUN) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$$folder" .; \
	done; \
	cmp "$$work"/first/triten-*.whl "$$work"/triten-*.whl; \
	$(RUN) -m venv "$$work/venv"; \
	"$$work/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check "$$work"/triten-*.whl; \
	"$$work/venv/bin/python" -I .ci/wheel_program.py

changelog: $(RELEASE_READY)
	$(BIN)/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version Unreleased)

# What would be uploaded: the wheel is built from the sdist, as an index's users may do.
release-check: $(RELEASE_READY)
	rm -rf build dist
	set -e; work=$$(mktemp -d); trap 'rm -rf "$$work" build' EXIT; \
	$(RUN) -m build --outdir dist .; \
	$(RUN) -m twine check --strict dist/*; \
	for archive in dist/*.tar.gz dist/*.whl; do \
		$(RUN) -m venv "$$work/$${archive##*.}"; \
		"$$work/$${archive##*.}/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check "$$archive"; \
		"$$work/$${archive##*.}/bin/python" -I .ci/wheel_program.py; \
	done; \
	ls -l dist

bench: $(DEMO_READY)
	$(RUN) -m triten.perf run $(BENCH_ARGS)
	$(RUN) -m triten.perf memory

screenshot: $(TEST_READY)
	$(RUN) -m triten.perf.report.screenshot $(if $(LIVE),--live $(LIVE),$(RESULT)) --folder docs/_static

bench-launch: $(TEST_READY)
	$(if $(strip $(CUDA)),$(RUN) -m triten.perf launch,\
	$(BIN)/python tests/runtime/cuda/standin/build_library.py $(VENV)/standin && \
	$(RUN) -m triten.perf launch --standin $(VENV)/standin)

aot: $(TEST_READY)
	$(RUN) -m triten.perf aot $(AOT_ARGS)

kernel-wheels: $(TEST_READY)
	$(RUN) -m triten.perf kernel-wheels --target $(TARGETS) $(KERNEL_WHEELS_ARGS)

# The checkout as it stands, for a Python that has CuPy and Triton but no triten.
AS_PACKAGE = PYTHONPATH="$(CURDIR)" PYTHONUNBUFFERED=1 $(GPU_PYTHON)

gpu-check:
	@$(AS_PACKAGE) tests/gpu/check.py $(GPU_ARGS)

emulate: $(TEST_READY)
	$(RUN) tests/gpu/check.py --emulate $(EMULATE_ARGS)

planted-faults: $(TEST_READY)
	$(RUN) tests/runtime/cuda/emulator/planted_table.py

rehearse: $(TEST_READY)
	$(RUN) tests/gpu/check.py --standin --first-pass $(REHEARSE_ARGS)
	$(RUN) tests/runtime/cuda/standin/run.py $(REHEARSE)

# Over the stand-in, which is CuPy's driver and all that a GPU would be given, and over the emulator's own driver.
REHEARSE = -m triten.perf gpu --rehearse --no-peer --rounds 1 --row-seconds 0.01 $(if $(ROWS),--rows "$(ROWS)")
rehearse-bench: $(TEST_READY)
	mkdir -p $(REHEARSALS) && rm -f $(REHEARSALS)/*.json
	set -e; for target in 80 90; do \
		export TRITEN_EMULATE=$$target; \
		$(RUN) tests/runtime/cuda/standin/run.py $(REHEARSE) --output $(REHEARSALS)/standin-$$target.json; \
		TRITEN_CUDA=emulate $(RUN) $(REHEARSE) --output $(REHEARSALS)/emulator-$$target.json; \
	done
	$(RUN) -m triten.perf report $(REHEARSALS)/*.json --output $(REHEARSALS)/report.html

gpu-bench:
	@$(AS_PACKAGE) -m triten.perf gpu $(GPU_ARGS)

gpu-plan:
	@$(AS_PACKAGE) -m triten.perf gpu plan $(GPU_ARGS)

# Without a GPU, --device cuda is Triton's interpreter.
conformance: $(ORACLE)/.installed
	$(if $(strip $(CUDA)),,TRITEN_CUDA=interpret TRITON_INTERPRET=1) \
		$(ORACLE)/bin/python -m triten.tests.conformance $(CONFORMANCE_ARGS)

# With the oracle's environment, which `make conformance` makes, for the campaigns that need it. Whatever its Python, each
# worker gets this checkout.
fuzz: $(TEST_READY)
	$(RUN) -m triten.tests.fuzz $(CAMPAIGNS) --seconds $(SECONDS) --seed $(or $(SEED),1) \
		$(if $(wildcard $(ORACLE)/bin/python),--oracle $(ORACLE)/bin/python) $(FUZZ_ARGS)

# Both libraries import the same packages, from a folder of their own: none brings PyTorch along.
programs: $(DEMO_READY) $(ORACLE)/.installed $(PROGRAMS)/.installed
	$(RUN) -m triten.perf programs --pytorch $(ORACLE)/bin/python --packages $(PROGRAMS)/packages $(PROGRAMS_ARGS)

# Each other version that the catalogue names is a folder of its own; a quick run needs none.
clients: $(TEST_READY) $(CLIENTS)/.installed $(if $(findstring --quick,$(CLIENTS_ARGS)),,$(CLIENTS)/.versions)
	$(RUN) -m triten.perf clients --packages $(CLIENTS) $(CLIENTS_ARGS)
	PYTHONPATH="$(abspath $(CLIENTS))/packages" $(RUN) -m pytest -q -n 0 tests/examples/test_deploy.py  # it needs transformers

matrix: $(BIN)/python
	$(RUN) tests/compatibility/matrix.py $(MATRIX_ARGS)

oldest: $(BIN)/python
	$(RUN) tests/compatibility/matrix.py --running --rows base-oldest --folder $(VENV)/matrix --workers 1

triton-versions: $(BIN)/python
	$(RUN) tests/compatibility/matrix.py --running --rows emulated --folder $(VENV)/matrix --workers 0

clean:
	rm -rf $(VENV) $(ORACLE) $(PROGRAMS) $(CLIENTS) .matrix build dist docs/_build docs/reference/symbols *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 found; name one: make PYTHON=/path/to/python" >&2; exit 2; }
	"$(PYTHON)" -m venv $(VENV)

# Python compiles a module at its first import; most modules of these packages are never imported.
INSTALL = $(RUN) -m pip install --quiet --no-compile --disable-pip-version-check

# Install triten with extras. pip is quiet, so that a terminal and a log have the same lines.
define install
	@echo "Installing triten[$(1)] with NumPy and SciPy into $(VENV): $(2)"
	$(INSTALL) -e '.[$(1)]'
	@touch $@
endef

$(DEMO_READY): pyproject.toml | $(BIN)/python
	$(call install,perf$(EXTRA),$(if $(EXTRA),about 2 GB$(comma) a few minutes,about 250 MB$(comma) 10 to 40 seconds))

$(TEST_READY): pyproject.toml | $(BIN)/python
	$(call install,test$(comma)ecosystem$(if $(TEST_CUDA),$(comma)$(TEST_CUDA)),a few minutes)

$(QUICK_READY): pyproject.toml | $(BIN)/python
	$(call install,quick,about 1.5 GB$(comma) of which Triton is 1 GB)

$(DEV_READY): pyproject.toml | $(BIN)/python
	$(call install,test$(comma)dev$(EXTRA),a few minutes)

$(DOCS_READY): pyproject.toml | $(BIN)/python
	$(call install,docs,about a minute)

$(RELEASE_READY): pyproject.toml | $(BIN)/python
	$(call install,release,about a minute)

$(ORACLE)/.installed: pyproject.toml
	"$(PYTHON)" -m venv $(ORACLE)
	$(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check \
		'torch == 2.13.0' expecttest -e '.[test]'
	@touch $@

$(CLIENTS)/.installed: perf/clients/requirements.txt | $(BIN)/python
	rm -rf $(CLIENTS)
	$(INSTALL) --no-deps --target $(CLIENTS)/packages -r $<
	@touch $@

$(CLIENTS)/.versions: perf/clients/catalogue.py $(CLIENTS)/.installed
	for each in $$($(RUN) -c 'from triten.perf.clients.catalogue import CLIENTS; \
		print(*{version for client in CLIENTS for version in client.versions})'); do \
		$(INSTALL) --no-deps --upgrade --target $(CLIENTS)/$$each $$each || exit 1; done
	@touch $@

$(PROGRAMS)/.installed: perf/programs/requirements.txt | $(BIN)/python
	rm -rf $(PROGRAMS)
	$(INSTALL) --no-deps --target $(PROGRAMS)/packages -r $<
	@touch $@
