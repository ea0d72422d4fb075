"""A broker seen from outside: its memory and its connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
from broker_process import BrokerProcess
from timeouts import TIMEOUT_SECONDS

MIB = 1 << 20


def until(condition: Callable[[], bool], what: str) -> None:
    """Look again and again, as another process tells nobody; AssertionError if it never holds."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.01)


def connections(broker: BrokerProcess) -> int:
    """How many connections it has."""
    sockets = psutil.Process(broker.pid).net_connections("tcp")
    return sum(each.status != psutil.CONN_LISTEN for each in sockets)


@contextmanager
def memory_bounded(broker: BrokerProcess, growth_bytes_max: int, what: str) -> Iterator[None]:
    """At no moment in here is the broker's resident memory more than so much above the begin's.

    A thread looks every few milliseconds; connections that were opened in here are gone at the end.
    """
    before, open_before = broker.resident_bytes(), connections(broker)
    highest = before
    ended = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not ended.wait(0.005):
            highest = max(highest, broker.resident_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    until(lambda: connections(broker) <= open_before, "connections stay open")
    after = broker.resident_bytes()
    print(
        f"\n{what}: memory {before / MIB:.1f} MiB before, {highest / MIB:.1f} at the highest, "
        f"{after / MIB:.1f} after (bound: {growth_bytes_max / MIB:.0f} above the first)"
    )
    assert max(highest, after) - before <= growth_bytes_max
