"""`trace check` and missing hops: the trace was off, or they were dropped."""

from __future__ import annotations

from events_by_hand import STARTED, STOPPED, assembled, checked, faults, line, of_queue, sent

DELIVERED = of_queue("message.delivered", 5)
WAITS = of_queue("message.enqueued", 5, queue_id=1, waits_for_sync=[[0, 0]])


def test_numbers_that_were_given_while_it_was_off_are_not_missing() -> None:
    assert faults(STARTED, assembled(1, 1, 3), STOPPED, STARTED, assembled(9, 70, 71)) == []
    assert faults(STARTED, assembled(1, 1, 3), STARTED, assembled(9, 70, 71)) == []
    [fault] = faults(STARTED, assembled(1, 1, 3), assembled(9, 70, 71))
    assert fault.endswith("publish numbers 4 to 69 are missing")


def test_a_delivery_of_what_was_enqueued_while_it_was_off_is_not_judged() -> None:
    check = checked(STARTED, assembled(4, 1, 1), STOPPED, STARTED, DELIVERED)
    assert (check.faults, check.batches.unjudged) == ([], 1)
    assert "1 step of queues" in check.notes()[-1]
    # What is seen to come is judged again.
    [fault] = faults(STARTED, STOPPED, STARTED, assembled(5, 1, 1), DELIVERED)
    assert fault.endswith("delivered message boot-5-0 that it did not have")


def test_a_confirm_of_what_was_synced_while_it_was_off_is_no_fault() -> None:
    confirm = of_queue("confirm.queued", 5)
    assert faults(STARTED, assembled(5, 1, 1), WAITS, STOPPED, STARTED, confirm) == []
    [fault] = faults(STARTED, assembled(5, 1, 1), WAITS, confirm)
    assert fault.endswith("confirmed message boot-5-0 before its sync")


def test_answers_to_what_was_given_while_it_was_off_are_not_judged() -> None:
    lines = [STARTED, assembled(1, 1, 3), STOPPED, STARTED, sent(1, 5)]
    check = checked(*lines)
    assert (check.faults, check.channels.answered, check.channels.unjudged) == ([], 5, 5)
    # A channel that is opened behind the gap is seen from its first number on.
    opened = line("channel.opened", connection="127.0.0.1:1", channel=1)
    [fault] = faults(*lines[:-1], opened, sent(1, 5))
    assert fault.endswith("publishes 1 to 5 were confirmed but never came")


def test_what_came_before_the_oldest_file_that_is_kept_is_not_judged() -> None:
    rest = [DELIVERED, sent(7, 7), assembled(6, 8, 9), DELIVERED]
    check = checked(*rest, sent(6, 8))
    assert (check.faults, check.channels.unjudged, check.batches.unjudged) == ([], 3, 2)
    strange, unknown = faults(*rest, of_queue("message.delivered", 6), sent(10, 10))
    assert strange.endswith("delivered message boot-6-0 that it did not have")
    assert unknown.endswith("publish 10 was confirmed but never came")
    [note, *_] = check.notes()
    assert note == "boot boot: which messages are traced is not known"


def test_a_trace_that_was_switched_on_later_may_have_been_on_before() -> None:
    lines = [of_queue("message.delivered", 4), assembled(5, 1, 1), DELIVERED]
    [later] = faults(STARTED | {"reason": "asked for"}, *lines)
    assert later.endswith("delivered message boot-5-0 that it did not have")
    assert len(faults(STARTED | {"reason": "configured"}, *lines)) == 2


def test_behind_a_loss_what_comes_anew_is_judged_and_what_came_before_is_not() -> None:
    lost = line("trace.lost", dropped=7)
    confirm = of_queue("confirm.queued", 5)
    lines = [STARTED, assembled(5, 1, 1), WAITS, lost, confirm, sent(1, 1)]
    check = checked(*lines, assembled(6, 2, 2), of_queue("message.delivered", 6))
    [fault] = check.faults
    assert fault.endswith("delivered message boot-6-0 that it did not have")
    assert (check.channels.unjudged, check.batches.unjudged) == (1, 1)
    assert any("7 events were lost" in note for note in check.notes())


def test_check_judges_nothing_behind_a_loss_in_a_trace_of_an_earlier_form() -> None:
    first_form = {name: value for name, value in STARTED.items() if name != "format"}
    lost = line("trace.lost", dropped=1)
    lines = [assembled(5, 1, 1), WAITS, of_queue("confirm.queued", 5), assembled(6, 1, 1)]
    early, twice = faults(first_form, *lines)
    assert early.endswith("before its sync")
    assert twice.endswith("publish 1 was given twice")
    check = checked(first_form, lost, *lines)
    assert check.faults == []
    assert any("up to a full buffer behind" in note for note in check.notes())
    # Of the broker's other runs it says nothing.
    assert len(faults(lost | {"boot": "other"}, first_form, *lines)) == 2


def test_a_transaction_s_batch_comes_behind_later_ones() -> None:
    came = [STARTED, assembled(9, 1, 1), assembled(5, 2, 2), STOPPED, STARTED]
    assert faults(*came, of_queue("message.delivered", 9)) == []
