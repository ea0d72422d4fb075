"""Arguments that are replaced on a live queue, with clients and the disk: as a policy would."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import leveret
import pika
import pytest
from insides import context_of, on_loop, queue_definition, wait_until
from leveret.actors.messages import SetArguments
from leveret.actors.runtime.runtime import tell
from leveret.amqp_frames.values.field_table import table_of
from leveret.configuration import MEMORY_BUDGET_BYTES_MIN
from leveret.core.definitions import ReplaceQueueArguments
from pika.adapters.blocking_connection import BlockingChannel

COUNT = 3_000
SIZE = 1_000


@pytest.fixture
def broker(tmp_path: Path):
    settings = {
        "memory_budget_bytes": MEMORY_BUDGET_BYTES_MIN,
        "segment_bytes_max": 1024 * 1024,
        "log_level": "warning",
    }
    with leveret.Broker(data_dir=tmp_path / "data", port=0, **settings) as broker:
        yield broker


@pytest.fixture
def channel(broker: leveret.Broker):
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        yield connection.channel()


def replace(broker: leveret.Broker, name: str, *changes: dict[str, object]) -> None:
    """Have these arguments in effect, and no others; one change behind another."""
    queue = queue_definition(broker, name)

    def change() -> None:
        for arguments in changes:
            context_of(broker).vhosts["/"].table.apply(
                (ReplaceQueueArguments(queue, table_of(arguments)),)
            )
            tell(queue.handle, SetArguments(queue.effective))

    on_loop(broker, change)


def fill(channel: BlockingChannel, queue: str, count: int, delivery_mode: int = 2) -> None:
    for number in range(count):
        about = pika.BasicProperties(delivery_mode=delivery_mode)
        channel.basic_publish("", queue, (b"%d " % number).ljust(SIZE), about)
    # Answered behind the publishes.
    depth(channel, queue)


def depth(channel: BlockingChannel, queue: str) -> int:
    return channel.queue_declare(queue, durable=True, passive=True).method.message_count


@pytest.mark.parametrize("delivery_mode", [1, 2], ids=["transient", "persistent"])
def test_a_limit_by_bytes_counts_messages_that_are_on_the_disk_only(
    broker: leveret.Broker, channel: BlockingChannel, delivery_mode: int
) -> None:
    channel.queue_declare("q", durable=True)
    fill(channel, "q", COUNT, delivery_mode)
    replace(broker, "q", {"x-max-length-bytes": 10 * SIZE})
    wait_until(lambda: depth(channel, "q") == 10)
    _, _, body = channel.basic_get("q", auto_ack=True)
    assert body.split()[0] == b"%d" % (COUNT - 10), "the oldest have left"


def test_a_shorter_queue_sends_what_it_drops_to_the_exchange_that_came_with_it(
    broker: leveret.Broker, channel: BlockingChannel
) -> None:
    channel.queue_declare("q", durable=True)
    channel.queue_declare("dead", durable=True)
    fill(channel, "q", COUNT)
    replace(
        broker,
        "q",
        {
            "x-max-length-bytes": 5 * SIZE,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    wait_until(lambda: depth(channel, "dead") == COUNT - 5)
    assert depth(channel, "q") == 5
    _, about, body = channel.basic_get("dead", auto_ack=True)
    assert about.headers["x-death"][0]["reason"] == "maxlen"
    assert body.split()[0] == b"0"


def test_a_lease_that_comes_later_begins_then_and_one_that_goes_never_ends(
    broker: leveret.Broker, channel: BlockingChannel
) -> None:
    for name in ("later", "shorter", "cleared"):
        channel.queue_declare(name, durable=True)
        fill(channel, name, 1)
    replace(broker, "shorter", {"x-expires": 600_000})
    replace(broker, "cleared", {"x-expires": 1}, {})
    replace(broker, "later", {"x-expires": 1})
    replace(broker, "shorter", {"x-expires": 1})
    table = context_of(broker).vhosts["/"].table
    wait_until(lambda: [queue.name for queue in table.queues()] == ["cleared"])


def test_a_consumer_timeout_that_comes_later_is_for_later_deliveries(
    broker: leveret.Broker, channel: BlockingChannel
) -> None:
    channel.queue_declare("q", durable=True)
    fill(channel, "q", 2)
    channel.basic_get("q")
    replace(broker, "q", {"x-consumer-timeout": 1})
    assert channel.is_open, "the first delivery has no time-out"
    with suppress(pika.exceptions.ChannelClosedByBroker):
        channel.basic_get("q")

    def is_closed() -> bool:
        channel.connection.process_data_events()
        return channel.is_closed

    wait_until(is_closed)
