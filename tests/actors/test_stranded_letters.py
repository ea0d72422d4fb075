"""Dead letters that wait for the end of a failed queue: how long, how many, and for which."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from leveret.actors.dead_letters.publisher import LOOK_SECONDS, StrandedLetters
from leveret.actors.messages import WakeAt
from leveret.amqp_frames.messages.batch import Batch
from leveret.core.dead_letters.letters import Stranded
from leveret.core.definitions import QueueDefinition
from leveret.core.queue.span import Span
from recorders import RecordingReference

NOW = 100.0


def queue(name: str) -> QueueDefinition:
    return QueueDefinition(name, 1, True)


FAILED, OTHER, SOURCE, GONE_SOURCE = (queue(name) for name in ("failed", "other", "s", "g"))


def stranded(
    target: QueueDefinition, source: QueueDefinition, entry_id: int, batch: Batch | None = None
) -> Stranded:
    batch = Batch(b"", 1) if batch is None else batch
    span = Span(batch, range(1), entry_id, 0, True)
    return Stranded(target, source, (span, "rejected"))


@pytest.fixture
def ticker() -> RecordingReference:
    return RecordingReference()


@pytest.fixture
def wishes(ticker: RecordingReference) -> list[WakeAt]:
    """The wishes that the ticker gets."""
    return ticker.received


def letters_of(
    ticker: RecordingReference,
    existing: set[QueueDefinition],
    count_max: int = 100,
    bytes_max: int = 1000,
) -> StrandedLetters:
    context: Any = SimpleNamespace(
        stranded_letters_max=count_max,
        stranded_letters_bytes_max=bytes_max,
        vhosts=SimpleNamespace(table_of=lambda each: "table" if each in existing else None),
        runtime=SimpleNamespace(scheduler=SimpleNamespace(time=lambda: NOW)),
        ticker=ticker,
    )
    return StrandedLetters(context, "actor")  # type: ignore[arg-type]


def test_letters_stranded_by_a_deleted_queue_are_freed_once(
    ticker: RecordingReference,
    wishes: list[WakeAt],
) -> None:
    existing = {FAILED, OTHER, SOURCE}
    letters = letters_of(ticker, existing)
    letters.add([stranded(FAILED, SOURCE, 1), stranded(OTHER, SOURCE, 2)])
    letters.add([stranded(FAILED, SOURCE, 3), stranded(FAILED, GONE_SOURCE, 4)])
    # One wish for all.
    assert [wish.when for wish in wishes] == [NOW + LOOK_SECONDS]
    letters.woken()
    assert list(letters.freed()) == []
    assert len(wishes) == 2
    existing.remove(FAILED)
    letters.woken()
    freed = list(letters.freed())
    # That of a source that has gone has nowhere to be settled.
    assert [(source.name, dead[0].first_entry_id) for source, dead in freed] == [("s", 1), ("s", 3)]
    existing.remove(OTHER)
    letters.woken()
    assert [dead[0].first_entry_id for _, dead in letters.freed()] == [2]
    # Nothing is left to look for.
    assert len(wishes) == 3


def test_no_more_letters_are_kept_than_there_is_room_for(
    ticker: RecordingReference, wishes: list[WakeAt]
) -> None:
    letters = letters_of(ticker, {SOURCE}, count_max=3)
    letters.add([stranded(FAILED, SOURCE, number) for number in range(1, 3)])
    letters.add([stranded(FAILED, SOURCE, number) for number in range(3, 6)])
    letters.add([stranded(FAILED, SOURCE, 6)])
    assert [dead[0].first_entry_id for _, dead in letters.freed()] == [1, 2, 3]
    assert len(wishes) == 1


def test_stranded_letters_are_bounded_in_bytes_too(
    ticker: RecordingReference, wishes: list[WakeAt]
) -> None:
    existing = {SOURCE, OTHER, FAILED}
    letters = letters_of(ticker, existing, bytes_max=100)
    large, small, other = (Batch(bytes(size), 1) for size in (60, 40, 30))
    # Each batch counts once, however many of its messages are kept.
    letters.add([stranded(FAILED, SOURCE, number, large) for number in (1, 2)])
    letters.add([stranded(OTHER, SOURCE, 3, small), stranded(OTHER, SOURCE, 4, other)])
    existing.remove(FAILED)
    assert [dead[0].first_entry_id for _, dead in letters.freed()] == [1, 2]
    # There is room again.
    letters.add([stranded(OTHER, SOURCE, 5, other)])
    existing.remove(OTHER)
    assert [dead[0].first_entry_id for _, dead in letters.freed()] == [3, 5]
    assert len(wishes) == 1
