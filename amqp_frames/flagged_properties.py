"""Which publishes the broker must look into before it may let their bytes pass.

Decided once for properties that a publisher repeats, by their flags and, where a header's name
counts, by its octets: a name that only looks like one of these costs a look, and no more.
"""

from __future__ import annotations

from typing import Final

from .properties import DELIVERY_MODES

# In the first octet of the flags: headers, delivery_mode, reply_to and expiration; in the second:
# user_id.
_HEADERS_HIGH: Final = 0x20
_DELIVERY_MODE_HIGH: Final = 0x10
_REPLY_TO_HIGH: Final = 0x02
_EXPIRATION_HIGH: Final = 0x01
_USER_ID_LOW: Final = 0x10
# Header names as on the wire: further routing keys (RabbitMQ's sender-selected distribution).
_CC: Final = b"\x02CC"
_BCC: Final = b"\x03BCC"
# The value of reply_to, as on the wire, that asks for a direct reply.
_DIRECT: Final = b"\x15amq.rabbitmq.reply-to"


def must_look(properties: bytes, delivery_mode: int) -> bool:
    """Do these properties, flags and values as on the wire, concern the broker?"""
    high = properties[0]
    if delivery_mode not in DELIVERY_MODES and high & _DELIVERY_MODE_HIGH:
        return True
    if high & _EXPIRATION_HIGH or properties[1] & _USER_ID_LOW:
        return True
    if high & _REPLY_TO_HIGH and _DIRECT in properties:
        return True
    return bool(high & _HEADERS_HIGH) and (_CC in properties or _BCC in properties)
