"""Numbers of the protocol: frames, classes, reply codes. No logic.

The values are those of the AMQP 0-9-1 specification; where RabbitMQ differs, the comment says so.
Method ids stand with their methods (amqp_frames/methods/__init__.py), property flags with the
properties.
"""

from __future__ import annotations

from typing import Final

# --- Frames: type octet, channel short, payload size long, payload, end octet.

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 206

FRAME_HEADER_BYTES: Final = 7
# What a frame costs beyond its payload: the seven octets above and the end octet. frame_max counts
# them, so a body frame carries frame_max - EMPTY_FRAME_BYTES octets at most.
EMPTY_FRAME_BYTES: Final = 8
# RabbitMQ lets a client exceed frame_max by this much, because many count the empty frame wrongly.
FRAME_SLACK_BYTES: Final = 8
# A peer must accept frames of this size; a lower frame_max cannot be negotiated. RabbitMQ 4 asks
# for 8192; the specification, RabbitMQ 3 and we for 4096.
FRAME_BYTES_MIN: Final = 4096
# class_id short, weight short, body_size longlong; the property flags follow.
CONTENT_HEADER_BYTES: Final = 12
# RabbitMQ's MAX_MSG_SIZE: a content header that announces more is a frame error.
BODY_BYTES_MAX: Final = 536_870_912
SHORT_STRING_BYTES_MAX: Final = 255

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
PROTOCOL_PORT: Final = 5672
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

# --- Classes.

CLASS_CONNECTION: Final = 10
CLASS_CHANNEL: Final = 20
CLASS_ACCESS: Final = 30
CLASS_EXCHANGE: Final = 40
CLASS_QUEUE: Final = 50
CLASS_BASIC: Final = 60
CLASS_CONFIRM: Final = 85
CLASS_TX: Final = 90

# --- Reply codes.

REPLY_SUCCESS: Final = 200

# Soft: they close the channel.
CONTENT_TOO_LARGE: Final = 311
NO_ROUTE: Final = 312
NO_CONSUMERS: Final = 313
ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
PRECONDITION_FAILED: Final = 406

# Hard: they close the connection.
CONNECTION_FORCED: Final = 320
INVALID_PATH: Final = 402
FRAME_ERROR: Final = 501
SYNTAX_ERROR: Final = 502
COMMAND_INVALID: Final = 503
CHANNEL_ERROR: Final = 504
UNEXPECTED_FRAME: Final = 505
RESOURCE_ERROR: Final = 506
NOT_ALLOWED: Final = 530
NOT_IMPLEMENTED: Final = 540
INTERNAL_ERROR: Final = 541

SOFT_REPLY_CODES: Final = frozenset(
    {
        CONTENT_TOO_LARGE,
        NO_ROUTE,
        NO_CONSUMERS,
        ACCESS_REFUSED,
        NOT_FOUND,
        RESOURCE_LOCKED,
        PRECONDITION_FAILED,
    }
)

# How a reply text begins: "NOT_FOUND - no queue 'q' in vhost '/'".
REPLY_NAMES: Final[dict[int, str]] = {
    CONTENT_TOO_LARGE: "CONTENT_TOO_LARGE",
    NO_ROUTE: "NO_ROUTE",
    NO_CONSUMERS: "NO_CONSUMERS",
    CONNECTION_FORCED: "CONNECTION_FORCED",
    INVALID_PATH: "INVALID_PATH",
    ACCESS_REFUSED: "ACCESS_REFUSED",
    NOT_FOUND: "NOT_FOUND",
    RESOURCE_LOCKED: "RESOURCE_LOCKED",
    PRECONDITION_FAILED: "PRECONDITION_FAILED",
    FRAME_ERROR: "FRAME_ERROR",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    COMMAND_INVALID: "COMMAND_INVALID",
    CHANNEL_ERROR: "CHANNEL_ERROR",
    UNEXPECTED_FRAME: "UNEXPECTED_FRAME",
    RESOURCE_ERROR: "RESOURCE_ERROR",
    NOT_ALLOWED: "NOT_ALLOWED",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
    INTERNAL_ERROR: "INTERNAL_ERROR",
}
