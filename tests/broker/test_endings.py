"""Closes that cross, closes in the middle of things, and refusals before a word is said."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import leveret
import pytest
from gated_files import GatedFiles
from insides import readers, wait_until
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicConsume,
    BasicGet,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlowOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from leveret.amqp_frames.values.field_table import table_of
from wire import PERSISTENT, Client, methods_of, publish

Connect = Callable[..., Client]
MISTAKE = QueueDeclare(queue="missing", passive=True)
NOT_FOUND = ChannelClose(404, "NOT_FOUND - no queue 'missing' in vhost '/'", 50, 10)


def test_both_sides_may_close_a_channel_at_once(client: Client) -> None:
    client.send_methods(1, MISTAKE)
    client.expect(1, NOT_FOUND)
    # Sent before the broker's close was read.
    client.send_methods(1, ChannelClose(200, "bye"))
    client.expect(1, ChannelCloseOk())
    client.send_methods(1, ChannelCloseOk())
    client.open_channel(1)


def test_a_channel_close_sent_right_behind_a_mistake_is_answered(client: Client) -> None:
    client.send_methods(1, MISTAKE, ChannelClose(200, "bye"))
    # A client that waits for its close-ok would wait for ever without it.
    client.expect(1, NOT_FOUND, ChannelCloseOk())
    client.send_methods(1, ChannelCloseOk())
    client.open_channel(1)
    client.nothing_more()


def test_both_sides_may_close_a_connection_at_once(client: Client) -> None:
    client.send_methods(0, ConnectionOpen())
    assert client.expect_type(0, ConnectionClose).reply_code == 504
    client.send_methods(0, ConnectionClose(200, "bye"))
    client.expect(0, ConnectionCloseOk())
    client.send_methods(0, ConnectionCloseOk())
    client.expect_closed()


def test_due_confirms_are_written_before_close_ok(client: Client) -> None:
    client.send(publish("nowhere"), methods_of(1, ChannelClose(200, "bye")))
    client.expect(1, BasicAck(1, False), ChannelCloseOk())


def test_due_confirms_are_written_before_a_close_for_a_mistake(client: Client) -> None:
    client.send(publish("nowhere"), publish("", exchange="missing"))
    client.expect(1, BasicAck(1, False))
    assert client.expect_type(1, ChannelClose).reply_code == 404


def test_a_mistake_behind_connection_close_is_not_told(client: Client) -> None:
    client.send(methods_of(0, ConnectionClose(200, "bye")), methods_of(1, MISTAKE))
    client.expect(0, ConnectionCloseOk())
    client.hang_up()


def test_a_mistake_before_connection_close_does_not_hold_up_close_ok(client: Client) -> None:
    client.send(methods_of(1, MISTAKE), methods_of(0, ConnectionClose(200, "bye")))
    answer = client.read_any_method()
    if answer == (1, NOT_FOUND):
        answer = client.read_any_method()
    assert answer == (0, ConnectionCloseOk())
    client.hang_up()


@pytest.mark.parametrize(
    "command",
    [
        QueueDeclare(queue="other", durable=True),
        QueueDeclare(queue="other", durable=True, no_wait=True),
        QueuePurge(queue="queue"),
        BasicGet(queue="queue"),
        BasicConsume(queue="third"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_all_that_came_before_connection_close_is_carried_out_before_close_ok(
    client: Client, connect: Connect, command: Method
) -> None:
    for queue in ("queue", "third"):
        client.declare(queue, durable=True)
    closing = connect()
    closing.open_channel(1)
    closing.open_channel(2)
    closing.send(
        methods_of(1, command),
        publish("queue", b"1", PERSISTENT),
        methods_of(2, TxSelect()),
        *([publish("queue", b"2", PERSISTENT, channel=2), methods_of(2, TxCommit())] * 2),
        methods_of(1, QueueDeclare(queue="last", durable=True)),
        publish("queue", b"1", PERSISTENT),
        methods_of(0, ConnectionClose(200, "bye")),
    )
    while closing.read_frame().channel:
        pass
    assert client.counts("queue") == (4, 0)
    assert client.counts("last") == (0, 0)


def test_exclusive_queues_declared_before_connection_close_are_gone_at_close_ok(
    client: Client, connect: Connect
) -> None:
    closing = connect()
    closing.open_channel(1)
    closing.send(
        methods_of(1, QueueDeclare(queue="missing", exclusive=True)),
        methods_of(1, QueueDeclare(queue="queue", durable=True)),
        methods_of(0, ConnectionClose(200, "bye")),
    )
    while closing.read_frame().channel:
        pass
    assert client.counts("queue") == (0, 0)
    assert client.ask(1, MISTAKE) == NOT_FOUND


def test_a_client_that_closes_and_goes_while_its_commands_wait_for_the_disk_leaves_nothing(
    client: Client, connect: Connect, broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("queue", durable=True)
    client.publish_all("queue", b"1", properties=PERSISTENT)
    closing = connect()
    closing.open_channel(1)
    files.hold()
    closing.send(
        methods_of(1, QueuePurge(queue="queue")),
        publish("queue", b"2", PERSISTENT),
        methods_of(0, ConnectionClose(200, "bye")),
    )
    files.wait_until_syncing()
    closing.drop()
    wait_until(lambda: len(readers(broker)) == 1)
    files.release()
    assert client.counts("queue") == (0, 0)


def test_a_channel_number_is_free_again_after_its_close_however_it_was_closed(
    client: Client,
) -> None:
    for _ in range(5):
        assert client.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
        client.open_channel(1)
        client.send_methods(1, MISTAKE)
        client.expect(1, NOT_FOUND)
        client.send_methods(1, ChannelCloseOk())
        client.open_channel(1)


@pytest.mark.parametrize(
    ("wire", "ids"),
    [
        (methods_of(9, BasicAck(1)), (60, 80)),
        (methods_of(9, ChannelCloseOk()), (20, 41)),
        (publish("q", channel=9), (60, 40)),
    ],
)
def test_a_channel_that_is_not_open_is_a_channel_error(
    client: Client, wire: bytes, ids: tuple[int, int]
) -> None:
    client.send(wire)
    client.expect(0, ConnectionClose(504, "CHANNEL_ERROR - expected 'channel.open'", *ids))


@pytest.mark.parametrize("answer", [ChannelCloseOk(), ChannelFlowOk(True)])
def test_an_answer_to_what_was_not_asked_is_an_error(client: Client, answer: Method) -> None:
    client.send_methods(1, answer)
    text = "COMMAND_INVALID - unimplemented method"
    client.expect(0, ConnectionClose(503, text, answer.class_id, answer.method_id))


def test_a_channel_that_is_opened_before_its_close_is_answered_is_an_error(client: Client) -> None:
    client.send_methods(1, ChannelClose(200, "bye"), ChannelOpen())
    client.expect(0, ConnectionClose(504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10))


def test_access_request_is_answered_and_means_nothing(client: Client) -> None:
    assert client.ask(1, AccessRequest()) == AccessRequestOk(1)


def test_header_and_start_ok_may_come_in_one_write(broker: leveret.Broker) -> None:
    start_ok = ConnectionStartOk(table_of({}), "PLAIN", b"\0guest\0guest", "en_US")
    with Client(broker.host, broker.port) as client:
        client.send(PROTOCOL_HEADER, methods_of(0, start_ok))
        client.expect_type(0, ConnectionStart)
        client.expect_type(0, ConnectionTune)


def test_a_channel_s_frame_in_the_handshake_is_a_channel_error(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.offer()
        client.expect_type(0, ConnectionTune)
        client.send_methods(1, ChannelOpen())
        text = "CHANNEL_ERROR - unexpected frame in connection state tuning"
        client.expect(0, ConnectionClose(504, text, 0, 0))


def test_a_client_in_the_handshake_is_dropped_when_the_broker_stops(tmp_path: Path) -> None:
    broker = leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error")
    with (
        broker,
        Client(broker.host, broker.port) as silent,
        Client(broker.host, broker.port) as new,
    ):
        new.offer()
        new.expect_type(0, ConnectionTune)
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        silent.expect_closed()
        new.expect_closed()
        stopping.join()


def test_a_connection_above_the_limit_is_told_so_when_it_opens_its_vhost(tmp_path: Path) -> None:
    with (
        leveret.Broker(
            data_dir=tmp_path / "data", port=0, log_level="error", connections_max=2
        ) as broker,
        Client(broker.host, broker.port) as first,
        Client(broker.host, broker.port) as second,
        Client(broker.host, broker.port) as third,
        Client(broker.host, broker.port) as unopened,
    ):
        unopened.offer()
        first.log_in()
        second.log_in()
        third.offer()
        tune = third.expect_type(0, ConnectionTune)
        answer = ConnectionTuneOk(tune.channel_max, tune.frame_max, 0)
        third.send_methods(0, answer, ConnectionOpen())
        text = "NOT_ALLOWED - connection refused: node connection limit (2) is reached"
        third.expect(0, ConnectionClose(530, text, 10, 40))
        second.close()
        # The third still has its socket: it does not count.
        wait_until(lambda: len(readers(broker)) == 3)
        with Client(broker.host, broker.port) as fourth:
            fourth.log_in()
        first.open_channel()
        first.nothing_more()


def test_sockets_far_above_the_limit_are_dropped(tmp_path: Path) -> None:
    with (
        leveret.Broker(
            data_dir=tmp_path / "data",
            port=0,
            log_level="error",
            connections_max=1,
            sockets_above_connections_max=1,
        ) as broker,
        Client(broker.host, broker.port) as first,
        Client(broker.host, broker.port) as second,
        Client(broker.host, broker.port) as third,
    ):
        first.log_in()
        second.offer()
        third.expect_closed()
