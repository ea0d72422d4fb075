"""docs/examples/publish_confirms.py says which broker it has talked to, whichever it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import leveret
import pika
from leveret.version import VERSION

from benchmarks.brokers import RabbitMQ

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "publish_confirms.py"


def lines_of_example(port: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env=os.environ | {"LEVERET_PORT": str(port)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_example_names_leveret_and_its_version(broker: leveret.Broker) -> None:
    lines = lines_of_example(broker.port)
    assert lines[0] == f"connected to Leveret {VERSION} on port {broker.port}"
    assert lines[1] == "confirmed: order 1 is on disk"
    assert lines[-2:] == [
        "returned: 312 NO_ROUTE",
        "the queue holds 10 messages; restart the broker, and it still does",
    ]


def test_the_example_names_another_broker_that_has_the_port(rabbitmq: RabbitMQ) -> None:
    lines = lines_of_example(rabbitmq.port)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", rabbitmq.port)) as client:
        client.channel().queue_delete("orders")
    assert lines[0].startswith("connected to RabbitMQ 3.")
    assert lines[0].endswith(f", which is not Leveret, on port {rabbitmq.port}")
