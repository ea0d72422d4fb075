"""How fast Spark's sink publishes: beside one publish at a time, to Leveret and to RabbitMQ.

    python -m benchmarks.spark_sink --rows 1000000

Rows of 200 octets, persistent, mandatory, every one confirmed; then each queue is read to its end,
and every row must be in it, once and unaltered. Needs the extra `spark`, Java and, for the second
broker, Debian's RabbitMQ. Rates are of whole jobs, `save()` from call to return, in a session that
has done one before.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import leveret.spark
import pika
from pyspark.sql import DataFrame, SparkSession

from benchmarks.brokers import Broker, running

BODY_BYTES = 200
HOST = "127.0.0.1"
WARM_UP_ROWS = 2_000
# What must hold: so many times the rate of one by one, and so many rows a second of one partition.
TIMES_MIN = 12.0
ONE_PARTITION_MIN = 6_000.0


class Rates(NamedTuple):
    """Rows a second to one broker."""

    broker: str
    two_partitions: float
    one_partition: float
    one_by_one: float

    @property
    def times(self) -> float:
        """How much faster than one by one, both from two partitions."""
        return self.two_partitions / self.one_by_one


def session() -> SparkSession:
    """Two cores, workers of this Python."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.driver.memory", "1g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    """Bodies that are all different: the number of the row, filled up."""
    return spark.range(count, numPartitions=partitions).selectExpr(
        f"cast(lpad(id, {BODY_BYTES}, '0') as binary) AS body"
    )


def save(frame: DataFrame, port: int, queue: str) -> None:
    """The measured cases."""
    options = {"host": HOST, "port": str(port), "exchange": "", "routingKey": queue}
    frame.write.format("amqp").options(**options).mode("append").save()


def save_one_by_one(frame: DataFrame, port: int, queue: str) -> None:
    """The same with pika's BlockingConnection, which waits for each confirm."""

    def publish(partition: Iterable[Any]) -> None:
        connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, port))
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2)
        for row in partition:
            channel.basic_publish("", queue, bytes(row.body), properties, mandatory=True)
        connection.close()

    frame.foreachPartition(publish)


def check(port: int, queue: str, count: int) -> None:
    """Read all of it: every row once, as it was; the queue is gone then."""
    seen = bytearray(count)
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, port))
    channel = connection.channel()
    left = channel.queue_declare(queue, passive=True).method.message_count
    assert left == count, f"{left} messages of {count} rows"
    for _method, _properties, body in channel.consume(queue, auto_ack=True):
        assert len(body) == BODY_BYTES
        seen[int(body)] += 1
        left -= 1
        if not left:
            break
    channel.queue_delete(queue)
    connection.close()
    assert seen == b"\1" * count, "a row is missing, and another is there twice"


def measured(
    port: int, frame: DataFrame, count: int, how: Callable[[DataFrame, int, str], None]
) -> float:
    """Rows a second; what arrived is checked."""
    queue = "sink"
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, port))
    connection.channel().queue_declare(queue, durable=True)
    connection.close()
    begun = time.monotonic()
    how(frame, port, queue)
    seconds = time.monotonic() - begun
    check(port, queue, count)
    return count / seconds


def rates(spark: SparkSession, broker: Broker, count: int, one_by_one_count: int) -> Rates:
    """All figures of one broker."""
    port = broker.port
    measured(port, rows(spark, WARM_UP_ROWS, 2), WARM_UP_ROWS, save)
    measured(port, rows(spark, WARM_UP_ROWS, 2), WARM_UP_ROWS, save_one_by_one)
    slow = measured(port, rows(spark, one_by_one_count, 2), one_by_one_count, save_one_by_one)
    fewer = max(1, count // 5)
    one = measured(port, rows(spark, fewer, 1), fewer, save)
    two = measured(port, rows(spark, count, 2), count, save)
    return Rates(broker.name, two, one, slow)


def table(all_rates: Sequence[Rates]) -> str:
    """The figures, a line for each broker."""
    lines = [f"{'':10}{'2 partitions':>14}{'1 partition':>14}{'one by one':>14}{'times':>8}"]
    lines += [
        f"{each.broker:10}{each.two_partitions:14,.0f}{each.one_partition:14,.0f}"
        f"{each.one_by_one:14,.0f}{each.times:8.1f}"
        for each in all_rates
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure and print; 1 if what must hold does not, of Leveret."""
    parser = argparse.ArgumentParser(description="How fast Spark's sink publishes.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--one-by-one-rows", type=int, default=20_000)
    parser.add_argument("--brokers", default="leveret,rabbitmq")
    arguments = parser.parse_args()
    spark = session()
    leveret.spark.register(spark)
    found = []
    for name in arguments.brokers.split(","):
        with running([name], Path("build")) as [broker]:
            found.append(rates(spark, broker, arguments.rows, arguments.one_by_one_rows))
            print(table(found[-1:]), flush=True)
    spark.stop()
    print(table(found))
    ours = [each for each in found if each.broker == "leveret"]
    return int(
        any(each.times < TIMES_MIN or each.one_partition < ONE_PARTITION_MIN for each in ours)
    )


if __name__ == "__main__":
    sys.exit(main())
