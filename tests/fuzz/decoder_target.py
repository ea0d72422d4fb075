"""The decoder of a connection: any octets, cut into reads in any way.

Holds it to its promises: no exception leaves it, and what it decodes depends on the octets and not
on where the reads end.
"""

from __future__ import annotations

from decoding import decoded
from leveret.amqp_frames.decoder import WHOLE_PUBLISH_BYTES_MAX
from mutations import SESSION
from octets import Octets

NAME = "decoder"
INPUT_BYTES_MAX = 4096
_FRAME_MAX = (0, 64, 4096, 131_072)
_MESSAGE_SIZE_MAX = (0, 30, 3000, 1 << 27)
_UNFINISHED_MAX = (1000, 1 << 28)
_READ_BYTES = (1, 2, 7, 20, 100)
PROTOCOL_HEADER_BYTES = 8
# The decoder may wait for the rest of a publish before it looks at the frame behind: for so much at
# most. So it finds a fault there later if the reads are short, and only then.
_BEHIND = bytes(WHOLE_PUBLISH_BYTES_MAX + 1)


def seeds() -> list[bytes]:
    """A valid session whole, and the frames of it one by one."""
    session = SESSION[PROTOCOL_HEADER_BYTES:]
    whole = [b"\x02\x02\x01" + bytes((way,)) + session for way in range(len(_READ_BYTES) + 1)]
    frames, at = [], 0
    while at < len(session):
        end = at + 8 + int.from_bytes(session[at + 3 : at + 7], "big")
        frames.append(b"\x03\x03\x01\x00" + session[at:end])
        at = end
    return whole + frames


def run(data: bytes) -> None:
    """One input; raises if a promise is broken."""
    octets = Octets(data)
    limits = {
        "frame_max_bytes": _FRAME_MAX[octets.below(len(_FRAME_MAX))],
        "message_size_max_bytes": _MESSAGE_SIZE_MAX[octets.below(len(_MESSAGE_SIZE_MAX))],
        "unfinished_publishes_bytes_max": _UNFINISHED_MAX[octets.below(len(_UNFINISHED_MAX))],
    }
    way = octets.below(len(_READ_BYTES) + 1)
    wire = octets.rest()
    if way == len(_READ_BYTES):
        # As long as the octets themselves say.
        reads, at = [], 0
        while at < len(wire):
            reads.append(wire[at : at + wire[at] + 1])
            at += wire[at] + 1
    else:
        size = _READ_BYTES[way]
        reads = [wire[at : at + size] for at in range(0, len(wire), size)]
    assert decoded([*reads, _BEHIND], **limits) == decoded([wire, _BEHIND], **limits)
