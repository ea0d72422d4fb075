"""Dead letters: messages that left a queue other than by an ack, published to its exchange.

Acts like a channel in confirm mode: each batch of dead messages becomes one batch of new publishes,
routed through the table, and what the target queues owe is remembered. The original stays in
its queue's journal until all of them have the dead letter, on disk where that is promised: a crash
in between brings the original back, so a message may be in both places, never in neither.

What becomes of a dead letter that a queue will not have:
- no exchange of that name, no queue for the key, or a cycle of queues: dropped, as RabbitMQ does;
- its queue has another dead-letter exchange by now, or none: that one counts when it is made;
- its target was deleted meanwhile, or refuses new messages because it is full: dropped there;
- its target refuses it with reject-publish-dlx: it becomes a dead letter of that queue. The new
  letter stands for the old one, and answers for it when its own queues have it;
- its target has failed: nothing is settled. The message is stranded: it is made a dead letter anew
  once that queue has been deleted, and a restart brings the original back to its queue.

A dead letter's headers list the deaths of its message, as RabbitMQ 3.10 writes them:

    x-death  array of tables, newest first, one for each queue and reason:
             count long, reason, queue, time timestamp (seconds), exchange, routing-keys array,
             original-expiration if the message had an expiration
    x-first-death-reason, x-first-death-queue, x-first-death-exchange  never changed afterwards

A dead letter with a header x-delay that comes through an exchange that delays is deferred like a
publish (core/publishing/delayed_publishes.py). There is nobody to be told of a mistake, so a value
that is no delay is none, and neither is a negative one: it was delayed before.

A death that is there already is counted up and moves to the front, its other fields as they were.
Facts from rabbit_dead_letter:make_msg, update_x_death_header, group_by_queue_and_reason and
is_cycle. Clients may send what they like under these names: an x-death that is no array is
replaced, and entries of one queue and reason are merged, as RabbitMQ does.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.messages.copies import BatchOfCopies, NewHead, new_head
from ...amqp_frames.properties import Properties, decode_properties
from ...amqp_frames.values.field_table import (
    Field,
    Table,
    decode_text,
    encode_text,
    text_of,
)
from ..definitions import QueueDefinition
from ..exchanges.exchange import Steps
from ..exchanges.table import ExchangeTable, Ways
from ..publishing.delayed_publishes import DELAY_HEADER, lenient_delay_ms, with_delay_passed
from ..publishing.routes import durable_indexes, property_octets
from ..queue.parts import REJECTED
from ..queue.span import Span

_COUNT_MAX: Final = 2**63 - 1


class Death(NamedTuple):
    """One death: where the message was, why it left, when (seconds since 1970), how it had come.

    `routing_keys`: the one that it was published with, then those of its CC header.
    """

    reason: str
    queue: str
    time_seconds: int
    exchange: str
    routing_keys: Sequence[str]
    original_expiration: str | None


def names_in(headers: Table | None, name: str) -> list[str]:
    """The longstrs of an array among the headers, such as CC."""
    listed = (headers or {}).get(name)
    if listed is None or not isinstance(listed.value, list):
        return []
    return [each for each in map(text_of, listed.value) if each is not None]


def headers_of_dead(headers: Table | None, death: Death) -> Table:
    """The headers with one more death among them, sorted by name as RabbitMQ's are."""
    headers = dict(headers or {})
    known = headers.get("x-death")
    if known is None:
        headers["x-first-death-reason"] = _longstr(death.reason)
        headers["x-first-death-queue"] = _longstr(death.queue)
        headers["x-first-death-exchange"] = _longstr(death.exchange)
    newest, others = _entry_of(death), []
    if known is not None and isinstance(known.value, list):
        entries = _merged(known.value)
        same = [entry for entry in entries if _is_of(entry, death)]
        others = [entry for entry in entries if not _is_of(entry, death)]
        # RabbitMQ sorts the fields of any but the first.
        newest = _sorted(_counted_up(same[0]) if same else newest)
    headers["x-death"] = Field("array", [Field("table", newest), *others])
    return _sorted(headers)


def is_cycle(queue: str, headers: Table) -> bool:
    """Has the message died in this queue before, and not been rejected by anyone since?

    Then nobody but the broker moves it about, and it would never come to rest.
    """
    deaths = headers["x-death"].value
    assert isinstance(deaths, list)
    for entry in deaths:
        if not isinstance(entry.value, dict):
            # A client has put it there.
            return False
        if text_of(entry.value.get("reason")) == REJECTED:
            return False
        if text_of(entry.value.get("queue")) == queue:
            return True
    return False


def _entry_of(death: Death) -> Table:
    entry: Table = {
        "count": Field("long", 1),
        "reason": _longstr(death.reason),
        "queue": _longstr(death.queue),
        "time": Field("timestamp", death.time_seconds),
        "exchange": _longstr(death.exchange),
        "routing-keys": Field("array", [_longstr(key) for key in death.routing_keys]),
    }
    if death.original_expiration is not None:
        entry["original-expiration"] = _longstr(death.original_expiration)
    return entry


def _counted_up(entry: Field) -> Table:
    table = entry.value
    assert isinstance(table, dict)
    counted = table.get("count")
    count = 0
    if counted is not None and isinstance(counted.value, int):
        count = counted.value
    return {**table, "count": Field("long", min(count + 1, _COUNT_MAX))}


def _merged(entries: list[Field]) -> list[Field]:
    """The first entry of each queue and reason; without a count, with that of such entries.

    Only clients send several. RabbitMQ leaves an entry that stands alone as it is.
    """
    if len(entries) < 2:
        return entries
    alike: dict[object, list[Field]] = {}
    for position, entry in enumerate(entries):
        table = entry.value
        key = _key(table) if isinstance(table, dict) else position
        alike.setdefault(key, []).append(entry)
    return [_with_count(same[0], len(same)) for same in alike.values()]


def _with_count(entry: Field, count: int) -> Field:
    if not isinstance(entry.value, dict) or "count" in entry.value:
        return entry
    return Field("table", {"count": Field("long", count), **entry.value})


def _key(entry: Table) -> tuple[object, object]:
    """Queue and reason as RabbitMQ compares them: by their values in Erlang, without AMQP's types.

    Both kinds of octets are one type there, and so are integers of all sizes.
    """
    return _compared(entry.get("queue")), _compared(entry.get("reason"))


def _compared(field: Field | None) -> object:
    value = None if field is None else field.value
    if isinstance(value, str):
        return encode_text(value)
    # In Python, 1, 1.0 and True are equal.
    return value if isinstance(value, bytes) or value is None else (type(value), repr(value))


def _sorted(table: Table) -> Table:
    return dict(sorted(table.items(), key=_octets))


def _is_of(entry: Field, death: Death) -> bool:
    table = entry.value
    return isinstance(table, dict) and _key(table) == (
        encode_text(death.queue),
        encode_text(death.reason),
    )


def _octets(item: tuple[str, Field]) -> bytes:
    # As `encode_text`, which would be called for every field of every table.
    return item[0].encode("utf-8", "surrogateescape")


def _longstr(text: str) -> Field:
    return Field("longstr", text)


# At about 10 microseconds each, and so many bytes to copy; one at the least.
DEAD_LETTERS_PER_ROUND_MIN: Final = 256
DEAD_LETTER_BYTES_PER_ROUND_MIN: Final = 1 << 20


class DeadLetterRounds:
    """How many dead letters are made before the event loop polls its sockets again.

    A queue may drop messages as fast as publishers send them, several times faster than rounds of
    one size make dead letters of them. Then the messages that wait would grow without end, though
    every queue is bounded. So rounds get larger while more and more is left over: publishers are
    read less often, and come down to the speed of the dead letters. A burst, however large, leaves
    less after each round, so small rounds work it off.
    """

    def __init__(self) -> None:
        # In smallest rounds, and in shares of the time that routing has.
        self.size = 1
        # Of the next round, and their bytes as they came in.
        self.messages_max = DEAD_LETTERS_PER_ROUND_MIN
        self.bytes_max = DEAD_LETTER_BYTES_PER_ROUND_MIN
        # The most that was left over by a round since nothing was.
        self._left_max = 0

    def ended(self, left: int) -> None:
        """A round has left over so many messages, or so many are left when its time is over."""
        if not left:
            self.size, self._left_max = 1, 0
        elif left > self._left_max:
            if self._left_max:
                self.size += 1 + self.size // 4
            self._left_max = left
        self.messages_max = self.size * DEAD_LETTERS_PER_ROUND_MIN
        self.bytes_max = self.size * DEAD_LETTER_BYTES_PER_ROUND_MIN


# Messages that left a queue, and why: rejected, expired, maxlen or delivery_limit.
Dead = tuple[Span, str]
# A dead letter: its batch, and its place there.
Letter = tuple[Batch, int]


class Stranded(NamedTuple):
    """A message of `source` that has no dead letter, because the queue `target` has failed."""

    target: QueueDefinition
    source: QueueDefinition
    dead: Dead


class PendingLetters:
    """One batch of dead letters: per message its original's entry id and how many queues owe it.

    0 as the id: the journal does not know the original. -1 as the count: one of its queues failed.
    `owing` has an octet per message for each queue, 1 while that queue owes it, so that a
    second answer of one queue does not count. `places` are those of the originals, counted through
    `dead`.
    `stands_for` has the originals that are letters themselves, which their source has refused.
    """

    __slots__ = (
        "dead",
        "entry_ids",
        "open_count",
        "owed",
        "owing",
        "places",
        "source",
        "stands_for",
    )

    def __init__(self, source: QueueDefinition, dead: Sequence[Dead]) -> None:
        self.source = source
        self.dead = dead
        self.places: array[int] = array("I")
        self.entry_ids: array[int] = array("Q")
        self.owed: array[int] = array("i")
        self.owing: dict[QueueDefinition, bytearray] = {}
        self.open_count = 0
        self.stands_for: dict[int, Letter] = {}

    def add(self, place: int, entry_id: int, queue_count: int, refused: Letter | None) -> None:
        """A dead letter of the message at this place is to go to so many queues."""
        if refused is not None:
            self.stands_for[len(self.owed)] = refused
        self.places.append(place)
        self.entry_ids.append(entry_id)
        self.owed.append(queue_count)

    def record_owed(self, by_queue: Mapping[QueueDefinition, Indexes], letter_count: int) -> None:
        """All letters are made; each queue will get its own, and owes a confirm for them."""
        self.open_count = letter_count
        for queue, indexes in by_queue.items():
            owing = self.owing[queue] = bytearray(letter_count)
            for index in indexes:
                owing[index] = 1

    def remove_owed(self, queue: QueueDefinition, indexes: Indexes) -> list[int]:
        """Those of the messages that the queue has owed until now; it owes them no more."""
        owing = self.owing.get(queue)
        if owing is None:
            return []
        answered = [index for index in indexes if owing[index]]
        for index in answered:
            owing[index] = 0
        return answered

    def original(self, index: int) -> Dead:
        """The message of which a dead letter was made."""
        place = self.places[index]
        for span, reason in self.dead:
            if place < len(span):
                return span.part(place, place + 1), reason
            place -= len(span)
        raise AssertionError(f"dead letter {index} has no original")


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
    by_queue: dict[QueueDefinition, Indexes]
    # Of queues that are to defer letters: for how many milliseconds, by index, 0 for not at all.
    delays: dict[QueueDefinition, array[int]]


class _Rewritten(NamedTuple):
    """The letters made of dead messages that have one key and the same properties."""

    # None if there are no queues.
    head: NewHead | None
    queues: tuple[QueueDefinition, ...]
    # For how many milliseconds these of the queues are to defer them.
    delay_ms: int = 0
    delayed: tuple[QueueDefinition, ...] = ()
    # Chance decided: the next message may go elsewhere.
    is_random: bool = False


class DeadLetters:
    """All dead letters that are on their way; each stays in its queue's vhost.

    `settled` collects, by source queue, the entry ids whose messages are safe elsewhere or
    dropped; the actor that tells the queues takes them out.
    """

    def __init__(
        self,
        find_table: Callable[[str], ExchangeTable | None],
        next_batch_number: Callable[[], int],
    ) -> None:
        """`find_table` gives the routing table of a vhost, None if there is no such vhost."""
        self._pending: dict[Batch, PendingLetters] = {}
        self.settled: dict[QueueDefinition, array[int]] = {}
        # Originals whose letters a failed queue owes; the actor that retries them takes them out.
        self.stranded: list[Stranded] = []
        # Letters that queues have refused, for which others have answered since: is it safe, or
        # stranded? Their tracer takes them out.
        self.answered: list[tuple[Letter, bool]] = []
        # Refused letters that are to be answered for, because the letters made of them are safe.
        self._safe: list[Letter] = []
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
    ) -> Steps[DeadBatch | None]:
        """Make and route the dead letters of messages that left `source`; None if none is left.

        Before the last step nobody owes anything, and nothing is settled. `origins` is given the
        fate of each message, in the order of the letters.
        """
        pending = PendingLetters(source, dead)
        place = -1
        copies = BatchOfCopies(CHANNEL_NUMBER)
        by_queue: dict[QueueDefinition, array[int]] = {}
        delayed: list[tuple[QueueDefinition, int, int]] = []
        # Entry ids, and letters that were refused, of messages that go nowhere.
        dropped: list[tuple[int, Letter | None]] = []
        for span, reason in dead:
            is_letter = not span.first_entry_id and span.batch in self._pending
            # Messages of one batch are much alike.
            known: dict[tuple[int, bytes], _Rewritten] = {}
            for position, index in enumerate(span.indexes):
                entry_id = span.first_entry_id + position if span.stored else 0
                shape = span.batch.keys[index], property_octets(span.batch, index)
                rewritten = known.get(shape)
                if rewritten is None:
                    key = span.batch.distinct[shape[0]]
                    properties = decode_properties(shape[1], 0, len(shape[1]))
                    rewritten = yield from self._rewrite(
                        source, key, properties, reason, time_seconds
                    )
                    if not rewritten.is_random:
                        known[shape] = rewritten
                queues = rewritten.queues
                place += 1
                if origins is not None:
                    is_entry = span.first_entry_id > 0
                    origins.append(Origin(span.batch, index, reason, queues, is_entry))
                refused = (span.batch, index) if is_letter else None
                if rewritten.head is None:
                    dropped.append((entry_id, refused))
                    continue
                for queue in queues:
                    by_queue.setdefault(queue, array("I")).append(len(pending.owed))
                letter = len(pending.owed)
                delayed += [(queue, letter, rewritten.delay_ms) for queue in rewritten.delayed]
                pending.add(place, entry_id, len(queues), refused)
                copies.add(span.batch, index, rewritten.head)
        for entry_id, refused in dropped:
            self._is_over(source, entry_id, refused)
        self._answer_for_refused()
        letters = copies.batch()
        if letters is None:
            return None
        letters.number = self._next_batch_number()
        indexes: dict[QueueDefinition, Indexes] = dict(by_queue)
        letters.durable = durable_indexes(letters, indexes, len(letters.starts))
        pending.record_owed(indexes, len(letters.starts))
        self.owe(letters, pending)
        delays: dict[QueueDefinition, array[int]] = {}
        for queue, index, delay_ms in delayed:
            if queue not in delays:
                delays[queue] = array("I", bytes(4 * len(letters)))
            delays[queue][index] = delay_ms
        return DeadBatch(letters, indexes, delays)

    # --- One message's new form and way

    def _rewrite(
        self,
        source: QueueDefinition,
        key: bytes,
        properties: Properties,
        reason: str,
        time_seconds: int,
    ) -> Steps[_Rewritten]:
        """As rabbit_dead_letter:make_msg: one more death, and no expiration any more."""
        exchange_end = 1 + key[0]
        exchange = decode_text(key[1:exchange_end])
        routing_key = decode_text(key[exchange_end + 1 : -1])
        dead_letter_exchange = source.effective.get("x-dead-letter-exchange")
        if dead_letter_exchange is None:
            # The queue has lost it since the message died: as if it did not exist.
            return _Rewritten(None, ())
        target = text_of(dead_letter_exchange) or ""
        new_key = text_of(source.effective.get("x-dead-letter-routing-key"))
        keys = [routing_key, *names_in(properties.headers, "CC")]
        death = Death(reason, source.name, time_seconds, exchange, keys, properties.expiration)
        headers = headers_of_dead(properties.headers, death)
        if new_key is not None:
            keys = [new_key]
            headers.pop("CC", None)
        properties = properties._replace(headers=headers, expiration=None)
        ways: Ways = {}
        queues = yield from self._route(source.vhost, target, keys, properties, ways)
        if reason != REJECTED:
            queues = self._without_cycles(source, queues, headers)
        is_random = self._is_random(source.vhost, target)
        if not queues:
            return _Rewritten(None, (), is_random=is_random)
        delay_ms = lenient_delay_ms(headers.get(DELAY_HEADER))
        delayed: tuple[QueueDefinition, ...] = ()
        if delay_ms:
            at_once = yield from self._at_once(source.vhost, target, keys, properties, ways)
            if at_once is not None:
                delayed = tuple(queue for queue in queues if queue not in at_once)
        if delayed:
            properties = properties._replace(headers=with_delay_passed(headers, delay_ms))
        head = new_head(target, keys[0], properties)
        return _Rewritten(head, queues, delay_ms, delayed, is_random)

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
        self,
        vhost: str,
        exchange_name: str,
        keys: Sequence[str],
        properties: Properties,
        ways: Ways,
    ) -> Steps[tuple[QueueDefinition, ...]]:
        """Each queue once; none if there is no such exchange. An internal one is no obstacle.

        `ways` is empty, and for `_at_once`.
        """
        table = self._find_table(vhost)
        if table is None or (exchange_name and table.find_exchange(exchange_name) is None):
            return ()
        return (yield from table.route_message(exchange_name, keys, properties, ways))

    def _is_random(self, vhost: str, exchange_name: str) -> bool:
        table = self._find_table(vhost)
        if table is None or (exchange_name and table.find_exchange(exchange_name) is None):
            return False
        return table.is_random(exchange_name)

    def _at_once(
        self,
        vhost: str,
        exchange_name: str,
        keys: Sequence[str],
        properties: Properties,
        ways: Ways,
    ) -> Steps[tuple[QueueDefinition, ...] | None]:
        """The queues that are reached without a delay; None if no exchange on the way delays."""
        table = self._find_table(vhost)
        # Both may have been deleted since the last step.
        if table is None or (exchange_name and table.find_exchange(exchange_name) is None):
            return None
        if not table.delays(exchange_name):
            return None
        return (yield from table.route_at_once(exchange_name, keys, properties, ways))

    # --- What queues owe, and what becomes of the originals

    def __len__(self) -> int:
        """How many dead letters some queue still owes."""
        return sum(pending.open_count for pending in self._pending.values())

    def owe(self, batch: Batch, pending: PendingLetters) -> None:
        """Queues owe the dead letters of this batch from now on."""
        self._pending[batch] = pending

    def confirm(self, queue: QueueDefinition, batch: Batch, indexes: Indexes) -> list[int]:
        """The queue has these dead letters, or they are not to be in it any more.

        Returns those of them that it had owed.
        """
        pending = self._pending.get(batch)
        if pending is None:
            return []
        answered = pending.remove_owed(queue, indexes)
        self._confirmed(batch, pending, answered)
        self._answer_for_refused()
        return answered

    def _confirmed(self, batch: Batch, pending: PendingLetters, indexes: Sequence[int]) -> None:
        owed = pending.owed
        for index in indexes:
            if owed[index] > 0:
                owed[index] -= 1
                if not owed[index]:
                    pending.open_count -= 1
                    refused = pending.stands_for.get(index)
                    self._is_over(pending.source, pending.entry_ids[index], refused)
        self._forget_if_done(batch, pending)

    def refused(self, queue: QueueDefinition, dead: Sequence[Dead]) -> None:
        """The queue refuses these; if they are letters, the letters made of them answer for it.

        So their originals stay until the new letters are safe, and the queue's own answer counts no
        more.
        """
        for span, _reason in dead:
            pending = None if span.first_entry_id else self._pending.get(span.batch)
            if pending is not None:
                pending.remove_owed(queue, span.indexes)

    def _answer_for_refused(self) -> None:
        """Confirm refused letters whose new letters are safe, as if the queue had taken them."""
        while self._safe:
            batch, index = letter = self._safe.pop()
            pending = self._pending.get(batch)
            if pending is not None:
                self._confirmed(batch, pending, (index,))
                self.answered.append((letter, True))

    def failed(self, queue: QueueDefinition, batch: Batch, indexes: Indexes) -> list[int]:
        """The queue's actor died owing these: their originals are stranded, and not settled.

        Returns those of them that it had owed.
        """
        pending = self._pending.get(batch)
        if pending is None:
            return []
        answered = pending.remove_owed(queue, indexes)
        for index in answered:
            self._strand(queue, (batch, index))
        return answered

    def _strand(self, queue: QueueDefinition, letter: Letter | None) -> None:
        """Strand the first original, of which this letter was made on whatever way."""
        while letter is not None:
            batch, index = letter
            pending = self._pending.get(batch)
            if pending is None or pending.owed[index] <= 0:
                return
            pending.owed[index] = -1
            pending.open_count -= 1
            letter = pending.stands_for.get(index)
            if letter is None:
                self.stranded.append(Stranded(queue, pending.source, pending.original(index)))
            else:
                self.answered.append((letter, False))
            self._forget_if_done(batch, pending)

    def _forget_if_done(self, batch: Batch, pending: PendingLetters) -> None:
        if not pending.open_count:
            self._pending.pop(batch, None)

    def _is_over(self, source: QueueDefinition, entry_id: int, refused: Letter | None) -> None:
        """The original is safe elsewhere, or dropped."""
        if entry_id:
            self.settled.setdefault(source, array("Q")).append(entry_id)
        elif refused is not None:
            self._safe.append(refused)
