"""Long lists are made once for all that ask within a moment."""

from __future__ import annotations

import asyncio

from leveret.management.snapshots import SNAPSHOT_ROWS_MIN, Row, Snapshots, encoded_slices


def test_a_long_list_is_made_once_for_all_that_ask_meanwhile() -> None:
    made: list[int] = []

    def row(number: int) -> Row:
        made.append(number)
        return {"number": number}

    async def ask() -> None:
        snapshots = Snapshots()
        long = range(SNAPSHOT_ROWS_MIN)
        answers = await asyncio.gather(*(snapshots.rows("k", 1, long, row) for _ in range(10)))
        assert len(made) == len(long)
        assert all(answer is answers[0] for answer in answers)
        bodies = [await snapshots.body("k", answers[0]) for _ in range(2)]
        assert bodies[0] is bodies[1]
        assert bodies[0] == await encoded_slices(answers[0])
        # Another version is another list, at once.
        await snapshots.rows("k", 2, long, row)
        assert len(made) == 2 * len(long)

    asyncio.run(ask())


def test_a_short_list_is_made_for_each_that_asks() -> None:
    made: list[int] = []

    async def ask() -> None:
        snapshots = Snapshots()
        for _ in range(2):
            rows = await snapshots.rows("k", 1, range(3), lambda n: made.append(n) or {"n": n})  # type: ignore[func-returns-value]
            assert await snapshots.body("k", rows) == b'[{"n":0},{"n":1},{"n":2}]'
        assert made == [0, 1, 2, 0, 1, 2]

    asyncio.run(ask())
