"""Dead letters: messages that left a queue other than by an ack, published to its exchange.

Acts like a channel in confirm mode: each batch of dead messages becomes one batch of new publishes,
routed through the table, and what the target queues owe is remembered. The original stays in
its queue's journal until all of them have the dead letter, on disk where that is promised: a crash
in between brings the original back, so a message may be in both places, never in neither.

What becomes of a dead letter that a queue will not have:
- no exchange of that name, no queue for the key, or a cycle of queues: dropped, as RabbitMQ does;
- its target was deleted meanwhile, or refuses new messages because it is full: dropped there;
- its target refuses it with reject-publish-dlx: it becomes a dead letter of that queue, and the
  original waits for that one;
- its target has failed: nothing is settled. The message is stranded: it is made a dead letter anew
  once that queue has been deleted, and a restart brings the original back to its queue.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.messages.copies import BatchOfCopies, NewHead
from ...amqp_frames.properties import Properties, decode_properties, encode_properties
from ...amqp_frames.values.field_table import Table, decode_text, encode_short_string
from ..definitions import QueueDefinition, name_of
from ..exchanges.steps import carry_out
from ..exchanges.table import ExchangeTable
from ..publishing.routes import durable_indexes
from ..queue.effects import REJECTED
from ..queue.span import Span
from .death_headers import Death, headers_of_dead, is_cycle, names_in
from .pending import Dead, OwedLetters, PendingLetters

# In the frames of dead letters; a consumer's channel with this number gets them as they are.
CHANNEL_NUMBER: Final = 1

# Cycles of queues of which an operator is told; past this many nobody reads them.
CYCLES_KNOWN_MAX: Final = 1_000


class Origin(NamedTuple):
    """A message of which a dead letter was made, unless there are no queues for one.

    `is_entry`: it was in its queue, not refused by it.
    """

    batch: Batch
    place: int
    reason: str
    queues: tuple[QueueDefinition, ...]
    is_entry: bool


class DeadBatch(NamedTuple):
    """New publishes: tell each queue its indexes."""

    batch: Batch
    told: dict[QueueDefinition, Indexes]


class _Rewritten(NamedTuple):
    """What dead messages with one key and the same properties become."""

    head: NewHead
    queues: tuple[QueueDefinition, ...]


class DeadLetters(OwedLetters):
    """All dead letters that are on their way; each stays in its queue's vhost."""

    def __init__(
        self,
        find_table: Callable[[str], ExchangeTable | None],
        next_batch_number: Callable[[], int],
    ) -> None:
        """`find_table` gives the routing table of a vhost, None if there is no such vhost."""
        super().__init__()
        self._find_table = find_table
        self._next_batch_number = next_batch_number
        # Vhost, source and target in which a message was dropped because it goes round; each once.
        self.cycles: list[tuple[str, str, str]] = []
        self._cycles_known: set[tuple[str, str, str]] = set()

    def publish(
        self,
        source: QueueDefinition,
        dead: Sequence[Dead],
        time_seconds: int,
        origins: list[Origin] | None = None,
    ) -> DeadBatch | None:
        """Make and route the dead letters of messages that left `source`; None if none is left.

        `origins` is given what becomes of each message, in the order of the letters.
        """
        pending = PendingLetters(source, dead)
        place = -1
        copies = BatchOfCopies(CHANNEL_NUMBER)
        told: dict[QueueDefinition, array[int]] = {}
        for span, reason in dead:
            is_letter = not span.first_entry_id and span.batch in self._pending
            for index, entry_id, rewritten in self._rewritten(source, span, reason, time_seconds):
                queues = rewritten.queues
                place += 1
                if origins is not None:
                    is_entry = span.first_entry_id > 0
                    origins.append(Origin(span.batch, index, reason, queues, is_entry))
                refused = (span.batch, index) if is_letter else None
                if not queues:
                    self._is_over(source, entry_id, refused)
                    continue
                for queue in queues:
                    told.setdefault(queue, array("I")).append(len(pending.owed))
                pending.add(place, entry_id, len(queues), refused)
                copies.add(span.batch, index, rewritten.head)
        self._answer_for_refused()
        letters = copies.batch()
        if letters is None:
            return None
        letters.number = self._next_batch_number()
        indexes: dict[QueueDefinition, Indexes] = dict(told)
        letters.durable = durable_indexes(letters, indexes, len(letters.starts))
        pending.told(indexes, len(letters.starts))
        self.owe(letters, pending)
        return DeadBatch(letters, indexes)

    # --- One message's new form and way

    def _rewritten(
        self, source: QueueDefinition, span: Span, reason: str, time_seconds: int
    ) -> Iterator[tuple[int, int, _Rewritten]]:
        """Each message's index, its entry id (0 if not journalled), and what becomes of it."""
        batch = span.batch
        wire = batch.wire
        # Messages of one batch are much alike.
        known: dict[tuple[int, bytes], _Rewritten] = {}
        for position, index in enumerate(span.indexes):
            header = batch.headers[index]
            size = int.from_bytes(wire[header + 3 : header + 7], "big")
            shape = batch.keys[index], wire[header + 19 : header + 7 + size]
            rewritten = known.get(shape)
            if rewritten is None:
                key = batch.distinct[shape[0]]
                properties = decode_properties(shape[1], 0, len(shape[1]))
                rewritten = self._rewrite(source, key, properties, reason, time_seconds)
                known[shape] = rewritten
            yield index, span.first_entry_id + position if span.stored else 0, rewritten

    def _rewrite(
        self,
        source: QueueDefinition,
        key: bytes,
        properties: Properties,
        reason: str,
        time_seconds: int,
    ) -> _Rewritten:
        """As rabbit_dead_letter:make_msg: one more death, and no expiration any more."""
        exchange_end = 1 + key[0]
        exchange = decode_text(key[1:exchange_end])
        routing_key = decode_text(key[exchange_end + 1 : -1])
        keys = [routing_key, *names_in(properties.headers, "CC")]
        death = Death(reason, source.name, time_seconds, exchange, keys, properties.expiration)
        headers = headers_of_dead(properties.headers, death)
        target = name_of(source.arguments["x-dead-letter-exchange"]) or ""
        new_key = name_of(source.arguments.get("x-dead-letter-routing-key"))
        if new_key is not None:
            keys = [new_key]
            headers.pop("CC", None)
        queues = self._route(source.vhost, target, keys, headers)
        if reason != REJECTED:
            queues = self._without_cycles(source, queues, headers)
        if not queues:
            return _Rewritten(NewHead(b"", b""), ())
        return _Rewritten(
            NewHead(
                # Neither mandatory nor immediate.
                encode_short_string(target) + encode_short_string(keys[0]) + b"\0",
                encode_properties(properties._replace(headers=headers, expiration=None)),
            ),
            queues,
        )

    def _without_cycles(
        self, source: QueueDefinition, queues: tuple[QueueDefinition, ...], headers: Table
    ) -> tuple[QueueDefinition, ...]:
        """Those of the queues that the message has not come from, with nobody's doing."""
        kept = tuple(queue for queue in queues if not is_cycle(queue.name, headers))
        for queue in queues:
            cycle = source.vhost, source.name, queue.name
            if queue in kept or cycle in self._cycles_known:
                continue
            if len(self._cycles_known) < CYCLES_KNOWN_MAX:
                self._cycles_known.add(cycle)
                self.cycles.append(cycle)
        return kept

    def _route(
        self, vhost: str, exchange_name: str, keys: Sequence[str], headers: Table
    ) -> tuple[QueueDefinition, ...]:
        """Each queue once; none if there is no such exchange. An internal one is no obstacle."""
        table = self._find_table(vhost)
        if table is None or (exchange_name and table.find_exchange(exchange_name) is None):
            return ()
        return carry_out(table.route_message(exchange_name, keys, headers))
