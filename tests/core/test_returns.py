"""Returned messages, as pamqp reads them."""

from __future__ import annotations

import pamqp.commands
import pamqp.frame
import pamqp.header
import pytest
from batches import batch_of
from leveret.amqp_frames.messages.deliveries import encode_returns
from leveret.amqp_frames.properties import Properties, decode_properties
from leveret.core.publishing.publisher import encode_returned
from wire import publish

FULL = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers={"a": 1, "x-delivery-tag": "the client's own"},
    delivery_mode=2,
    priority=3,
    correlation_id="c",
    reply_to="r",
    message_id="m",
    timestamp=5,
    type="t",
    user_id="guest",
    app_id="app",
    cluster_id="cluster",
)


def read(frames: bytes) -> list[object]:
    found = []
    while frames:
        used, _, frame = pamqp.frame.unmarshal(frames)
        found.append(frame)
        frames = frames[used:]
    return found


def test_clients_without_return_delivery_tag_get_the_same_bytes() -> None:
    batch = batch_of(publish("q", properties=FULL), publish("r"))
    for first_seq_no in (0, 5):
        assert encode_returned(batch, [0, 1], first_seq_no, 1, 4096, False) == encode_returns(
            batch, [0, 1], first_seq_no, 1, 4096
        )


def test_outside_confirm_mode_there_is_no_tag_to_give() -> None:
    batch = batch_of(publish("q"))
    assert encode_returned(batch, [0], 0, 1, 4096, True) == encode_returns(batch, [0], 0, 1, 4096)


@pytest.mark.parametrize("properties", [Properties(), Properties(delivery_mode=1), FULL])
@pytest.mark.parametrize("channel", [1, 3])
@pytest.mark.parametrize("body", [b"", b"body", bytes(9000)])
def test_the_tag_is_added_to_the_headers_and_nothing_else_changes(
    properties: Properties, channel: int, body: bytes
) -> None:
    batch = batch_of(publish("other"), publish("q", body, properties, exchange="x"))
    method, header, *parts, ack = read(encode_returned(batch, [1], 41, channel, 4096, True))
    assert isinstance(method, pamqp.commands.Basic.Return)
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key) == ("x", "q")
    assert isinstance(header, pamqp.header.ContentHeader)
    sent = dict(header.properties)
    headers = sent.pop("headers")
    assert headers == {**(_pamqps(properties).pop("headers") or {}), "x-delivery-tag": 42}
    expected = _pamqps(properties)
    expected.pop("headers")
    assert sent == expected
    assert b"".join(part.value for part in parts) == body  # type: ignore[attr-defined]
    assert isinstance(ack, pamqp.commands.Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (42, False)


def _pamqps(properties: Properties) -> dict[str, object]:
    _, header, *_ = read(publish("q", properties=properties))
    assert isinstance(header, pamqp.header.ContentHeader)
    return dict(header.properties)


def test_each_of_several_has_its_own_tag_and_its_ack_behind_it() -> None:
    batch = batch_of(*(publish("q", b"%d" % index) for index in range(4)))
    frames = read(encode_returned(batch, [0, 2, 3], 10, 1, 4096, True))
    tags = [
        frame.properties.headers["x-delivery-tag"]
        for frame in frames
        if isinstance(frame, pamqp.header.ContentHeader)
    ]
    acks = [f.delivery_tag for f in frames if isinstance(f, pamqp.commands.Basic.Ack)]
    assert tags == acks == [10, 12, 13]
    assert [type(frame).__name__ for frame in frames] == [
        "Return",
        "ContentHeader",
        "ContentBody",
        "Ack",
    ] * 3


def test_properties_without_room_for_the_tag_stay_as_they_are() -> None:
    room = 4096 - 8 - 12
    for filler_bytes, has_tag in ((3000, True), (room - 20, False)):
        properties = Properties(headers={"filler": "x" * filler_bytes})
        batch = batch_of(publish("q", b"body", properties))
        frames = encode_returned(batch, [0], 1, 1, 4096, True)
        assert (b"x-delivery-tag" in frames) == has_tag
        _, header, body, ack = read(frames)
        assert isinstance(header, pamqp.header.ContentHeader)
        assert len(pamqp.frame.marshal(header, 1)) <= 4096
        assert body.value == b"body"  # type: ignore[attr-defined]
        assert isinstance(ack, pamqp.commands.Basic.Ack)


def test_names_that_are_not_utf8_come_back_as_they_were() -> None:
    wire = publish("q", properties=Properties(app_id="xx")).replace(b"\2xx", b"\2\xff\xfe")
    frames = encode_returned(batch_of(wire), [0], 1, 1, 4096, True)
    header = frames.index(b"\2\0\1")
    size = int.from_bytes(frames[header + 3 : header + 7], "big")
    properties = decode_properties(frames, header + 19, header + 7 + size)
    assert properties.app_id == "\udcff\udcfe"
