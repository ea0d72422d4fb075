"""Runs of FIN: ranges of ids, in the order of the commands."""

from __future__ import annotations

import random

import pytest
from leveret.nsq_frames.finishes import decode_finishes

MOST = 2**64 - 1


def fins(*ids: int) -> bytes:
    return b"".join(b"FIN %016x\n" % id for id in ids)


@pytest.mark.parametrize(
    ("ids", "ranges"),
    [
        ([5], [(5, 5)]),
        ([0, 1, 2], [(0, 2)]),
        ([1, 3], [(1, 1), (3, 3)]),
        ([2, 1], [(2, 2), (1, 1)]),
        ([1, 2, 2, 3], [(1, 2), (2, 3)]),
        # As many as from the first to the last, and not in a row.
        ([1, 3, 2, 4], [(1, 1), (3, 3), (2, 2), (4, 4)]),
        ([MOST - 1, MOST], [(MOST - 1, MOST)]),
    ],
)
def test_ids_in_a_row_are_one_range(ids: list[int], ranges: list[tuple[int, int]]) -> None:
    data = fins(*ids)
    assert decode_finishes(data, 0) == (ranges, len(data))
    assert decode_finishes(b"NOP\n" + data + b"NOP\n", 4) == (ranges, len(data) + 4)


@pytest.mark.parametrize(
    "data",
    [
        b"FIN 000000000000000A\n",
        b"FIN 00000000_0000001\n",
        b"FIN 000000000000001\n",
        b"FIN 00000000000000001\n",
        b"FIN 0000000000000001\r\n",
        b"FIN 0000000000000001",
        b"FIN  000000000000001\n",
    ],
)
def test_anything_else_is_no_run(data: bytes) -> None:
    assert decode_finishes(data, 0) == ([], 0)
    assert decode_finishes(fins(1) + data, 0) == ([(1, 1)], 21)


def test_ranges_have_all_ids_in_their_order(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        ids = [chance.randrange(6) for _ in range(chance.randrange(1, 12))]
        ranges, _ = decode_finishes(fins(*ids), 0)
        assert [id for low, high in ranges for id in range(low, high + 1)] == ids
