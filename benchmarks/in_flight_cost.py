"""Compares what a queue pays to return due messages beside few and beside many that are in flight.

    python -m benchmarks.in_flight_cost --few 1000 --many 1000000

Two queues, with so many messages in flight that are not due, each in a delivery of its own. In each
turn both get a hundred messages more whose in-flight time-out is over at once; their return is
measured in this process's CPU time, the two in turn, so that both meet the same machine. The
cost must go with the due messages: the heap adds a few comparisons for each of them, and the memory
of a large queue lies in no cache. Ends with exit code 1 if the median ratio is above the bound.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time

from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.rules import Effects, MessageQueue

from benchmarks import wire

# What the return of one message may cost, beside many, of what it costs beside few.
RATIO_MAX = 2.0
DUE = 100
SOON_MS = 10
LATER_MS = 3_600_000
WINDOW_BYTES = 1 << 50


class Loaded:
    """A queue with messages in flight, and two consumers: one of long patience, one of little."""

    def __init__(self, in_flight: int) -> None:
        self.queue: MessageQueue = make_queue("q", False, table_of({}), WINDOW_BYTES)
        self._batch: Batch = decode_publishes(wire.publish(1, "", "q", b"x"))
        self._add("patient", LATER_MS, in_flight)
        for _ in range(in_flight):
            self._publish()

    def _add(self, name: str, timeout_ms: int, prefetch: int) -> None:
        consumer = Consumer(
            name,
            b"\x01c",
            prefetch,
            ChannelCredit(),
            False,
            False,
            in_flight_timeout_ms=timeout_ms,
        )
        self.queue.add_consumer(consumer)

    def _publish(self) -> None:
        self.queue.publish(self._batch, range(1), Effects())

    def turn(self) -> float:
        """Deliver a hundred, let their time pass; give the CPU microseconds of each return."""
        queue = self.queue
        # The other has its prefetch, and this one gets no more than its own, because it stalls.
        self._add("hasty", SOON_MS, DUE)
        for _ in range(DUE):
            self._publish()
        queue.uptime_ms += SOON_MS
        effects = Effects()
        begun_ns = time.process_time_ns()
        queue.expire(effects)
        used_ns = time.process_time_ns() - begun_ns
        assert len(effects.timed_out or ()) == DUE
        queue.channel_down("hasty", Effects())
        queue.purge(Effects())
        return used_ns / 1000 / DUE


def paired(few: Loaded, many: Loaded, turns: int) -> list[tuple[float, float]]:
    """Measure both in turn; which comes first changes from turn to turn."""
    pairs = []
    for number in range(turns):
        if number % 2:
            beside_few = few.turn()
            pairs.append((beside_few, many.turn()))
        else:
            beside_many = many.turn()
            pairs.append((few.turn(), beside_many))
    return pairs


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 if the ratio is above the bound."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.in_flight_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--few", type=int, default=1_000, help="messages in flight")
    parser.add_argument("--many", type=int, default=1_000_000, help="messages in flight")
    parser.add_argument("--turns", type=int, default=200)
    asked = parser.parse_args(arguments)
    few, many = Loaded(asked.few), Loaded(asked.many)
    # A collection would go through all messages in flight, and does not belong to the figure.
    gc.freeze()
    pairs = paired(few, many, asked.turns)
    beside_few, beside_many = (statistics.median(each) for each in zip(*pairs, strict=True))
    ratio = statistics.median(many / few for few, many in pairs)
    print(
        f"a message that times out takes {beside_few:.2f} us beside {asked.few:,} in flight, "
        f"{beside_many:.2f} us beside {asked.many:,}: ratio {ratio:.2f}, "
        f"required <= {RATIO_MAX:g} {'pass' if ratio <= RATIO_MAX else 'FAIL'}"
    )
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
