"""The broker reads no more from a publisher than it can take, and forgets nothing it has read."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from gated_files import GatedFiles
from insides import publish_window, readers, wait_until
from leveret.actors.connection.listener import READ_BYTES_MAX
from leveret.amqp_frames.methods import (
    BasicAck,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    QueueDeclare,
)
from wire import PERSISTENT, Client, methods_of, publish

WINDOW_BYTES = 65_536
BODY = bytes(10_000)


@pytest.fixture
def settings() -> dict[str, object]:
    return {"publish_window_bytes_max": WINDOW_BYTES}


def test_a_publisher_faster_than_the_disk_is_read_no_further_and_then_to_its_end(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    files.hold()
    count = 300
    with client.sending(publish("durable", BODY, PERSISTENT) * count):
        files.wait_until_syncing()
        window = publish_window(readers(broker)[0])
        wait_until(lambda: window.is_closed)
        # One read more than the window holds, with a message that was cut by the read before.
        assert window.used_bytes < WINDOW_BYTES + READ_BYTES_MAX + 20_000
        files.release()
    acked = 0
    while acked < count:
        ack = client.expect_type(1, BasicAck)
        assert ack.delivery_tag > acked
        assert ack.multiple or ack.delivery_tag == acked + 1
        acked = ack.delivery_tag
    assert client.counts("durable") == (count, 0)
    wait_until(lambda: window.used_bytes == 0)


def test_what_a_failed_channel_never_looked_at_does_not_fill_the_window(
    connect: Callable[..., Client],
) -> None:
    client = connect()
    client.open_channel()
    mistake = methods_of(1, QueueDeclare(queue="missing", passive=True))
    for _ in range(20):
        client.send(mistake, publish("missing", BODY) * 2)
        assert client.expect_type(1, ChannelClose).reply_code == 404
        client.send_methods(1, ChannelCloseOk(), ChannelOpen())
        client.expect(1, ChannelOpenOk())


def test_publishes_behind_a_mistake_are_dropped(connect: Callable[..., Client]) -> None:
    client = connect()
    client.open_channel()
    client.declare("q")
    wrong = publish("q", exchange="missing")
    client.send(publish("q"), wrong, publish("q"), methods_of(1, ChannelOpen()), publish("q"))
    assert client.expect_type(1, ChannelClose).reply_code == 404
    client.send(publish("q"), methods_of(1, ChannelCloseOk()))
    client.open_channel()
    assert client.counts("q") == (1, 0)


def test_publishes_outside_confirm_mode_are_held_back_by_the_window_too(
    connect: Callable[..., Client], broker: leveret.Broker, files: GatedFiles
) -> None:
    client = connect()
    client.open_channel()
    client.declare("durable", durable=True)
    files.hold()
    with client.sending(publish("durable", BODY, PERSISTENT) * 100):
        files.wait_until_syncing()
        window = publish_window(readers(broker)[0])
        wait_until(lambda: window.is_closed)
        files.release()
    client.wait_for_counts("durable", (100, 0))


def test_a_closed_window_stops_no_other_connection(
    client: Client, connect: Callable[..., Client], broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    client.declare("q")
    files.hold()
    with client.sending(publish("durable", BODY, PERSISTENT) * 100):
        files.wait_until_syncing()
        window = publish_window(readers(broker)[0])
        wait_until(lambda: window.is_closed)
        other = connect()
        other.open_channel(1, confirms=True)
        other.send(publish("q"))
        other.expect(1, BasicAck(1, False))
        files.release()
