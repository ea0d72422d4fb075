"""Queues that may hold so much, as their publishers and consumers see them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    QueueBind,
    QueueBindOk,
    TxCommit,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.values.field_table import Field
from served import Served
from wire import PERSISTENT, TRANSIENT, Client, publish


def limits(**values: int | str) -> dict[str, Field]:
    """length=3, length_bytes=10, overflow="..." as arguments."""
    names = {"length": "x-max-length", "length_bytes": "x-max-length-bytes"}
    return {
        names.get(name, f"x-{name}"): Field(
            "longstr" if isinstance(value, str) else "signedint", value
        )
        for name, value in values.items()
    }


def bodies(client: Client, queue: str) -> list[bytes]:
    """All that is ready, taken out."""
    found = []
    while (got := client.get(queue, no_ack=True)) is not None:
        found.append(got.body)
    return found


@pytest.mark.parametrize("durable", [True, False])
def test_with_drop_head_the_oldest_go_and_all_are_confirmed(client: Client, durable: bool) -> None:
    client.declare("q", durable=durable, arguments=limits(length=3))
    client.publish_all("q", *(b"%d" % n for n in range(10)), properties=PERSISTENT)
    assert client.counts("q") == (3, 0)
    assert bodies(client, "q") == [b"7", b"8", b"9"]


def test_only_bodies_count_towards_x_max_length_bytes(client: Client) -> None:
    client.declare("q", arguments=limits(length_bytes=6))
    client.publish_all("q", b"abc", b"", b"def", b"", b"g")
    assert bodies(client, "q") == [b"", b"def", b"", b"g"]


def test_a_message_above_the_limit_of_bytes_is_dropped_with_all_before_it(client: Client) -> None:
    client.declare("q", arguments=limits(length_bytes=6))
    client.publish_all("q", b"abc", b"too large")
    client.publish_all("q", b"x")
    assert bodies(client, "q") == [b"x"]


def test_with_reject_publish_what_is_too_much_is_nacked(client: Client) -> None:
    client.declare("q", durable=True, arguments=limits(length=2, overflow="reject-publish"))
    client.send(publish("q", b"1", PERSISTENT), publish("q", b"2", PERSISTENT))
    client.expect_acks(range(1, 3))
    client.send(publish("q", b"3", PERSISTENT))
    client.expect(1, BasicNack(3, False, True))
    assert bodies(client, "q") == [b"1", b"2"]
    # There is room again.
    client.send(publish("q", b"4", PERSISTENT))
    client.expect(1, BasicAck(4, False))
    assert bodies(client, "q") == [b"4"]


def test_a_smaller_message_still_comes_in_behind_one_that_was_rejected(client: Client) -> None:
    client.declare("q", arguments=limits(length_bytes=4, overflow="reject-publish"))
    client.send(publish("q", b"abc"), publish("q", b"de"), publish("q", b"f"))
    client.expect(1, BasicAck(1, True), BasicAck(3, False), BasicNack(2, False, True))
    assert bodies(client, "q") == [b"abc", b"f"]


def test_a_rejected_message_may_be_in_the_other_queues(client: Client) -> None:
    client.declare("full", arguments=limits(length=0, overflow="reject-publish"))
    client.declare("roomy")
    for queue in ("full", "roomy"):
        bind = QueueBind(queue=queue, exchange="amq.fanout")
        assert client.ask(1, bind) == QueueBindOk()
    client.send(publish("", b"m", exchange="amq.fanout"))
    client.expect(1, BasicNack(1, False, True))
    client.nothing_more()
    assert bodies(client, "full") == []
    assert bodies(client, "roomy") == [b"m"]


def test_outside_confirm_mode_what_is_rejected_is_dropped_in_silence(client: Client) -> None:
    client.declare("q", arguments=limits(length=1, overflow="reject-publish"))
    assert client.ask(2, ChannelOpen()) == ChannelOpenOk()
    client.send(publish("q", b"1", channel=2), publish("q", b"2", channel=2))
    client.nothing_more(2)
    assert bodies(client, "q") == [b"1"]


def test_a_transaction_that_is_too_much_is_refused_and_what_had_room_stays(client: Client) -> None:
    client.declare("q", arguments=limits(length=1, overflow="reject-publish"))
    client.open_channel(2)
    assert client.ask(2, TxSelect()) == TxSelectOk()
    client.send(publish("q", b"1", channel=2), publish("q", b"2", channel=2))
    text = "PRECONDITION_FAILED - partial tx completion"
    assert client.ask(2, TxCommit()) == ChannelClose(406, text, 90, 20)
    client.send_methods(2, ChannelCloseOk())
    assert bodies(client, "q") == [b"1"]


def test_what_a_consumer_takes_at_once_is_not_too_much(client: Client) -> None:
    client.declare("q", arguments=limits(length=1, overflow="reject-publish"))
    assert client.ask(1, BasicQos(prefetch_count=2)) == BasicQosOk()
    client.consume("q")
    client.send(*(publish("q", b"%d" % n) for n in range(4)))
    for tag in (1, 2):
        client.expect_delivery(BasicDeliver("c", tag, False, "", "q"), b"%d" % (tag - 1))
    client.expect(1, BasicAck(3, True), BasicNack(4, False, True))
    assert client.counts("q") == (1, 1)


def test_requeued_messages_are_never_dropped_with_reject_publish(client: Client) -> None:
    client.declare("q", arguments=limits(length=2, overflow="reject-publish"))
    client.publish_all("q", b"1", b"2")
    held = [client.get("q"), client.get("q")]
    client.publish_all("q", b"3", b"4")
    client.send_methods(1, BasicNack(2, True, True))
    client.wait_for_counts("q", (4, 0))
    assert all(held)
    client.send(publish("q", b"5"))
    client.expect(1, BasicNack(5, False, True))
    assert bodies(client, "q") == [b"1", b"2", b"3", b"4"]


def test_with_drop_head_a_requeue_above_the_limit_drops_the_oldest(client: Client) -> None:
    client.declare("q", arguments=limits(length=2))
    client.publish_all("q", b"1", b"2")
    assert client.get("q")
    client.publish_all("q", b"3")
    assert client.counts("q") == (2, 0)
    client.send_methods(1, BasicNack(1, False, True))
    client.nothing_more()
    assert bodies(client, "q") == [b"2", b"3"]


@pytest.mark.parametrize(
    ("overflow", "dead", "kept"),
    [
        ("drop-head", [b"0", b"1"], [b"2", b"3"]),
        ("reject-publish", [], [b"0", b"1"]),
        ("reject-publish-dlx", [b"2", b"3"], [b"0", b"1"]),
    ],
)
def test_what_is_too_much_goes_to_the_dead_letter_exchange(
    client: Client, overflow: str, dead: list[bytes], kept: list[bytes]
) -> None:
    target = {
        "x-dead-letter-exchange": Field("longstr", ""),
        "x-dead-letter-routing-key": Field("longstr", "dead"),
    }
    client.declare("q", durable=True, arguments=limits(length=2, overflow=overflow) | target)
    client.declare("dead", durable=True)
    client.send(*(publish("q", b"%d" % n, PERSISTENT) for n in range(4)))
    if overflow == "drop-head":
        client.expect_acks(range(1, 5))
    else:
        client.expect(1, BasicNack(3, False, True), BasicNack(4, False, True))
        client.expect_acks(range(1, 3))
    client.wait_for_counts("dead", (len(dead), 0))
    assert bodies(client, "dead") == dead
    assert bodies(client, "q") == kept


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
def test_limits_and_what_they_dropped_survive_kill_and_two_starts(
    tmp_path: Path, overflow: str
) -> None:
    kept = [b"7", b"8", b"9"] if overflow == "drop-head" else [b"0", b"1", b"2"]
    arguments = limits(length=3, overflow=overflow)
    for start in range(3):
        with Served(tmp_path) as served, Client(served.host, served.port) as client:
            client.log_in()
            client.open_channel(1, confirms=True)
            client.declare("q", durable=True, arguments=arguments)
            client.declare("after", durable=True)
            if not start:
                client.send(*(publish("q", b"%d" % n, PERSISTENT) for n in range(10)))
                # Synced behind the settles of what was dropped, which nobody waits for.
                client.send(publish("after", b"x", PERSISTENT))
                # A refused message is answered when its dead letter is safe, so perhaps after this.
                client.expect_answers(range(1, 12))
            assert client.counts("q") == (3, 0)
            if start == 2:
                assert bodies(client, "q") == kept
                client.send(publish("q", b"new", TRANSIENT))
                client.expect(1, BasicAck(1, False))
            served.signal(signal.SIGKILL)
            served.exit_code()
