# Two commands do everything on a fresh Debian or Ubuntu machine: `make demo` and `make test`.
# Both first do `make setup`, which names what the machine lacks. All talk of make itself goes to stderr.

PYTHON ?= python3
ifeq ($(strip $(PYTHON)),)
override PYTHON := python3
endif
ARGS ?=

# PYTHON=python3.12 gets an environment of its own, so that several versions live side by side.
ifeq ($(PYTHON),python3)
VENV := .venv
else
VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
endif

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
NATIVE := parlora/_native.abi3.so
NATIVE_SOURCES := $(shell find native -type f -not -path '*/tests/*' -not -name '*.o' -not -name '_native.c' 2>/dev/null)

.PHONY: help setup demo test chaos lint bench acceptance clean

help:
	@echo 'make setup       make .venv, install Parlora into it and build the native part (names what is missing)'
	@echo 'make demo        a whole spoken call, offline'
	@echo 'make test        every test; PYTHON=python3.12 for another interpreter, ARGS=tests/unit for some of them'
	@echo 'make chaos       2,000 random faults, for an hour or so; PARLORA_SEED=N repeats a storm'
	@echo 'make lint        ruff and mypy'
	@echo 'make bench       every benchmark; ARGS=--json for one JSON line each'
	@echo 'make acceptance  the rows of docs/acceptance.md with the tests that prove them; ARGS=--json for one JSON line'
	@echo 'make clean       remove everything that make made'

setup: $(INSTALLED) $(NATIVE)
	@:

$(INSTALLED): pyproject.toml setup.cfg setup.py .ci/install
	@sh .ci/prerequisites '$(PYTHON)'
	@echo 'setup: with the extra "offline" comes eSpeak NG (GPL-3.0-or-later); Parlora itself is MIT' >&2
	@sh .ci/install '$(PYTHON)' '$(VENV)'
	@touch $@

$(NATIVE): $(NATIVE_SOURCES) setup.py | $(INSTALLED)
	@echo 'setup: building the native part' >&2
	@$(BIN)/python setup.py -q build_ext --inplace --force >&2
	@touch $@

demo: setup
	@echo 'demo: the voices are made by eSpeak NG, which is GPL-3.0-or-later; by this command you choose to use it' >&2
	@$(BIN)/parlora-actor demo $(ARGS)

test: setup
	@$(BIN)/python -m pytest $(ARGS)

chaos: setup
	@for round in $$(seq 20); do \
		echo "chaos: round $$round of 20, eight at a time" >&2; $(BIN)/python -m pytest -q tests/kills/test_matrix.py || exit 1; \
	done
	@PARLORA_FAULTS=$${PARLORA_FAULTS:-2000} PARLORA_CHAOS_S=$${PARLORA_CHAOS_S:-7200} \
		$(BIN)/python -m pytest -s --timeout=0 tests/chaos $(ARGS)

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: setup
	@failed=; for benchmark in benchmarks/[a-z]*.py; do \
		echo "bench: $$benchmark" >&2; $(BIN)/python $$benchmark $(ARGS) || failed="$$failed $$benchmark"; \
	done; [ -z "$$failed" ] || { echo "bench: failed:$$failed" >&2; exit 1; }

acceptance: setup
	@$(BIN)/python -m tests.acceptance $(ARGS)

clean:
	rm -rf .venv .venv-* build dist *.egg-info actors/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f parlora/_native*.so native/_native.c parlora/_native.c
	find parlora actors native tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
