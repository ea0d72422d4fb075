"""Rates over the NSQ protocol: OK behind the fsync, FINs journalled, one connection.

    python -m benchmarks.nsq_rates
    python -m benchmarks.nsq_rates --peer 127.0.0.1:4150

Rows: PUB one at a time; PUB with at most 2,000 unanswered; MPUB of 100, twenty unanswered; and
consumed with RDY 2500, each message with a FIN. Bodies are 200 bytes and differ. With `--peer`, an
nsqd that runs there has the same turns, in alternation. Medians of the rounds are shown. The median
of an fdatasync of this disk stands below: one at a time, Leveret waits for one.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.brokers import Leveret, free_port
from benchmarks.side_by_side import ROOT

BODY_BYTES = 200
WINDOW = 2_000
MPUB_MESSAGES = 100
MPUB_WINDOW = 20
READY_COUNT = 2_500
POOL = 20_000
READ_BYTES = 1 << 20
MIB = 1 << 20
OK = struct.pack(">ii", 6, 0) + b"OK"
HEARTBEAT = struct.pack(">ii", 15, 0) + b"_heartbeat_"
# Of a message frame: size, kind, timestamp and attempts come before the id.
ID_AT, ID_END = 18, 34
SYNCS = 300


class NsqClient:
    """A blocking connection that answers heartbeats only while it waits for answers."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(b"  V2")
        self._rest = b""

    def oks(self) -> int:
        """How many more commands were answered OK; RuntimeError for another answer."""
        data = self._rest + self.socket.recv(READ_BYTES)
        if HEARTBEAT in data:
            self.socket.sendall(b"NOP\n")
            data = data.replace(HEARTBEAT, b"")
        count = len(data) // len(OK)
        if data[: count * len(OK)] != OK * count:
            raise RuntimeError(f"an answer is not OK: {data[:200]!r}")
        self._rest = data[count * len(OK) :]
        return count

    def wait_oks(self, count: int) -> None:
        """Wait for the answers to so many commands."""
        while count > 0:
            count -= self.oks()


def bodies(seed: int) -> list[bytes]:
    """Bodies that differ."""
    chance = random.Random(seed)
    return [chance.randbytes(BODY_BYTES) for _ in range(POOL)]


def pub(topic: str, body: bytes) -> bytes:
    """One PUB."""
    return b"PUB %s\n" % topic.encode() + struct.pack(">i", len(body)) + body


def mpub(topic: str, several: Sequence[bytes]) -> bytes:
    """One MPUB of these messages."""
    packed = b"".join(struct.pack(">i", len(body)) + body for body in several)
    size = struct.pack(">ii", len(packed) + 4, len(several))
    return b"MPUB %s\n" % topic.encode() + size + packed


def one_at_a_time(address: tuple[str, int], topic: str, seconds: float) -> float:
    """The median time from a PUB to its OK, in milliseconds."""
    client = NsqClient(address)
    commands = [pub(topic, body) for body in bodies(1)[:1000]]
    took: list[float] = []
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        client.socket.sendall(commands[len(took) % len(commands)])
        client.wait_oks(1)
        took.append(time.perf_counter() - begun)
    client.socket.close()
    return statistics.median(took) * 1000


def windowed(
    address: tuple[str, int], commands: Sequence[bytes], messages: int, window: int, seconds: float
) -> float:
    """Messages a second with at most `window` commands unanswered, `messages` in each."""
    client = NsqClient(address)
    step = max(1, window // 10)
    pieces = [b"".join(commands[at : at + step]) for at in range(0, len(commands), step)]
    sent = answered = place = 0
    begun = time.perf_counter()
    end = begun + seconds
    while time.perf_counter() < end:
        while sent + step - answered <= window:
            client.socket.sendall(pieces[place % len(pieces)])
            place, sent = place + 1, sent + step
        answered += client.oks()
    client.wait_oks(sent - answered)
    rate = sent * messages / (time.perf_counter() - begun)
    client.socket.close()
    return rate


def published(address: tuple[str, int], topic: str, seconds: float) -> float:
    """PUB, in messages a second."""
    return windowed(address, [pub(topic, body) for body in bodies(2)], 1, WINDOW, seconds)


def published_together(address: tuple[str, int], topic: str, seconds: float) -> float:
    """MPUB, in messages a second."""
    all_bodies = bodies(3)
    commands = [
        mpub(topic, all_bodies[at : at + MPUB_MESSAGES]) for at in range(0, POOL, MPUB_MESSAGES)
    ]
    return windowed(address, commands, MPUB_MESSAGES, MPUB_WINDOW, seconds)


def consumed(address: tuple[str, int], topic: str, seconds: float) -> float:
    """Messages a second that are there already, each answered with a FIN."""
    client = NsqClient(address)
    client.socket.sendall(b"SUB %s c\n" % topic.encode())
    client.wait_oks(1)
    filler = NsqClient(address)
    all_bodies = bodies(4)
    count = int(seconds * 5) * POOL
    for at in range(0, count, MPUB_MESSAGES):
        begin = at % POOL
        filler.socket.sendall(mpub(topic, all_bodies[begin : begin + MPUB_MESSAGES]))
        filler.wait_oks(1)
    filler.socket.close()
    begun = time.perf_counter()
    client.socket.sendall(b"RDY %d\n" % READY_COUNT)
    frame_bytes = ID_END + BODY_BYTES
    rest, done = b"", 0
    while done < count:
        data = rest + client.socket.recv(READ_BYTES)
        if HEARTBEAT in data:
            data = data.replace(HEARTBEAT, b"")
        whole = len(data) // frame_bytes
        client.socket.sendall(
            b"".join(
                [
                    b"FIN " + data[at + ID_AT : at + ID_END] + b"\n"
                    for at in range(0, whole * frame_bytes, frame_bytes)
                ]
            )
        )
        rest, done = data[whole * frame_bytes :], done + whole
    rate = count / (time.perf_counter() - begun)
    client.socket.close()
    return rate


ROWS: tuple[tuple[str, Callable[[tuple[str, int], str, float], float]], ...] = (
    ("PUB one at a time, ms", one_at_a_time),
    ("PUB at window 2,000, messages/s", published),
    ("MPUB of 100, messages/s", published_together),
    ("consumed at RDY 2500, messages/s", consumed),
)


def sync_ms(directory: Path) -> float:
    """The median time of an fdatasync behind a small write, in milliseconds."""
    took: list[float] = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        os.posix_fallocate(file.fileno(), 0, MIB)
        for _ in range(SYNCS):
            os.write(file.fileno(), b"x" * 300)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and show the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="time of a row")
    parser.add_argument("--peer", help="HOST:PORT of an nsqd")
    parser.add_argument("--directory", type=Path, default=ROOT / "build")
    parsed = parser.parse_args(arguments)
    parsed.directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    addresses = {"leveret": ("127.0.0.1", port)}
    if parsed.peer:
        host, _, peer_port = parsed.peer.rpartition(":")
        addresses["nsqd"] = host, int(peer_port)
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(dir=parsed.directory) as scratch:
        command = f"{sys.executable} -m leveret serve --nsq-port {port}"
        broker = Leveret(Path(scratch), command)
        broker.start()
        try:
            for number in range(parsed.rounds):
                for row, measure in ROWS:
                    for name, address in addresses.items():
                        topic = f"rates-{os.getpid()}-{number}-{measure.__name__}"
                        figure = measure(address, topic, parsed.seconds)
                        found.setdefault((row, name), []).append(figure)
        finally:
            broker.stop()
        print(f"median fdatasync {sync_ms(Path(scratch)):.2f} ms")
    for (row, name), figures in found.items():
        print(f"{row:34} {name:8} {statistics.median(figures):14,.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
