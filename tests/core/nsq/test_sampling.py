"""sample_rate: which messages pass."""

from __future__ import annotations

import random
from array import array

from leveret.core.nsq.sampling import sampled


def test_a_number_above_the_rate_drops_its_message() -> None:
    octets = array("I", (0, 10, 11, 99, 110, 111, 9)).tobytes()
    assert sampled(octets, 10) == ([(0, 2), (4, 5), (6, 7)], [(2, 4), (5, 6)])


def test_every_message_passes_or_is_dropped(seed: int) -> None:
    chance = random.Random(seed)
    passed, dropped = sampled(chance.randbytes(4 * 1_000), 50)
    both = sorted([*passed, *dropped])
    assert [low for low, _ in both[1:]] == [high for _, high in both[:-1]]
    assert 300 < sum(high - low for low, high in passed) < 700
