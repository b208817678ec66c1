# Everything a developer or CI runs. `make help` lists it.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# What the environment is made of.
EXTRAS := embedded,prometheus,otel,cli,dashboard,airflow,spark,jdk

# Where it is set, each of the tests' processes would compile the package and all tests again: minutes of a run.
unexport PYTHONDONTWRITEBYTECODE

# Arguments handed on to pytest:  make test ARGS='-k embedded -x'
ARGS ?=

PACKAGES := chasqui_engine chasqui_provider pyspark_chasqui
SOURCES  := $(PACKAGES) $(wildcard tests benchmarks dags_examples demo)

.DEFAULT_GOAL := help
.PHONY: help venv demo test e2e spark docs dist compat fresh check servers soak bench constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP) ## Make .venv, or bring it up to date

# uv does in seconds what pip does in a minute, and pip can bring it from the same registry. It compiles as pip does.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "chasqui needs Python 3.11 or later")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt --group dev --editable '.[$(EXTRAS)]'
	touch $@

demo: $(STAMP) ## Show queue, Airflow and Spark at work on a private server; ARGS=--dashboard serves the page after
	$(BIN)/python -m demo $(ARGS)

check: $(STAMP) ## Lint, format, types, layers
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy --strict $(PACKAGES)
	$(BIN)/pytest -q tests/architecture

# A server that cannot be had does not stop the run here: the tests' summary names it (and in CI fails for it).
servers: $(STAMP) ## Get the Redis servers that the tests run on
	tests/servers/fetch

# Airflow's own database, which is SQLite otherwise.
ON_POSTGRES := CHASQUI_AIRFLOW_DB=postgresql

# Most tests wait for a server more than they compute, so four at a time are well served by two cores. They go from the
# busy to the idle, file or no file: else a file of long tests that begins last keeps everyone waiting for minutes.
# Spark computes: its tests come after, alone. What our listener does in Airflow's database is seen on Postgres too.
test: check servers ## check, then every test but those with a target of their own
	$(BIN)/pytest -n 4 --dist worksteal -m 'not soak and not e2e and not spark' --ignore tests/architecture $(ARGS)
	$(ON_POSTGRES) $(BIN)/pytest $(addprefix tests/provider/integration/asset_events/,test_listener.py test_woken_runs.py)
	$(BIN)/pytest -m 'spark and not slow and not soak' --timeout 300 tests/spark

e2e: $(STAMP) servers ## The provider in a real Airflow, on SQLite and on Postgres: scheduler, triggerers, api-server
	$(BIN)/pytest -m e2e --timeout 600 tests/provider/e2e $(ARGS)
	$(ON_POSTGRES) $(BIN)/pytest -m e2e --timeout 600 tests/provider/e2e $(ARGS)

spark: $(STAMP) servers ## All tests of the data source and the pipeline on a real Spark, the slow ones too
	$(BIN)/pytest -m 'spark and not soak' --timeout 600 tests/spark $(ARGS)

docs: $(STAMP) ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

dist: $(STAMP) ## Build wheel and sdist, install the wheel with each extra and use it; ARGS=cli: with this one
	tests/dist/run $(ARGS)

compat: $(STAMP) ## The engine with every supported redis client and Python, the provider with Airflow as its constraints have it
	tests/compat/run
	tests/compat/airflow 3.1.8
	tests/compat/airflow 3.2.2
	tests/compat/airflow 3.3.1

# Two bare Debians, by debootstrap; takes root and about half an hour.
fresh: ## A clone on bare Debians 12 and 13: demo and tests, with nothing but python3, make and git
	tests/fresh/run $(ARGS)

soak: $(STAMP) servers ## The long runs under load
	$(BIN)/pytest -m soak --timeout 3600 $(ARGS)

bench: $(STAMP) servers ## Measure; see benchmarks/README.md
	$(BIN)/python -m benchmarks.run $(ARGS)

# Names and versions only: the same file serves whatever index a machine is set up with.
constraints: $(STAMP) ## Resolve constraints.txt again (all extras, Python 3.11 and later)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links \
		--all-extras --group dev pyproject.toml --output-file constraints.txt >/dev/null

clean: ## Remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build site
	find $(SOURCES) -name __pycache__ -prune -exec rm -rf {} +
