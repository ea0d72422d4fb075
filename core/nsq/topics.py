"""NSQ's topics and channels, as exchanges and queues: the plans of what changes them.

Topic `t` is a durable fanout exchange of that name, channel `c` of it the durable queue `t:c` bound
to it, whoever declared them: a queue `t:c` with limits that AMQP declared is a channel, too. Of
names that end in "#ephemeral" nothing is durable: such a topic is an auto-delete exchange, and such
a channel an auto-delete queue.

A topic without channels, or paused, has a hidden queue besides, `amq.leveret.nsq.t`, bound in the
channels' place, which nobody finds by its name and no listing shows. It is in one of three states:

    bound, not paused    the topic has no channels: the first one takes the messages over
    bound, paused        the topic is paused: no channel is bound, new ones neither
    not bound            the topic has channels again: its messages move on to them, then it goes

So every message of a topic is in a hidden queue or in the channels. The first channel takes the
hidden queue over by its name: the queue is renamed, messages and all, together with its binding.
Each plan is one transaction of the catalog (core/topology/topology.py has the steps), so that a
crash leaves a topic as it was before or as it is afterwards.

Where AMQP has removed bindings or queues of a topic, `is_ready` is false, and ENSURE_TOPIC
mends it before the next NSQ publish. NSQ has no permissions; these commands need those that a
declare or delete of the same exchanges and queues would, and none to find them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum
from typing import Final, NamedTuple

from ...amqp_frames.constants import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...nsq_frames.names import is_valid_name
from ..definitions import (
    HIDDEN_PREFIX,
    TO_QUEUE,
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    Change,
    ExchangeDefinition,
    PauseQueue,
    QueueDefinition,
    RemoveBinding,
    RemoveQueue,
    RenameQueue,
)
from ..exchanges.table import ExchangeTable
from ..topology.topology import (
    CONFIGURE,
    READ,
    RESERVED_PREFIX,
    NeededAccess,
    Plan,
    Topology,
    check_access,
    make_plan,
    removal_changes,
)

EPHEMERAL_SUFFIX: Final = "#ephemeral"
# Between topic and channel in the name of a queue; valid names of NSQ's have none.
CHANNEL_DIVIDER: Final = ":"
TOPIC_TYPE: Final = "fanout"


class TopicAction(Enum):
    """A command: of a topic or, where it says so, of one of its channels."""

    ENSURE_TOPIC = "topic is there, and takes publishes"
    ENSURE_CHANNEL = "channel is there, and gets messages unless the topic is paused"
    DELETE_TOPIC = "topic goes, with its channels and all messages"
    DELETE_CHANNEL = "channel goes, with its messages"
    PAUSE_TOPIC = "topic keeps its messages to itself"
    RESUME_TOPIC = "channels get what the topic has kept"
    PAUSE_CHANNEL = "channel delivers nothing"
    RESUME_CHANNEL = "channel delivers again"
    EMPTY_TOPIC = "messages that no channel has yet go"
    EMPTY_CHANNEL = "messages of the channel go, those in flight, too"


EMPTYING: Final = frozenset({TopicAction.EMPTY_TOPIC, TopicAction.EMPTY_CHANNEL})


class TopicUnusableError(SoftError):
    """403 or 406: the exchange or queue of this name cannot be a topic or channel."""


class NoTopicError(SoftError):
    """404: there is no such topic."""


class NoChannelError(SoftError):
    """404: the topic has no such channel."""


def hidden_queue_name(topic: str) -> str:
    """The queue that keeps the messages of a topic which has no channels, or is paused."""
    return HIDDEN_PREFIX + topic


def channel_queue_name(topic: str, channel: str) -> str:
    """The queue that is the channel."""
    return topic + CHANNEL_DIVIDER + channel


def is_ephemeral(name: str) -> bool:
    """Whether a topic or channel of this name goes when it is not used any more."""
    return name.endswith(EPHEMERAL_SUFFIX)


def is_ready(table: ExchangeTable, topic: str) -> bool:
    """Whether a publish may be routed to the topic now: it can only come where the topic keeps it.

    If not, ENSURE_TOPIC comes first. Cheap: it looks at one binding, unless AMQP has added some.
    """
    exchange = table.find_exchange(topic)
    if exchange is None or _fault_of(exchange.definition):
        return False
    hidden = hidden_queue_name(topic)
    return any(
        binding.destination == hidden or _is_channel_of(topic, binding.destination)
        for binding in exchange.bindings.values()
        if binding.destination_kind == TO_QUEUE
    )


def plan_topic(topology: Topology, action: TopicAction, topic: str, channel: str = "") -> Plan:
    """The plan of a command; `Plan.queue` is the channel's. `channel` is "" if it needs none.

    To empty a topic or channel changes nothing: `Plan.queue` is then the one to be emptied, if any.

    Names are valid ones of NSQ's. Raises TopicUnusableError, NoTopicError, NoChannelError, or 405
    if the channel's queue is another connection's.
    """
    at_hand = _Topic(topology, topic)
    match action:
        case TopicAction.ENSURE_TOPIC:
            return at_hand.ensure()
        case TopicAction.ENSURE_CHANNEL:
            return at_hand.ensure_channel(channel)
        case TopicAction.DELETE_TOPIC:
            return at_hand.delete()
        case TopicAction.DELETE_CHANNEL:
            return at_hand.delete_channel(channel)
        case TopicAction.PAUSE_TOPIC:
            return at_hand.pause()
        case TopicAction.RESUME_TOPIC:
            return at_hand.resume()
        case TopicAction.PAUSE_CHANNEL:
            return at_hand.pause_channel(channel, is_paused=True)
        case TopicAction.EMPTY_TOPIC:
            return at_hand.empty()
        case TopicAction.EMPTY_CHANNEL:
            return at_hand.empty_channel(channel)
    return at_hand.pause_channel(channel, is_paused=False)


def is_topic(table: ExchangeTable, name: str) -> bool:
    """Is there a topic of this name?"""
    exchange = table.find_exchange(name)
    return exchange is not None and _is_topic(exchange.definition)


class TopicParts(NamedTuple):
    """A topic as it is now; its channels, by their names, are in no particular order."""

    name: str
    exchange: ExchangeDefinition
    # What keeps its messages while it has no channels, or is paused.
    hidden: QueueDefinition | None
    channels: dict[str, QueueDefinition]

    @property
    def is_paused(self) -> bool:
        """Does it keep its messages to itself?"""
        return self.hidden is not None and self.hidden.is_paused


def topics_of(
    table: ExchangeTable, only: str | None = None
) -> Generator[None, None, list[TopicParts]]:
    """All topics, or the one of this name if there is such, by their names; in short steps."""
    parts: dict[str, TopicParts] = {}
    for exchange in tuple(table.exchanges()):
        definition = exchange.definition
        name = definition.name
        if (only is None or name == only) and _is_topic(definition):
            hidden = table.find_hidden_queue(hidden_queue_name(name))
            parts[name] = TopicParts(name, definition, hidden, {})
        yield
    for queue in tuple(table.queues()):
        topic, _, channel = queue.name.partition(CHANNEL_DIVIDER)
        found = parts.get(topic)
        if found is not None and not queue.exclusive and _is_channel_of(topic, queue.name):
            found.channels[channel] = queue
        yield
    return [parts[name] for name in sorted(parts)]


def topic_of(queue: QueueDefinition) -> str:
    """The topic whose channel or hidden queue it is, if it is one."""
    name = queue.name
    return (
        name.removeprefix(HIDDEN_PREFIX) if queue.is_hidden else name.partition(CHANNEL_DIVIDER)[0]
    )


def plan_unused(topology: Topology, queue: QueueDefinition) -> Plan:
    """The plan of deleting a queue that nobody uses: of an ephemeral channel with what follows."""
    if queue.is_hidden or not is_ephemeral(queue.name):
        return topology.prepare_remove_queues([queue])
    return _Topic(topology, topic_of(queue)).remove_channel(queue)


class _Topic:
    """One topic, as the routing table has it now, and the changes that a plan of it begins."""

    def __init__(self, topology: Topology, name: str) -> None:
        self._topology = topology
        self._table = topology.table
        self._name = name
        self._exchange = self._table.find_exchange(name)
        self._hidden = self._table.find_hidden_queue(hidden_queue_name(name))
        self._changes: list[Change] = []
        self._needed: list[NeededAccess] = []

    # --- Plans

    def ensure(self) -> Plan:
        if not is_ready(self._table, self._name):
            exchange = self._ensure_exchange()
            channels = [] if self._is_paused else list(self._channels())
            for channel in channels:
                self._bind(exchange, channel)
            if not channels:
                self._ensure_hidden(exchange)
        return self._plan()

    def ensure_channel(self, channel: str) -> Plan:
        exchange = self._ensure_exchange()
        name = channel_queue_name(self._name, channel)
        queue = self._table.find_queue(name)
        if queue is not None:
            check_access(queue, None)
            self._check_durable(queue, channel)
        if self._is_paused:
            self._ensure_hidden(exchange)
            return self._plan(queue if queue is not None else self._add_channel(channel))
        if queue is not None and self._bindings(queue):
            return self._plan(queue)
        hidden = self._hidden
        durable, auto_delete = self._properties_of(channel)
        if (
            queue is None
            and hidden is not None
            and self._bindings(hidden)
            and (hidden.durable, hidden.auto_delete) == (durable, auto_delete)
        ):
            return self._take_over(exchange, hidden, name)
        if queue is None:
            queue = self._add_channel(channel)
        else:
            self._need_queue(name)
        # If the exchange is new, or its bindings have been removed, the others get theirs back.
        for each in [] if is_ready(self._table, self._name) else self._channels():
            if each is not queue:
                self._bind(exchange, each)
        self._bind(exchange, queue)
        # What it holds moves on.
        self._unbind(hidden)
        return self._plan(queue)

    def delete(self) -> Plan:
        exchange = self._existing_exchange()
        self._need_exchange()
        channels = list(self._channels())
        for channel in channels:
            self._need_queue(channel.name)
        return self._remove(channels, exchange)

    def delete_channel(self, channel: str) -> Plan:
        queue = self._existing_channel(channel)
        self._need_queue(queue.name)
        return self.remove_channel(queue)

    def remove_channel(self, queue: QueueDefinition) -> Plan:
        """The channel goes; if it is the last one, the topic has its hidden queue again.

        Or goes, too, if it is ephemeral.
        """
        exchange = self._exchange
        if exchange is None or _fault_of(exchange.definition):
            return self._remove([queue])
        if is_ephemeral(self._name):
            is_last = all(each is queue for each in self._channels())
            return self._remove([queue], exchange.definition if is_last else None)
        bound = {
            binding.destination
            for binding in exchange.bindings.values()
            if binding.destination_kind == TO_QUEUE
        }
        if [each for each in bound if _is_channel_of(self._name, each)] == [queue.name]:
            self._ensure_hidden(exchange.definition)
        return self._remove([queue])

    def pause(self) -> Plan:
        exchange = self._existing_exchange()
        self._need_exchange()
        if self._hidden is not None and not self._hidden.is_paused:
            self._changes.append(PauseQueue(self._hidden, is_paused=True))
        self._ensure_hidden(exchange, is_paused=True)
        for channel in self._channels():
            self._unbind(channel)
        return self._plan()

    def resume(self) -> Plan:
        exchange = self._existing_exchange()
        self._need_exchange()
        hidden = self._hidden
        if hidden is None or not hidden.is_paused:
            return self._plan()
        self._changes.append(PauseQueue(hidden, is_paused=False))
        channels = list(self._channels())
        for channel in channels:
            self._bind(exchange, channel)
        if channels:
            self._unbind(hidden)
        else:
            self._ensure_hidden(exchange)
        return self._plan()

    def pause_channel(self, channel: str, *, is_paused: bool) -> Plan:
        queue = self._existing_channel(channel)
        self._need_queue(queue.name)
        if queue.is_paused != is_paused:
            self._changes.append(PauseQueue(queue, is_paused))
        return self._plan(queue)

    def empty(self) -> Plan:
        self._existing_exchange()
        self._need_exchange()
        return self._plan(self._hidden)

    def empty_channel(self, channel: str) -> Plan:
        queue = self._existing_channel(channel)
        # As queue.purge.
        self._needed.append((READ, "queue", queue.name))
        return self._plan(queue)

    # --- Looking up

    @property
    def _is_paused(self) -> bool:
        return self._hidden is not None and self._hidden.is_paused

    def _channels(self) -> Iterator[QueueDefinition]:
        """All queues that are channels, bound or not."""
        for queue in self._table.queues():
            if not queue.exclusive and _is_channel_of(self._name, queue.name):
                yield queue

    def _bindings(self, queue: QueueDefinition) -> list[BindingDefinition]:
        """Those from the topic to this queue, which may not be there yet."""
        if not self._table.has_queue(queue):
            return []
        return [each for each in self._table.bindings_to(queue) if each.source == self._name]

    def _existing_exchange(self) -> ExchangeDefinition:
        if self._exchange is None or _fault_of(self._exchange.definition):
            raise NoTopicError(NOT_FOUND, f"no topic '{self._name}'")
        return self._exchange.definition

    def _existing_channel(self, channel: str) -> QueueDefinition:
        queue = self._table.find_queue(channel_queue_name(self._name, channel))
        if queue is None:
            if self._exchange is None:
                raise NoTopicError(NOT_FOUND, f"no topic '{self._name}'")
            text = f"topic '{self._name}' has no channel '{channel}'"
            raise NoChannelError(NOT_FOUND, text)
        check_access(queue, None)
        return queue

    def _check_durable(self, queue: QueueDefinition, channel: str) -> None:
        durable, _ = self._properties_of(channel)
        if durable and not queue.durable:
            text = f"{queue} is not durable: channel '{channel}' would lose messages"
            raise TopicUnusableError(PRECONDITION_FAILED, text)

    # --- Changes

    def _ensure_exchange(self) -> ExchangeDefinition:
        """Find the topic's exchange, or make it."""
        exchange, name = self._exchange, self._name
        if name.startswith(RESERVED_PREFIX):
            text = f"topic name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'"
            raise TopicUnusableError(ACCESS_REFUSED, text)
        if exchange is not None:
            fault = _fault_of(exchange.definition)
            if fault:
                text = f"{exchange.definition} {fault}: it cannot be a topic"
                raise TopicUnusableError(PRECONDITION_FAILED, text)
            return exchange.definition
        self._need_exchange()
        is_kept = not is_ephemeral(name)
        made = ExchangeDefinition(
            name, TOPIC_TYPE, durable=is_kept, auto_delete=not is_kept, vhost=self._topology.vhost
        )
        self._changes.append(AddExchange(made))
        return made

    def _ensure_hidden(self, exchange: ExchangeDefinition, *, is_paused: bool = False) -> None:
        """Have the hidden queue bound."""
        hidden = self._hidden
        if hidden is None:
            name = hidden_queue_name(self._name)
            hidden = self._new_queue(name, not is_ephemeral(self._name), auto_delete=False)
            hidden.is_paused = is_paused
            self._changes.append(AddQueue(hidden))
        self._bind(exchange, hidden)

    def _add_channel(self, channel: str) -> QueueDefinition:
        name = channel_queue_name(self._name, channel)
        self._need_queue(name)
        durable, auto_delete = self._properties_of(channel)
        queue = self._new_queue(name, durable, auto_delete=auto_delete)
        self._changes.append(AddQueue(queue))
        return queue

    def _take_over(self, exchange: ExchangeDefinition, hidden: QueueDefinition, name: str) -> Plan:
        """The hidden queue becomes the channel of this name."""
        self._need_queue(name)
        self._unbind(hidden)
        self._changes.append(RenameQueue(hidden, name))
        durable = exchange.durable and hidden.durable
        vhost = self._topology.vhost
        binding = BindingDefinition(self._name, name, "", durable, vhost=vhost)
        self._changes.append(AddBinding(binding))
        return self._plan(hidden)

    def _bind(self, exchange: ExchangeDefinition, queue: QueueDefinition) -> None:
        """Have a binding lead to the queue."""
        if not self._bindings(queue):
            self._changes.append(AddBinding(self._binding(exchange, queue)))

    def _binding(self, exchange: ExchangeDefinition, queue: QueueDefinition) -> BindingDefinition:
        durable = exchange.durable and queue.durable
        return BindingDefinition(self._name, queue.name, "", durable, vhost=self._topology.vhost)

    def _unbind(self, queue: QueueDefinition | None) -> None:
        if queue is not None:
            self._changes += [RemoveBinding(each) for each in self._bindings(queue)]

    def _new_queue(self, name: str, durable: bool, *, auto_delete: bool) -> QueueDefinition:
        topology = self._topology
        return QueueDefinition(
            name, topology.next_queue_id(), durable, auto_delete=auto_delete, vhost=topology.vhost
        )

    def _properties_of(self, channel: str) -> tuple[bool, bool]:
        """Whether the channel's queue is durable, and whether it is deleted when unused."""
        goes_unused = is_ephemeral(channel)
        return not goes_unused and not is_ephemeral(self._name), goes_unused

    def _remove(
        self, queues: list[QueueDefinition], exchange: ExchangeDefinition | None = None
    ) -> Plan:
        table = self._table
        bindings = [each for queue in queues for each in table.bindings_to(queue)]
        exchanges = [] if exchange is None else [exchange]
        self._changes += removal_changes(table, bindings, exchanges)
        gone = {change.queue for change in self._changes if isinstance(change, RemoveQueue)}
        self._changes += [RemoveQueue(queue) for queue in queues if queue not in gone]
        return self._plan(queues[0] if queues else None)

    def _need_exchange(self) -> None:
        self._needed.append((CONFIGURE, "exchange", self._name))

    def _need_queue(self, name: str) -> None:
        self._needed.append((CONFIGURE, "queue", name))

    def _plan(self, queue: QueueDefinition | None = None) -> Plan:
        needed = tuple(self._needed)
        return make_plan(self._table, self._changes, queue=queue, needed=needed)


def _is_channel_of(topic: str, queue_name: str) -> bool:
    if not queue_name.startswith(topic + CHANNEL_DIVIDER):
        return False
    channel = queue_name[len(topic) + len(CHANNEL_DIVIDER) :]
    return is_valid_name(channel.encode("utf-8", "surrogateescape"))


def _is_topic(exchange: ExchangeDefinition) -> bool:
    name = exchange.name
    return (
        is_valid_name(name.encode("utf-8", "surrogateescape"))
        and not name.startswith(RESERVED_PREFIX)
        and not _fault_of(exchange)
    )


def _fault_of(exchange: ExchangeDefinition) -> str:
    """Why the exchange cannot be the topic of its name; "" if it can."""
    if exchange.type_name != TOPIC_TYPE:
        return f"has type '{exchange.type_name}', not '{TOPIC_TYPE}'"
    if not is_ephemeral(exchange.name):
        if not exchange.durable:
            return "is not durable"
        if exchange.auto_delete:
            return "is deleted when it is not used"
    if exchange.internal:
        return "is internal"
    return ""
