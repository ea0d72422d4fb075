"""A broker beside whose old message much passes: its journal stays small, and keeps the message."""

from __future__ import annotations

from pathlib import Path

import leveret
import pika
import pytest
from insides import context_of, wait_until
from timeouts import TIMEOUT_SECONDS

PERSISTENT = pika.BasicProperties(delivery_mode=2)
BODY = b"x" * 60_000
SEGMENT_BYTES = 1 << 20
PASSING = 12
# The segments that nothing rewrites yet, and those on their way.
SEGMENTS_MAX = 6


def connected(broker: leveret.Broker) -> pika.BlockingConnection:
    address = broker.host, broker.port
    return pika.BlockingConnection(
        pika.ConnectionParameters(*address, heartbeat=round(TIMEOUT_SECONDS))
    )


def started(data: Path) -> leveret.Broker:
    return leveret.Broker(
        data_dir=data,
        port=0,
        log_level="error",
        segment_bytes_max=SEGMENT_BYTES,
        compaction_segment_bytes_min=4096,
        maintenance_busy_percent_max=100,
        disk_check_interval_ms=50,
    )


@pytest.mark.parametrize("is_unacked", [True, False])
def test_an_old_message_keeps_no_others_on_the_disk(tmp_path: Path, is_unacked: bool) -> None:
    journal = tmp_path / "data" / "journal"

    def segments() -> int:
        return len(list(journal.glob("*.journal")))

    def journal_bytes() -> int:
        return sum(each.stat().st_size for each in journal.glob("*.journal"))

    with started(tmp_path / "data") as broker, connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for name in ("old", "passing"):
            channel.queue_declare(name, durable=True)
        channel.basic_publish("", "old", b"the old one", PERSISTENT)
        if is_unacked:
            assert channel.basic_get("old")[2] == b"the old one"
        for _ in range(PASSING):
            before = segments()
            for _ in range(SEGMENT_BYTES // len(BODY)):
                channel.basic_publish("", "passing", BODY, PERSISTENT)
                method, _, _ = channel.basic_get("passing")
                assert method is not None
                channel.basic_ack(method.delivery_tag)
            if before >= SEGMENTS_MAX:
                wait_until(lambda: segments() < SEGMENTS_MAX)
        wait_until(lambda: journal_bytes() < SEGMENTS_MAX * SEGMENT_BYTES)
        # The first one of all has the old message still, and hardly anything else.
        first = min(journal.glob("*.journal"))
        wait_until(lambda: first.stat().st_size < 4096)
        figures = context_of(broker).journal_figures
        assert figures.compactions > 0
        wait_until(lambda: figures.segments == segments())
    with started(tmp_path / "data") as broker, connected(broker) as connection:
        channel = connection.channel()
        method, _, body = channel.basic_get("old")
        assert (body, method.redelivered) == (b"the old one", is_unacked)
        assert channel.basic_get("passing") == (None, None, None)
