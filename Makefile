# Everything here works on a fresh clone with Python 3.11 or later; the first call makes .venv.
#
#   make run      a broker on 127.0.0.1:5672 (LEVERET_PORT=5673 make run: there), data in ./leveret-data
#   make test     all tests but the long ones
#   make soak     the long ones: many rounds of kill -9, the long figures
#   make bench    side by side with RabbitMQ, which must be installed; BENCH='--rounds 1' goes along;
#                 then limits, what the trace costs, the same over TLS, and what expiring
#                 messages cost those who publish
#   make lint     ruff      make types    mypy --strict, against the installed package

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
INSTALLED := .venv/installed

.PHONY: run test soak bench lint types tools clean
.DELETE_ON_ERROR:

run: $(INSTALLED)
	@echo 'Next, in another terminal:  $(BIN)/python docs/examples/publish_confirms.py'
	@echo 'Stop with Ctrl-C. The data stays in ./leveret-data.'
	@exec $(BIN)/leveret serve --data-dir leveret-data

test: $(INSTALLED) tools
	$(PYTEST) -m "not soak"

soak: $(INSTALLED) tools
	$(PYTEST) -m soak -s

bench: $(INSTALLED)
	@status=0; \
	$(BIN)/python -m benchmarks.side_by_side --json build/bench.json $(BENCH) || status=$$?; \
	$(BIN)/python -m benchmarks.limits || status=$$?; \
	$(BIN)/python -m benchmarks.trace_cost || status=$$?; \
	$(BIN)/python -m benchmarks.side_by_side --tls || status=$$?; \
	$(BIN)/python -m benchmarks.expiry_cost || status=$$?; \
	exit $$status

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Types are checked where users have them: in an installed package, not in the folders.
types: $(INSTALLED)
	rm -rf build/lib build/typed
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation --target build/typed .
	MYPYPATH=build/typed $(BIN)/mypy --strict -p leveret -p pyspark_leveret -p benchmarks

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Python 3.11 or later is needed: make PYTHON=python3.11'; exit 1; }
	@.ci/tools venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --upgrade pip 'setuptools>=77'
	$(BIN)/python -m pip install -qq --no-build-isolation -e '.[test,lint]'
	@touch $@

# What some tests call, if it can be had: AMQP clients in C, Celery, amqplib for Node, PySpark with Java,
# and strace. What
# cannot be installed skips its tests, with the reason. RabbitMQ, for tests/differential and `make bench`,
# is not installed by this: its package starts a server.
tools: $(INSTALLED)
	@.ci/tools clients
	@.ci/tools celery
	@.ci/tools node
	@.ci/tools spark

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis leveret.egg-info
