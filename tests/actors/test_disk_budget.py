from __future__ import annotations

from leveret.actors.disk.journal import LOOK_BYTES_MIN, DiskBudget

MIB = 1 << 20


def test_far_above_the_limit_a_part_of_the_room_is_written_between_two_looks() -> None:
    budget = DiskBudget(50 * MIB)
    budget.looked(450 * MIB)
    assert [budget.wrote(20 * MIB) for _ in range(6)] == [False] * 4 + [True, False]


def test_a_writer_of_any_speed_is_noticed_before_the_room_above_the_limit_is_used_up() -> None:
    """A look is asked for at once, and answered before so much is written again."""
    for commit_bytes in (4096, MIB, 8 * MIB):
        free, limit = 300 * MIB, 50 * MIB
        budget, looks = DiskBudget(limit), 0
        while free >= limit:
            free -= commit_bytes
            if budget.wrote(commit_bytes):
                looks += 1
                budget.looked(free)
        assert limit - free <= commit_bytes + LOOK_BYTES_MIN
        assert looks < 60


def test_below_the_limit_it_is_looked_at_now_and_then() -> None:
    budget = DiskBudget(50 * MIB)
    budget.looked(0)
    assert not budget.wrote(LOOK_BYTES_MIN - 1)
    assert budget.wrote(1)
    assert not budget.wrote(1)
