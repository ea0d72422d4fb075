"""x-requeue-delay: a message that comes back is deferred, over restarts too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import leveret
import pytest
from held_clock import HeldClock
from insides import deferred_count, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    Method,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from leveret.amqp_frames.values.field_table import Field
from leveret.commands.command_line import main
from timeouts import TIMEOUT_SECONDS
from traced import client_of, explained, trace_of, traced
from wire import PERSISTENT, Client

DELAY_MS = 300
HOUR_MS = 3_600_000
DELAYED = {"x-requeue-delay": Field("signedint", DELAY_MS)}
FOR_AN_HOUR = {"x-requeue-delay": Field("signedint", HOUR_MS)}


@pytest.fixture(autouse=True)
def clock(broker: leveret.Broker) -> HeldClock:
    return HeldClock(broker)


def delivered(client: Client) -> tuple[int, bytes, object]:
    """The tag, body and `x-delivery-count` of the next delivery."""
    deliver = client.expect_type(1, BasicDeliver)
    content = client.read_content(1)
    headers = content.properties.headers or {}
    count = headers.get("x-delivery-count")
    assert deliver.redelivered == (count is not None)
    return deliver.delivery_tag, content.body, count and count.value


@pytest.mark.parametrize("answer", [BasicNack(1, False, True), BasicReject(1, True)])
def test_a_requeued_message_is_delivered_again_when_its_delay_is_over(
    client: Client, clock: HeldClock, answer: Method
) -> None:
    client.declare("q", arguments=DELAYED)
    client.publish_all("q", b"1", b"2")
    client.consume("q")
    assert delivered(client) == (1, b"1", None)
    assert delivered(client) == (2, b"2", None)
    client.send_methods(1, answer)
    client.nothing_more()
    clock.advance((DELAY_MS - 1) / 1000)
    client.nothing_more()
    clock.advance(0.001)
    assert delivered(client) == (3, b"1", 1)
    # The second time for twice as long.
    client.send_methods(1, BasicNack(3, False, True))
    client.nothing_more()
    clock.advance((2 * DELAY_MS - 1) / 1000)
    client.nothing_more()
    clock.advance(0.001)
    assert delivered(client) == (4, b"1", 2)


def test_messages_that_timed_out_are_deferred(client: Client, clock: HeldClock) -> None:
    client.declare("q", arguments=DELAYED | {"x-in-flight-timeout": Field("signedint", 50)})
    client.publish_all("q", b"1")
    client.consume("q")
    assert delivered(client) == (1, b"1", None)
    clock.advance(0.050)
    client.nothing_more()
    clock.advance((DELAY_MS - 1) / 1000)
    client.nothing_more()
    clock.advance(0.001)
    assert delivered(client) == (2, b"1", 1)


def test_what_nobody_called_failed_is_ready_at_once(client: Client, broker: leveret.Broker) -> None:
    client.declare("q", arguments=FOR_AN_HOUR)
    client.publish_all("q", b"1")
    client.consume("q")
    assert delivered(client) == (1, b"1", None)
    assert client.ask(1, BasicRecover(requeue=True)) == BasicRecoverOk()
    assert delivered(client) == (2, b"1", 1)
    assert client.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    assert deferred_count(broker, "q") == 0
    assert client.ask(1, ChannelClose(200, "", 0, 0)) == ChannelCloseOk()
    client.open_channel(2)
    client.wait_for_counts("q", (1, 0), 2)
    assert deferred_count(broker, "q") == 0


def test_a_deferred_message_is_content_that_no_count_of_ready_ones_shows(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("q", arguments=FOR_AN_HOUR)
    client.publish_all("q", b"1", b"2")
    client.consume("q")
    delivered(client)
    delivered(client)
    client.send_methods(1, BasicAck(1), BasicNack(2, False, True))
    client.nothing_more()
    assert (client.counts("q"), deferred_count(broker, "q")) == ((0, 1), 1)
    client.open_channel(2)
    refused = client.ask(2, QueueDelete(queue="q", if_empty=True))
    assert isinstance(refused, ChannelClose)
    assert (refused.reply_code, "not empty" in refused.reply_text) == (406, True)
    assert client.ask(1, QueuePurge(queue="q")) == QueuePurgeOk(1)
    assert client.ask(1, QueueDelete(queue="q", if_empty=True)) == QueueDeleteOk(0)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-requeue-delay": Field("signedint", 0)}, "x-requeue-delay: {value_zero,0}"),
        ({"x-requeue-delay": Field("signedint", -5)}, "x-requeue-delay: {value_negative,-5}"),
        (
            {"x-requeue-delay": Field("long", 1 << 40)},
            f"x-requeue-delay: {{value_too_large,{1 << 40}}}",
        ),
        (
            {"x-requeue-delay": Field("longstr", "1s")},
            'x-requeue-delay: "expected integer, got longstr"',
        ),
        (
            {"x-requeue-delay-max": Field("signedint", 5)},
            "x-requeue-delay-max: requeue_delay_max_but_no_requeue_delay_defined",
        ),
        (
            DELAYED | {"x-requeue-delay-max": Field("signedint", DELAY_MS - 1)},
            "x-requeue-delay-max: {requeue_delay_max_below_requeue_delay,299}",
        ),
    ],
)
def test_a_delay_that_is_none_is_refused(
    client: Client, arguments: dict[str, Field], reason: str
) -> None:
    answer = client.ask(1, QueueDeclare(queue="q", arguments=arguments))
    assert isinstance(answer, ChannelClose)
    assert answer.reply_code == 406
    name, why = reason.split(": ", 1)
    assert f"invalid arg '{name}' for queue 'q' in vhost '/': {why}" in answer.reply_text


def test_a_declaration_with_another_delay_is_refused(client: Client) -> None:
    client.declare("q", arguments=DELAYED)
    client.declare("q", arguments={"x-requeue-delay": Field("long", DELAY_MS)})
    answer = client.ask(1, QueueDeclare(queue="q", arguments=FOR_AN_HOUR))
    assert isinstance(answer, ChannelClose)
    assert answer.reply_code == 406
    assert "inequivalent arg 'x-requeue-delay' for queue 'q'" in answer.reply_text


@contextmanager
def started(directory: Path) -> Iterator[tuple[leveret.Broker, HeldClock, Client]]:
    with leveret.Broker(data_dir=directory, port=0, log_level="error") as broker:
        clock = HeldClock(broker)
        with Client(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(1, confirms=True)
            yield broker, clock, client
            client.close()


def test_a_message_deferred_for_an_hour_is_deferred_for_the_rest_of_it_after_a_start(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "another"
    with started(directory) as (broker, _, client):
        client.declare("q", durable=True, arguments=FOR_AN_HOUR)
        client.publish_all("q", b"1", properties=PERSISTENT)
        client.consume("q")
        assert delivered(client) == (1, b"1", None)
        client.send_methods(1, BasicNack(1, False, True))
        wait_until(lambda: deferred_count(broker, "q") == 1)
    with started(directory) as (broker, clock, client):
        client.consume("q")
        client.nothing_more()
        assert deferred_count(broker, "q") == 1
        # The broker was away for less than half an hour.
        clock.advance(HOUR_MS / 2000)
        client.nothing_more()
        clock.advance(HOUR_MS / 2000)
        assert delivered(client) == (1, b"1", 1)


def test_a_message_that_became_due_while_no_broker_ran_is_ready_at_the_start(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "another"
    arguments = {"x-requeue-delay": Field("signedint", 1)}
    with started(directory) as (broker, _, client):
        client.declare("q", durable=True, arguments=arguments)
        client.publish_all("q", b"1", properties=PERSISTENT)
        client.consume("q")
        assert delivered(client) == (1, b"1", None)
        client.send_methods(1, BasicNack(1, False, True))
        # The clock stands still, so it does not become due here.
        wait_until(lambda: deferred_count(broker, "q") == 1)
    with started(directory) as (_, _, client):
        client.consume("q")
        assert delivered(client) == (1, b"1", 1)


def test_the_trace_says_why_a_message_came_back_and_when_it_will(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Beside that of the fixture's broker.
    directory = tmp_path / "another"
    with traced(directory) as broker, client_of(broker) as client:
        clock = HeldClock(broker)
        client.declare("q", durable=True, arguments=DELAYED)
        client.publish_all("q", b"1", b"2", properties=PERSISTENT)
        client.consume("q")
        for tag, body in ((1, b"1"), (2, b"2")):
            assert delivered(client) == (tag, body, None)
        client.send_methods(1, BasicNack(1, False, True))
        client.nothing_more()
        clock.advance(DELAY_MS / 1000)
        assert delivered(client) == (3, b"1", 1)
        client.send_methods(1, BasicAck(3), BasicNack(2, False, True))
        client.nothing_more()
    lines = trace_of(directory)
    deferred, still = [line for line in lines if line["event"] == "message.deferred"]
    place = (deferred["batch"], deferred["messages"])
    of_first = [line for line in lines if (line.get("batch"), line.get("messages")) == place]
    events = ["message.requeued", "message.deferred", "message.due", "message.delivered"]
    begin = next(at for at, line in enumerate(of_first) if line["event"] == events[0])
    assert [line["event"] for line in of_first[begin : begin + 4]] == events
    assert deferred["attempt"] == 1
    waited_ms = datetime.fromisoformat(deferred["until"]) - datetime.fromisoformat(deferred["time"])
    # The time is read before the event is written.
    assert waited_ms <= timedelta(milliseconds=DELAY_MS)
    assert main(["trace", "check", "--data-dir", str(directory / "data")]) == 0
    message_id = f"{still['boot']}-{still['batch']}-{still['messages'][0][0]}"
    said = explained(directory, capsys, message_id)[-1]
    assert f"deferred until {still['until']} (given back) after 1 delivery" in said


def test_the_trace_says_of_a_stopped_broker_that_a_message_was_ready_after_its_delay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Beside that of the fixture's broker.
    directory = tmp_path / "another"
    with traced(directory) as broker, client_of(broker) as client:
        clock = HeldClock(broker)
        client.declare("q", durable=True, arguments=DELAYED)
        client.publish_all("q", b"1", properties=PERSISTENT)
        client.consume("q")
        assert delivered(client) == (1, b"1", None)
        client.send_methods(1, BasicCancel("c"), BasicNack(1, False, True))
        client.expect(1, BasicCancelOk("c"))
        client.nothing_more()
        clock.advance(DELAY_MS / 1000)
        wait_until(lambda: deferred_count(broker, "q") == 0)
    [due] = [line for line in trace_of(directory) if line["event"] == "message.due"]
    message_id = f"{due['boot']}-{due['batch']}-{due['messages'][0][0]}"
    said = explained(directory, capsys, message_id)[-1]
    assert "was ready (its delay is over) after 1 delivery when its broker stopped; " in said


def test_the_trace_names_messages_that_are_deferred_still_after_a_start(tmp_path: Path) -> None:
    # Beside that of the fixture's broker.
    directory = tmp_path / "another"
    with traced(directory) as broker, client_of(broker) as client:
        client.declare("q", durable=True, arguments=FOR_AN_HOUR)
        client.publish_all("q", b"1", properties=PERSISTENT)
        client.consume("q")
        assert delivered(client) == (1, b"1", None)
        client.send_methods(1, BasicNack(1, False, True))
        wait_until(lambda: deferred_count(broker, "q") == 1)
    with traced(directory):
        pass
    before, after = [line for line in trace_of(directory) if line["event"] == "message.deferred"]
    assert after["boot"] != before["boot"]
    moments = [datetime.fromisoformat(line["until"]) for line in (before, after)]
    # Two clocks are read one behind the other.
    assert abs(moments[1] - moments[0]) < timedelta(seconds=TIMEOUT_SECONDS)
    assert main(["trace", "check", "--data-dir", str(directory / "data")]) == 0
