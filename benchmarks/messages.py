"""Messages that differ as those of real programs do, encoded before the clock runs.

Every one has a message id, a correlation id, a timestamp and a table of headers of its own, whose
values have different lengths, and a body of 100 to 300 bytes. A broker that profits from messages
being alike to the byte, as the rows called identical are, has nothing to profit from here.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

from benchmarks import wire

# So many are made; a load that is longer than that begins again. 8 MB: no cache of a processor, and
# no broker, still knows a message that comes a second time.
POOL_MESSAGES = 20_000
BODY_BYTES_MIN = 100
BODY_BYTES_MAX = 300

_CONTENT_TYPE, _HEADERS, _DELIVERY_MODE = 0x8000, 0x2000, 0x1000
_CORRELATION_ID, _MESSAGE_ID, _TIMESTAMP = 0x0400, 0x0080, 0x0040
_FLAGS = _CONTENT_TYPE | _HEADERS | _DELIVERY_MODE | _CORRELATION_ID | _MESSAGE_ID | _TIMESTAMP
_FIRST_SECOND = 1_760_000_000
_SERVICES = ("web", "billing", "warehouse-north", "mobile-gateway", "crm")
_WORDS = ("parcel", "ordered", "by", "customer", "from", "the", "catalogue", "of", "hares", "€")


def message(
    chance: random.Random,
    number: int,
    exchange: str,
    routing_key: str,
    delivery_mode: int,
    mandatory: bool,
) -> bytes:
    """Encode one publish on channel 1; `number` is the message's place in the pool."""
    headers = (
        _field("x-request-id", chance.randbytes(chance.randint(4, 16)).hex())
        + _field("source", chance.choice(_SERVICES))
        + _field("tenant", "t" * chance.randint(1, 24) + str(chance.randrange(1000)))
        + wire.shortstr("attempt")
        + struct.pack(">cI", b"I", chance.randrange(5))
    )
    properties = (
        wire.shortstr("application/json")
        + struct.pack(">I", len(headers))
        + headers
        + struct.pack(">B", delivery_mode)
        + wire.shortstr(chance.randbytes(chance.randint(6, 18)).hex())
        + wire.shortstr(f"{number:08x}-{chance.randbytes(12).hex()}")
        + struct.pack(">Q", _FIRST_SECOND + number // 100)
    )
    body = _body(chance, number)
    header = struct.pack(">HHQH", 60, 0, len(body), _FLAGS) + properties
    names = b"\0\0" + wire.shortstr(exchange) + wire.shortstr(routing_key)
    return (
        wire.method(1, 60, 40, names + bytes([mandatory]))
        + wire.frame(2, 1, header)
        + wire.frame(3, 1, body)
    )


def pool(
    routing_keys: Sequence[str],
    delivery_mode: int = wire.PERSISTENT,
    mandatory: bool = False,
    exchange: str = "",
    count: int = 0,
    seed: int = 1,
) -> list[bytes]:
    """Encode messages with these routing keys in turn; the same ones for the same seed.

    `count` 0 makes POOL_MESSAGES.
    """
    chance = random.Random(seed)
    keys = len(routing_keys)
    return [
        message(chance, number, exchange, routing_keys[number % keys], delivery_mode, mandatory)
        for number in range(count or POOL_MESSAGES)
    ]


def _field(name: str, value: str) -> bytes:
    data = value.encode()
    return wire.shortstr(name) + struct.pack(">cI", b"S", len(data)) + data


def _body(chance: random.Random, number: int) -> bytes:
    size = chance.randint(BODY_BYTES_MIN, BODY_BYTES_MAX)
    text = f'{{"order": {number}, "lines": "' + " ".join(chance.choices(_WORDS, k=80))
    return text.encode()[: size - len(wire.BODY_MARKER)] + wire.BODY_MARKER
