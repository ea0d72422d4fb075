"""A connection's reader, and the node behind it: any octets that a client sends, in any reads.

Held to: no actor fails, all come to rest, what is written is whole frames, and nothing of the
connection is left when its socket is lost.
"""

from __future__ import annotations

import frames_by_hand as frames
from client_octets import WAYS, play
from decoding import split_frames
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from mutations import SESSION
from quiet_node import QuietNode

NAME = "reader"
INPUT_BYTES_MAX = 4096
_LOG_IN = (
    PROTOCOL_HEADER,
    frames.start_ok(),
    frames.tune_ok() + frames.method(0, frames.OPEN, frames.short("/") + b"\0\0"),
)
_CHANNELS = b"".join(frames.method(number, frames.CHANNEL_OPEN, b"\0") for number in (1, 2))
_WORK = (
    frames.method(1, frames.CONFIRM_SELECT, b"\0")
    + frames.method(
        1, frames.QUEUE_DECLARE, b"\0\0" + frames.short("q") + b"\x02" + frames.long(b"")
    )
    + frames.publish(1, "", "q", b"body", frames.PERSISTENT, mandatory=True) * 3
    + frames.qos(1, 2)
    + frames.consume(1, "q", "tag")
)
# What the broker has been sent before the input's own octets.
_BEFORE = ((), _LOG_IN, (*_LOG_IN, _CHANNELS), (*_LOG_IN, _CHANNELS, _WORK))


def seeds() -> list[bytes]:
    """A valid session, from each state on, whole and frame by frame."""
    whole = SESSION[len(PROTOCOL_HEADER) :]
    pieces = []
    at = 0
    while at < len(whole):
        end = at + 8 + int.from_bytes(whole[at + 3 : at + 7], "big")
        pieces += [bytes((state, 0)) + whole[at:end] for state in (2, 3)]
        at = end
    sessions = [bytes((0, way)) + SESSION for way in range(WAYS)]
    return sessions + pieces + [bytes((3, 0)) + frames.ack(1, 1) + frames.nack(1, 2)]


def run(data: bytes) -> None:
    """One input; raises if a promise is broken."""
    written = play(data, _BEFORE, QuietNode.connect)
    if not written.startswith(PROTOCOL_HEADER):
        for _ in split_frames(written):
            pass
