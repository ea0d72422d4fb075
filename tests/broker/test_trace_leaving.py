"""The trace of messages that leave a queue other than by an ack, and of what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from insides import fail, queue_actor, wait_until
from leveret.amqp_frames.methods import BasicNack, QueueDelete, QueuePurge, QueuePurgeOk
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from traced import client_of, explanation, trace_of, traced
from wire import PERSISTENT, TRANSIENT, Client, publish

Line = dict[str, Any]
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def of_queue(lines: list[Line], queue: str = "queue") -> list[tuple[str, str]]:
    """The queue's events about messages that were in it, in order: event and reason."""
    shown = ("message.expired", "message.evicted", "message.rejected", "message.settled")
    return [
        (line["event"], line["reason"])
        for line in lines
        if line["event"] in shown and line["queue"] == queue
    ]


def reject_one(client: Client, queue: str = "queue") -> None:
    got = client.get(queue)
    assert got is not None
    client.send_methods(1, BasicNack(got.delivery_tag, requeue=False))


@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT])
def test_an_expired_message_is_settled_where_no_exchange_takes_it(
    properties: Any, tmp_path: Path
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True, arguments=table_of({"x-message-ttl": 20}))
        client.publish_all("queue", b"1", properties=properties)
        client.wait_for_counts("queue", (0, 0))
    lines = trace_of(tmp_path)
    assert of_queue(lines) == [("message.expired", "expired"), ("message.settled", "expired")]
    [expired] = [line for line in lines if line["event"] == "message.expired"]
    assert (expired["messages"], expired["ready_after"]) == ([[0, 0]], 0)


def test_what_a_limit_drops_and_what_is_rejected_is_settled(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True, arguments=table_of({"x-max-length": 1}))
        client.publish_all("queue", b"1", b"2", properties=PERSISTENT)
        reject_one(client)
        assert client.counts("queue") == (0, 0)
    assert of_queue(trace_of(tmp_path)) == [
        ("message.evicted", "maxlen"),
        ("message.settled", "maxlen"),
        ("message.rejected", "rejected"),
        ("message.settled", "rejected"),
    ]


def test_a_message_that_came_back_too_often_is_settled(tmp_path: Path) -> None:
    quorum = {"x-queue-type": "quorum", "x-delivery-limit": 0}
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True, arguments=table_of(quorum))
        client.publish_all("queue", b"1", properties=PERSISTENT)
        got = client.get("queue")
        assert got is not None
        client.send_methods(1, BasicNack(got.delivery_tag, requeue=True))
        assert client.counts("queue") == (0, 0)
    assert of_queue(trace_of(tmp_path)) == [
        ("message.evicted", "delivery_limit"),
        ("message.settled", "delivery_limit"),
    ]


@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT])
def test_a_message_can_be_followed_into_its_dead_letter(properties: Any, tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True, arguments=table_of(TO_DEAD))
        client.declare("dead", durable=True)
        client.publish_all("queue", b"1", b"2", b"3", properties=properties)
        for _ in range(3):
            reject_one(client)
        client.wait_for_counts("dead", (3, 0))
    lines = trace_of(tmp_path)
    lettered = [line for line in lines if line["event"] == "message.dead_lettered"]
    originals = [place for line in lettered for place in line["messages"]]
    assert originals == [[0, 0], [1, 1], [2, 2]]
    for line in lettered:
        assert (line["queue"], line["queues"], line["reason"]) == ("queue", ["dead"], "rejected")
    letters = [(line["letter_batch"], place) for line in lettered for place in line["letters"]]
    taken = [
        (line["batch"], place)
        for line in lines
        if line["event"] == "message.enqueued" and line["queue"] == "dead"
        for place in line["messages"]
    ]
    assert taken == letters
    assert [reason for event, reason in of_queue(lines) if event == "message.settled"] == [
        "its dead letter is safe"
    ] * 3
    # The letter has been through its sync before its original goes.
    events = [(line["event"], line.get("queue")) for line in lines]
    if properties is PERSISTENT:
        assert events.index(("message.persisted", "dead")) < events.index(
            ("message.settled", "queue")
        )


def test_a_message_without_a_way_for_its_dead_letter_is_settled(tmp_path: Path) -> None:
    nowhere = {"x-dead-letter-exchange": "nowhere"}
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True, arguments=table_of(nowhere))
        client.publish_all("queue", b"1", properties=PERSISTENT)
        reject_one(client)
        assert client.counts("queue") == (0, 0)
    lines = trace_of(tmp_path)
    [dropped] = [line for line in lines if line["event"] == "letter.dropped"]
    assert (dropped["queue"], dropped["messages"]) == ("queue", [[0, 0]])
    assert of_queue(lines) == [
        ("message.rejected", "rejected"),
        ("message.settled", "there is no way for its dead letter"),
    ]


def test_a_letter_that_its_queue_refuses_is_not_called_safe(tmp_path: Path) -> None:
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True, arguments=table_of(TO_DEAD))
        client.declare("dead", arguments=table_of(full))
        client.publish_all("queue", b"1", properties=PERSISTENT)
        reject_one(client)
        client.wait_for_counts("queue", (0, 0))
        client.wait_for_counts("dead", (0, 0))
    assert of_queue(trace_of(tmp_path))[-1] == (
        "message.settled",
        "its dead letter was refused by a queue",
    )


def test_letters_whose_originals_left_in_another_order_than_they_came_are_told_in_rows_that_ascend(
    tmp_path: Path,
) -> None:
    priorities = (0, 3, 0, 3, 1)
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", arguments=table_of(TO_DEAD | {"x-max-priority": 3}))
        client.declare("dead")
        client.send(
            *(
                publish("queue", b"%d" % place, Properties(priority=priority))
                for place, priority in enumerate(priorities)
            )
        )
        client.expect_acks(range(1, 6))
        got = [client.get("queue") for _ in priorities]
        assert [each.body for each in got if each is not None] == [b"1", b"3", b"4", b"0", b"2"]
        client.send_methods(1, BasicNack(5, multiple=True, requeue=False))
        client.wait_for_counts("dead", (5, 0))
    lines = [line for line in trace_of(tmp_path) if line["event"] == "message.dead_lettered"]
    originals = [places for line in lines for places in line["messages"]]
    assert originals == [[1, 1], [3, 4], [0, 0], [2, 2]]
    assert [line["letters"] for line in lines] == [[[0, 2]], [[3, 4]]]


def test_messages_that_a_full_queue_refuses_were_never_in_it(tmp_path: Path) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish-dlx"}
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", arguments=table_of(TO_DEAD | full))
        client.declare("dead")
        client.publish_all("queue", b"1")
        with pytest.raises(AssertionError):
            client.publish_all("queue", b"2")
        client.wait_for_counts("dead", (1, 0))
    lines = trace_of(tmp_path)
    [lettered] = [line for line in lines if line["event"] == "message.dead_lettered"]
    assert lettered["reason"] == "maxlen"
    assert of_queue(lines) == []


def test_only_letters_of_traced_messages_are_traced(tmp_path: Path) -> None:
    with (
        traced(tmp_path, trace_one_of=3, trace_failures_per_second_max=0) as broker,
        client_of(broker) as client,
    ):
        client.declare("queue", arguments=table_of(TO_DEAD))
        client.declare("dead")
        for _ in range(30):
            # One by one: what comes in one read may be chosen as a whole, or not at all.
            client.publish_all("queue", b"x")
        for _ in range(30):
            reject_one(client)
        client.wait_for_counts("dead", (30, 0))
    lines = trace_of(tmp_path)

    def count(event: str, queue: str) -> int:
        chosen = [line for line in lines if (line["event"], line.get("queue")) == (event, queue)]
        return sum(last - first + 1 for line in chosen for first, last in line["messages"])

    traced_count = count("message.enqueued", "queue")
    assert 0 < traced_count < 30
    for event, queue in (
        ("message.rejected", "queue"),
        ("message.dead_lettered", "queue"),
        ("message.settled", "queue"),
        ("message.enqueued", "dead"),
    ):
        assert count(event, queue) == traced_count


def test_a_purge_and_a_delete_say_what_went_with_them(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"1", b"2", properties=PERSISTENT)
        assert client.ask(1, QueuePurge(queue="queue")) == QueuePurgeOk(2)
        client.publish_all("queue", b"3", b"4", properties=PERSISTENT)
        assert client.get("queue") is not None
        client.ask(1, QueueDelete(queue="queue"))
    lines = trace_of(tmp_path)
    assert of_queue(lines) == [
        ("message.settled", "purged"),
        *[("message.settled", "its queue was deleted")] * 2,
    ]
    [purged] = [line for line in lines if line["event"] == "queue.purged"]
    assert (purged["queue"], purged["ready_before"]) == ("queue", 2)
    [deleted] = [line for line in lines if line["event"] == "queue.deleted"]
    assert (deleted["ready_before"], deleted["unacked_before"]) == (1, 1)


def test_a_queue_that_fails_says_so_and_settles_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"1", properties=PERSISTENT)
        client.publish_all("queue", b"2")
        actor = queue_actor(broker, "queue")
        fail(actor)
        wait_until(lambda: not actor.is_alive())
    lines = trace_of(tmp_path)
    [failed] = [line for line in lines if line["event"] == "queue.failed"]
    assert failed["ready_before"] == 2
    assert of_queue(lines) == []
    said = [explanation(tmp_path, capsys, number)[-1] for number in (1, 2)]
    assert said[0].endswith(
        "In queue 'queue' it comes back at the broker's next start, for its queue has failed."
    )
    assert said[1].endswith("In queue 'queue' it is done (in memory only, its queue failed).")
