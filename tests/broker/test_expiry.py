"""Messages that expire, as their publishers and consumers see them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from served import Served
from wire import PERSISTENT, Client, publish


def ttl(milliseconds: int, **others: Field) -> dict[str, Field]:
    return {"x-message-ttl": Field("signedint", milliseconds)} | others


def text(value: str) -> Field:
    return Field("longstr", value)


def expiring(milliseconds: int, mode: int = 2) -> Properties:
    return Properties(delivery_mode=mode, expiration=str(milliseconds))


def assert_holds(client: Client, queue: str, count: int, since: float, milliseconds: int) -> None:
    """So many are ready; but a busy disk may have taken longer than they live."""
    counts = client.counts(queue)
    assert counts == (count, 0) or time.monotonic() - since >= milliseconds / 1000


def assert_empties(client: Client, queue: str, since: float, milliseconds: int) -> None:
    """The queue gets empty when it is time, and not before."""
    client.wait_for_counts(queue, (0, 0))
    elapsed = time.monotonic() - since
    assert milliseconds / 1000 - 0.01 <= elapsed


@pytest.mark.parametrize("durable", [True, False])
def test_the_messages_of_a_queue_with_a_ttl_expire_on_time(client: Client, durable: bool) -> None:
    client.declare("q", durable=durable, arguments=ttl(600))
    since = time.monotonic()
    client.publish_all("q", b"1", b"2", b"3", properties=PERSISTENT)
    assert_holds(client, "q", 3, since, 600)
    assert_empties(client, "q", since, 600)
    assert client.get("q") is None


@pytest.mark.parametrize("mode", [1, 2])
def test_a_message_with_an_expiration_expires_in_any_queue(client: Client, mode: int) -> None:
    client.declare("q", durable=True)
    # The queue has a past.
    client.publish_all("q", b"stays")
    assert client.get("q", no_ack=True)
    since = time.monotonic()
    client.publish_all("q", b"goes", properties=expiring(600, mode))
    assert_holds(client, "q", 1, since, 600)
    assert_empties(client, "q", since, 600)


@pytest.mark.parametrize(("own", "queues"), [(200, 60_000), (60_000, 200)])
def test_the_smaller_of_the_two_times_wins(client: Client, own: int, queues: int) -> None:
    client.declare("q", arguments=ttl(queues))
    since = time.monotonic()
    client.publish_all("q", b"m", properties=expiring(own))
    assert_empties(client, "q", since, 200)


def test_a_message_waits_behind_one_that_lives_longer(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"long", properties=expiring(60_000))
    client.publish_all("q", b"short", properties=expiring(0))
    assert client.counts("q") == (2, 0)
    # At the head it goes at once, and is not delivered.
    got = client.get("q", no_ack=True)
    assert got is not None
    assert (got.body, got.left) == (b"long", 0)


@pytest.mark.parametrize("properties", [PERSISTENT, Properties(delivery_mode=2, expiration="0")])
def test_with_a_ttl_of_0_a_message_reaches_a_waiting_consumer_or_nobody(
    client: Client, properties: Properties
) -> None:
    arguments = {} if properties.expiration else ttl(0)
    client.declare("q", durable=True, arguments=arguments)
    # Confirmed all the same.
    client.publish_all("q", b"lost", properties=properties)
    assert client.counts("q") == (0, 0)
    assert client.ask(1, BasicQos(prefetch_count=1)) == BasicQosOk()
    client.consume("q")
    client.send(publish("q", b"1", properties), publish("q", b"2", properties))
    client.expect_delivery(BasicDeliver("c", 1, False, "", "q"), b"1")
    client.expect_acks(range(2, 4))
    assert client.counts("q") == (0, 1)


def test_messages_in_flight_expire_only_when_they_come_back(
    client: Client, connect: Callable[..., Client]
) -> None:
    client.declare("q", durable=True, arguments=ttl(600))
    client.declare("clock", arguments=ttl(650))
    consumer = connect()
    consumer.open_channel(1)
    # It waits: what is published is with it at once, however long the disk takes.
    consumer.consume("q")
    for tag, answer in enumerate((BasicNack(1, False, True), BasicAck(2)), 1):
        client.publish_all("q", b"held", properties=PERSISTENT)
        consumer.expect_delivery(BasicDeliver("c", tag, False, "", "q"), b"held")
        client.publish_all("clock", b"tick")
        client.wait_for_counts("clock", (0, 0))
        consumer.send_methods(1, answer)
        consumer.nothing_more()
        assert client.counts("q") == (0, 1)


def test_expired_messages_go_to_the_dead_letter_exchange(client: Client) -> None:
    target = {"x-dead-letter-exchange": text(""), "x-dead-letter-routing-key": text("dead")}
    client.declare("q", durable=True, arguments=ttl(100, **target))
    client.declare("dead", durable=True)
    client.publish_all("q", b"1", b"2", properties=PERSISTENT)
    client.wait_for_counts("dead", (2, 0))
    assert client.counts("q") == (0, 0)
    client.consume("dead", no_ack=True)
    client.expect(1, BasicDeliver("c", 1, False, "", "dead"))
    headers = client.read_content(1).properties.headers
    assert headers is not None
    death = headers["x-death"].value[0].value  # type: ignore[index,union-attr]
    assert death["reason"].value == "expired"  # type: ignore[index,call-overload]


def test_what_a_get_finds_expired_behind_its_message_is_dead_lettered_too(client: Client) -> None:
    target = {"x-dead-letter-exchange": text(""), "x-dead-letter-routing-key": text("dead")}
    client.declare("q", durable=True, arguments=target)
    client.declare("dead", durable=True)
    client.publish_all("q", b"long", properties=expiring(60_000))
    client.publish_all("q", b"short", properties=expiring(0))
    got = client.get("q", no_ack=True)
    assert got is not None
    assert (got.body, got.left) == (b"long", 0)
    client.wait_for_counts("dead", (1, 0))


def test_deadlines_survive_kill_and_two_starts(tmp_path: Path) -> None:
    """None lives longer for a restart, none shorter; what expired meanwhile goes."""
    lives_seconds = 0.0
    for start in range(3):
        began = time.monotonic()
        with Served(tmp_path) as served, Client(served.host, served.port) as client:
            client.log_in()
            client.open_channel(1, confirms=True)
            client.declare("queue's", durable=True, arguments=ttl(3_600_000))
            client.declare("own", durable=True)
            client.declare("gone", durable=True)
            if not start:
                # So long that the two starts do not take it all, as long as they may take here.
                lives_seconds = 1 + 4 * (time.monotonic() - began)
                client.publish_all("queue's", b"1", b"2", properties=PERSISTENT)
                client.publish_all("gone", b"x", properties=expiring(50))
                own = expiring(round(1000 * lives_seconds)), expiring(3_600_000), PERSISTENT
                frames = [publish("own", b"%d" % n, each) for n, each in enumerate(own)]
                client.send(*frames)
                client.expect_acks(range(4, 7))
            assert client.counts("queue's") == (2, 0)
            if start:
                assert client.counts("gone") == (0, 0)
            if start == 2:
                client.wait_for_counts("own", (2, 0))
                # Had its time begun anew with this start, it would not be over.
                assert time.monotonic() - began < lives_seconds
                got = client.get("own", no_ack=True)
                assert got is not None
                assert got.body == b"1"
            served.signal(signal.SIGKILL)
            served.exit_code()


def test_what_is_committed_expires_and_its_time_begins_with_the_commit(client: Client) -> None:
    client.declare("q", durable=True)
    client.open_channel(2)
    assert client.ask(2, TxSelect()) == TxSelectOk()
    client.send(publish("q", b"tx", expiring(600), channel=2))
    client.declare("clock", arguments=ttl(650))
    client.publish_all("clock", b"tick")
    client.wait_for_counts("clock", (0, 0))
    since = time.monotonic()
    assert client.ask(2, TxCommit()) == TxCommitOk()
    assert_holds(client, "q", 1, since, 600)
    assert_empties(client, "q", since, 600)


def test_copies_expire_in_every_queue(client: Client) -> None:
    for queue in ("q", "carbon", "blind"):
        client.declare(queue)
    names = {
        name: Field("array", [Field("longstr", queue)])
        for name, queue in (("CC", "carbon"), ("BCC", "blind"))
    }
    since = time.monotonic()
    copied = Properties(headers=names, expiration="600")
    client.publish_all("q", b"m", properties=copied)
    for queue in ("q", "carbon", "blind"):
        assert_holds(client, queue, 1, since, 600)
    for queue in ("q", "carbon", "blind"):
        assert_empties(client, queue, since, 600)
