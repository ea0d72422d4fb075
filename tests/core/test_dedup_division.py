"""A window divides a publish into new messages and repeats."""

from __future__ import annotations

from batches import batch_of
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.dedup_headers import IdentityReader
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.queue.dedup import DedupWindow, divide_by_identity
from wire import publish

# Id, None for a message without one, and whether it is persistent.
Message = tuple[int | None, bool]
messages = st.lists(st.tuples(st.sampled_from((None, 1, 2, 3, 4)), st.booleans()), max_size=12)


def of(*each: Message) -> Batch:
    return batch_of(
        *(
            publish(
                "q",
                b"",
                Properties(
                    headers=None
                    if number is None
                    else table_of({"x-dedup-producer": "p", "x-dedup-id": f"{number}"}),
                    delivery_mode=2 if is_persistent else 1,
                ),
            )
            for number, is_persistent in each
        )
    )


@given(reads=st.lists(messages.filter(bool), min_size=1, max_size=4), durable=st.booleans())
def test_every_message_is_new_or_repeats_what_the_window_or_its_own_batch_holds(
    reads: list[list[Message]], durable: bool
) -> None:
    window, reader = DedupWindow(1000), IdentityReader()
    # What was taken: ids of stored messages and of transient ones.
    stored: set[int] = set()
    passing: set[int] = set()
    for read in reads:
        fresh, again = [], []
        repeats_stored, repeats_transient = [], []
        new_stored: set[int] = set()
        new_passing: set[int] = set()
        for index, (number, is_persistent) in enumerate(read):
            is_stored = durable and is_persistent
            if number in stored:
                repeats_stored.append(index)
            elif number in passing and not is_stored:
                repeats_transient.append(index)
            elif number in new_stored or (number in new_passing and not is_stored):
                again.append(index)
            else:
                fresh.append(index)
                if number is not None:
                    (new_stored if is_stored else new_passing).add(number)
        batch = of(*read)
        division = divide_by_identity(window, reader, batch, range(len(batch)), durable)
        assert list(division.fresh) == fresh
        assert [bool(each) for each in division.identities] == [
            read[index][0] is not None for index in fresh
        ]
        assert list(division.repeats_stored) == repeats_stored
        assert list(division.repeats_transient) == repeats_transient
        assert list(division.again) == again
        window.remember(list(filter(None, division.identities)), 1, 0)
        stored |= new_stored
        passing |= new_passing


def test_a_batch_of_which_all_is_new_stays_as_it_is() -> None:
    batch = of((1, True), (2, True))
    indexes = range(2)
    division = divide_by_identity(DedupWindow(10), IdentityReader(), batch, indexes, True)
    assert division.fresh is indexes
