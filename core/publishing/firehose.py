"""The firehose: a copy of each publish and each delivery of a traced vhost, for whoever listens.

As RabbitMQ's rabbit_trace publishes them: to the topic exchange `amq.rabbitmq.trace` of the vhost,
with the routing key `publish.EXCHANGE` or `deliver.QUEUE`, the message's body, and in its headers
where it came from. A message of the firehose is transient and is never copied itself.

Channels report what they have published and delivered as it is, one report for a batch
(`PublishReport`, `DeliveryReport`), and `FirehoseBacklog` makes the copies later, some at a time.
It keeps the batches until then, so they are counted, and what exceeds its limit is dropped:
RabbitMQ makes its copies in the channel's process, which slows publishers and consumers down.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ...amqp_frames.constants import SHORT_STRING_BYTES_MAX
from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.messages.copies import BatchOfCopies, NewHead, new_head
from ...amqp_frames.properties import Properties, decode_properties
from ...amqp_frames.values.field_table import Field, Table
from ..definitions import FIREHOSE_EXCHANGE, QueueDefinition
from ..exchanges.table import NO_PROPERTIES, ExchangeTable, carry_out
from ..queue.span import Span
from .properties import longstrs
from .routes import names_of_key, property_octets

# What one turn makes at most before other actors have theirs. A copy takes some 30 microseconds.
COPIES_PER_TURN_MAX: Final = 100
COPIED_BYTES_PER_TURN_MAX: Final = 1024 * 1024

# In the frames of the copies; a consumer's channel with this number gets them as they are.
_CHANNEL_NUMBER: Final = 1
# Headers that are deeper are left out: a copy holds them in two more tables, and must be readable.
_NESTING_MAX: Final = 60


class Origin(NamedTuple):
    """The channel that has published or delivered: what a copy's headers say of it."""

    vhost: str
    connection: str
    channel: int
    user: str


class PublishReport(NamedTuple):
    """The first `total` messages of a batch, as they were routed.

    `further` has the routing keys that messages have beside their own.
    """

    origin: Origin
    batch: Batch
    total: int
    by_queue: Mapping[QueueDefinition, Indexes]
    further: Mapping[int, Sequence[str]]

    def message_count(self) -> int:
        """How many messages it reports."""
        return self.total

    def size_bytes(self) -> int:
        """The memory that the report keeps."""
        return self.batch.wire_bytes


class DeliveryReport(NamedTuple):
    """Messages that a consumer, or basic.get, has been sent."""

    origin: Origin
    queue: str
    span: Span

    @property
    def batch(self) -> Batch:
        """The batch of the messages."""
        return self.span.batch

    def message_count(self) -> int:
        """How many messages it reports."""
        return len(self.span)

    def size_bytes(self) -> int:
        """The memory that the report keeps, but for what else its batch keeps."""
        return self.span.wire_bytes()


class FirehoseBatch(NamedTuple):
    """Copies, and each queue's indexes of them."""

    batch: Batch
    by_queue: Mapping[QueueDefinition, Indexes]


class _Original(NamedTuple):
    """A message to copy, and its way as far as its report knows it.

    `further`: routing keys beside its own; None: as its headers say.
    """

    place: int
    routing_key: str
    further: Sequence[str] | None
    is_delivered: bool
    # Of a delivery, and of a publish.
    redelivered: bool = False
    routed_queues: Sequence[str] = ()


_Report = PublishReport | DeliveryReport


class FirehoseBacklog:
    """The reports of which copies are still to be made, oldest first."""

    def __init__(
        self,
        find_table: Callable[[str], ExchangeTable | None],
        next_batch_number: Callable[[], int],
        node_name: str,
        bytes_max: int,
    ) -> None:
        self._find_table = find_table
        self._next_batch_number = next_batch_number
        self._node_name = node_name
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[_Report, Iterator[_Original]]] = deque()
        self.waiting_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, report: _Report) -> bool:
        """Have copies made of these messages; False if there is no room for them."""
        size_bytes = report.size_bytes()
        # One report is always kept, however large it is.
        if self._waiting and self.waiting_bytes + size_bytes > self._bytes_max:
            return False
        self.waiting_bytes += size_bytes
        originals = _published(report) if isinstance(report, PublishReport) else _delivered(report)
        self._waiting.append((report, originals))
        return True

    def make(self) -> FirehoseBatch | None:
        """Make some copies, within the bounds of a turn; None if no queue gets one of them."""
        copies = BatchOfCopies(_CHANNEL_NUMBER)
        by_queue: dict[QueueDefinition, array[int]] = {}
        routes: dict[tuple[str, str], tuple[QueueDefinition, ...]] = {}
        copy_count = seen_count = copied_bytes = 0
        while (
            self._waiting
            and seen_count < COPIES_PER_TURN_MAX
            and copied_bytes < COPIED_BYTES_PER_TURN_MAX
        ):
            report, originals = self._waiting[0]
            original = next(originals, None)
            if original is None:
                self._waiting.popleft()
                self.waiting_bytes -= report.size_bytes()
                continue
            seen_count += 1
            where = report.origin.vhost, original.routing_key
            queues = routes.get(where)
            if queues is None:
                queues = routes[where] = self._route(*where)
            if not queues:
                continue
            batch = report.batch
            copies.add(batch, original.place, self._head(report, original))
            copied_bytes += batch.ends[original.place] - batch.starts[original.place]
            for queue in queues:
                by_queue.setdefault(queue, array("I")).append(copy_count)
            copy_count += 1
        made = copies.batch()
        if made is None:
            return None
        made.number = self._next_batch_number()
        made.durable = range(0)
        return FirehoseBatch(made, by_queue)

    def _route(self, vhost: str, routing_key: str) -> tuple[QueueDefinition, ...]:
        table = self._find_table(vhost)
        if table is None:
            return ()
        keys = (routing_key,)
        return carry_out(table.route_message(FIREHOSE_EXCHANGE, keys, NO_PROPERTIES))

    def _head(self, report: _Report, original: _Original) -> NewHead:
        batch, index = report.batch, original.place
        octets = property_octets(batch, index)
        properties = decode_properties(octets, 0, len(octets))
        exchange, routing_key = names_of_key(batch.distinct[batch.keys[index]])
        further = original.further
        if further is None:
            copies = (properties.headers or {}).get("CC")
            is_array = copies is not None and isinstance(copies.value, list)
            further = longstrs(copies.value) if is_array else ()  # type: ignore[union-attr,arg-type]
        headers = {
            "exchange_name": Field("longstr", exchange),
            "routing_keys": _array((routing_key, *further)),
            "properties": Field("table", _shown(properties)),
            "node": Field("longstr", self._node_name),
        }
        if original.is_delivered:
            headers["redelivered"] = Field("signedint", int(original.redelivered))
        origin = report.origin
        headers["vhost"] = Field("longstr", origin.vhost)
        headers["connection"] = Field("longstr", origin.connection)
        headers["channel"] = Field("signedint", origin.channel)
        headers["user"] = Field("longstr", origin.user)
        if not original.is_delivered:
            headers["routed_queues"] = _array(original.routed_queues)
        return new_head(FIREHOSE_EXCHANGE, original.routing_key, Properties(headers=headers))


def _published(report: PublishReport) -> Iterator[_Original]:
    batch = report.batch
    queues_of: list[list[str]] = [[] for _ in range(report.total)]
    for queue, indexes in report.by_queue.items():
        for index in indexes:
            queues_of[index].append(queue.name)
    exchanges = [names_of_key(key)[0] for key in batch.distinct]
    keys = [_key("publish.", exchange) for exchange in exchanges]
    for index in range(report.total):
        number = batch.keys[index]
        if exchanges[number] != FIREHOSE_EXCHANGE:
            further = report.further.get(index, ())
            yield _Original(
                index, keys[number], further, is_delivered=False, routed_queues=queues_of[index]
            )


def _delivered(report: DeliveryReport) -> Iterator[_Original]:
    span, batch = report.span, report.batch
    key = _key("deliver.", report.queue)
    is_redelivered = span.attempts > 0
    for index in span.indexes:
        if names_of_key(batch.distinct[batch.keys[index]])[0] != FIREHOSE_EXCHANGE:
            yield _Original(index, key, None, is_delivered=True, redelivered=is_redelivered)


def _key(prefix: str, name: str) -> str:
    """Long names are cut: a routing key has at most 255 octets."""
    octets = (prefix + name).encode("utf-8", "surrogateescape")
    return octets[:SHORT_STRING_BYTES_MAX].decode("utf-8", "surrogateescape")


def _array(texts: Sequence[str]) -> Field:
    return Field("array", [Field("longstr", text) for text in texts])


def _shown(properties: Properties) -> Table:
    """The properties as a table, the last one first."""
    shown: dict[str, Field] = {}
    for name, value in reversed(tuple(zip(Properties._fields, properties, strict=True))):
        if isinstance(value, int):
            # All numbers are 32 bits here, as RabbitMQ has them: also timestamps.
            shown[name] = Field("signedint", (value + 2**31) % 2**32 - 2**31)
        elif isinstance(value, str):
            shown[name] = Field("longstr", value)
        elif value is not None and _depth(value) <= _NESTING_MAX:
            shown[name] = Field("table", value)
    return shown


def _depth(value: object) -> int:
    """How many tables and arrays are within each other."""
    if isinstance(value, Mapping):
        return 1 + max((_depth(field.value) for field in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_depth(field.value) for field in value), default=0)
    return 0
