"""Each rule of `trace check` finds what breaks it, and nothing in what does not."""

from __future__ import annotations

import pytest
from events_by_hand import (
    CHANNEL,
    STARTED,
    assembled,
    checked,
    faults,
    line,
    of_queue,
    routed,
    sent,
)
from holding import parts
from leveret.logs.reading.batch_rules import BatchRules
from leveret.logs.trace.parsing import Line

ENQUEUED = of_queue("message.enqueued", 1)
CONFIRMED = of_queue("confirm.queued", 1)
DELIVERED = of_queue("message.delivered", 1)
ACKED = of_queue("message.settled", 1)
GIVEN_BACK = of_queue("message.requeued", 1)
DEFERRED = of_queue("message.deferred", 1)
DUE = of_queue("message.due", 1)
AGAIN = DELIVERED | {"attempt": 2}
CAME = [STARTED, assembled(1, 1, 1), routed(1, "queue")]
IN_QUEUE = [*CAME, ENQUEUED]
OUT = [*IN_QUEUE, DELIVERED]
NO_ACK = ACKED | {"reason": "no ack wanted"}


def refused_late(queue: str) -> Line:
    """A queue refuses a publish that is traced only from there on."""
    return of_queue(
        "rejection.received", 1, queue, **CHANNEL, seq_no=[[1, 1]], reason="deleted", late=True
    )


@pytest.mark.parametrize(
    "lines",
    [
        [*IN_QUEUE, CONFIRMED, sent(1, 1), DELIVERED, ACKED],
        # A consumer may have it before its publisher has the confirm.
        [*OUT, ACKED, CONFIRMED, sent(1, 1)],
        [*OUT, GIVEN_BACK, DELIVERED, ACKED],
        [*OUT, GIVEN_BACK, DEFERRED, DUE, AGAIN, ACKED],
        [*IN_QUEUE, DEFERRED | {"attempt": 0}, DUE | {"attempt": 0}, DELIVERED, ACKED],
        # It timed out before its channel had written the delivery.
        [*IN_QUEUE, GIVEN_BACK | {"reason": "timed out"}, DEFERRED, DELIVERED, DUE, AGAIN],
        [*OUT, GIVEN_BACK, DEFERRED, ACKED | {"reason": "purged"}],
        [*OUT, GIVEN_BACK, DEFERRED, of_queue("message.recovered", 1), AGAIN],
        # The channel ended before it had written what it was to deliver.
        [*IN_QUEUE, GIVEN_BACK | {"reason": "its channel ended"}, DELIVERED],
        [*IN_QUEUE, NO_ACK, DELIVERED],
        [*IN_QUEUE, of_queue("message.expired", 1), ACKED | {"reason": "expired"}],
        [*IN_QUEUE, ACKED | {"reason": "purged"}],
        [*CAME, of_queue("message.duplicate", 1), CONFIRMED, sent(1, 1)],
        [*CAME, of_queue("confirm.rejected", 1), sent(1, 1, "confirm.nacked")],
        [STARTED, of_queue("message.recovered", 7), of_queue("message.delivered", 7)],
        # A publish in a transaction to two queues, which are deleted one after another.
        [
            STARTED | {"one_of": 1000},
            refused_late("red"),
            sent(1, 1, "confirm.nacked"),
            refused_late("blue"),
            line("channel.closed", seq_no=[], reason="closed", reply_code=200, **CHANNEL),
        ],
    ],
)
def test_what_a_broker_may_do_is_no_fault(lines: list[Line]) -> None:
    check = checked(*lines)
    assert (check.faults, check.channels.unjudged, check.batches.unjudged) == ([], 0, 0)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([*CAME, CONFIRMED], "queue 'queue' confirmed message boot-1-0 that it never had"),
        (
            [*IN_QUEUE, of_queue("confirm.queued", 1, "other")],
            "queue 'other' confirmed message boot-1-0 that it never had",
        ),
        (
            [*OUT, GIVEN_BACK, DEFERRED, AGAIN],
            "queue 'queue' delivered message boot-1-0 before it was due",
        ),
        (
            [*IN_QUEUE, DEFERRED | {"attempt": 0}, DELIVERED],
            "queue 'queue' delivered message boot-1-0 before it was due",
        ),
        ([*CAME, DEFERRED], "queue 'queue' deferred message boot-1-0 that it did not have"),
        (
            [*IN_QUEUE, DUE],
            "queue 'queue' called due message boot-1-0 that was not deferred",
        ),
        ([*CAME, ACKED], "queue 'queue' settled message boot-1-0 that it never had"),
        ([*OUT, ACKED, ACKED], "queue 'queue' settled message boot-1-0 twice"),
        (
            [*IN_QUEUE, ACKED],
            "queue 'queue' settled as acked message boot-1-0 that was not delivered",
        ),
        (
            [*OUT, GIVEN_BACK, ACKED],
            "queue 'queue' settled as acked message boot-1-0 that was not delivered",
        ),
        (
            [*IN_QUEUE, GIVEN_BACK],
            "queue 'queue' took back message boot-1-0 that was not delivered",
        ),
        (
            [*OUT, GIVEN_BACK, GIVEN_BACK],
            "queue 'queue' took back message boot-1-0 that was not delivered",
        ),
        (
            [*IN_QUEUE, of_queue("message.rejected", 1)],
            "queue 'queue' rejected message boot-1-0 that was not delivered",
        ),
        (
            [*CAME, of_queue("message.expired", 1)],
            "queue 'queue' dropped message boot-1-0 that it did not have",
        ),
        ([*OUT, ACKED, DELIVERED], "queue 'queue' delivered message boot-1-0 that it did not have"),
        (
            [*IN_QUEUE, NO_ACK, DELIVERED, DELIVERED],
            "queue 'queue' delivered message boot-1-0 that it did not have",
        ),
        (
            [*IN_QUEUE, sent(1, 1)],
            "127.0.0.1:1 channel 1: publish 1 was confirmed before queue 'queue' had confirmed it",
        ),
        (
            [*CAME[:2], routed(1, "queue", "slow"), ENQUEUED, CONFIRMED, sent(1, 1)],
            "127.0.0.1:1 channel 1: publish 1 was confirmed before queue 'slow' had confirmed it",
        ),
    ],
)
def test_what_a_broker_must_not_do_is_a_fault(lines: list[Line], said: str) -> None:
    [fault] = faults(*lines)
    assert fault == f"2026-01-02T03:04:05.678901+00:00 boot boot: {said}"


def test_check_names_the_publish_that_was_confirmed_too_early() -> None:
    lines = [STARTED, assembled(1, 11, 14), routed(1, "queue", last=3)]
    enqueued = of_queue("message.enqueued", 1, last=3)
    some = of_queue("confirm.queued", 1) | {"messages": [[0, 1], [3, 3]]}
    [fault] = faults(*lines, enqueued, some, sent(11, 14))
    assert "publish 13 was confirmed before queue 'queue'" in fault


def test_queues_of_two_virtual_hosts_are_two_queues() -> None:
    enqueued = of_queue("message.enqueued", 1, vhost="a")
    assert faults(STARTED, assembled(1, 1, 1), enqueued, DELIVERED | {"vhost": "a"}) == []
    assert len(faults(STARTED, assembled(1, 1, 1), enqueued, DELIVERED | {"vhost": "b"})) == 1


def test_a_range_of_any_length_is_judged_at_once() -> None:
    many = 10**12
    lines = [STARTED, assembled(1, 1, many), routed(1, "queue", last=many - 1)]
    enqueued = of_queue("message.enqueued", 1, last=many - 1)
    confirmed = of_queue("confirm.queued", 1, last=many - 1)
    delivered = of_queue("message.delivered", 1, last=many)
    check = checked(*lines, enqueued, confirmed, sent(1, many), delivered)
    [fault] = check.faults
    assert fault.endswith(f"delivered message boot-1-{many} that it did not have")
    assert check.channels.answered == many


def test_what_is_done_is_forgotten_but_for_what_a_fault_would_show() -> None:
    check = checked(*OUT, CONFIRMED, ACKED)
    assert not parts(check.batches, BatchRules)
    check.feed([ACKED])
    assert check.faults[0].endswith("settled message boot-1-0 twice")


def test_a_line_that_names_no_message_of_a_batch_is_passed_over() -> None:
    synced = line("journal.synced", batches=[1, 2, 3])
    assert faults(STARTED, synced, line("some.later.event", batch=3)) == []
