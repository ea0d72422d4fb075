"""The differences that stand, each with the row of docs/COMPATIBILITY.md that says why."""

from __future__ import annotations

from difference import Difference
from standing_arguments import ODD_ARGUMENTS
from standing_connections import OF_THE_SERVER, TLS
from standing_protocol import BROKEN_PROTOCOL


def deaths(script: str, rabbitmq: str, leveret: str) -> Difference:
    """A header whose x-death lists these queues, each a death, in another order.

    A queue with a number behind it was died in so often; "a" alone is the first death of all, whose
    fields are as they were made and not sorted.
    """

    def entry(queue: str, count: str) -> str:
        if queue + count == "a":
            return (
                "table {'count': long 1, 'reason': longstr 'rejected', 'queue': longstr 'a', "
                "'time': timestamp now, 'exchange': longstr '', "
                "'routing-keys': array [longstr 'a']}"
            )
        return (
            f"table {{'count': long {count or 1}, 'exchange': longstr '', 'queue': longstr "
            f"'{queue}', 'reason': longstr 'rejected', 'routing-keys': array [longstr '{queue}'], "
            "'time': timestamp now}"
        )

    def line(queues: str) -> str:
        entries = ", ".join(entry(each[0], each[1:]) for each in queues.split())
        return (
            f"connection 1, channel 1: header(headers={{'x-death': array [{entries}], "
            "'x-first-death-exchange': longstr '', 'x-first-death-queue': longstr 'a', "
            "'x-first-death-reason': longstr 'rejected'})"
        )

    return Difference(script, "the order of x-death", [line(rabbitmq)], [line(leveret)])


STANDING: list[Difference] = [
    *BROKEN_PROTOCOL,
    *TLS,
    *OF_THE_SERVER,
    *ODD_ARGUMENTS,
    Difference(
        "test_a_binding_made_between_a_publish_and_its_commit",
        "when the publishes of a transaction are routed",
        ["connection 1, channel 1: queue.declare-ok(queue='a', message_count=0, consumer_count=0)"],
        ["connection 1, channel 1: queue.declare-ok(queue='a', message_count=1, consumer_count=0)"],
    ),
    Difference(
        "test_an_exchange_deleted_between_a_publish_and_its_commit",
        "when the publishes of a transaction are routed",
        ["connection 1, channel 1: tx.commit-ok()"],
        [
            "connection 1, channel 1: channel.close(reply_code=404, "
            "reply_text=\"NOT_FOUND - no exchange 'x' in vhost '/'\", "
            "failing_class_id=90, failing_method_id=20)"
        ],
    ),
    Difference(
        "test_one_publish_alone_that_is_refused",
        "a nack alone",
        [
            "connection 1, channel 1: basic.nack(delivery_tag=1, multiple=True, requeue=True)",
        ],
        [
            "connection 1, channel 1: basic.nack(delivery_tag=1, multiple=False, requeue=True)",
        ],
    ),
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
        "firehose: every_property",
        "`routed_queues` of a publish to the default exchange",
        ["copies:   routed_queues: array ['nowhere']"],
        ["copies:   routed_queues: array []"],
    ),
    Difference(
        "firehose: several_queues_and_keys",
        "`routed_queues` of a publish to the default exchange",
        ["copies:   routed_queues: array ['elsewhere', 'p', 'q']"],
        ["copies:   routed_queues: array ['p', 'q']"],
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
        "test_a_message_published_again_to_a_queue_with_a_window",
        "a message published again to a queue with `x-dedup-window`",
        [
            "connection 1, channel 1: queue.declare-ok(queue='q', message_count=3, "
            "consumer_count=0)",
            "connection 1, channel 1: basic.get-ok(delivery_tag=1, redelivered=False, "
            "exchange='', routing_key='q', message_count=2)",
        ],
        [
            "connection 1, channel 1: queue.declare-ok(queue='q', message_count=2, "
            "consumer_count=0)",
            "connection 1, channel 1: basic.get-ok(delivery_tag=1, redelivered=False, "
            "exchange='', routing_key='q', message_count=1)",
        ],
    ),
    Difference(
        "test_a_window_in_a_second_declaration",
        "`x-dedup-window` or `x-dedup-age-ms` otherwise in a second declaration",
        ["connection 1, channel 1: queue.declare-ok(queue='q', message_count=0, consumer_count=0)"],
        [
            "connection 1, channel 1: channel.close(reply_code=406, "
            "reply_text=\"PRECONDITION_FAILED - inequivalent arg 'x-dedup-window' for queue 'q' in "
            "vhost '/': received none but current is the value '10' of type 'signedint'\", "
            "failing_class_id=50, failing_method_id=10)"
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
    deaths("test_deaths_in_three_queues", "c a b", "c b a"),
    deaths("test_deaths_in_three_queues", "a2 b c", "a2 c b"),
]
