"""What an NSQ consumer gets: RDY, FIN, REQ, TOUCH, time-outs, CLS, as nsqd has them."""

from __future__ import annotations

import time
from collections.abc import Callable

import leveret
import pytest
from held_clock import HeldClock
from insides import in_flight_count, queue_definition, wait_until
from nsq_wire import NsqClient, dpub, identify, mpub, pub

Nsq = Callable[[], NsqClient]


@pytest.fixture
def clock(broker: leveret.Broker) -> HeldClock:
    return HeldClock(broker)


def publish(nsq: Nsq, *bodies: bytes, topic: str = "t") -> None:
    nsq().send(*(pub(topic, body) for body in bodies)).ok(len(bodies))


def bodies(count: int) -> list[bytes]:
    return [b"%d" % k for k in range(count)]


def test_rdy_says_how_many_may_be_in_flight(nsq: Nsq) -> None:
    publish(nsq, *bodies(12))
    client = nsq().subscribe("t", "c")
    client.nothing()
    client.send(b"RDY 2\n")
    first, second = client.messages(2)
    client.nothing()
    client.send(b"FIN " + first.id + b"\n")
    third = client.message()
    client.send(b"RDY 2\n").nothing()
    client.send(b"RDY 3\n")
    fourth = client.message()
    client.send(b"RDY 1\n", *(b"FIN " + each.id + b"\n" for each in (second, third))).nothing()
    client.send(b"FIN " + fourth.id + b"\n")
    fifth = client.message()
    client.send(b"RDY 0\nFIN " + fifth.id + b"\n").nothing()
    client.send(b"RDY\n")
    assert client.message().body == b"5"
    client.nothing()


def test_ids_stay_and_attempts_count_when_a_message_comes_again(nsq: Nsq) -> None:
    before_ns = time.time_ns()
    publish(nsq, b"x")
    after_ns = time.time_ns()
    client = nsq().subscribe("t", "c", 1)
    first = client.message()
    assert (first.attempts, len(first.id)) == (1, 16)
    assert before_ns <= first.timestamp_ns <= after_ns
    for attempts in (2, 3):
        client.send(b"REQ " + first.id + b" 0\n")
        assert client.message() == first._replace(attempts=attempts)


def test_a_requeue_with_a_delay_comes_when_it_is_due(nsq: Nsq) -> None:
    publish(nsq, b"x", b"y")
    client = nsq().subscribe("t", "c", 1)
    first = client.message()
    begun = time.monotonic()
    client.send(b"REQ " + first.id + b" 300\n")
    second = client.message()
    assert second.body == b"y"
    client.send(b"FIN " + first.id + b"\nFIN " + second.id + b"\n")
    assert client.error() == b"E_FIN_FAILED FIN " + first.id + b" failed ID not in flight"
    again = client.message()
    assert (again.id, again.attempts) == (first.id, 2)
    assert time.monotonic() - begun >= 0.29


def test_at_its_time_out_a_message_counts_no_longer_and_a_late_answer_fails(
    nsq: Nsq, clock: HeldClock
) -> None:
    publish(nsq, b"x", b"y")
    client = nsq()
    client.send(identify(msg_timeout=1000)).ok()
    client.subscribe("t", "c", 1)
    first = client.message()
    clock.advance(1)
    # Its place is free without an answer.
    second = client.message()
    assert second.body == b"x"
    assert second.id == first.id
    assert second.attempts == 2
    client.send(b"RDY 0\n")
    client.send(b"FIN " + first.id + b"\n").nothing()


def test_a_late_answer_of_another_client_fails(nsq: Nsq, clock: HeldClock) -> None:
    publish(nsq, b"x")
    late = nsq()
    late.send(identify(msg_timeout=1000)).ok()
    late.subscribe("t", "c", 1)
    message = late.message()
    late.send(b"RDY 0\n").nothing()
    clock.advance(1)
    other = nsq().subscribe("t", "c", 1)
    assert other.message() == message._replace(attempts=2)
    for command in (b"FIN %b", b"REQ %b 0", b"TOUCH %b"):
        late.send(command % message.id + b"\n")
        name = command.split(b" ")[0]
        text = b"E_%b_FAILED %b %b failed ID not in flight" % (name, name, message.id)
        assert late.error() == text
    other.send(b"FIN " + message.id + b"\n").nothing()


def test_a_touched_message_has_its_time_again(nsq: Nsq, clock: HeldClock) -> None:
    publish(nsq, b"x")
    client = nsq()
    client.send(identify(msg_timeout=1000)).ok()
    client.subscribe("t", "c", 1)
    message = client.message()
    other = nsq().subscribe("t", "c", 1)
    clock.advance(0.6)
    client.send(b"RDY 0\nTOUCH " + message.id + b"\n").nothing()
    clock.advance(0.9)
    other.nothing()
    clock.advance(0.1)
    assert other.message() == message._replace(attempts=2)


def test_finishes_in_any_order_settle_what_they_name(nsq: Nsq, broker: leveret.Broker) -> None:
    publish(nsq, *bodies(10))
    client = nsq().subscribe("t", "c", 10)
    ids = [each.id for each in client.messages(10)]
    order = [0, 1, 2, 9, 8, 5, 3, 4]
    client.send(b"RDY 0\n", *(b"FIN " + ids[at] + b"\n" for at in order)).nothing()
    wait_until(lambda: in_flight_count(broker, "t:c") == 2)
    client.socket.close()
    left = nsq().subscribe("t", "c", 10).messages(2)
    assert [(each.id, each.attempts) for each in left] == [(ids[6], 2), (ids[7], 2)]


def test_what_a_connection_held_comes_back_when_it_ends(nsq: Nsq) -> None:
    publish(nsq, *bodies(3))
    client = nsq().subscribe("t", "c", 2)
    held = client.messages(2)
    client.socket.close()
    got = nsq().subscribe("t", "c", 10).messages(3)
    assert [each.id for each in got[:2]] == [each.id for each in held]
    assert [each.attempts for each in got] == [2, 2, 1]


def test_two_channels_get_a_copy_each_and_two_consumers_share(nsq: Nsq) -> None:
    one, two = nsq().subscribe("t", "one", 10), nsq().subscribe("t", "two", 1)
    beside = nsq().subscribe("t", "two", 1)
    publish(nsq, b"x", b"y")
    assert [each.body for each in one.messages(2)] == [b"x", b"y"]
    assert sorted([two.message().body, beside.message().body]) == [b"x", b"y"]


def test_cls_stops_deliveries_and_lets_answers_come(nsq: Nsq) -> None:
    publish(nsq, *bodies(4))
    client = nsq().subscribe("t", "c", 3)
    ids = [each.id for each in client.messages(3)]
    client.send(b"CLS\n")
    assert client.receive() == (0, b"CLOSE_WAIT")
    client.send(b"RDY 100\nRDY 9999999\nRDY x\n").nothing()
    client.send(b"FIN " + ids[0] + b"\nTOUCH " + ids[1] + b"\nREQ " + ids[1] + b" 0\n").nothing()
    client.send(pub("t", b"e")).ok()
    client.send(b"CLS\n")
    assert client.error() == b"E_INVALID cannot CLS in current state"
    assert client.receive() is None


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (b"FIN\n", b"E_INVALID FIN insufficient number of params"),
        (b"FIN abc\n", b"E_INVALID invalid message ID"),
        (b"REQ 0000000000000000\n", b"E_INVALID REQ insufficient number of params"),
        (b"REQ abc x\n", b"E_INVALID invalid message ID"),
        (b"REQ 0000000000000000 x\n", b"E_INVALID REQ could not parse timeout x"),
        (b"TOUCH\n", b"E_INVALID TOUCH insufficient number of params"),
        (b"RDY 2501\n", b"E_INVALID RDY count 2501 out of range 0-2500"),
        (b"RDY -1\n", b"E_INVALID RDY could not parse count -1"),
        (b"RDY 18446744073709551615\n", b"E_INVALID RDY count -1 out of range 0-2500"),
        (b"SUB t c\n", b"E_INVALID cannot SUB in current state"),
        (identify(), b"E_INVALID cannot IDENTIFY in current state"),
        (b"AUTH x\n", b"E_INVALID cannot AUTH in current state"),
    ],
)
def test_a_subscribers_mistake_ends_its_connection(nsq: Nsq, command: bytes, text: bytes) -> None:
    client = nsq().subscribe("t", "c")
    client.send(command)
    assert client.error() == text
    assert client.receive() is None


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (b"FIN zzzzzzzzzzzzzzzz\n", b"E_FIN_FAILED FIN zzzzzzzzzzzzzzzz failed ID not in flight"),
        (
            b"FIN " + b"\xff" * 16 + b"\n",
            b"E_FIN_FAILED FIN " + b"\xff" * 16 + b" failed ID not in flight",
        ),
        (
            b"FIN 0000000000000000 more\n",
            b"E_FIN_FAILED FIN 0000000000000000 failed ID not in flight",
        ),
        (
            b"REQ 0000000000000000 \n",
            b"E_REQ_FAILED REQ 0000000000000000 failed ID not in flight",
        ),
        (
            b"TOUCH 0000000000000000\n",
            b"E_TOUCH_FAILED TOUCH 0000000000000000 failed ID not in flight",
        ),
    ],
)
def test_an_id_that_is_not_in_flight_is_an_error_and_no_end(
    nsq: Nsq, command: bytes, text: bytes
) -> None:
    client = nsq().subscribe("t", "c")
    client.send(command)
    assert client.error() == text
    client.nothing()


def test_a_message_on_amqps_queue_is_in_flight_as_any(nsq: Nsq, broker: leveret.Broker) -> None:
    publish(nsq, b"x")
    client = nsq().subscribe("t", "c", 1)
    client.message()
    assert queue_definition(broker, "t:c").durable
    assert in_flight_count(broker, "t:c") == 1


def test_messages_that_the_topic_kept_come_to_its_first_channel(nsq: Nsq) -> None:
    nsq().send(mpub("t", *bodies(5)), dpub("t", 0, b"5")).ok(2)
    got = nsq().subscribe("t", "c", 10).messages(6)
    assert [each.body for each in got] == bodies(6)


def test_sample_rate_drops_for_good_and_keeps_credit(nsq: Nsq, broker: leveret.Broker) -> None:
    publish(nsq, *bodies(1000))
    client = nsq()
    client.send(identify(sample_rate=30)).ok()
    client.subscribe("t", "c", 2500)
    wait_until(lambda: 150 < in_flight_count(broker, "t:c") < 500)
    held = in_flight_count(broker, "t:c")
    got = client.messages(held)
    assert all(int(each.id, 16) == int(each.body) + 1 for each in got)
    client.socket.close()
    # Dropped ones do not come back.
    again = nsq().subscribe("t", "c", 2500).messages(held)
    assert [each.id for each in again] == [each.id for each in got]


class TestTouchedForLong:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        timeouts = {"nsq_message_timeout_ms": 1_000, "nsq_message_timeout_ms_max": 1_500}
        return {"nsq_port": 0, **timeouts}

    def test_touches_put_the_time_out_off_no_further_than_the_maximum(
        self, nsq: Nsq, clock: HeldClock
    ) -> None:
        publish(nsq, b"x")
        client = nsq().subscribe("t", "c", 1)
        message = client.message()
        other = nsq().subscribe("t", "c", 1)
        client.send(b"RDY 0\n").nothing()
        for seconds in (0.7, 0.7):
            clock.advance(seconds)
            client.send(b"TOUCH " + message.id + b"\n").nothing()
            other.nothing()
        clock.advance(0.1)
        assert other.message() == message._replace(attempts=2)
