"""The deliveries of a channel that its client has not acknowledged, with all that depends on them.

Delivery tags ascend from 1 over all consumers of the channel, basic.get and direct replies. A
delivery that awaits its ack is held under its tags (`Unacked`), has a deadline if its queue sets
one (`AckTimeouts`), and takes up credit of the channel until its messages return to their queue,
settled or not (core/connection/channel_credit.py). In tx mode acknowledgements wait for the commit
(transaction.py).

x-consumer-timeout closes the channel of a delivery that waits too long for its ack. Only
deliveries of queues that were declared with the argument are noted, those of basic.get too. As in
RabbitMQ up to 4.2 the broker closes the channel with 406, and its messages in flight return to
their queues. Times are seconds of the caller's clock.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import lt
from typing import Final, NamedTuple

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.decoder import Acks
from ...amqp_frames.errors import SoftError
from ...amqp_frames.messages.batch import Batch
from ...amqp_frames.methods import BasicAck
from ..connection.channel_credit import ChannelCredit
from ..queue.in_flight import Delivery
from ..queue.span import Span
from .transaction import HeldAcks, Outcome, Part, Transaction


class _Range:
    """Tags first to last stand for the positions of a delivery from `low` on."""

    __slots__ = ("delivery", "first", "last", "low")

    def __init__(self, first: int, last: int, delivery: Delivery, low: int) -> None:
        self.first = first
        self.last = last
        self.delivery = delivery
        self.low = low


def _first_tag(held: _Range) -> int:
    return held.first


# Fills the places of ranges that are taken: they must not keep their deliveries alive.
_REMOVED = _Range(0, -1, Delivery(Span(Batch(b"", 0), range(0), 0, 0, False), None, None), 0)
# In place of the messages of a delivery whose time-out has passed: they are the queue's again.
_NO_MESSAGES = Span(Batch(b"", 0), range(0), 0, 0, False)
# So many taken places at the front are cut off in one go.
_CUT_COUNT = 64
# So many holes there may be at least before they are closed.
HOLES_MAX = 64
# So many ranges there are at least before it is looked which of their deliveries have become one.
RANGES_MIN: Final = 256
# So many ranges of tags whose time-out has passed are kept, by default, for late answers.
TIMED_OUT_RANGES_MAX = 10_000
# Fewer of them are not worth a look for neighbours.
_MERGED_MIN = 64


class Unacked:
    """Ascending, disjoint ranges of tags; taking from the front is the fast case.

    A range that is taken whole, elsewhere, stays as a hole, its first tag above its last: to close
    each at once would move all later ranges, a million of them behind one late worker's.

    Of deliveries whose in-flight time-out has passed, the tags and the consumer are kept, because
    an answer may still come and gives its credit back. One delivery without messages stands for
    all of a consumer's, and neighbours become one range.

    The queue makes one delivery of neighbours that it has paged (core/queue/in_flight.py). As soon
    as there are twice as many ranges as were left then, those of one delivery become one.
    """

    __slots__ = (
        "_head",
        "_hole_count",
        "_holes_max",
        "_ranges",
        "_ranges_max",
        "_ranges_min",
        "_timed_out",
        "_timed_out_count",
        "_timed_out_ranges_max",
        "_unmerged_max",
        "count",
    )

    def __init__(
        self,
        holes_max: int = HOLES_MAX,
        timed_out_ranges_max: int = TIMED_OUT_RANGES_MAX,
        ranges_min: int = RANGES_MIN,
    ) -> None:
        self._holes_max = holes_max
        self._ranges_min = self._ranges_max = ranges_min
        self._timed_out_ranges_max = timed_out_ranges_max
        # By queue and consumer, what stands for their deliveries whose time-out has passed.
        self._timed_out: dict[tuple[object, object], Delivery] = {}
        # How many ranges of these were made since neighbours were merged, and were left then.
        self._timed_out_count = 0
        self._unmerged_max = _MERGED_MIN
        self._ranges: list[_Range] = []
        # Those before this place are taken; they are cut off now and then.
        self._head = 0
        # Behind the head; at the head there is none.
        self._hole_count = 0
        self.count = 0

    def add(self, first_tag: int, delivery: Delivery) -> None:
        """A whole delivery went out with consecutive tags from `first_tag` on."""
        count = len(delivery.span.indexes)
        delivery.first_tag = first_tag
        self._ranges.append(_Range(first_tag, first_tag + count - 1, delivery, 0))
        self.count += count
        if len(self._ranges) > self._ranges_max:
            self._join()

    def _join(self) -> None:
        """Make neighbours of one delivery one range."""
        self._close_holes()
        joined: list[_Range] = []
        for held in self._ranges[self._head :]:
            if held.delivery.joined is not None:
                held.delivery, at = held.delivery.found()
                held.low += at
            before = joined[-1] if joined else None
            if (
                before is not None
                and before.delivery is held.delivery
                and before.last + 1 == held.first
                and before.low + held.first - before.first == held.low
            ):
                before.last = held.last
            else:
                joined.append(held)
        self._ranges = joined
        self._head = 0
        self._ranges_max = max(self._ranges_min, 2 * len(joined))

    def holds(self, first_tag: int, last_tag: int) -> bool:
        """Is any of these tags held, and its time-out has not passed?"""
        ranges = self._ranges
        place = bisect_right(ranges, last_tag, lo=self._head, key=_first_tag) - 1
        if place >= self._head and ranges[place].first > ranges[place].last:
            # The held tags may be anywhere before the hole.
            self._close_holes()
            place = bisect_right(ranges, last_tag, key=_first_tag) - 1
        while place >= self._head and ranges[place].last >= first_tag:
            if ranges[place].delivery.span is not _NO_MESSAGES:
                return True
            place -= 1
        return False

    def time_out(self, parts: Iterable[Part]) -> list[Part]:
        """The queue has taken these messages back: keep what a late answer needs, where unanswered.

        Past the limit the oldest tags are forgotten, and returned, because their credit is to be
        given back; to answer one of these is an error then.
        """
        self._close_holes()
        for delivery, low, high in parts:
            self._mark(delivery, delivery.first_tag + low, delivery.first_tag + high - 1)
        if self._timed_out_count <= self._unmerged_max:
            return []
        return self._merge()

    def _mark(self, delivery: Delivery, first_tag: int, last_tag: int) -> None:
        ranges = self._ranges
        place = max(self._head, bisect_right(ranges, first_tag, key=_first_tag) - 1)
        while place < len(ranges) and ranges[place].first <= last_tag:
            held = ranges[place]
            place += 1
            first, last = max(held.first, first_tag), min(held.last, last_tag)
            if held.delivery is not delivery or first > last:
                continue
            # A touch divides a delivery.
            before, behind = held.first, held.last
            held.first, held.last = first, last
            if last < behind:
                low = held.low + last + 1 - before
                ranges.insert(place, _Range(last + 1, behind, delivery, low))
            if before < first:
                ranges.insert(place - 1, _Range(before, first - 1, delivery, held.low))
                place += 1
            held.delivery = self._standing_for(delivery)
            held.delivery.unanswered += last - first + 1
            held.low = first - held.delivery.first_tag
            self._timed_out_count += 1

    def _standing_for(self, delivery: Delivery) -> Delivery:
        key = delivery.queue, delivery.consumer
        found = self._timed_out.get(key)
        if found is None:
            found = self._timed_out[key] = Delivery(_NO_MESSAGES, delivery.queue, delivery.consumer)
            found.first_tag = 1
            found.remaining = []
        return found

    def _merge(self) -> list[Part]:
        """Make neighbours one range, and forget the oldest beyond the limit."""
        merged: list[_Range] = []
        own: list[_Range] = []
        for held in self._ranges[self._head :]:
            if held.delivery.span is _NO_MESSAGES:
                before = merged[-1] if merged else None
                if (
                    before is not None
                    and before.delivery is held.delivery
                    and before.last + 1 == held.first
                ):
                    before.last = held.last
                    continue
                own.append(held)
            merged.append(held)
        forgotten = own[: max(0, len(own) - self._timed_out_ranges_max)]
        del own[: len(forgotten)]
        parts = [_part(held) for held in forgotten]
        for held in forgotten:
            self.count -= held.last - held.first + 1
            held.last = held.first - 1
        self._ranges = [held for held in merged if held.first <= held.last]
        self._head = 0
        used = {id(held.delivery) for held in own}
        self._timed_out = {key: d for key, d in self._timed_out.items() if id(d) in used}
        self._timed_out_count = len(own)
        self._unmerged_max = max(_MERGED_MIN, 2 * len(own))
        return parts

    def not_held(self, first_tag: int, last_tag: int) -> tuple[int, int] | None:
        """The lowest and the highest of these tags that are not held; None if all are."""
        self._close_holes()
        ranges, head = self._ranges, self._head
        place = max(head, bisect_right(ranges, first_tag, lo=head, key=_first_tag) - 1)
        while place < len(ranges) and ranges[place].first <= first_tag:
            first_tag = max(first_tag, ranges[place].last + 1)
            place += 1
        place = bisect_right(ranges, last_tag, lo=head, key=_first_tag) - 1
        while place >= head and ranges[place].last >= last_tag:
            last_tag = min(last_tag, ranges[place].first - 1)
            place -= 1
        return (first_tag, last_tag) if first_tag <= last_tag else None

    def find(self, delivery_tag: int) -> Part | None:
        """The message that is held under this tag, as a part of its delivery.

        None if its time-out has passed; SoftError PRECONDITION_FAILED as in `remove`.
        """
        ranges = self._ranges
        place = bisect_right(ranges, delivery_tag, lo=self._head, key=_first_tag) - 1
        if place < self._head or ranges[place].last < delivery_tag:
            raise _unknown(delivery_tag)
        held = ranges[place]
        if held.delivery.span is _NO_MESSAGES:
            return None
        low = held.low + delivery_tag - held.first
        return held.delivery, low, low + 1

    def remove(self, delivery_tag: int, multiple: bool) -> list[Part]:
        """Remove what a basic.ack, nack or reject names.

        Tag 0 with multiple names everything. SoftError PRECONDITION_FAILED for a tag that is not
        held: never issued, settled before, or another channel's.
        """
        if multiple:
            if delivery_tag == 0:
                return self.remove_all()
            return self._remove_up_to(delivery_tag)
        return list(self.remove_range(delivery_tag, delivery_tag))

    def remove_head(self, delivery_tag: int) -> Part | None:
        """Remove the first held delivery, if it has this tag alone: what a lone ack comes to.

        None, and nothing is removed, if it is any other.
        """
        ranges, head = self._ranges, self._head
        if head == len(ranges):
            return None
        held = ranges[head]
        if not held.first == delivery_tag == held.last:
            return None
        self.count -= 1
        if head + 1 == len(ranges):
            ranges.clear()
            self._head = 0
        else:
            self._drop_head(head + 1)
        return held.delivery, held.low, held.low + 1

    def remove_all(self) -> list[Part]:
        """Remove everything that is held."""
        parts = list(self)
        self._ranges.clear()
        self._head = self._hole_count = 0
        self.count = 0
        return parts

    def put_back(self, parts: Sequence[Part]) -> None:
        """Hold removed messages again, under their old tags."""
        self._close_holes()
        ranges = self._ranges[self._head :]
        for delivery, low, high in parts:
            first_tag = delivery.first_tag
            ranges.append(_Range(first_tag + low, first_tag + high - 1, delivery, low))
            self.count += high - low
        ranges.sort(key=_first_tag)
        self._ranges = ranges
        self._head = 0

    def _remove_up_to(self, tag: int) -> list[Part]:
        ranges = self._ranges
        head = self._head
        # As RabbitMQ's collect_acks: the tag itself must be held.
        place = bisect_right(ranges, tag, lo=head, key=_first_tag) - 1
        if place < head or ranges[place].last < tag:
            raise _unknown(tag)
        parts: list[Part] = []
        for held in ranges[head : place + 1]:
            if held.first > held.last:
                self._hole_count -= 1
                continue
            last = min(held.last, tag)
            count = last - held.first + 1
            parts.append((held.delivery, held.low, held.low + count))
            self.count -= count
            held.low += count
            held.first = last + 1
        self._drop_head(place if ranges[place].first <= ranges[place].last else place + 1)
        return parts

    def remove_range(self, first_tag: int, last_tag: int) -> Iterator[Part]:
        """Remove consecutive tags, each acknowledged on its own, and yield them as it goes.

        If one of them is not held, the SoftError names it; those before it were acknowledged.
        """
        ranges = self._ranges
        while first_tag <= last_tag:
            head = self._head
            if head < len(ranges) and ranges[head].first <= first_tag <= ranges[head].last:
                place = head
            else:
                place = bisect_right(ranges, first_tag, lo=head, key=_first_tag) - 1
                if place < head or ranges[place].last < first_tag:
                    raise _unknown(first_tag)
            held = ranges[place]
            last = min(held.last, last_tag)
            low = held.low + first_tag - held.first
            count = last - first_tag + 1
            part = held.delivery, low, low + count
            self.count -= count
            self._cut(place, first_tag, last)
            first_tag = last + 1
            yield part

    def _cut(self, place: int, first_tag: int, last_tag: int) -> None:
        """Remove tags from the range at `place`, splitting it if they lie inside."""
        held = self._ranges[place]
        if first_tag == held.first:
            held.low += last_tag - first_tag + 1
            held.first = last_tag + 1
            if held.first > held.last:
                if place == self._head:
                    self._drop_head(place + 1)
                else:
                    self._leave_hole(held)
            return
        if last_tag < held.last:
            low = held.low + last_tag + 1 - held.first
            rest = _Range(last_tag + 1, held.last, held.delivery, low)
            self._ranges.insert(place + 1, rest)
        held.last = first_tag - 1

    def _leave_hole(self, removed: _Range) -> None:
        removed.delivery = _REMOVED.delivery
        self._hole_count += 1
        if self._hole_count > max(self._holes_max, (len(self._ranges) - self._head) // 2):
            self._close_holes()

    def _close_holes(self) -> None:
        if self._hole_count:
            # In place: `remove_range` may be going through it.
            self._ranges[:] = [
                held for held in self._ranges[self._head :] if held.first <= held.last
            ]
            self._head = self._hole_count = 0

    def _drop_head(self, head: int) -> None:
        ranges = self._ranges
        while self._hole_count and head < len(ranges) and ranges[head].first > ranges[head].last:
            self._hole_count -= 1
            head += 1
        if head == len(ranges) or (head >= _CUT_COUNT and head * 2 >= len(ranges)):
            del ranges[:head]
            self._head = 0
            return
        for place in range(self._head, head):
            ranges[place] = _REMOVED
        self._head = head

    def __iter__(self) -> Iterator[Part]:
        for held in self._ranges[self._head :]:
            if held.first <= held.last:
                yield _part(held)


def _part(held: _Range) -> Part:
    return held.delivery, held.low, held.low + held.last - held.first + 1


def runs_of_tags(tags: Sequence[int], multiples: bytearray) -> Iterator[tuple[int, int, bool]]:
    """Group acks, in order, into (first tag, last tag, multiple).

    Single ones that ascend by one form a run; one ack per delivery, in order, is what most clients
    send.
    """
    count = len(tags)
    if (
        count > 1
        and tags[-1] - tags[0] == count - 1
        and not any(multiples)
        and all(map(lt, tags, islice(tags, 1, None)))
    ):
        yield tags[0], tags[-1], False
        return
    first = last = 0
    for tag, multiple in zip(tags, multiples, strict=True):
        if not multiple and first and tag == last + 1:
            last = tag
            continue
        if first:
            yield first, last, False
            first = 0
        if multiple or not tag:
            yield tag, tag, bool(multiple)
        else:
            first = last = tag
    if first:
        yield first, last, False


def _unknown(tag: int) -> SoftError:
    return SoftError(PRECONDITION_FAILED, f"unknown delivery tag {tag}")


# When its time is over, the first and the last tag, and how long it was in ms.
_Note = tuple[float, int, int, int]
# Past so many noted deliveries, the acked ones among them are forgotten.
NOTED_MIN: Final = 64


class AckTimeouts:
    """Notes delivery tags and by when they must be acked.

    The caller calls `check` at each time that `wake_at` returns.
    """

    __slots__ = (
        "_channel_number",
        "_lapsed",
        "_noted",
        "_noted_max",
        "_unacked",
        "_wakes_at",
        "is_transactional",
    )

    def __init__(self, channel_number: int, unacked: Unacked) -> None:
        self._channel_number = channel_number
        self._unacked = unacked
        # By time.
        self._noted: list[_Note] = []
        self._noted_max = NOTED_MIN
        # In tx mode: notes of tags that are not held any more, which a rollback may give back.
        self.is_transactional = False
        self._lapsed: list[_Note] = []
        self._wakes_at = float("inf")

    def note(self, first_tag: int, last_tag: int, timeout_ms: int, now: float) -> None:
        """The client must ack these tags, which are sent now, within this time."""
        over = now + timeout_ms / 1000
        heapq.heappush(self._noted, (over, first_tag, last_tag, timeout_ms))
        if len(self._noted) > self._noted_max:
            if self.is_transactional:
                self._lapsed += [note for note in self._noted if not self._is_held(note)]
            self._noted = list(filter(self._is_held, self._noted))
            heapq.heapify(self._noted)
            self._noted_max = max(NOTED_MIN, 2 * len(self._noted))

    def check(self, now: float) -> None:
        """Raise 406 if a tag is still held past its time; the caller calls this when it wakes."""
        self._wakes_at = float("inf")
        while self._noted and self._noted[0][0] <= now:
            note = heapq.heappop(self._noted)
            if self._is_held(note):
                raise SoftError(
                    PRECONDITION_FAILED,
                    f"delivery acknowledgement on channel {self._channel_number} timed out. "
                    f"Timeout value used: {note[3]} ms. This timeout value can be configured, "
                    "see consumers doc guide to learn more",
                )
            if self.is_transactional:
                self._lapsed.append(note)

    def transaction_ended(self, is_rolled_back: bool) -> None:
        """A commit has made acks final; a rollback holds their tags again, with their deadlines."""
        if is_rolled_back:
            self._noted += filter(self._is_held, self._lapsed)
            heapq.heapify(self._noted)
        self._lapsed.clear()

    def forget_returning(self) -> None:
        """All held tags are about to return to their queues.

        Tags that were acked in an open transaction stay noted, because a rollback holds them again.
        """
        noted = []
        for over, first_tag, last_tag, timeout_ms in self._noted:
            tags = self._unacked.not_held(first_tag, last_tag)
            if tags is not None:
                noted.append((over, *tags, timeout_ms))
        heapq.heapify(noted)
        self._noted = noted

    def _is_held(self, note: _Note) -> bool:
        return self._unacked.holds(note[1], note[2])

    def wake_at(self) -> float | None:
        """When to `check` next; None if the caller was told of a time as early, or none is due."""
        if not self._noted or self._noted[0][0] >= self._wakes_at:
            return None
        self._wakes_at = self._noted[0][0]
        return self._wakes_at


class Returned(NamedTuple):
    """Parts by the queue that they return to, and the queues to be offered the freed credit.

    `delay_ms`: for how long undone messages are deferred; None: as each queue has it.
    """

    by_queue: dict[object, list[Part]]
    offered: Sequence[object]
    delay_ms: int | None = None


_NOTHING: Final = Returned({}, ())


class Settled(NamedTuple):
    """The effects of acknowledgements: tell the queues, then fail if there is an error."""

    # The messages that the client named; in tx mode their queues hear of them by the commit.
    parts: list[Part]
    returned: Returned
    error: SoftError | None


class Outstanding:
    """The deliveries of one channel, numbered, held and returned."""

    __slots__ = ("_credit", "_next_delivery_tag", "_unacked", "timeouts", "transaction")

    def __init__(
        self,
        channel_number: int,
        credit: ChannelCredit,
        timed_out_ranges_max: int = TIMED_OUT_RANGES_MAX,
    ) -> None:
        self._credit = credit
        self._next_delivery_tag = 1
        self._unacked = Unacked(timed_out_ranges_max=timed_out_ranges_max)
        self.timeouts = AckTimeouts(channel_number, self._unacked)
        # In tx mode, where acknowledgements wait.
        self.transaction: Transaction | None = None

    def __len__(self) -> int:
        """How many messages the client has neither acked nor given back."""
        return self._unacked.count

    def number(self, message_count: int) -> int:
        """Assign consecutive delivery tags; return the first."""
        first_tag = self._next_delivery_tag
        self._next_delivery_tag += message_count
        return first_tag

    def hold(self, delivery: Delivery) -> int:
        """Number a delivery and hold it until it is acknowledged; return its first tag."""
        first_tag = self._next_delivery_tag
        self._next_delivery_tag = first_tag + len(delivery.span.indexes)
        self._unacked.add(first_tag, delivery)
        return first_tag

    def time_out(self, parts: list[Part]) -> Settled:
        """Their queue has taken these back. Their credit stays in use until the client answers.

        The oldest, which are forgotten past the limit, are settled: their credit is free.
        """
        return Settled([], self.return_parts(self._unacked.time_out(parts)), None)

    def acknowledge(self, acks: Acks) -> Settled:
        """Settle the messages that a run of basic.ack names, up to the first tag that is not held.

        The error, 406, is that tag's, or says that the transaction is too large; the acks before it
        are valid.
        """
        lone = self.acknowledge_first(acks)
        if lone is not None:
            part, offered = lone
            return Settled([part], Returned({part[0].queue: [part]}, offered), None)
        return self.acknowledge_all(acks)

    def acknowledge_all(self, acks: Acks) -> Settled:
        """As `acknowledge`, where `acknowledge_first` is of no use."""
        parts: list[Part] = []
        fault: SoftError | None = None
        try:
            for first, last, multiple in runs_of_tags(acks.tags, acks.multiples):
                if multiple:
                    parts += self._unacked.remove(first, True)
                else:
                    parts += self._unacked.remove_range(first, last)
        except SoftError as error:
            fault = error
        settled = self._settle(Outcome.ACKED, parts)
        fault = settled.error or fault
        if fault is None:
            return settled
        fault.class_id, fault.method_id = BasicAck.class_id, BasicAck.method_id
        return settled._replace(error=fault)

    def acknowledge_first(self, acks: Acks) -> tuple[Part, Sequence[object]] | None:
        """Settle the first message that is held if the run is one ack of it, as it mostly is.

        None, and nothing is settled, if it is anything else. With the message come the queues to be
        offered its credit.
        """
        if len(acks.tags) != 1 or self.transaction is not None:
            return None
        # Multiple or not: nothing is held below it.
        part = self._unacked.remove_head(acks.tags[0])
        if part is None:
            return None
        return part, () if part[0].consumer is None else self._credit.release(1)

    def settle(self, delivery_tag: int, multiple: bool, outcome: Outcome) -> Settled:
        """Settle the messages that one ack, nack or reject names; 406 for a tag that is not held.

        Tag 0 with multiple names all.
        """
        return self._settle(outcome, self._unacked.remove(delivery_tag, multiple))

    def find(self, delivery_tag: int) -> Part | None:
        """The held message with this tag; None if its time-out has passed, 406 if none is held."""
        return self._unacked.find(delivery_tag)

    def remove(self, delivery_tag: int) -> list[Part]:
        """Hold the message with this tag no longer, for `settle_removed`; 406 as `settle`."""
        return self._unacked.remove(delivery_tag, False)

    def settle_removed(
        self, outcome: Outcome, parts: list[Part], delay_ms: int | None = None
    ) -> Settled:
        """Settle messages that `remove` has given.

        `delay_ms`: for how long returned ones are deferred; None: as their queue has it.
        """
        return self._settle(outcome, parts, delay_ms)

    def return_all(self) -> Settled:
        """Return all held messages, in tx mode, too: basic.recover waits for no commit.

        None is deferred, because none has failed.
        """
        self.timeouts.forget_returning()
        parts = self._unacked.remove_all()
        return Settled(parts, self.return_parts(parts, 0), None)

    def hold_again(self, parts: list[Part]) -> None:
        """A transaction was rolled back: its acknowledgements never were."""
        self._unacked.put_back(parts)

    def _settle(self, outcome: Outcome, parts: list[Part], delay_ms: int | None = None) -> Settled:
        if self.transaction is None:
            return Settled(parts, self.return_parts(parts, delay_ms), None)
        try:
            if parts:
                self.transaction.hold_acks(HeldAcks(outcome, parts, delay_ms))
        except SoftError as too_much:
            return Settled(parts, _NOTHING, too_much)
        return Settled(parts, _NOTHING, None)

    def return_parts(self, parts: list[Part], delay_ms: int | None = None) -> Returned:
        """Return parts that are held no longer to their queues, and free their credit.

        Each queue gets its parts in one go: a consumer would be handed a first part again before
        messages that belong before it have come back.
        """
        by_queue: dict[object, list[Part]] = {}
        count = 0
        for part in parts:
            delivery, low, high = part
            if delivery.consumer is not None:
                count += high - low
            by_queue.setdefault(delivery.queue, []).append(part)
        return Returned(by_queue, self._credit.release(count) if count else (), delay_ms)
