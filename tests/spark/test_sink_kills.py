"""Whoever is killed, every row is in the queue: once where it keeps a window of what it has had."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

import pytest
from timeouts import JOB_SECONDS_MAX

pytestmark = pytest.mark.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from target_brokers import RestartableLeveret, Target

HERE = Path(__file__).parent
FILES, LINES = 4, 10_000


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Files of lines that are all different."""
    made = tmp_path / "input"
    made.mkdir()
    for file in range(FILES):
        lines = (f"{file * LINES + line:0200d}" for line in range(LINES))
        (made / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return str(made)


@pytest.fixture
def queues(leveret_target: RestartableLeveret, queue: str) -> Iterator[tuple[str, str]]:
    """One with a window and one without; whatever is published to `queue`, both get."""
    plain = leveret_target.declare(f"{queue}.plain")
    once = leveret_target.declare(f"{queue}.once", x_dedup_window=200_000)
    leveret_target.bind_fanout(queue, plain, once)
    yield plain, once
    with leveret_target.channel() as channel:
        for name in (plain, once):
            channel.queue_delete(name)


def wait_until(reached: Callable[[], bool]) -> None:
    end = monotonic() + JOB_SECONDS_MAX
    while not reached():
        assert monotonic() < end
        Event().wait(0.01)


def check(target: Target, queues: tuple[str, str], count: int) -> None:
    plain, once = queues
    expected = [b"%0200d" % number for number in range(count)]
    assert sorted({message.body for message in target.drain(plain)}) == expected
    assert sorted(message.body for message in target.drain(once)) == expected


def test_a_task_that_is_killed_in_its_window_leaves_each_row_once(
    spark: SparkSession,
    leveret_target: RestartableLeveret,
    queue: str,
    queues: tuple[str, str],
) -> None:
    from faulty_source import KilledSource

    spark.dataSource.register(KilledSource)
    count = 24_000
    frame = spark.range(count, numPartitions=2).selectExpr("lpad(id, 200, '0') AS body")
    options = {**leveret_target.options, "exchange": queue, "routingKey": ""}
    frame.write.format("amqp-killed").options(**options).mode("append").save()
    assert leveret_target.depth(queues[0]) > count
    check(leveret_target, queues, count)


def test_a_stream_goes_on_when_the_broker_is_killed_and_started_again(
    spark: SparkSession,
    leveret_target: RestartableLeveret,
    queue: str,
    queues: tuple[str, str],
    folder: str,
    tmp_path: Path,
) -> None:
    from stream_job import files_to_broker

    checkpoint = str(tmp_path / "checkpoint")
    query = files_to_broker(spark, leveret_target.port, queue, folder, checkpoint).start()
    wait_until(lambda: leveret_target.depth(queues[0]) > LINES)
    leveret_target.kill()
    leveret_target.start()
    assert query.awaitTermination(JOB_SECONDS_MAX)
    check(leveret_target, queues, FILES * LINES)


@contextmanager
def driver(environment: dict[str, str], *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """`stream_job.py` with its Java and its workers; killed with -9, all of them, at the end."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "stream_job.py"), *map(str, arguments)],
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_stream_goes_on_from_its_checkpoint_when_its_driver_was_killed(
    spark: SparkSession,
    spark_environment: dict[str, str],
    leveret_target: RestartableLeveret,
    queue: str,
    queues: tuple[str, str],
    folder: str,
    tmp_path: Path,
) -> None:
    from stream_job import files_to_broker

    checkpoint = str(tmp_path / "checkpoint")
    arguments = (leveret_target.port, queue, folder, checkpoint)
    with driver(spark_environment, *arguments) as process:
        wait_until(lambda: leveret_target.depth(queues[0]) > LINES)
        assert process.poll() is None
    assert leveret_target.depth(queues[1]) < FILES * LINES
    query = files_to_broker(spark, *arguments).start()
    assert query.awaitTermination(JOB_SECONDS_MAX)
    check(leveret_target, queues, FILES * LINES)


def test_a_job_that_is_run_again_under_its_scope_leaves_each_row_once(
    spark: SparkSession,
    leveret_target: RestartableLeveret,
    queue: str,
    queues: tuple[str, str],
) -> None:
    count = 3_000
    frame = spark.range(count, numPartitions=2).selectExpr("lpad(id, 200, '0') AS body")
    options = {**leveret_target.options, "exchange": queue, "routingKey": ""}
    for _ in range(2):
        writer = frame.write.format("amqp").options(dedupScope="orders of Monday", **options)
        writer.mode("append").save()
    assert leveret_target.depth(queues[0]) == 2 * count
    check(leveret_target, queues, count)
