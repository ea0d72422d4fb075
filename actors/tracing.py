"""What a channel writes into the trace at its hops, and what its reader brought it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..amqp_frames.batch import Batch, Indexes
from ..core.coalescing import SeqRange, coalesce, merge
from ..core.span import Span
from ..logs.trace import Trace, among, ranges
from .queue_tracing import queue_step, received

if TYPE_CHECKING:
    from ..core.publisher import Routed
    from ..core.unconfirmed import Unconfirmed

_MANDATORY = 1


class ChannelTracing:
    """One channel's share of the trace: its name, and the traced numbers not answered yet."""

    def __init__(self, trace: Trace, connection: str, number: int, user: str) -> None:
        self._trace = trace
        self._connection = connection
        self._number = number
        self._user = user
        # Traced seq_nos that are to be answered, ascending.
        self._open: list[SeqRange] = []

    def published(self, routed: Routed, unconfirmed: Unconfirmed) -> None:
        """A batch was routed; before its queues are told."""
        batch, first_seq_no = routed.batch, routed.first_seq_no
        queues = [queue.name for queue in routed.told]
        chosen = self._trace.choose(
            batch.number, routed.message_count, self._connection, self._user, queues
        )
        batch.traced = chosen
        if chosen is None:
            return
        at_ns = batch.received_ns
        self._write("frame.received", batch, chosen, at_ns=at_ns, bytes=batch.wire_bytes())
        numbers = {"seq_no": _seq_nos(first_seq_no, chosen)} if first_seq_no else {}
        self._write("command.assembled", batch, chosen, user=self._user, **numbers)
        unrouted = self._routed(batch, routed, chosen)
        returned = [index for index in unrouted if _key_of(batch, index)[-1] & _MANDATORY]
        replies: set[int] = set().union(*routed.replies.values())
        replied = [index for index in chosen if index in replies]
        gone = {*returned, *replied}
        dropped = [index for index in unrouted if index not in gone]
        for event, indexes, reason in (
            ("message.returned", returned, "NO_ROUTE"),
            ("message.replied", replied, "its key names a reply consumer"),
            ("message.dropped", dropped, "no route, and not mandatory"),
        ):
            if indexes:
                numbers = {"seq_no": _seq_nos(first_seq_no, indexes)} if first_seq_no else {}
                self._write(event, batch, indexes, reason=reason, **numbers)
        if first_seq_no:
            self._inserted(batch, routed, chosen, first_seq_no, unconfirmed)
            # What was returned has its own ack behind it already.
            acked = set(returned)
            rest = [index for index in chosen if index not in acked]
            self._open += [(first, last) for first, last in _seq_nos(first_seq_no, rest)]

    def _routed(self, batch: Batch, routed: Routed, chosen: Sequence[int]) -> list[int]:
        """One event for each key and row of queues; returns what no queue gets."""
        told = {queue.name: _places(indexes) for queue, indexes in routed.told.items()}
        rows: dict[tuple[bytes, tuple[str, ...]], list[int]] = {}
        for index in chosen:
            queues = tuple(name for name, places in told.items() if index in places)
            rows.setdefault((_key_of(batch, index), queues), []).append(index)
        unrouted: list[int] = []
        for (key, queues), indexes in rows.items():
            end = 1 + key[0]
            self._write(
                "message.routed",
                batch,
                indexes,
                exchange=key[1:end].decode("utf-8", "replace"),
                routing_key=key[end + 1 : -1].decode("utf-8", "replace"),
                mandatory=bool(key[-1] & _MANDATORY),
                queues=list(queues),
            )
            if not queues:
                unrouted += indexes
        return sorted(unrouted)

    def _inserted(
        self,
        batch: Batch,
        routed: Routed,
        chosen: Sequence[int],
        first_seq_no: int,
        unconfirmed: Unconfirmed,
    ) -> None:
        told: set[int] = set()
        for indexes in routed.told.values():
            told.update(indexes)
        inserted = [index for index in chosen if index in told]
        if inserted:
            self._write(
                "unconfirmed.inserted",
                batch,
                inserted,
                seq_no=_seq_nos(first_seq_no, inserted),
                queues=[queue.name for queue in routed.told],
                unconfirmed_before=len(unconfirmed) - len(told),
                unconfirmed_after=len(unconfirmed),
            )

    def answering(self, unconfirmed: Unconfirmed) -> None:
        """What is confirmed and rejected is about to be said."""
        if not self._open:
            return
        confirmed, rejected = unconfirmed.confirmed, unconfirmed.rejected
        answered = sum(last - first + 1 for first, last in merge([*confirmed, *rejected]))
        for event, said, others in (
            ("confirm.sent", confirmed, rejected),
            ("confirm.nacked", rejected, confirmed),
        ):
            traced, self._open = _taken(self._open, merge(said))
            if not traced:
                continue
            cumulative, singles = coalesce(said, others, unconfirmed.smallest())
            self._trace.write(
                event,
                "channel",
                connection=self._connection,
                channel=self._number,
                seq_no=[list(each) for each in traced],
                cumulative=cumulative,
                singles=[list(each) for each in singles],
                unconfirmed_before=len(unconfirmed) + answered,
                unconfirmed_after=len(unconfirmed),
                smallest_unconfirmed=unconfirmed.smallest(),
            )

    def rejected(self, queue: str, batch: Batch, indexes: Indexes, reason: str) -> None:
        """A queue will never have these messages, and is not there to say so."""
        queue_step(self._trace, "confirm.rejected", queue, batch, indexes, reason=reason)

    def delivered(self, queue: str, span: Span, first_tag: int, consumer_tag: bytes) -> None:
        """Messages were written to a consumer, or as the answer to basic.get."""
        for indexes, positions in _traced_positions(span.batch, span.indexes):
            tags = [first_tag + position for position in positions]
            self._write(
                "message.delivered",
                span.batch,
                indexes,
                queue=queue,
                consumer_tag=consumer_tag[1:].decode("utf-8", "replace"),
                delivery_tag=ranges(tags),
                attempt=span.attempts + 1,
            )

    def closed(self, reply_code: int, reason: str) -> None:
        """The channel ends; what it has not answered by now it never will."""
        if self._open or self._trace.is_on:
            self._trace.write(
                "channel.closed",
                "channel",
                connection=self._connection,
                channel=self._number,
                seq_no=[list(each) for each in self._open],
                reply_code=reply_code,
                reason=reason,
            )
            self._open = []

    def _write(self, event: str, batch: Batch, indexes: Sequence[int], **fields: object) -> None:
        self._trace.write(
            event,
            "reader" if event == "frame.received" else "channel",
            connection=self._connection,
            channel=self._number,
            batch=batch.number,
            messages=ranges(received(batch, indexes)),
            **fields,
        )


def _key_of(batch: Batch, index: int) -> bytes:
    return batch.distinct[batch.keys[index]]


def _places(indexes: Indexes) -> range | set[int]:
    return indexes if isinstance(indexes, range) else set(indexes)


def _seq_nos(first_seq_no: int, indexes: Sequence[int]) -> list[list[int]]:
    return [[first_seq_no + first, first_seq_no + last] for first, last in ranges(indexes)]


def _traced_positions(batch: Batch, indexes: Indexes) -> list[tuple[list[int], list[int]]]:
    """The traced messages of a span, and where in it they stand; nothing if there are none."""
    if batch.traced is None:
        return []
    traced = among(batch.traced, indexes)
    if not traced:
        return []
    few = set(traced)
    return [(traced, [at for at, index in enumerate(indexes) if index in few])]


def _taken(
    open_ranges: list[SeqRange], said: Sequence[SeqRange]
) -> tuple[list[SeqRange], list[SeqRange]]:
    """What of the open ranges is said, and what stays open; both ascending, as both came."""
    taken: list[SeqRange] = []
    left: list[SeqRange] = []
    place = 0
    for first, last in open_ranges:
        at = first
        while place < len(said) and said[place][1] < at:
            place += 1
        step = place
        while step < len(said) and said[step][0] <= last:
            low, high = max(said[step][0], at), min(said[step][1], last)
            if low > at:
                left.append((at, low - 1))
            taken.append((low, high))
            at = high + 1
            step += 1
        if at <= last:
            left.append((at, last))
    return taken, left
