"""README.md and docs/TRACE.md quote an explanation from a real run: it still looks like that."""

from __future__ import annotations

import re
from pathlib import Path

import pika
import pytest
from leveret.logs.reading.tail import TraceTail
from traced import explanation, traced, wait_for_events

ROOT = Path(__file__).parents[2]


def form(text: str) -> list[str]:
    """The lines without what differs from run to run: times, addresses and the boot's id."""
    text = re.sub(r"\d\d:\d\d:\d\d\.\d{6} +\d+\.\d{3} ms \(\+\d+\.\d{3}\)", "TIMES", text)
    text = re.sub(r"took \d+\.\d{3} ms", "took TIME", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "CLIENT", text)
    return re.sub(r"\b[0-9a-f]{8}-", "BOOT-", text).splitlines()


@pytest.mark.parametrize("document", ["README.md", "docs/TRACE.md"])
def test_the_quoted_explanation_is_what_leveret_says(
    document: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker:
        parameters = pika.ConnectionParameters(broker.host, broker.port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.queue_declare("testQueue", durable=True)
            channel.queue_bind("testQueue", "amq.direct", "testQueue")
            channel.confirm_delivery()
            properties = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("amq.direct", "testQueue", b"hello", properties, mandatory=True)
        wait_for_events(
            TraceTail(tmp_path / "data" / "traces", from_begin=True), "connection.closed"
        )
        said = "\n".join(explanation(tmp_path, capsys))
    text = (ROOT / document).read_text()
    quoted = re.search(r"^message [0-9a-f]{8}-.*?(?=^```)", text, re.MULTILINE | re.DOTALL)
    assert quoted is not None
    assert form(quoted[0]) == form(said)
    # The command above it names the same client.
    client = re.search(r"127\.0\.0\.1:\d+", quoted[0])
    assert client is not None
    assert f"leveret trace explain --connection {client[0]} --channel 1 --seq-no 1" in text
