"""Bodies under way on many channels: their connection's memory is bounded, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from holding import parts
from insides import inside, readers
from leveret.amqp_frames.constants import FRAME_BODY
from leveret.amqp_frames.messages.assembly import Assembly
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
)
from wire import Client, content_header, frame, methods_of, publish

LIMIT_BYTES = 1_000_000
BODY_BYTES = 500_000
FRAME_BYTES = 100_000
TEXT = (
    "RESOURCE_ERROR - unfinished publishes of the connection are larger than "
    f"configured max size {LIMIT_BYTES}"
)


@pytest.fixture
def settings() -> dict[str, object]:
    return {
        "message_size_max_bytes": LIMIT_BYTES,
        "unfinished_publishes_bytes_max": LIMIT_BYTES,
    }


def frames_of(channel: int) -> list[bytes]:
    """A publish to queue `q`, frame by frame."""
    method = methods_of(channel, BasicPublish(routing_key="q"))
    header = content_header(channel, BODY_BYTES)
    return [method, header, *[frame(FRAME_BODY, channel, bytes(FRAME_BYTES))] * 5]


def open_channels(client: Client, count: int) -> list[int]:
    """So many beside channel 1, all in confirm mode."""
    channels = list(range(2, count + 2))
    for channel in channels:
        client.open_channel(channel, confirms=True)
    return channels


def test_bodies_on_many_channels_past_the_limit_end_their_connection_and_harm_no_other(
    client: Client, connect: Callable[..., Client], broker: leveret.Broker
) -> None:
    client.declare("q")
    channels = open_channels(client, 20)
    client.send(publish("q"))
    client.expect(1, BasicAck(1, False))
    other = connect()
    other.open_channel(1, confirms=True)
    other_frames = frames_of(1)
    other.send(*other_frames[:-1])
    # All of them frame by frame, one beside the other, until the broker says no.
    for number in range(6):
        client.send(*(frames_of(channel)[number] for channel in channels))
    client.expect(0, ConnectionClose(506, TEXT, 60, 40))
    assert not parts(inside(readers(broker)[0]), Assembly)
    client.send_methods(0, ConnectionCloseOk())
    client.expect_closed()
    other.send(other_frames[-1])
    other.expect(1, BasicAck(1, False))
    assert other.counts("q") == (2, 0)


def test_bodies_on_many_channels_one_after_the_other_have_all_the_room(client: Client) -> None:
    client.declare("q")
    channels = open_channels(client, 5)
    begun = frames_of(1)
    client.send(*begun[:3])
    for channel in channels:
        for each in frames_of(channel):
            client.send(each)
        client.expect(channel, BasicAck(1, False))
    client.send(*begun[3:])
    client.expect(1, BasicAck(1, False))
    assert client.counts("q") == (6, 0)


def test_a_channel_that_is_closed_for_a_mistake_leaves_its_room(client: Client) -> None:
    client.declare("q")
    for _ in range(5):
        client.open_channel(2)
        mistake = methods_of(2, QueueDeclare(queue="missing", passive=True))
        client.send(mistake, *frames_of(2)[:-1])
        assert client.expect_type(2, ChannelClose).reply_code == 404
        client.send_methods(2, ChannelCloseOk())
    client.send(publish("q"))
    client.expect(1, BasicAck(1, False))


def test_the_largest_message_fits_in_the_smallest_frames(client: Client) -> None:
    client.declare("q")
    body = frame(FRAME_BODY, 1, bytes(100)) * (LIMIT_BYTES // 100)
    method = methods_of(1, BasicPublish(routing_key="q"))
    client.send(method, content_header(1, LIMIT_BYTES), body)
    client.expect(1, BasicAck(1, False))
