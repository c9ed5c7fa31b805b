# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv first.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint format experiments clean

demo: .venv/installed
	$(BIN)/kexpfam demo

# Two workers with one BLAS thread each: more threads than cores slow everything down.
test: .venv/installed lint
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

experiments: .venv/installed
	$(BIN)/python experiments/known_densities.py
	$(BIN)/python experiments/selection.py

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,test]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
