"""Which basic.ack and basic.nack frames answer a set of publishes: RabbitMQ's cut-off rule.

Everything below the smallest number that is still open goes as one frame with multiple=true; what
lies above goes one by one. The cut-off also counts the answers of the other kind that are about
to be sent, so that a cumulative ack never covers a number that will be nacked
(rabbit_channel, coalesce_and_send). A lone answer is always multiple=false.
"""

from __future__ import annotations

from collections.abc import Sequence

# First and last of consecutive seq_nos.
SeqRange = tuple[int, int]


def merge(ranges: Sequence[SeqRange]) -> list[SeqRange]:
    """Sort ranges and join those that touch."""
    if len(ranges) < 2:
        return list(ranges)
    merged: list[SeqRange] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            if last > merged[-1][1]:
                merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def coalesce(
    ranges: Sequence[SeqRange], others: Sequence[SeqRange], smallest_open: int
) -> tuple[int, list[SeqRange]]:
    """The answers for the numbers in `ranges`: one cumulative tag (0: none), then single ones.

    `others` are answers of the other kind sent in the same go; `smallest_open` is the smallest
    unconfirmed number, 0 if there is none.
    """
    merged = merge(ranges)
    if not merged:
        return 0, []
    if len(merged) == 1 and merged[0][0] == merged[0][1]:
        return 0, merged
    cut_off = smallest_open or merged[-1][1] + 1
    for first, _last in others:
        if first < cut_off:
            cut_off = first
    cumulative = 0
    singles: list[SeqRange] = []
    for first, last in merged:
        if last < cut_off:
            cumulative = last
        elif first < cut_off:
            cumulative = cut_off - 1
            singles.append((cut_off, last))
        else:
            singles.append((first, last))
    return cumulative, singles


def taken(
    open_ranges: list[SeqRange], said: Sequence[SeqRange]
) -> tuple[list[SeqRange], list[SeqRange]]:
    """What of the open ranges is said, and what stays open; both ascending, as both came."""
    found: list[SeqRange] = []
    left: list[SeqRange] = []
    place = 0
    for first, last in open_ranges:
        at = first
        while place < len(said) and said[place][1] < at:
            place += 1
        step = place
        while step < len(said) and said[step][0] <= last:
            low, high = max(said[step][0], at), min(said[step][1], last)
            if low > at:
                left.append((at, low - 1))
            found.append((low, high))
            at = high + 1
            step += 1
        if at <= last:
            left.append((at, last))
    return found, left
