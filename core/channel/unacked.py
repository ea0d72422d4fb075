"""A channel's deliveries that its client has not acknowledged, in ranges of delivery tags."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import lt

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.messages.batch import Batch
from ..queue.in_flight import Delivery
from ..queue.span import Span

# A delivery and the positions in it, end exclusive, that an ack speaks of.
Part = tuple[Delivery, int, int]


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
_TAKEN = _Range(0, -1, Delivery(Span(Batch(b"", 0), range(0), 0, 0, False), None, None), 0)
# So many taken places at the front are cut off in one go.
_CUT_COUNT = 64
# So many holes there may be at least before they are closed.
HOLES_MAX = 64


class Unacked:
    """Ascending, disjoint ranges of tags; taking from the front is the fast case.

    A range that is taken whole, elsewhere, stays as a hole, its first tag above its last: to close
    each at once would move all later ranges, a million of them behind one late worker's.
    """

    __slots__ = ("_head", "_hole_count", "_holes_max", "_ranges", "count")

    def __init__(self, holes_max: int = HOLES_MAX) -> None:
        self._holes_max = holes_max
        self._ranges: list[_Range] = []
        # Those before this place are taken; they are cut off now and then.
        self._head = 0
        # Behind the head; at the head there is none.
        self._hole_count = 0
        self.count = 0

    def add(self, first_tag: int, delivery: Delivery) -> None:
        """A whole delivery went out with consecutive tags from `first_tag` on."""
        count = len(delivery.span)
        delivery.first_tag = first_tag
        self._ranges.append(_Range(first_tag, first_tag + count - 1, delivery, 0))
        self.count += count

    def holds(self, first_tag: int, last_tag: int) -> bool:
        """Is any of these tags held?"""
        ranges = self._ranges
        place = bisect_right(ranges, last_tag, lo=self._head, key=_first_tag) - 1
        if place >= self._head and ranges[place].first > ranges[place].last:
            # The held tags may be anywhere before the hole.
            self._close_holes()
            place = bisect_right(ranges, last_tag, key=_first_tag) - 1
        return place >= self._head and ranges[place].last >= first_tag

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

    def _leave_hole(self, taken: _Range) -> None:
        taken.delivery = _TAKEN.delivery
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
            ranges[place] = _TAKEN
        self._head = head

    def __iter__(self) -> Iterator[Part]:
        for held in self._ranges[self._head :]:
            if held.first <= held.last:
                yield held.delivery, held.low, held.low + held.last - held.first + 1


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
