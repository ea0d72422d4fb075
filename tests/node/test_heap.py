"""The heap is trimmed when the process has grown, and now and then; what is free goes back."""

from __future__ import annotations

import subprocess
import sys

import pytest
from leveret.heap import GROWTH_BYTES, LOOKS_MAX, MIB, HeapTrim

# Leaves holes below a block that stays, as queues do that page; prints the memory before and after.
HOLES = """
import ctypes
from leveret.heap import keep_memory_at_hand, resident_bytes, trim_heap
keep_memory_at_hand()
blocks = [bytes(200_000) for _ in range(500)]
stays = bytes(100_000)
del blocks
before = resident_bytes()
trim_heap()
print(before, resident_bytes())
"""


class Process:
    """Its resident memory is as the test says; trimming takes it down to `live`."""

    def __init__(self) -> None:
        self.resident = 50 * MIB
        self.live = 50 * MIB
        self.trims = 0
        self.heap = HeapTrim(self.trim, lambda: self.resident)

    def trim(self) -> None:
        self.trims += 1
        self.resident = self.live

    def looks(self, count: int) -> int:
        for _ in range(count):
            self.heap.look()
        return self.trims


def test_a_process_that_has_grown_is_trimmed_at_the_next_look() -> None:
    process = Process()
    # Its start is a growth, too.
    assert process.looks(1) == 1
    process.resident += GROWTH_BYTES
    assert process.looks(1) == 1
    process.resident += 1
    assert process.looks(1) == 2
    assert process.resident == process.live


def test_growth_counts_from_the_least_that_was_resident_since() -> None:
    process = Process()
    process.looks(1)
    process.resident = 20 * MIB
    assert process.looks(1) == 1
    process.resident = 20 * MIB + GROWTH_BYTES + 1
    assert process.looks(1) == 2


def test_holes_go_back_after_some_looks_also_where_nothing_has_grown() -> None:
    process = Process()
    process.looks(1)
    process.live = 30 * MIB
    assert process.looks(LOOKS_MAX - 1) == 1
    assert process.looks(1) == 2
    assert process.resident == 30 * MIB


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_what_is_free_below_a_block_that_stays_goes_back_to_the_system() -> None:
    said = subprocess.run(
        [sys.executable, "-c", HOLES], capture_output=True, text=True, check=True
    ).stdout
    before, after = map(int, said.split())
    # How much of it lies below the block that stays is the interpreter's affair.
    assert before - after > 30 * MIB
