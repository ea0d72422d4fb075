"""A policy, and an operator policy: checked, and matched with queues and exchanges.

A vhost's policies are runtime parameters (core/parameters/). A pattern is searched for in the name,
in the octets, by RE2. Of those that match, the policy with the highest priority applies, alone; of
equal ones the first that was set (RabbitMQ leaves that open). An operator policy is found the
same way, and applies beside it.

As in RabbitMQ a policy with a key that a queue of its type cannot have does not apply to that queue
at all, and the next one may. Keys that RabbitMQ knows and that mean nothing on one node are
accepted, and change nothing. Facts measured on RabbitMQ 3.10; `classic_queues` and `quorum_queues`,
and the key consumer-timeout, are of later versions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ...amqp_frames.constants import SHORT_STRING_BYTES_MAX
from ..definitions import CLASSIC, QUORUM
from ..erlang_terms import json_term
from ..parameters.parameters import Json, Parameter
from ..patterns import PatternError, check_pattern, compiled_pattern

QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"
ALL: Final = "all"
# What each word covers: the types of queues, and whether exchanges.
_COVERED: Final[Mapping[str, tuple[frozenset[str], bool]]] = {
    QUEUES: (frozenset({CLASSIC, QUORUM}), False),
    "classic_queues": (frozenset({CLASSIC}), False),
    "quorum_queues": (frozenset({QUORUM}), False),
    # Leveret has no streams.
    "streams": (frozenset(), False),
    EXCHANGES: (frozenset(), True),
    ALL: (frozenset({CLASSIC, QUORUM}), True),
}
PRIORITY_MAX: Final = 2**31 - 1


class PolicyError(Exception):
    """The policy cannot be set; says why in RabbitMQ's words."""


class Policy(NamedTuple):
    """A policy that was checked. `definition` is by RabbitMQ's keys, without "x-"."""

    vhost: str
    name: str
    pattern: str
    apply_to: str
    definition: Mapping[str, Json]
    priority: int


def checked_policy(
    vhost: str, name: str, given: Mapping[str, Json], *, is_operators: bool
) -> Policy:
    """The policy in what somebody sets: pattern, definition, priority, apply-to; or PolicyError."""
    definition = given.get("definition")
    pattern = given.get("pattern")
    for key in ("pattern", "definition"):
        if given.get(key) is None:
            raise _failed(f'Key "{key}" not found in {name}')
    if not isinstance(pattern, str):
        raise _failed(f"pattern should be a binary but was {json_term(pattern)}")
    try:
        check_pattern(pattern)
    except PatternError as fault:
        raise _failed(f"pattern should be regular expression but is invalid: {fault}") from None
    apply_to = given.get("apply-to", ALL)
    if not isinstance(apply_to, str) or apply_to not in _COVERED:
        raise _failed(
            f"apply-to '{apply_to}' unrecognised; should be 'queues', 'exchanges' or 'all'"
        )
    if not isinstance(definition, Mapping):
        raise _failed(f"definition should be a dictionary, actually was {json_term(definition)}")
    _check_definition(definition, is_operators=is_operators)
    return Policy(vhost, name, pattern, apply_to, definition, _priority(given.get("priority", 0)))


def policy_value(policy: Policy) -> Json:
    """What a runtime parameter keeps of it."""
    return {
        "pattern": policy.pattern,
        "definition": policy.definition,
        "priority": policy.priority,
        "apply-to": policy.apply_to,
    }


def policy_of(parameter: Parameter) -> Policy:
    """The policy that a runtime parameter keeps."""
    value: Any = parameter.value
    return Policy(
        parameter.vhost,
        parameter.name,
        value["pattern"],
        value["apply-to"],
        value["definition"],
        value["priority"],
    )


class MatchedPolicies:
    """Policies of one vhost in the order in which they are tried, with their compiled patterns."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        # Of equal priority, the first that was set stays the first.
        ordered = sorted(policies, key=lambda policy: -policy.priority)
        self._of_queues = {
            kind: [
                (policy, _search(policy.pattern))
                for policy in ordered
                if kind in _COVERED[policy.apply_to][0]
                and _OTHER_TYPES_KEYS[kind].isdisjoint(policy.definition)
            ]
            for kind in (CLASSIC, QUORUM)
        }
        self._of_exchanges = [
            (policy, _search(policy.pattern)) for policy in ordered if _COVERED[policy.apply_to][1]
        ]

    def of_queue(self, name: str, queue_type: str) -> Policy | None:
        """The one that applies to the queue."""
        return _first(self._of_queues[queue_type], name)

    def of_exchange(self, name: str) -> Policy | None:
        """The one that applies to the exchange."""
        return _first(self._of_exchanges, name)


_Search = Callable[[bytes], object]


def _first(tried: list[tuple[Policy, _Search]], name: str) -> Policy | None:
    octets = name.encode("utf-8", "surrogateescape")
    for policy, search in tried:
        if search(octets) is not None:
            return policy
    return None


def _search(pattern: str) -> _Search:
    compiled = compiled_pattern(pattern) if pattern else _EVERYTHING
    search: _Search = _find_nothing if compiled is None else compiled.search
    return search


def _find_nothing(_octets: bytes) -> None:
    """For a pattern that this version of RE2 refuses."""


# An empty pattern is in every name; that of a permission is in the empty name only.
_EVERYTHING: Final = compiled_pattern(".*")


def _failed(reason: str) -> PolicyError:
    return PolicyError(f"Validation failed\n\n{reason}\n")


def _priority(value: Any) -> int:
    # Infinity and NaN are none, either.
    if type(value) in (int, float) and abs(value) <= PRIORITY_MAX:
        priority: int = math.floor(value)
        return priority
    raise _failed(f"priority should be a number, actually was {json_term(value)}")


# --- Keys. A check returns whether the value may be.

_Check = Callable[[Json], bool]


def _not_negative(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _positive(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _text(value: Json) -> bool:
    return isinstance(value, str)


def _short_text(value: Json) -> bool:
    return isinstance(value, str) and len(value.encode(errors="replace")) <= SHORT_STRING_BYTES_MAX


def _one_of(*values: str) -> _Check:
    return lambda value: value in values


# The end of the sentence that refuses a value, and the check, in RabbitMQ's order: that of keys.
_CHECKS: Final[Mapping[str, tuple[str, _Check]]] = {
    "alternate-exchange": ("is not a valid alternate exchange name", _short_text),
    "consumer-timeout": ("is not a valid consumer timeout", _not_negative),
    "dead-letter-exchange": ("is not a valid dead letter exchange name", _short_text),
    "dead-letter-routing-key": ("is not a valid dead letter routing key", _short_text),
    "dead-letter-strategy": (
        "is not a valid dead letter strategy",
        _one_of("at-most-once", "at-least-once"),
    ),
    "dedup-age-ms": ("is not a valid deduplication age", _positive),
    "dedup-window": ("is not a valid deduplication window", _positive),
    "delivery-limit": ("is not a valid delivery limit", _not_negative),
    "expires": ("is not a valid queue expiry", _positive),
    "ha-mode": ("is not a valid ha-mode value", _one_of("all", "exactly", "nodes")),
    "ha-params": ("is not valid ha-params", lambda value: value is not None),
    "ha-promote-on-failure": (
        "is not a valid ha-promote-on-failure value",
        _one_of("always", "when-synced"),
    ),
    "ha-promote-on-shutdown": (
        "is not a valid ha-promote-on-shutdown value",
        _one_of("always", "when-synced"),
    ),
    "ha-sync-batch-size": ("is not a valid ha-sync-batch-size value", _positive),
    "ha-sync-mode": ("is not a valid ha-sync-mode value", _one_of("automatic", "manual")),
    "in-flight-timeout": ("is not a valid in-flight timeout", _positive),
    "initial-cluster-size": ("is not a valid cluster size", _positive),
    "max-age": ("is not a valid max age", _text),
    "max-consumers": ("is not a valid number of consumers", _positive),
    "max-in-memory-bytes": ("is not a valid maximum memory in bytes", _not_negative),
    "max-in-memory-length": ("is not a valid maximum memory in length", _not_negative),
    "max-length": ("is not a valid maximum length", _not_negative),
    "max-length-bytes": ("is not a valid maximum length in bytes", _not_negative),
    "message-ttl": ("is not a valid message TTL", _not_negative),
    "overflow": (
        "is not a valid overflow value",
        _one_of("drop-head", "reject-publish", "reject-publish-dlx"),
    ),
    "queue-leader-locator": (
        "is not a valid queue leader locator value",
        _one_of("client-local", "balanced", "random", "least-leaders"),
    ),
    "queue-master-locator": (
        "invalid queue-master-locator value",
        _one_of("min-masters", "client-local", "random"),
    ),
    "queue-mode": ("is not a valid queue-mode value", _one_of("default", "lazy")),
    "queue-version": ("is not a valid queue-version value", lambda value: value in (1, 2)),
    "requeue-delay": ("is not a valid requeue delay", _positive),
    "requeue-delay-max": ("is not a valid maximum requeue delay", _positive),
    "stream-max-segment-size-bytes": ("is not a valid segment size", _not_negative),
}
# Leveret's own; RabbitMQ refuses a policy that has one.
OWN_KEYS: Final = frozenset(
    {
        "dedup-age-ms",
        "dedup-window",
        "in-flight-timeout",
        "max-consumers",
        "requeue-delay",
        "requeue-delay-max",
    }
)
# The keys of an operator policy; of two values the smaller counts.
OPERATOR_KEYS: Final = frozenset(
    {
        "delivery-limit",
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "message-ttl",
    }
)
_STREAM_KEYS: Final = frozenset(
    {"max-age", "stream-max-segment-size-bytes", "initial-cluster-size"}
)
# With one of these a policy does not apply to a queue of the type.
_OTHER_TYPES_KEYS: Final[Mapping[str, frozenset[str]]] = {
    CLASSIC: _STREAM_KEYS | {"delivery-limit", "dead-letter-strategy"},
    QUORUM: _STREAM_KEYS
    | {
        "ha-mode",
        "ha-params",
        "ha-promote-on-failure",
        "ha-promote-on-shutdown",
        "ha-sync-batch-size",
        "ha-sync-mode",
        "queue-master-locator",
        "queue-mode",
    },
}


def _check_definition(definition: Mapping[str, Json], *, is_operators: bool) -> None:
    if not definition:
        raise _failed("no policy provided")
    known = OPERATOR_KEYS if is_operators else _CHECKS.keys()
    unknown = [
        f"{{{json_term(key)},{json_term(definition[key])}}}"
        for key in sorted(definition.keys() - known)
    ]
    if unknown:
        raise _failed(f"[{','.join(unknown)}] are not recognised policy settings")
    for key in sorted(definition):
        words, is_valid = _CHECKS[key]
        if not is_valid(definition[key]):
            raise _failed(f"{json_term(definition[key])} {words}")
