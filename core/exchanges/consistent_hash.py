"""Consistent hash exchanges: messages that agree in one value go to one queue, by its hash.

As RabbitMQ's plugin rabbitmq_consistent_hash_exchange has them. The value is the routing key, or
the header that the argument `hash-header` names, or one of three properties that `hash-property`
names; messages without it agree, too. A binding's key is its weight, a whole number from 1: a
destination with twice the weight gets about twice the values. Of several bindings to one
destination the oldest counts.

The plugin numbers as many buckets as the weights add up to and has its jump hash find one. A
binding that is removed shifts the buckets behind it, and a restart sorts them anew. Here it is
weighted rendezvous hashing: value and destination together give a number, which the weight raises,
and the highest wins. So where a value goes depends on no order and survives a restart, a new
binding draws only what it gets itself, and a removed one gives up only what it had.

What a message costs grows with the bindings, by less than a microsecond each; the route of a
routing key is kept. Facts from rabbit_exchange_type_consistent_hash; the rule is Schindelhauer and
Schomaker's ("Weighted distributed hash tables", 2005).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from math import log
from typing import Final

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.properties import Properties
from ...amqp_frames.values.field_table import Table
from ..definitions import (
    BindingDefinition,
    BindingIdentity,
    Destination,
    ExchangeDefinition,
)
from ..erlang_terms import as_text, erlang_term
from .exchange import Exchange, Steps
from .headers import comparable

HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")

# Compared between two steps, at less than a microsecond each.
CANDIDATES_PER_STEP: Final = 1_000

_OCTETS_64: Final = 8
_MASK_64: Final = (1 << 64) - 1
# Odd numbers without a pattern in their bits: the constants of splitmix64.
_MULTIPLIERS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class _Candidate:
    """A destination: its number in the hash, the weights of its bindings, and the oldest's."""

    __slots__ = ("destination", "number", "weight", "weights")

    def __init__(self, destination: Destination, kind: str) -> None:
        self.destination = destination
        self.number = _number_of(f"{kind} {destination.name}")
        self.weights: dict[BindingIdentity, float] = {}
        self.weight = 1.0


class ConsistentHashExchange(Exchange):
    """The destinations by name and kind, and what of a message is hashed."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        self._header = _name_in(definition.arguments, HASH_HEADER)
        self._property = _name_in(definition.arguments, HASH_PROPERTY)
        by_properties = self._header is not None or self._property is not None
        super().__init__(definition, routes_each_message=by_properties)
        self._candidates: dict[Destination, _Candidate] = {}

    @classmethod
    def check_arguments(cls, arguments: Table) -> None:
        """406 for a property that cannot be hashed, and for a header and a property at once."""
        for name in (HASH_HEADER, HASH_PROPERTY):
            argument = arguments.get(name)
            if argument is not None and argument.kind != "longstr":
                text = f"invalid arg '{name}': {{unacceptable_type,{argument.kind}}}"
                raise SoftError(PRECONDITION_FAILED, text)
        hashed = _name_in(arguments, HASH_PROPERTY)
        if hashed is None:
            return
        if HASH_HEADER in arguments:
            text = f"{HASH_HEADER} and {HASH_PROPERTY} are mutually exclusive"
            raise SoftError(PRECONDITION_FAILED, text)
        if hashed not in _PROPERTIES:
            raise SoftError(PRECONDITION_FAILED, f"Unsupported property: {hashed}")

    def check_binding(self, routing_key: str, arguments: Table) -> None:  # noqa: ARG002
        """406 unless the key is a weight."""
        if not _WHOLE_NUMBER.fullmatch(routing_key):
            text = f"The binding key must be an integer: {erlang_term(routing_key)}"
            raise SoftError(PRECONDITION_FAILED, text)
        if int(routing_key) < 1:
            raise SoftError(PRECONDITION_FAILED, "The binding key must be greater than 0")

    def route(self, routing_key: str) -> tuple[Destination, ...]:
        """The destination for this value, or none if nothing is bound."""
        return _destinations(_best(_number_of(routing_key), self._candidates.values()))

    def route_message(
        self, routing_keys: Sequence[str], properties: Properties
    ) -> Steps[Sequence[Destination]]:
        """The destination for the hashed value of this message; of its keys the first counts."""
        value = _number_of(self._hashed(routing_keys, properties))
        best: _Scored | None = None
        # A copy, because bindings may change between two steps.
        candidates = tuple(self._candidates.values())
        for first in range(0, len(candidates), CANDIDATES_PER_STEP):
            yield
            best = _best(value, candidates[first : first + CANDIDATES_PER_STEP], best)
        return _destinations(best)

    def _find_whether_plain(self) -> None:
        # Always routed by `route_message`, whose steps are bounded.
        self.is_plain = False

    def _hashed(self, routing_keys: Sequence[str], properties: Properties) -> str:
        """The value that decides. None differs from all that a message can have."""
        if self._header is not None:
            header = (properties.headers or {}).get(self._header)
            return "" if header is None else f"{header.kind} {comparable(header.value)!r}"
        if self._property is not None:
            value = getattr(properties, self._property)
            return "" if value is None else f"{self._property} {value}"
        return routing_keys[0]

    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None:
        candidate = self._candidates.get(destination)
        if candidate is None:
            candidate = _Candidate(destination, binding.destination_kind)
            self._candidates[destination] = candidate
        candidate.weights[binding.identity] = float(int(binding.routing_key))
        candidate.weight = next(iter(candidate.weights.values()))

    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None:
        candidate = self._candidates[destination]
        del candidate.weights[binding.identity]
        if candidate.weights:
            candidate.weight = next(iter(candidate.weights.values()))
        else:
            del self._candidates[destination]


# How high a destination scores, and the destination.
_Scored = tuple[float, Destination]


def _best(
    value: int, candidates: Iterable[_Candidate], best: _Scored | None = None
) -> _Scored | None:
    """The candidate that scores highest, if one of them scores higher than the best so far."""
    for candidate in candidates:
        score = _score(value, candidate)
        if best is None or score > best[0]:
            best = score, candidate.destination
    return best


def _destinations(best: _Scored | None) -> tuple[Destination, ...]:
    return () if best is None else best[1:]


def _score(value: int, candidate: _Candidate) -> float:
    """The logarithm of a number from 0 to 1 that value and destination draw, by the weight."""
    mixed = value ^ candidate.number
    for multiplier in _MULTIPLIERS:
        mixed = (mixed ^ mixed >> 31) * multiplier & _MASK_64
    drawn = ((mixed ^ mixed >> 31) + 1) / (_MASK_64 + 2)
    return log(drawn) / candidate.weight


def _number_of(text: str) -> int:
    octets = text.encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(octets, digest_size=_OCTETS_64).digest(), "big")


def _name_in(arguments: Table, name: str) -> str | None:
    argument = arguments.get(name)
    if argument is None or not isinstance(argument.value, str | bytes):
        return None
    return as_text(argument.value)
