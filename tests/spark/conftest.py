"""One Spark session for all tests: its JVM takes ten seconds to start, and each kind of Python
process that Spark runs another two.

What is not Spark's is tested without it, in modules that ask for no `spark`; modules that do carry
the marker `spark`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from leveret.spark.session import java_missing
from timeouts import JOB_SECONDS_MAX, TIMEOUT_SECONDS

if TYPE_CHECKING:
    from leveret.spark.source.stream_source import StreamReader
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
for folder in (HERE, HERE.parents[1], HERE.parent / "storage"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from source_queue import SourceQueue  # noqa: E402 - found only now

pytest.register_assert_rewrite("target_brokers")

from target_brokers import KillableRabbitMQ, RestartableLeveret, Target  # noqa: E402

from benchmarks.brokers import RABBITMQ_MISSING, RABBITMQ_SERVER, RabbitMQ  # noqa: E402

# Each JVM lives too shortly for its second compiler, which takes half of the processor time of a
# start. But the code cache that comes with one compiler, 48 MB, is full after the trace checks, and
# then no task's end is heard of any more.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
# Of every driver that the tests start: this process's, those that are killed, those on a cluster.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # What Spark waits for a Python process to begin; its 15 s are too few on a busy machine.
    "spark.python.authenticate.socketTimeout": f"{JOB_SECONDS_MAX:.0f}s",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
}


def spark_missing() -> str | None:
    """Why there can be no session; None if there can."""
    for name in ("pyspark", "pyarrow", "pandas"):
        if find_spec(name) is None:
            return f"{name} is not installed: pip install 'leveret[spark]'"
    return java_missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = spark_missing()
    for item in items:
        if reason and HERE in item.path.parents and item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def spark_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a driver: its workers run this Python, and find the data source.

    An editable installation is not in the list of modules that PySpark searches for `pyspark_...`;
    a directory in PYTHONPATH is.
    """
    found_in = tmp_path_factory.mktemp("found")
    (found_in / "pyspark_leveret").symlink_to(HERE.parents[1] / "pyspark_leveret")
    configuration = tmp_path_factory.mktemp("spark-conf")
    lines = [f"{name} {value}\n" for name, value in SETTINGS.items()]
    (configuration / "spark-defaults.conf").write_text("".join(lines))
    return {
        "SPARK_CONF_DIR": str(configuration),
        # Of the JVM that only works out the command line of the next one.
        "SPARK_LAUNCHER_OPTS": JAVA_OPTIONS,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(
            # The tests' own folder: workers import what is in it by bare names.
            filter(None, [str(found_in), str(HERE), os.environ.get("PYTHONPATH")])
        ),
    }


@pytest.fixture(scope="session")
def spark(
    spark_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """The session: two cores, and a task may fail twice before its job does."""
    from pyspark.sql import SparkSession

    directory = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment.items():
            patch.setenv(name, value)
        builder = SparkSession.builder.master("local[2,3]").appName("leveret")
        builder = builder.config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        builder = builder.config("spark.local.dir", str(directory / "local"))
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        gateway = session.sparkContext._gateway
        yield session
        session.stop()
        # The JVM runs for as long as its standard input is open.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(TIMEOUT_SECONDS)


@pytest.fixture
def reader() -> Iterator[Callable[..., StreamReader]]:
    """Makes readers of a queue's stream, which Spark would ask; stopped at the end."""
    from leveret.spark.schema import read_schema
    from leveret.spark.source.source import stream_reader

    with ExitStack() as stack:

        def make(source: SourceQueue, /, **options: object) -> StreamReader:
            named = {name: str(value) for name, value in options.items()}
            # On a busy machine a broker may be silent for longer than the default's second.
            given = source.options | {"idleTimeoutMs": "30000"} | named
            made = stream_reader(given, read_schema())
            stack.callback(made.stop)
            return made

        yield make


@pytest.fixture(scope="session")
def leveret_target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestartableLeveret]:
    """Leveret as its users start it; who kills it starts it again."""
    target = RestartableLeveret(tmp_path_factory.mktemp("leveret"))
    yield target
    target.kill()


@pytest.fixture(scope="session")
def rabbitmq_target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """RabbitMQ as Debian ships it."""
    if not RABBITMQ_SERVER.exists():
        pytest.skip(RABBITMQ_MISSING)
    rabbitmq = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    try:
        rabbitmq.start()
        yield Target("rabbitmq", rabbitmq.port)
    finally:
        rabbitmq.stop()


@pytest.fixture(params=["leveret", "rabbitmq"])
def target(request: pytest.FixtureRequest) -> Target:
    """Each of them."""
    found: Target = request.getfixturevalue(f"{request.param}_target")
    return found


@pytest.fixture(params=["leveret", "rabbitmq"])
def killable(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[RestartableLeveret | KillableRabbitMQ]:
    if request.param == "rabbitmq" and not RABBITMQ_SERVER.exists():
        pytest.skip(RABBITMQ_MISSING)
    kind = RestartableLeveret if request.param == "leveret" else KillableRabbitMQ
    broker = kind(tmp_path)
    yield broker
    broker.kill()


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    name: str = request.node.name
    return f"{request.node.module.__name__.rsplit('.', 1)[-1]}.{name}"[:200]


@pytest.fixture
def source(target: Target, queue: str) -> Iterator[SourceQueue]:
    """A queue to read, of each broker."""
    source = SourceQueue(target.port, queue)
    yield source
    source.delete()
    source.close()
