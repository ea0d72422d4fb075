"""What declare, delete, bind and unbind do: the rules of one vhost's exchanges and queues.

Each command goes in three steps, so that what is durable is on disk before it is answered and
before a message can be routed by it:
1. `prepare_...` checks everything. It raises what the client must be told, in RabbitMQ's words,
   or returns a Plan. Nothing has changed yet.
2. The caller commits `plan.catalog` to the catalog, if there is anything in it.
3. `apply(plan)` changes the routing table.
Between 1 and 3 no other plan may be applied: a plan holds for the version it was made for.

Names lose CR and LF in declarations, bindings and deletions, as in RabbitMQ; publishing,
consuming and purging take them as they are.

Errors carry class and method 0: the channel knows which method it was.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import Final

from ..amqp_frames.constants import ACCESS_REFUSED, PRECONDITION_FAILED
from ..amqp_frames.errors import SoftError
from ..amqp_frames.field_table import Table
from .arguments import check_exchange_arguments, check_queue_arguments, not_implemented
from .binding_plans import plan_bind, plan_unbind
from .declaration_checks import (
    RESERVED_PREFIX,
    check_access,
    check_name,
    check_not_default,
    check_same_exchange,
    check_same_queue,
    stripped,
)
from .dedup_window import DEDUP_WINDOW_MAX
from .definitions import (
    TO_EXCHANGE,
    TO_QUEUE,
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    RemoveQueue,
    resource,
)
from .exchange_table import BUILT_TYPES, UNBUILT_TYPES, ExchangeTable
from .plan import Plan, make_plan, removal_changes
from .queue_types import check_queue_properties, check_server_named

_GENERATED_PREFIX: Final = "amq.gen-"
# As long as RabbitMQ's: 22 characters.
_GENERATED_NAME_BYTES: Final = 16


class Topology:
    """The rules of a vhost, over its routing table."""

    def __init__(
        self,
        next_queue_id: Callable[[], int],
        random_octets: Callable[[int], bytes],
        vhost: str = "/",
        dedup_window_max: int = DEDUP_WINDOW_MAX,
    ) -> None:
        """`next_queue_id` never repeats, not even after a restart; os.urandom is random enough."""
        self.vhost = vhost
        self.table = ExchangeTable(vhost)
        self._next_queue_id = next_queue_id
        self._random_octets = random_octets
        self._dedup_window_max = dedup_window_max

    def restore(
        self,
        exchanges: Iterable[ExchangeDefinition],
        queues: Iterable[QueueDefinition],
        bindings: Iterable[BindingDefinition],
    ) -> None:
        """Take in what the catalog holds; ValueError if it does not fit together."""
        exchanges, queues, bindings = tuple(exchanges), tuple(queues), tuple(bindings)
        for exchange in exchanges:
            if exchange.type_name not in BUILT_TYPES:
                raise ValueError(f"the catalog has {exchange} of type '{exchange.type_name}'")
        names = {exchange.definition.name for exchange in self.table.exchanges()}
        names.update(exchange.name for exchange in exchanges)
        ends = {TO_EXCHANGE: names, TO_QUEUE: {queue.name for queue in queues}}
        for binding in bindings:
            known = ends[binding.destination_kind]
            if binding.source not in names or binding.destination not in known:
                raise ValueError(f"the catalog has a binding without its ends: {binding}")
        self.table.apply([AddExchange(exchange) for exchange in exchanges])
        self.table.apply([AddQueue(queue) for queue in queues])
        self.table.apply([AddBinding(binding) for binding in bindings])

    def apply(self, plan: Plan) -> None:
        """Make the plan's changes; its catalog part is committed by now."""
        if plan.changes:
            assert plan.version == self.table.version, "another plan was applied in between"
            self.table.apply(plan.changes)

    # --- Looking up.

    def queue(self, name: str, owner: object) -> QueueDefinition:
        """The queue for a connection to use: 404 if there is none, 405 if it is another's."""
        queue = self.table.find_queue(name)
        if queue is None:
            raise self.table.not_found("queue", name)
        check_access(queue, owner)
        return queue

    def find_queue(self, name: str, owner: object) -> QueueDefinition | None:
        """The queue that `prepare_delete_queue` would delete: None or 405 as there."""
        queue = self.table.find_queue(stripped(name))
        if queue is not None:
            check_access(queue, owner)
        return queue

    def queues_of(self, owner: object) -> tuple[QueueDefinition, ...]:
        """The exclusive queues of a connection, which go when it goes."""
        return self.table.queues_of(owner)

    # --- Exchanges.

    def prepare_declare_exchange(
        self,
        name: str,
        type_name: str,
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table,
    ) -> Plan:
        """Find the exchange, or make it unless `passive`."""
        name = stripped(name)
        if passive:
            check_not_default(name)
            return make_plan(self.table, exchange=self.table.exchange(name).definition)
        if type_name not in BUILT_TYPES and type_name not in UNBUILT_TYPES:
            raise SoftError(PRECONDITION_FAILED, f"unknown exchange type '{type_name}'")
        check_not_default(name)
        declared = ExchangeDefinition(
            name, type_name, durable, auto_delete, internal, arguments, self.vhost
        )
        existing = self.table.find_exchange(name)
        if existing is not None:
            check_same_exchange(existing.definition, declared)
            return make_plan(self.table, exchange=existing.definition)
        check_name("exchange", name)
        check_exchange_arguments(str(declared), arguments)
        if type_name in UNBUILT_TYPES:
            raise not_implemented("type", str(declared))
        return make_plan(self.table, (AddExchange(declared),), exchange=declared)

    def prepare_delete_exchange(self, name: str, *, if_unused: bool = False) -> Plan:
        """Delete the exchange and its bindings; one that is not there is no error.

        In use means that something is bound to it; bindings that lead to it do not count.
        """
        name = stripped(name)
        check_not_default(name)
        if name.startswith(RESERVED_PREFIX):
            named = resource("exchange", name, self.vhost)
            raise SoftError(ACCESS_REFUSED, f"deletion of system {named} not allowed")
        exchange = self.table.find_exchange(name)
        if exchange is None:
            return make_plan(self.table)
        if if_unused and exchange.bindings:
            raise SoftError(PRECONDITION_FAILED, f"{exchange.definition} in use")
        changes = removal_changes(self.table, (), [exchange.definition])
        return make_plan(self.table, changes, exchange=exchange.definition)

    # --- Queues.

    def prepare_declare_queue(
        self,
        name: str,
        owner: object,
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table,
    ) -> Plan:
        """Find the queue, or make it unless `passive`; the plan has changes if it is new.

        An empty name asks for a new one. A reserved name is refused even if the queue exists:
        who got a generated name can use it, but not declare it, as in RabbitMQ.
        """
        name = stripped(name)
        if passive:
            return make_plan(self.table, queue=self.queue(name, owner))
        if name:
            check_name("queue", name)
        else:
            check_server_named(arguments)
            name = self._generated_name()
        # It dies with its connection.
        durable = durable and not exclusive
        existing = self.table.find_queue(name)
        if existing is not None:
            check_same_queue(
                existing, durable, auto_delete, arguments, owner if exclusive else None
            )
            return make_plan(self.table, queue=existing)
        named = resource("queue", name, self.vhost)
        check_queue_arguments(named, arguments, self._dedup_window_max)
        queue = QueueDefinition(
            name,
            self._next_queue_id(),
            durable,
            exclusive,
            auto_delete,
            arguments,
            owner if exclusive else None,
            self.vhost,
        )
        check_queue_properties(queue)
        return make_plan(self.table, (AddQueue(queue),), queue=queue)

    def prepare_delete_queue(
        self,
        name: str,
        owner: object,
        *,
        if_unused: bool = False,
        if_empty: bool = False,
        message_count: int = 0,
        consumer_count: int = 0,
    ) -> Plan:
        """Delete the queue and its bindings; one that is not there is no error.

        The counts are the queue's (`find_queue` says which it is); messages that are out with
        consumers do not count.
        """
        queue = self.find_queue(name, owner)
        if queue is None:
            return make_plan(self.table)
        if if_empty and message_count:
            raise SoftError(PRECONDITION_FAILED, f"{queue} not empty")
        if if_unused and consumer_count:
            raise SoftError(PRECONDITION_FAILED, f"{queue} in use")
        return self.prepare_remove_queues([queue])

    def prepare_remove_queues(self, queues: Iterable[QueueDefinition]) -> Plan:
        """Delete queues of the broker's own accord: nothing is checked.

        For exclusive queues whose connection has gone, auto-delete queues whose last consumer
        has, and queues that have failed. Those that are deleted already are passed over.
        """
        gone = [queue for queue in queues if self.table.find_queue(queue.name) is queue]
        bindings = [binding for queue in gone for binding in self.table.bindings_to(queue)]
        changes = removal_changes(self.table, bindings)
        changes += [RemoveQueue(queue) for queue in gone]
        return make_plan(self.table, changes, queue=gone[0] if gone else None)

    # --- Bindings: to queues, and to exchanges. The source comes last, as on the wire.

    def prepare_bind(
        self, queue: str, source: str, routing_key: str, arguments: Table, owner: object
    ) -> Plan:
        """Bind the queue to the exchange; a binding that is there already is no error."""
        return plan_bind(self.table, TO_QUEUE, queue, source, routing_key, arguments, owner)

    def prepare_unbind(
        self, queue: str, source: str, routing_key: str, arguments: Table, owner: object
    ) -> Plan:
        """Remove the binding; if it, its exchange or its queue is not there, that is no error."""
        return plan_unbind(self.table, TO_QUEUE, queue, source, routing_key, arguments, owner)

    def prepare_bind_exchange(
        self, destination: str, source: str, routing_key: str, arguments: Table
    ) -> Plan:
        """The same from exchange to exchange."""
        return plan_bind(self.table, TO_EXCHANGE, destination, source, routing_key, arguments, None)

    def prepare_unbind_exchange(
        self, destination: str, source: str, routing_key: str, arguments: Table
    ) -> Plan:
        """The same from exchange to exchange."""
        return plan_unbind(
            self.table, TO_EXCHANGE, destination, source, routing_key, arguments, None
        )

    def _generated_name(self) -> str:
        while True:
            octets = self._random_octets(_GENERATED_NAME_BYTES)
            name = _GENERATED_PREFIX + urlsafe_b64encode(octets).rstrip(b"=").decode()
            if self.table.find_queue(name) is None:
                return name
