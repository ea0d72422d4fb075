"""The sink in Spark's batch jobs, against both brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

pytestmark = pytest.mark.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from target_brokers import Target

ROWS = 5_000


def rows(spark: SparkSession, count: int = ROWS) -> DataFrame:
    """Bodies of 200 octets that are all different, in two partitions."""
    from pyspark.sql import functions as sql

    return spark.range(count, numPartitions=2).select(
        sql.lpad(sql.col("id").cast("string"), 200, "x").cast("binary").alias("body"),
        sql.col("id").alias("number"),
    )


def expected(count: int = ROWS) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


def bodies(messages: list[Any]) -> list[bytes]:
    return sorted(message.body.lstrip(b"x") for message in messages)


def write(frame: DataFrame, target: Target, **options: object) -> None:
    named = {name: str(value) for name, value in options.items()}
    frame.write.format("amqp").options(**target.options, **named).mode("append").save()


def with_both(*ways: str, leveret_only: tuple[str, ...]) -> list[Any]:
    """Where the difference is the sink's alone, RabbitMQ's turn comes with the long tests."""
    found: list[Any] = [(name, way) for name in ("leveret", "rabbitmq") for way in ways]
    for way in leveret_only:
        found += [("leveret", way), pytest.param("rabbitmq", way, marks=pytest.mark.soak)]
    return found


@contextmanager
def consumed_slowly(target: Target, queue: str) -> Iterator[list[bytes]]:
    """Takes messages in a thread, ten at a time; what it has taken and acked."""
    taken: list[bytes] = []
    end = Event()

    def take(channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        taken.append(body.lstrip(b"x"))
        channel.basic_ack(method.delivery_tag)

    def consume() -> None:
        with target.channel() as channel:
            channel.basic_qos(prefetch_count=10)
            channel.basic_consume(queue, take)
            while not end.is_set():
                channel.connection.process_data_events(0.05)

    consumer = Thread(target=consume)
    consumer.start()
    try:
        yield taken
    finally:
        end.set()
        consumer.join()


def some_unroutable(spark: SparkSession, queue: str) -> DataFrame:
    """One row of a hundred goes to a queue that is not there."""
    from pyspark.sql import functions as sql

    nowhere = sql.col("number") % 100 == 7
    key = sql.when(nowhere, sql.lit("nowhere")).otherwise(sql.lit(queue))
    return rows(spark).withColumn("routing_key", key).drop("number")


def test_every_row_is_in_the_queue_once_and_as_it_was(
    spark: SparkSession, target: Target, queue: str
) -> None:
    target.declare(queue)
    write(rows(spark).drop("number"), target, exchange="", routingKey=queue)
    messages = target.drain(queue)
    assert bodies(messages) == expected()
    assert {len(message.body) for message in messages} == {200}
    assert {message.properties.delivery_mode for message in messages} == {2}
    ids = {message.properties.message_id for message in messages}
    assert len(ids) == ROWS
    assert ids == {message.headers["x-dedup-id"] for message in messages}
    assert len({message.headers["x-dedup-producer"] for message in messages}) == 1


def test_columns_become_properties_and_headers(
    spark: SparkSession, target: Target, queue: str
) -> None:
    target.declare(queue)
    frame = spark.sql(
        f"""SELECT 'text ä' AS body, '' AS exchange, '{queue}' AS routing_key, 'mine' AS message_id,
            map('a', 'b', 'n', NULL) AS headers, 'text/plain' AS content_type,
            'c' AS correlation_id, 'r' AS reply_to, 't' AS type, 'app' AS app_id,
            3 AS priority, 1 AS delivery_mode, 60000L AS expiration_ms,
            timestamp '2020-01-01 00:00:01Z' AS timestamp"""
    )
    write(frame, target)
    [message] = target.drain(queue)
    properties = message.properties
    assert message.body == "text ä".encode()
    assert (properties.message_id, message.headers["x-dedup-id"]) == ("mine", "mine")
    assert (message.headers["a"], message.headers["n"]) == ("b", None)
    assert (properties.content_type, properties.correlation_id) == ("text/plain", "c")
    assert (properties.reply_to, properties.type, properties.app_id) == ("r", "t", "app")
    assert (properties.priority, properties.delivery_mode) == (3, 1)
    assert (properties.expiration, properties.timestamp) == ("60000", 1577836801)


def test_headers_of_octets_stay_octets(spark: SparkSession, target: Target, queue: str) -> None:
    target.declare(queue)
    frame = spark.sql(
        "SELECT X'00ff' AS body, array(named_struct('key', 'k', 'value', X'00ff')) AS headers"
    )
    write(frame, target, exchange="", routingKey=queue, dedup="none")
    [message] = target.drain(queue)
    assert (message.body, message.headers) == (b"\x00\xff", {"k": b"\x00\xff"})


@pytest.mark.parametrize(
    ("target", "on_returned"),
    with_both("fail", "deadletter", leveret_only=("count", "ignore")),
    indirect=["target"],
)
def test_on_returned_decides_on_unroutable_rows(
    spark: SparkSession,
    target: Target,
    queue: str,
    on_returned: str,
) -> None:
    from pyspark.errors import PySparkException

    target.declare(queue)
    dead = target.declare(f"{queue}.dead")
    frame = some_unroutable(spark, queue)
    options = {"exchange": "", "onReturned": on_returned}
    if on_returned == "deadletter":
        options |= {"deadLetterExchange": "", "deadLetterRoutingKey": dead}
    if on_returned == "fail":
        with pytest.raises(PySparkException) as caught:
            write(frame, target, **options)
        said = str(caught.value)
        assert "50 of 5000 rows were returned by the broker, 4950 are published and stay" in said
        assert said.count("312 NO_ROUTE") >= 20
    else:
        write(frame, target, **options)
    routable = [number for number in range(ROWS) if number % 100 != 7]
    # Returned rows are not tried again, so even a job that fails has published once.
    assert bodies(target.drain(queue)) == sorted(b"%d" % number for number in routable)
    letters = target.drain(dead)
    if on_returned != "deadletter":
        assert letters == []
        return
    assert bodies(letters) == sorted(b"%d" % number for number in range(7, ROWS, 100))
    headers = letters[0].headers
    assert (headers["x-return-code"], headers["x-return-text"]) == (312, "NO_ROUTE")
    assert (headers["x-original-exchange"], headers["x-original-routing-key"]) == ("", "nowhere")
    assert headers["x-spark-query"] == headers["x-dedup-producer"]


@pytest.mark.parametrize(
    ("target", "on_nacked"),
    with_both("deadletter", leveret_only=("retry", "ignore")),
    indirect=["target"],
)
def test_on_nacked_decides_on_nacked_rows(
    spark: SparkSession, target: Target, queue: str, on_nacked: str
) -> None:
    from pyspark.errors import PySparkException

    target.declare(queue, x_max_length=20, x_overflow="reject-publish")
    dead = target.declare(f"{queue}.dead")
    options = {
        "exchange": "",
        "routingKey": queue,
        "onNacked": on_nacked,
        "publishRetries": 1,
        "retryBackoffMs": 1,
    }
    if on_nacked == "deadletter":
        options |= {"deadLetterExchange": "", "deadLetterRoutingKey": dead}
    frame = rows(spark, 100).drop("number")
    if on_nacked == "retry":
        with pytest.raises(PySparkException, match=r"the broker nacked row \d+ 2 times"):
            write(frame, target, **options)
    else:
        write(frame, target, **options)
    kept = bodies(target.drain(queue))
    letters = target.drain(dead)
    assert 20 <= len(kept) <= 30
    if on_nacked != "retry":
        assert len(set(kept)) == len(kept)
    if on_nacked == "deadletter":
        assert sorted(kept + bodies(letters)) == expected(100)
        assert {each.headers["x-return-text"] for each in letters} == {"NACK"}
    else:
        assert letters == []


def test_a_nack_that_passes_costs_nothing_but_time(
    spark: SparkSession, target: Target, queue: str
) -> None:
    """A queue that is full has room again when its consumer has taken something."""
    target.declare(queue, x_max_length=50, x_overflow="reject-publish")
    with consumed_slowly(target, queue) as taken:
        options = {"exchange": "", "routingKey": queue, "publishRetries": 50, "retryBackoffMs": 5}
        write(rows(spark, 400).drop("number"), target, **options)
    kept = taken + bodies(target.drain(queue))
    assert sorted(set(kept)) == expected(400)


@pytest.mark.soak
def test_a_task_that_is_killed_in_the_middle_loses_nothing_in_rabbitmq(
    spark: SparkSession, rabbitmq_target: Target, queue: str
) -> None:
    """As tests/spark/test_sink_kills.py has it with Leveret."""
    from faulty_source import KilledSource

    spark.dataSource.register(KilledSource)
    rabbitmq_target.declare(queue)
    count = 24_000
    frame = rows(spark, count).drop("number")
    options = {**rabbitmq_target.options, "exchange": "", "routingKey": queue}
    frame.write.format("amqp-killed").options(**options).mode("append").save()
    messages = rabbitmq_target.drain(queue)
    assert sorted(set(bodies(messages))) == expected(count)
    # Its first batch was published, and again by the second try: under the same ids.
    assert len(messages) > count
    assert len({message.properties.message_id for message in messages}) == count


def test_what_cannot_be_is_said_before_any_task(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    # A task that touched this frame would fail with another text.
    frame = spark.range(10).selectExpr("cast(raise_error('a task has run') as binary) AS body")
    for options, said in (
        ({"exchange": "", "routingKey": "q", "maxInFligt": "1"}, "did you mean maxInFlight?"),
        ({"exchange": "q"}, 'neither an option "routingKey" nor a column "routing_key"'),
        ({"exchange": "", "routingKey": "q", "uri": "amqp://u:geheim@h:x"}, "a port must be"),
    ):
        with pytest.raises(PySparkException) as caught:
            frame.write.format("amqp").options(**options).mode("append").save()
        assert said in str(caught.value).split("\n")[0]
        assert "geheim" not in str(caught.value)
    with pytest.raises(PySparkException, match="nothing that is in a queue is overwritten"):
        frame.write.format("amqp").options(exchange="", routingKey="q").mode("overwrite").save()
    with pytest.raises(PySparkException, match='there is no column "body" to write'):
        spark.range(1).write.format("amqp").options(exchange="", routingKey="q").mode(
            "append"
        ).save()


def test_no_plan_and_no_failed_task_shows_the_password(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    options = {"uri": "amqp://ann:geheim@127.0.0.1:1", "reconnectTimeoutMs": "50"}
    frame = spark.range(1).selectExpr("cast(id as string) AS body")
    writer = frame.write.format("amqp").options(exchange="", routingKey="q", **options)
    with pytest.raises(PySparkException, match="no broker can be reached") as caught:
        writer.mode("append").save()
    assert "geheim" not in str(caught.value)
    read = spark.read.format("amqp").options(queue="q", **options).load()
    plan = read._jdf.queryExecution().toString()
    assert "amqp" in plan
    assert "geheim" not in plan
