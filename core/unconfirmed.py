"""The publishes of one channel that queues still owe a confirm (RabbitMQ's rabbit_confirms).

Per batch, for each queue, the indexes that were told to it: the very array, not a copy. A confirm
releases indexes of one queue; a message is confirmed when its last queue has confirmed it, and
rejected as soon as one rejects it. Either happens once: each number is answered exactly once.

Publishes outside confirm mode are kept too, without a number: what they take up in the broker is
released, and so the publisher's socket read, only when the queues have taken them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

from ..amqp_frames.batch import Batch, Indexes
from .coalescing import SeqRange


class _Pending:
    """One batch: who owes what of it. `open_count` messages are not answered yet."""

    __slots__ = ("answered", "batch", "first_seq_no", "open_count", "owed", "told", "whole")

    def __init__(
        self, batch: Batch, first_seq_no: int, told: dict[object, Indexes], open_count: int
    ) -> None:
        self.batch = batch
        self.first_seq_no = first_seq_no
        self.told = told
        self.open_count = open_count
        # Does every queue own every message? Then queues are counted, not messages.
        self.whole = all(len(indexes) == len(batch) for indexes in told.values())
        # Per message: how many queues owe it, and whether it is answered. Made when needed: a
        # batch that one queue owns and confirms in one go never has them.
        self.owed: list[int] | None = None
        self.answered: bytearray | None = None

    def count_owners(self) -> list[int]:
        owed = self.owed
        if owed is None:
            owed = self.owed = [0] * len(self.batch)
            self.answered = bytearray(b"\1") * len(self.batch)
            for indexes in self.told.values():
                for index in indexes:
                    owed[index] += 1
                    self.answered[index] = 0
        return owed

    def smallest_open(self) -> int:
        if self.answered is None:
            return self.first_seq_no + min(indexes[0] for indexes in self.told.values())
        return self.first_seq_no + self.answered.find(0)


class Unconfirmed:
    """What one channel waits for, and what it may now answer.

    `confirmed` and `rejected` are ranges of seq_nos to be answered; the channel takes and clears
    them. `released_bytes` counts the wire bytes of batches that are done.
    """

    __slots__ = ("_numbered", "_unnumbered", "confirmed", "rejected", "released_bytes")

    def __init__(self) -> None:
        self._numbered: dict[Batch, _Pending] = {}
        self._unnumbered: dict[Batch, _Pending] = {}
        self.confirmed: list[SeqRange] = []
        self.rejected: list[SeqRange] = []
        self.released_bytes = 0

    def __len__(self) -> int:
        """How many numbered publishes are open."""
        return sum(pending.open_count for pending in self._numbered.values())

    def insert(self, batch: Batch, first_seq_no: int, told: Mapping[object, Indexes]) -> None:
        """A batch was told to these queues; `first_seq_no` 0 outside confirm mode.

        Its messages that were told to nobody are not waited for.
        """
        if not told:
            self.released_bytes += batch.wire_bytes()
            return
        open_count = max(map(len, told.values()))
        if open_count < len(batch) and len(told) > 1:
            open_count = len(set().union(*told.values()))
        pending = _Pending(batch, first_seq_no, dict(told), open_count)
        (self._numbered if first_seq_no else self._unnumbered)[batch] = pending

    def confirm_unrouted(self, first_seq_no: int, indexes: Iterable[int]) -> None:
        """Messages that matched no queue and were not mandatory: confirmed at once."""
        _append_ranges(first_seq_no, indexes, self.confirmed)

    def confirm(self, queue: object, batch: Batch, indexes: Indexes) -> None:
        """A queue has these messages, on disk where that is promised."""
        pending = self._find(batch)
        if pending is None:
            return
        told = pending.told.get(queue)
        if told is None:
            return
        if pending.owed is None and len(told) == len(indexes):
            if len(pending.told) == 1:
                # The queue owns all that is open of the batch and confirms all of it.
                self._answer_all(pending, indexes, self.confirmed)
                self._remove(pending)
                return
            if pending.whole:
                del pending.told[queue]
                return
        owed = pending.count_owners()
        answered = pending.answered
        assert answered is not None
        done: list[int] = []
        for index in indexes:
            owed[index] -= 1
            if owed[index] == 0 and not answered[index]:
                answered[index] = 1
                done.append(index)
        self._forget(pending, queue, indexes)
        self._answer(pending, done, self.confirmed)

    def reject(self, queue: object, batch: Batch, indexes: Indexes) -> None:
        """A queue will never have these messages; others' confirms of them no longer count."""
        pending = self._find(batch)
        if pending is None or queue not in pending.told:
            return
        owed = pending.count_owners()
        answered = pending.answered
        assert answered is not None
        done: list[int] = []
        for index in indexes:
            owed[index] -= 1
            if not answered[index]:
                answered[index] = 1
                done.append(index)
        self._forget(pending, queue, indexes)
        self._answer(pending, done, self.rejected)

    def queue_down(self, queue: object) -> None:
        """A queue died: it rejects all that it still owed."""
        for pendings in (self._numbered, self._unnumbered):
            for pending in list(pendings.values()):
                indexes = pending.told.get(queue)
                if indexes is not None:
                    self.reject(queue, pending.batch, indexes)

    def smallest(self) -> int:
        """The smallest number that is not answered; 0 if all are."""
        for pending in self._numbered.values():
            return pending.smallest_open()
        return 0

    def _find(self, batch: Batch) -> _Pending | None:
        return self._numbered.get(batch) or self._unnumbered.get(batch)

    def _forget(self, pending: _Pending, queue: object, indexes: Indexes) -> None:
        """Note that the queue no longer owes these."""
        told = pending.told[queue]
        if len(told) == len(indexes):
            del pending.told[queue]
            return
        gone = set(indexes)
        rest = [index for index in told if index not in gone]
        pending.told[queue] = array("I", rest)

    def _answer_all(self, pending: _Pending, indexes: Indexes, into: list[SeqRange]) -> None:
        if pending.first_seq_no:
            first = pending.first_seq_no
            if indexes[-1] - indexes[0] == len(indexes) - 1:
                into.append((first + indexes[0], first + indexes[-1]))
            else:
                _append_ranges(first, indexes, into)

    def _answer(self, pending: _Pending, done: list[int], into: list[SeqRange]) -> None:
        if done and pending.first_seq_no:
            _append_ranges(pending.first_seq_no, done, into)
        pending.open_count -= len(done)
        if not pending.open_count and not pending.told:
            self._remove(pending)
        elif not pending.open_count:
            # All answered, but a queue has yet to say so: it no longer counts as open.
            pendings = self._numbered if pending.first_seq_no else self._unnumbered
            if pendings is self._numbered:
                del pendings[pending.batch]
                self._unnumbered[pending.batch] = pending

    def _remove(self, pending: _Pending) -> None:
        self._numbered.pop(pending.batch, None)
        self._unnumbered.pop(pending.batch, None)
        self.released_bytes += pending.batch.wire_bytes()


def _append_ranges(first_seq_no: int, indexes: Iterable[int], into: list[SeqRange]) -> None:
    """Add ascending indexes as ranges of seq_nos."""
    low = high = -2
    for index in indexes:
        if index == high + 1:
            high = index
            continue
        if high >= 0:
            into.append((first_seq_no + low, first_seq_no + high))
        low = high = index
    if high >= 0:
        into.append((first_seq_no + low, first_seq_no + high))
