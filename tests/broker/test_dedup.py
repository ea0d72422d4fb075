"""A queue with x-dedup-window takes each message of a producer and id once, and confirms each."""

from __future__ import annotations

import time

import pytest
from identified import Connect, declare, each, known, numbers, publisher
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicReject,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from wire import Client, publish

# --- What is a duplicate


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("mode", [1, 2])
def test_the_first_of_duplicates_in_one_read_is_enqueued_and_all_are_confirmed(
    client: Client, durable: bool, mode: int
) -> None:
    declare(client, durable=durable)
    client.send(each("q", 1, 2, 1, 3, 2, 1, mode=mode))
    client.expect_acks(range(1, 7))
    client.nothing_more()
    assert numbers(client) == [b"1", b"2", b"3"]


def test_a_duplicate_is_known_after_its_original_was_synced_acked_and_gone(client: Client) -> None:
    declare(client)
    client.publish_all("q", b"first", properties=known(1))
    assert numbers(client) == [b"first"]
    client.publish_all("q", b"second", properties=known(1))
    assert numbers(client) == []


def test_a_duplicate_is_known_across_connections(client: Client, connect: Connect) -> None:
    declare(client)
    client.publish_all("q", b"1", properties=known(1))
    other = publisher(connect)
    other.publish_all("q", b"1", properties=known(1))
    other.publish_all("q", b"2", properties=known(2))
    assert numbers(client) == [b"1", b"2"]


def test_another_producer_a_missing_header_or_another_queue_makes_no_duplicate(
    client: Client,
) -> None:
    declare(client)
    declare(client, "other")
    client.declare("plain", durable=True)
    only_id = Properties(headers=table_of({"x-dedup-id": "1"}), delivery_mode=2)
    only_producer = Properties(headers=table_of({"x-dedup-producer": "p"}), delivery_mode=2)
    for properties in (known(1), known(1, "P"), only_id, only_producer, Properties()):
        client.publish_all("q", b"x", b"x", properties=properties)
    assert len(numbers(client)) == 1 + 1 + 2 + 2 + 2
    client.publish_all("other", b"x", properties=known(1))
    client.publish_all("plain", b"x", b"x", properties=known(1))
    assert len(numbers(client, "other")) == 1
    assert len(numbers(client, "plain")) == 2


def test_a_message_of_many_frames_is_known_again(client: Client) -> None:
    declare(client)
    body = bytes(300_000)
    client.send(publish("q", body, known(1)), publish("q", body, known(1)))
    client.expect_acks(range(1, 3))
    assert numbers(client) == [body]


def test_mandatory_is_content_with_a_duplicate_for_it_was_routed(client: Client) -> None:
    declare(client)
    client.send(publish("q", b"1", known(1), mandatory=True) * 2)
    client.expect_acks(range(1, 3))
    client.nothing_more()


def test_in_a_fan_out_one_queue_may_take_what_another_has_had(client: Client) -> None:
    for queue in ("q", "late"):
        declare(client, queue)
    client.declare("plain", durable=True)
    for queue in ("q", "late", "plain"):
        bind = QueueBind(queue=queue, exchange="amq.fanout")
        assert client.ask(1, bind) == QueueBindOk()
    client.publish_all("q", b"1", properties=known(1))
    client.send(publish("", b"1", known(1), exchange="amq.fanout") * 2)
    client.expect_acks(range(2, 4))
    assert [numbers(client, name) for name in ("q", "late", "plain")] == [
        [b"1"],
        [b"1"],
        [b"1"] * 2,
    ]


def test_a_copy_counts_in_the_queue_that_gets_it(client: Client) -> None:
    for queue in ("q", "copy", "blind"):
        declare(client, queue)
    client.publish_all("copy", b"1", properties=known(1))
    client.publish_all("q", b"1", properties=known(1, CC=["copy"], BCC=["blind"]))
    client.publish_all("blind", b"1", properties=known(1))
    assert [client.counts(name)[0] for name in ("q", "copy", "blind")] == [1, 1, 1]


def test_priorities_and_a_quorum_queue_have_windows_too(client: Client) -> None:
    declare(client, x_max_priority=5)
    declare(client, "quorum", x_queue_type="quorum")
    client.send(
        *(publish("q", b"%d" % n, known(n, priority=n % 3)) for n in (1, 2, 3, 1, 2, 3)),
        each("quorum", 1, 2, 1),
    )
    client.expect_acks(range(1, 10))
    assert numbers(client) == [b"2", b"1", b"3"]
    assert numbers(client, "quorum") == [b"1", b"2"]


# --- Transient messages


def test_a_transient_message_repeats_any_and_a_persistent_one_only_persistent_ones(
    client: Client,
) -> None:
    """Its confirm says that it is on disk, and what went by before it was not."""
    declare(client)
    client.publish_all("q", b"passing", b"passing", properties=known(1, mode=1))
    client.publish_all("q", b"stored", b"stored", properties=known(1))
    client.publish_all("q", b"late", properties=known(1, mode=1))
    assert numbers(client) == [b"passing", b"stored"]


# --- What is remembered


def test_what_a_full_queue_dropped_and_what_expired_were_taken_and_stay_remembered(
    client: Client,
) -> None:
    declare(client, x_max_length=1)
    client.send(each("q", 1, 2, 1))
    client.expect_acks(range(1, 4))
    assert numbers(client) == [b"2"]
    declare(client, "brief", x_message_ttl=0)
    client.send(publish("brief", b"1", known(1)), publish("brief", b"1", known(1)))
    client.expect_acks(range(4, 6))
    assert client.counts("brief") == (0, 0)


def test_a_purge_keeps_the_window(client: Client) -> None:
    declare(client)
    client.publish_all("q", b"1", properties=known(1))
    assert client.ask(1, QueuePurge(queue="q")) == QueuePurgeOk(1)
    client.publish_all("q", b"1", properties=known(1))
    assert numbers(client) == []


def test_dead_letters_pass_by_the_window_so_a_message_may_come_back(client: Client) -> None:
    """Work and retry queue, each the other's dead-letter exchange: the usual way to wait."""
    declare(client, x_dead_letter_exchange="", x_dead_letter_routing_key="retry")
    declare(
        client,
        "retry",
        x_message_ttl=1,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="q",
    )
    client.publish_all("q", b"1", properties=known(1))
    for _ in range(3):
        client.wait_for_counts("q", (1, 0))
        got = client.get("q")
        assert got is not None
        client.send_methods(1, BasicReject(got.delivery_tag, False))
    client.wait_for_counts("q", (1, 0))
    # What a publisher sends is looked for in the window as before.
    client.publish_all("q", b"1", properties=known(1))
    assert numbers(client) == [b"1"]
    # And the retry queue was never published to.
    client.publish_all("retry", b"2", properties=known(1))
    client.wait_for_counts("q", (1, 0))


# --- Transactions


def test_a_transaction_commits_with_duplicates_and_one_rolled_back_is_not_remembered(
    client: Client,
) -> None:
    declare(client)
    client.open_channel(2)
    assert client.ask(2, TxSelect()) == TxSelectOk()
    client.send(publish("q", b"1", known(1), channel=2))
    assert client.ask(2, TxRollback()) == TxRollbackOk()
    client.send(*(publish("q", b"%d" % n, known(n), channel=2) for n in (1, 2, 1)))
    assert client.ask(2, TxCommit()) == TxCommitOk()
    client.send(*(publish("q", b"%d" % n, known(n), channel=2) for n in (2, 3)))
    assert client.ask(2, TxCommit()) == TxCommitOk()
    assert numbers(client) == [b"1", b"2", b"3"]


def test_outside_confirm_mode_duplicates_are_dropped_too(client: Client) -> None:
    declare(client)
    client.open_channel(2)
    client.send(*(publish("q", b"%d" % n, known(n), channel=2) for n in (1, 1, 2)))
    client.nothing_more(2)
    client.wait_for_counts("q", (2, 0))
    assert client.ask(2, ConfirmSelect()) == ConfirmSelectOk()
    client.send(publish("q", b"1", known(1), channel=2))
    client.expect(2, BasicAck(1, False))
    assert client.counts("q") == (2, 0)


# --- The bounds


def test_the_oldest_are_forgotten_when_more_than_the_window_have_come(client: Client) -> None:
    declare(client, window=3)
    for number in (1, 2, 3, 1, 4, 2, 1):
        client.publish_all("q", b"%d" % number, properties=known(number))
    # 4 pushed 1 out; 2 was still known, and 1 pushed it out.
    assert numbers(client) == [b"1", b"2", b"3", b"4", b"1"]
    for number in (1, 4, 3, 2):
        client.publish_all("q", b"%d" % number, properties=known(number))
    assert numbers(client) == [b"2"]
    # Of one read the first of each is taken, however small the window is.
    client.send(each("q", 5, 6, 7, 8, 5))
    client.expect_acks(range(12, 17))
    assert numbers(client) == [b"5", b"6", b"7", b"8"]


def test_the_old_are_forgotten_when_their_time_is_over(client: Client) -> None:
    declare(client, x_dedup_age_ms=200)
    begun_s = time.monotonic()
    client.publish_all("q", b"1", properties=known(1))
    # A disk that takes longer than the age to sync the first leaves no time for a duplicate.
    while client.counts("q")[0] < 2:
        client.publish_all("q", b"again", properties=known(1))
    # The broker's clock counts whole milliseconds.
    assert time.monotonic() - begun_s > 0.199
    assert numbers(client) == [b"1", b"again"]
