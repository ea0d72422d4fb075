"""Headers exchanges: a message goes where a binding's arguments match its headers.

The argument `x-match` says how: all of the binding's other arguments must be among the headers
("all", also if it is absent), or one of them ("any"). Arguments whose names begin with "x-" are
left out, except with "all-with-x" and "any-with-x", which leave out only `x-match` itself. An
argument without a value (void) asks for the header to be there, whatever its value. A binding
that asks for nothing takes every message with all, and none with any. Routing keys do not count.

Values are compared as RabbitMQ 3.10 compares them, with Erlang's ==: by what they are and not by
the type they are sent as, so a signedint 1 is a long 1 and a double 1.0, a longstr is the binary
with the same octets, but true is not 1. Inside arrays and tables the types count too, and in
tables the order of the fields. RabbitMQ 4.x, stricter, tells 1 from 1.0.

Bindings are found by what they ask for, not one after the other: a binding that asks for any of its
arguments is filed under each of them, a binding that asks for all under the argument with the
fewest other bindings. So what a message costs depends on the headers it has, and hardly on how many
bindings there are. A message with many headers may meet arguments of many bindings all the same:
then they are compared in steps.

Facts from rabbit_exchange_type_headers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.properties import Properties
from ...amqp_frames.values.field_table import FieldValue, Table
from ..definitions import BindingDefinition, Destination, ExchangeDefinition
from ..erlang_terms import erlang_term
from .exchange import Destinations, Exchange, Steps

_MATCH: Final = "x-match"
_LEFT_OUT_PREFIX: Final = "x-"
_ALL, _ANY, _ALL_WITH_X, _ANY_WITH_X = "all", "any", "all-with-x", "any-with-x"

# A header's name, and its value as `comparable` makes it, or that it is there at all.
_Criterion = tuple[str, object]
_PRESENT: Final = object()
# The criteria, and whether a message must meet all of them or one.
_PatternKey = tuple[frozenset[_Criterion], bool]
_ANYTHING: Final[_PatternKey] = (frozenset(), True)
# Compared between two steps, at about 50 nanoseconds each.
CRITERIA_PER_STEP: Final = 10_000


class _Pattern:
    """The headers that some bindings require in common, and their destinations."""

    __slots__ = ("criteria", "destinations", "found_under", "needs_all")

    def __init__(
        self,
        criteria: frozenset[_Criterion],
        needs_all: bool,
        found_under: Collection[_Criterion],
    ) -> None:
        self.criteria = criteria
        self.needs_all = needs_all
        # A message that it takes meets at least one of these.
        self.found_under = found_under
        self.destinations = Destinations()


class HeadersExchange(Exchange):
    """Patterns by what they ask for."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition, routes_each_message=True)
        self._patterns: dict[_PatternKey, _Pattern] = {}
        # Ordered sets, so that routes are stable.
        self._by_criterion: dict[_Criterion, dict[_Pattern, None]] = {}

    def check_binding(self, routing_key: str, arguments: Table) -> None:  # noqa: ARG002
        """406 for an `x-match` that is none of the four."""
        match = arguments.get(_MATCH)
        if match is None:
            return
        expected = "expected all, any, all-with-x, or any-with-x"
        if match.kind != "longstr":
            text = f"type {match.kind} (value {erlang_term(match.value)}); expected longstr"
        elif match.value in (_ALL, _ANY, _ALL_WITH_X, _ANY_WITH_X):
            return
        else:
            text = f"value {erlang_term(match.value)}; {expected}"
        raise SoftError(PRECONDITION_FAILED, f"Invalid x-match field {text}")

    def route(self, routing_key: str) -> tuple[Destination, ...]:  # noqa: ARG002
        """Where a message without headers goes."""
        anything = self._patterns.get(_ANYTHING)
        return () if anything is None else anything.destinations.in_order()

    def route_message(
        self,
        routing_keys: Sequence[str],  # noqa: ARG002
        properties: Properties,
    ) -> Steps[Sequence[Destination]]:
        """Where a message with these headers goes, whatever its keys."""
        yield
        met = dict.fromkeys(_criteria_met(properties.headers or {}))
        patterns: dict[_Pattern, None] = {}
        anything = self._patterns.get(_ANYTHING)
        if anything is not None:
            patterns[anything] = None
        compared = 0
        for criterion in met:
            # A copy, because bindings may change between two steps.
            for pattern in tuple(self._by_criterion.get(criterion, ())):
                compared += len(pattern.criteria) if pattern.needs_all else 1
                if compared > CRITERIA_PER_STEP:
                    compared = 0
                    yield
                if not pattern.needs_all or met.keys() >= pattern.criteria:
                    patterns[pattern] = None
        found = [pattern.destinations.in_order() for pattern in patterns]
        if len(found) == 1:
            return found[0]
        return tuple(dict.fromkeys(each for destinations in found for each in destinations))

    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None:
        key = criteria, needs_all = _pattern_key(binding.arguments)
        pattern = self._patterns.get(key)
        if pattern is None:
            found_under: Collection[_Criterion] = criteria
            if needs_all and criteria:
                found_under = (min(criteria, key=self._pattern_count),)
            pattern = self._patterns[key] = _Pattern(criteria, needs_all, found_under)
            for criterion in found_under:
                self._by_criterion.setdefault(criterion, {})[pattern] = None
        pattern.destinations.add(destination)

    def _pattern_count(self, criterion: _Criterion) -> int:
        return len(self._by_criterion.get(criterion, ()))

    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None:
        key = _pattern_key(binding.arguments)
        pattern = self._patterns[key]
        pattern.destinations.remove(destination)
        if pattern.destinations:
            return
        del self._patterns[key]
        for criterion in pattern.found_under:
            patterns = self._by_criterion[criterion]
            del patterns[pattern]
            if not patterns:
                del self._by_criterion[criterion]


def _pattern_key(arguments: Table) -> _PatternKey:
    match = arguments.get(_MATCH)
    how = _ALL if match is None else match.value
    with_x = how in (_ALL_WITH_X, _ANY_WITH_X)
    criteria = frozenset(
        (name, _PRESENT if argument.kind == "void" else comparable(argument.value))
        for name, argument in arguments.items()
        if name != _MATCH and (with_x or not name.startswith(_LEFT_OUT_PREFIX))
    )
    return criteria, how not in (_ANY, _ANY_WITH_X)


def _criteria_met(headers: Table) -> Iterator[_Criterion]:
    for name, header in headers.items():
        yield name, _PRESENT
        yield name, comparable(header.value)


def comparable(value: FieldValue) -> object:
    """A form of the value that can be hashed, and is equal to what Erlang's == holds for equal."""
    if isinstance(value, bool):
        return "atom", value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return "list", tuple((item.kind, comparable(item.value)) for item in value)
    if isinstance(value, dict):
        return "list", tuple(
            (name, field.kind, comparable(field.value)) for name, field in value.items()
        )
    if isinstance(value, tuple):
        return "decimal", *value
    # Bytes, and numbers: 1 and 1.0 are equal here too, and have one hash.
    return value
