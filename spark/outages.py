"""Waiting until brokers can be reached, for as long as `reconnectTimeoutMs` allows.

A broker that is started again, or moved to another machine, is away for seconds or minutes, and a
job that failed meanwhile would have to begin again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ..logs.configure import service_log
from ..logs.events import SPARK_SOURCE_WAITS
from .errors import UnreachableError

BACKOFF_MIN_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0


def pauses() -> Iterator[float]:
    """Give the seconds to wait before each next try, up to five."""
    pause_s = BACKOFF_MIN_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, BACKOFF_MAX_S)


def wait_out(
    addresses: Iterable[str], attempt: Callable[[str], None], timeout_ms: int
) -> dict[str, str]:
    """Attempt every address until each has had success once, or the time is over.

    `attempt` raises UnreachableError if it may be tried again; whatever else it raises ends the
    waiting. The log says which address is waited for. Gives the addresses that remained
    unreachable, each with the reason.
    """
    log = service_log("warning", "json")
    deadline_s = time.monotonic() + timeout_ms / 1000
    reasons = dict.fromkeys(addresses, "")
    for pause_s in pauses():
        for address, before in list(reasons.items()):
            try:
                attempt(address)
            except UnreachableError as error:
                reasons[address] = str(error)
                if not before:
                    log.warning(SPARK_SOURCE_WAITS, broker=address, reason=reasons[address])
            else:
                del reasons[address]
        left_s = deadline_s - time.monotonic()
        if not reasons or left_s <= 0:
            break
        time.sleep(min(pause_s, left_s))
    return reasons
