"""The rules of declare, delete, bind and unbind: how a vhost's exchanges and queues change.

Each command goes in three steps, so that a durable change is on disk before it is answered and
before a message can be routed by it:
1. `prepare_...` checks everything. It raises what the client must be told, in RabbitMQ's words,
   or returns a Plan. Nothing has changed yet.
2. The caller commits `plan.catalog` to the catalog, if there is anything in it.
3. `apply(plan)` changes the routing table.
Between 1 and 3 no other plan may be applied: a plan holds for the version it was made for.

Names lose CR and LF in declarations, bindings and deletions, as in RabbitMQ; publishing,
consuming and purging take them as they are.

Errors carry class and method 0: the channel knows which method it was.

A binding leads from an exchange, its source, to a queue or to an exchange. Source, destination,
routing key and arguments identify it: with other arguments it is another binding. The plans for
queues need the queues' counts as well.

A user's permissions may not allow a command. RabbitMQ's channels ask for this access:

    exchange.declare, delete      configure the exchange; not if passive
    queue.declare, delete         configure the queue; not if passive
    exchange.bind, unbind         write the destination, read the source
    queue.bind, unbind            write the queue, read the exchange

A new exchange with an alternate needs to read it and write the alternate; a new queue with a
dead-letter exchange, to read the queue and write that exchange.

A second declaration of an exchange or a queue must equal the first in everything that counts, or it
is refused with 406. The words are those of RabbitMQ's rabbit_misc:assert_args_equivalence and
assert_field_equivalence: a property or an argument that both declarations have is shown by its
value alone, an argument that only one of them has also by its type.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ...amqp_frames.constants import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, RESOURCE_LOCKED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
    QueueUnbindOk,
)
from ...amqp_frames.values.field_table import Field, FieldValue, Table, text_of
from ..definitions import (
    DELIVERY_EXCHANGE,
    EXCHANGE_ARGUMENTS,
    HIDDEN_PREFIX,
    QUEUE_ARGUMENTS,
    TO_EXCHANGE,
    TO_QUEUE,
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    BindingIdentity,
    Change,
    Destination,
    ExchangeDefinition,
    PauseQueue,
    QueueDefinition,
    RemoveBinding,
    RemoveExchange,
    RemoveQueue,
    ReplaceExchangeArguments,
    ReplaceQueueArguments,
    binding_identity,
    check_exchange_arguments,
    check_queue_arguments,
    check_queue_properties,
    check_server_named,
    not_implemented,
    resource,
)
from ..erlang_terms import erlang_plain
from ..exchanges.delayed import (
    DELAYED_ARGUMENT,
    DELAYED_TYPE,
    check_delayed_type,
    routing_type,
)
from ..exchanges.table import (
    BUILT_TYPES,
    DEFAULT_LIMITS,
    TYPES,
    UNBUILT_TYPES,
    ExchangeTable,
    TopologyLimits,
)
from ..exchanges.topic import COMMON_WILDCARDS_MAX

_CLASSES = dict.fromkeys(
    (
        "byte",
        "short",
        "signedint",
        "long",
        "decimal",
        "unsignedbyte",
        "unsignedshort",
        "unsignedint",
    ),
    "int",
) | {"float": "float", "double": "float"}


def check_property(named: str, name: str, current: str | bool, received: str | bool) -> None:
    """`named` is the exchange or queue as texts speak of it; `name` the property."""
    if current != received:
        raise _inequivalent(named, name, _value(current), _value(received))


def check_arguments(named: str, current: Table, received: Table, names: Iterable[str]) -> None:
    """Compare the arguments with these names, in this order; all others may differ."""
    for name in names:
        if name in current or name in received:
            _check_argument(named, name, current.get(name), received.get(name))


def _check_argument(named: str, name: str, current: Field | None, received: Field | None) -> None:
    if current is not None and received is not None:
        if not _is_same(current, received):
            raise _inequivalent(named, name, _value(current.value), _value(received.value))
        return
    # No type means classic, so the two are the same.
    if name == "x-queue-type" and (current or received) == Field("longstr", "classic"):
        return
    raise _inequivalent(named, name, _typed_value(current), _typed_value(received))


def _is_same(current: Field, received: Field) -> bool:
    """Types may differ within integers and within floats; equal values of one nature are equal."""
    if current.value != received.value:
        return False
    is_one_class = _class(current) == _class(received)
    # Python holds 1, 1.0 and True for equal, Erlang does not.
    return is_one_class or type(current.value) is type(received.value)


def _class(argument: Field) -> str:
    return _CLASSES.get(argument.kind, argument.kind)


def _value(value: FieldValue) -> str:
    return f"'{erlang_plain(value)}'"


def _typed_value(argument: Field | None) -> str:
    if argument is None:
        return "none"
    return f"the value {_value(argument.value)} of type '{argument.kind}'"


def _inequivalent(named: str, name: str, current: str, received: str) -> SoftError:
    return SoftError(
        PRECONDITION_FAILED,
        f"inequivalent arg '{name}' for {named}: received {received} but current is {current}",
    )


RESERVED_PREFIX: Final = "amq."
_WITHOUT_LINE_BREAKS: Final = str.maketrans("", "", "\r\n")


def stripped(name: str) -> str:
    """The name without CR and LF."""
    return name.translate(_WITHOUT_LINE_BREAKS)


def check_name(kind: str, name: str) -> None:
    """403 for a name that only the broker can give; `kind` is "queue" or "exchange"."""
    if name.startswith(RESERVED_PREFIX):
        raise SoftError(ACCESS_REFUSED, f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_not_default(exchange_name: str) -> None:
    """403 for the default exchange, which cannot be touched."""
    if not exchange_name:
        raise SoftError(ACCESS_REFUSED, "operation not permitted on the default exchange")


def check_bindable(exchange_name: str) -> None:
    """403 for an exchange that takes no bindings: the default one, and the one for commands."""
    check_not_default(exchange_name)
    if exchange_name == DELIVERY_EXCHANGE:
        text = f"operation not permitted on the exchange '{DELIVERY_EXCHANGE}'"
        raise SoftError(ACCESS_REFUSED, text)


def check_access(queue: QueueDefinition, owner: object) -> None:
    """405 for another connection's exclusive queue."""
    if queue.exclusive and queue.owner != owner:
        raise _locked(queue)


def _locked(queue: QueueDefinition) -> SoftError:
    return SoftError(
        RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked {queue}. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the original "
        "declaration.",
    )


def queue_gone_error(queue: QueueDefinition, has_crashed: bool) -> SoftError:
    """404 for a queue that was there when it was looked up: deleted meanwhile, or down."""
    if has_crashed:
        return SoftError(NOT_FOUND, f"{queue} has crashed and failed to restart")
    return SoftError(NOT_FOUND, f"no {queue}")


def check_same_exchange(existing: ExchangeDefinition, declared: ExchangeDefinition) -> None:
    """406 for the first property that a second declaration has otherwise."""
    named = str(existing)
    check_property(named, "type", existing.type_name, declared.type_name)
    check_property(named, "durable", existing.durable, declared.durable)
    check_property(named, "auto_delete", existing.auto_delete, declared.auto_delete)
    check_property(named, "internal", existing.internal, declared.internal)
    check_arguments(named, existing.arguments, declared.arguments, EXCHANGE_ARGUMENTS)
    if existing.type_name == DELAYED_TYPE:
        check_arguments(named, existing.arguments, declared.arguments, (DELAYED_ARGUMENT,))


def check_same_queue(
    existing: QueueDefinition,
    durable: bool,
    auto_delete: bool,
    arguments: Table,
    owner: object | None,
) -> None:
    """The same for a queue; `owner` is that of the declaration, None if not exclusive."""
    # Exclusive or not is part of it: 405 and not 406 if that differs.
    if existing.owner != owner:
        raise _locked(existing)
    named = str(existing)
    check_property(named, "durable", existing.durable, durable)
    check_property(named, "auto_delete", existing.auto_delete, auto_delete)
    check_arguments(named, existing.arguments, arguments, QUEUE_ARGUMENTS)


# The kinds of access that a user may have to an exchange or a queue: to declare and delete it, to
# put something in, to take something out.
CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"

# The access, to a "queue" or an "exchange", of this name.
NeededAccess = tuple[str, str, str]


def needed_access(method: Method) -> tuple[NeededAccess, ...]:
    """The access that a command needs whatever exists; names of queues are filled in.

    Where RabbitMQ reports a mistake in a method before it checks the permission, none is needed
    here, and the plan refuses the method.
    """
    match method:
        case QueueDeclare():
            name = stripped(method.queue)
            # The plan has the access to a name that the broker gives.
            if not method.passive and name and not name.startswith(RESERVED_PREFIX):
                return ((CONFIGURE, "queue", name),)
        case QueueDelete():
            return ((CONFIGURE, "queue", stripped(method.queue)),)
        case ExchangeDeclare():
            name = stripped(method.exchange)
            if not method.passive and name and method.type in TYPES:
                return ((CONFIGURE, "exchange", name),)
        case ExchangeDelete():
            name = stripped(method.exchange)
            if name and not name.startswith(RESERVED_PREFIX):
                return ((CONFIGURE, "exchange", name),)
        case QueueBind() | QueueUnbind():
            return _needed_to_bind("queue", stripped(method.queue), stripped(method.exchange))
        case ExchangeBind() | ExchangeUnbind():
            destination, source = stripped(method.destination), stripped(method.source)
            return _needed_to_bind("exchange", destination, source)
    return ()


def needed_topic(method: Method) -> tuple[str, str] | None:
    """The exchange and routing key that a command needs to read; names of queues are filled in."""
    match method:
        case QueueBind() | QueueUnbind():
            return stripped(method.exchange), method.routing_key
        case ExchangeBind() | ExchangeUnbind():
            return stripped(method.source), method.routing_key
    return None


def _needed_to_bind(kind: str, destination: str, source: str) -> tuple[NeededAccess, ...]:
    if not (source and destination):
        return ((WRITE, kind, destination),)
    return (WRITE, kind, destination), (READ, "exchange", source)


def _needed_to_name(
    kind: str, name: str, arguments: Table, argument: str
) -> tuple[NeededAccess, ...]:
    """The permissions that a declaration needs to name an exchange in this argument."""
    target = arguments.get(argument)
    if target is None:
        return ()
    return (READ, kind, name), (WRITE, "exchange", text_of(target) or "")


class Plan(NamedTuple):
    """The changes of a command, and the definitions that it is about.

    changes: all steps, for the table; empty if the command changes nothing
    catalog: those of them that must be committed first
    queue: the queue declared, bound, unbound or deleted; None if a deletion found none
    exchange: the exchange declared or deleted; None if a deletion found none
    version: the table's when the plan was made
    needed: the access that the command needs beyond what `needed_access` has found
    """

    changes: tuple[Change, ...]
    catalog: tuple[Change, ...]
    version: int
    queue: QueueDefinition | None = None
    exchange: ExchangeDefinition | None = None
    needed: tuple[NeededAccess, ...] = ()


def is_durable(change: Change) -> bool:
    """Whether the change must outlive the process, and so goes to the catalog.

    Arguments in effect do not: the catalog has the declaration, which they began with.
    """
    if isinstance(change, (ReplaceQueueArguments, ReplaceExchangeArguments)):
        return False
    return change[0].durable


def make_plan(
    table: ExchangeTable,
    changes: Iterable[Change] = (),
    *,
    queue: QueueDefinition | None = None,
    exchange: ExchangeDefinition | None = None,
    needed: tuple[NeededAccess, ...] = (),
) -> Plan:
    """A plan for the table as it is now."""
    changes = tuple(changes)
    catalog = tuple(change for change in changes if is_durable(change))
    return Plan(changes, catalog, table.version, queue, exchange, needed)


def removal_changes(
    table: ExchangeTable,
    bindings: Iterable[BindingDefinition],
    exchanges: Iterable[ExchangeDefinition] = (),
) -> list[Change]:
    """Remove the bindings and the exchanges, and everything that depends on them.

    An exchange takes the bindings from it and to it along, and its hidden queue, if it is a topic.
    An auto-delete exchange goes when the last binding from it does, which may take away another
    exchange's last binding, and so on.
    """
    # Grows while it is walked through.
    going = list(exchanges)
    removed: dict[BindingIdentity, BindingDefinition] = {}
    left: dict[str, int] = {}

    def remove(some: Iterable[BindingDefinition]) -> None:
        for binding in some:
            if binding.identity in removed:
                continue
            removed[binding.identity] = binding
            source = table.exchange(binding.source)
            left[binding.source] = left.get(binding.source, len(source.bindings)) - 1
            if (
                source.definition.auto_delete
                and not left[binding.source]
                and source.definition not in going
            ):
                going.append(source.definition)

    remove(bindings)
    for exchange in going:
        remove(table.exchange(exchange.name).bindings.values())
        remove(table.bindings_to(exchange))
    changes: list[Change] = [RemoveBinding(binding) for binding in removed.values()]
    changes += [RemoveExchange(exchange) for exchange in going]
    hidden = (table.find_hidden_queue(HIDDEN_PREFIX + exchange.name) for exchange in going)
    changes += [RemoveQueue(queue) for queue in hidden if queue is not None]
    return changes


def plan_bind(
    table: ExchangeTable,
    kind: str,
    destination_name: str,
    source_name: str,
    routing_key: str,
    arguments: Table,
    owner: object,
) -> Plan:
    """Bind; a binding that is there already is no error. `kind` is the destination's."""
    destination_name, source_name = _checked_names(kind, destination_name, source_name)
    # Of both missing, the source is told.
    source = table.exchange(source_name)
    destination = _find_destination(table, kind, destination_name)
    if destination is None:
        raise table.not_found(kind, destination_name)
    source.check_binding(routing_key, arguments)
    queue = _accessible_queue(destination, owner)
    durable = source.definition.durable and destination.durable
    binding = BindingDefinition(
        source_name, destination_name, routing_key, durable, arguments, table.vhost, kind
    )
    if binding.identity in source.bindings:
        return make_plan(table, queue=queue)
    # Those in the catalog are restored whatever the limit is.
    limit = table.limits.topic_costly_words_max
    if source.costly_words(routing_key) > limit:
        text = (
            f"cannot bind to {source.definition}: its patterns with more than "
            f"{COMMON_WILDCARDS_MAX} wildcards would have more than {limit} words"
        )
        raise SoftError(PRECONDITION_FAILED, text)
    return make_plan(table, (AddBinding(binding),), queue=queue)


def plan_unbind(
    table: ExchangeTable,
    kind: str,
    destination_name: str,
    source_name: str,
    routing_key: str,
    arguments: Table,
    owner: object,
) -> Plan:
    """Unbind; if the binding or one of its ends is not there, that is no error."""
    destination_name, source_name = _checked_names(kind, destination_name, source_name)
    source = table.find_exchange(source_name)
    destination = _find_destination(table, kind, destination_name)
    found = destination if isinstance(destination, QueueDefinition) else None
    if source is None or destination is None:
        return make_plan(table, queue=found)
    identity = binding_identity(source_name, destination_name, routing_key, arguments, kind)
    binding = source.bindings.get(identity)
    if binding is None:
        return make_plan(table, queue=found)
    queue = _accessible_queue(destination, owner)
    return make_plan(table, removal_changes(table, [binding]), queue=queue)


def _checked_names(kind: str, destination_name: str, source_name: str) -> tuple[str, str]:
    destination_name, source_name = stripped(destination_name), stripped(source_name)
    if kind == TO_EXCHANGE:
        check_bindable(destination_name)
    check_bindable(source_name)
    return destination_name, source_name


def _find_destination(table: ExchangeTable, kind: str, name: str) -> Destination | None:
    if kind == TO_EXCHANGE:
        exchange = table.find_exchange(name)
        return None if exchange is None else exchange.definition
    return table.find_queue(name)


def _accessible_queue(destination: Destination, owner: object) -> QueueDefinition | None:
    """The queue at this end, if it is one; 405 if it is another connection's."""
    if not isinstance(destination, QueueDefinition):
        return None
    check_access(destination, owner)
    return destination


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
        limits: TopologyLimits = DEFAULT_LIMITS,
        dedup_identities: Callable[[], int] | None = None,
    ) -> None:
        """`next_queue_id` never repeats, not even after a restart; os.urandom is random enough.

        `dedup_identities`: how many identities the queues of all vhosts remember at most; None:
        there is no other vhost.
        """
        self.vhost = vhost
        self.table = ExchangeTable(vhost, limits, random_octets)
        # The vhost is no more; another of its name has a topology of its own.
        self.is_deleted = False
        self.next_queue_id = next_queue_id
        self._random_octets = random_octets
        self._limits = limits
        self._dedup_identities = dedup_identities or self._own_dedup_identities
        self.dedup_window_max = limits.dedup_window_max
        # Of queues that are declared without one; empty: classic. The broker sets it.
        self.default_queue_type = ""
        # Copies of all publishes and deliveries go to the firehose. The broker sets it.
        self.is_traced = False

    def restore(
        self,
        exchanges: Iterable[ExchangeDefinition],
        queues: Iterable[QueueDefinition],
        bindings: Iterable[BindingDefinition],
    ) -> None:
        """Take in what the catalog holds; ValueError if it does not fit together."""
        exchanges, queues, bindings = tuple(exchanges), tuple(queues), tuple(bindings)
        for exchange in exchanges:
            routes_as = routing_type(exchange.type_name, exchange.arguments)
            if routes_as not in BUILT_TYPES:
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
        if type_name not in TYPES and type_name not in UNBUILT_TYPES:
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
        check_delayed_type(type_name, arguments, BUILT_TYPES)
        check_exchange_arguments(str(declared), arguments)
        routes_as = BUILT_TYPES.get(routing_type(type_name, arguments))
        if routes_as is not None:
            routes_as.check_arguments(arguments)
        if type_name in UNBUILT_TYPES:
            raise not_implemented("type", str(declared))
        needed = _needed_to_name("exchange", name, arguments, "alternate-exchange")
        return make_plan(self.table, (AddExchange(declared),), exchange=declared, needed=needed)

    def prepare_delete_exchange(self, name: str, *, if_unused: bool = False) -> Plan:
        """Delete the exchange and its bindings; a missing exchange is no error.

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
        needed: tuple[NeededAccess, ...] = ()
        is_named = bool(name)
        if is_named:
            check_name("queue", name)
        else:
            check_server_named(arguments)
            name = self._generated_name()
            needed = ((CONFIGURE, "queue", name),)
        # It dies with its connection.
        durable = durable and not exclusive
        existing = self.table.find_queue(name)
        if existing is not None:
            check_same_queue(
                existing, durable, auto_delete, arguments, owner if exclusive else None
            )
            return make_plan(self.table, queue=existing)
        if self.default_queue_type and is_named and durable and not auto_delete:
            # Others can be of no other type, and a queue that is there is compared as it is.
            default = {"x-queue-type": Field("longstr", self.default_queue_type)}
            arguments = default | arguments
        named = resource("queue", name, self.vhost)
        check_queue_arguments(named, arguments, self._limits.dedup_window_max)
        queue = QueueDefinition(
            name,
            self.next_queue_id(),
            durable,
            exclusive,
            auto_delete,
            arguments,
            owner if exclusive else None,
            self.vhost,
        )
        check_queue_properties(queue)
        self.check_dedup_identities(queue)
        if "x-dead-letter-exchange" in arguments:
            needed += _needed_to_name("queue", name, arguments, "x-dead-letter-exchange")
        return make_plan(self.table, (AddQueue(queue),), queue=queue, needed=needed)

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
        """Delete the queue and its bindings; a missing queue is no error.

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
        has, and queues that have failed. It skips queues that are deleted already.
        """
        removed = [queue for queue in queues if self.table.has_queue(queue)]
        bindings = [binding for queue in removed for binding in self.table.bindings_to(queue)]
        changes = removal_changes(self.table, bindings)
        # Those of topics may have gone with their exchanges.
        gone = {change.queue for change in changes if isinstance(change, RemoveQueue)}
        changes += [RemoveQueue(queue) for queue in removed if queue not in gone]
        return make_plan(self.table, changes, queue=removed[0] if removed else None)

    def prepare_pause_queue(self, name: str, is_paused: bool) -> Plan:
        """Pause or resume the queue; 404 if there is none.

        A queue that is as it should be already is no error. Nothing else is checked: who may do
        this depends on no permission in the vhost.
        """
        queue = self.table.find_queue(name)
        if queue is None:
            raise self.table.not_found("queue", name)
        if queue.is_paused == is_paused:
            return make_plan(self.table, queue=queue)
        return make_plan(self.table, (PauseQueue(queue, is_paused),), queue=queue)

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

    def _own_dedup_identities(self) -> int:
        return self.table.dedup_identities

    def check_dedup_identities(self, queue: QueueDefinition) -> None:
        """406 if the windows of all queues could remember too much with that of this new one.

        Its declaration asks for the window, or a policy does.
        """
        limit = self._limits.dedup_identities_max
        if queue.dedup_window and self._dedup_identities() + queue.dedup_window > limit:
            text = (
                f"cannot declare {queue} with an x-dedup-window of {queue.dedup_window}: "
                f"all windows together would have more than {limit} identities"
            )
            raise SoftError(PRECONDITION_FAILED, text)

    def _generated_name(self) -> str:
        while True:
            octets = self._random_octets(_GENERATED_NAME_BYTES)
            name = _GENERATED_PREFIX + urlsafe_b64encode(octets).rstrip(b"=").decode()
            if self.table.find_queue(name) is None:
                return name


def plan_method(topology: Topology, method: Method, connection: object) -> tuple[Plan, Method]:
    """The plan of a command and the answer after it; AmqpError if it cannot be carried out."""
    match method:
        case QueueBind():
            plan = topology.prepare_bind(
                method.queue, method.exchange, method.routing_key, method.arguments, connection
            )
            return plan, QueueBindOk()
        case QueueUnbind():
            plan = topology.prepare_unbind(
                method.queue, method.exchange, method.routing_key, method.arguments, connection
            )
            return plan, QueueUnbindOk()
        case ExchangeBind():
            plan = topology.prepare_bind_exchange(
                method.destination, method.source, method.routing_key, method.arguments
            )
            return plan, ExchangeBindOk()
        case ExchangeUnbind():
            plan = topology.prepare_unbind_exchange(
                method.destination, method.source, method.routing_key, method.arguments
            )
            return plan, ExchangeUnbindOk()
        case ExchangeDeclare():
            plan = topology.prepare_declare_exchange(
                method.exchange,
                method.type,
                passive=method.passive,
                durable=method.durable,
                auto_delete=method.auto_delete,
                internal=method.internal,
                arguments=method.arguments,
            )
            return plan, ExchangeDeclareOk()
    assert isinstance(method, ExchangeDelete), method
    plan = topology.prepare_delete_exchange(method.exchange, if_unused=method.if_unused)
    return plan, ExchangeDeleteOk()


class Vhosts:
    """The vhosts of a node, by name: exchanges and queues of one know nothing of the others.

    Queue ids are the node's: no two queues share one. The broker's actor alone adds and removes
    vhosts, as `accounts` does, whose names these are. A connection keeps the Topology of the vhost
    that it opened; a removed vhost is empty by then.
    """

    def __init__(
        self,
        names: Iterable[str],
        next_queue_id: Callable[[], int],
        random_octets: Callable[[int], bytes],
        limits: TopologyLimits = DEFAULT_LIMITS,
    ) -> None:
        self.next_queue_id = next_queue_id
        self.random_octets = random_octets
        self.limits = limits
        self._topologies: dict[str, Topology] = {}
        # The routing table of each.
        self.tables: dict[str, ExchangeTable] = {}
        for name in names:
            self.add(name)

    def restore(
        self,
        exchanges: Iterable[ExchangeDefinition],
        queues: Iterable[QueueDefinition],
        bindings: Iterable[BindingDefinition],
    ) -> None:
        """Take in what the catalog holds; ValueError if it does not fit together."""
        exchanges, queues, bindings = tuple(exchanges), tuple(queues), tuple(bindings)
        used = {each.vhost for each in exchanges} | {each.vhost for each in queues}
        used |= {each.vhost for each in bindings}
        if strays := used - set(self._topologies):
            raise ValueError(f"the catalog has things in vhosts that are not there: {strays}")
        for name, topology in self._topologies.items():
            topology.restore(
                [exchange for exchange in exchanges if exchange.vhost == name],
                [queue for queue in queues if queue.vhost == name],
                [binding for binding in bindings if binding.vhost == name],
            )

    def add(self, name: str) -> Topology:
        """A new vhost, with the exchanges that each has."""
        assert name not in self._topologies, name
        topology = Topology(
            self.next_queue_id, self.random_octets, name, self.limits, self._dedup_identities
        )
        self._topologies[name] = topology
        self.tables[name] = topology.table
        return topology

    def _dedup_identities(self) -> int:
        return sum(table.dedup_identities for table in self.tables.values())

    def check_dedup_identities(self, more: int) -> None:
        """ValueError if all windows of the node may not remember so many more.

        A change that asks for no more can be made even where the limit has been lowered.
        """
        left = self.limits.dedup_identities_max - self._dedup_identities()
        if more > max(left, 0):
            raise ValueError(
                f"the dedup windows of all queues together would have {more - left} "
                "more identities than dedup_identities_max"
            )

    def remove(self, name: str) -> None:
        """The vhost goes; all its contents have gone before."""
        self._topologies.pop(name).is_deleted = True
        del self.tables[name]

    def __getitem__(self, name: str) -> Topology:
        return self._topologies[name]

    def __iter__(self) -> Iterator[Topology]:
        """Oldest first."""
        return iter(tuple(self._topologies.values()))

    def find(self, name: str) -> Topology | None:
        """The vhost, if there is one."""
        return self._topologies.get(name)

    def table_of(self, queue: QueueDefinition) -> ExchangeTable | None:
        """The routing table that leads to the queue; None if the queue is no more."""
        topology = self._topologies.get(queue.vhost)
        if topology is None or not topology.table.has_queue(queue):
            return None
        return topology.table

    def queues(self) -> Iterator[QueueDefinition]:
        """All queues of all vhosts, hidden ones, too."""
        for topology in self:
            yield from topology.table.queues()
            yield from topology.table.hidden_queues()
