"""Unacked against a dictionary from tag to message."""

from __future__ import annotations

import pytest
from batches import numbered
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from leveret.amqp_frames.errors import SoftError
from leveret.core.channel.outstanding import HOLES_MAX, Unacked
from leveret.core.channel.transaction import Part
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.span import Span

BATCH = numbered(12)


class UnackedMachine(RuleBasedStateMachine):
    """Deliveries of any length, acked in any order."""

    holes_max = HOLES_MAX

    def __init__(self) -> None:
        super().__init__()
        self.unacked = Unacked(self.holes_max)
        self.held: dict[int, tuple[Delivery, int]] = {}
        self.next_tag = 1

    @rule(counts=st.lists(st.integers(1, 12), min_size=1, max_size=6))
    def deliver(self, counts: list[int]) -> None:
        for count in counts:
            delivery = Delivery(Span(BATCH, range(count), 1, 0, True), "queue", None)
            self.unacked.add(self.next_tag, delivery)
            for position in range(count):
                self.held[self.next_tag + position] = delivery, position
            self.next_tag += count

    def tag(self, data: st.DataObject) -> int:
        if self.held and data.draw(st.integers(0, 5)):
            return data.draw(st.sampled_from(sorted(self.held)))
        return data.draw(st.integers(0, self.next_tag + 1))

    def expect(self, parts: list[Part], tags: list[int]) -> None:
        flat = [(delivery, at) for delivery, low, high in parts for at in range(low, high)]
        assert flat == [self.held.pop(tag) for tag in tags]

    @rule(data=st.data(), multiple=st.booleans())
    def ack(self, data: st.DataObject, multiple: bool) -> None:
        tag = self.tag(data)
        if multiple and not tag:
            self.expect(self.unacked.remove(0, True), sorted(self.held))
        elif tag not in self.held:
            with pytest.raises(SoftError, match=f"unknown delivery tag {tag}$"):
                self.unacked.remove(tag, multiple)
        else:
            tags = [each for each in sorted(self.held) if each <= tag] if multiple else [tag]
            self.expect(self.unacked.remove(tag, multiple), tags)

    @rule(data=st.data(), count=st.integers(1, 15))
    def ack_row(self, data: st.DataObject, count: int) -> None:
        first = self.tag(data)
        tags = range(first, first + count)
        unknown = next((tag for tag in tags if tag not in self.held), None)
        parts: list[Part] = []
        if unknown is None:
            parts += self.unacked.remove_range(first, first + count - 1)
            self.expect(parts, list(tags))
            return
        with pytest.raises(SoftError, match=f"unknown delivery tag {unknown}$"):
            parts += self.unacked.remove_range(first, first + count - 1)
        self.expect(parts, list(range(first, unknown)))

    @rule()
    def recover(self) -> None:
        self.expect(self.unacked.remove_all(), sorted(self.held))

    @rule(data=st.data(), counts=st.lists(st.integers(1, 6), max_size=4))
    def roll_back(self, data: st.DataObject, counts: list[int]) -> None:
        """Some are taken, in any order, and held again."""
        parts: list[Part] = []
        taken: set[int] = set()
        for count in counts:
            free = sorted(set(self.held) - taken)
            if free:
                first = data.draw(st.sampled_from(free))
                last = first
                while last + 1 in free and last - first < count:
                    last += 1
                parts += self.unacked.remove_range(first, last)
                taken.update(range(first, last + 1))
        assert self.unacked.count == len(self.held) - len(taken)
        self.unacked.put_back(parts)

    @rule(data=st.data(), count=st.integers(1, 15))
    def ask(self, data: st.DataObject, count: int) -> None:
        first = self.tag(data)
        tags = range(first, first + count)
        assert self.unacked.holds(tags[0], tags[-1]) == any(tag in self.held for tag in tags)
        absent = [tag for tag in tags if tag not in self.held]
        expected = (absent[0], absent[-1]) if absent else None
        assert self.unacked.not_held(tags[0], tags[-1]) == expected

    @invariant()
    def what_is_held_is_the_models(self) -> None:
        flat = [(delivery, at) for delivery, low, high in self.unacked for at in range(low, high)]
        assert flat == [self.held[tag] for tag in sorted(self.held)]
        assert self.unacked.count == len(self.held)


class ClosingMachine(UnackedMachine):
    """The same, with holes that are closed as soon as half of the ranges are such."""

    holes_max = 0


TestUnacked = UnackedMachine.TestCase
TestUnacked.settings = settings(deadline=None, max_examples=examples(60), stateful_step_count=40)
TestClosing = ClosingMachine.TestCase
TestClosing.settings = settings(deadline=None, max_examples=examples(30), stateful_step_count=40)
