"""The differences in what arguments, methods and contents mean, where clients choose them oddly."""

from __future__ import annotations

from difference import Difference
from standing_protocol import close

DECLARED = "connection 1, channel 1: queue.declare-ok(queue='q', message_count=0, consumer_count=0)"
CONSUMED = "connection 1, channel 1: basic.consume-ok(consumer_tag='c')"
CLOSED = "connection 1: closed the socket"
FRAME_END = b"\xce"
CRASHED = [close(541, "INTERNAL_ERROR"), CLOSED]
LATER = "arguments that came after RabbitMQ 3.10"


def refused(text: str, class_id: int = 50, method_id: int = 10) -> str:
    """The line of a channel.close of the first channel."""
    return (
        f"connection 1, channel 1: channel.close(reply_code=406, reply_text={text!r}, "
        f"failing_class_id={class_id}, failing_method_id={method_id})"
    )


def invalid(argument: str, reason: str) -> str:
    return refused(
        f"PRECONDITION_FAILED - invalid arg '{argument}' for queue 'q' in vhost '/'{reason}"
    )


def no_such_exchange(shown: bytes) -> str:
    """The octets of a channel.close for a publish to an exchange that is shown so."""
    text = b"NOT_FOUND - no exchange '" + shown + b"' in vhost '/'"
    payload = b"\0\x14\0(\x01\x94(" + text + b"\0<\0("
    return f"answer: {payload + FRAME_END!r}"


ODD_ARGUMENTS: list[Difference] = [
    *(
        Difference(
            f"chosen: a {name} that is no text",
            "`hash-header` or `hash-property` that is no text",
            CRASHED,
            [refused(f"PRECONDITION_FAILED - invalid arg 'hash-{name}': {unacceptable}", 40, 10)],
        )
        for name, unacceptable in (
            ("header", "{unacceptable_type,signedint}"),
            ("property", "{unacceptable_type,bool}"),
        )
    ),
    Difference(
        "odd: x-consumer-timeout that is no number",
        LATER,
        [DECLARED],
        [invalid("x-consumer-timeout", ': "expected integer, got longstr"')],
    ),
    Difference(
        "odd: x-stream-filter-size-bytes",
        LATER,
        [DECLARED],
        [invalid("x-stream-filter-size-bytes", " of queue type rabbit_classic_queue")],
    ),
    Difference(
        "odd: x-queue-leader-locator of a classic queue",
        LATER,
        [invalid("x-queue-leader-locator", " of queue type rabbit_classic_queue")],
        [DECLARED],
    ),
    Difference(
        "odd: x-queue-master-locator that is none",
        "`x-queue-master-locator` that names no way to choose",
        CRASHED,
        [DECLARED],
    ),
    Difference("odd: x-credit", "`x-credit` of a consumer", CRASHED, [CONSUMED]),
    Difference(
        "odd: an unknown exchange type",
        "an unknown exchange type",
        [close(503, "COMMAND_INVALID - unknown exchange type 'burrow'", 40, 10), CLOSED],
        [refused("PRECONDITION_FAILED - unknown exchange type 'burrow'", 40, 10)],
    ),
    Difference(
        "odd: a stream",
        "streams, and exchange types that came after RabbitMQ 3.10",
        [DECLARED],
        [invalid("x-queue-type", ": not implemented")],
    ),
    Difference(
        "odd: if_empty of a quorum queue",
        "`if-empty` and global prefetch of quorum queues",
        [
            close(
                540,
                "NOT_IMPLEMENTED - cannot delete queue 'q' in vhost '/'. queue.delete operations "
                "with if-empty flag set are not supported by quorum queues",
                *(50, 40),
            ),
            CLOSED,
        ],
        ["connection 1, channel 1: queue.delete-ok(message_count=0)"],
    ),
    Difference(
        "odd: global prefetch of a quorum queue",
        "`if-empty` and global prefetch of quorum queues",
        [
            close(
                540,
                "NOT_IMPLEMENTED - queue 'q' in vhost '/' does not support global qos",
                *(60, 20),
            ),
            CLOSED,
        ],
        [CONSUMED],
    ),
    Difference(
        "odd: a header that is not a number",
        "a header with a float that is infinite or not a number",
        CRASHED,
        ["connection 1, channel 1: channel.flow-ok(active=True)"],
    ),
    Difference(
        "odd: headers 65 levels deep",
        "Tables and arrays more than 64 levels deep",
        ["connection 1, channel 1: channel.flow-ok(active=True)"],
        [
            close(
                502,
                "SYNTAX_ERROR - malformed field table: nested deeper than 64 levels",
                *(60, 40),
            ),
            CLOSED,
        ],
    ),
    Difference(
        "odd: a body in two frames",
        "a body that came in several frames",
        ["connection 1, channel 1: body(b'ab')"],
        ["connection 1, channel 1: body(b'ab', frames of [1, 1])"],
    ),
    Difference(
        "odd: a name that is not UTF-8",
        "A name that is not UTF-8, in a text",
        [no_such_exchange(b"\xff")],
        [no_such_exchange(b"?")],
    ),
    Difference(
        "odd: a delivery by a client",
        "A delivery, a return or a get-ok by a client",
        [
            close(
                505,
                "UNEXPECTED_FRAME - expected content header for class 60, got non content header "
                "frame instead",
                *(60, 60),
            )
        ],
        [close(503, "COMMAND_INVALID - unimplemented method", 60, 60)],
    ),
    Difference(
        "handshake: client properties of 5000 octets",
        "a start-ok of more than 4096 octets",
        [CLOSED],
        [
            "connection 1, channel 0: connection.tune(channel_max=2047, frame_max=131072, "
            "heartbeat=60)"
        ],
    ),
    Difference(
        "handshake: a channel before the vhost is open",
        "A channel's frame before connection.open",
        [close(505, "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>")],
        [close(504, "CHANNEL_ERROR - unexpected frame in connection state opening")],
    ),
]
