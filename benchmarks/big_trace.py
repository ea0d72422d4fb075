"""A trace of millions of events, for tests and figures: a broker traced in full, under mixed load.

    python -m benchmarks.big_trace build/big-trace --events 2000000

Seven clients publish to eight queues in small windows, so that most socket reads bring few messages
and each message has events of its own: persistent and transient, one queue and three, keys mixed,
unroutable and mandatory; some queues are consumed. The files rotate, and all but the last are
compressed. `--plain` unpacks them.
"""

from __future__ import annotations

import argparse
import gzip
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path

from leveret.logs.reading.tail import TraceTail

from benchmarks import wire
from benchmarks.brokers import Leveret
from benchmarks.client import Client
from benchmarks.load import Consumer, Load, LoadedConnection, Publisher
from benchmarks.tag_frames import TagFrames

FANOUT = "big-trace-fanout"
FANOUT_QUEUES = ["audit", "archive", "search"]
QUEUES = {"orders": True, "payments": True, "metrics": False, "red": True, "blue": True}
CONSUMED = ("orders", "payments", "metrics", "audit", "red")
PREFETCH = 50
BODY_BYTES = 200
FILE_BYTES = 32 << 20
LOOK_SECONDS = 0.25
# The buffer is never full: a trace with gaps is another thing.
SETTINGS = {
    "TRACE_ONE_OF": 1,
    "TRACE_BUFFER_BYTES_MAX": 1 << 30,
    "TRACE_FILE_BYTES_MAX": FILE_BYTES,
    "TRACE_FILES_MAX": 10_000,
}


def publishers() -> list[Publisher]:
    """Each publisher's block of messages and its window."""
    body = wire.body_of(BODY_BYTES)

    def publisher(keys: list[str], window: int, mode: int = wire.PERSISTENT) -> Publisher:
        block = [wire.publish(1, "", key, body, mode) for key in keys]
        return Publisher([b"".join(block)], len(keys), [1], window)

    fanout = wire.publish(1, FANOUT, "", body)
    unroutable = wire.publish(1, "", "nobody", body, wire.PERSISTENT, mandatory=True)
    return [
        publisher(["orders"] * 4, 12),
        publisher(["orders"], 2),
        publisher(["payments"], 3),
        publisher(["metrics"] * 10, 20, wire.TRANSIENT),
        publisher(["red", "blue", "red", "orders", "blue"], 10),
        Publisher([fanout * 2], 2, [1], 4),
        Publisher([unroutable], 1, [1], 1),
    ]


def connected(port: int) -> Load:
    """Declare the queues; give the publishers and consumers, ready to run."""
    client = Client(port)
    client.open_channel(1)
    for queue, durable in QUEUES.items():
        client.declare_queue(1, queue, durable)
    for queue in FANOUT_QUEUES:
        client.declare_queue(1, queue)
    client.declare_fanout(1, FANOUT, FANOUT_QUEUES)
    client.close()
    connections = []
    for queue in CONSUMED:
        client = Client(port)
        client.open_channel(1)
        client.consume(1, queue, PREFETCH)
        consumer = Consumer(1, TagFrames(wire.ack(1, 0), 11))
        connections.append(LoadedConnection(client.socket, None, consumer))
    for publisher in publishers():
        client = Client(port)
        client.open_channel(1, confirm=True)
        connections.append(LoadedConnection(client.socket, publisher, None))
    return Load(connections)


def make(directory: Path, events: int) -> int:
    """Write at least so many events to `directory`, as a broker does; give how many there are."""
    directory.mkdir(parents=True)
    scratch = Path(tempfile.mkdtemp(prefix="big-trace-", dir=directory))
    settings = [f"LEVERET_{name}={value}" for name, value in SETTINGS.items()]
    python = shlex.quote(sys.executable)
    broker = Leveret(scratch, f"env {' '.join(settings)} {python} -m leveret serve")
    broker.start()
    written = 0
    try:
        load = connected(broker.port)
        tail = TraceTail(scratch / "leveret" / "data" / "traces", from_begin=True)
        while written < events:
            load.run(LOOK_SECONDS)
            while lines := tail.lines():
                written += len(lines)
        load.drain()
        # A client that is there and does not answer holds up the stop.
        for connection in load.connections:
            connection.socket.close()
    finally:
        broker.stop()
    while lines := tail.lines():
        written += len(lines)
    for path in sorted((scratch / "leveret" / "data" / "traces").iterdir()):
        path.rename(directory / path.name)
    shutil.rmtree(scratch)
    return written


def unpack(directory: Path) -> None:
    """Put the plain files in place of the compressed ones."""
    for path in sorted(directory.glob("*.gz")):
        with gzip.open(path) as packed, path.with_suffix("").open("wb") as plain:
            shutil.copyfileobj(packed, plain)
        path.unlink()


def main() -> None:
    """Parse the arguments, make the trace, print its size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("directory", type=Path, metavar="OUT", help="a folder that is not there")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--plain", action="store_true", help="no compressed files")
    arguments = parser.parse_args()
    begun = time.monotonic()
    events = make(arguments.directory, arguments.events)
    if arguments.plain:
        unpack(arguments.directory)
    files = list(arguments.directory.iterdir())
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    print(
        f"{events} events in {len(files)} files, {megabytes:.0f} MB, "
        f"in {time.monotonic() - begun:.0f} s"
    )


if __name__ == "__main__":
    main()
