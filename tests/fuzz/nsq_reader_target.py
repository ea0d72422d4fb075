"""An NSQ connection, and the node behind it: any octets that a client sends, in any reads.

Held to: no actor fails, all come to rest, what is written is whole frames, and nothing of the
connection is left when its socket is lost.
"""

from __future__ import annotations

import random

from client_octets import WAYS, play
from nsq_streams import random_wire
from nsq_wire import auth, dpub, identify, mpub
from quiet_node import QuietNode

NAME = "nsq_reader"
INPUT_BYTES_MAX = 4096
SEEDS = 30
_MAGIC = b"  V2"
_IDENTIFY = identify(feature_negotiation=True, msg_timeout=1000)
_MESSAGES = mpub("t", b"x", b"y") + dpub("t", 50, b"z")
_SUBSCRIPTION = b"SUB t c\nRDY 2\n"
# What the broker has been sent before the input's own octets.
_BEFORE = (
    (),
    (_MAGIC,),
    (_MAGIC, _IDENTIFY, _MESSAGES, _SUBSCRIPTION),
    (_MAGIC, _SUBSCRIPTION, _MESSAGES, b"CLS\n"),
)
# As the first consumer of a new node gets them.
_ANSWERS = (
    b"FIN 0000000000000001\n" + b"REQ 0000000000000002 5\n" + b"TOUCH 0000000000000002\n",
    b"RDY 0\nREQ 0000000000000001 0\nRDY 1\nFIN 0000000000000001\nFIN 0000000000000001\nNOP\n",
    auth(b"guest:guest") + b"SUB t c\n" + b"FIN 1\n",
)


def seeds() -> list[bytes]:
    """Streams of the codec's tests and a consumer's answers, from each state on."""
    wires = [random_wire(random.Random(number))[:1000] for number in range(SEEDS)]
    found = [bytes((number % len(_BEFORE), 0)) + wire for number, wire in enumerate(wires)]
    found += [bytes((2, way)) + each for way in (0, 5) for each in _ANSWERS]
    session = b"".join((_MAGIC, _IDENTIFY, _MESSAGES, _SUBSCRIPTION, *_ANSWERS))
    return [*found, *(bytes((0, way)) + session for way in range(WAYS))]


def run(data: bytes) -> None:
    """One input; raises if a promise is broken."""
    _check_frames(play(data, _BEFORE, QuietNode.connect_nsq))


def _check_frames(written: bytes) -> None:
    at = 0
    while at < len(written):
        size, kind = (int.from_bytes(written[k : k + 4], "big") for k in (at, at + 4))
        assert 4 <= size <= len(written) - at - 4, written[at : at + 40]
        assert kind in {0, 1, 2}, kind
        at += 4 + size
