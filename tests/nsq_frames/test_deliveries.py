"""Message frames: time, attempts, id and body of each message, whatever its AMQP frames."""

from __future__ import annotations

import struct
from array import array

import pytest
from leveret.amqp_frames.messages.batch import Batch, Indexes
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.properties import Properties
from leveret.nsq_frames.deliveries import encode_messages
from wire import publish


def frames(batch: Batch, indexes: Indexes, **others: int) -> list[tuple[int, int, bytes, bytes]]:
    """Timestamp, attempts, id and body of each frame."""
    arguments = {"first_entry_id": 1, "attempts": 1, "timestamp_ns": 7} | others
    data = encode_messages(batch.wire, batch.headers, batch.ends, indexes, **arguments)
    found = []
    while data:
        size, kind, timestamp, attempts = struct.unpack_from(">IIqH", data)
        assert kind == 2
        found.append((timestamp, attempts, data[18:34], data[34 : 4 + size]))
        data = data[4 + size :]
    return found


@pytest.fixture
def batch() -> Batch:
    bodies = [b"zero", b"", b"two" * 100_000, b"three"]
    headed = Properties(headers={}, message_id="id", delivery_mode=2)
    return decode_publishes(b"".join(publish("q", body, headed) for body in bodies))


def test_bodies_come_whole_and_empty_ones_empty(batch: Batch) -> None:
    got = frames(batch, range(4), first_entry_id=0xAB, timestamp_ns=2**62)
    assert got == [
        (2**62, 1, b"00000000000000ab", b"zero"),
        (2**62, 1, b"00000000000000ac", b""),
        (2**62, 1, b"00000000000000ad", b"two" * 100_000),
        (2**62, 1, b"00000000000000ae", b"three"),
    ]


def test_some_messages_of_a_batch_have_ids_in_a_row(batch: Batch) -> None:
    got = frames(batch, array("I", (0, 3)), first_entry_id=5)
    assert [(id, body) for _, _, id, body in got] == [
        (b"0000000000000005", b"zero"),
        (b"0000000000000006", b"three"),
    ]


@pytest.mark.parametrize(
    ("attempts", "shown"), [(65_535, 65_535), (65_536, 65_535), (2**31, 65_535)]
)
def test_attempts_stay_at_65535(batch: Batch, attempts: int, shown: int) -> None:
    assert frames(batch, range(1), attempts=attempts)[0][1] == shown
