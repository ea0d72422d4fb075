"""Runs a broker in a control group of 256 MB, with a backlog that is many times as large.

    python -m benchmarks.small_memory
    python -m benchmarks.small_memory --messages 500000 --megabytes 256

Publishes persistent messages of 1 KB to one queue, each confirmed; restarts the broker; drains the
queue, acking each message. The kernel kills a broker that takes more than the group's memory, so
the report says whether it lived, its own resident memory at most, how long each part took, and how
long it took to accept connections again. Ends with exit code 1 if it was killed, or if a
message was missing. Needs the right to make a control group: root has it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import wire
from benchmarks.backlog import MB, Filler, StoppedError, connected, drain, peak_bytes
from benchmarks.brokers import Broker, BrokerError, running
from benchmarks.client import RefusedError
from benchmarks.memory_cgroup import MIB, CgroupUnavailableError, memory_cgroup
from benchmarks.side_by_side import ROOT

QUEUE = "large"
BODY = wire.body_of(1024)
BLOCK = 20
PREFETCH = 2_000
ACK_EVERY = 500


def fill(broker: Broker, count: int) -> str:
    """Publish; all are confirmed when this ends."""
    client = connected(broker, QUEUE)
    seconds = Filler(client, [wire.publish(1, "", QUEUE, BODY) * BLOCK], BLOCK).fill(count)
    client.close()
    return f"{count:,} messages in {seconds:.0f} s, {count / seconds:,.0f} per second"


def restart(broker: Broker, _count: int) -> str:
    """Stop and start; it accepts connections when this ends."""
    begun = time.monotonic()
    broker.stop()
    stopped = time.monotonic()
    broker.start()
    listening = time.monotonic()
    return f"stopped in {stopped - begun:.1f} s, listening after {listening - stopped:.1f} s"


def empty(broker: Broker, count: int) -> str:
    """Consume and ack all."""
    client = connected(broker, QUEUE)
    client.consume(1, QUEUE, PREFETCH)
    seconds = drain(client, count, ACK_EVERY)
    client.close()
    return f"{count:,} messages in {seconds:.0f} s, {count / seconds:,.0f} per second"


PARTS: list[tuple[str, Callable[[Broker, int], str]]] = [
    ("publish", fill),
    ("restart", restart),
    ("drain", empty),
]


def run(messages: int, limit_bytes: int, directory: Path, program: str) -> bool:
    """Do all parts, print a line for each; false if the broker was killed on the way."""
    is_done = False
    with memory_cgroup(limit_bytes) as group:
        command = f"{shlex.join(group.command)} {program}"
        try:
            with running(["leveret"], directory, command) as [broker]:
                for name, part in PARTS:
                    said = part(broker, messages)
                    # Of the process that runs now: of its start, too, after the restart.
                    most = peak_bytes(broker.process())
                    print(f"{name}: {said}; {most / MB:.0f} MB resident at most", flush=True)
                is_done = True
        except (StoppedError, RefusedError, BrokerError, OSError) as error:
            print(f"the broker has ended: {error}")
        print(
            f"the group of {limit_bytes / MB:.0f} MB: {group.peak_bytes / MB:.0f} MB at most, "
            f"files' pages included; {group.kills} processes killed"
        )
        return is_done and group.kills == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; 1 if the broker was killed, 2 if there can be no group."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small_memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=5_000_000)
    parser.add_argument("--megabytes", type=int, default=256, help="of the group; mebibytes")
    program = f"{shlex.quote(sys.executable)} -m leveret serve"
    parser.add_argument("--command", default=program, help="starts the broker")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench")
    asked = parser.parse_args(arguments)
    limit_bytes = asked.megabytes * MIB
    try:
        lived = run(asked.messages, limit_bytes, asked.directory, asked.command)
    except CgroupUnavailableError as error:
        print(f"no control group: {error}", file=sys.stderr)
        return 2
    return 0 if lived else 1


if __name__ == "__main__":
    sys.exit(main())
