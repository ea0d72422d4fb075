"""How the rounds of dead letters get larger, and when not."""

from __future__ import annotations

import pytest
from leveret.core.dead_letters.letters import (
    DEAD_LETTER_BYTES_PER_ROUND_MIN,
    DEAD_LETTERS_PER_ROUND_MIN,
    DeadLetterRounds,
)


def left_over(rounds: DeadLetterRounds, coming: int, count: int, left: int = 0) -> list[int]:
    """The rest that each of `count` rounds leaves if so many messages arrive before each."""
    left_each = []
    for _ in range(count):
        left = max(0, left + coming - rounds.messages_max)
        rounds.ended(left)
        left_each.append(left)
    return left_each


@pytest.mark.parametrize("coming", [257, 5_000, 50_000])
def test_waiting_letters_do_not_grow_without_end_however_many_come(coming: int) -> None:
    left = left_over(DeadLetterRounds(), coming, 1000)
    assert max(left) < 20 * coming
    assert max(left[500:]) <= max(left[:500])


def test_letters_that_came_at_once_are_worked_off_in_small_rounds() -> None:
    rounds = DeadLetterRounds()
    left = left_over(rounds, 0, 100, 1_000_000)
    assert left[-1] == 1_000_000 - 100 * DEAD_LETTERS_PER_ROUND_MIN
    assert rounds.bytes_max == DEAD_LETTER_BYTES_PER_ROUND_MIN


def test_rounds_are_small_again_when_nothing_is_left() -> None:
    rounds = DeadLetterRounds()
    left_over(rounds, 5_000, 10)
    assert rounds.messages_max > DEAD_LETTERS_PER_ROUND_MIN
    assert rounds.bytes_max > DEAD_LETTER_BYTES_PER_ROUND_MIN
    rounds.ended(0)
    assert rounds.messages_max == DEAD_LETTERS_PER_ROUND_MIN
    assert rounds.bytes_max == DEAD_LETTER_BYTES_PER_ROUND_MIN
