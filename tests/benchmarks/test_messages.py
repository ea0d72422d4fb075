from __future__ import annotations

import pika.frame
import pika.spec

from benchmarks import wire
from benchmarks.messages import BODY_BYTES_MAX, BODY_BYTES_MIN, pool

COUNT = 500


def decoded(message: bytes) -> tuple[pika.spec.Basic.Publish, pika.spec.BasicProperties, bytes]:
    """A publish as pika reads it; nothing is left behind it."""
    frames = []
    while message:
        size, frame = pika.frame.decode_frame(message)
        frames.append(frame)
        message = message[size:]
    method, header, body = frames
    assert (method.channel_number, header.body_size) == (1, len(body.fragment))
    return method.method, header.properties, body.fragment


def test_every_message_has_ids_headers_and_a_body_of_its_own() -> None:
    messages = [decoded(message) for message in pool(["k"], count=COUNT)]
    properties = [each for _, each, _ in messages]
    assert len({each.message_id for each in properties}) == COUNT
    assert len({each.correlation_id for each in properties}) == COUNT
    assert len({tuple(each.headers.items()) for each in properties}) == COUNT
    assert len({body for _, _, body in messages}) == COUNT
    assert properties == sorted(properties, key=lambda each: each.timestamp)
    assert {each.delivery_mode for each in properties} == {2}


def test_headers_ids_and_bodies_have_many_lengths() -> None:
    messages = [decoded(message) for message in pool(["k"], count=COUNT)]
    lengths = {len(body) for _, _, body in messages}
    assert (min(lengths), max(lengths)) >= (BODY_BYTES_MIN, BODY_BYTES_MIN + 100)
    assert max(lengths) <= BODY_BYTES_MAX
    assert len(lengths) > 100
    for name in ("x-request-id", "source", "tenant"):
        assert len({len(each.headers[name]) for _, each, _ in messages}) >= 4
    assert len({len(each.correlation_id) for _, each, _ in messages}) > 5
    assert all(body.endswith(wire.BODY_MARKER) for _, _, body in messages)
    # It is counted by its marker, so there must be no other in it.
    assert all(message.count(wire.BODY_MARKER) == 1 for message in pool(["k"], count=COUNT))


def test_routing_keys_come_in_turn_and_bits_are_as_asked_for() -> None:
    messages = pool(["a", "b", "c"], delivery_mode=1, mandatory=True, exchange="x", count=6)
    methods = [decoded(message) for message in messages]
    assert [each.routing_key for each, _, _ in methods] == ["a", "b", "c"] * 2
    assert {(each.exchange, each.mandatory) for each, _, _ in methods} == {("x", True)}
    assert {each.delivery_mode for _, each, _ in methods} == {1}


def test_the_same_messages_are_made_every_time() -> None:
    assert pool(["k"], count=20) == pool(["k"], count=20)
    assert pool(["k"], count=20, seed=2) != pool(["k"], count=20)
