"""Long lists are made in slices, once for all that ask within a moment, from rows that are kept."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Generator, Hashable
from functools import partial
from typing import Any

import pytest
from leveret.management.about import ListLimits
from leveret.management.pace import Pace, in_order
from leveret.management.rows import Row, place
from leveret.management.snapshots import Body, Snapshots, Sort, encoded_rows
from leveret.management.text import encoded
from leveret.management.watching import LongList

# Each request looks anew.
BYTES_MAX = 1 << 26
NO_AGE = ListLimits(-1.0, 100, BYTES_MAX)
LIMITS = ListLimits(60.0, 100, BYTES_MAX)
UNSORTED = Sort()


class Things:
    """A list of numbers with a state each, and a count of the rows that were made."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self.version = 0
        self.states = dict.fromkeys(numbers, 0)
        self.made: list[int] = []

    def replace(self, numbers: list[int]) -> None:
        self.numbers = numbers
        # Those that have gone are still there for who looks at them.
        self.states = {**dict.fromkeys(numbers, 0), **self.states}
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


async def _listed(
    snapshots: Snapshots, things: Things, sort: Sort = UNSORTED, columns: str = ""
) -> Any:
    wanted = things.wanted()
    seen = await snapshots.seen(wanted, await snapshots.sources(wanted))
    body = await snapshots.body(wanted, seen, sort, columns)
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
        snapshots = Snapshots(Pace(), LIMITS)
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
        snapshots = Snapshots(Pace(), NO_AGE)
        await _listed(snapshots, things)
        for _ in range(20):
            before, changed = set(things.numbers), set()
            if chance.random() < 0.8:
                gone = set(chance.sample(things.numbers, chance.randrange(30)))
                new = set(chance.sample(range(5000), chance.randrange(30))) - gone
                things.replace(sorted({*things.numbers} - gone | new, reverse=True))
            for number in chance.sample(things.numbers, chance.randrange(30)):
                things.states[number] += 1
                changed.add(number)
            things.made.clear()
            assert await _listed(snapshots, things) == things.rows()
            assert set(things.made) == changed | set(things.numbers) - before
            # No row's text is kept twice, nor that of one that has gone.
            assert snapshots.kept_bytes() == len(encoded(things.rows()))

    _run(ask)


def test_orders_choices_and_pages_are_those_of_the_rows_whatever_changes() -> None:
    """Also if rows change, come and go while a list is being made, between its slices."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    things = Things(chance.sample(range(3000), 1500))
    sorts = [Sort(column, is_reverse) for column in ("", "state") for is_reverse in (False, True)]

    def change() -> None:
        if chance.random() < 0.3:
            gone = set(chance.sample(things.numbers, chance.randrange(30)))
            things.replace(sorted({*things.numbers} - gone | {chance.randrange(3000)}))
        for number in chance.sample(things.numbers, chance.choice([0, 1, 30, 300])):
            things.states[number] += chance.choice([1, 2, -1])

    async def shown(snapshots: Snapshots, sort: Sort, columns: str) -> object:
        if chance.random() < 0.5:
            return await _listed(snapshots, things, sort, columns)
        wanted = things.wanted()
        seen = await snapshots.seen(wanted, await snapshots.sources(wanted))
        rows = (await snapshots.order(wanted, seen, sort)).rows
        return json.loads(await snapshots.page(wanted, seen, rows, columns))

    async def ask() -> None:
        snapshots = Snapshots(Pace(), NO_AGE)
        for _ in range(15):
            asked = [
                asyncio.create_task(shown(snapshots, sort, columns))
                for sort in sorts
                for columns in ("", "number", "state,number")
                if chance.random() < 0.4
            ]
            for _ in range(chance.randrange(40)):
                await snapshots.pace.turn()
                if chance.random() < 0.1:
                    change()
            await asyncio.gather(*asked)
            change()
            # Nothing changes from here on.
            for sort in sorts:
                rows = things.rows()
                if sort.column:
                    rows.sort(key=lambda row: place((sort.column,), row))
                if sort.is_reverse:
                    rows.reverse()
                assert await shown(snapshots, sort, "") == rows
                numbers = [{"number": row["number"]} for row in rows]
                assert await shown(snapshots, sort, "number") == numbers

    _run(ask)


def test_a_state_that_was_another_between_two_looks_leaves_no_row_of_then() -> None:
    things = Things(list(range(1000)))

    async def ask() -> None:
        snapshots = Snapshots(Pace(), NO_AGE)
        wanted = things.wanted()
        seen = await snapshots.seen(wanted, await snapshots.sources(wanted))
        things.states[7] = 1
        # The row is made from what the thing has become since the look.
        await snapshots.body(wanted, seen, UNSORTED, "")
        things.states[7] = 0
        assert await _listed(snapshots, things) == things.rows()

    _run(ask)


def test_a_list_in_which_nothing_has_changed_is_the_same_body() -> None:
    things = Things(list(range(1000)))

    async def ask() -> None:
        snapshots = Snapshots(Pace(), NO_AGE)
        bodies = []
        for _ in range(2):
            wanted = things.wanted()
            seen = await snapshots.seen(wanted, await snapshots.sources(wanted))
            bodies.append(await snapshots.body(wanted, seen, Sort("state"), "number"))
        assert bodies[0] is bodies[1]

    _run(ask)


def test_answers_share_the_parts_in_which_no_row_has_changed() -> None:
    """So that slow clients, with answers of different times, hold only what has changed since."""
    things = Things(list(range(6400)))

    async def ask() -> None:
        snapshots = Snapshots(Pace(), NO_AGE)

        async def body() -> Body:
            wanted = things.wanted()
            seen = await snapshots.seen(wanted, await snapshots.sources(wanted))
            # A page does not have the parts made anew, either.
            text = await snapshots.page(wanted, seen, seen.order.rows[:70], "")
            assert json.loads(text) == things.rows()[:70]
            return await snapshots.body(wanted, seen, UNSORTED, "")

        first = await body()
        for number in (1, 2, 6399):
            things.states[number] += 1
        second = await body()
        assert json.loads(b"".join(second.parts)) == things.rows()
        parts = list(zip(first.parts, second.parts, strict=True))
        assert [at for at, (old, new) in enumerate(parts) if old is not new] == [0, 99]

    _run(ask)


def test_a_list_is_as_old_as_the_setting_allows() -> None:
    things = Things(list(range(1000)))

    async def ask() -> None:
        snapshots = Snapshots(Pace(), LIMITS)
        before = await _listed(snapshots, things)
        things.states[7] = 1
        assert await _listed(snapshots, things) == before
        assert await _listed(Snapshots(Pace(), NO_AGE), things) == things.rows()

    _run(ask)


def test_an_empty_list_is_an_empty_array() -> None:
    async def ask() -> None:
        assert await _listed(Snapshots(Pace(), LIMITS), Things([])) == []
        assert (await encoded_rows(Pace(), [])).parts == [b"[]"]

    _run(ask)


def test_the_list_goes_on_for_others_when_a_client_goes_away() -> None:
    things = Things(list(range(3000)))

    async def ask() -> None:
        snapshots = Snapshots(Pace(), LIMITS)
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
        snapshots = Snapshots(Pace(), LIMITS)
        try:
            await _listed(snapshots, things)
        except KeyError:
            things.states = dict.fromkeys(things.numbers, 0)
        assert await _listed(snapshots, things) == things.rows()

    _run(ask)


def test_no_more_is_kept_than_the_setting_allows() -> None:
    """Else a client that sorts by ever other columns would fill the memory."""
    made: list[int] = []

    async def ask() -> None:
        snapshots = Snapshots(Pace(), ListLimits(60.0, 3, BYTES_MAX))

        async def make(number: int) -> int:
            made.append(number)
            return number

        for number in (0, 1, 2, 0, 3, 0, 1):
            assert await snapshots.kept(number, 0, partial(make, number)) == number
        # 1 went, because 0 was used after it.
        assert made == [0, 1, 2, 3, 1]

    _run(ask)


@pytest.mark.parametrize("bytes_max", [0, 50_000, 150_000])
def test_no_more_bytes_of_texts_are_kept_than_the_setting_allows(bytes_max: int) -> None:
    things = Things(list(range(1000)))
    columns = [",".join(["number", "state"] * count) for count in range(9)]

    async def ask() -> None:
        snapshots = Snapshots(Pace(), ListLimits(-1.0, 1000, bytes_max))
        kept_bytes = []
        for number in range(len(columns) * 2):
            things.states[number] += 1
            sort = Sort(("", "state")[number % 2])
            rows = sorted(things.rows(), key=lambda row: row["state"] if sort.column else 0)
            assert await _listed(snapshots, things, sort, columns[number // 2]) == rows
            kept_bytes.append(snapshots.kept_bytes())
        list_bytes = len(encoded(things.rows()))
        # The list that was asked for last is kept, whatever the setting.
        assert max(kept_bytes) <= max(bytes_max, list_bytes)
        # Not one alone, if there is room for several.
        assert max(kept_bytes) > bytes_max - 2 * list_bytes

    _run(ask)


def test_a_list_that_is_kept_compressed_counts_so_too() -> None:
    things = Things(list(range(1000)))

    async def ask() -> None:
        snapshots = Snapshots(Pace(), LIMITS)
        wanted = things.wanted()
        seen = await snapshots.seen(wanted, await snapshots.sources(wanted))
        body = await snapshots.body(wanted, seen, UNSORTED, "")
        before_bytes = snapshots.kept_bytes()
        compressed = Body([b"compressed"])
        body.compressed = asyncio.create_task(snapshots.pace.carry_out(_made(compressed)))
        await body.compressed
        assert snapshots.kept_bytes() == before_bytes + compressed.size_bytes

    _run(ask)


def _made(body: Body) -> Generator[None, None, Body]:
    yield
    return body


@pytest.mark.parametrize("kept_max", [1, 2, 5, 8])
def test_a_list_of_which_parts_are_forgotten_is_made_anew(kept_max: int) -> None:
    things = Things(list(range(1000)))

    async def ask() -> None:
        snapshots = Snapshots(Pace(), ListLimits(-1.0, kept_max, BYTES_MAX))
        for number in range(12):
            things.states[number] += 1
            sort = Sort(("", "state")[number % 2])
            rows = sorted(things.rows(), key=lambda row: row["state"] if sort.column else 0)
            assert await _listed(snapshots, things, sort) == rows
            columns = f"number,{number}"
            numbers = [{"number": row["number"]} for row in rows]
            assert await _listed(snapshots, things, sort, columns) == numbers

    _run(ask)
