"""Fills queues and drains them over one blocking connection, and measures the broker's memory.

What benchmarks of backlogs share. A backlog is counted in messages, not in seconds, so the load is
not that of `load.py`: it goes on until so many are confirmed, or delivered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import psutil

from benchmarks import wire
from benchmarks.brokers import Broker
from benchmarks.client import Client
from benchmarks.confirms import ACK_FRAME_BYTES, Confirms

MB = 1_000_000
WINDOW = 2_000
_READ_BYTES = 1 << 20
# The memory is settled once it has changed by less than this over so long, and the broker is idle.
SETTLED_BYTES = 1 * MB
SETTLED_SECONDS = 6.0
SETTLE_SECONDS_MAX = 60.0
BUSY_SHARE_MAX = 0.05


class StoppedError(Exception):
    """The broker has closed the connection in the middle of a load."""


def connected(broker: Broker, *queues: str) -> Client:
    """A connection with channel 1 in confirm mode, and these durable queues declared."""
    client = Client(broker.port)
    client.open_channel(1, confirm=True)
    for queue in queues:
        client.declare_queue(1, queue)
    return client


class Filler:
    """Publishes blocks on channel 1 of a connection in confirm mode, up to `window` unconfirmed."""

    def __init__(self, client: Client, blocks: Iterable[bytes], messages: int) -> None:
        """`messages` are in each block; the blocks are sent in turn."""
        self._client = client
        self._blocks: Iterator[bytes] = cycle(blocks)
        self._messages = messages
        self._confirms = Confirms(1)
        self._tail = b""
        self._sent = 0

    @property
    def confirmed(self) -> int:
        """How many are confirmed so far."""
        return self._confirms.count

    def fill(self, count: int, window: int = WINDOW) -> float:
        """Publish so many more, wait for all confirms; gives the seconds that took."""
        begun = time.perf_counter()
        end = self._sent + count
        while self._sent < end:
            while self._sent - self._confirms.count + self._messages > window:
                self._read()
            self._client.socket.sendall(next(self._blocks))
            self._sent += self._messages
        while self._confirms.count < self._sent:
            self._read()
        return time.perf_counter() - begun

    def _read(self) -> None:
        data = self._tail + received(self._client)
        self._confirms.feed(data)
        # Less than a frame: none is shown twice.
        self._tail = data[1 - ACK_FRAME_BYTES :]


def received(client: Client) -> bytes:
    """One read of the connection."""
    data = client.socket.recv(_READ_BYTES)
    if not data:
        raise StoppedError("the broker closed the socket")
    return data


def drain(
    client: Client, count: int, ack_every: int = 0, on_count: Callable[[int], None] | None = None
) -> float:
    """Read so many deliveries of channel 1, found by their bodies' marker; gives the seconds.

    Acks in steps of `ack_every`, and the rest at the end; 0 acks none.
    """
    begun = time.perf_counter()
    delivered = acked = 0
    tail = b""
    keep = len(wire.BODY_MARKER) - 1
    while delivered < count:
        data = tail + received(client)
        delivered += data.count(wire.BODY_MARKER)
        tail = data[-keep:]
        while ack_every and delivered - acked >= ack_every:
            acked += ack_every
            client.socket.sendall(wire.ack(1, acked, multiple=True))
        if on_count is not None:
            on_count(delivered)
    if ack_every and acked < delivered:
        client.socket.sendall(wire.ack(1, delivered, multiple=True))
    return time.perf_counter() - begun


def settled_bytes(broker: Broker) -> int:
    """The broker's resident memory once it has come to rest."""
    process = broker.process()
    end = time.monotonic() + SETTLE_SECONDS_MAX
    before = process.memory_info().rss
    process.cpu_percent()
    while time.monotonic() < end:
        time.sleep(SETTLED_SECONDS)
        now = process.memory_info().rss
        if process.cpu_percent() / 100 < BUSY_SHARE_MAX and abs(now - before) < SETTLED_BYTES:
            break
        before = now
    return process.memory_info().rss


def peak_bytes(process: psutil.Process) -> int:
    """The most that was resident since `reset_peak`, or since its start."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return int(process.memory_info().rss)


def reset_peak(process: psutil.Process) -> None:
    """Forget the peak so far, where the system lets us."""
    with suppress(OSError):
        Path(f"/proc/{process.pid}/clear_refs").write_text("5")


class MemorySamples(threading.Thread):
    """Looks at a process's resident memory now and then, from `start` to `stop`."""

    def __init__(self, process: psutil.Process, every_seconds: float = 0.25) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._every_seconds = every_seconds
        self._ended = threading.Event()
        self.samples: list[int] = []

    def run(self) -> None:
        """Look until `stop`, or until the process has ended."""
        with suppress(psutil.NoSuchProcess):
            while not self._ended.wait(self._every_seconds):
                self.samples.append(self._process.memory_info().rss)

    def stop(self) -> int:
        """Look no more; gives the most that was seen."""
        self._ended.set()
        self.join()
        return max(self.samples, default=0)
