"""Long lists are made in slices, once for all that ask within a moment, from rows that are kept."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Generator, Hashable
from functools import partial
from typing import Any

import pytest
from leveret.management.pace import Pace, in_order
from leveret.management.snapshots import LongList, Row, Snapshots, encoded_rows


class Things:
    """A list of numbers with a state each, and a count of the rows that were made."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self.version = 0
        self.states = dict.fromkeys(numbers, 0)
        self.made: list[int] = []

    def replace(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self.states = {number: self.states.get(number, 0) for number in numbers}
        self.version += 1

    def row(self, number: int) -> Row:
        self.made.append(number)
        return {"number": number, "state": self.states[number]}

    def rows(self) -> list[Row]:
        return [{"number": each, "state": self.states[each]} for each in sorted(self.numbers)]

    def state(self, number: int) -> Hashable:
        return self.states[number]

    def wanted(self) -> LongList[int]:
        def sources() -> Generator[None, None, list[int]]:
            return in_order(self.numbers, lambda number: number)

        return LongList("things", self.version, sources, self.row, self.state, str)


async def _listed(snapshots: Snapshots, things: Things) -> Any:
    wanted = things.wanted()
    body = await snapshots.body(wanted, await snapshots.sources(wanted))
    text = b"".join(body.parts)
    assert body.size_bytes == len(text)
    return json.loads(text)


def _run(coroutine: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await coroutine()

    asyncio.run(run())


def test_a_long_list_is_made_once_for_all_that_ask_meanwhile() -> None:
    things = Things(list(range(3000)))

    async def ask() -> None:
        snapshots = Snapshots(Pace())
        answers = await asyncio.gather(*(_listed(snapshots, things) for _ in range(10)))
        assert answers == [things.rows()] * 10
        assert len(things.made) == 3000

    _run(ask)


def test_rows_that_have_not_changed_are_not_made_again() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    things = Things(chance.sample(range(5000), 2000))

    async def ask() -> None:
        snapshots = Snapshots(Pace())
        await _listed(snapshots, things)
        for _ in range(20):
            kept, changed = dict(things.states), set()
            if chance.random() < 0.8:
                gone = set(chance.sample(things.numbers, chance.randrange(30)))
                new = set(chance.sample(range(5000), chance.randrange(30))) - gone
                things.replace(sorted({*things.numbers} - gone | new, reverse=True))
            for number in chance.sample(things.numbers, chance.randrange(30)):
                things.states[number] += 1
                changed.add(number)
            things.made.clear()
            # Another version is another list at once, and changes are seen.
            things.version += 1
            assert await _listed(snapshots, things) == things.rows()
            assert set(things.made) == changed | things.states.keys() - kept.keys()

    _run(ask)


def test_an_empty_list_is_an_empty_array() -> None:
    async def ask() -> None:
        assert await _listed(Snapshots(Pace()), Things([])) == []
        assert (await encoded_rows(Pace(), [])).parts == [b"[]"]

    _run(ask)


def test_the_list_goes_on_for_others_when_a_client_goes_away() -> None:
    things = Things(list(range(3000)))

    async def ask() -> None:
        snapshots = Snapshots(Pace())
        first, second = (asyncio.create_task(_listed(snapshots, things)) for _ in range(2))
        # The list has begun.
        await snapshots.pace.turn()
        first.cancel()
        assert await second == things.rows()
        assert first.cancelled()

    _run(ask)


def test_a_list_that_failed_is_made_anew() -> None:
    things = Things(list(range(10)))
    things.states.clear()

    async def ask() -> None:
        snapshots = Snapshots(Pace())
        try:
            await _listed(snapshots, things)
        except KeyError:
            things.states = dict.fromkeys(things.numbers, 0)
        assert await _listed(snapshots, things) == things.rows()

    _run(ask)


def test_no_more_is_kept_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a client that sorts by ever other columns would fill the memory."""
    monkeypatch.setattr("leveret.management.snapshots.KEPT_MAX", 3)
    made: list[int] = []

    async def ask() -> None:
        snapshots = Snapshots(Pace())

        async def make(number: int) -> int:
            made.append(number)
            return number

        for number in (0, 1, 2, 0, 3, 0, 1):
            assert await snapshots.kept(number, 0, partial(make, number)) == number
        # 1 went, because 0 was used after it.
        assert made == [0, 1, 2, 3, 1]

    _run(ask)
