"""Measures how consumers of speeds 1, 2 and 4 share the work of one queue.

    python -m benchmarks.shares --seconds 5 --brokers rabbitmq leveret

Three connections consume one queue with a backlog of persistent messages. A message takes one of
them 4 ms, one 2 ms and one 1 ms: each works on one at a time, and acks it when it is done. Here one
thread does all of it: a consumer begins its next message when the one before should have ended, or
when the delivery came if that was later. So a late delivery lets the consumer idle, and a late turn
of this process does not. What consumers of these speeds do by an exact clock is in
tests/core/test_shares_of_work.py.
"""

from __future__ import annotations

import argparse
import selectors
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from benchmarks import wire
from benchmarks.brokers import BROKERS, Broker, BrokerError, running
from benchmarks.client import Client, RefusedError
from benchmarks.report import table
from benchmarks.side_by_side import ROOT, machine

QUEUE = "shares"
TAKES_MS = (4, 2, 1)
BODY = wire.body_of(200)
READ_BYTES = 65536
_FRAME_HEAD = struct.Struct(">BHI")
_BODY_FRAME = 3


class Shared(NamedTuple):
    """The work that each consumer did, in the order of TAKES_MS."""

    done: list[int]
    seconds: float

    def shares(self) -> list[float]:
        """Each one's share of the messages done."""
        return [count / sum(self.done) for count in self.done]

    def busy(self) -> list[float]:
        """The share of the time in which each had work."""
        pairs = zip(self.done, TAKES_MS, strict=True)
        return [count * takes_ms / 1000 / self.seconds for count, takes_ms in pairs]


def wanted_shares() -> list[float]:
    """The shares in proportion to the speeds."""
    speeds = [1 / takes_ms for takes_ms in TAKES_MS]
    return [speed / sum(speeds) for speed in speeds]


class PacedConsumer:
    """One connection that works on its deliveries one by one, each for the same time."""

    def __init__(self, client: Client, takes_seconds: float, prefetch: int) -> None:
        """Consume from now on; the deliveries stay in the socket until `receive`."""
        self.socket = client.socket
        self.done = 0
        # Until when it works; None while it has nothing to do.
        self.busy_until: float | None = None
        self._takes_seconds = takes_seconds
        self._waiting = 0
        self._unread = b""
        client.open_channel(1)
        client.request(wire.basic_qos(1, prefetch), (60, 11))
        client.request(wire.basic_consume(1, QUEUE, "c"), (60, 21))

    def receive(self, now: float) -> None:
        """Count the deliveries that have come, by their body frames."""
        received = self.socket.recv(READ_BYTES)
        if not received:
            raise RefusedError("the broker closed the socket")
        data, at = self._unread + received, 0
        while len(data) >= at + _FRAME_HEAD.size:
            kind, _, size = _FRAME_HEAD.unpack_from(data, at)
            end = at + _FRAME_HEAD.size + size + 1
            if end > len(data):
                break
            self._waiting += kind == _BODY_FRAME
            at = end
        self._unread = data[at:]
        if self._waiting and self.busy_until is None:
            self._begin(now)

    def work(self, now: float) -> None:
        """End what should have ended by now, and begin the next, each when it was due."""
        while self.busy_until is not None and self.busy_until <= now:
            self.done += 1
            self.socket.sendall(wire.ack(1, self.done))
            ended, self.busy_until = self.busy_until, None
            if self._waiting:
                self._begin(ended)

    def _begin(self, when: float) -> None:
        self._waiting -= 1
        self.busy_until = when + self._takes_seconds


def measure(port: int, seconds: float, prefetch: int) -> Shared:
    """Fill the queue, and let the three work for so long."""
    filler = Client(port)
    filler.open_channel(1)
    filler.delete_queue(1, QUEUE)
    filler.declare_queue(1, QUEUE)
    most = sum(1000 / takes_ms for takes_ms in TAKES_MS) * (seconds + 1) + 3 * prefetch
    filler.socket.sendall(wire.publish(1, "", QUEUE, BODY) * int(most))
    filler.find_queue(1, QUEUE)
    consumers = [PacedConsumer(Client(port), each / 1000, prefetch) for each in TAKES_MS]
    with selectors.DefaultSelector() as selector:
        for consumer in consumers:
            selector.register(consumer.socket, selectors.EVENT_READ, consumer)
        end = monotonic() + seconds
        while (now := monotonic()) < end:
            next_end = min(each.busy_until or end for each in consumers)
            ready = selector.select(max(0.0, min(next_end, end) - now))
            now = monotonic()
            for consumer in consumers:
                consumer.work(min(now, end))
            for key, _ in ready:
                key.data.receive(now)
    for consumer in consumers:
        consumer.socket.close()
    filler.delete_queue(1, QUEUE)
    filler.socket.close()
    return Shared([consumer.done for consumer in consumers], seconds)


def report(broker: Broker, shared: Shared) -> str:
    """A table of what each did, beside what it should have."""
    rows = [
        [
            f"{broker.name}, {takes_ms} ms a message",
            f"{done:,}",
            f"{100 * share:.2f} %",
            f"{100 * wanted:.2f} %",
            f"{100 * busy:.1f} %",
        ]
        for takes_ms, done, share, wanted, busy in zip(
            TAKES_MS, shared.done, shared.shares(), wanted_shares(), shared.busy(), strict=True
        )
    ]
    return table(["consumer", "done", "share", "in proportion", "busy"], rows)


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--prefetch", type=int, default=10)
    parser.add_argument("--brokers", nargs="+", choices=BROKERS, default=["leveret"])
    parser.add_argument("--scratch", type=Path, default=ROOT / "build")
    return parser.parse_args(arguments)


def main(command_line: Sequence[str] | None = None) -> int:
    """Measure and print; 2 if a broker cannot run."""
    arguments = parsed(command_line)
    try:
        with running(arguments.brokers, arguments.scratch) as brokers:
            print(machine(arguments.scratch))
            for broker in brokers:
                print(report(broker, measure(broker.port, arguments.seconds, arguments.prefetch)))
    except (BrokerError, RefusedError) as failure:
        print(failure, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
