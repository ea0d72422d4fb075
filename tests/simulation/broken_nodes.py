"""Nodes with a fault each, which the simulation must find: a method of the product is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from leveret.actors.messages import ReadRow
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.methods import BasicAck, encode_method
from leveret.core.publishing import publisher
from leveret.core.publishing.unconfirmed import Unconfirmed
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.deferral import Deferral
from leveret.core.queue.ready import Ready
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import Span
from leveret.storage.files import Files
from leveret.storage.journal import recovery, segment_log
from leveret.storage.journal.compaction import Compaction, LiveRange
from leveret.storage.journal.discarding import Discarding
from leveret.storage.journal.journal import Journal
from leveret.storage.journal.pins import Pins
from leveret.storage.journal.recovery import Recovery
from leveret.storage.journal.segment_facts import SegmentFacts
from leveret.storage.journal.segment_header import SegmentHeader
from leveret.storage.journal.segment_index import decode_bound, decode_index, index_path
from leveret.storage.journal.segment_log import SegmentLog


class Replaced(NamedTuple):
    """In `owner`, `name` is replaced."""

    owner: Any
    name: str
    replacement: Callable[..., Any]


class Fault(NamedTuple):
    """In `owner`, `name` is replaced. One of a few seeds from `seed` on finds it."""

    owner: Any
    name: str
    replacement: Callable[..., Any]
    seed: int
    # Replaced as well: alone it does no harm.
    also: Replaced | None = None

    @contextmanager
    def there(self) -> Iterator[None]:
        """All nodes have it."""
        with ExitStack() as stack:
            for each in filter(None, (self, self.also)):
                stack.enter_context(patch.object(each.owner, each.name, each.replacement))
            yield


class _OtherFiles:
    """A disk with one operation that is done in another way."""

    def __init__(self, files: Files, **operations: Callable[..., Any]) -> None:
        self._files = files
        for name, operation in operations.items():
            setattr(self, name, operation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def _unsynced(_log: SegmentLog) -> None:
    """Confirm before sync: nothing is ever synced at a commit."""


def _acks_first(
    batch: Batch,
    indexes: Sequence[int],
    first_seq_no: int,
    channel_number: int,
    frame_max_bytes: int,
    _tags_returns: bool,
) -> bytes:
    """Confirm before return."""
    returns = publisher.encode_returns(batch, indexes, 0, channel_number, frame_max_bytes)
    if not first_seq_no:
        return returns
    acks = (encode_method(channel_number, BasicAck(first_seq_no + index)) for index in indexes)
    return b"".join(acks) + returns


_make_recovery = Recovery.__init__


def _truncating(recovery: Recovery, files: Files, *others: Any, **named: Any) -> None:
    """Truncate too much: a start cuts off the last record that verifies, too."""
    greedy = _OtherFiles(
        files, truncate=lambda path, length: files.truncate(path, max(0, length - 60))
    )
    _make_recovery(recovery, greedy, *others, **named)


_create_segment = segment_log.create_segment


def _create_unnamed(files: Files, *others: Any) -> int:
    """Missing directory sync: a new segment's name may be lost."""
    forgetful: Any = _OtherFiles(files, sync_directory=lambda _directory: None)
    return _create_segment(forgetful, *others)


def _no_nack(_unconfirmed: Unconfirmed, *_publishes: object) -> None:
    """Lost nack."""


def _uncounted(_journal: Journal, *_delivered: object) -> None:
    """Attempts not counted: the journal does not write deliveries."""


def _put_behind(ready: Ready, span: Span) -> None:
    """Order of a returned message wrong: it goes behind all others."""
    ready.append(span)


_settle = Journal.settle


def _settle_some(
    journal: Journal, queue_id: int, ranges: Sequence[tuple[int, int]], sync: bool = False
) -> None:
    """Settle forgotten: of several settled messages one is not."""
    _settle(journal, queue_id, ranges[1:] if len(ranges) > 1 else ranges, sync)


_read = MessageQueue.read


def _read_mixed(
    messages: MessageQueue, rows: Sequence[ReadRow], through: int, effects: Effects
) -> list[tuple[int, int]]:
    """Paged body of another message: two rows that are read back have each other's bytes."""
    mixed = list(rows)
    if len(mixed) > 1 and len(mixed[0].indexes) == len(mixed[1].indexes):
        one, other = mixed[:2]
        mixed[0] = other._replace(first_entry_id=one.first_entry_id)
        mixed[1] = one._replace(first_entry_id=other.first_entry_id)
    return _read(messages, mixed, through, effects)


_due = Deferral.due


def _due_early(deferral: Deferral, uptime_ms: int) -> list[Span]:
    """Deferred message due too early."""
    return _due(deferral, uptime_ms + 1_000)


_keep = Pins.keep


def _dropped(pins: Pins, going: Iterable[int]) -> list[int]:
    """Live segment dropped: with one that nothing needs, the next goes as well."""
    free = _keep(pins, going)
    return [*free, max(free) + 1] if free else free


def _get_some_back(consumer: Consumer, count: int) -> None:
    """Credit leaked: of several messages answered together, one keeps its credit."""
    consumer.in_flight -= count - (count > 1)


_answer = Compaction.answer


def _answer_less(compaction: Compaction, queue_id: int, live: Sequence[LiveRange]) -> None:
    """Compaction drops a live record: it does not learn of the last live range."""
    _answer(compaction, queue_id, live[:-1])


def _read_any_index(
    files: Files, directory: str, _path: str, _size: int, header: SegmentHeader | None
) -> SegmentFacts | None:
    """Stale index believed: it need not be of the segment as it is now."""
    if header is None:
        return None
    own = index_path(directory, header.number)
    try:
        data = files.read(own, 0, files.size(own))
    except OSError:
        return None
    bound = decode_bound(data)
    if bound is None:
        return None
    as_it_was = header._replace(
        directory_id=bound.directory_id, epoch=bound.epoch, checksum=bound.header_checksum
    )
    facts = decode_index(data, as_it_was)
    if facts is not None:
        facts.header = header
    return facts


def _leave_index(_discarding: Discarding, _number: int) -> None:
    """The index of a segment that was rewritten stays, as if it could not be removed."""


FAULTS: Final = {
    "confirm before sync": Fault(SegmentLog, "sync", _unsynced, 7),
    "confirm before return": Fault(publisher, "encode_returned", _acks_first, 1),
    "truncate too much": Fault(Recovery, "__init__", _truncating, 13),
    "missing directory sync": Fault(segment_log, "create_segment", _create_unnamed, 7),
    "lost nack": Fault(Unconfirmed, "reject", _no_nack, 11),
    "attempts not counted": Fault(Journal, "delivered", _uncounted, 2),
    "order of a returned message wrong": Fault(Ready, "put_back", _put_behind, 6),
    "settle forgotten": Fault(Journal, "settle", _settle_some, 1),
    "paged body of another message": Fault(MessageQueue, "read", _read_mixed, 1),
    "deferred message due too early": Fault(Deferral, "due", _due_early, 1),
    "live segment dropped": Fault(Pins, "keep", _dropped, 1),
    "credit leaked": Fault(Consumer, "get_back", _get_some_back, 5),
    "compaction drops a live record": Fault(Compaction, "answer", _answer_less, 17),
    "stale index believed": Fault(
        recovery,
        "read_index",
        _read_any_index,
        359,
        also=Replaced(Discarding, "discard_index", _leave_index),
    ),
}
