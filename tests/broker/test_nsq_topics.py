"""NSQ's topics and channels, as commands of the broker actor make them, beside AMQP clients."""

from __future__ import annotations

import leveret
import pytest
from leveret.commands.control_client import ask_broker
from topic_commands import TopicCommands
from wire import PERSISTENT, Client, publish


@pytest.fixture
def topic(broker: leveret.Broker) -> TopicCommands:
    return TopicCommands(broker)


def publish_to(client: Client, exchange: str, *bodies: bytes) -> None:
    """With confirms; mandatory, so a message without a queue would be returned."""
    client.send(
        *(publish("", body, PERSISTENT, exchange=exchange, mandatory=True) for body in bodies)
    )
    first = client.next_seq_no
    client.next_seq_no += len(bodies)
    client.expect_acks(range(first, client.next_seq_no))


def bodies_of(client: Client, queue: str) -> list[bytes]:
    """Get all that is ready."""
    bodies = []
    while (got := client.get(queue, no_ack=True)) is not None:
        bodies.append(got.body)
    return bodies


def test_the_first_channel_gets_what_was_published_before_it(
    topic: TopicCommands, client: Client
) -> None:
    topic.do("ENSURE_TOPIC")
    publish_to(client, "t", b"1", b"2")
    answer = topic.do("ENSURE_CHANNEL", "c")
    assert answer.queue is not None
    assert answer.queue.name == "t:c"
    assert bodies_of(client, "t:c") == [b"1", b"2"]


def test_a_policy_of_the_channel_holds_for_what_it_takes_over(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    given = {"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 1}}
    ask_broker(broker.configuration.data_dir, "policy set", given)
    topic.do("ENSURE_TOPIC")
    # No policy applies to the broker's own queue.
    publish_to(client, "t", b"1", b"2", b"3")
    topic.do("ENSURE_CHANNEL", "c")
    assert bodies_of(client, "t:c") == [b"3"]
