# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv first.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test all-tests test-fast lint format docs linkcheck experiments bench attack clean

install: .venv/installed

demo: .venv/installed
	$(BIN)/kexpfam demo

# Two workers with one BLAS thread each: more threads than cores slow everything down. What one
# worker has compiled the other finds on disk.
test test-fast: export OPENBLAS_NUM_THREADS = 1
test test-fast: export OMP_NUM_THREADS = 1
test test-fast: export JAX_COMPILATION_CACHE_DIR = $(CURDIR)/.jax_cache
test test-fast: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = 0.2
# Workers and commands start from bytecode, whatever the shell says.
test test-fast: export PYTHONDONTWRITEBYTECODE =
# Most of a small fit is compilation, and half of that optimizes what a test runs once.
test test-fast: export JAX_DISABLE_MOST_OPTIMIZATIONS = 1
test test-fast: export XLA_FLAGS = --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1
# Memory that is given back is asked for again at once, and cleared by the kernel in between.
test test-fast: export MALLOC_TRIM_THRESHOLD_ = 4000000000
test test-fast: export MALLOC_MMAP_THRESHOLD_ = 4000000000
test test-fast: export MALLOC_TOP_PAD_ = 64000000
# Where an operation was written is not asked of a program that runs once; finding out takes a tenth.
test test-fast: export JAX_TRACEBACK_IN_LOCATIONS_LIMIT = 0
# Style, types and imports are looked at beside the tests, which wait for processes now and then.
test: .venv/installed
	$(MAKE) --no-print-directory --jobs 2 lint all-tests

all-tests:
	$(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

# For daily work: each stage alone, and the formulas of the solve.
test-fast: .venv/installed
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/stages tests/oracles/test_solve.py $(PYTEST_ARGS)

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Everything in experiments/results, taken up where it stopped: the paper within an hour, ours two.
experiments: .venv/installed
	$(BIN)/kexpfam reproduce all
	for name in comparison convergence diffusion noise_levels; do $(BIN)/kexpfam reproduce $$name; done
	$(BIN)/python experiments/known_densities.py
	$(BIN)/python experiments/selection.py

# Every claim of docs/benchmarks.md but the GPU's, one after the other; half an hour.
bench: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,bench]'
	for name in moments prediction flow_evaluation tuned_fit tuned_functions peers grid cluster scaling growth costs memory flows trust many_tables rival_kernels attribution conditional missing draws report; do $(BIN)/python benchmarks/$$name.py; done
	$(BIN)/python benchmarks/page.py

# Hostile files, numbers, settings and command lines, for ATTACK_S seconds.
ATTACK_S ?= 1800
attack: .venv/installed
	$(BIN)/python -m attack --seconds $(ATTACK_S)

# The site in docs/_build/html; warnings are errors. Examples run again when they change.
docs: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,test,docs]'
	$(BIN)/sphinx-build -q -W --keep-going -n -b html docs docs/_build/html

linkcheck: docs
	$(BIN)/sphinx-build -q -b linkcheck docs docs/_build/links

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,test]'
	touch $@

clean:
	rm -rf .venv .jax_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf docs/_build docs/api docs/examples docs/sg_execution_times.rst
