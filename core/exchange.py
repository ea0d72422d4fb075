"""What every exchange has: its definition and its bindings. Types differ in how they route.

One subclass per type, in a file of its own. Bindings are kept here by their identity, so that
"is it bound already" and "was that the last one" are the same for all types; a subclass keeps
whatever its `route` needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..amqp_frames.field_table import Table
from .arguments import not_implemented
from .definitions import (
    BindingDefinition,
    BindingIdentity,
    ExchangeDefinition,
    QueueDefinition,
)


class Exchange(ABC):
    """An exchange of the routing table. Changed by ExchangeTable only."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        self.definition = definition
        self.bindings: dict[BindingIdentity, BindingDefinition] = {}

    def check_binding(self, arguments: Table) -> None:  # noqa: B027 - most types take any
        """Raise if a binding to this exchange cannot have these arguments."""

    def bind(self, binding: BindingDefinition, queue: QueueDefinition) -> None:
        """Add a binding that is not there yet."""
        assert binding.identity not in self.bindings, binding
        self.bindings[binding.identity] = binding
        self._add_route(binding.routing_key, queue)

    def unbind(self, binding: BindingDefinition, queue: QueueDefinition) -> None:
        """Remove a binding that is there."""
        del self.bindings[binding.identity]
        self._remove_route(binding.routing_key, queue)

    @abstractmethod
    def route(self, routing_key: str) -> tuple[QueueDefinition, ...]:
        """The queues that a message with this key goes to: each once, in a stable order."""

    @abstractmethod
    def _add_route(self, routing_key: str, queue: QueueDefinition) -> None: ...

    @abstractmethod
    def _remove_route(self, routing_key: str, queue: QueueDefinition) -> None: ...


class UnbuiltExchange(Exchange):
    """A predeclared exchange of a type that is not built yet: it is there, but of no use.

    A passive declare finds it. Nothing can be bound to it or published through it: to answer
    "unroutable" would be to ignore what the client asked for.
    """

    def check_binding(self, arguments: Table) -> None:  # noqa: ARG002 - refused whatever they are
        """Raise 406: the type is not built."""
        raise not_implemented("type", str(self.definition))

    def route(self, routing_key: str) -> tuple[QueueDefinition, ...]:  # noqa: ARG002
        """Raise 406: the type is not built."""
        raise not_implemented("type", str(self.definition))

    def _add_route(self, routing_key: str, queue: QueueDefinition) -> None:  # noqa: ARG002
        raise AssertionError("check_binding refuses every binding")

    def _remove_route(self, routing_key: str, queue: QueueDefinition) -> None:  # noqa: ARG002
        raise AssertionError("nothing is bound to it")
