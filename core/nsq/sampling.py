"""IDENTIFY's sample_rate: which messages a client gets, and which are dropped for it.

As in nsqd a message is dropped if a number from 0 to 99 is above the rate: a rate of 10 lets 11 of
a hundred pass. Randomness is an argument: four octets for each message.
"""

from __future__ import annotations

from array import array
from typing import Final

OCTETS: Final = 4
_PERCENT: Final = 100

# First position, and behind the last.
Positions = tuple[int, int]


def sampled(octets: bytes, rate: int) -> tuple[list[Positions], list[Positions]]:
    """The positions of messages that pass, and of dropped ones."""
    passed: list[Positions] = []
    dropped: list[Positions] = []
    for at, number in enumerate(array("I", octets)):
        into = dropped if number % _PERCENT > rate else passed
        if into and into[-1][1] == at:
            into[-1] = into[-1][0], at + 1
        else:
            into.append((at, at + 1))
    return passed, dropped
