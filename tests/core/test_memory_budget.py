"""The memory that the messages of all queues hold, and which queues page."""

from __future__ import annotations

from leveret.core.queue.memory_budget import KEPT_BYTES_MAX, MemoryBudget

MIB = 1024 * 1024


def test_within_the_budget_nobody_pages() -> None:
    budget: MemoryBudget[str] = MemoryBudget(64 * MIB)
    budget.change("a", 64 * MIB)
    assert budget.used_bytes <= budget.relief_bytes


def test_the_fullest_page_until_a_quarter_is_free() -> None:
    budget: MemoryBudget[str] = MemoryBudget(64 * MIB)
    for name, held in (("a", 10), ("b", 50), ("c", 5)):
        budget.change(name, held * MIB)
    assert budget.used_bytes > budget.relief_bytes
    assert budget.relieve() == [("b", KEPT_BYTES_MAX)]
    assert budget.used_bytes <= budget.relief_bytes, "not again before more has come"
    budget.change("a", 14 * MIB + 1)
    assert budget.used_bytes > budget.relief_bytes
    budget.change("b", 0)
    assert budget.used_bytes == 19 * MIB + 1
    assert budget.relief_bytes == budget.budget_bytes


def test_queues_that_share_reads_page_together() -> None:
    budget: MemoryBudget[int] = MemoryBudget(64 * MIB)
    # One read after another brings each of ten queues a tenth.
    for number in range(10):
        budget.change(number, 7 * MIB + number)
    budget.change(10, MIB)
    paging = budget.relieve()
    assert paging == [(number, KEPT_BYTES_MAX) for number in reversed(range(10))]


def test_many_queues_keep_little_each() -> None:
    budget: MemoryBudget[int] = MemoryBudget(MIB)
    for number in range(1000):
        budget.change(number, 2000)
    paging = budget.relieve()
    assert all(kept_bytes <= MIB // 4000 for _, kept_bytes in paging)
    freed = sum(2000 - kept_bytes for _, kept_bytes in paging)
    assert 2_000_000 - freed <= MIB * 3 // 4


def test_behind_a_peak_the_next_try_comes_with_what_is_added_to_what_is_held_then() -> None:
    budget: MemoryBudget[str] = MemoryBudget(16 * MIB)
    budget.change("a", 90 * MIB)
    assert budget.relieve()
    budget.change("a", 40 * MIB)
    assert budget.used_bytes <= budget.relief_bytes
    budget.change("b", 2 * MIB)
    assert budget.used_bytes > budget.relief_bytes, "not only above the peak"
    assert budget.relieve()
    budget.change("a", 0)
    assert budget.relief_bytes == budget.budget_bytes
