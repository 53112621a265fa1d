# Two commands: `make study` runs the main job, `make test` runs the tests.
# Both set everything up first; the second time they start at once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help study test nightly lint newcomer results notebooks paper docs demo clean
.DELETE_ON_ERROR:

help:
	@echo 'make study   set up, compare the routers on the embedded workload, print the report page'
	@echo 'make test    set up, run the tests'
	@echo 'make lint    set up, run lint, types and architecture contracts'
	@echo 'make nightly   set up, compare ticks on 100,000 states a router, run every proof layer'
	@echo 'make newcomer  set up, run the commands of the README as written'
	@echo 'make demo    set up, run emulator, proxy and load, print the dashboard address'
	@echo 'make notebooks  execute the notebooks'
	@echo 'make paper   typeset the paper from the result files: results/paper/paper.pdf'
	@echo 'make docs    build the documentation site: results/docs/index.html'
	@echo 'make results   set up, run the study of the README and put its numbers into the documents'
	@echo 'make clean   remove the virtual environment, caches and results'

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'error: Python 3.11 or newer is needed (set PYTHON=...)' >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'setting up: brtheory'
	@$(PIP) install --quiet --editable '.[fast]'
	@touch $@

$(VENV)/.serve: $(VENV)/.base
	@echo 'setting up: servers'
	@$(PIP) install --quiet --editable '.[fast,serve]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo 'setting up: test tools'
	@$(PIP) install --quiet --editable '.[dev]'
	@touch $@

study: $(VENV)/.base
	@$(BIN)/brtheory study --out results/study

test: $(VENV)/.dev
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not newcomer'

nightly: $(VENV)/.dev
	@BRTHEORY_NIGHTLY=1 HYPOTHESIS_PROFILE=nightly BRTHEORY_TICK_STATES=100000 $(BIN)/python -m pytest -n 2 tests/properties/test_tick_backends.py
	@$(BIN)/brtheory prove --nightly

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

newcomer: $(VENV)/.dev
	@$(BIN)/python -m pytest -m newcomer tests/test_documents.py

results: $(VENV)/.dev
	@$(BIN)/brtheory study --out results/study --seeds 5
	@$(BIN)/python docs/publish.py results/study/results.json
	@for study in scenarios regimes energy tables ablation robustness heterogeneous; do $(BIN)/brtheory study $$study --out results/$$study || exit 1; done
	@$(BIN)/brtheory study scaling --largest 1024 --out results/scaling
	@$(BIN)/python docs/results_page.py results/scenarios results/regimes results/scaling results/energy results/tables results/ablation results/robustness results/heterogeneous
	@$(BIN)/brtheory gap --out results/gap && cp results/gap/gap.json docs/results/gap.json
	@$(BIN)/brtheory bench --json > results/bench.json && mv results/bench.json docs/results/bench.json
	@for benchmark in window window_ideas window_kv window_report prediction prediction_report; do $(BIN)/python -m benchmarks.$$benchmark || exit 1; done

notebooks: $(VENV)/.dev
	@$(BIN)/python -m notebooks.build

paper: $(VENV)/.dev
	@$(BIN)/python -m paper.build

docs: $(VENV)/.dev
	@NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet
	@echo results/docs/index.html

demo: $(VENV)/.serve
	@$(BIN)/brtheory demo --switch-every 30

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache results report
