"""The scanner of an NSQ connection: any octets, cut into reads in any way, in both forms.

Held to: no exception leaves it, both forms of its loops find the same, what it finds depends on the
octets and not on where the reads end, and the batches are what the AMQP decoder makes of their
wire.
"""

from __future__ import annotations

import random

from forms import columns, compiled, decoder
from leveret.amqp_frames.decoder import ChannelInput
from leveret.amqp_frames.messages.batch import Batch
from nsq_streams import LIMITS, Stream, batches_of, commands_of, compared, events_of, random_wire
from octets import Octets

NAME = "nsq"
INPUT_BYTES_MAX = 512
SEEDS = 40
_READ_BYTES = (1, 7, 20, 100)


def seeds() -> list[bytes]:
    """Streams of the codec's tests, in reads of each size."""
    found = []
    for number in range(SEEDS):
        wire = random_wire(random.Random(number))[: INPUT_BYTES_MAX - 2]
        found.append(bytes((number % 7 % 3, number % (len(_READ_BYTES) + 1))) + wire)
    return found


def run(data: bytes) -> None:
    """One input; raises if a promise is broken."""
    octets = Octets(data)
    limits = LIMITS[octets.below(len(LIMITS))]
    way = octets.below(len(_READ_BYTES) + 1)
    wire = octets.rest()
    size = max(1, len(wire)) if way == len(_READ_BYTES) else _READ_BYTES[way]
    stream = Stream([wire[at : at + size] for at in range(0, len(wire), size)], limits)
    whole = Stream([wire], limits)
    found, found_whole = (
        events_of(each, None) if compiled is None else compared(each, 1) for each in (stream, whole)
    )
    assert commands_of(found) == commands_of(found_whole)
    for batch in batches_of(found_whole):
        assert columns(_decoded(batch.wire)) == columns(batch)


def _decoded(wire: bytes) -> Batch:
    [event] = decoder().feed(wire)
    assert isinstance(event, ChannelInput)
    assert event.batch is not None
    return event.batch
