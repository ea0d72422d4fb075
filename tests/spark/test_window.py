from __future__ import annotations

import pytest
from holding import parts
from leveret.spark.sink.publishes import FinalError, Publish, PublishError, Returned
from leveret.spark.sink.window import Policy, Window


def publish(row: int, message_id: str | None = None, body: bytes | None = None) -> Publish:
    name = message_id or f"m{row}"
    return Publish(row, name, "e", "k", b"", b"", body or b"%d" % row)


def of(row: int) -> Returned:
    return Returned(f"m{row}", "e", "k", b"%d" % row)


def dead(row: Publish, code: int, text: str) -> Publish:
    return row._replace(exchange="dead", routing_key=f"{code} {text}", is_dead_letter=True)


def sent(policy: Policy, *publishes: Publish) -> Window:
    window = Window(policy, dead)
    window.offer(publishes)
    assert window.dequeue(0.0) == list(publishes)
    return window


def room(window: Window) -> int:
    return window.fitting([publish(99)] * 100, 0)


def rows(publishes: list[Publish]) -> list[int]:
    return [each.row for each in publishes]


def test_a_window_takes_no_more_than_its_size_until_something_is_settled() -> None:
    window = sent(Policy(in_flight_max=3), publish(0), publish(1), publish(2))
    assert (room(window), window.in_flight) == (0, 3)
    window.acked(2, multiple=True, now=0.1)
    assert (room(window), window.in_flight) == (2, 1)
    assert window.tally.confirmed == 2


def test_an_ack_of_zero_and_multiple_is_of_all() -> None:
    window = sent(Policy(), publish(0), publish(1))
    window.acked(0, multiple=True, now=0.1)
    assert (len(window), window.tally.confirmed) == (0, 2)


def test_nothing_is_kept_of_a_confirmed_row() -> None:
    window = sent(Policy(), publish(0), publish(1))
    window.nacked(2, multiple=True, now=0.0)
    assert len(window.dequeue(10.0)) == 2
    window.acked(4, multiple=True, now=10.0)
    assert (len(window), window.tally.nacked_retried, window.tally.confirmed) == (0, 2, 2)
    assert not any((row, False) in each for each in parts(window, dict) for row in (0, 1))


def test_a_return_only_marks_and_the_ack_settles() -> None:
    window = sent(Policy(), publish(0), publish(1))
    window.returned(of(0), 312, "NO_ROUTE")
    assert (len(window), window.tally.returned) == (2, 0)
    window.acked(2, multiple=True, now=0.1)
    assert (window.tally.confirmed, window.tally.returned, len(window)) == (1, 1, 0)
    [sample] = window.tally.samples
    assert (sample.row, sample.code, sample.text) == (0, 312, "NO_ROUTE")


def test_a_return_that_is_nacked_is_a_return() -> None:
    window = sent(Policy(), publish(0))
    window.returned(of(0), 312, "NO_ROUTE")
    window.nacked(1, multiple=False, now=0.1)
    assert (window.tally.returned, window.tally.nacked_retried, len(window)) == (1, 0, 0)


def test_returns_of_rows_that_share_an_id_are_told_apart_by_body_and_then_by_order() -> None:
    window = sent(
        Policy(), publish(0, "x", b"a"), publish(1, "x", b"b"), publish(2, "x", b"b"), publish(3)
    )
    window.returned(Returned("x", "e", "k", b"b"), 312, "NO_ROUTE")
    window.returned(Returned("x", "e", "k", b"b"), 312, "NO_ROUTE")
    window.acked(4, multiple=True, now=0.1)
    assert [sample.row for sample in window.tally.samples] == [1, 2]
    assert (window.tally.confirmed, window.tally.returned) == (2, 2)


def test_returns_of_rows_that_differ_in_properties_only_are_told_apart_by_those() -> None:
    window = Window(Policy(), dead)
    alike = [
        publish(row, "x", b"b")._replace(properties=octets)
        for row, octets in enumerate([b"red", b"blue", b"blue", b"red"])
    ]
    window.offer(alike)
    window.dequeue(0.0)
    # The oldest is settled; those that share its id are still told apart.
    window.acked(1, multiple=False, now=0.1)
    for octets in (b"red", b"blue", b"unknown"):
        has_properties = octets.__eq__
        window.returned(Returned("x", "e", "k", b"b", has_properties), 312, octets.decode())
    window.acked(4, multiple=True, now=0.1)
    found = {(each.row, each.text) for each in window.tally.samples}
    assert found == {(3, "red"), (1, "blue"), (2, "unknown")}
    assert len(window) == 0
    assert not any("x" in each for each in parts(window, dict))


def test_what_was_never_sent_cannot_be_returned_or_answered() -> None:
    window = sent(Policy(), publish(0))
    with pytest.raises(PublishError, match="returned what was not sent: 'other'"):
        window.returned(Returned("other", "e", "k", b"0"), 312, "NO_ROUTE")
    with pytest.raises(PublishError, match="answered a publish that was not sent: 7"):
        window.acked(7, multiple=False, now=0.1)


def test_a_nacked_row_is_tried_again_later_and_later_and_then_fails_the_task() -> None:
    window = sent(Policy(retries_max=2, backoff_s=1.0), publish(0))
    window.nacked(1, multiple=False, now=10.0)
    assert (window.dequeue(10.9), window.due_at()) == ([], 11.0)
    assert rows(window.dequeue(11.0)) == [0]
    window.nacked(2, multiple=False, now=20.0)
    assert window.due_at() == 22.0
    assert rows(window.dequeue(22.0)) == [0]
    with pytest.raises(PublishError, match="nacked row 0 3 times: exchange 'e', routing key 'k'"):
        window.nacked(3, multiple=False, now=30.0)
    assert window.tally.nacked_retried == 2


def test_rows_that_wait_for_another_try_take_room() -> None:
    window = sent(Policy(in_flight_max=2), publish(0), publish(1))
    window.nacked(2, multiple=True, now=0.0)
    assert (room(window), window.in_flight) == (0, 0)


@pytest.mark.parametrize("on_nacked", ["ignore", "deadletter"])
def test_a_row_that_stays_nacked_is_given_up_as_asked(on_nacked: str) -> None:
    window = sent(Policy(retries_max=0, on_nacked=on_nacked), publish(0))
    window.nacked(1, multiple=False, now=0.0)
    assert window.tally.nacked == 1
    if on_nacked == "ignore":
        assert len(window) == 0
        return
    [letter] = window.dequeue(0.0)
    assert (letter.exchange, letter.routing_key) == ("dead", "0 NACK")
    window.acked(2, multiple=False, now=0.0)
    assert (window.tally.deadlettered, window.tally.confirmed, len(window)) == (1, 0, 0)


def test_a_dead_letter_takes_its_rows_place_and_is_waited_for() -> None:
    window = sent(Policy(in_flight_max=1, on_returned="deadletter"), publish(0))
    window.returned(of(0), 312, "NO_ROUTE")
    window.acked(1, multiple=False, now=0.0)
    assert (room(window), len(window)) == (0, 1)
    [letter] = window.dequeue(0.0)
    assert letter.is_dead_letter
    window.acked(2, multiple=False, now=0.0)
    assert (window.tally.returned, window.tally.deadlettered, len(window)) == (1, 1, 0)


def test_a_dead_letter_that_is_returned_fails_the_task() -> None:
    window = sent(Policy(on_returned="deadletter"), publish(0))
    window.returned(of(0), 312, "NO_ROUTE")
    window.acked(1, multiple=False, now=0.0)
    window.dequeue(0.0)
    window.returned(Returned("m0", "dead", "312 NO_ROUTE", b"0"), 312, "NO_ROUTE")
    with pytest.raises(FinalError, match="the dead letter of row 0 was returned: 312 NO_ROUTE"):
        window.acked(2, multiple=False, now=0.0)


def test_a_lost_connection_sends_the_unconfirmed_again_in_order_before_newer_ones() -> None:
    window = sent(Policy(), publish(0), publish(1), publish(2), publish(3))
    window.acked(2, multiple=False, now=0.0)
    window.returned(of(2), 312, "NO_ROUTE")
    window.offer([publish(4)])
    window.connection_lost(1.0)
    assert rows(window.dequeue(1.0)) == [0, 3, 4]
    assert (window.tally.returned, window.tally.republished) == (1, 2)
    # A new channel counts from 1.
    window.acked(3, multiple=True, now=2.0)
    assert (window.tally.confirmed, len(window)) == (4, 0)


def test_the_samples_are_bounded_and_the_counts_are_not() -> None:
    window = sent(Policy(samples_max=1), publish(0), publish(1))
    window.returned(of(0), 312, "NO_ROUTE")
    window.returned(of(1), 312, "NO_ROUTE")
    window.acked(2, multiple=True, now=0.0)
    assert (window.tally.returned, len(window.tally.samples)) == (2, 1)


def test_large_bodies_take_room_for_their_octets_and_the_largest_goes_alone() -> None:
    window = Window(Policy(in_flight_bytes_max=10), dead)
    # Properties count as well: they may be larger than the body.
    large = publish(0, body=b"x")._replace(properties=b"p" * 10)
    small = publish(1, body=b"x" * 5)
    assert window.fitting([large, small], 0) == 1
    window.offer([large])
    assert window.fitting([large, small], 1) == 1
    window.dequeue(0.0)
    window.nacked(1, multiple=False, now=0.0)
    assert window.in_flight_bytes == 11
    window.dequeue(1.0)
    window.acked(2, multiple=False, now=1.0)
    assert window.fitting([small, small, small], 0) == 2
    assert window.in_flight_bytes == 0
