"""Dead letters that their queue refuses with reject-publish-dlx: what is made of them answers."""

from __future__ import annotations

import itertools
from array import array

import pytest
from batches import batch_of
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.dead_letters.letters import DeadLetters, Letter, PendingLetters
from leveret.core.definitions import QueueDefinition
from leveret.core.exchanges.table import carry_out
from leveret.core.queue.span import RefusedSpan, Span
from wire import publish


def published(letters: DeadLetters, *made_of):
    """What `publish` returns when all its steps are carried out."""
    return carry_out(letters.publish(*made_of))


@pytest.fixture
def letters(commands) -> DeadLetters:
    return DeadLetters({"/": commands.table}.get, itertools.count(7).__next__)


@pytest.fixture
def source(commands) -> QueueDefinition:
    commands.declare_exchange("dlx")
    arguments = table_of({"x-dead-letter-exchange": "dlx"})
    return commands.declare_queue("source", durable=True, arguments=arguments)


def refused_by(commands, letters, source) -> tuple[QueueDefinition, Batch, RefusedSpan]:
    """Two messages of `source` are dead letters for "full", which refuses the first."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "last"}
    full = commands.declare_queue("full", durable=True, arguments=table_of(arguments))
    commands.bind("full", "dlx", "k")
    span = Span(batch_of(publish("k"), publish("k")), range(2), 11, 1, stored=True)
    made = published(letters, source, [(span, "rejected")], 5)
    refused = RefusedSpan(made.batch, array("I", [0]))
    letters.refused(full, [(refused, "maxlen")])
    # It says so, too; that is no answer.
    assert letters.confirm(full, made.batch, [0]) == []
    return full, made.batch, refused


def test_a_refused_letter_is_settled_when_its_own_dead_letter_is_safe(
    commands, letters, source
) -> None:
    other = commands.declare_queue("other", durable=True)
    commands.bind("other", "dlx", "k")
    full, batch, refused = refused_by(commands, letters, source)
    last = commands.declare_queue("last", durable=True)
    onward = published(letters, full, [(refused, "maxlen")], 5)
    assert list(onward.by_queue) == [last]
    letters.confirm(other, batch, [0, 1])
    assert letters.settled == {}
    assert letters.confirm(full, batch, [1]) == [1]
    assert list(letters.settled.pop(source)) == [12]
    letters.confirm(last, onward.batch, [0])
    assert list(letters.settled.pop(source)) == [11]
    assert letters.answered == [((batch, 0), True)]
    assert len(letters) == 0


def test_a_letter_that_its_queue_refuses_is_dropped_if_that_has_no_dead_letter_exchange(
    commands, letters, source
) -> None:
    full, batch, refused = refused_by(commands, letters, source)
    assert published(letters, full, [(refused, "maxlen")], 5) is None
    assert list(letters.settled.pop(source)) == [11]
    letters.confirm(full, batch, [1])
    assert list(letters.settled.pop(source)) == [12]
    assert len(letters) == 0


def test_a_failed_queue_that_owes_a_refused_letter_strands_the_first_original(
    commands, letters, source
) -> None:
    full, batch, refused = refused_by(commands, letters, source)
    last = commands.declare_queue("last", durable=True)
    onward = published(letters, full, [(refused, "maxlen")], 5)
    letters.failed(last, onward.batch, [0])
    ((where, whose, (span, reason)),) = letters.stranded
    assert (where, whose, span.first_entry_id, reason) == (last, source, 11, "rejected")
    assert letters.answered == [((batch, 0), False)]
    letters.confirm(full, batch, [1])
    assert list(letters.settled.pop(source)) == [12]
    assert len(letters) == 0


def test_many_queues_may_refuse_a_letter_one_after_the_other(commands, letters, source) -> None:
    full = commands.declare_queue("full")
    batches: list[Batch] = []
    refused: Letter | None = None
    for _ in range(2_000):
        batch = batch_of(publish("k"))
        pending = PendingLetters(source, [])
        letters.owe(batch, pending)
        batches.append(batch)
        pending.add(0, 0 if refused else 11, 1, refused)
        pending.record_owed({full: range(1)}, 1)
        refused = batch, 0
    for each in batches[:-1]:
        letters.refused(full, [(RefusedSpan(each, range(1)), "maxlen")])
    assert letters.confirm(full, batch, [0]) == [0]
    assert list(letters.settled.pop(source)) == [11]
    assert len(letters) == 0


def test_no_message_of_a_refused_row_has_an_entry() -> None:
    refused = RefusedSpan(batch_of(publish("k"), publish("k"), publish("k")), range(3))
    part = refused.part(1, 3).part(1, 2)
    assert (part.first_entry_id, part.stored, list(part.indexes)) == (0, False, [2])
