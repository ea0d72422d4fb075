"""x-consumer-timeout: who does not ack in time has its channel closed, and nobody else has."""

from __future__ import annotations

import leveret
import pytest
from held_clock import HeldClock
from holding import part, parts
from insides import channel_actor, inside, readers
from leveret.actors.messages import Ref
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    ChannelClose,
    ChannelCloseOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.values.field_table import Field
from leveret.core.channel.outstanding import NOTED_MIN, AckTimeouts
from wire import Client, publish

TIMEOUT_MS = 300


@pytest.fixture(autouse=True)
def clock(broker: leveret.Broker) -> HeldClock:
    return HeldClock(broker)


def over(clock: HeldClock, timeout_ms: int = TIMEOUT_MS) -> None:
    """Let the time go by that an ack has."""
    clock.advance(timeout_ms / 1000)


def timed_out(channel: int = 1, timeout_ms: int = TIMEOUT_MS) -> ChannelClose:
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {channel} timed out. Timeout "
        f"value used: {timeout_ms} ms. This timeout value can be configured, see consumers doc "
        "guide to learn more"
    )
    return ChannelClose(406, text, 0, 0)


def hurried(timeout_ms: int = TIMEOUT_MS, **others: Field) -> dict[str, Field]:
    return {"x-consumer-timeout": Field("signedint", timeout_ms), **others}


def delivered(client: Client, *bodies: bytes, first: int = 1, channel: int = 1) -> None:
    for tag, body in enumerate(bodies, first):
        client.expect_type(channel, BasicDeliver)
        assert client.read_content(channel).body == body, tag


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_delivery_that_is_not_acked_in_time_closes_its_channel_and_comes_back(
    client: Client, clock: HeldClock, kind: str
) -> None:
    quorum = Field("longstr", kind)
    client.declare("q", durable=True, arguments=hurried(**{"x-queue-type": quorum}))
    client.publish_all("q", b"1", b"2", b"3")
    client.open_channel(2)
    client.consume("q", channel=2)
    delivered(client, b"1", b"2", b"3", channel=2)
    client.send_methods(2, BasicAck(1), BasicAck(3))
    client.nothing_more(2)
    over(clock)
    client.expect(2, timed_out(2))
    client.send_methods(2, ChannelCloseOk())
    client.wait_for_counts("q", (1, 0))


def test_a_message_that_was_got_must_be_acked_too(client: Client, clock: HeldClock) -> None:
    client.declare("q", arguments=hurried())
    client.publish_all("q", b"1")
    client.send_methods(1, BasicGet(queue="q"))
    client.read_method(1)
    client.read_content(1)
    over(clock, TIMEOUT_MS - 1)
    client.nothing_more()
    over(clock, 1)
    client.expect(1, timed_out())


def test_a_consumer_that_acks_in_time_goes_on(client: Client, clock: HeldClock) -> None:
    client.declare("q", arguments=hurried())
    client.publish_all("q", b"1", b"2", b"3", b"4")
    client.consume("q")
    delivered(client, b"1", b"2", b"3", b"4")
    client.send_methods(1, BasicAck(2, True), BasicNack(4, False, False), BasicAck(3))
    client.nothing_more()
    over(clock, 2 * TIMEOUT_MS)
    client.nothing_more()
    assert client.counts("q") == (0, 1)


def test_without_the_argument_or_without_acks_nobody_is_hurried(
    client: Client, clock: HeldClock
) -> None:
    client.declare("patient")
    client.declare("q", arguments=hurried())
    client.publish_all("patient", b"1")
    client.publish_all("q", b"2")
    client.consume("patient", "p")
    delivered(client, b"1")
    client.consume("q", "n", no_ack=True)
    delivered(client, b"2")
    over(clock, 2 * TIMEOUT_MS)
    client.nothing_more()


def test_an_ack_in_an_open_transaction_is_one(client: Client, clock: HeldClock) -> None:
    client.declare("q", arguments=hurried())
    client.publish_all("q", b"1")
    client.open_channel(2)
    assert client.ask(2, TxSelect()) == TxSelectOk()
    assert client.get("q", channel=2) is not None
    client.send_methods(2, BasicAck(1))
    client.nothing_more(2)
    over(clock, 2 * TIMEOUT_MS)
    client.nothing_more(2)


def hold_three_in_a_transaction(client: Client) -> None:
    """On channel 2, of one delivery."""
    client.declare("q", arguments=hurried())
    client.publish_all("q", b"1", b"2", b"3")
    client.open_channel(2)
    assert client.ask(2, TxSelect()) == TxSelectOk()
    client.consume("q", channel=2)
    delivered(client, b"1", b"2", b"3", channel=2)


def test_what_a_rollback_gives_back_was_held_all_the_time(client: Client, clock: HeldClock) -> None:
    hold_three_in_a_transaction(client)
    client.send_methods(2, BasicAck(3, True))
    client.nothing_more(2)
    over(clock)
    client.nothing_more(2)
    assert client.ask(2, TxRollback()) == TxRollbackOk()
    client.expect(2, timed_out(2))
    client.send_methods(2, ChannelCloseOk())
    client.wait_for_counts("q", (3, 0))


def test_what_was_acked_before_a_recover_is_hurried_again_by_a_rollback(
    client: Client, clock: HeldClock
) -> None:
    hold_three_in_a_transaction(client)
    # Of one delivery, the middle is acked; the rest goes back, and to another consumer.
    assert client.ask(2, BasicCancel("c")) == BasicCancelOk("c")
    client.send_methods(2, BasicAck(2))
    assert client.ask(2, BasicRecover(True)) == BasicRecoverOk()
    client.wait_for_counts("q", (2, 0))
    over(clock)
    client.nothing_more(2)
    assert client.ask(2, TxRollback()) == TxRollbackOk()
    client.expect(2, timed_out(2))


def note_count(channel: Ref) -> int:
    """How many deliveries the channel has noted the deadlines of."""
    return sum(map(len, parts(part(inside(channel), AckTimeouts), list)))


def test_rollbacks_and_commits_leave_no_notes(client: Client, broker: leveret.Broker) -> None:
    client.declare("q", arguments=hurried(3_600_000))
    client.publish_all("q", *(b"%d" % tag for tag in range(4 * NOTED_MIN)))
    client.open_channel(2)
    assert client.ask(2, TxSelect()) == TxSelectOk()
    for tag in range(1, 2 * NOTED_MIN + 1):
        assert client.get("q", channel=2) is not None
        for end, answer in ((TxRollback(), TxRollbackOk()), (TxCommit(), TxCommitOk())):
            client.send_methods(2, BasicAck(tag))
            assert client.ask(2, end) == answer
    [reader] = readers(broker)
    assert note_count(channel_actor(reader, 2)) <= NOTED_MIN + 1


def test_messages_recovered_in_an_open_transaction_leave_no_notes_of_their_time_outs(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("q", arguments=hurried(3_600_000))
    client.publish_all("q", b"1", b"2")
    client.open_channel(2)
    assert client.ask(2, TxSelect()) == TxSelectOk()
    assert client.get("q", channel=2) is not None
    client.send_methods(2, BasicAck(1))
    for _ in range(2 * NOTED_MIN):
        assert client.get("q", channel=2) is not None
        assert client.ask(2, BasicRecover(True)) == BasicRecoverOk()
    [reader] = readers(broker)
    assert note_count(channel_actor(reader, 2)) == 1


def test_what_was_acked_is_forgotten_long_before_its_time_is_over(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("q", arguments=hurried(3_600_000))
    client.consume("q")
    count = 4 * NOTED_MIN
    for tag in range(1, count + 1):
        client.send(publish("q"))
        for _ in range(2):
            method = client.read_method(1)
            if isinstance(method, BasicDeliver):
                client.read_content(1)
        client.send_methods(1, BasicAck(tag))
    client.nothing_more()
    assert note_count(channel_actor(readers(broker)[0])) <= NOTED_MIN + 1
