# Everything runs in .venv, which is made at need. Nothing is installed outside this folder,
# except Java (and python3-venv), as root on Debian and Ubuntu, where there is none.
ROWS = 10e6
VENV = .venv
BIN = $(VENV)/bin
INSTALLED = $(VENV)/.installed
STORES = $(VENV)/.stores
DOCS = $(VENV)/.docs
RELEASE = $(VENV)/.release
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A lane has a worker a core, four at most, for each has a Spark of its own. A choice of tests (T=..) has no workers.
WORKERS = --numprocesses auto --maxprocesses 4
# Tests take turns, which the commit draws, or SAMPLE=123; WHOLE=1 runs all of them. DURATIONS=1 prints where the time goes.
TURNS = $(if $(WHOLE),,--turns) $(if $(DURATIONS),--seconds)
# The tests of each lane, by their markers: each test is in one.
ALONE = not random and not servers and not hive and not stores and not lake
OF_TEST = (not spark or contract) and $(ALONE)
OF_SPARK = spark and not contract and $(ALONE)
OF_SOAK = random and not stores and not lake
OF_SERVERS = (servers or hive) and not random and not stores and not lake
OF_STORES = stores
COVERED = $(if $(COVERAGE),--cov=hive_bitmap --cov-report=term:skip-covered)
# Spark runs on the Java that this finds or gets.
WITH_JAVA = JAVA_HOME=$$(sh scripts/java.sh $(BIN)/python) && export JAVA_HOME &&

export PYSPARK_PYTHON = $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON = $(PYSPARK_PYTHON)
# Another Spark's or Python's settings would mix with ours; and without kept bytecode, each process compiles all modules.
unexport SPARK_HOME SPARK_CONF_DIR SPARK_REMOTE HADOOP_CONF_DIR HIVE_CONF_DIR PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL = help
.PHONY: help install demo test test-spark check bench bench-hive bench-functions bench-stores hive servers soak stores lake jar compat answers golden notebook format test-docker docs dist release clean

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | awk -F@ '{ printf "%-23s %s\n", $$1, $$2 }'

install: $(INSTALLED) ## make .venv with the tested versions of all that is needed

$(BIN)/python:
	@echo "making $(VENV)" >&2
	@sh scripts/venv.sh $(VENV)

$(INSTALLED): setup.cfg constraints.txt | $(BIN)/python
	@echo "installing into $(VENV) (the first time some 600 MB are fetched)" >&2
	@$(PIP) --upgrade pip
	@$(PIP) --constraint constraints.txt --editable '.[demo,dev,test]'
	@touch $@

$(STORES): $(INSTALLED)
	@echo "installing a server of S3 into $(VENV)" >&2
	@$(PIP) --constraint constraints.txt --editable '.[stores]'
	@touch $@

$(DOCS): $(INSTALLED)
	@echo "installing MkDocs into $(VENV)" >&2
	@$(PIP) --constraint constraints.txt --editable '.[docs]'
	@touch $@

$(RELEASE): $(INSTALLED)
	@echo "installing twine into $(VENV)" >&2
	@$(PIP) --constraint constraints.txt --editable '.[release]'
	@touch $@

demo: $(INSTALLED) ## index a year of flights from New York, 12 times, and ask a few questions
	@$(WITH_JAVA) $(BIN)/python -m demo

test: $(INSTALLED) ## run the tests without Spark, and one of Spark for each promise; T="tests/core/planning -k name" runs all of T
	@$(WITH_JAVA) $(BIN)/python -m pytest $(COVERED) $(or $(T),$(WORKERS) $(TURNS) -m "$(OF_TEST)")

test-spark: $(INSTALLED) ## run the other tests with Spark that need no servers; WHOLE=1, SAMPLE=123, DURATIONS=1, COVERAGE=1 as in all lanes
	@$(WITH_JAVA) $(BIN)/python -m pytest $(COVERED) $(WORKERS) $(TURNS) -m "$(OF_SPARK)"

check: $(INSTALLED) ## lint, check the format, and check the types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(INSTALLED) ## format the Python code
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

bench: $(INSTALLED) ## measure side by side with Spark and DuckDB; ROWS=1e6 for a smaller table
	@$(WITH_JAVA) $(BIN)/python -m bench --rows $(ROWS)

bench-hive: $(INSTALLED) ## compare the indexes that Hive 2.3 builds with ours for it, on as many rows (ROWS=1e6)
	@$(WITH_JAVA) $(BIN)/python -m bench.hive --rows $(if $(filter file,$(origin ROWS)),1e6,$(ROWS))

bench-functions: $(INSTALLED) ## measure the functions of ddl/functions.sql
	@$(WITH_JAVA) $(BIN)/python -m bench.functions

hive: $(INSTALLED) ## run the tests with real Hive servers; their reader's splits are printed as a table
	@$(WITH_JAVA) $(BIN)/python -m pytest $(WORKERS) -m hive tests

compat: $(INSTALLED) ## install the wheel beside each PySpark from 4.0 on, and run all entry points; VERSIONS="4.0 lowest"
	@$(WITH_JAVA) $(BIN)/python -m compat $(if $(PYTHON),--python $(PYTHON)) $(VERSIONS)

lake: $(INSTALLED) ## run the tests of Delta and Iceberg tables in an environment with PySpark 4.1; T="tests/lake -k name", LONG=10 SEED=100 for more; DELTA=4.1.0 ICEBERG=1.11.0 SPARK=4.0
	@$(WITH_JAVA) $(BIN)/python -m compat.lake $(if $(SPARK),--spark $(SPARK)) $(or $(T),$(TURNS) --numprocesses auto --maxprocesses 2 tests/lake) $(if $(LONG),--long $(LONG)) $(if $(SEED),--seed $(SEED)) $(if $(DELTA),--delta $(DELTA)) $(if $(ICEBERG),--iceberg $(ICEBERG))

servers: $(INSTALLED) ## run the tests with real servers, and Spark in other processes: Hive, metastores, Thrift, Connect, a cluster
	@$(WITH_JAVA) $(BIN)/python -m pytest $(WORKERS) $(TURNS) -m "$(OF_SERVERS)" tests

soak: $(INSTALLED) ## run random queries, tables and edits for as long as you like: LONG=50 SEED=1000 EXCEPT=tests/sparksql
	@$(WITH_JAVA) $(BIN)/python -m pytest $(WORKERS) $(TURNS) -m "$(OF_SOAK)" --long $(or $(LONG),10) --seed $(or $(SEED),0) $(EXCEPT:%=--ignore=%) tests

answers: $(INSTALLED) ## ask plain Spark the queries of tests/spark/catalyst/corpus, and keep digests of its answers
	@$(WITH_JAVA) $(BIN)/python -m tests.spark.catalyst.kept_answers

golden: $(INSTALLED) ## keep indexes of this version in tests/golden, which later versions must read
	@$(WITH_JAVA) $(BIN)/python -m tests.golden.make

notebook: $(INSTALLED) ## run docs/notebook.ipynb, and keep what its cells show
	@$(WITH_JAVA) $(BIN)/python -m tests.notebooks docs/notebook.ipynb

jar: $(INSTALLED) ## compile the Java of jvm/ into the jar of the package
	@$(WITH_JAVA) $(BIN)/python scripts/jar.py

test-docker: dist ## run the same tests with the servers of docker/compose.yaml, which needs a Docker engine
	@$(WITH_JAVA) $(BIN)/python -m pytest $(WORKERS) -m hive --docker tests

stores: $(STORES) ## run the tests with real HDFS and S3 servers, S3=versitygw (needs Go) with a strict one; first some 800 MB of jars are fetched
	@$(WITH_JAVA) $(BIN)/python -m pytest -m "$(OF_STORES)" $(if $(S3),--s3 $(S3)) $(or $(T),$(TURNS) --numprocesses auto --maxprocesses 2 tests/stores)

bench-stores: $(STORES) ## measure requests and seconds on S3, at 0, 30 and 100 ms a request, side by side with Spark
	@$(WITH_JAVA) $(BIN)/python -m bench.stores

docs: $(DOCS) ## build the site of the pages and the Python API into site/
	@$(BIN)/python -m mkdocs build --strict --clean

dist: $(INSTALLED) ## build the wheel and the source distribution into dist/
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist .

release: $(RELEASE) ## build and try what a release consists of, and list its licences; REHEARSAL=1 without a date in CHANGELOG.md
	@$(WITH_JAVA) REHEARSAL=$(REHEARSAL) $(BIN)/python scripts/release.py

clean: ## remove all that make has made, .venv and Java included
	rm -rf $(VENV) .java build dist site *.egg-info demo-warehouse bench-warehouse .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
