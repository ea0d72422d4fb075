"""Delivery tags that are out, in ranges, against a plain dict of tags."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from leveret.amqp_frames.batch import Batch
from leveret.amqp_frames.errors import SoftError
from leveret.core.in_flight import Delivery
from leveret.core.span import Span
from leveret.core.unacked import Part, Unacked, runs_of_tags


def delivery_of(count: int) -> Delivery:
    return Delivery(Span(Batch(b"", 1), range(count), 1, 0, False), object(), None)


def positions(parts: list[Part]) -> list[tuple[Delivery, int]]:
    return [(delivery, place) for delivery, low, high in parts for place in range(low, high)]


def test_an_unknown_delivery_tag_is_refused_in_rabbitmqs_words() -> None:
    unacked = Unacked()
    unacked.add(1, delivery_of(2))
    unacked.take(1, False)
    for tag in (0, 1, 3):
        with pytest.raises(SoftError) as refused:
            unacked.take(tag, False)
        assert refused.value.reply_text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def test_tag_0_with_multiple_names_everything_and_never_fails() -> None:
    unacked = Unacked()
    assert unacked.take(0, True) == []
    delivery = delivery_of(3)
    unacked.add(1, delivery)
    assert unacked.take(0, True) == [(delivery, 0, 3)]
    assert unacked.count == 0


def test_multiple_needs_its_own_tag_to_be_held() -> None:
    unacked = Unacked()
    unacked.add(1, delivery_of(3))
    unacked.take(3, False)
    with pytest.raises(SoftError):
        unacked.take(3, True)
    assert unacked.count == 2


class UnackedModel(RuleBasedStateMachine):
    """Tags go out and come back in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.unacked = Unacked()
        self.held: dict[int, tuple[Delivery, int]] = {}
        self.next_tag = 1

    @rule(count=st.integers(1, 5))
    def deliver(self, count: int) -> None:
        delivery = delivery_of(count)
        self.unacked.add(self.next_tag, delivery)
        for place in range(count):
            self.held[self.next_tag + place] = (delivery, place)
        self.next_tag += count

    @rule(data=st.data(), multiple=st.booleans())
    def take(self, data: st.DataObject, multiple: bool) -> None:
        tag = data.draw(st.integers(0, self.next_tag))
        if tag == 0 and multiple:
            named = sorted(self.held)
        elif tag not in self.held:
            with pytest.raises(SoftError):
                self.unacked.take(tag, multiple)
            return
        else:
            named = [each for each in sorted(self.held) if each == tag or (multiple and each < tag)]
        taken = positions(self.unacked.take(tag, multiple))
        assert taken == [self.held.pop(each) for each in named]

    @rule(data=st.data())
    def take_a_row(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(1, self.next_tag))
        last = first
        while last + 1 in self.held and data.draw(st.booleans()):
            last += 1
        if first not in self.held:
            with pytest.raises(SoftError):
                list(self.unacked.take_range(first, last))
            return
        taken = positions(list(self.unacked.take_range(first, last)))
        assert taken == [self.held.pop(tag) for tag in range(first, last + 1)]

    @invariant()
    def what_is_held_is_what_the_model_holds(self) -> None:
        assert positions(list(self.unacked)) == [self.held[tag] for tag in sorted(self.held)]
        assert self.unacked.count == len(self.held)


TestUnackedModel = UnackedModel.TestCase
TestUnackedModel.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=20))
def test_runs_of_tags_name_the_same_acks_in_the_same_order(acks: list[tuple[int, bool]]) -> None:
    runs = runs_of_tags([tag for tag, _ in acks], bytearray(multiple for _, multiple in acks))
    named = [(tag, multiple) for first, last, multiple in runs for tag in range(first, last + 1)]
    assert named == acks


def test_one_ack_per_delivery_in_order_is_one_run() -> None:
    assert list(runs_of_tags([4, 5, 6, 7], bytearray(4))) == [(4, 7, False)]
