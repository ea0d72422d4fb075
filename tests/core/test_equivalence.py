"""When two declarations are the same, and the words for when they are not."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.values.field_table import Field, table_of
from leveret.core.topology.topology import check_arguments, check_property

QUEUE = "queue 'q' in vhost '/'"


def check(current: object, received: object, name: str = "x-max-length") -> None:
    tables = [{} if value is None else table_of({name: value}) for value in (current, received)]
    check_arguments(QUEUE, *tables, (name,))


@pytest.mark.parametrize(
    ("current", "received"),
    [
        (10, 10),
        (Field("byte", 10), Field("long", 10)),
        (Field("unsignedshort", 10), Field("signedint", 10)),
        (Field("float", 1.5), Field("double", 1.5)),
        ("text", "text"),
        (b"octets", Field("longstr", b"octets")),
        # Another type, but the same value: RabbitMQ looks at nothing else then.
        (Field("timestamp", 10), 10),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
    ],
)
def test_same_values_are_equivalent_whatever_the_integers_width(current, received):
    check(current, received)
    check(received, current)
    # The argument counts: another value is refused.
    with pytest.raises(SoftError):
        check(current, "another")


@pytest.mark.parametrize(
    ("current", "received", "words"),
    [
        (None, 10, "received the value '10' of type 'signedint' but current is none"),
        ("a", None, "received none but current is the value 'a' of type 'longstr'"),
        (None, True, "received the value 'true' of type 'bool' but current is none"),
        (
            None,
            ["a"],
            "received the value '[{longstr,<<\"a\">>}]' of type 'array' but current is none",
        ),
        (10, 20, "received '20' but current is '10'"),
        ("a", "b", "received 'b' but current is 'a'"),
        (1, "1", "received '1' but current is '1'"),
        (1, True, "received 'true' but current is '1'"),
        (1, 1.0, "received '1.0' but current is '1'"),
    ],
)
def test_other_values_are_refused_with_rabbitmqs_words(refused, current, received, words):
    text = f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for {QUEUE}: {words}"
    with refused(406, text):
        check(current, received)


def test_no_queue_type_is_the_classic_one(refused):
    check(None, "classic", "x-queue-type")
    check("classic", None, "x-queue-type")
    text = "received the value 'quorum' of type 'longstr' but current is none"
    with refused(406, f"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for {QUEUE}: {text}"):
        check(None, "quorum", "x-queue-type")


def test_arguments_that_do_not_count_may_differ(commands, refused):
    first = commands.declare_queue(arguments=table_of({"a": 1}))
    assert commands.declare_queue(arguments=table_of({"b": 2})) is first
    text = "received none but current is the value '1' of type 'signedint'"
    with refused(406, f"PRECONDITION_FAILED - inequivalent arg 'a' for {QUEUE}: {text}"):
        check_arguments(QUEUE, table_of({"a": 1}), table_of({"b": 2}), ("a",))


def test_properties(refused):
    check_property(QUEUE, "durable", True, True)
    text = f"inequivalent arg 'durable' for {QUEUE}: received 'false' but current is 'true'"
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        check_property(QUEUE, "durable", True, False)
