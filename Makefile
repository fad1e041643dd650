# Taskyard. `make help` lists the targets.
.DEFAULT_GOAL := help
.SUFFIXES:
SHELL := /bin/sh

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# Development values for everything started from here; an environment that says otherwise wins.
export DJANGO_DEBUG ?= 1
# pip pins build tools too, and asks no questions
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

##@ Run
up: guard $(VENV)/.platform ## Start everything: broker, web, one worker per queue, beat, Flower. Ctrl-C stops it
	@exec $(PY) manage.py up

demo: guard $(VENV)/.platform ## Send a realistic load through all five queues and account for every task
	@exec $(PY) manage.py demo $(ARGS)

worker: guard $(VENV)/.platform ## Run one worker; QUEUE=critical for the dedicated worker of a queue
	@exec $(PY) manage.py worker $(if $(QUEUE),--queue $(QUEUE)) $(ARGS)

beat: guard $(VENV)/.platform ## Run the scheduler
	@exec $(PY) manage.py beat

flower: guard $(VENV)/.platform ## Run Flower; its login is printed, or set by TASKYARD_FLOWER_PASSWORD
	@exec $(PY) manage.py flower

web: guard $(VENV)/.platform ## Run the Django site
	@exec $(PY) manage.py web

services: guard $(VENV)/.platform ## Run the embedded broker alone, for the targets above
	@exec $(PY) manage.py services

migrate: guard $(VENV)/.platform ## Apply the database migrations
	@exec $(PY) manage.py migrate

manage: guard $(VENV)/.platform ## Run any Django command: make manage ARGS="shell"
	@exec $(PY) manage.py $(ARGS)

doctor: guard $(VENV)/.platform ## Connect to everything and say what is right and what to do about the rest
	@exec $(PY) manage.py taskyard doctor

config: guard $(VENV)/.platform ## Print the effective configuration, credentials masked
	@exec $(PY) manage.py taskyard config

##@ Check
test: guard $(VENV)/.dev ## Run all tests (starts its own servers; needs redis-server and PostgreSQL for some)
	@exec $(PY) -m pytest $(ARGS)

check: guard $(VENV)/.dev ## Lint, format, types and fast tests, in under two minutes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PY) manage.py makemigrations --check --dry-run
	$(PY) -m pytest tests/unit tests/architecture $(ARGS)

torture: guard $(VENV)/.dev ## Kill things under load and check every task's history; ARGS="--help"
	@PYTHONPATH=platform:. exec $(PY) -m tests.bench.torture $(ARGS)

upstream: guard $(VENV)/.dev ## Run Kombu's and Celery's own tests on our transport; ARGS="--help" (needs redis-server)
	@PYTHONPATH=platform:. exec $(PY) -m tests.upstream.run $(ARGS)

bench: guard $(VENV)/.dev ## Compare with stock Celery in one run; ARGS="--help" (needs redis-server)
	@PYTHONPATH=platform:. exec $(PY) -m tests.bench.bench $(ARGS)

format: guard $(VENV)/.dev ## Format the code and mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: guard $(VENV)/.dev ## Renew constraints.txt from pyproject.toml (needs uv)
	{ head -1 constraints.txt; uv pip compile --universal --all-extras --upgrade --no-emit-index-url \
	  --no-annotate --no-header --quiet pyproject.toml; } > constraints.new && mv constraints.new constraints.txt

##@ Other
wheel: guard $(VENV)/.platform ## Build the kit's wheel under dist/
	@exec $(PY) -m pip wheel --no-deps --wheel-dir dist .

clean: ## Remove the environment, caches and development data (stop `make up` first)
	rm -rf $(VENV) var dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z][a-z-]*:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# platform/ is a source root. With an __init__.py it would shadow Python's own `platform` module, and Celery,
# Django and pytest would not start, with errors that name everything but the cause.
guard:
	@for file in platform/*; do case "$$file" in platform/taskyard|platform/docs|platform/*.md) ;; \
	  *) echo "$$file must not exist: platform/ is a source root that holds taskyard/, docs/ and *.md only." >&2; \
	  exit 1;; esac; done

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Taskyard needs Python 3.11 or newer; $(PYTHON) is older. Name another one: make PYTHON=python3.13 ..." >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(VENV)/.platform: pyproject.toml constraints.txt | $(PY)
	@echo "Installing the platform (once)"
	@$(PY) -m pip install --quiet --editable ".[platform]" --constraint constraints.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.platform
	@echo "Installing the tools for tests (once)"
	@$(PY) -m pip install --quiet --editable ".[dev]" --constraint constraints.txt
	@touch $@

.PHONY: up demo worker beat flower web services migrate manage doctor config test check torture upstream bench format lock wheel clean help guard
