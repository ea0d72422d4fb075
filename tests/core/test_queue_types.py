"""Quorum queues: the arguments they know, the properties they must have, their delivery limit."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.definitions import check_queue_arguments, delivery_limit

QUEUE = "queue 'q' in vhost '/'"
QUORUM = {"x-queue-type": "quorum"}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-delivery-limit": 3},
        {"x-delivery-limit": -1},
        {"x-dead-letter-exchange": "", "x-dead-letter-strategy": "at-least-once"},
        {"x-dead-letter-exchange": "", "x-dead-letter-strategy": "at-most-once"},
        {"x-max-in-memory-length": 0, "x-max-in-memory-bytes": 2**40},
        {"x-quorum-initial-group-size": 3},
        {"x-queue-leader-locator": "balanced", "x-single-active-consumer": True},
    ],
)
def test_a_quorum_queue_may_be_declared_with_these_arguments(commands, arguments):
    table = table_of(QUORUM | arguments)
    assert commands.declare_queue(arguments=table, durable=True).arguments == table
    assert commands.route("", "q") == ["q"]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-delivery-limit", "3", '"expected integer, got longstr"'),
        ("x-dead-letter-strategy", "best-effort", "invalid_dlx_strategy"),
        ("x-dead-letter-strategy", 1, "{unacceptable_type,signedint}"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-consumer-timeout", -1, "{value_negative,-1}"),
        ("x-delayed-retry-min", 1000, "not implemented"),
    ],
)
def test_bad_values_are_refused(refused, name, value, reason):
    with refused(406, f"PRECONDITION_FAILED - invalid arg '{name}' for {QUEUE}: {reason}"):
        check_queue_arguments(QUEUE, table_of(QUORUM | {name: value}))


@pytest.mark.parametrize(
    "name",
    ["x-max-priority", "x-queue-mode", "x-queue-version", "x-queue-master-locator", "x-max-age"],
)
def test_arguments_of_other_types_are_refused_whatever_their_value(refused, name):
    text = f"invalid arg '{name}' for {QUEUE} of queue type rabbit_quorum_queue"
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        check_queue_arguments(QUEUE, table_of(QUORUM | {name: -1}))


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"durable": False}, "non-durable"),
        ({"exclusive": True}, "exclusive-owner"),
        ({"auto_delete": True, "exclusive": True, "durable": False}, "auto-delete"),
    ],
)
def test_a_quorum_queue_stays(commands, refused, properties, name):
    how = {"durable": True, "arguments": table_of(QUORUM)} | properties
    with refused(406, f"PRECONDITION_FAILED - invalid property '{name}' for {QUEUE}"):
        commands.declare_queue("q", **how)


def test_a_quorum_queue_has_a_name(commands, refused):
    text = "Cannot declare a server-named queue for type rabbit_quorum_queue"
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        commands.declare_queue("", durable=True, arguments=table_of(QUORUM))


def test_a_second_declaration_must_ask_for_the_same_type_and_limit(commands, refused):
    arguments = table_of(QUORUM | {"x-delivery-limit": 3})
    queue = commands.declare_queue("q", durable=True, arguments=arguments)
    assert commands.declare_queue("q", durable=True, arguments=arguments) is queue
    assert queue.is_quorum
    text = (
        f"inequivalent arg 'x-delivery-limit' for {QUEUE}: "
        "received none but current is the value '3' of type 'signedint'"
    )
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        commands.declare_queue("q", durable=True, arguments=table_of(QUORUM))


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        (QUORUM | {"x-delivery-limit": 0}, 0),
        (QUORUM | {"x-delivery-limit": 20}, 20),
        (QUORUM | {"x-delivery-limit": -1}, None),
        (QUORUM, None),
        ({}, None),
    ],
)
def test_without_a_limit_a_message_may_come_back_for_ever(arguments, limit):
    assert delivery_limit(table_of(arguments)) == limit
