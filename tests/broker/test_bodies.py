"""Bodies of every size and cut, through every frame_max, back as they were."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    ChannelFlow,
    ChannelFlowOk,
)
from leveret.amqp_frames.properties import Properties
from wire import (
    FRAME_MAX_BYTES,
    PERSISTENT,
    Client,
    content_header,
    frame,
    methods_of,
    publish,
)

Connect = Callable[..., Client]
MIB = 1 << 20


def random_bytes(count: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(count)


def in_frames(chunks: Iterable[bytes], channel: int = 1) -> bytes:
    """A publish to q whose body comes in these frames."""
    chunks = list(chunks)
    return b"".join(
        [
            methods_of(channel, BasicPublish(routing_key="q")),
            content_header(channel, sum(map(len, chunks)), PERSISTENT),
            *(frame(3, channel, chunk) for chunk in chunks),
        ]
    )


@pytest.mark.parametrize(
    "size", [0, 1, 4087, 4088, 4089, FRAME_MAX_BYTES - 8, FRAME_MAX_BYTES - 7, 3 * FRAME_MAX_BYTES]
)
def test_a_body_of_any_size_comes_back_in_the_fewest_frames(client: Client, size: int) -> None:
    client.declare("q", durable=True)
    body = random_bytes(size)
    client.publish_all("q", body, properties=PERSISTENT)
    client.send_methods(1, BasicGet(queue="q"))
    client.expect(1, BasicGetOk(1, False, "", "q", 0))
    content = client.read_content(1)
    assert content.body == body
    assert content.properties == PERSISTENT
    assert content.body_frames == -(-size // (FRAME_MAX_BYTES - 8))


def test_a_body_of_16_mb_is_kept_and_comes_back(client: Client) -> None:
    client.declare("q", durable=True)
    body = random_bytes(16 * MIB)
    client.publish_all("q", body, properties=PERSISTENT)
    client.consume("q")
    client.expect_delivery(BasicDeliver("c", 1, False, "", "q"), body)


def test_bodies_that_come_in_pieces_of_any_size_come_back(client: Client) -> None:
    client.declare("q", durable=True)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    # Octets that are frame ends: what was taken twice would pass for a frame.
    bodies = [b"\xce" * chance.randrange(60_000, 300_000) for _ in range(100)]
    for body in bodies:
        wire = publish("q", body, PERSISTENT)
        place = chance.choice((chance.randrange(80), chance.randrange(len(wire))))
        client.send(wire[:place])
        client.send(wire[place:])
    client.expect_acks(range(1, 101))
    client.consume("q")
    for tag, body in enumerate(bodies, 1):
        client.expect_delivery(BasicDeliver("c", tag, False, "", "q"), body)


def test_a_body_of_16_mb_in_frames_of_4_kb_comes_back(connect: Connect) -> None:
    client = connect(frame_max_bytes=4096)
    client.open_channel(1, confirms=True)
    client.declare("q", durable=True)
    body = random_bytes(16 * MIB)
    client.send(publish("q", body, PERSISTENT, frame_max_bytes=4096))
    client.expect(1, BasicAck(1, False))
    client.consume("q")
    client.expect_delivery(BasicDeliver("c", 1, False, "", "q"), body)


def test_frames_are_cut_anew_for_a_consumer_whose_frame_max_is_smaller(
    client: Client, connect: Connect
) -> None:
    small = connect(frame_max_bytes=4096)
    small.open_channel()
    small.declare("q")
    small.consume("q")
    bodies = [random_bytes(size, size) for size in (0, 100, 4088, 4089, 8192, 100_000)]
    client.publish_all("q", *bodies)
    for number, body in enumerate(bodies, 1):
        small.expect(1, BasicDeliver("c", number, False, "", "q"))
        content = small.read_content(1)
        assert content.body == body
        assert content.body_frames == -(-len(body) // 4088)


@pytest.mark.parametrize(
    "chunks",
    [
        [b"a"] * 50,
        [b"ab", b"", b"", b"c"],
        [b"", b"abc"],
        [bytes(4000), bytes(1), bytes(4000)],
    ],
)
def test_a_body_cut_in_any_way_is_one_body(
    client: Client, connect: Connect, chunks: list[bytes]
) -> None:
    client.declare("q", durable=True)
    client.send(in_frames(chunks) * 3)
    client.expect_acks(range(1, 4))
    other = connect()
    other.open_channel(5)
    for left in (2, 1, 0):
        got = client.get("q", no_ack=True) if left else other.get("q", channel=5)
        assert got is not None
        assert (got.left, got.body) == (left, b"".join(chunks))


def test_a_publish_may_come_octet_by_octet(client: Client) -> None:
    client.declare("q")
    for octet in publish("q", b"slowly"):
        client.send(bytes((octet,)))
    client.expect(1, BasicAck(1, False))
    assert client.get("q") == (1, False, 0, b"slowly")


@pytest.mark.parametrize("seed", range(5))
def test_publishes_cut_at_random_places_come_through_in_order(client: Client, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    client.declare("q")
    bodies = [chance.randbytes(chance.choice((0, 3, 200, 5000, 200_000))) for _ in range(40)]
    wire = b"".join(publish("q", body) for body in bodies)
    while wire:
        cut = min(len(wire), chance.choice((1, 20, 300, 70_000, 500_000)))
        client.send(wire[:cut])
        wire = wire[cut:]
    client.expect_acks(range(1, len(bodies) + 1))
    for body in bodies:
        got = client.get("q", no_ack=True)
        assert got is not None
        assert got.body == body


def test_channels_may_take_turns_frame_by_frame(client: Client) -> None:
    client.declare("q")
    client.open_channel(2, confirms=True)
    header = [content_header(channel, 4) for channel in (1, 2)]
    method = [methods_of(channel, BasicPublish(routing_key="q")) for channel in (1, 2)]
    client.send(
        method[0],
        method[1],
        header[1],
        header[0],
        frame(3, 1, b"on"),
        frame(3, 2, b"tw"),
        frame(3, 2, b"o!"),
        frame(3, 1, b"e!"),
    )
    client.expect(2, BasicAck(1, False))
    client.expect(1, BasicAck(1, False))
    assert client.get("q") == (1, False, 1, b"two!")
    assert client.get("q") == (2, False, 0, b"one!")


def test_a_message_of_one_channel_is_delivered_on_another_with_every_property(
    client: Client,
) -> None:
    client.declare("q")
    client.open_channel(7)
    client.consume("q", channel=7)
    properties = Properties(content_type="x/y", message_id="m", cluster_id="k")
    for size in (0, 10, 300_000):
        client.send(publish("q", bytes(size), properties))
        client.expect_type(7, BasicDeliver)
        content = client.read_content(7)
        assert (content.properties, content.body) == (properties, bytes(size))
        client.expect_type(1, BasicAck)


def test_channel_flow_true_is_answered(client: Client) -> None:
    assert client.ask(1, ChannelFlow(True)) == ChannelFlowOk(True)
