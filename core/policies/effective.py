"""The arguments that hold for a queue or an exchange: its own, its policy's and its operator's.

Where both policies name a key, the smaller number counts. Between them and the queue's own
arguments the smaller number counts for limits and times, and the argument for all else, as in
RabbitMQ. What needs another argument that is not there, a dead-letter-routing-key without an
exchange, has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...amqp_frames.values.field_table import Field, Table
from ..definitions import (
    DEDUP_WINDOW_MAX,
    EXPIRY_MS_MAX,
    NO_POLICIES,
    AppliedPolicies,
    ExchangeDefinition,
    QueueDefinition,
    queue_type_of,
)
from ..parameters.parameters import OPERATOR_POLICY, POLICY, Json, Parameters
from .policy import MatchedPolicies, Policy, policy_of

_TIMES: Final = frozenset({"message-ttl", "expires", "in-flight-timeout"})
# The smaller of two values counts; what limits nothing is not small.
_RESTRICTIVE: Final = _TIMES | {
    "max-length",
    "max-length-bytes",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "delivery-limit",
    "consumer-timeout",
    "max-consumers",
}
_HEEDED: Final = _RESTRICTIVE | {
    "overflow",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "dead-letter-strategy",
    "dedup-window",
    "dedup-age-ms",
    "requeue-delay",
    "requeue-delay-max",
}
# Without the second the first has no effect.
_NEEDED: Final = (
    ("x-dead-letter-routing-key", "x-dead-letter-exchange"),
    ("x-dedup-age-ms", "x-dedup-window"),
    ("x-requeue-delay-max", "x-requeue-delay"),
)
_NUMBER_MAX: Final = 2**63 - 1
# A policy may have larger numbers than a declaration may: those are lowered to its limit.
_NUMBERS_MAX: Final = dict.fromkeys(
    _TIMES | {"requeue-delay", "requeue-delay-max", "dedup-age-ms"}, EXPIRY_MS_MAX
)
# Of a policy and an operator policy.
AppliedNames = tuple[str | None, str | None]


class Policies:
    """Those of one vhost, as they are now."""

    def __init__(
        self, parameters: Parameters, vhost: str, dedup_window_max: int = DEDUP_WINDOW_MAX
    ) -> None:
        self._users = MatchedPolicies(map(policy_of, parameters.of(POLICY, vhost)))
        self._operators = MatchedPolicies(map(policy_of, parameters.of(OPERATOR_POLICY, vhost)))
        self._dedup_window_max = dedup_window_max
        # By the policies' names: many queues and exchanges share one.
        self._applied: dict[AppliedNames, AppliedPolicies] = {}
        # Of queues without arguments of their own.
        self._effective: dict[AppliedNames, Table] = {}

    def of_queue(self, queue: QueueDefinition) -> tuple[Policy | None, Policy | None]:
        """The policy and the operator policy that apply to the queue."""
        named = queue.name, queue_type_of(queue.arguments)
        return self._users.of_queue(*named), self._operators.of_queue(*named)

    def of_exchange(self, exchange: ExchangeDefinition) -> tuple[Policy | None, Policy | None]:
        """The policy and the operator policy that apply to the exchange."""
        name = exchange.name
        return self._users.of_exchange(name), self._operators.of_exchange(name)

    def queue_arguments(self, queue: QueueDefinition) -> tuple[Table, AppliedPolicies]:
        """The arguments that hold for the queue, its own table if no policy changes anything.

        And the policies that they come from.
        """
        applied = self._together(*self.of_queue(queue))
        shared = None if queue.arguments else self._effective.get(applied[:2])
        if shared is not None:
            return shared, applied
        effective = effective_queue_arguments(
            queue.arguments, applied.definition, self._dedup_window_max
        )
        if not queue.arguments:
            self._effective[applied[:2]] = effective
        return effective, applied

    def exchange_arguments(self, exchange: ExchangeDefinition) -> tuple[Table, AppliedPolicies]:
        """The same for an exchange."""
        applied = self._together(*self.of_exchange(exchange))
        return effective_exchange_arguments(exchange.arguments, applied.definition), applied

    def _together(self, policy: Policy | None, operators: Policy | None) -> AppliedPolicies:
        if policy is None and operators is None:
            return NO_POLICIES
        names = policy.name if policy else None, operators.name if operators else None
        applied = self._applied.get(names)
        if applied is None:
            definition = merged_definition(policy, operators)
            applied = self._applied[names] = AppliedPolicies(*names, definition)
        return applied


def merged_definition(policy: Policy | None, operators: Policy | None) -> Mapping[str, Json]:
    """RabbitMQ's effective policy definition: of numbers in both, the smaller."""
    if operators is None or policy is None:
        chosen = policy or operators
        return chosen.definition if chosen is not None else {}
    merged = dict(policy.definition)
    for key, value in operators.definition.items():
        before: Any = merged.get(key)
        merged[key] = value if before is None else min(before, value)  # type: ignore[type-var]
    return merged


def effective_queue_arguments(
    arguments: Table, definition: Mapping[str, Json], dedup_window_max: int = DEDUP_WINDOW_MAX
) -> Table:
    """A queue's arguments under a definition; both were checked."""
    heeded = definition.keys() & _HEEDED
    if not heeded:
        return arguments
    effective = dict(arguments)
    for key in heeded:
        name, value = f"x-{key}", definition[key]
        if isinstance(value, int):
            value = min(value, _NUMBERS_MAX.get(key, _NUMBER_MAX))
        if key == "dedup-window":
            # No queue may remember more than it may be declared with.
            value = min(value, dedup_window_max)  # type: ignore[type-var]
        own = arguments.get(name)
        if own is None or (key in _RESTRICTIVE and _is_less(value, own.value)):
            effective[name] = _field(value)
    for name, needed in _NEEDED:
        if needed not in effective:
            effective.pop(name, None)
    longest = effective.get("x-requeue-delay-max")
    if longest is not None and _is_less(longest.value, effective["x-requeue-delay"].value):
        del effective["x-requeue-delay-max"]
    return effective


def effective_exchange_arguments(arguments: Table, definition: Mapping[str, Json]) -> Table:
    """An exchange's arguments under a definition; both were checked."""
    alternate = definition.get("alternate-exchange")
    if alternate is None or "alternate-exchange" in arguments:
        return arguments
    return arguments | {"alternate-exchange": _field(alternate)}


def _is_less(value: Any, own: Any) -> bool:
    # A negative delivery limit is none.
    return bool(own < 0 or value < own)


def _field(value: Any) -> Field:
    return Field("long", value) if isinstance(value, int) else Field("longstr", value)
