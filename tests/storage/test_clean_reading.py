"""A segment read in pieces has the facts of one that is read at once, or is not read so at all."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from examples import examples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from journals import DIRECTORY
from leveret.storage.journal import clean_reading
from leveret.storage.journal.clean_reading import CleanReading
from leveret.storage.journal.segment_facts import SegmentFacts, read_facts
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from leveret.storage.journal.segment_index import encode_index
from leveret.storage.journal.segment_reader import SegmentReader
from segments_at_random import written_at_random

SEEDS = st.integers(0, 2**32)
SETTINGS = settings(max_examples=examples(20), deadline=None, phases=[Phase.generate])


def read_in_pieces(data: bytes, number: int, piece_bytes: int) -> SegmentFacts | None:
    clean = CleanReading(
        lambda offset, length: data[offset : offset + length], number, len(data), "a segment"
    )
    while clean.step():
        pass
    return clean.facts


def compared(facts: SegmentFacts) -> list[Any]:
    """The facts as an index has them, and those that none has."""
    holes = [hole[:3] for hole in facts.holes]
    return [encode_index(facts), facts.size, holes, facts.ends_in_zeros, facts.is_sealed]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_reading, "PIECE_BYTES", 700)


@SETTINGS
@given(SEEDS)
def test_a_segment_read_in_pieces_has_the_same_facts(seed: int) -> None:
    random = Random(seed)
    files = written_at_random(random)
    for number in segment_numbers(files, DIRECTORY):
        data = bytes(files.names[segment_path(DIRECTORY, number)].content)
        wanted = read_facts(SegmentReader(data, number, bytes(16), "a segment"))
        found = read_in_pieces(data, number, random.randint(200, 2_000))
        if found is None:
            assert wanted.holes
        else:
            assert compared(found) == compared(wanted)


@SETTINGS
@given(SEEDS)
def test_what_does_not_verify_is_left_to_the_whole_reading(seed: int) -> None:
    random = Random(seed)
    files = written_at_random(random)
    number = random.choice(segment_numbers(files, DIRECTORY))
    data = bytearray(files.names[segment_path(DIRECTORY, number)].content)
    end = len(data.rstrip(b"\0"))
    data[random.randrange(end)] ^= 1 << random.randrange(8)
    wanted = read_facts(SegmentReader(bytes(data), number, bytes(16), "a segment"))
    found = read_in_pieces(bytes(data), number, random.randint(200, 2_000))
    assert found is None or compared(found) == compared(wanted)
    assert found is None or wanted.holes == []
