"""Fsync before confirm, seen from outside: strace watches a live broker's system calls."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from statistics import median

import frames_by_hand as wire
from broker_process import BrokerProcess
from socket_client import SocketClient
from system_calls import CATALOG, JOURNAL, OUTPUT, Disk, Trace, calls_of, needs_strace, strace

pytestmark = needs_strace

PUBLISHES = 1_000
MARK = re.compile(rb"publish-(\d{6})")
# A basic.ack on channel 1, up to its tag.
ACK = wire.ack(1, 0)[:11]


def body(number: int, size: int = 200) -> bytes:
    return mark(number) + b"x" * (size - 14)


def mark(number: int) -> bytes:
    return b"publish-%06d" % number


def acked_tags(data: bytes) -> list[tuple[int, bool]]:
    """Tag and multiple of each basic.ack in what was written."""
    return [struct.unpack_from(">Q?", data, at.end()) for at in re.finditer(re.escape(ACK), data)]


def reply(ids: wire.Ids) -> bytes:
    return struct.pack(">HH", *ids)


def test_a_lone_publish_is_confirmed_only_when_its_own_fdatasync_has_returned(
    tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(*strace(tmp_path / "trace")).listening()
    client = SocketClient(broker.port)
    client.open_channel(confirm=True)
    client.declare("queue")
    for number in range(1, PUBLISHES + 1):
        answer = client.publish_confirmed("", "queue", body(number))
        assert answer == struct.pack(">QB", number, 0)
    client.close()
    assert broker.stop() == 0

    trace = Trace(tmp_path / "trace")
    answer_seconds, sync_seconds = [], []
    line = 0
    for number in range(1, PUBLISHES + 1):
        received, synced, answered = trace.synced_answer(
            line, mark(number), ACK, JOURNAL, mark(number)
        )
        assert acked_tags(answered.data) == [(number, False)]
        assert synced.name == "fdatasync"
        answer_seconds.append(answered.begun_seconds - received.done_seconds)
        sync_seconds.append(synced.done_seconds - synced.begun_seconds)
        line = answered.begun
    print(
        f"\n{PUBLISHES} single publishes: {len(sync_seconds)} confirmed behind a write of their "
        f"bytes and an fdatasync that had returned, 0 before it; receipt to ack "
        f"{median(answer_seconds) * 1e3:.2f} ms, of which fdatasync "
        f"{median(sync_seconds) * 1e3:.2f} ms (medians, under strace)"
    )


def test_no_pipelined_publish_is_confirmed_before_its_file_and_its_name_are_synced(
    tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    count, window, size = 4_000, 400, 1_000
    broker = start_broker(*strace(tmp_path / "trace"), segment_bytes_max=1 << 20).listening()
    client = SocketClient(broker.port)
    client.open_channel(confirm=True)
    client.declare("queue")
    confirmed = sent = 0
    while confirmed < count:
        block = range(sent + 1, min(confirmed + window, count) + 1)
        client.send(b"".join(wire.publish(1, "", "queue", body(n, size)) for n in block))
        sent += len(block)
        confirmed = struct.unpack_from(">Q", client.expect(wire.ACK))[0]
    client.close()
    assert broker.stop() == 0

    disk = Disk()
    safe: set[int] = set()
    answered = commits = 0
    for call in calls_of(tmp_path / "trace"):
        if call.name in OUTPUT and call.is_socket:
            for tag, multiple in acked_tags(call.data):
                covered = range(answered + 1, tag + 1) if multiple else [tag]
                unsafe = [number for number in covered if number not in safe]
                assert not unsafe, f"confirmed before their sync: {unsafe}"
                answered = max(answered, tag)
        fresh = [int(number) for data in disk.apply(call) for number in MARK.findall(data)]
        commits += bool(fresh)
        safe.update(fresh)
    assert answered == count
    assert disk.segments >= 4
    print(f"\n{count} publishes, window {window}: {commits} commits, {disk.segments} segments")


def test_topology_is_answered_only_when_the_catalog_is_synced(
    tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(*strace(tmp_path / "trace")).listening()
    client = SocketClient(broker.port)
    client.open_channel()
    client.declare("bound")
    # What the catalog must hold, the command, its answer.
    commands: list[tuple[str, bytes, wire.Ids]] = []
    for number in range(50):
        queue, exchange, key = f"queue-{number:03d}", f"exchange-{number:03d}", f"key-{number:03d}"
        commands += [
            (queue, wire.queue_declare(1, queue), wire.QUEUE_DECLARE_OK),
            (exchange, wire.exchange_declare(1, exchange, "topic"), wire.EXCHANGE_DECLARE_OK),
            (key, wire.queue_bind(1, "bound", exchange, key), wire.QUEUE_BIND_OK),
            ("", wire.queue_delete(1, queue), wire.QUEUE_DELETE_OK),
        ]
    for _, command, ids in commands:
        client.ask(command, ids)
    client.close()
    assert broker.stop() == 0

    trace = Trace(tmp_path / "trace")
    line = 0
    for name, command, ids in commands:
        *_, answered = trace.synced_answer(line, command, reply(ids), CATALOG, name.encode())
        line = answered.begun
    print(f"\n{len(commands)} topology commands, each answered behind the catalog's sync")


def test_a_purge_is_answered_only_when_it_is_synced(
    tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    count = 100
    broker = start_broker(*strace(tmp_path / "trace")).listening()
    client = SocketClient(broker.port)
    client.open_channel(confirm=True)
    client.declare("queue")
    purge = wire.queue_purge(1, "queue")
    for number in range(count):
        client.publish_confirmed("", "queue", body(number))
        assert client.ask(purge, wire.QUEUE_PURGE_OK) == struct.pack(">I", 1)
    client.close()
    assert broker.stop() == 0

    trace = Trace(tmp_path / "trace")
    line = 0
    for _ in range(count):
        *_, answered = trace.synced_answer(line, purge, reply(wire.QUEUE_PURGE_OK), JOURNAL, b"")
        line = answered.begun
    print(f"\n{count} purges, each answered behind its sync")
