"""The publishes of one channel that queues still owe a confirm (RabbitMQ's rabbit_confirms).

Per batch, for each queue, the indexes that were told to it: the very array, not a copy. A confirm
releases indexes of one queue; a message is confirmed when its last queue has confirmed it, and
rejected as soon as one rejects it. Either happens once: each number is answered exactly once.

Publishes outside confirm mode are kept too, without a number: the bytes that they take up in the
broker are released, so that the publisher's socket is read again, only when the queues have
accepted them.

RabbitMQ's cut-off rule decides which basic.ack and basic.nack frames answer a set of publishes: one
frame with multiple=true answers everything below the smallest open number, and each higher number
has its own frame. The cut-off also counts the answers of the other kind that are about to be sent,
so that a cumulative ack never covers a number that will be nacked (rabbit_channel,
coalesce_and_send). A lone answer is always multiple=false.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.messages.indexes import divided, ranges_of
from .by_exchange import count_by_exchange, single_exchange

# First and last of consecutive seq_nos.
SeqRange = tuple[int, int]

_NONE: Final = range(0)


def merge(ranges: Sequence[SeqRange]) -> list[SeqRange]:
    """Sort ranges and join those that touch."""
    if len(ranges) < 2:
        return list(ranges)
    merged: list[SeqRange] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            if last > merged[-1][1]:
                merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def coalesce(
    ranges: Sequence[SeqRange], others: Sequence[SeqRange], smallest_open: int
) -> tuple[int, list[SeqRange]]:
    """The answers for the numbers in `ranges`: one cumulative tag (0: none), then single ones.

    `others` are answers of the other kind sent in the same go; `smallest_open` is the smallest
    unconfirmed number, 0 if there is none.
    """
    merged = merge(ranges)
    if not merged:
        return 0, []
    if len(merged) == 1 and merged[0][0] == merged[0][1]:
        return 0, merged
    cut_off = smallest_open or merged[-1][1] + 1
    for first, _last in others:
        if first < cut_off:
            cut_off = first
    cumulative = 0
    singles: list[SeqRange] = []
    for first, last in merged:
        if last < cut_off:
            cumulative = last
        elif first < cut_off:
            cumulative = cut_off - 1
            singles.append((cut_off, last))
        else:
            singles.append((first, last))
    return cumulative, singles


def split_answered(
    open_ranges: list[SeqRange], answered: Sequence[SeqRange]
) -> tuple[list[SeqRange], list[SeqRange]]:
    """Split the open ranges into answered and open ones; both ascending, as both came."""
    found: list[SeqRange] = []
    left: list[SeqRange] = []
    place = 0
    for first, last in open_ranges:
        at = first
        while place < len(answered) and answered[place][1] < at:
            place += 1
        step = place
        while step < len(answered) and answered[step][0] <= last:
            low, high = max(answered[step][0], at), min(answered[step][1], last)
            if low > at:
                left.append((at, low - 1))
            found.append((low, high))
            at = high + 1
            step += 1
        if at <= last:
            left.append((at, last))
    return found, left


# Of all batches whose messages are not counted; nobody writes to it.
_NONE_OPEN: Final = bytearray()


class _Pending:
    """One batch: who owes what of it. `open_count` messages are not answered yet."""

    __slots__ = (
        "batch",
        "disjoint",
        "first_seq_no",
        "is_open",
        "open_count",
        "owed",
        "owed_by",
        "whole",
    )

    def __init__(
        self,
        batch: Batch,
        first_seq_no: int,
        by_queue: dict[object, Indexes],
        open_count: int,
        disjoint: bool,
        whole: bool,
    ) -> None:
        self.batch = batch
        self.first_seq_no = first_seq_no
        # What each queue owes.
        self.owed_by = by_queue
        self.open_count = open_count
        # Was each message told to one queue? Then what a queue says of it is its answer. Was every
        # queue told every message? Then queues are counted, not messages.
        self.disjoint = disjoint
        self.whole = whole
        # Per message how many queues owe it, and whether it is not answered. Made when needed: not
        # while a single queue owes, nor while each queue confirms all in one go.
        self.owed: list[int] | None = None
        self.is_open = _NONE_OPEN

    def count_owners(self) -> None:
        """Count messages from now on."""
        self.owed = [0] * len(self.batch)
        is_open = self.is_open = bytearray(len(self.batch))
        for indexes in self.owed_by.values():
            for index in indexes:
                self.owed[index] += 1
                is_open[index] = 1

    def open_indexes(self) -> list[int]:
        """The messages that are not answered."""
        if self.owed is None:
            return list(set().union(*self.owed_by.values()))
        return [index for index, is_open in enumerate(self.is_open) if is_open]

    def smallest_open(self) -> int:
        """The smallest number that is not answered; there must be one."""
        if self.owed is None:
            return self.first_seq_no + min(indexes[0] for indexes in self.owed_by.values())
        return self.first_seq_no + self.is_open.find(1)


class Unconfirmed:
    """The publishes that queues owe a confirm for, and those that their channel may answer now.

    `confirmed` and `rejected` are ranges of seq_nos to be answered; the channel takes and clears
    them. `released_bytes` counts the wire bytes of batches that no queue owes any of.
    """

    __slots__ = ("_confirmed", "_divided", "_open", "_rest", "nacked", "rejected", "released_bytes")

    def __init__(self) -> None:
        # Batches with numbers to answer, in the order of their numbers; and the others: publishes
        # outside confirm mode, and answered ones that some queue has not confirmed yet.
        self._open: dict[Batch, _Pending] = {}
        self._rest: dict[Batch, _Pending] = {}
        # Without the rows of the divided: batches whose queues have confirmed their parts.
        self._confirmed: list[SeqRange] = []
        # What queues have confirmed since the last answer: parts that together may be one range.
        self._divided: dict[_Pending, list[Indexes]] = {}
        self.rejected: list[SeqRange] = []
        self.released_bytes = 0
        # How many numbered publishes to each exchange were ever rejected.
        self.nacked: dict[bytes, int] = {}

    @property
    def confirmed(self) -> list[SeqRange]:
        """Ranges of seq_nos to be acked: what queues have of one batch is joined."""
        if self._divided:
            for pending, rows in self._divided.items():
                _append_joined(pending.first_seq_no, rows, self._confirmed)
            self._divided.clear()
        return self._confirmed

    def are_answers_due(self) -> bool:
        """Has the channel anything to answer?"""
        return bool(self._confirmed or self._divided or self.rejected)

    def acks(self) -> tuple[int, list[SeqRange]]:
        """The frames that ack all confirmed numbers, by `coalesce`, while nothing is to be nacked.

        These numbers are then answered.
        """
        confirmed, smallest = self._confirmed, self.smallest()
        above: list[SeqRange] = []
        for pending, rows in self._divided.items():
            first = pending.first_seq_no
            for row in rows:
                place = bisect_left(row, smallest - first) if smallest else len(row)
                if place:
                    # All numbers between have been answered, or are now: one frame acks them.
                    confirmed.append((first + row[0], first + row[place - 1]))
                if place < len(row):
                    above += ranges_of(row[place:] if place else row, first)
        self._divided.clear()
        cumulative, singles = coalesce(confirmed, (), smallest)
        confirmed.clear()
        if above:
            if singles and singles[0][1] < smallest:
                # Not alone after all.
                [(_, cumulative)], singles = singles, []
            singles = sorted(singles + above)
        return cumulative, singles

    def forget_confirmed(self) -> None:
        """Answered by others means: all numbers below `smallest` that are not rejected."""
        self._confirmed.clear()
        self._divided.clear()

    def pop_lone_confirm(self) -> int:
        """Remove the number to be acked if it is the only one to be answered; 0 if it is not."""
        confirmed = self._confirmed
        if len(confirmed) != 1 or self._divided or self.rejected:
            return 0
        first, last = confirmed[0]
        if first != last:
            return 0
        confirmed.clear()
        return first

    def __len__(self) -> int:
        """How many numbered publishes are open."""
        return sum(pending.open_count for pending in self._open.values())

    def open_by_exchange(self) -> dict[bytes, int]:
        """How many numbered publishes to each exchange are open."""
        counts: dict[bytes, int] = {}
        for pending in self._open.values():
            exchange = single_exchange(pending.batch)
            if exchange is not None:
                counts[exchange] = counts.get(exchange, 0) + pending.open_count
                continue
            for each, count in count_by_exchange(pending.batch, pending.open_indexes()).items():
                counts[each] = counts.get(each, 0) + count
        return counts

    def open_count(self, batch: Batch) -> int:
        """How many numbered publishes of this batch are open."""
        pending = self._open.get(batch)
        return pending.open_count if pending is not None else 0

    def first_seq_no(self, batch: Batch) -> int:
        """The number of the batch's first message; 0 if it has none, or nobody owes any of it."""
        pending = self._open.get(batch) or self._rest.get(batch)
        return 0 if pending is None else pending.first_seq_no

    def insert(
        self,
        batch: Batch,
        first_seq_no: int,
        by_queue: Mapping[Any, Indexes],
        told_count: int | None = None,
    ) -> None:
        """A batch was told to these queues; `first_seq_no` 0 outside confirm mode.

        Its messages that were told to nobody are not waited for. `told_count` are the others, if
        the caller knows.
        """
        if not by_queue:
            self.released_bytes += batch.wire_bytes
            return
        if len(by_queue) == 1:
            [indexes] = by_queue.values()
            open_count = len(indexes)
        elif told_count is not None:
            open_count = told_count
        else:
            open_count = max(map(len, by_queue.values()))
            if open_count < len(batch.starts):
                open_count = len(set().union(*by_queue.values()))
        told_count = sum(map(len, by_queue.values()))
        disjoint = told_count == open_count
        whole = told_count == len(by_queue) * len(batch.starts)
        pending = _Pending(batch, first_seq_no, dict(by_queue), open_count, disjoint, whole)
        (self._open if first_seq_no else self._rest)[batch] = pending

    def insert_whole(
        self, batch: Batch, first_seq_no: int, queue: object, indexes: Indexes
    ) -> None:
        """As `insert`, of a batch that was told to one queue, all of it."""
        pending = _Pending(batch, first_seq_no, {queue: indexes}, len(indexes), True, True)
        (self._open if first_seq_no else self._rest)[batch] = pending

    def confirm_unrouted(self, first_seq_no: int, indexes: Indexes) -> None:
        """Messages that matched no queue and were not mandatory: confirmed at once."""
        _append_ranges(first_seq_no, indexes, self._confirmed)

    def confirm(self, queue: object, batch: Batch, indexes: Indexes) -> bool:
        """A queue has these messages, on disk where that is promised.

        Was this the last that queues owed of a batch with numbers to answer?
        """
        pending = self._open.get(batch)
        if (
            pending is None
            or pending.owed_by.get(queue) is not indexes
            or pending.owed is not None
            or len(pending.owed_by) != 1
            or indexes.__class__ is not range
        ):
            self._answer(queue, batch, indexes, rejects=False)
            return pending is not None and batch not in self._open and batch not in self._rest
        # One queue has all that it was told of: what nearly all lone publishes come to.
        del self._open[batch]
        first_seq_no = pending.first_seq_no
        self._confirmed.append((first_seq_no + indexes[0], first_seq_no + indexes[-1]))
        self.released_bytes += batch.wire_bytes
        return True

    def reject(self, queue: object, batch: Batch, indexes: Indexes) -> None:
        """A queue will never have these messages; others' confirms of them no longer count."""
        self._answer(queue, batch, indexes, rejects=True)

    def smallest(self) -> int:
        """The smallest number that is not answered; 0 if all are."""
        for pending in self._open.values():
            return pending.smallest_open()
        return 0

    def _answer(self, queue: object, batch: Batch, indexes: Indexes, *, rejects: bool) -> None:
        """A queue says its part about messages; what it says of those it does not owe is nothing.

        State before effects: what it owes shrinks, then what nobody owes is to be answered.
        """
        pending = self._open.get(batch) or self._rest.get(batch)
        if pending is None:
            return
        owed = pending.owed_by.get(queue)
        if owed is None:
            return
        if indexes is owed and pending.owed is None and len(pending.owed_by) == 1:
            # One queue has all that it was told of: what most publishes come to.
            self._finish(pending, owed, rejects)
            return
        named, rest = _divide(owed, indexes)
        is_alone = pending.disjoint or len(pending.owed_by) == 1
        if pending.owed is None and not is_alone and (rejects or rest or not pending.whole):
            pending.count_owners()
        if rest:
            pending.owed_by[queue] = rest
        else:
            del pending.owed_by[queue]
        if pending.owed is not None:
            named = _done(pending.owed, pending.is_open, named, rejects)
        elif not is_alone:
            # Others owe the very same messages.
            named = _NONE
        pending.open_count -= len(named)
        if pending.first_seq_no:
            self._note(pending, named, rejects)
        if not pending.owed_by:
            self._open.pop(batch, None)
            self._rest.pop(batch, None)
            self.released_bytes += batch.wire_bytes
        elif not pending.open_count and batch in self._open:
            self._rest[batch] = self._open.pop(batch)

    def _finish(self, pending: _Pending, indexes: Indexes, rejects: bool) -> None:
        """The last queue that owes these has answered for all of them in one go."""
        batch = pending.batch
        if pending.first_seq_no:
            self._note(pending, indexes, rejects)
            if self._open.pop(batch, None) is None:
                del self._rest[batch]
        else:
            del self._rest[batch]
        self.released_bytes += batch.wire_bytes

    def _note(self, pending: _Pending, indexes: Indexes, rejects: bool) -> None:
        """These numbered publishes are to be answered."""
        if rejects:
            _append_ranges(pending.first_seq_no, indexes, self.rejected)
            for exchange, count in count_by_exchange(pending.batch, indexes).items():
                self.nacked[exchange] = self.nacked.get(exchange, 0) + count
        elif len(indexes) == len(pending.batch.starts):
            _append_ranges(pending.first_seq_no, indexes, self._confirmed)
        elif indexes:
            # Others may confirm the messages in between, before the channel answers.
            self._divided.setdefault(pending, []).append(indexes)


def _divide(owed: Indexes, indexes: Indexes) -> tuple[Indexes, Indexes]:
    """Split `owed` into the part among these indexes, and the rest."""
    if indexes is owed or indexes == owed:
        return owed, _NONE
    return divided(owed, indexes)


def _done(owed: list[int], is_open: bytearray, named: Indexes, rejects: bool) -> Indexes:
    """Take one owner from each of these messages; which of them are answered by that."""
    done = array("I")
    for index in named:
        owed[index] -= 1
        if is_open[index] and (rejects or not owed[index]):
            is_open[index] = 0
            done.append(index)
    return done


def _append_joined(first_seq_no: int, rows: list[Indexes], into: list[SeqRange]) -> None:
    """Add disjoint rows of ascending indexes as ranges of seq_nos."""
    low = min([row[0] for row in rows])
    high = max([row[-1] for row in rows])
    if sum(map(len, rows)) == high - low + 1:
        into.append((first_seq_no + low, first_seq_no + high))
    else:
        joined = rows[0] if len(rows) == 1 else array("I", sorted(chain.from_iterable(rows)))
        into += ranges_of(joined, first_seq_no)


def _append_ranges(first_seq_no: int, indexes: Indexes, into: list[SeqRange]) -> None:
    """Add ascending indexes as ranges of seq_nos."""
    if not indexes:
        return
    first, last = indexes[0], indexes[-1]
    if last - first == len(indexes) - 1:
        into.append((first_seq_no + first, first_seq_no + last))
    else:
        into += ranges_of(indexes, first_seq_no)
