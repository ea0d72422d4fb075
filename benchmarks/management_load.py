"""Measures what publishers notice of clients that list 10,000 queues every second.

    python -m benchmarks.management_load
    python -m benchmarks.management_load --pairs 3 --seconds 2 --only /api/bindings

One broker has 10,000 durable queues, each bound to one of 100 exchanges. A connection publishes
persistent messages, one at a time, to queues in turn, in pairs of turns: alone, and while ten
clients, in a process of their own at idle priority, each request all of these every second, over a
connection that stays open: the queues whole and as a page, bindings, exchanges, the overview and
the metrics. Which turn of a pair is first changes from pair to pair. The queue that most messages
go to is purged twice a second, in all turns, so that these are no memory of the API.

Linux shares the processors out among sessions unless `sysctl kernel.sched_autogroup_enabled=0` is
set. The broker has a session of its own, so the clients' priority counts for nothing beside it, and
on few processors confirms wait for the clients' work, too.

Ends with exit code 1 if the p99 of confirms beside the clients, as the median of the pairs, is both
more than 1.15 times that without and more than 0.3 ms above it, or if the broker's resident memory
grows by more than 50 MB.
"""

from __future__ import annotations

import argparse
import base64
import multiprocessing
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, cast

from benchmarks import wire
from benchmarks.backlog import MB, MemorySamples, connected, settled_bytes
from benchmarks.brokers import Broker, BrokerError, free_port, running
from benchmarks.client import Client
from benchmarks.measuring import BrokerCpu, Figures, one_at_a_time
from benchmarks.report import table
from benchmarks.side_by_side import ROOT, machine

P99_RATIO_MAX = 1.15
P99_ADDED_MS_MAX = 0.3
MEMORY_BYTES_MAX = 50 * MB
QUEUES = 10_000
EXCHANGES = 100
CLIENTS = 10
# How many of the queues the measured connection publishes to: their rows change.
PUBLISHED_QUEUES = 100
PATHS = (
    "/api/queues",
    "/api/queues?page=3&page_size=100",
    "/api/queues?page=1&page_size=100&name=77&sort=messages&sort_reverse=true",
    "/api/queues?columns=name,messages",
    "/api/bindings",
    "/api/exchanges",
    "/api/overview",
    "/metrics",
)
WARMUP_SECONDS = 0.5
# The first listing makes all rows; it is not part of a turn.
SETTLE_SECONDS = 3.0
# Less than a hundredth of the confirms wait for a purge.
PURGE_SECONDS = 0.5
NICENESS = 19
_READ_BYTES = 1 << 18
_LOGIN = base64.b64encode(b"guest:guest").decode()


# --- The clients, in their own process


class Requests(NamedTuple):
    """What the clients have had answered since they were asked last."""

    answered: int
    refused: int
    body_bytes: int
    seconds_max: float


class HttpClient:
    """Requests its paths over one connection, one after the other, every second while it may."""

    def __init__(self, port: int, paths: Sequence[str], delay_seconds: float) -> None:
        self._port = port
        self._paths = paths
        self._delay_seconds = delay_seconds
        self.count = self.refused = self.body_bytes = 0
        self.seconds_max = 0.0
        self.is_idle = threading.Event()

    def run(self, may_run: threading.Event) -> None:
        """Until the process ends, which a failure here does."""
        try:
            self._run(may_run)
        except OSError as failure:
            print(f"a client of the API: {failure}", file=sys.stderr, flush=True)
            os._exit(1)

    def _run(self, may_run: threading.Event) -> None:
        buffer = memoryview(bytearray(_READ_BYTES))
        while True:
            self.is_idle.set()
            may_run.wait()
            self.is_idle.clear()
            time.sleep(self._delay_seconds)
            # The broker closes a connection that is silent for the time of a turn.
            with socket.create_connection(("127.0.0.1", self._port)) as connected_to:
                while may_run.is_set():
                    begun = time.perf_counter()
                    for path in self._paths:
                        self._get(connected_to, path, buffer)
                    time.sleep(max(0.0, 1.0 - (time.perf_counter() - begun)))

    def _get(self, connected_to: socket.socket, path: str, buffer: memoryview) -> None:
        begun = time.perf_counter()
        head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {_LOGIN}\r\n\r\n"
        connected_to.sendall(head.encode())
        data = b""
        while b"\r\n\r\n" not in data:
            received = connected_to.recv(_READ_BYTES)
            if not received:
                raise ConnectionResetError(path)
            data += received
        lines, _, body = data.partition(b"\r\n\r\n")
        lengths = [
            int(line.split(b":")[1])
            for line in lines.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ]
        left = sum(lengths) - len(body)
        while left > 0:
            received_bytes = connected_to.recv_into(buffer, min(left, _READ_BYTES))
            if not received_bytes:
                raise ConnectionResetError(path)
            left -= received_bytes
        self.count += 1
        self.refused += not lines.startswith(b"HTTP/1.1 200")
        self.body_bytes += sum(lengths)
        self.seconds_max = max(self.seconds_max, time.perf_counter() - begun)


def clients_process(port: int, paths: Sequence[str], count: int, control: Connection) -> None:
    """Run the clients while `control` says so; it is sent `Requests` at each end."""
    os.nice(NICENESS)
    if hasattr(os, "SCHED_IDLE"):
        # Who wakes up has the processor at once, although a client is at work there.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    may_run = threading.Event()
    clients = [HttpClient(port, paths, number / count) for number in range(count)]
    for client in clients:
        threading.Thread(target=client.run, args=(may_run,), daemon=True).start()
    while (order := control.recv()) is not None:
        if order:
            may_run.set()
            continue
        may_run.clear()
        for client in clients:
            client.is_idle.wait()
        control.send(
            Requests(
                sum(client.count for client in clients),
                sum(client.refused for client in clients),
                sum(client.body_bytes for client in clients),
                max(client.seconds_max for client in clients),
            )
        )
        for client in clients:
            client.count = client.refused = client.body_bytes = 0
            client.seconds_max = 0.0


class Clients:
    """The process of the clients, as the measuring one sees it."""

    def __init__(self, port: int, paths: Sequence[str], count: int) -> None:
        self._control, theirs = multiprocessing.Pipe()
        # Forked, and in this session: its niceness counts beside the load's process.
        self._process = multiprocessing.get_context("fork").Process(
            target=clients_process, args=(port, paths, count, theirs), daemon=True
        )
        self._process.start()
        theirs.close()

    def begin(self) -> None:
        """Request from now on."""
        self._control.send(True)

    def end(self) -> Requests:
        """Request no more; gives the answers, once all have come."""
        self._control.send(False)
        try:
            return cast("Requests", self._control.recv())
        except EOFError:
            raise BrokerError("the clients of the API have failed") from None

    def close(self) -> None:
        """End the process."""
        self._control.send(None)
        self._process.join()


# --- The turns


class Turn(NamedTuple):
    """One pair: the confirms alone and beside the clients, and what these were answered."""

    alone: Figures
    beside: Figures
    requests: Requests

    @property
    def ratio(self) -> float:
        """The p99 beside over the p99 alone."""
        return self.beside["p99_ms"] / self.alone["p99_ms"]

    @property
    def added_ms(self) -> float:
        """How much longer the p99 is."""
        return self.beside["p99_ms"] - self.alone["p99_ms"]


def declare(client: Client, queues: int) -> None:
    """Declare the queues and exchanges, and bind each queue to one of these."""
    for number in range(EXCHANGES):
        client.request(wire.exchange_declare(1, f"exchange-{number}", "topic"), (40, 11))
    for number in range(queues):
        name = f"queue-{number:05d}"
        client.declare_queue(1, name)
        bound = wire.queue_bind(1, name, f"exchange-{number % EXCHANGES}", f"key.{number}")
        client.request(bound, (50, 21))


class Purges(threading.Thread):
    """Purges a queue now and then, from `start` to `stop`, over a connection of its own.

    A turn's messages would count as memory of the API: a thousand of them are up to 1 MB.
    """

    def __init__(self, broker: Broker, queue: str) -> None:
        super().__init__(daemon=True)
        self._client = connected(broker)
        self._queue = queue
        self._ended = threading.Event()

    def run(self) -> None:
        """Purge until `stop`, and once more then."""
        is_over = False
        while not is_over:
            is_over = self._ended.wait(PURGE_SECONDS)
            self._client.request(wire.queue_purge(1, self._queue), (50, 31))

    def stop(self) -> None:
        """Leave no message in the queue."""
        self._ended.set()
        self.join()
        self._client.abandon()


def published(broker: Broker, cpu: BrokerCpu, seconds: float) -> Figures:
    """Publish to some of the queues, one message at a time; their rows change, all the while."""
    client = connected(broker)
    # A message to each of them first: the rest of the turn goes to one.
    for number in range(PUBLISHED_QUEUES):
        client.socket.sendall(wire.publish(1, "", f"queue-{number:05d}", wire.body_of(200)))
    client.abandon()
    client = connected(broker)
    block = wire.publish(1, "", "queue-00000", wire.body_of(200))
    purges = Purges(broker, "queue-00000")
    purges.start()
    figures = one_at_a_time(client, block, seconds, WARMUP_SECONDS, cpu)
    purges.stop()
    client.abandon()
    return figures


def measured(broker: Broker, clients: Clients, asked: argparse.Namespace) -> list[Turn]:
    """All pairs of turns."""
    cpu = BrokerCpu(broker.process().pid)
    turns: list[Turn] = []
    for number in range(asked.pairs):
        found: dict[bool, Figures] = {}
        requests = Requests(0, 0, 0, 0.0)
        for is_beside in (False, True) if number % 2 == 0 else (True, False):
            if is_beside:
                clients.begin()
                time.sleep(SETTLE_SECONDS)
            found[is_beside] = published(broker, cpu, asked.seconds)
            if is_beside:
                requests = clients.end()
        turns.append(Turn(found[False], found[True], requests))
        print("  ".join(line(number, turns[-1])), file=sys.stderr, flush=True)
    return turns


def line(number: int, turn: Turn) -> list[str]:
    """A row of the table."""
    requests = turn.requests
    return [
        str(number + 1),
        " / ".join(f"{each['p50_ms']:.2f}" for each in (turn.alone, turn.beside)),
        " / ".join(f"{each['p99_ms']:.2f}" for each in (turn.alone, turn.beside)),
        f"{turn.ratio:.2f}",
        f"{turn.added_ms:+.2f}",
        " / ".join(f"{each['broker_cpu_share']:.0%}" for each in (turn.alone, turn.beside)),
        f"{requests.answered} ({requests.refused})",
        f"{requests.body_bytes / MB:.0f}",
        f"{requests.seconds_max:.2f}",
    ]


HEADER = (
    "pair",
    "p50 ms alone / beside",
    "p99 ms alone / beside",
    "ratio",
    "added ms",
    "broker's CPU",
    "requests (not 200)",
    "MB",
    "slowest s",
)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.management_load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time of a turn")
    parser.add_argument("--queues", type=int, default=QUEUES)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--only", nargs="+", default=PATHS, metavar="PATH", help="request these")
    parser.add_argument("--command", help="starts the broker; default: this checkout's")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a bound is missed, 2 if the broker does not run."""
    asked = parsed(arguments)
    http_port = free_port()
    os.environ["LEVERET_HTTP_PORT"] = str(http_port)
    os.environ["LEVERET_HTTP_LISTENER"] = "on"
    try:
        with running(["leveret"], asked.directory, asked.command) as [broker]:
            print(machine(asked.directory), flush=True)
            setting_up = connected(broker)
            declare(setting_up, asked.queues)
            published(broker, BrokerCpu(broker.process().pid), 1.0)
            before_bytes = settled_bytes(broker)
            clients = Clients(http_port, asked.only, asked.clients)
            samples = MemorySamples(broker.process())
            samples.start()
            turns = measured(broker, clients, asked)
            added_bytes = samples.stop() - before_bytes
            clients.close()
            setting_up.abandon()
    except BrokerError as failure:
        print(failure, file=sys.stderr)
        return 2
    print(table(HEADER, [line(number, turn) for number, turn in enumerate(turns)]))
    ratio = statistics.median(turn.ratio for turn in turns)
    added_ms = statistics.median(turn.added_ms for turn in turns)
    is_felt = ratio > P99_RATIO_MAX and added_ms > P99_ADDED_MS_MAX
    print(
        f"p99: {ratio:.2f} times, {added_ms:+.2f} ms (medians of the pairs; at most "
        f"{P99_RATIO_MAX:g} times or {P99_ADDED_MS_MAX:+g} ms): {'FAIL' if is_felt else 'pass'}"
    )
    is_large = added_bytes > MEMORY_BYTES_MAX
    print(
        f"memory: {added_bytes / MB:+.0f} MB at the highest (at most {MEMORY_BYTES_MAX // MB}): "
        f"{'FAIL' if is_large else 'pass'}"
    )
    return 1 if is_felt or is_large else 0


if __name__ == "__main__":
    sys.exit(main())
