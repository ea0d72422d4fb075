"""The differences in what clients are told that break the protocol."""

from __future__ import annotations

from difference import Difference


def close(code: int, text: str, class_id: int = 0, method_id: int = 0) -> str:
    """The line of a connection.close on the first connection."""
    return (
        f"connection 1, channel 0: connection.close(reply_code={code}, reply_text={text!r}, "
        f"failing_class_id={class_id}, failing_method_id={method_id})"
    )


def said(row: str, script: str, code: int, text: str, *ids: int) -> Difference:
    """RabbitMQ closes the socket without a word; Leveret says why before it does."""
    return Difference(script, row, [], [close(code, text, *ids)])


EARLY = "A mistake before connection.open"
STATE = "CHANNEL_ERROR - unexpected method in connection state"
UNKNOWN = "A method that does not exist"
TABLE = "A malformed field table"
MALFORMED = "SYNTAX_ERROR - malformed field table:"
NEGOTIATED = "NOT_ALLOWED - negotiated"
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
TOO_LONG = "FRAME_ERROR - content body frame exceeds remaining content size"
TOO_LARGE = "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912"
END_OCTET = (
    "FRAME_ERROR - type 1, all octets = <<0,50,0,10,0,0,1,113,0,0,0,0,0>>: "
    "{invalid_frame_end_marker,"
)

BROKEN_PROTOCOL: list[Difference] = [
    said(
        EARLY,
        "handshake: unknown mechanism",
        503,
        "COMMAND_INVALID - unknown authentication mechanism 'SMOKE'",
        *(10, 11),
    ),
    *(
        said(EARLY, f"handshake: {claim}", 530, f"{NEGOTIATED} {text}", 10, 30)
        for claim, text in {
            "channel_max without limit": "channel_max = 0 (no limit) is higher than the maximum "
            "allowed value (2047)",
            "channel_max too high": "channel_max = 2048 is higher than the maximum allowed value "
            "(2047)",
            "frame_max without limit": "frame_max = 0 is higher than the maximum allowed value "
            "(131072)",
            "frame_max too high": "frame_max = 131073 is higher than the maximum allowed value "
            "(131072)",
            "frame_max too low": "frame_max = 4095 is lower than the minimum allowed value (4096)",
        }.items()
    ),
    *(
        said(EARLY, f"handshake: {claim}", 504, f"{STATE} {state}", *ids)
        for claim, state, *ids in (
            ("open before tune-ok", "tuning", 10, 40),
            ("start-ok twice", "tuning", 10, 11),
            ("secure-ok that nobody asked for", "starting", 10, 21),
            ("a method of channels before the login", "starting", 50, 10),
            ("close before the login", "starting", 10, 50),
            ("close before the vhost is open", "tuning", 10, 50),
        )
    ),
    *(
        said(UNKNOWN, f"frame: {claim}", 540, f"NOT_IMPLEMENTED - unknown method {a}, {b}", a, b)
        for claim, a, b in (
            ("unknown method", 60, 999),
            ("unknown class", 99, 10),
            ("unknown method of the connection", 10, 99),
        )
    ),
    *(
        said(TABLE, f"frame: {claim}", 502, f"{MALFORMED} {text}", 50, 10)
        for claim, text in {
            "table that ends early": "it ends inside a field",
            "table of an unknown type": "unknown field type 63",
            "table with half a name": "it ends inside a field",
        }.items()
    ),
    *(
        Difference(
            f"frame: {claim}",
            "Malformed properties",
            [close(541, "INTERNAL_ERROR")],
            [close(502, "SYNTAX_ERROR - malformed basic properties", 60, 40)],
        )
        for claim in ("header that ends early", "header that ends late")
    ),
    Difference(
        "frame: body longer than its header says",
        "A body longer than its header says",
        [close(505, NO_BODY, 60, 40)],
        [close(501, TOO_LONG, 60, 40)],
    ),
    Difference(
        "frame: body of a size that nobody takes",
        "A body size beyond all limits",
        [close(505, NO_BODY, 60, 40)],
        [close(501, TOO_LARGE, 60, 40)],
    ),
    Difference(
        "frame: no end octet, method",
        "Line breaks in Erlang terms",
        [close(501, f"{END_OCTET}\n{' ' * 57}120}}")],
        [close(501, f"{END_OCTET}120}}")],
    ),
]
