"""The base class of exchanges: a definition and bindings. Types differ in how they route.

One subclass per type, in a file of its own. Bindings are kept here by their identity, so that
"is it bound already" and "was that the last one" are the same for all types; a subclass keeps
whatever its `route` needs.

`Destinations` counts, for one key, the bindings to each queue and exchange. A queue may be bound
twice with one key, if the arguments differ; it gets a message once, and leaves only with the last
of those bindings. The tuple is made when it is asked for and kept until the next change, so that
binding 10,000 queues to one key does not make 10,000 tuples.

Routing is work in `Steps`: a generator that yields before each step which may take long. Its caller
decides, by a clock that core/ does not have, when to go on. It returns the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import ClassVar, TypeVar

from ...amqp_frames.properties import Properties
from ...amqp_frames.values.field_table import Table
from ..definitions import (
    TO_EXCHANGE,
    BindingDefinition,
    BindingIdentity,
    Destination,
    ExchangeDefinition,
)
from .delayed import DELAYED_TYPE


class Destinations:
    """A set of queues and exchanges in the order of their first binding."""

    __slots__ = ("_bindings_by_destination", "_in_order")

    def __init__(self) -> None:
        self._bindings_by_destination: dict[Destination, int] = {}
        self._in_order: tuple[Destination, ...] | None = ()

    def add(self, destination: Destination) -> None:
        """One more binding leads there."""
        count = self._bindings_by_destination.get(destination, 0)
        self._bindings_by_destination[destination] = count + 1
        self._in_order = None

    def remove(self, destination: Destination) -> None:
        """One binding less leads there; there must be one."""
        count = self._bindings_by_destination[destination] - 1
        if count:
            self._bindings_by_destination[destination] = count
        else:
            del self._bindings_by_destination[destination]
            self._in_order = None

    def in_order(self) -> tuple[Destination, ...]:
        """Each destination once."""
        in_order = self._in_order
        if in_order is None:
            in_order = self._in_order = tuple(self._bindings_by_destination)
        return in_order

    def __bool__(self) -> bool:
        return bool(self._bindings_by_destination)


def _alternate_of(definition: ExchangeDefinition) -> str | None:
    alternate = definition.effective.get("alternate-exchange")
    return alternate.value if alternate is not None and isinstance(alternate.value, str) else None


class Exchange(ABC):
    """An exchange of the routing table. Changed by ExchangeTable only.

    `is_plain`: a message's queues are just what `route` finds for its key. It is not if the
    exchange has an alternate exchange, is bound to other exchanges, does not route by the key, or
    delays.
    """

    # Whether two messages with one key and the same properties may part, because chance decides.
    is_random: ClassVar[bool] = False

    def __init__(
        self, definition: ExchangeDefinition, *, routes_each_message: bool = False
    ) -> None:
        """With `routes_each_message` the key does not decide, but properties or chance."""
        self.definition = definition
        self.bindings: dict[BindingIdentity, BindingDefinition] = {}
        # Where a message goes that no binding takes: a name, of an exchange that may not exist.
        self.alternate = _alternate_of(definition)
        # Are the messages deferred that come through it?
        self.delays = definition.type_name == DELAYED_TYPE
        self.routes_each_message = routes_each_message
        self._bindings_to_exchanges = 0
        self.is_plain = True
        self._find_whether_plain()

    def replace_arguments(self, arguments: Table) -> None:
        """Have these arguments in effect from now on; the declaration stays."""
        self.definition.effective = arguments
        self.alternate = _alternate_of(self.definition)
        self._find_whether_plain()

    @classmethod  # noqa: B027 - most types take any
    def check_arguments(cls, arguments: Table) -> None:
        """Raise if an exchange of this type cannot be declared with these."""

    def check_binding(self, routing_key: str, arguments: Table) -> None:  # noqa: B027 - as above
        """Raise if a binding to this exchange cannot have this key and these arguments."""

    def costly_words(self, routing_key: str) -> int:  # noqa: ARG002
        """Count towards topic_costly_words_max, with a binding with this key."""
        return 0

    def bind(self, binding: BindingDefinition, destination: Destination) -> None:
        """Add a binding that is not there yet."""
        assert binding.identity not in self.bindings, binding
        self.bindings[binding.identity] = binding
        if binding.destination_kind == TO_EXCHANGE:
            self._bindings_to_exchanges += 1
            self._find_whether_plain()
        self._add_route(binding, destination)

    def unbind(self, binding: BindingDefinition, destination: Destination) -> None:
        """Remove a binding that is there."""
        del self.bindings[binding.identity]
        if binding.destination_kind == TO_EXCHANGE:
            self._bindings_to_exchanges -= 1
            self._find_whether_plain()
        self._remove_route(binding, destination)

    def _find_whether_plain(self) -> None:
        self.is_plain = (
            self.alternate is None
            and not self._bindings_to_exchanges
            and not self.routes_each_message
            and not self.delays
        )

    @abstractmethod
    def route(self, routing_key: str) -> tuple[Destination, ...]:
        """Where the bindings lead a message with this key: each once, in a stable order."""

    def route_message(
        self,
        routing_keys: Sequence[str],
        properties: Properties,  # noqa: ARG002
    ) -> Steps[Sequence[Destination]]:
        """The same for a message with several keys, and with these properties."""
        found: dict[Destination, None] = {}
        for routing_key in routing_keys:
            yield
            found.update(dict.fromkeys(self.route(routing_key)))
        return tuple(found)

    @abstractmethod
    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None: ...

    @abstractmethod
    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None: ...


Result = TypeVar("Result")
Steps = Generator[None, None, Result]
