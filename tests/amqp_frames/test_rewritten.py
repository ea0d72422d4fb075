"""A batch with other properties: the named messages change in their headers, and nowhere else."""

from __future__ import annotations

import random
from collections.abc import Iterator

from decoding import Message, messages
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.copies import with_properties
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.properties import Properties, encode_properties
from wire import PERSISTENT, publish


def test_only_the_properties_of_the_named_messages_differ() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(200):
        before = [
            (f"k{chance.randrange(3)}", chance.randbytes(chance.choice((0, 1, 9000))))
            for _ in range(chance.randrange(1, 8))
        ]
        batch = decode_publishes(
            b"".join(publish(key, body, PERSISTENT, frame_max_bytes=4096) for key, body in before)
        )
        named = {
            index: encode_properties(Properties(message_id="m" * chance.randrange(200)))
            for index in range(len(batch))
            if chance.random() < 0.5
        }
        made = with_properties(batch, named)
        kept = encode_properties(PERSISTENT)
        old, new = list(messages(batch)), list(rewritten_messages(made))
        assert [message.key for message in new] == [message.key for message in old]
        assert [message.body for message in new] == [body for _, body in before]
        expected = [named.get(index, kept) for index in range(len(batch))]
        assert [message.properties for message in new] == expected
        assert made.persistent == batch.persistent
        assert made.wire_bytes == len(made.wire)


def rewritten_messages(made: Batch) -> Iterator[Message]:
    """As `messages`, which also holds the columns against the wire."""
    again = decode_publishes(made.wire)
    for name in ("starts", "headers", "ends", "keys", "distinct", "channel_number"):
        assert getattr(again, name) == getattr(made, name), name
    assert made.frame_bytes_max >= again.frame_bytes_max
    return messages(again)
