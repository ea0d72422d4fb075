"""Measures the journal's size behind one old message, and what keeping it small costs.

    python -m benchmarks.old_message
    python -m benchmarks.old_message --only size --gigabytes 2
    python -m benchmarks.old_message --only compaction check --rounds 5

- `size`: a queue holds one unacked message, while 20 GB of persistent messages pass through another
  queue; the size of the data directory is looked at all the time, and may be 1 GB at most;
- `compaction`: two brokers under the same load in turn, publishers with consumers that ack. A few
  times a second a further message is published that stays for ever with the one broker, so that
  mostly dead segments have to be compacted, and is acked at once with the other;
- `check`: two brokers under the same load in turn, each started again before its turn, the one on a
  large backlog, whose segments it checks in the background.

Of the turns the median ratios are shown: of the rates of confirms, at least 0.9, and of their 99th
percentiles, at most 1.2. Ends with exit code 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks import wire
from benchmarks.backlog import MB, Filler, connected, drain, received
from benchmarks.brokers import Broker, Leveret, running
from benchmarks.measuring import Figures
from benchmarks.messages import pool
from benchmarks.scenarios import Scenario, scenario_named
from benchmarks.side_by_side import ROOT, generated

GB = 1000 * MB
SIZE_MAX = 1 * GB
RATE_MIN, P99_MAX = 0.9, 1.2
OLD, THROUGH, BACKLOG = "old", "through", "backlog"
BODY = wire.body_of(16_384)
BLOCK = 10
# So many are published and confirmed, and then consumed and acked.
CHUNK = 1_000
LOOK_SECONDS = 0.1
# An old message so often, while a turn of `compaction` lasts.
OLD_SECONDS = 0.05
BACKLOG_BLOCK = 50
PARTS = ("size", "compaction", "check")


def directory_bytes(directory: Path) -> int:
    """The size of all files below it."""
    size = 0
    for file in directory.rglob("*"):
        # Removed meanwhile.
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


class Sizes(NamedTuple):
    """Of the data directory: at most, and at the end; and what passed through in how long."""

    most_bytes: int
    last_bytes: int
    passed_bytes: int
    seconds: float


class SizeSamples(threading.Thread):
    """Looks at a directory's size now and then."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self._directory = directory
        self._ended = threading.Event()
        self.most_bytes = 0

    def run(self) -> None:
        """Look until `stop`."""
        while not self._ended.wait(LOOK_SECONDS):
            self.most_bytes = max(self.most_bytes, directory_bytes(self._directory))

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()


def sizes(broker: Leveret, bytes_to_pass: int) -> Sizes:
    """Hold one message, and pass so many bytes through another queue."""
    holder = connected(broker, OLD)
    Filler(holder, [wire.publish(1, "", OLD, BODY)], 1).fill(1)
    holder.consume(1, OLD, 0)
    drain(holder, 1)
    publisher, consumer = connected(broker, THROUGH), connected(broker)
    consumer.consume(1, THROUGH, CHUNK)
    message = wire.publish(1, "", THROUGH, BODY)
    filler = Filler(publisher, [message * BLOCK], BLOCK)
    samples = SizeSamples(broker.data_dir)
    samples.start()
    begun = time.perf_counter()
    tag = 0
    for _ in range(max(1, bytes_to_pass // (CHUNK * len(message)))):
        filler.fill(CHUNK)
        drain(consumer, CHUNK)
        tag += CHUNK
        consumer.socket.sendall(wire.ack(1, tag, multiple=True))
    seconds = time.perf_counter() - begun
    samples.stop()
    last_bytes = directory_bytes(broker.data_dir)
    for client in (holder, publisher, consumer):
        client.abandon()
    return Sizes(max(samples.most_bytes, last_bytes), last_bytes, tag * len(message), seconds)


@contextmanager
def single_messages(broker: Broker, stay: bool) -> Iterator[None]:
    """Publish a message a few times a second; those that do not `stay` are consumed and acked."""
    client = connected(broker, OLD)
    consumer = connected(broker)
    if not stay:
        consumer.consume(1, OLD, 1)
    filler = Filler(client, [wire.publish(1, "", OLD, wire.body_of(200))], 1)
    ended = threading.Event()

    def publish() -> None:
        while not ended.wait(OLD_SECONDS):
            filler.fill(1)
            if not stay:
                while wire.BODY_MARKER not in received(consumer):
                    pass
                consumer.socket.sendall(wire.ack(1, filler.confirmed))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        client.abandon()
        consumer.abandon()


@contextmanager
def two_brokers(asked: argparse.Namespace) -> Iterator[tuple[Broker, Broker]]:
    """Two of them, each with a directory of its own."""
    with (
        running(["leveret"], asked.directory, asked.command) as [one],
        running(["leveret"], asked.directory, asked.command) as [other],
    ):
        yield one, other


Turn = Callable[[Scenario, float], Figures]


def paired(one: Turn, other: Turn, rounds: int, seconds: float) -> list[tuple[Figures, Figures]]:
    """Measure both in turn; which comes first changes from round to round."""
    scenario = scenario_named("real-consume")
    pairs = []
    for number in range(rounds):
        if number % 2:
            second = other(scenario, seconds)
            pairs.append((one(scenario, seconds), second))
        else:
            first = one(scenario, seconds)
            pairs.append((first, other(scenario, seconds)))
    return pairs


def beside_compaction(asked: argparse.Namespace) -> list[tuple[Figures, Figures]]:
    """With messages that stay, and with the same messages acked."""
    with two_brokers(asked) as (keeping, other):

        def turn(broker: Broker, stay: bool) -> Turn:
            def measure(scenario: Scenario, seconds: float) -> Figures:
                with single_messages(broker, stay):
                    return generated(broker, scenario, seconds, 1.0)

            return measure

        return paired(turn(keeping, True), turn(other, False), asked.rounds, asked.seconds)


def beside_check(asked: argparse.Namespace) -> list[tuple[Figures, Figures]]:
    """Right after a start on a backlog, and right after one on none."""
    with two_brokers(asked) as (full, other):
        client = connected(full, BACKLOG)
        messages = pool([BACKLOG])
        blocks = [
            b"".join(messages[at : at + BACKLOG_BLOCK])
            for at in range(0, len(messages), BACKLOG_BLOCK)
        ]
        filler = Filler(client, blocks, BACKLOG_BLOCK)
        size = sum(map(len, messages)) / len(messages)
        filler.fill(int(asked.backlog_gigabytes * GB / size) // BACKLOG_BLOCK * BACKLOG_BLOCK)
        client.close()

        def turn(broker: Broker) -> Turn:
            def measure(scenario: Scenario, seconds: float) -> Figures:
                broker.stop()
                broker.start()
                return generated(broker, scenario, seconds, 1.0)

            return measure

        return paired(turn(full), turn(other), asked.rounds, asked.seconds)


def show_pairs(name: str, pairs: list[tuple[Figures, Figures]]) -> bool:
    """Print the medians; are both within their bounds?"""
    rate = statistics.median(one["rate"] / other["rate"] for one, other in pairs)
    p99 = statistics.median(one["p99_ms"] / other["p99_ms"] for one, other in pairs)
    rates = statistics.median(one["rate"] for one, _ in pairs)
    others = statistics.median(other["rate"] for _, other in pairs)
    is_fine = rate >= RATE_MIN and p99 <= P99_MAX
    print(
        f"{name}: {rates:,.0f} confirms/s beside it, {others:,.0f} without: ratio {rate:.2f} "
        f"(>= {RATE_MIN}); p99 ratio {p99:.2f} (<= {P99_MAX}) {'pass' if is_fine else 'FAIL'}",
        flush=True,
    )
    return is_fine


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a bound is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.old_message",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--gigabytes", type=float, default=20.0, help="that pass through")
    parser.add_argument("--backlog-gigabytes", type=float, default=2.0, help="to be checked")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0, help="a turn")
    program = f"{shlex.quote(sys.executable)} -m leveret serve"
    parser.add_argument("--command", default=program, help="starts the broker")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench")
    asked = parser.parse_args(arguments)
    is_fine = True
    if "size" in asked.only:
        with running(["leveret"], asked.directory, asked.command) as [broker]:
            assert isinstance(broker, Leveret)
            found = sizes(broker, int(asked.gigabytes * GB))
        is_small = found.most_bytes <= SIZE_MAX
        print(
            f"size: {found.passed_bytes / GB:.1f} GB in {found.seconds:.0f} s; the directory had "
            f"{found.most_bytes / MB:,.0f} MB at most, {found.last_bytes / MB:,.0f} at the end "
            f"(<= {SIZE_MAX // MB:,}) {'pass' if is_small else 'FAIL'}",
            flush=True,
        )
        is_fine = is_small
    if "compaction" in asked.only:
        is_fine = show_pairs("compaction", beside_compaction(asked)) and is_fine
    if "check" in asked.only:
        is_fine = show_pairs("check", beside_check(asked)) and is_fine
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
