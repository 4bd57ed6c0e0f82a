# Two commands for a newcomer: `make demo`, then `make test`. Every target may be called again; each says what it does.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
DEMO := runs/demo
LOCK := locks/py311-cpu.txt
INSTALLED := $(VENV)/installed
# Asked only where the ordinary index serves a CUDA build of torch, which cannot be imported without a GPU's libraries.
CPU_INDEX ?= https://download.pytorch.org/whl/cpu
# One thread per process: the tests run in two, and numbers do not depend on how many cores a machine has.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test env lint format docs fuzz mutation campaign nightly bench clean system

# $(call needed,program,packages): programs of the system that tests look for; those tests skip where they are absent.
define needed
	@command -v $(1) >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "== installing $(2)"; export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $(2); } >/dev/null 2>&1 \
	  || echo "== $(2) could not be installed: the tests that need $(1) will skip"; \
	  else echo "== $(1) is not here (Debian: apt-get install $(2)): the tests that need it will skip"; fi
endef

help:
	@echo "make demo     make .venv from the pinned lock, run specs/digits, write its report"
	@echo "make test     the tests that every change must pass"
	@echo "make lint     style, types, layers"
	@echo "make format   lay the code out in the one standard way"
	@echo "make docs     write docs/backends.md from the manifests"
	@echo "make system   as root on Debian: the browser, the reader of PDFs and the sandbox that some tests need"
	@echo "make fuzz     200,000 damaged specs through parser, checker, matcher and layout: nothing but diagnostics"
	@echo "make mutation changes what decides numbers in one small place at a time: 95 % of the changes must be noticed"
	@echo "make campaign every check of tests/campaign, with its full count of seeds; goes on where it was stopped"
	@echo "make nightly  five million damaged specs and the long runs, all 10,000 MNIST images among them (needs ../shared)"
	@echo "make bench    the four measurements of benchmarks/"
	@echo "make clean    remove what the tools left, .venv too; runs/ stays"

env: $(INSTALLED)

$(INSTALLED): $(LOCK) pyproject.toml setup.py
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is needed; PYTHON=/path/to/python3.11 names another one"; exit 1; }
	@echo "== $(VENV): installing the pins of $(LOCK) (about 2 GB, two minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --no-deps -r $(LOCK)
	@$(BIN)/python -c "import torch" 2>/dev/null || { \
	  echo "== $(VENV): this build of torch needs a GPU's libraries; taking the CPU build from $(CPU_INDEX)"; \
	  $(BIN)/pip install --quiet --no-deps --force-reinstall --index-url $(CPU_INDEX) "$$(grep '^torch==' $(LOCK))"; }
	@echo "== $(VENV): installing tmlang from this folder"
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(INSTALLED)
	@echo "== running specs/digits/digits.tm: attacks and proofs on 450 scanned digits"
	@rm -rf $(DEMO)
	@$(BIN)/tmc run specs/digits/digits.tm --trust-code --out $(DEMO) || test $$? -eq 3
	@echo "== auditing the evidence"
	@$(BIN)/tmc audit $(DEMO)
	@echo "== one claim of this example is refuted and one undecided, on purpose (tmc run ends with exit code 3 then)"
	@echo "== read it: $(DEMO)/report.html"

test: $(INSTALLED)
	@echo "== running the tests in two processes, those that share a run in one"
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(INSTALLED)
	@echo "== ruff, mypy, import-linter"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(INSTALLED)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(INSTALLED)
	@$(BIN)/tmc backends --format markdown > docs/backends.md

system:
	$(call needed,chromium,chromium)
	$(call needed,pdftotext,poppler-utils libpangoft2-1.0-0)
	$(call needed,bwrap,bubblewrap)

fuzz: $(INSTALLED)
	@echo "== 200,000 damaged specs"
	@$(BIN)/python tests/fuzz/fuzz_front.py --inputs 200000 --jobs 2

mutation: $(INSTALLED)
	@echo "== mutants of membership, tallies, intervals and hashes"
	@$(BIN)/python tests/mutation/mutate.py

campaign: $(INSTALLED)
	@echo "== every campaign; what was asked before is in runs/campaign"
	@nice $(BIN)/python tests/campaign --all --jobs 2

nightly: $(INSTALLED) system
	$(call needed,pdflatex,texlive-latex-base texlive-latex-recommended)
	@echo "== five million damaged specs, and the long tests"
	@$(BIN)/python tests/fuzz/fuzz_front.py --inputs 5000000 --jobs 2
	@TM_EXPLORE=1 $(BIN)/python -m pytest tests/property
	@$(BIN)/python -m pytest -m nightly
	@$(BIN)/python tests/campaign --all --nightly --fresh --jobs 2 --into runs/nightly
	@$(BIN)/python tests/mutation/mutate.py

bench: $(INSTALLED)
	@$(BIN)/python benchmarks/check_speed.py
	@$(BIN)/python benchmarks/overhead.py
	@$(BIN)/python benchmarks/certify.py
	@$(BIN)/python benchmarks/apgd.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
