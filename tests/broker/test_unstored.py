"""Publishes that the disk has no room for: nacked once, and there nowhere any more.

The journal's word for it is told by the test, while its own sync is held back; what makes the
journal say so is in test_full_disk.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import leveret
import pytest
from gated_files import GatedFiles
from holding import parts
from identified import declare as declare_window
from identified import each, known, numbers
from insides import context_of, in_flight_count, inside, on_loop, queue_actor, wait_until
from leveret.actors.messages import AlarmCleared, Append, Unstored
from leveret.actors.runtime.runtime import tell
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicReject,
    ChannelClose,
    ExchangeDeclare,
    QueueBind,
    TxCommit,
    TxSelect,
)
from leveret.amqp_frames.values.field_table import table_of
from wire import PERSISTENT, TRANSIENT, Client, publish

Connect = Callable[..., Client]


@pytest.fixture
def syncing(client: Client, files: GatedFiles) -> Callable[..., None]:
    """Publish, and return when the journal has written it and waits for the disk."""

    def held(*publishes: bytes) -> None:
        files.hold()
        client.send(*publishes)
        files.wait_until_syncing()

    return held


def unstore(broker: leveret.Broker, *queues: str) -> None:
    """Tell the queues that there is no room for what the journal has of theirs."""

    def tell_them() -> None:
        for queue in queues:
            ref = queue_actor(broker, queue)
            tell(ref, Unstored(tuple(parts(inside(ref), Append))))

    on_loop(broker, tell_them)


def test_an_unstored_message_is_nacked_once_and_removed_whatever_the_journal_answers_later(
    client: Client, broker: leveret.Broker, files: GatedFiles, syncing: Callable[..., None]
) -> None:
    client.declare("q", durable=True)
    client.publish_all("q", b"before", properties=PERSISTENT)
    syncing(publish("q", b"lost", PERSISTENT), publish("q", b"transient", TRANSIENT))
    client.expect(1, BasicAck(3, False))
    unstore(broker, "q")
    client.expect(1, BasicNack(2, False, True))
    files.release()
    client.send(publish("q", b"after", PERSISTENT))
    client.expect(1, BasicAck(4, False))
    assert client.counts("q") == (3, 0)
    bodies = [got.body for _ in range(3) if (got := client.get("q", no_ack=True))]
    assert bodies == [b"before", b"transient", b"after"]


def test_an_unstored_message_that_a_consumer_got_does_not_come_back(
    client: Client,
    connect: Connect,
    broker: leveret.Broker,
    files: GatedFiles,
    syncing: Callable[..., None],
) -> None:
    client.declare("q", durable=True)
    consumer = connect()
    consumer.open_channel(1)
    consumer.consume("q")
    syncing(publish("q", b"1", PERSISTENT) + publish("q", b"2", PERSISTENT))
    for number in (1, 2):
        consumer.expect_delivery(BasicDeliver("c", number, False, "", "q"), b"%d" % number)
    unstore(broker, "q")
    client.expect(1, BasicNack(2, True, True))
    # One is given back, the other acked; then a client goes with nothing in its hands.
    consumer.send_methods(1, BasicReject(1, True), BasicAck(2, False))
    wait_until(lambda: in_flight_count(broker, "q") == 0)
    consumer.nothing_more()
    files.release()
    client.send(publish("q", b"3", PERSISTENT))
    client.expect(1, BasicAck(3, False))
    consumer.expect_delivery(BasicDeliver("c", 3, False, "", "q"), b"3")


def test_a_batch_of_several_queues_is_in_none_of_them_and_each_publish_nacked_once(
    client: Client, broker: leveret.Broker, files: GatedFiles, syncing: Callable[..., None]
) -> None:
    client.ask(1, ExchangeDeclare(exchange="all", type="fanout"))
    for queue in ("a", "b"):
        client.declare(queue, durable=True)
        client.ask(1, QueueBind(queue=queue, exchange="all"))
    syncing(publish("", b"x", PERSISTENT, exchange="all") * 3)
    unstore(broker, "a", "b")
    client.expect(1, BasicNack(3, True, True))
    files.release()
    client.nothing_more()
    assert client.counts("a") == client.counts("b") == (0, 0)


def test_a_queue_that_has_its_copy_on_the_disk_keeps_it(
    client: Client, broker: leveret.Broker, files: GatedFiles, syncing: Callable[..., None]
) -> None:
    """As where a queue refuses what another takes: the nack is for all of them."""
    client.ask(1, ExchangeDeclare(exchange="all", type="fanout"))
    for queue in ("a", "b"):
        client.declare(queue, durable=True)
        client.ask(1, QueueBind(queue=queue, exchange="all"))
    syncing(publish("", b"x", PERSISTENT, exchange="all"))
    unstore(broker, "b")
    client.expect(1, BasicNack(1, False, True))
    files.release()
    client.nothing_more()
    assert (client.counts("a"), client.counts("b")) == ((1, 0), (0, 0))


def test_a_transaction_fails_and_says_why(
    connect: Connect, client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("q", durable=True)
    other = connect()
    other.open_channel(1)
    other.ask(1, TxSelect())
    other.send(publish("q", b"1", PERSISTENT))
    files.hold()
    other.send_methods(1, TxCommit())
    files.wait_until_syncing()
    unstore(broker, "q")
    closed = other.expect_type(1, ChannelClose)
    assert (closed.reply_code, closed.reply_text) == (
        406,
        "PRECONDITION_FAILED - partial tx completion, no space left on the disk",
    )
    files.release()
    assert client.counts("q") == (0, 0)


def test_a_dead_letter_is_made_anew_when_there_is_room_and_its_original_stays_until_then(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    table = table_of({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    client.declare("q", durable=True, arguments=table)
    client.declare("dead", durable=True)
    client.publish_all("q", b"1", properties=PERSISTENT)
    assert client.get("q") is not None
    context = context_of(broker)
    files.hold()
    client.send_methods(1, BasicReject(1, False))
    files.wait_until_syncing()
    context.is_disk_full = True
    unstore(broker, "dead")
    wait_until(lambda: publisher_of(broker).waiting_count == 1)
    files.release()
    assert client.counts("dead") == (0, 0)
    # A stop does not wait for it: the journal has the original.
    assert publisher_of(broker).is_drained()
    context.is_disk_full = False
    tell(context.dead_letters, AlarmCleared())
    client.wait_for_counts("dead", (1, 0))
    assert client.counts("q") == (0, 0)


def test_an_original_whose_dead_letter_had_no_room_is_there_after_a_restart(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    table = table_of({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    client.declare("q", durable=True, arguments=table)
    client.declare("dead", durable=True)
    client.publish_all("q", b"1", properties=PERSISTENT)
    assert client.get("q") is not None
    context_of(broker).is_disk_full = True
    client.send_methods(1, BasicReject(1, False))
    wait_until(lambda: publisher_of(broker).waiting_count == 1)
    broker.stop()
    with broker, Client(broker.host, broker.port).log_in() as again:
        again.open_channel(1)
        assert (again.counts("q"), again.counts("dead")) == ((1, 0), (0, 0))


def publisher_of(broker: leveret.Broker) -> Any:
    return inside(context_of(broker).dead_letters)


def test_an_identity_is_not_remembered_and_what_repeats_it_is_nacked_too(
    client: Client, broker: leveret.Broker, files: GatedFiles, syncing: Callable[..., None]
) -> None:
    declare_window(client)
    client.publish_all("q", b"0", properties=known(0))
    # The second 1 waits for the first to be on the disk.
    syncing(each("q", 1, 2), each("q", 1, 0))
    unstore(broker, "q")
    answers: dict[int, bool] = {}
    while len(answers) < 4:
        answer = client.read_method(1)
        assert isinstance(answer, BasicAck | BasicNack)
        low = 2 if answer.multiple else answer.delivery_tag
        for number in range(low, answer.delivery_tag + 1):
            answers.setdefault(number, isinstance(answer, BasicAck))
    assert [answers[number] for number in (2, 3, 4)] == [False] * 3
    files.release()
    client.send(publish("q", b"again", known(1)), publish("q", b"and again", known(1)))
    client.expect_acks(range(6, 8))
    assert numbers(client) == [b"0", b"again"]
