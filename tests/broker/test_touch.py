"""Touch and requeue: any client speaks of its deliveries by publishes to an exchange."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import leveret
import pika
import pytest
from gated_files import GatedFiles
from held_clock import HeldClock
from insides import context_of, in_flight_count, publish_window, readers, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicGet,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ConnectionBlocked,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    QueueBind,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from leveret.logs.reading.check import TraceCheck
from leveret.logs.reading.tail import TraceTail
from pika.exceptions import ChannelClosedByBroker
from traced import client_of, explanation, trace_of, traced, wait_for_events
from wire import Client, publish

EXCHANGE = "amq.leveret.delivery"
TIMEOUT_MS = 300
HURRIED = {"x-in-flight-timeout": Field("signedint", TIMEOUT_MS)}


@pytest.fixture
def clock(broker: leveret.Broker) -> HeldClock:
    return HeldClock(broker)


def command(
    routing_key: str, tag: int, delay_ms: int | None = None, channel: int = 1, **how: bool
) -> bytes:
    headers = {"delivery-tag": Field("long", tag)}
    if delay_ms is not None:
        headers["delay-ms"] = Field("long", delay_ms)
    properties = Properties(headers=headers)
    return publish(routing_key, b"", properties, exchange=EXCHANGE, channel=channel, **how)


def over(clock: HeldClock, timeout_ms: float) -> None:
    clock.advance(timeout_ms / 1000)


def delivered(client: Client, channel: int = 1) -> tuple[int, bytes, bool]:
    deliver = client.expect_type(channel, BasicDeliver)
    return deliver.delivery_tag, client.read_content(channel).body, deliver.redelivered


def confirmed(client: Client, *sent: bytes) -> None:
    """Publish on channel 1, in confirm mode; the next frames are the acks."""
    client.send(*sent)
    first = client.next_seq_no
    client.next_seq_no += len(sent)
    client.expect_acks(range(first, client.next_seq_no))


def hold(client: Client, *bodies: bytes) -> None:
    """A consumer that holds these messages and gets no others."""
    client.declare("q", arguments=HURRIED)
    client.publish_all("q", *bodies)
    assert client.ask(1, BasicQos(prefetch_count=len(bodies))) == BasicQosOk()
    client.consume("q")
    for number, body in enumerate(bodies):
        assert delivered(client) == (number + 1, body, False)


def test_a_touched_message_has_its_time_again_and_the_others_of_its_delivery_do_not(
    client: Client, broker: leveret.Broker, clock: HeldClock
) -> None:
    hold(client, b"1", b"2", b"3")
    over(clock, 200)
    confirmed(client, command("touch", 2))
    over(clock, 100)
    client.nothing_more()
    assert client.counts("q") == (2, 1)
    over(clock, 199)
    assert client.counts("q") == (2, 1)
    confirmed(client, command("touch", 2))
    over(clock, 299)
    assert (client.counts("q"), in_flight_count(broker, "q")) == ((2, 1), 1)
    # In time: it is gone, and its credit brings the first of those that came back.
    client.send_methods(1, BasicAck(2))
    assert delivered(client) == (4, b"1", True)


def test_touches_end_at_the_maximum_behind_the_delivery(
    connect: Callable[..., Client], broker: leveret.Broker, clock: HeldClock
) -> None:
    context_of(broker).touched_timeout_ms_max = 500
    client = connect()
    client.open_channel(1, confirms=True)
    hold(client, b"1")
    for _ in range(2):
        over(clock, 200)
        confirmed(client, command("touch", 1))
    over(clock, 99)
    assert client.counts("q") == (0, 1)
    over(clock, 1)
    assert client.counts("q") == (1, 1)
    # Too late: no effect, and no mistake.
    confirmed(client, command("touch", 1))
    assert client.counts("q") == (1, 1)
    client.send_methods(1, BasicAck(1))
    assert delivered(client) == (2, b"1", True)


def test_requeue_gives_a_message_back_to_its_old_place_and_frees_its_credit(
    client: Client, clock: HeldClock
) -> None:
    hold(client, b"1", b"2")
    client.publish_all("q", b"3")
    confirmed(client, command("requeue", 1, mandatory=True))
    # Its old place is before the third.
    assert delivered(client) == (3, b"1", True)
    assert client.counts("q") == (1, 1)


def test_requeue_with_a_delay_brings_the_message_back_to_its_old_place_when_it_is_due(
    client: Client, broker: leveret.Broker, clock: HeldClock
) -> None:
    hold(client, b"1", b"2", b"3")
    client.publish_all("q", b"4")
    confirmed(client, command("requeue", 1, 500), command("requeue", 2, 70))
    # Their credit is free.
    assert delivered(client) == (4, b"4", False)
    client.send_methods(1, BasicAck(3), BasicAck(4))
    over(clock, 69)
    client.nothing_more()
    assert (client.counts("q"), in_flight_count(broker, "q")) == ((0, 1), 0)
    over(clock, 1)
    assert delivered(client) == (5, b"2", True)
    over(clock, 430)
    assert delivered(client) == (6, b"1", True)


def test_requeue_at_once_passes_over_the_delay_of_the_queue(
    client: Client, clock: HeldClock
) -> None:
    client.declare("q", arguments={"x-requeue-delay": Field("signedint", 500)})
    client.publish_all("q", b"1")
    client.consume("q")
    assert delivered(client) == (1, b"1", False)
    confirmed(client, command("requeue", 1))
    assert delivered(client) == (2, b"1", True)
    confirmed(client, command("requeue", 2, 0))
    assert delivered(client) == (3, b"1", True)


def test_the_delay_of_a_requeue_outlives_the_broker(tmp_path: Path) -> None:
    hour_ms = 3_600_000
    directory = tmp_path / "another"
    with leveret.Broker(data_dir=directory, port=0, log_level="error") as broker:
        HeldClock(broker)
        with Client(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(1, confirms=True)
            client.declare("q", durable=True)
            client.publish_all("q", b"1", properties=Properties(delivery_mode=2))
            client.consume("q")
            assert delivered(client) == (1, b"1", False)
            confirmed(client, command("requeue", 1, hour_ms))
            client.close()
    with leveret.Broker(data_dir=directory, port=0, log_level="error") as broker:
        clock = HeldClock(broker)
        with Client(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(1)
            client.consume("q")
            client.nothing_more()
            over(clock, hour_ms)
            assert delivered(client) == (1, b"1", True)
            client.close()


def test_commands_are_confirmed_beside_a_message_that_waits_for_its_disk(
    client: Client, files: GatedFiles, clock: HeldClock
) -> None:
    client.declare("durable", durable=True)
    hold(client, b"1")
    files.hold()
    persistent = publish("durable", b"x", Properties(delivery_mode=2))
    client.send(command("touch", 1), persistent, command("touch", 1))
    # Each number once: the first before, the last beside the message that is not on the disk.
    client.expect(1, BasicAck(2, True), BasicAck(4, False))
    files.release()
    client.expect(1, BasicAck(3, False))


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (command("touch", 1), "PRECONDITION_FAILED - unknown delivery tag 1"),
        (command("requeue", 9), "PRECONDITION_FAILED - unknown delivery tag 9"),
        (
            command("finish", 1),
            "PRECONDITION_FAILED - command for exchange 'amq.leveret.delivery' in vhost '/': "
            "unknown routing key 'finish', expected touch or requeue",
        ),
        (
            publish("touch", b"", exchange=EXCHANGE),
            "PRECONDITION_FAILED - command for exchange 'amq.leveret.delivery' in vhost '/': "
            "header 'delivery-tag' is missing",
        ),
    ],
)
def test_a_command_that_cannot_be_carried_out_closes_its_channel_with_the_reason(
    client: Client, sent: bytes, text: str
) -> None:
    client.send(sent)
    assert client.read_method(1) == ChannelClose(406, text, 60, 40)


def test_a_delivery_belongs_to_the_channel_that_got_it(client: Client) -> None:
    hold(client, b"1")
    client.open_channel(2)
    client.send(command("touch", 1, channel=2))
    unknown = client.expect_type(2, ChannelClose)
    assert unknown.reply_text == "PRECONDITION_FAILED - unknown delivery tag 1"


def test_a_delivery_of_basic_get_is_touched_like_any_other(
    client: Client, clock: HeldClock
) -> None:
    client.declare("q", arguments=HURRIED)
    client.publish_all("q", b"1")
    client.send_methods(1, BasicGet(queue="q"))
    client.read_method(1)
    client.read_content(1)
    over(clock, 200)
    confirmed(client, command("touch", 1))
    over(clock, 299)
    assert client.counts("q") == (0, 0)
    over(clock, 1)
    assert client.counts("q") == (1, 0)


def test_the_exchange_can_be_declared_as_it_is_and_neither_bound_nor_deleted(
    client: Client,
) -> None:
    for passive in (True, False):
        declare = ExchangeDeclare(exchange=EXCHANGE, type="direct", durable=True, passive=passive)
        assert client.ask(1, declare) == ExchangeDeclareOk()
    client.declare("q")
    for channel, method in (
        (2, QueueBind(queue="q", exchange=EXCHANGE)),
        (3, ExchangeDelete(exchange=EXCHANGE)),
    ):
        client.open_channel(channel)
        refused = client.ask(channel, method)
        assert isinstance(refused, ChannelClose)
        assert refused.reply_code == 403


def test_in_a_transaction_a_touch_acts_at_once_and_a_requeue_with_the_commit(
    connect: Callable[..., Client], clock: HeldClock
) -> None:
    client = connect()
    client.open_channel(1, confirms=True)
    client.declare("q", arguments=HURRIED)
    client.publish_all("q", b"1", b"2")
    client.open_channel(2)
    assert client.ask(2, TxSelect()) == TxSelectOk()
    client.consume("q", channel=2)
    for tag in (1, 2):
        assert delivered(client, 2)[0] == tag
    over(clock, 200)

    client.send(command("touch", 1, channel=2), command("requeue", 2, channel=2))
    client.nothing_more(2)
    assert client.ask(2, TxRollback()) == TxRollbackOk()
    # The rollback has undone the requeue: the second message is in flight, and times out.
    over(clock, 100)
    assert delivered(client, 2) == (3, b"2", True)
    client.send(command("requeue", 1, 70, channel=2), command("requeue", 3, 0, channel=2))
    client.nothing_more(2)
    client.send_methods(2, TxCommit())
    client.expect(2, TxCommitOk())
    assert delivered(client, 2) == (4, b"2", True)
    over(clock, 70)
    assert delivered(client, 2) == (5, b"1", True)


class TestWithoutRoomOnTheDisk:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"disk_check_interval_ms": 10}

    def test_a_connection_that_only_touches_is_not_blocked_and_one_that_publishes_is(
        self, connect: Callable[..., Client], broker: leveret.Broker, files: GatedFiles
    ) -> None:
        client = connect(capabilities=("connection.blocked",))
        client.open_channel(1, confirms=True)
        hold(client, b"1", b"2")
        files.free = 0
        wait_until(lambda: bool(context_of(broker).alarms.reason))
        confirmed(client, command("touch", 1))
        client.send_methods(1, BasicAck(2))
        confirmed(client, command("touch", 1), command("touch", 1))
        client.send(command("touch", 1), publish("q"))
        client.expect(0, ConnectionBlocked("low on disk"))


class TestWithASmallWindow:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"publish_window_bytes_max": 65_536}

    def test_touches_wait_for_no_disk_however_many_they_are(
        self, client: Client, broker: leveret.Broker, files: GatedFiles, clock: HeldClock
    ) -> None:
        client.declare("durable", durable=True)
        hold(client, b"1")
        files.hold()
        client.send(publish("durable", b"x", Properties(delivery_mode=2)))
        files.wait_until_syncing()
        touches = [command("touch", 1)] * 2_000
        assert sum(map(len, touches)) > 2 * 65_536
        with client.sending(*touches):
            # One by one, because the message before them is not on the disk.
            for number in range(3, 2_003):
                client.expect(1, BasicAck(number, False))
        wait_until(lambda: publish_window(readers(broker)[0]).used_bytes < 1_000)
        files.release()
        client.expect(1, BasicAck(2, False))


def test_pika_touches_and_gives_back(broker: leveret.Broker) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", arguments={"x-in-flight-timeout": 60_000})
        channel.basic_publish("", "q", b"work")
        method, _, _ = channel.basic_get("q")
        about = pika.BasicProperties(headers={"delivery-tag": method.delivery_tag})
        channel.basic_publish(EXCHANGE, "touch", b"", about, mandatory=True)
        channel.basic_publish(EXCHANGE, "requeue", b"", about)
        method, _, body = channel.basic_get("q")
        assert (method.redelivered, body) == (True, b"work")
        with pytest.raises(ChannelClosedByBroker, match="unknown delivery tag 1"):
            channel.basic_publish(EXCHANGE, "requeue", b"", about)


def test_the_trace_says_until_when_a_message_was_given_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        HeldClock(broker)
        tail = TraceTail(tmp_path / "data" / "traces", from_begin=True)
        hold(client, b"1")
        confirmed(client, command("requeue", 1, 3_600_000))
        wait_for_events(tail, "message.deferred")
        said = explanation(tmp_path, capsys)[-1]
        client.close()
    lines = trace_of(tmp_path)
    [deferred] = [line for line in lines if line["event"] == "message.deferred"]
    assert said.endswith(
        f"In queue 'q' it is deferred until {deferred['until']} (given back) after 1 delivery."
    )
    check = TraceCheck()
    check.feed(lines)
    assert not list(check.faults)


def test_the_trace_says_until_when_a_message_was_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        clock = HeldClock(broker)
        tail = TraceTail(tmp_path / "data" / "traces", from_begin=True)
        hold(client, b"1")
        over(clock, 100)
        confirmed(client, command("touch", 1))
        wait_for_events(tail, "message.touched")
        said = explanation(tmp_path, capsys)[-1]
        client.close()
    [touched] = [line for line in trace_of(tmp_path) if line["event"] == "message.touched"]
    assert touched["queue"] == "q"
    assert f"which touched it and has time until {touched['until']}" in said
    assert explanation(tmp_path, capsys, 2)[-1] == (
        "Confirmed, and carried out as a command about a delivery."
    )
