"""Policies: what can be set, which one applies, and what comes of it, by the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from dashed import dashed
from leveret.amqp_frames.values.field_table import Plain, table_of
from leveret.core.definitions import AppliedPolicies, ExchangeDefinition, QueueDefinition
from leveret.core.parameters.parameters import Parameter, Parameters
from leveret.core.policies.effective import (
    Policies,
    effective_exchange_arguments,
    effective_queue_arguments,
    merged_definition,
)
from leveret.core.policies.policy import (
    MatchedPolicies,
    Policy,
    PolicyError,
    checked_policy,
    policy_of,
    policy_value,
)


def policy(
    name: str = "p",
    /,
    *,
    pattern: str = "^q",
    apply_to: str = "all",
    priority: int = 0,
    **keys: Any,
) -> Policy:
    definition = dashed(keys)
    return Policy("/", name, pattern, apply_to, definition, priority)


def checked(definition: Any, is_operators: bool = False, **more: Any) -> Policy:
    given = {"pattern": "^a", "definition": definition} | more
    return checked_policy("/", "p", given, is_operators=is_operators)


# The words are RabbitMQ 3.10's, but for keys that it does not know.
@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"message-ttl": "a"}, '<<"a">> is not a valid message TTL'),
        ({"message-ttl": 1.5}, "1.5 is not a valid message TTL"),
        ({"message-ttl": True}, "true is not a valid message TTL"),
        ({"message-ttl": None}, "null is not a valid message TTL"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length": "1"}, '<<"1">> is not a valid maximum length'),
        ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
        ({"overflow": "x"}, '<<"x">> is not a valid overflow value'),
        ({"overflow": 1}, "1 is not a valid overflow value"),
        ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": 1}, "1 is not a valid dead letter routing key"),
        ({"dead-letter-routing-key": "k" * 256}, "is not a valid dead letter routing key"),
        ({"dead-letter-strategy": "x"}, '<<"x">> is not a valid dead letter strategy'),
        ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
        ({"delivery-limit": "a"}, '<<"a">> is not a valid delivery limit'),
        ({"consumer-timeout": -1}, "-1 is not a valid consumer timeout"),
        ({"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
        ({"queue-mode": "x"}, '<<"x">> is not a valid queue-mode value'),
        ({"queue-version": 3}, "3 is not a valid queue-version value"),
        ({"queue-master-locator": "x"}, '<<"x">> invalid queue-master-locator value'),
        ({"queue-leader-locator": "x"}, '<<"x">> is not a valid queue leader locator value'),
        ({"ha-mode": "x"}, '<<"x">> is not a valid ha-mode value'),
        ({"dedup-window": 0}, "0 is not a valid deduplication window"),
        ({"in-flight-timeout": 0}, "0 is not a valid in-flight timeout"),
        ({"foo": 1}, '[{<<"foo">>,1}] are not recognised policy settings'),
        (
            {"foo": 1, "bar": 2},
            '[{<<"bar">>,2},{<<"foo">>,1}] are not recognised policy settings',
        ),
        ({"max-length": -1, "foo": 2}, '[{<<"foo">>,2}] are not recognised policy settings'),
        ({"message-ttl": 1, "expires": 0, "max-length": -1}, "0 is not a valid queue expiry"),
        ({"max-priority": 3}, '[{<<"max-priority">>,3}] are not recognised policy settings'),
        ({}, "no policy provided"),
    ],
)  # fmt: skip
def test_a_wrong_definition_is_refused_in_rabbitmq_s_words(
    definition: dict[str, Any], words: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        checked(definition)
    assert str(caught.value).startswith("Validation failed\n\n")
    assert str(caught.value).removesuffix("\n").endswith(words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pattern": "("}, "pattern should be regular expression but is invalid"),
        ({"pattern": 5}, "pattern should be a binary but was 5"),
        ({"pattern": None}, 'Key "pattern" not found in p'),
        ({"priority": "a"}, 'priority should be a number, actually was <<"a">>'),
        ({"priority": float("inf")}, "priority should be a number"),
        (
            {"apply-to": "x"},
            "apply-to 'x' unrecognised; should be 'queues', 'exchanges' or 'all'",
        ),
        ({"apply-to": ["x"]}, "unrecognised"),
        ({"definition": [1]}, "definition should be a dictionary, actually was [1]"),
        ({"definition": None}, 'Key "definition" not found in p'),
    ],
)  # fmt: skip
def test_what_is_no_policy_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        checked(**({"definition": {"max-length": 1}} | given))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "key", ["overflow", "dead-letter-exchange", "consumer-timeout", "ha-mode", "alternate-exchange"]
)
def test_an_operator_policy_has_limits_only(key: str) -> None:
    with pytest.raises(PolicyError, match="are not recognised policy settings"):
        checked({key: "drop-head"}, is_operators=True)
    assert checked({"max-length": 1}, is_operators=True).definition == {"max-length": 1}


def test_what_is_left_out_is_as_in_rabbitmq_and_a_parameter_keeps_it_all() -> None:
    found = checked({"max-length": 1})
    assert found == Policy("/", "p", "^a", "all", {"max-length": 1}, 0)
    assert checked({"max-length": 1}, priority=-1.5).priority == -2
    assert policy_of(Parameter("policy", "/", "p", policy_value(found))) == found


@pytest.mark.parametrize(
    ("policies", "queue_type", "expected"),
    [
        ([], "classic", None),
        ([policy(pattern="x", max_length=1)], "classic", None),
        ([policy(pattern="", max_length=1)], "classic", "p"),
        ([policy(pattern="ue", max_length=1)], "classic", "p"),
        ([policy("a", priority=1), policy("b", priority=2)], "classic", "b"),
        ([policy("b", priority=1), policy("a", priority=1)], "classic", "b"),
        ([policy("a", priority=-1), policy("b", apply_to="exchanges")], "classic", "a"),
        ([policy(apply_to="classic_queues")], "quorum", None),
        ([policy(apply_to="quorum_queues")], "quorum", "p"),
        ([policy(apply_to="streams")], "quorum", None),
        # A key that the type cannot have: none of it applies, and the next one may.
        ([policy("a", priority=1, delivery_limit=1, max_length=1)], "classic", None),
        ([policy("a", priority=1, delivery_limit=1), policy("b")], "classic", "b"),
        ([policy("a", priority=1, delivery_limit=1), policy("b")], "quorum", "a"),
        ([policy(max_age="1D")], "quorum", None),
        ([policy(ha_mode="all")], "classic", "p"),
        ([policy(ha_mode="all")], "quorum", None),
        ([policy(queue_mode="lazy", max_length=1)], "quorum", None),
        ([policy(dead_letter_strategy="at-least-once")], "classic", None),
        ([policy(queue_leader_locator="balanced")], "quorum", "p"),
    ],
)  # fmt: skip
def test_the_policy_of_a_queue(
    policies: list[Policy], queue_type: str, expected: str | None
) -> None:
    found = MatchedPolicies(policies).of_queue("queue", queue_type)
    assert (found and found.name) == expected


@pytest.mark.parametrize(
    ("own", "definition", "expected"),
    [
        # Limits and times: the smaller.
        *(
            case
            for key in ("message-ttl", "expires", "max-length", "max-length-bytes",
                        "delivery-limit", "consumer-timeout", "in-flight-timeout", "max-consumers")
            for case in (
                ({}, {key: 5}, {f"x-{key}": 5}),
                ({f"x-{key}": 4}, {key: 5}, {f"x-{key}": 4}),
                ({f"x-{key}": 6}, {key: 5}, {f"x-{key}": 5}),
            )
        ),
        # A limit that limits nothing is no limit.
        ({"x-delivery-limit": -1}, {"delivery-limit": 5}, {"x-delivery-limit": 5}),
        # All else: the argument.
        ({"x-overflow": "drop-head"}, {"overflow": "reject-publish"}, {"x-overflow": "drop-head"}),
        ({}, {"overflow": "reject-publish"}, {"x-overflow": "reject-publish"}),
        (
            {"x-dead-letter-exchange": "a"},
            {"dead-letter-exchange": "b", "dead-letter-routing-key": "k"},
            {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "k"},
        ),
        ({"x-dedup-window": 9}, {"dedup-window": 5}, {"x-dedup-window": 9}),
        ({"x-requeue-delay": 9}, {"requeue-delay": 5}, {"x-requeue-delay": 9}),
        # What needs another.
        ({}, {"dead-letter-routing-key": "k"}, {}),
        ({}, {"dedup-age-ms": 5}, {}),
        ({}, {"requeue-delay-max": 5}, {}),
        ({"x-requeue-delay": 9}, {"requeue-delay-max": 5}, {"x-requeue-delay": 9}),
        (
            {"x-requeue-delay": 4},
            {"requeue-delay-max": 5},
            {"x-requeue-delay": 4, "x-requeue-delay-max": 5},
        ),
        # What queues may not be declared with is no more here.
        ({}, {"message-ttl": 10**15}, {"x-message-ttl": 315_360_000_000}),
        ({}, {"max-length": 10**30}, {"x-max-length": 2**63 - 1}),
        ({}, {"dedup-window": 10**9}, {"x-dedup-window": 1000}),
        # Not for queues, or of no meaning on one node.
        ({"x-max-length": 3}, {"alternate-exchange": "a", "ha-mode": "all"}, {"x-max-length": 3}),
    ],
)  # fmt: skip
def test_the_arguments_of_a_queue_under_a_policy(
    own: Mapping[str, Plain], definition: dict[str, Any], expected: dict[str, Any]
) -> None:
    arguments = table_of(own)
    before = dict(arguments)
    effective = effective_queue_arguments(arguments, definition, 1000)
    assert {name: field.value for name, field in effective.items()} == expected
    assert arguments == before


def test_a_queue_without_a_policy_keeps_the_very_table() -> None:
    arguments = table_of({"x-max-length": 1})
    assert effective_queue_arguments(arguments, {}) is arguments
    assert effective_queue_arguments(arguments, {"queue-mode": "lazy"}) is arguments


def test_an_alternate_exchange_of_its_own_wins() -> None:
    definition = {"alternate-exchange": "other"}
    effective = effective_exchange_arguments({}, definition)
    assert effective == table_of({"alternate-exchange": "other"})
    own = table_of({"alternate-exchange": "mine"})
    assert effective_exchange_arguments(own, definition) is own


def test_of_two_policies_the_smaller_number_counts() -> None:
    users = policy(max_length=5, expires=10, overflow="drop-head")
    operators = policy(max_length=9, expires=3, message_ttl=7)
    expected = {"max-length": 5, "expires": 3, "overflow": "drop-head", "message-ttl": 7}
    assert merged_definition(users, operators) == expected
    assert merged_definition(None, operators) == operators.definition
    assert merged_definition(users, None) == users.definition
    assert merged_definition(None, None) == {}


def test_the_policies_of_a_vhost_are_its_parameters() -> None:
    users, operators = policy("users", max_length=5), policy("operators", max_length=3)
    others = policy("others", max_length=1)
    parameters = Parameters(
        [
            Parameter("policy", "/", "users", policy_value(users)),
            Parameter("operator_policy", "/", "operators", policy_value(operators)),
            Parameter("policy", "v", "others", policy_value(others)),
        ]
    )
    policies = Policies(parameters, "/")
    queue = QueueDefinition("queue", 1, True, arguments=table_of({"x-max-length": 9}))
    assert policies.of_queue(queue) == (users, operators)
    effective, applied = policies.queue_arguments(queue)
    assert effective["x-max-length"].value == 3
    assert applied == AppliedPolicies("users", "operators", {"max-length": 3})
    other = QueueDefinition("quick", 3, True)
    assert policies.queue_arguments(other)[1] is applied, "one for all that have the same"
    exchange = ExchangeDefinition("quick", "topic", True)
    assert policies.of_exchange(exchange) == (users, operators)
    assert policies.exchange_arguments(exchange) == ({}, applied)
    assert policies.of_queue(QueueDefinition("other", 2, True)) == (None, None)
