# Two commands for a newcomer: `make demo` runs the main job end to end, `make test` passes the tests.
# Needs Python 3.11+ (PYTHON=python3.12 picks another), Node 20+ and nothing else: no AWS account, no Docker.
PYTHON ?= python3
BIN := .venv/bin
ENVS := dev stg prd sandbox
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
export JSII_RUNTIME_PACKAGE_CACHE_ROOT := $(CURDIR)/build/jsii

.PHONY: help demo test simulate mutants lint check format install synth deploy which lock clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: install ## run a re-import end to end in the sandbox, with a failure, a repair and a redrive
	@$(BIN)/python -m demo

test: install ## unit, contract, infra and sandbox tests
	@$(BIN)/pytest

simulate: install ## SEEDS=10000 schedules of the fleet's leases on virtual time, on all cores
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),10000)

mutants: install ## take out each guard of the fleet's leases in turn: none may go unnoticed
	@$(BIN)/python -m tests.simulation.mutants

lint: install ## ruff, mypy, import-linter, cfn-lint, asl-validator
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@for handler in lambdas/*/handler.py; do $(BIN)/mypy $$handler || exit 1; done
	$(BIN)/lint-imports
	node_modules/.bin/asl-validator --json-path state_machines/reimport.asl.json
	@for env in $(ENVS); do \
	  echo "cfn-lint $$env" && CDK_VALIDATION=false node_modules/.bin/cdk synth --quiet -c env=$$env -o build/lint/$$env && \
	  $(BIN)/cfn-lint build/lint/$$env/*.template.json || exit 1; done

check: test lint ## what CI runs

format: install ## format and mend what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: node_modules/.package-lock.json .venv/.installed ## everything into .venv and node_modules of this clone

.venv/.installed: pyproject.toml requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Longhaul needs Python 3.11 or newer, $(PYTHON) is older: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "installing Python packages into .venv (1 to 5 minutes, without a further word)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt 2>&1 | { grep -v 'is ignored: it is neither' || true; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . 2>&1 | { grep -v 'is ignored: it is neither' || true; }
	@$(BIN)/python -c 'import aws_cdk, inspect_ai, moto, longhaul' 2>/dev/null || \
	  { echo "the installation into .venv is not complete: run make clean, then again" >&2; exit 1; }
	@$(BIN)/python -m stacks.constructs.packaging >/dev/null
	@touch $@

node_modules/.package-lock.json: package.json package-lock.json
	@node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' || \
	  { echo "Longhaul needs Node 20 or newer (for the CDK command line)" >&2; exit 1; }
	@echo "installing the CDK command line into node_modules"
	@npm ci --no-progress --loglevel=error
	@touch $@

synth: install ## templates of every environment into build/synth, without credentials
	@for env in $(ENVS); do node_modules/.bin/cdk synth --quiet -c env=$$env -o build/synth/$$env || exit 1; done

deploy: which install ## cdk deploy --all of ENV=dev|stg|prd with your AWS credentials
	node_modules/.bin/cdk deploy --all -c env=$(ENV)

which:
	@case "$(ENV)" in dev|stg|prd) ;; *) echo "which environment? make deploy ENV=dev (or stg, prd)" >&2; exit 2;; esac

lock: .venv/.installed ## compile the pins again from pyproject.toml (slow)
	$(BIN)/pip-compile $(LOCK) --extra cdk --extra sandbox --extra dev -o requirements-dev.txt pyproject.toml
	$(BIN)/pip-compile $(LOCK) --extra cdk -c requirements-dev.txt -o requirements.txt pyproject.toml
LOCK := -q --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --strip-extras

clean: ## remove what was installed and made; a running sandbox is stopped first
	@for folder in .sandbox build/demo/sandbox; do \
	  test ! -x $(BIN)/python || LONGHAUL_SANDBOX_DIR=$$folder $(BIN)/python -m sandbox down >/dev/null 2>&1 || true; done
	rm -rf .venv node_modules build cdk.out .sandbox *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache
