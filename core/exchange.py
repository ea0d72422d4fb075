"""What every exchange has: its definition and its bindings. Types differ in how they route.

One subclass per type, in a file of its own. Bindings are kept here by their identity, so that
"is it bound already" and "was that the last one" are the same for all types; a subclass keeps
whatever its `route` needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import ClassVar

from ..amqp_frames.field_table import Table
from .definitions import (
    TO_EXCHANGE,
    BindingDefinition,
    BindingIdentity,
    Destination,
    ExchangeDefinition,
)


class Exchange(ABC):
    """An exchange of the routing table. Changed by ExchangeTable only.

    `is_plain`: a message's queues are just what `route` finds for its key. It is not if the
    exchange has an alternate exchange, is bound to other exchanges, or looks into headers.
    """

    # Whether the message's headers decide, and not its key.
    reads_headers: ClassVar[bool] = False

    def __init__(self, definition: ExchangeDefinition) -> None:
        self.definition = definition
        self.bindings: dict[BindingIdentity, BindingDefinition] = {}
        alternate = definition.arguments.get("alternate-exchange")
        # Where a message goes that no binding takes: a name, of an exchange that may not exist.
        self.alternate: str | None = None
        if alternate is not None and isinstance(alternate.value, str):
            self.alternate = alternate.value
        self._bindings_to_exchanges = 0
        self.is_plain = True
        self._find_whether_plain()

    def check_binding(self, arguments: Table) -> None:  # noqa: B027 - most types take any
        """Raise if a binding to this exchange cannot have these arguments."""

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
            self.alternate is None and not self._bindings_to_exchanges and not self.reads_headers
        )

    @abstractmethod
    def route(self, routing_key: str) -> tuple[Destination, ...]:
        """Where the bindings lead a message with this key: each once, in a stable order."""

    def route_message(self, routing_keys: Sequence[str], headers: Table) -> Sequence[Destination]:  # noqa: ARG002
        """The same for a message with several keys, and with these headers."""
        if len(routing_keys) == 1:
            return self.route(routing_keys[0])
        return tuple(dict.fromkeys(chain.from_iterable(map(self.route, routing_keys))))

    @abstractmethod
    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None: ...

    @abstractmethod
    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None: ...
