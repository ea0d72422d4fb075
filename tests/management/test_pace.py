"""Long work has a slice in each round of the event loop, whoever's it is."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Generator

import pytest
from leveret.management.pace import LENGTHS_MAX, Committing, Pace, in_order


def _steps(name: str, count: int, done: list[str]) -> Generator[None, None, str]:
    for _ in range(count):
        done.append(name)
        yield
    return name


def test_one_coroutine_has_a_slice_in_a_round_and_each_has_its_turn() -> None:
    done: list[str] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        has_ended = False

        def round_begins() -> None:
            done.append("|")
            if not has_ended:
                loop.call_soon(round_begins)

        round_begins()
        # A slice of no time is one step.
        pace = Pace(0.0)
        found = await asyncio.gather(*(pace.carry_out(_steps(name, 5, done)) for name in "abc"))
        has_ended = True
        assert found == ["a", "b", "c"]

    asyncio.run(work())
    slices = "".join(done).split("|")
    assert max(map(len, slices)) == 1
    assert "".join(slices) == "abc" * 5


def test_who_does_not_wait_any_more_holds_up_nobody() -> None:
    done: list[str] = []

    async def work() -> None:
        pace = Pace(0.0)
        tasks = [asyncio.create_task(pace.carry_out(_steps(name, 3, done))) for name in "abc"]
        # All of them wait for their turn, behind this one.
        await pace.turn()
        tasks[0].cancel()
        tasks[1].cancel()
        assert await tasks[2] == "c"
        assert await pace.carry_out(_steps("d", 1, done)) == "d"

    asyncio.run(work())
    assert "".join(done) == "cccd"


def test_items_are_sorted_in_steps_as_they_are_in_one_go() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for count in (0, 1, 127, 128, 129, 1000):
        items = [(chance.randrange(50), number) for number in range(count)]
        found = asyncio.run(Pace().carry_out(in_order(items, lambda item: item[0])))
        assert found == sorted(items, key=lambda item: item[0])


async def _rounds(count: int) -> None:
    """So many rounds of the event loop."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        begun = loop.create_future()
        loop.call_soon(begun.set_result, None)
        await begun


class Commits:
    """Says that one is under way, until it ends."""

    def __init__(self) -> None:
        self.is_under_way = True
        self.count = 0
        self.callbacks: list[Callable[[], None]] = []

    def end(self) -> None:
        """Others may follow at once: that is for the test to say."""
        self.count += 1
        callbacks, self.callbacks = self.callbacks, []
        for each in callbacks:
            each()

    def committing(self) -> Committing:
        return Committing(
            lambda: self.is_under_way,
            lambda: self.count,
            lambda each: self.callbacks.append(each),
        )


def test_no_slice_begins_while_a_commit_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.management.pace.HOLD_SECONDS", 3600.0)
    monkeypatch.setattr("leveret.management.pace.BUSY_SECONDS", 0.0)
    done: list[str] = []

    async def work() -> None:
        commits = Commits()
        pace = Pace(0.0, commits.committing())
        tasks = [asyncio.create_task(pace.carry_out(_steps(name, 3, done))) for name in "ab"]
        # As many slices as commits end, though the next one is under way each time.
        for count in range(4):
            await _rounds(20)
            assert len(done) == count
            commits.end()
        # One of them does not wait any more.
        tasks[0].cancel()
        commits.is_under_way = False
        commits.end()
        assert await tasks[1] == "b"

    asyncio.run(work())
    assert "".join(done).count("b") == 3


def test_one_slice_follows_each_of_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.management.pace.HOLD_SECONDS", 3600.0)
    monkeypatch.setattr("leveret.management.pace.BUSY_SECONDS", 3600.0)
    done: list[str] = []

    async def work() -> None:
        commits = Commits()
        pace = Pace(0.0, commits.committing())
        task = asyncio.create_task(pace.carry_out(_steps("a", 3, done)))
        # None is under way as the slices are asked for, nor afterwards.
        await _rounds(20)
        for count in range(3):
            assert len(done) == count
            commits.is_under_way = False
            commits.end()
            await _rounds(20)
        commits.end()
        assert await task == "a"

    asyncio.run(work())
    assert done == ["a"] * 3


def test_slices_do_not_wait_where_no_commit_has_been_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("leveret.management.pace.HOLD_SECONDS", 3600.0)
    monkeypatch.setattr("leveret.management.pace.BUSY_SECONDS", 0.0)
    done: list[str] = []

    async def work() -> None:
        commits = Commits()
        commits.is_under_way = False
        commits.end()
        pace = Pace(0.0, commits.committing())
        assert await pace.carry_out(_steps("a", 3, done)) == "a"

    asyncio.run(work())
    assert done == ["a"] * 3


def test_a_slice_behind_a_long_wait_is_longer_but_not_by_much() -> None:
    async def work() -> tuple[float, float]:
        pace = Pace(1000.0)
        begun = time.perf_counter()
        # The first one: the last was never.
        longest = await pace.turn() - begun
        begun = time.perf_counter()
        return longest, await pace.turn() - begun

    longest, shortest = asyncio.run(work())
    assert longest >= 1000 * LENGTHS_MAX
    assert 1000 <= shortest < 1000 * LENGTHS_MAX


def test_a_commit_that_takes_long_does_not_stop_the_slices() -> None:
    done: list[str] = []

    async def work() -> None:
        pace = Pace(0.0, Commits().committing())
        assert await pace.carry_out(_steps("a", 5, done)) == "a"

    asyncio.run(work())
    assert done == ["a"] * 5
