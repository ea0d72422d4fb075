"""Which events `trace follow` shows: rules that a live broker needs long for."""

from __future__ import annotations

from typing import Any

from holding import parts
from leveret.logs.reading.follow import BATCHES_MAX, Follower, Wanted, readable
from leveret.logs.spans import Spans

Line = dict[str, Any]
PLACE = {"boot": "b", "connection": "c:1", "channel": 1}


def about(event: str, batch: int, *spans: list[int], **fields: Any) -> Line:
    return {**PLACE, "event": event, "batch": batch, "messages": list(spans), **fields}


def of_queue(event: str, queue: str, batch: int, *spans: list[int], **fields: Any) -> Line:
    line = {"boot": "b", "event": event, "queue": queue, "batch": batch, "messages": list(spans)}
    return line | fields


def shown(wanted: Wanted, *lines: Line) -> list[Line]:
    follower = Follower(wanted)
    return [each for line in lines for _, each in follower.select(b"", line)]


ROUTED = {"queues": ["orders"], "routing_key": "orders"}
PUBLISHED = (
    about("frame.received", 1, [0, 3]),
    about("command.assembled", 1, [0, 3], seq_no=[[5, 8]]),
    about("message.routed", 1, [0, 0], [2, 2], queues=["other"], routing_key="other"),
    about("message.routed", 1, [1, 1], [3, 3], **ROUTED),
)


def test_a_confirm_is_shown_to_whom_it_answers_a_wanted_message() -> None:
    def answer(number: int) -> Line:
        return {**PLACE, "event": "confirm.sent", "seq_no": [[number, number]]}

    answers = [answer(number) for number in (5, 6, 7, 8, 6)]
    lines = shown(Wanted(routing_keys=frozenset(["orders"])), *PUBLISHED, *answers)
    assert lines == [PUBLISHED[0], PUBLISHED[1], PUBLISHED[3], answers[1], answers[3]]


def test_a_sync_is_shown_if_a_wanted_message_is_in_it() -> None:
    syncs = [{"boot": "b", "event": "journal.synced", "batches": each} for each in ([1, 9], [9])]
    lines = shown(Wanted(queues=frozenset(["orders"])), *PUBLISHED, *syncs)
    assert lines[-1] == syncs[0]


def test_what_was_refused_is_shown_with_what_came_before_it() -> None:
    refused = about("message.refused", 1, [0, 0], reason="NOT_FOUND")
    lines = (PUBLISHED[0], refused)
    assert shown(Wanted(connections=frozenset(["c:1"])), *lines) == list(lines)
    assert shown(Wanted(connections=frozenset(["c:2"])), *lines) == []
    assert shown(Wanted(queues=frozenset(["orders"])), *lines) == []


def test_a_dead_letter_is_shown_as_its_message_is() -> None:
    made = {"letter_batch": 7, "letters": [[4, 4]], "queues": ["dead"]}
    lettered = of_queue("message.dead_lettered", "orders", 1, [3, 3], **made)
    taken = of_queue("message.enqueued", "dead", 7, [4, 4])
    other = of_queue("message.enqueued", "dead", 7, [5, 5])
    by_key = shown(Wanted(routing_keys=frozenset(["orders"])), *PUBLISHED, lettered, taken, other)
    assert by_key[-2:] == [lettered, taken]
    by_queue = shown(Wanted(queues=frozenset(["orders"])), *PUBLISHED, lettered, taken, other)
    assert by_queue[-1] == lettered


def test_what_was_published_before_anybody_followed_is_known_by_its_queue() -> None:
    lines = [of_queue("message.settled", queue, 1, [0, 0]) for queue in ("orders", "other")]
    assert shown(Wanted(queues=frozenset(["orders"])), *lines) == lines[:1]
    assert shown(Wanted(routing_keys=frozenset(["orders"])), *lines) == []


def test_the_end_of_a_channel_is_shown_if_it_leaves_a_wanted_message_unanswered() -> None:
    def closed(*spans: list[int]) -> Line:
        return {**PLACE, "event": "channel.closed", "seq_no": list(spans)}

    wanted = Wanted(queues=frozenset(["orders"]))
    ends = [closed([5, 5], [7, 7]), closed([5, 8]), closed()]
    assert [shown(wanted, *PUBLISHED, end)[-1] == end for end in ends] == [False, True, False]


def test_what_is_not_wanted_is_not_kept() -> None:
    follower = Follower(Wanted(queues=frozenset(["orders"])))
    others = about("message.enqueued", 1, [0, 0], queue="other")
    closed = {**PLACE, "event": "channel.closed", "seq_no": []}
    for line in (*PUBLISHED[:3], others, closed):
        assert follower.select(b"", line) == []
    assert not [kept for kept in parts(follower, dict) if "event" in kept]
    # Of the one batch, which messages are wanted; of its channel, no numbers.
    assert len(parts(follower, Spans)) == 1


def test_no_more_batches_are_remembered_than_that() -> None:
    follower = Follower(Wanted(queues=frozenset(["orders"])))
    for number in range(BATCHES_MAX + 10):
        follower.select(b"", about("message.routed", number, [0, 0], **ROUTED))
    assert len(parts(follower, Spans)) == BATCHES_MAX


def test_names_of_clients_do_not_reach_the_terminal_as_they_are() -> None:
    line = about("message.routed", 1, [0, 2], queues=["a\x1b[2J"], routing_key="k\n")
    line |= {"time": "2026-01-02T03:04:05.678901+00:00", "actor": "channel", "t_ns": 1}
    assert readable(line) == (
        "03:04:05.678901  channel  message.routed        c:1 channel 1 b-1 messages=0-2 "
        "queues=['a\\x1b[2J'] routing_key='k\\n'"
    )


def test_a_transaction_without_batches_is_told_without_a_count_of_others() -> None:
    line = {**PLACE, "event": "transaction.rolled_back", "batches": [], "publishes": 0}
    line |= {"time": "2026-01-02T03:04:05.678901+00:00", "actor": "channel", "t_ns": 1}
    assert readable(line).endswith("transaction.rolled_back c:1 channel 1 batches=[] publishes=0")
