"""What `trace check` makes of hops that are not there: the trace was off, or they were dropped."""

from __future__ import annotations

from leveret.logs.trace_check import TraceCheck

CHANNEL = {"connection": "127.0.0.1:1", "channel": 1}


def line(event: str, **fields: object) -> dict[str, object]:
    return {"event": event, "t_ns": 1, "time": "now", "boot": "boot", **fields}


def assembled(batch: int, first: int, last: int) -> dict[str, object]:
    places = [[0, last - first]]
    numbers = {"seq_no": [[first, last]], "messages": places}
    return line("command.assembled", batch=batch, **CHANNEL, **numbers)


def of_queue(event: str, batch: int, **fields: object) -> dict[str, object]:
    return line(event, batch=batch, queue="queue", messages=[[0, 0]], **fields)


STARTED = line("trace.started", one_of=1, queues=[])
STOPPED = line("trace.stopped")


def faults(*lines: dict[str, object]) -> list[str]:
    check = TraceCheck()
    check.feed(lines)
    return check.faults


def test_numbers_that_were_given_while_it_was_off_are_not_missing() -> None:
    assert faults(STARTED, assembled(1, 1, 3), STOPPED, STARTED, assembled(9, 70, 71)) == []
    assert faults(STARTED, assembled(1, 1, 3), STARTED, assembled(9, 70, 71)) == []
    [fault] = faults(STARTED, assembled(1, 1, 3), assembled(9, 70, 71))
    assert fault.endswith("publish numbers 4 to 69 are missing")


def test_a_delivery_of_what_was_enqueued_while_it_was_off_is_no_fault() -> None:
    delivery = of_queue("message.delivered", 5)
    assert faults(STARTED, assembled(5, 1, 1), STOPPED, STARTED, delivery) == []
    [fault] = faults(STARTED, assembled(4, 1, 1), STOPPED, STARTED, delivery)
    assert fault.endswith("delivered message boot-5-0 that it did not have")


def test_a_confirm_of_what_was_synced_while_it_was_off_is_no_fault() -> None:
    waits = of_queue("message.enqueued", 5, queue_id=1, waits_for_sync=[[0, 0]])
    confirm = of_queue("confirm.queued", 5)
    assert faults(STARTED, assembled(5, 1, 1), waits, STOPPED, STARTED, confirm) == []
    [fault] = faults(STARTED, assembled(5, 1, 1), waits, confirm)
    assert fault.endswith("confirmed message boot-5-0 before its sync")


def test_what_came_before_the_oldest_file_that_is_kept_is_no_fault() -> None:
    delivery, answer = of_queue("message.delivered", 5), line("confirm.sent", **CHANNEL)
    rest = [delivery, answer | {"seq_no": [[7, 7]]}, assembled(6, 8, 9), delivery]
    assert faults(*rest, answer | {"seq_no": [[6, 8]]}) == []
    later = [of_queue("message.delivered", 7), answer | {"seq_no": [[10, 10]]}]
    strange, unknown = faults(*rest, *later)
    assert strange.endswith("delivered message boot-7-0 that it did not have")
    assert unknown.endswith("publish 10 was confirmed but never came")


def test_a_trace_that_was_switched_on_later_may_have_been_on_before() -> None:
    lines = [of_queue("message.delivered", 4), assembled(5, 1, 1), of_queue("message.delivered", 6)]
    [later] = faults(STARTED | {"reason": "asked for"}, *lines)
    assert later.endswith("delivered message boot-6-0 that it did not have")
    assert len(faults(STARTED | {"reason": "configured"}, *lines)) == 2


def test_where_events_were_dropped_nothing_is_sure() -> None:
    waits = of_queue("message.enqueued", 5, queue_id=1, waits_for_sync=[[0, 0]])
    lines = [STARTED, assembled(5, 1, 1), waits, of_queue("confirm.queued", 5), assembled(6, 1, 1)]
    early, twice = faults(*lines)
    assert early.endswith("before its sync")
    assert twice.endswith("was given twice")
    lost = line("trace.lost", dropped=1)
    assert faults(lines[0], lost, *lines[1:]) == []
    # Of the broker's other runs it says nothing.
    assert len(faults(lost | {"boot": "other"}, *lines)) == 2


def test_a_transaction_s_batch_comes_behind_later_ones() -> None:
    came = [STARTED, assembled(9, 1, 1), assembled(5, 2, 2), STOPPED, STARTED]
    assert faults(*came, of_queue("message.delivered", 9)) == []
