"""x-in-flight-timeout: a message that is not acked in time returns, and no channel is closed."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import leveret
import pytest
from gated_files import GatedFiles
from held_clock import HeldClock
from insides import in_flight_count, readers, reading_gate, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    Method,
    QueueDeclare,
)
from leveret.amqp_frames.values.field_table import Field
from leveret.logs.reading.check import TraceCheck
from leveret.logs.reading.reader import read_trace, trace_files
from wire import PERSISTENT, Client, publish

TIMEOUT_MS = 300
HURRIED = {"x-in-flight-timeout": Field("signedint", TIMEOUT_MS)}


@pytest.fixture(autouse=True)
def clock(broker: leveret.Broker) -> HeldClock:
    return HeldClock(broker)


def over(clock: HeldClock, timeout_ms: float = TIMEOUT_MS) -> None:
    clock.advance(timeout_ms / 1000)


def delivered(client: Client, channel: int = 1) -> tuple[int, bytes, bool]:
    """The tag, body and `redelivered` of the next delivery."""
    deliver = client.expect_type(channel, BasicDeliver)
    return deliver.delivery_tag, client.read_content(channel).body, deliver.redelivered


def limited(client: Client, prefetch: int, channel: int = 1, is_global: bool = False) -> None:
    qos = BasicQos(prefetch_count=prefetch, global_=is_global)
    assert client.ask(channel, qos) == BasicQosOk()


def test_only_the_message_that_was_not_acked_comes_back_to_whoever_has_room(
    client: Client, clock: HeldClock
) -> None:
    client.declare("q", arguments=HURRIED)
    client.publish_all("q", b"1", b"2", b"3")
    limited(client, 3)
    client.consume("q", "stalled")
    assert [delivered(client) for _ in range(3)] == [
        (1, b"1", False),
        (2, b"2", False),
        (3, b"3", False),
    ]
    client.send_methods(1, BasicAck(1), BasicAck(3))
    over(clock, TIMEOUT_MS - 1)
    client.nothing_more()
    client.open_channel(2)
    client.consume("q", channel=2)
    over(clock, 1)
    # The stalled consumer has credit for two, and the new one has less to do.
    assert delivered(client, 2) == (1, b"2", True)
    client.send_methods(2, BasicAck(1))
    client.nothing_more()
    assert client.counts("q") == (0, 2)


@pytest.mark.parametrize(
    "late",
    [BasicAck(1), BasicNack(1, False, True), BasicReject(1, True), BasicNack(1, True, False)],
)
def test_a_late_answer_has_no_effect_but_gives_credit_back(
    client: Client, clock: HeldClock, late: Method
) -> None:
    client.declare("q", arguments=HURRIED)
    client.publish_all("q", b"1", b"2")
    limited(client, 1)
    client.consume("q")
    assert delivered(client) == (1, b"1", False)
    over(clock)
    # Its credit is with the delivery that it has not answered.
    client.nothing_more()
    assert client.counts("q") == (2, 1)
    client.send_methods(1, late)
    assert delivered(client) == (2, b"1", True)
    client.send_methods(1, BasicAck(2))
    assert delivered(client) == (3, b"2", False)
    # A second answer is a mistake as ever.
    client.send_methods(1, late)
    unknown = client.expect_type(1, ChannelClose)
    assert unknown.reply_code == 406
    assert "unknown delivery tag 1" in unknown.reply_text


def test_an_ack_of_many_passes_over_those_whose_time_is_over(
    client: Client, clock: HeldClock
) -> None:
    client.declare("q", arguments=HURRIED)
    client.publish_all("q", b"1")
    client.consume("q")
    assert delivered(client) == (1, b"1", False)
    over(clock)
    assert delivered(client) == (2, b"1", True)
    client.open_channel(2)
    client.send(publish("q", b"2", channel=2))
    assert delivered(client) == (3, b"2", False)
    client.send_methods(1, BasicAck(3, True))
    client.nothing_more()
    assert client.counts("q") == (0, 1)
    over(clock)
    client.nothing_more()
    assert client.counts("q") == (0, 1)


@pytest.mark.parametrize("is_global", [False, True])
def test_a_stalled_consumer_holds_its_prefetch_once_and_the_end_of_its_channel_frees_it(
    client: Client, broker: leveret.Broker, clock: HeldClock, is_global: bool
) -> None:
    client.declare("q", arguments=HURRIED)
    client.publish_all("q", *[b"%d" % n for n in range(5)])
    client.open_channel(2)
    limited(client, 2, 2, is_global)
    client.consume("q", channel=2)
    assert [delivered(client, 2)[1] for _ in range(2)] == [b"0", b"1"]
    for _ in range(3):
        over(clock)
        client.nothing_more(2)
        assert client.counts("q") == (5, 1)
        assert in_flight_count(broker, "q") == 0
    assert client.ask(2, BasicRecover(requeue=True)) == BasicRecoverOk()
    assert [delivered(client, 2) for _ in range(2)] == [(3, b"0", True), (4, b"1", True)]


def test_basic_get_has_the_time_of_the_queue(client: Client, clock: HeldClock) -> None:
    client.declare("q", arguments=HURRIED)
    client.publish_all("q", b"1")
    client.send_methods(1, BasicGet(queue="q"))
    client.read_method(1)
    client.read_content(1)
    over(clock, TIMEOUT_MS - 1)
    assert client.counts("q") == (0, 0)
    over(clock, 1)
    assert client.counts("q") == (1, 0)
    client.send_methods(1, BasicAck(1))
    assert client.counts("q") == (1, 0)


def test_a_consumer_may_have_a_time_of_its_own(client: Client, clock: HeldClock) -> None:
    client.declare("q")
    client.publish_all("q", b"1")
    client.consume("q", arguments=HURRIED)
    assert delivered(client) == (1, b"1", False)
    # It was ready when its queue had no use for a clock yet, and is not late for that.
    assert client.counts("q") == (0, 1)
    over(clock, TIMEOUT_MS - 1)
    client.nothing_more()
    over(clock, 1)
    assert delivered(client) == (2, b"1", True)


@pytest.mark.parametrize("value", [Field("signedint", 0), Field("longstr", "1s")])
@pytest.mark.parametrize("of", ["queue", "consumer"])
def test_a_time_that_is_none_is_refused(client: Client, value: Field, of: str) -> None:
    arguments = {"x-in-flight-timeout": value}
    if of == "queue":
        answer = client.ask(1, QueueDeclare(queue="q", arguments=arguments))
    else:
        client.declare("q")
        answer = client.ask(1, BasicConsume(queue="q", arguments=arguments))
    assert isinstance(answer, ChannelClose)
    assert answer.reply_code == 406
    assert "invalid arg 'x-in-flight-timeout' for queue 'q' in vhost '/'" in answer.reply_text


class TestWithASmallWindow:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"publish_window_bytes_max": 65_536}

    def test_while_its_connection_is_not_read_a_delivery_is_not_late(
        self, client: Client, broker: leveret.Broker, clock: HeldClock, files: GatedFiles
    ) -> None:
        """There may be an ack in the socket."""
        client.declare("durable", durable=True)
        client.declare("q", arguments=HURRIED)
        client.publish_all("q", b"1")
        client.consume("q")
        assert delivered(client) == (1, b"1", False)
        over(clock, 100)
        files.hold()
        gate = reading_gate(readers(broker)[0])
        client.send(publish("durable", bytes(70_000), PERSISTENT))
        wait_until(lambda: gate.is_paused and not gate.is_resting)
        over(clock, 10_000)
        files.release()
        client.expect(1, BasicAck(2))
        wait_until(lambda: not gate.is_paused)
        over(clock, 199)
        client.nothing_more()
        over(clock, 1)
        assert delivered(client) == (2, b"1", True)


def test_each_time_out_is_an_attempt(client: Client, clock: HeldClock) -> None:
    limit = {"x-delivery-limit": Field("signedint", 2)}
    client.declare("q", durable=True, arguments=HURRIED | limit)
    client.publish_all("q", b"1", properties=PERSISTENT)
    client.consume("q")
    for attempt in range(3):
        assert delivered(client) == (attempt + 1, b"1", attempt > 0)
        over(clock)
    client.nothing_more()
    assert client.counts("q") == (0, 1)


def test_attempts_outlive_the_broker(tmp_path: Path) -> None:
    # Beside that of the fixture's broker.
    directory = tmp_path / "another"
    limit = {"x-delivery-limit": Field("signedint", 1)}
    with leveret.Broker(data_dir=directory, port=0, log_level="error") as broker:
        clock = HeldClock(broker)
        with Client(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(1, confirms=True)
            client.declare("q", durable=True, arguments=HURRIED | limit)
            client.publish_all("q", b"1", properties=PERSISTENT)
            limited(client, 1)
            client.consume("q")
            assert delivered(client) == (1, b"1", False)
            over(clock)
            assert client.counts("q") == (1, 1)
            client.close()
    with leveret.Broker(data_dir=directory, port=0, log_level="error") as broker:
        clock = HeldClock(broker)
        with Client(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(1)
            client.consume("q")
            assert delivered(client) == (1, b"1", True)
            over(clock)
            assert client.counts("q") == (0, 1)
            client.close()


def test_the_trace_says_why_it_came_back_and_that_an_answer_was_late(tmp_path: Path) -> None:
    directory = tmp_path / "traced"
    with leveret.Broker(data_dir=directory, port=0, log_level="error", trace_one_of=1) as broker:
        clock = HeldClock(broker)
        with Client(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(1, confirms=True)
            client.declare("q", arguments=HURRIED)
            client.publish_all("q", b"1")
            limited(client, 1)
            client.consume("q")
            assert delivered(client) == (1, b"1", False)
            over(clock)
            client.nothing_more()
            client.send_methods(1, BasicAck(1))
            assert delivered(client) == (2, b"1", True)
            client.send_methods(1, BasicAck(2))
            client.close()
    files = trace_files([directory / "traces"])
    lines = list(read_trace(files))
    (requeued,) = [line for line in lines if line["event"] == "message.requeued"]
    assert requeued["reason"] == "its in-flight time-out has passed"
    for line in lines:
        if line["event"] == "message.delivered":
            # Both times are of the wall clock, the time-out's in whole milliseconds.
            left = datetime.fromisoformat(line["until"]) - datetime.fromisoformat(line["time"])
            assert left <= timedelta(milliseconds=TIMEOUT_MS)
    (late,) = [line for line in lines if line["event"] == "ack.late"]
    assert (late["queue"], late["delivery_tag"], late["reason"]) == ("q", [[1, 1]], "acked")
    check = TraceCheck()
    check.feed(lines)
    assert not list(check.faults)
