# Everything a newcomer or CI types. `make` alone lists it.
#
# All paths are relative and all are inside this folder, so the folder's own path may hold spaces.
# A set of tools is installed once and again only when pyproject.toml or constraints.txt change; each set contains the one before:
#   demo  what `webhook-inbox demo` needs      test  + what the tests need      dev  + linters, type checkers, mutmut

PYTHON ?= python3
BIN := .venv/bin
# pip splits these on spaces and hands them on to the environment that builds the wheel: a relative path does both right.
# (Newer pips read the second name for that environment, older ones the first.)
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check docs fmt schedules faults mutate bench constraints venv clean

help:
	@sed -n 's/^\([a-z]*\):.*## /  make \1 \t/p' Makefile

demo: .venv/.installed-demo ## Stripe deliveries against this inbox and three broken receivers, on a PostgreSQL of its own
	$(BIN)/webhook-inbox demo $(ARGS)

test: .venv/.installed-test ## every test, on PostgreSQL servers of its own; ARGS="tests/unit -k stripe" narrows
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder $(ARGS)

check: .venv/.installed-dev ## format, lint, types, import contract: all that needs no database
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy src tests
	$(BIN)/pyright

docs: .venv/.installed-dev ## build the pages below docs/ as a site in build/docs; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

fmt: .venv/.installed-dev ## format the code and mend what the linter can mend
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

schedules: .venv/.installed-test ## every interleaving of each pair of plans, with a fault at every step (hours)
	WEBHOOK_INBOX_TEST_SCHEDULES=all $(BIN)/pytest tests/schedules $(ARGS)

faults: .venv/.installed-test ## half an hour of random kills under 200 events a second; WEBHOOK_INBOX_TEST_CHAOS_SECONDS says otherwise
	WEBHOOK_INBOX_TEST_CHAOS_SECONDS="$${WEBHOOK_INBOX_TEST_CHAOS_SECONDS:-1800}" WEBHOOK_INBOX_TEST_CHAOS_RATE="$${WEBHOOK_INBOX_TEST_CHAOS_RATE:-200}" \
		$(BIN)/pytest tests/faults/test_chaos.py $(ARGS)

mutate: .venv/.installed-dev ## change the verifiers and the plans in thousands of ways; a test must notice (minutes)
	$(BIN)/python -m tests.mutation.mutate $(ARGS)

bench: .venv/.installed-test ## measure beside the peers, on a PostgreSQL of its own; ARGS="receive --only ours --quick" narrows (needs wrk)
	$(BIN)/python -m benchmarks $(ARGS)

venv: .venv/.installed-dev ## the whole tool set, for an editor

constraints: ## pin the newest releases that pyproject.toml allows; use the oldest Python that is supported
	rm -rf build/constraints
	"$(PYTHON)" -m venv build/constraints
	PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= build/constraints/bin/pip install --quiet hatchling editables --editable '.[dev]'
	build/constraints/bin/pip freeze --exclude-editable | grep -v ' @ ' | LC_ALL=C sort -f > constraints.txt
	rm -rf build/constraints

clean: ## remove everything that make made
	rm -rf .venv build dist mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.made:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "webhook-inbox needs Python 3.11 or newer, and '$(PYTHON)' is not that; name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@"$(PYTHON)" -m venv .venv \
	  || { echo "'$(PYTHON)' cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

.venv/.installed-demo: .venv/.made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable '.[demo]'
	@touch $@

.venv/.installed-test: .venv/.made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable '.[test]'
	@touch $@ .venv/.installed-demo

.venv/.installed-dev: .venv/.made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@ .venv/.installed-demo .venv/.installed-test
