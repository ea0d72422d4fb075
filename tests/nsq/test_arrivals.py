"""A message's timestamp is the arrival of its batch, wherever the message has been meanwhile."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import leveret
import pytest
from insides import context_of, wait_until
from leveret.amqp_frames.methods import ExchangeDeclare, ExchangeDeclareOk, QueueBind, QueueBindOk
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.configuration import MEMORY_BUDGET_BYTES_MIN
from nsq_calls import post
from nsq_wire import Message, NsqClient, mpub, pub
from wire import Client, publish

# Several times the budget, in an MPUB for each number.
MANY, BODY_BYTES = 100, 2_000


def broker_at(path: Path, **settings: Any) -> leveret.Broker:
    return leveret.Broker(data_dir=path, port=0, nsq_port=0, log_level="error", **settings)


def client_of(broker: leveret.Broker) -> NsqClient:
    assert broker.nsq_port
    return NsqClient(broker.nsq_port)


def test_a_start_keeps_the_timestamps(tmp_path: Path) -> None:
    with broker_at(tmp_path) as broker, client_of(broker) as client:
        for body in (b"1", b"2", b"3"):
            client.send(pub("t", body)).ok()
        client.send(mpub("t", b"4", b"5")).ok()
        before = client.subscribe("t", "c", 5).messages(5)
    assert [each.body for each in before] == [b"1", b"2", b"3", b"4", b"5"]
    times = [each.timestamp_ns for each in before]
    assert times == sorted(times)
    assert len(set(times)) == 4
    for attempts in (2, 3):
        with broker_at(tmp_path) as broker, client_of(broker) as client:
            client.subscribe("t", "c", 5)
            assert client.messages(5) == [each._replace(attempts=attempts) for each in before]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_messages_that_a_paused_topic_kept_have_the_timestamps_of_their_publishing(
    tmp_path: Path, *, is_restarted: bool
) -> None:
    sent: list[tuple[bytes, int, int]] = []
    with broker_at(tmp_path, nsq_http_port=0) as broker, client_of(broker) as client:
        with client_of(broker) as subscriber:
            subscriber.subscribe("t", "c")
        post(broker, "/topic/pause?topic=t")
        for body in (b"1", b"2", b"3"):
            before_ns = time.time_ns()
            client.send(pub("t", body)).ok()
            sent.append((body, before_ns, time.time_ns()))
        if not is_restarted:
            got = resumed(broker)
    if is_restarted:
        with broker_at(tmp_path, nsq_http_port=0) as broker:
            got = resumed(broker)
    for message, (body, before_ns, after_ns) in zip(got, sent, strict=True):
        assert message.body == body
        assert before_ns <= message.timestamp_ns <= after_ns
    # They are in the channel's own records by now.
    with broker_at(tmp_path) as broker, client_of(broker) as client:
        again = client.subscribe("t", "c", 3).messages(3)
    assert [each._replace(attempts=1) for each in again] == got


def resumed(broker: leveret.Broker) -> list[Message]:
    """The three messages that the channel gets when its topic goes on."""
    post(broker, "/topic/unpause?topic=t")
    with client_of(broker) as client:
        return client.subscribe("t", "c", 3).messages(3)


def publish_timed(client: NsqClient, topic: str) -> list[tuple[bytes, int, int]]:
    """More than memory has room for: each body, and between which times it arrived."""
    sent = []
    for number in range(MANY):
        count = 1 if MANY // 3 < number < 2 * MANY // 3 else 60
        bodies = [b"%d %d " % (number, each) + bytes(BODY_BYTES) for each in range(count)]
        before_ns = time.time_ns()
        client.send(mpub(topic, *bodies) if count > 1 else pub(topic, bodies[0])).ok()
        after_ns = time.time_ns()
        sent += [(body, before_ns, after_ns) for body in bodies]
    return sent


@pytest.mark.parametrize("suffix", ["", "#ephemeral"])
def test_messages_that_memory_has_no_room_for_keep_their_timestamps(
    tmp_path: Path, suffix: str
) -> None:
    """Those of an ephemeral channel spill; the others are in the journal."""
    topic = "t" + suffix
    settings = {"memory_budget_bytes": MEMORY_BUDGET_BYTES_MIN}
    with broker_at(tmp_path, **settings) as broker, client_of(broker) as publisher:
        pages = context_of(broker).journal_figures.pages
        with client_of(broker).subscribe(topic, "c" + suffix) as consumer:
            sent = publish_timed(publisher, topic)
            if suffix:
                # What the thread has not spilled by now may go out of memory.
                wait_until(lambda: pages.spilled_messages > len(sent) // 3)
            consumer.send(b"RDY 100\n")
            by_batch: dict[bytes, set[int]] = {}
            for body, before_ns, after_ns in sent:
                message = consumer.message()
                assert message.body == body
                assert before_ns <= message.timestamp_ns <= after_ns
                by_batch.setdefault(body.split()[0], set()).add(message.timestamp_ns)
                consumer.send(b"FIN " + message.id + b"\n")
        assert pages.read_messages > len(sent) // 4
        # An MPUB arrives as one.
        assert {len(times) for times in by_batch.values()} == {1}


def test_a_dead_letter_arrives_when_it_is_published(tmp_path: Path) -> None:
    with broker_at(tmp_path) as broker, client_of(broker) as consumer:
        consumer.subscribe("t", "c", 1)
        with Client(broker.host, broker.port).log_in() as client:
            client.open_channel(1, confirms=True)
            declare = ExchangeDeclare(exchange="source", type="fanout", durable=True)
            assert client.ask(1, declare) == ExchangeDeclareOk()
            letters = table_of({"x-dead-letter-exchange": "t", "x-message-ttl": 20})
            client.declare("source", durable=True, arguments=letters)
            bind = QueueBind(queue="source", exchange="source")
            assert client.ask(1, bind) == QueueBindOk()
            before_ns = time.time_ns()
            client.send(publish("", b"dies", Properties(delivery_mode=2), exchange="source"))
            client.expect_acks([1])
        first = consumer.message()
        # Expiry counts whole milliseconds.
        assert before_ns + 19_000_000 <= first.timestamp_ns <= time.time_ns()
        consumer.send(b"REQ " + first.id + b" 0\n")
        assert consumer.message() == first._replace(attempts=2)
