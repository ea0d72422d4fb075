"""The differences that stand, each with the row of docs/COMPATIBILITY.md that says why."""

from __future__ import annotations

from difference import Difference
from standing_protocol import BROKEN_PROTOCOL

STANDING: list[Difference] = [
    *BROKEN_PROTOCOL,
    Difference(
        "test_what_waits_when_the_active_consumer_is_cancelled",
        "single active consumer",
        [],
        [
            "connection 3, channel 1: basic.deliver(consumer_tag='second', delivery_tag=1, "
            "redelivered=False, exchange='', routing_key='q')",
            "connection 3, channel 1: header(priority=2)",
            "connection 3, channel 1: body(b'1:2')",
        ],
    ),
    Difference(
        "test_priorities_that_come_in_one_read_while_a_consumer_has_room",
        "priorities in one read",
        [],
        [
            "connection 2, channel 1: header(priority=9)",
            "connection 2, channel 1: body(b'')",
            "connection 2, channel 1: basic.deliver(consumer_tag='c', delivery_tag=2, "
            "redelivered=False, exchange='', routing_key='q')",
        ],
    ),
    Difference(
        "test_priorities_that_come_in_one_read_while_a_consumer_has_room",
        "priorities in one read",
        [
            "connection 2, channel 1: basic.deliver(consumer_tag='c', delivery_tag=2, "
            "redelivered=False, exchange='', routing_key='q')",
            "connection 2, channel 1: header(priority=9)",
            "connection 2, channel 1: body(b'')",
        ],
        [],
    ),
    Difference(
        "several_replies",
        "delivery tags of direct replies",
        [
            "connection 1, channel 1: basic.deliver(consumer_tag='r', delivery_tag=1, "
            "redelivered=False, exchange='', routing_key='<rabbitmq.reply-to 1>')"
        ],
        [
            "connection 1, channel 1: basic.deliver(consumer_tag='r', delivery_tag=2, "
            "redelivered=False, exchange='', routing_key='<rabbitmq.reply-to 1>')"
        ],
    ),
    Difference(
        "several_mistakes_in_one_publish",
        "a publish with a wrong user_id and another mistake",
        [
            "connection 1, channel 1: channel.close(reply_code=406, "
            "reply_text=\"PRECONDITION_FAILED - user_id property set to 'other' but authenticated "
            "user was 'guest'\", failing_class_id=60, failing_method_id=40)"
        ],
        [
            "connection 1, channel 1: channel.close(reply_code=406, "
            "reply_text=\"PRECONDITION_FAILED - invalid expiration 'x': no_integer\", "
            "failing_class_id=60, failing_method_id=40)"
        ],
    ),
]
