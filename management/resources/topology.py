"""Exchanges, queues and bindings: listed, declared, bound, purged and deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Final, TypeVar
from urllib.parse import quote

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
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from ...core.definitions import (
    DELIVERY_EXCHANGE,
    TO_EXCHANGE,
    TO_QUEUE,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
)
from ...core.exchanges.exchange import Exchange
from ...core.json_tables import plain_table
from ...core.topology.topology import Topology
from ..direct import AmqpRefusedError, connect
from ..listing import listed, listed_long, shown
from ..pace import in_order
from ..request import (
    LISTED,
    RANGES,
    SHOWN,
    Action,
    Answer,
    ApiError,
    Request,
    Tag,
    bad_request,
    flag,
    not_authorised,
    not_found,
    object_with,
)
from ..rows import Row
from ..snapshots import SNAPSHOT_ROWS_MIN, rows_of
from ..statistics import NO_RANGES, Ranges, Statistics
from ..values import key_from_path, properties_key, table_from
from ..watching import LongList
from .clients import (
    consumer_rows,
    deliveries_from,
    publishes_to,
    tag_of,
)

# How paths call the exchange without a name.
DEFAULT_EXCHANGE: Final = "amq.default"
Source = TypeVar("Source")
_name: Final = attrgetter("name")
_BINDING_ORDER: Final = ("vhost", "source", "destination_type", "destination", "routing_key")


def topologies(request: Request) -> list[Topology]:
    """The path's vhost, or all that the user may see."""
    vhost = request.names.get("vhost")
    if vhost is not None:
        return [request.context.vhosts[vhost]]
    return [each for each in request.context.vhosts if request.may_see(each.vhost)]


async def queue_totals(request: Request, seen: Sequence[Topology]) -> Row:
    """The sums over all queues of these vhosts; over many queues up to a second old."""
    snapshots = request.snapshots

    def make() -> Awaitable[Row]:
        queues = chain.from_iterable([tuple(each.table.queues()) for each in seen])
        return snapshots.pace.carry_out(request.statistics.of_queues(queues))

    if sum(len(each.table.queues()) for each in seen) < SNAPSHOT_ROWS_MIN:
        return await make()
    key = "totals", *(each.vhost for each in seen)
    version = tuple((each, each.table.version) for each in seen)
    return await snapshots.recent(key, version, make)


# --- Rows


def exchange_row(
    statistics: Statistics, exchange: ExchangeDefinition, ranges: Ranges = NO_RANGES
) -> Row:
    """An exchange."""
    row: Row = {
        "arguments": plain_table(exchange.arguments),
        "auto_delete": exchange.auto_delete,
        "durable": exchange.durable,
        "internal": exchange.internal,
        "name": exchange.name,
        "type": exchange.type_name,
        "user_who_performed_action": "",
        "vhost": exchange.vhost,
    }
    if exchange.policies.policy is not None:
        row["policy"] = exchange.policies.policy
    return row | statistics.of_exchange(exchange, ranges.messages)


def queue_row(
    statistics: Statistics, node_name: str, queue: QueueDefinition, ranges: Ranges = NO_RANGES
) -> Row:
    """A queue."""
    state = "running"
    if queue.handle is None or not queue.handle.is_alive():
        state = "down"
    elif queue.is_paused:
        state = "paused"
    exclusive = active = None
    if queue.rules is not None:
        exclusive, active = queue.rules.consumers.exclusive, queue.rules.consumers.single_active
    row: Row = {
        "arguments": plain_table(queue.arguments),
        "auto_delete": queue.auto_delete,
        "durable": queue.durable,
        "effective_policy_definition": queue.policies.definition,
        "exclusive": queue.exclusive,
        "exclusive_consumer_tag": None if exclusive is None else tag_of(exclusive),
        "head_message_timestamp": None,
        "name": queue.name,
        "node": node_name,
        "operator_policy": queue.policies.operator_policy,
        "policy": queue.policies.policy,
        "single_active_consumer_tag": None if active is None else tag_of(active),
        "state": state,
        "type": "quorum" if queue.is_quorum else "classic",
        "vhost": queue.vhost,
    }
    row.update(statistics.of_queue(queue, ranges))
    return row


def _exchange_state(statistics: Statistics, exchange: ExchangeDefinition) -> object:
    """Another one whenever `exchange_row` is."""
    return exchange.policies, statistics.state_of_exchange(exchange)


def _queue_state(statistics: Statistics, queue: QueueDefinition) -> object:
    """Another one whenever `queue_row` is."""
    is_alive = queue.handle is not None and queue.handle.is_alive()
    return is_alive, queue.is_paused, queue.policies, statistics.state_of_queue(queue)


def _no_name(_source: object) -> str:
    return ""


def binding_row(binding: BindingDefinition) -> Row:
    """A binding."""
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": binding.destination_kind,
        "routing_key": binding.routing_key,
        "arguments": plain_table(binding.arguments),
        "properties_key": properties_key(binding.routing_key, binding.arguments),
    }


def default_binding_row(queue: QueueDefinition) -> Row:
    """The binding to the default exchange that every queue has."""
    return binding_row(BindingDefinition("", queue.name, queue.name, True, vhost=queue.vhost))


# --- Reading


def _source(request: Request) -> str:
    """The name of the path's exchange; the default one has none."""
    name = request.names["exchange"]
    return "" if name == DEFAULT_EXCHANGE else name


def _exchange(request: Request) -> ExchangeDefinition:
    name, vhost = _source(request), request.names["vhost"]
    if not name:
        return _default_exchange(vhost)
    found = request.context.vhosts[vhost].table.find_exchange(name)
    if found is None:
        raise not_found()
    return found.definition


def _default_exchange(vhost: str) -> ExchangeDefinition:
    """The exchange without a name, which no table has."""
    return ExchangeDefinition("", "direct", True, vhost=vhost)


def _queue(request: Request) -> QueueDefinition:
    table = request.context.vhosts[request.names["vhost"]].table
    found = table.find_queue(request.names["queue"])
    if found is None:
        raise not_found()
    return found


def _in_order(request: Request) -> list[Topology]:
    return sorted(topologies(request), key=lambda each: each.vhost)


def _long_list(
    kind: str,
    seen: list[Topology],
    sources: Callable[[Topology], Generator[None, None, list[Source]]],
    row: Callable[[Source], Row],
    state: Callable[[Source], object] | None,
    name: Callable[[Source], str] = _name,
) -> LongList[Source]:
    """The list of a kind of things in these vhosts."""

    def of_all() -> Generator[None, None, list[Source]]:
        found: list[Source] = []
        for each in seen:
            found += yield from sources(each)
        return found

    key = kind, *(each.vhost for each in seen)
    version = tuple((each, each.table.version) for each in seen)
    return LongList(key, version, of_all, row, state, name)


def _exchanges_of(topology: Topology) -> Generator[None, None, list[ExchangeDefinition]]:
    found = yield from in_order(
        (
            each.definition
            for each in topology.table.exchanges()
            if each.definition.name != DELIVERY_EXCHANGE
        ),
        _name,
    )
    return [_default_exchange(topology.vhost), *found]


async def _exchanges(request: Request) -> Answer:
    seen = _in_order(request)
    row = partial(exchange_row, request.statistics)
    state = partial(_exchange_state, request.statistics)
    return await listed_long(
        request,
        _long_list("exchanges", seen, _exchanges_of, row, state),
        partial(row, ranges=request.ranges()),
    )


async def _one_exchange(request: Request) -> Answer:
    exchange, ranges, statistics = _exchange(request), request.ranges(), request.statistics
    row = exchange_row(statistics, exchange, ranges)
    queues = request.context.vhosts[exchange.vhost].table.queues()
    outgoing = statistics.outgoing_of_exchange(exchange, queues, ranges.messages)
    row["outgoing"] = await request.snapshots.pace.carry_out(outgoing)
    row["incoming"] = publishes_to(request, exchange, ranges.messages)
    return Answer(200, shown(request, row))


def _queues_of(topology: Topology) -> Generator[None, None, list[QueueDefinition]]:
    return in_order(topology.table.queues(), _name)


async def _queues(request: Request) -> Answer:
    statistics = request.statistics
    row = partial(queue_row, statistics, request.about.node_name)
    state = partial(_queue_state, statistics)
    return await listed_long(
        request,
        _long_list("queues", _in_order(request), _queues_of, row, state),
        partial(row, ranges=request.ranges()),
    )


async def _one_queue(request: Request) -> Answer:
    queue = _queue(request)
    ranges = request.ranges()
    row = queue_row(request.statistics, request.about.node_name, queue, ranges)
    row["deliveries"] = deliveries_from(request, queue, ranges.messages)
    row["incoming"] = request.statistics.incoming_of_queue(queue, ranges.messages)
    row["consumer_details"] = await consumer_rows(request, [queue])
    opened = request.context.open_connections.get(queue.owner)  # type: ignore[call-overload]
    if opened is not None:
        row["owner_pid_details"] = {"name": opened.peer.connection_name}
    return Answer(200, shown(request, row))


# What a row of the list of bindings is of: the binding that every queue has to the default
# exchange is no object.
Bound = BindingDefinition | QueueDefinition


def _bound_row(bound: Bound) -> Row:
    if isinstance(bound, BindingDefinition):
        return binding_row(bound)
    return default_binding_row(bound)


def _binding_place(binding: BindingDefinition) -> tuple[str, str, str]:
    return binding.destination_kind, binding.destination, binding.routing_key


def _shown_bindings(exchange: Exchange) -> list[BindingDefinition]:
    return [each for each in exchange.bindings.values() if not each.is_hidden]


def _bindings_of(topology: Topology) -> Generator[None, None, list[Bound]]:
    """By source, and then by destination; the default exchange's are first."""
    found: list[Bound] = []
    found += yield from in_order(topology.table.queues(), _name)
    exchanges = yield from in_order(
        topology.table.exchanges(), lambda exchange: exchange.definition.name
    )
    for exchange in exchanges:
        found += yield from in_order(_shown_bindings(exchange), _binding_place)
    return found


async def _bindings(request: Request) -> Answer:
    seen = _in_order(request)
    wanted = _long_list("bindings", seen, _bindings_of, _bound_row, None, _no_name)
    return await listed_long(request, wanted)


# As in RabbitMQ, what is not there has no bindings: a script asks for them before it declares.


async def _bindings_of_queue(request: Request) -> Answer:
    table = request.context.vhosts[request.names["vhost"]].table
    queue = table.find_queue(request.names["queue"])
    rows = []
    if queue is not None:
        rows = [default_binding_row(queue), *map(binding_row, table.bindings_to(queue))]
    return await listed(request, rows, _BINDING_ORDER)


async def _bindings_from(request: Request) -> Answer:
    name, table = _source(request), request.context.vhosts[request.names["vhost"]].table
    pace, exchange = request.snapshots.pace, table.find_exchange(name)
    if not name:
        rows = await rows_of(pace, table.queues(), default_binding_row)
    else:
        found = [] if exchange is None else _shown_bindings(exchange)
        rows = await rows_of(pace, found, binding_row)
    return await listed(request, rows, _BINDING_ORDER)


async def _bindings_to(request: Request) -> Answer:
    table = request.context.vhosts[request.names["vhost"]].table
    exchange = table.find_exchange(_source(request))
    found = [] if exchange is None else table.bindings_to(exchange.definition)
    return await listed(request, [binding_row(each) for each in found], _BINDING_ORDER)


def _between(kind: str, request: Request) -> list[tuple[BindingDefinition, Row]]:
    """The bindings from the path's exchange to its destination."""
    source, name = _source(request), request.names["destination"]
    table = request.context.vhosts[request.names["vhost"]].table
    queue, to = table.find_queue(name), table.find_exchange(name)
    found: Iterable[BindingDefinition] = ()
    if kind == TO_QUEUE and queue is not None:
        default = BindingDefinition("", name, name, True, vhost=queue.vhost)
        found = table.bindings_to(queue) if source else [default]
    elif kind != TO_QUEUE and to is not None:
        found = table.bindings_to(to.definition)
    return [(each, binding_row(each)) for each in found if each.source == source]


async def _bindings_between(kind: str, request: Request) -> Answer:
    return await listed(request, [row for _, row in _between(kind, request)], _BINDING_ORDER)


def _binding(kind: str, request: Request) -> tuple[BindingDefinition, Row]:
    key = key_from_path(request.names["properties_key"])
    for binding, row in _between(kind, request):
        if row["properties_key"] == key:
            return binding, row
    raise not_found()


async def _one_binding(kind: str, request: Request) -> Answer:
    return Answer(200, _binding(kind, request)[1])


# --- Changing


async def command(request: Request, method: Method, answer: type[Method]) -> Method:
    """Carry out a method as the user would; what AMQP refuses is refused with its words."""
    try:
        async with connect(
            request.context, request.user.name, request.peer_host, request.names["vhost"]
        ) as connection:
            return await connection.call(method, answer)
    except AmqpRefusedError as refused:
        raise refusal(refused) from None
    except ValueError as fault:
        # A name that is too long for the wire.
        raise bad_request(str(fault)) from None


def refusal(refused: AmqpRefusedError) -> ApiError:
    """What AMQP's refusal is in HTTP."""
    text = refused.text.partition(" - ")[2] or refused.text
    if refused.code in (403, 530):
        return not_authorised("Access refused.")
    if refused.code == 404:
        return ApiError(404, "not_found", text)
    return bad_request(text)


async def _declare_exchange(request: Request) -> Answer:
    given, name = request.json(), request.names["exchange"]
    table = request.context.vhosts[request.names["vhost"]].table
    was_there = table.find_exchange(name) is not None
    kind = given.get("type", "direct")
    method = ExchangeDeclare(
        exchange=name,
        type=kind if isinstance(kind, str) else str(kind),
        durable=flag(given, "durable"),
        auto_delete=flag(given, "auto_delete"),
        internal=flag(given, "internal"),
        arguments=table_from(given.get("arguments")),
    )
    await command(request, method, ExchangeDeclareOk)
    return Answer(204 if was_there else 201)


async def _delete_exchange(request: Request) -> Answer:
    name = _exchange(request).name
    if_unused = request.query.get("if-unused") == "true"
    await command(request, ExchangeDelete(exchange=name, if_unused=if_unused), ExchangeDeleteOk)
    return Answer(204)


async def _declare_queue(request: Request) -> Answer:
    given, name = request.json(), request.names["queue"]
    table = request.context.vhosts[request.names["vhost"]].table
    was_there = table.find_queue(name) is not None
    method = QueueDeclare(
        queue=name,
        durable=flag(given, "durable"),
        auto_delete=flag(given, "auto_delete"),
        arguments=table_from(given.get("arguments")),
    )
    await command(request, method, QueueDeclareOk)
    return Answer(204 if was_there else 201)


async def _delete_queue(request: Request) -> Answer:
    method = QueueDelete(
        queue=_queue(request).name,
        if_unused=request.query.get("if-unused") == "true",
        if_empty=request.query.get("if-empty") == "true",
    )
    await command(request, method, QueueDeleteOk)
    return Answer(204)


async def _purge(request: Request) -> Answer:
    await command(request, QueuePurge(queue=_queue(request).name), QueuePurgeOk)
    return Answer(204)


async def _queue_action(request: Request) -> Answer:
    _queue(request)
    action = request.json().get("action")
    if action not in ("sync", "cancel_sync"):
        raise bad_request("[{key_missing,action}]" if action is None else ["unknown", action])
    # A queue has no mirrors: it is in sync.
    return Answer(204)


async def _bind(kind: str, request: Request) -> Answer:
    given = request.json()
    key = given.get("routing_key")
    if key is None:
        # Clients whose caller names no key send null.
        key = ""
    if not isinstance(key, str):
        raise bad_request("routing_key must be a string")
    arguments = table_from(given.get("arguments"))
    source, destination = request.names["exchange"], request.names["destination"]
    if kind == TO_QUEUE:
        method = QueueBind(queue=destination, exchange=source, routing_key=key, arguments=arguments)
        await command(request, method, QueueBindOk)
    else:
        exchanges = ExchangeBind(
            destination=destination, source=source, routing_key=key, arguments=arguments
        )
        await command(request, exchanges, ExchangeBindOk)
    name = quote(properties_key(key, arguments), safe="~-_.")
    location = f"{quote(destination, safe='', errors='surrogateescape')}/{name}"
    return Answer(201, None, {"location": location})


async def _unbind(kind: str, request: Request) -> Answer:
    binding, _ = _binding(kind, request)
    source, destination = binding.source, binding.destination
    key, arguments = binding.routing_key, binding.arguments
    if kind == TO_QUEUE:
        method = QueueUnbind(
            queue=destination, exchange=source, routing_key=key, arguments=arguments
        )
        await command(request, method, QueueUnbindOk)
    else:
        exchanges = ExchangeUnbind(
            destination=destination, source=source, routing_key=key, arguments=arguments
        )
        await command(request, exchanges, ExchangeUnbindOk)
    return Answer(204)


async def _rebalance(_request: Request) -> Answer:
    """There is one node, which has all queues."""
    return Answer(204)


_NEW_BINDING: Final = object_with(routing_key="string", arguments="object")


def _binding_actions(letter: str, kind: str) -> tuple[Action, ...]:
    path = f"/api/bindings/{{vhost}}/e/{{exchange}}/{letter}/{{destination}}"
    one = f"{path}/{{properties_key}}"
    return (
        Action("GET", path, "bindings", partial(_bindings_between, kind), query=LISTED),
        Action("POST", path, "bind", partial(_bind, kind), body=_NEW_BINDING),
        Action("GET", one, "binding", partial(_one_binding, kind)),
        Action("DELETE", one, "unbind", partial(_unbind, kind)),
    )


_EXCHANGE: Final = "/api/exchanges/{vhost}/{exchange}"
_QUEUE: Final = "/api/queues/{vhost}/{queue}"

_NEW_EXCHANGE: Final = object_with(
    type="string",
    durable="boolean",
    auto_delete="boolean",
    internal="boolean",
    arguments="object",
)
_NEW_QUEUE: Final = object_with(durable="boolean", auto_delete="boolean", arguments="object")
_QUEUE_ACTION: Final = object_with("action", action="string")

ACTIONS: Final = (
    Action("GET", "/api/exchanges", "exchanges", _exchanges, query=(*LISTED, *RANGES)),
    Action("GET", "/api/exchanges/{vhost}", "exchanges", _exchanges, query=(*LISTED, *RANGES)),
    Action("GET", _EXCHANGE, "exchange", _one_exchange, query=(*SHOWN, *RANGES)),
    Action("PUT", _EXCHANGE, "exchange declare", _declare_exchange, body=_NEW_EXCHANGE),
    Action("DELETE", _EXCHANGE, "exchange delete", _delete_exchange, query=("if-unused",)),
    Action("GET", f"{_EXCHANGE}/bindings/source", "bindings", _bindings_from, query=LISTED),
    Action("GET", f"{_EXCHANGE}/bindings/destination", "bindings", _bindings_to, query=LISTED),
    Action("GET", "/api/queues", "queues", _queues, query=(*LISTED, *RANGES)),
    Action("GET", "/api/queues/{vhost}", "queues", _queues, query=(*LISTED, *RANGES)),
    Action("GET", _QUEUE, "queue", _one_queue, query=(*SHOWN, *RANGES)),
    Action("PUT", _QUEUE, "queue declare", _declare_queue, body=_NEW_QUEUE),
    Action("DELETE", _QUEUE, "queue delete", _delete_queue, query=("if-unused", "if-empty")),
    Action("DELETE", f"{_QUEUE}/contents", "queue purge", _purge),
    Action(
        "POST",
        f"{_QUEUE}/actions",
        "queue action",
        _queue_action,
        Tag.ADMINISTRATOR,
        body=_QUEUE_ACTION,
    ),
    Action("GET", f"{_QUEUE}/bindings", "bindings", _bindings_of_queue, query=LISTED),
    Action("POST", "/api/rebalance/queues", "rebalance", _rebalance, Tag.ADMINISTRATOR),
    Action("GET", "/api/bindings", "bindings", _bindings, query=LISTED),
    Action("GET", "/api/bindings/{vhost}", "bindings", _bindings, query=LISTED),
    *_binding_actions("q", TO_QUEUE),
    *_binding_actions("e", TO_EXCHANGE),
)
