"""A disk that fails: no confirm, the process ends, and what was confirmed before is there.

The errors are the kernel's own, or strace's in its place: the broker's code is the one that runs.
"""

from __future__ import annotations

import errno
import os
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from socket_client import EndedError, SocketClient
from system_calls import needs_strace, strace

# More than any of these tests gets confirmed before its disk fails.
PUBLISHES_MAX = 10_000


SMALL_BYTES = 200
# Its commit goes past the page cache.
LARGE_BYTES = 700_000


def body(number: int, size: int = SMALL_BYTES) -> bytes:
    return (b"message-%06d" % number).ljust(size, b"x")


def publish_until_it_ends(broker: BrokerProcess, size: int = SMALL_BYTES) -> tuple[int, int]:
    """Publish one by one; how many were confirmed, and how many sent."""
    client = SocketClient(broker.port)
    client.open_channel(confirm=True)
    client.declare("queue")
    confirmed = sent = 0
    try:
        while sent < PUBLISHES_MAX:
            sent += 1
            answer = client.publish_confirmed("", "queue", body(sent, size))
            assert answer == struct.pack(">QB", sent, 0)
            confirmed = sent
    except EndedError:
        pass
    return confirmed, sent


def declare_until_it_ends(broker: BrokerProcess) -> int:
    """Declare queue after queue; how many were answered for."""
    client = SocketClient(broker.port)
    client.open_channel()
    declared = 0
    try:
        while declared < PUBLISHES_MAX:
            client.declare(f"queue-{declared}")
            declared += 1
    except EndedError:
        pass
    return declared


def kept(broker: BrokerProcess) -> list[bytes]:
    """All that is in the queue, in order."""
    client = SocketClient(broker.port)
    client.open_channel()
    count = client.declare("queue")
    client.ask(wire.consume(1, "queue", "reader"), wire.CONSUME_OK)
    bodies = []
    for _ in range(count):
        delivery = client.delivery()
        assert not isinstance(delivery, wire.Frame)
        bodies.append(delivery.body)
    client.abandon()
    return bodies


def check(
    broker: BrokerProcess,
    start_broker: Callable[..., BrokerProcess],
    confirmed: int,
    sent: int,
    error: str,
    size: int = SMALL_BYTES,
) -> None:
    """The broker ended and said why; two starts later all that was confirmed is there, in order."""
    assert broker.wait() == 1
    assert "broker.failed" in broker.log()
    assert error in broker.log()
    assert sent == confirmed + 1, "the publish whose commit failed was confirmed"
    for _ in range(2):
        again = start_broker().listening()
        bodies = kept(again)
        # The last one may be there: it was written, or is in a record that verifies.
        assert len(bodies) in (confirmed, sent)
        assert bodies == [body(number, size) for number in range(1, len(bodies) + 1)]
        assert again.faults() == []
        again.kill()
    print(f"\n{error}: {confirmed} confirmed, then none; {len(bodies)} there after two restarts")


@needs_strace
@pytest.mark.parametrize("when", [5, 500])
@pytest.mark.parametrize(
    ("call", "error"), [("fdatasync", "EIO"), ("fdatasync", "ENOSPC"), ("writev", "EIO")]
)
def test_a_failed_write_or_sync_of_the_journal_is_never_confirmed_and_ends_the_broker(
    when: int, call: str, error: str, tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    injection = ("-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}+")
    # Only calls on the first segment fail, of those that the journal's thread makes.
    segment = tmp_path / "data" / "journal" / f"{1:020d}.journal"
    broker = start_broker(*strace(tmp_path / "trace", "-P", str(segment), *injection)).listening()
    confirmed, sent = publish_until_it_ends(broker)
    assert 0 < confirmed <= when
    check(broker, start_broker, confirmed, sent, os.strerror(getattr(errno, error)))


@needs_strace
def test_a_failed_direct_write_is_never_confirmed_and_ends_the_broker(
    tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    injection = ("-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EIO:when=7+")
    segment = tmp_path / "data" / "journal" / f"{1:020d}.journal"
    broker = start_broker(*strace(tmp_path / "trace", "-P", str(segment), *injection)).listening()
    confirmed, sent = publish_until_it_ends(broker, LARGE_BYTES)
    assert confirmed == 6
    check(broker, start_broker, confirmed, sent, os.strerror(errno.EIO), LARGE_BYTES)


def test_a_file_that_may_not_grow_ends_the_broker_in_the_middle_of_a_record(
    tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    # As on a full disk, the last write takes a part of its bytes, the next one nothing. More than
    # the journal writes ahead of itself.
    size = 600_000
    broker = start_broker().listening()
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size, size))
    confirmed, sent = publish_until_it_ends(broker)
    (segment,) = (tmp_path / "data" / "journal").glob("*.journal")
    assert segment.stat().st_size == size
    check(broker, start_broker, confirmed, sent, "File too large")


@needs_strace
@pytest.mark.parametrize(
    ("call", "when"), [("fdatasync", 3), ("fdatasync", 30), ("pwrite64", 30), ("pwrite64", 301)]
)
def test_a_failed_write_or_sync_of_the_catalog_is_never_answered_and_ends_the_broker(
    call: str, when: int, tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    start_broker().listening().kill()
    injection = ("-e", f"trace={call}", "-e", f"inject={call}:error=EIO:when={when}+")
    wal = tmp_path / "data" / "catalog.sqlite-wal"
    broker = start_broker(*strace(tmp_path / "trace", "-P", str(wal), *injection)).listening()
    declared = declare_until_it_ends(broker)
    assert 0 < declared <= when
    assert broker.wait() == 1
    assert "broker.failed" in broker.log()
    for _ in range(2):
        again = start_broker().listening()
        client = SocketClient(again.port)
        client.open_channel()
        for number in range(declared):
            assert client.declare(f"queue-{number}", passive=True) == 0
        assert again.faults() == []
        again.kill()
    print(f"\n{call} of the catalog: {declared} declared, then none; all there after two restarts")
