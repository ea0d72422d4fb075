"""Which arguments are refused, with which words, and which are let through."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.values.field_table import Field, table_of
from leveret.core.definitions import (
    DEDUP_WINDOW_MAX,
    check_consumer_arguments,
    check_exchange_arguments,
    check_queue_arguments,
    consumer_priority,
)

QUEUE = "queue 'q' in vhost '/'"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-queue-type": "classic"},
        {"x-queue-mode": "lazy"},
        {"x-queue-mode": "default"},
        {"x-queue-version": 1},
        {"x-queue-version": 2},
        {"x-queue-master-locator": "min-masters"},
        {"x-queue-leader-locator": "balanced"},
        {"x-max-priority": 0},
        {"x-max-priority": 255},
        {"x-single-active-consumer": True},
        {"x-single-active-consumer": False},
        {"x-max-length": 0},
        {"x-message-ttl": 0},
        {"x-expires": 1},
        {"x-max-length-bytes": 2**40},
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-queue-type": "quorum"},
        {"x-queue-type": "quorum", "x-dedup-window": 1, "x-dedup-age-ms": 1},
        {"x-dedup-window": DEDUP_WINDOW_MAX},
        {"x-queue-type": "quorum", "x-quorum-initial-group-size": 3, "x-max-length": 5},
        {"x-queue-type": "quorum", "x-max-in-memory-length": 0, "x-max-in-memory-bytes": 0},
        {"x-unknown": 1, "max-length": 2, "": 3},
        {"x-cancel-on-ha-failover": True},
        {"alternate-exchange": 5},
    ],
)
def test_queue_arguments_that_are_built_or_change_nothing_are_let_through(commands, arguments):
    table = table_of(arguments)
    assert commands.declare_queue(arguments=table, durable=True).arguments == table


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-queue-type", "stream"),
    ],
)
def test_queue_arguments_that_are_not_built_are_refused(refused, name, value):
    with refused(406, f"PRECONDITION_FAILED - invalid arg '{name}' for {QUEUE}: not implemented"):
        check_queue_arguments(QUEUE, table_of({"x-ignored": 1, name: value}))


def test_dead_letter_routing_key_needs_its_exchange(refused):
    arguments = table_of({"x-dead-letter-routing-key": "k"})
    text = f"invalid arg 'x-dead-letter-routing-key' for {QUEUE}: routing_key_but_no_dlx_defined"
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        check_queue_arguments(QUEUE, arguments)
    check_queue_arguments(QUEUE, arguments | table_of({"x-dead-letter-exchange": "dlx"}))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-expires", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-expires", "10", '"expected integer, got longstr"'),
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", 1.5, '"expected integer, got double"'),
        ("x-message-ttl", Field("timestamp", 5), '"expected integer, got timestamp"'),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", True, '"expected integer, got bool"'),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-max-priority", "9", '"expected integer, got longstr"'),
        ("x-dedup-window", 0, "{value_zero,0}"),
        ("x-dedup-window", DEDUP_WINDOW_MAX + 1, "{max_value_exceeded,10000001}"),
        ("x-dedup-window", "9", '"expected integer, got longstr"'),
        ("x-dedup-age-ms", 0, "{value_zero,0}"),
        ("x-dedup-age-ms", 1, "dedup_age_but_no_window_defined"),
        ("x-overflow", "foo", "invalid_overflow"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", 1, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "eager", "\"unsupported queue mode 'eager'\""),
        ("x-queue-mode", 1, "{unacceptable_type,signedint}"),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", "2", '"expected integer, got longstr"'),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
        ("x-queue-type", "foo", "\"unsupported queue type 'foo'\""),
        ("x-queue-type", 1, "{unacceptable_type,signedint}"),
        ("x-queue-leader-locator", "foo", "invalid_queue_locator_arg"),
    ],
)
def test_bad_values_are_refused_with_rabbitmqs_words(refused, name, value, reason):
    with refused(406, f"PRECONDITION_FAILED - invalid arg '{name}' for {QUEUE}: {reason}"):
        check_queue_arguments(QUEUE, table_of({name: value}))


@pytest.mark.parametrize(
    "name",
    [
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-quorum-initial-group-size",
        "x-max-in-memory-length",
    ],
)
def test_arguments_of_other_queue_types_are_refused(refused, name):
    text = f"invalid arg '{name}' for {QUEUE} of queue type rabbit_classic_queue"
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        check_queue_arguments(QUEUE, table_of({name: 1}))
    strategy = {"x-dead-letter-strategy": "at-most-once"}
    text = f"invalid arg 'x-dead-letter-strategy' for {QUEUE} of queue type rabbit_classic_queue"
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        check_queue_arguments(QUEUE, table_of(strategy))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-max-priority", 1),
        ("x-queue-mode", "lazy"),
        ("x-queue-version", 2),
        ("x-queue-master-locator", "min-masters"),
        ("x-max-age", "1D"),
        ("x-initial-cluster-size", 1),
    ],
)
def test_arguments_that_a_quorum_queue_does_not_have_are_refused(refused, name, value):
    text = f"invalid arg '{name}' for {QUEUE} of queue type rabbit_quorum_queue"
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        check_queue_arguments(QUEUE, table_of({"x-queue-type": "quorum", name: value}))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-quorum-initial-group-size", -1, "{value_negative,-1}"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-max-in-memory-bytes", "1", '"expected integer, got longstr"'),
        ("x-dead-letter-strategy", "never", "invalid_dlx_strategy"),
        ("x-dead-letter-strategy", 1, "{unacceptable_type,signedint}"),
    ],
)
def test_bad_values_of_a_quorum_queue_are_refused(refused, name, value, reason):
    with refused(406, f"PRECONDITION_FAILED - invalid arg '{name}' for {QUEUE}: {reason}"):
        check_queue_arguments(QUEUE, table_of({"x-queue-type": "quorum", name: value}))


def test_dead_letter_exchange_must_be_text(refused):
    text = f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in {QUEUE}"
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        check_queue_arguments(QUEUE, table_of({"x-dead-letter-exchange": 1}))


def test_alternate_exchange_must_be_text(refused):
    named = "exchange 'x' in vhost '/'"
    check_exchange_arguments(named, table_of({"x-dead-letter-exchange": 1}))
    with refused(
        406,
        f"PRECONDITION_FAILED - invalid type 'bool' for arg 'alternate-exchange' in {named}",
    ):
        check_exchange_arguments(named, table_of({"alternate-exchange": True}))


def test_consumer_arguments(refused):
    check_consumer_arguments(QUEUE, table_of({"x-cancel-on-ha-failover": True, "x-credit": {}}))
    for value in (5, -5, 2**40, Field("byte", -1), Field("unsignedshort", 1)):
        arguments = table_of({"x-priority": value})
        check_consumer_arguments(QUEUE, arguments)
        assert consumer_priority(arguments) == getattr(value, "value", value)
    assert consumer_priority({}) == 0
    for name, value, text in (
        (
            "x-priority",
            "5",
            f"invalid arg 'x-priority' for {QUEUE}: \"expected integer, got longstr\"",
        ),
        (
            "x-stream-offset",
            "first",
            f"invalid arg 'x-stream-offset' for {QUEUE} of queue type rabbit_classic_queue",
        ),
    ):
        with refused(406, f"PRECONDITION_FAILED - {text}"):
            check_consumer_arguments(QUEUE, table_of({name: value}))


@pytest.mark.parametrize("value", [True, "yes"])
def test_a_consumer_of_a_quorum_queue_cannot_be_cancelled_on_failover(refused, value) -> None:
    text = f"invalid arg 'x-cancel-on-ha-failover' for {QUEUE} of queue type rabbit_quorum_queue"
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        arguments = table_of({"x-cancel-on-ha-failover": value})
        check_consumer_arguments(QUEUE, arguments, quorum=True)
