# Everything here works on a fresh clone with Python 3.11 or later; the first call makes .venv.
#
#   make run      a broker on 127.0.0.1:5672 (LEVERET_PORT=5673 make run: there), data in ./leveret-data
#   make test     all tests but the long ones; says what it installs for them before it does, and
#                 with TOOLS=no installs nothing: tests that lack a tool are skipped and say why
#   make check    in under a minute, for each change: rules, codec, journal, trace and style, with a
#                 tenth of the random examples. Left out is whatever needs a socket, another
#                 process or a JVM: live brokers, clients, differential and crash runs, Spark
#   make soak     the long ones: many rounds of kill -9, the long figures
#   make bench    side by side with RabbitMQ, which must be installed; BENCH='--rounds 1' goes along;
#                 then limits, what the trace costs, the same over TLS, and what expiring
#                 messages cost those who publish. BENCH='--only real real-200x1' runs these rows and
#                 nothing else, BENCH='--only real --brokers leveret' without RabbitMQ. Two commits:
#                 python -m benchmarks.compare DIR_A DIR_B
#   make simulate whole nodes on one thread each, with simulated clients, crashes, disk and clock,
#                 from SEEDS=1000 seeds, or those from FIRST=4001 on, in PROCESSES=2, by default one
#                 for each processor; SEED=7: one, with its history
#   make fuzz     hostile octets into codecs, reader, records and recovery: RUNS=100000 inputs each, or
#                 SECONDS=60 each; TARGETS='decoder reader'; coverage-guided by Atheris; TARGETS=compiled: the
#                 loops in C, under sanitizers. Before them, without TARGETS: requests to the management API,
#                 LEVERET_API_CASES=10 of each kind, by Schemathesis
#   make sanitize the tests of the codecs, in both forms, with the compiled one built for AddressSanitizer and
#                 UndefinedBehaviorSanitizer; needs a gcc that has both
#   make trips    a newcomer's map: the modules that four commands pass through; TRIPS=publish: one
#   make lint     ruff      make types    mypy --strict, against the installed package

PYTHON ?= python3
# no: the system is left as it is, and so are Celery, PySpark and amqplib.
TOOLS ?= yes
# Of pytest, for `make test` and `make check`: each takes a processor. With 0 there is one process,
# which names each file as it runs.
WORKERS ?= 2
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
INSTALLED := .venv/installed
CHECKED := tests/core tests/amqp_frames tests/storage tests/logs tests/test_tidy.py

SEEDS ?= 1000
FIRST ?= 1

RUNS ?= 100000
SECONDS ?= 0
TARGETS ?=

.PHONY: run test check soak bench simulate fuzz sanitize trips lint types tools clean
.DELETE_ON_ERROR:

run: $(INSTALLED)
	@echo 'Next, in another terminal:  $(BIN)/python docs/examples/publish_confirms.py'
	@echo 'Stop with Ctrl-C. The data stays in ./leveret-data.'
	@exec $(BIN)/leveret serve --data-dir leveret-data

# A worker that dies fails the run, and none takes its place: pytest-xdist can then wait for ever. So
# does a test that hangs: the slowest takes a minute, and none needs 15.
test: $(INSTALLED) tools
	$(PYTEST) -m "not soak" -n $(WORKERS) --max-worker-restart=0 --timeout=900

check: $(INSTALLED)
	@SHORT_CHECK=yes $(PYTEST) -q -m "not soak and not sockets" -n $(WORKERS) --max-worker-restart=0 $(CHECKED)

soak: $(INSTALLED) tools
	$(PYTEST) -m soak -s

bench: $(INSTALLED)
	@status=0; \
	$(BIN)/python -m benchmarks.side_by_side --json build/bench.json $(BENCH) || status=$$?; \
	[ -z '$(findstring --only,$(BENCH))' ] || exit $$status; \
	$(BIN)/python -m benchmarks.limits || status=$$?; \
	$(BIN)/python -m benchmarks.trace_cost || status=$$?; \
	$(BIN)/python -m benchmarks.side_by_side --tls || status=$$?; \
	$(BIN)/python -m benchmarks.expiry_cost || status=$$?; \
	exit $$status

simulate: $(INSTALLED)
	@$(BIN)/python tests/simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --first $(FIRST) $(if $(PROCESSES),--processes $(PROCESSES)))

# Atheris is installed if it can be had: it has wheels for CPython on Linux. Else Hypothesis draws.
fuzz: $(INSTALLED)
	@[ '$(TOOLS)' = no ] || $(BIN)/python -c 'import atheris' 2>/dev/null || \
	  $(BIN)/python -m pip install -q -e '.[fuzz]' || echo 'without Atheris: Hypothesis'
	@[ '$(TOOLS)' = no ] || .ci/tools management
	@[ -n '$(TARGETS)' ] || $(PYTEST) -q -m soak tests/management/test_fuzzed.py
	@$(BIN)/python tests/fuzz $(TARGETS) --runs $(RUNS) --seconds $(SECONDS)

# Python is not built for the sanitizers: their library is loaded first, the interpreter's own
# allocator would hide ours from it, and what the interpreter never frees is no leak of the codec.
SANITIZED := build/sanitized
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all
sanitize: $(INSTALLED)
	rm -rf build/lib $(SANITIZED)
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation --target $(SANITIZED) .
	rm -f $(SANITIZED)/leveret/amqp_frames/compiled/_codec.*so
	gcc -shared -fPIC -g -O1 $(SANITIZERS) \
	  "-I$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
	  -o $(SANITIZED)/leveret/amqp_frames/compiled/_codec.abi3.so amqp_frames/compiled/_codec.c
	@export LD_PRELOAD="$$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  PYTHONMALLOC=malloc PYTHONPATH=$(SANITIZED); \
	$(BIN)/python -c 'from leveret.amqp_frames.compiled import _codec; assert "$(SANITIZED)" in _codec.__file__' && \
	$(PYTEST) -q -n0 -p no:cacheprovider -m "not soak" tests/amqp_frames tests/nsq_frames && \
	LEVERET_COMPILED=no $(PYTEST) -q -n0 -p no:cacheprovider -m "not soak" tests/amqp_frames tests/nsq_frames

# The files that a publish, an ack, a declare and a dead letter pass through, in order.
trips: $(INSTALLED)
	$(BIN)/python -m benchmarks.trips $(TRIPS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Types are checked where users have them: in an installed package, not in the folders.
types: $(INSTALLED)
	rm -rf build/lib build/typed
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation --target build/typed .
	MYPYPATH=build/typed $(BIN)/mypy --strict -p leveret -p pyspark_leveret -p benchmarks

# The compiled form of the codec is built where there is a compiler, and left out where there is none.
$(INSTALLED): pyproject.toml $(wildcard setup.py amqp_frames/compiled/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Python 3.11 or later is needed: make PYTHON=python3.11'; exit 1; }
	@[ '$(TOOLS)' = no ] || PYTHON='$(PYTHON)' .ci/tools venv
	@# One that is there keeps its Python: another one's files in between would break it.
	[ -x $(BIN)/python ] || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install -q --upgrade pip 'setuptools>=77'
	$(BIN)/python -m pip install -qq --no-build-isolation -e '.[test,lint]'
	@touch $@

# What some tests call, if it can be had: AMQP clients in C and Java, Celery, aio-pika, amqplib and nsqjs for Node, clients of the
# management API, PySpark with Java, the oldest Pykka allowed, and strace. RabbitMQ, for tests/differential and `make bench`, is
# not among them: its package starts a server.
tools: $(INSTALLED)
	@[ '$(TOOLS)' = no ] || .ci/tools clients celery management node spark pykka

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis leveret.egg-info amqp_frames/compiled/*.so
