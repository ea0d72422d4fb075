"""The clients of amqp-tools, which are written in C with librabbitmq."""

from __future__ import annotations

import shutil
import subprocess

import leveret
import pytest
from timeouts import TIMEOUT_SECONDS

TOOLS = ("amqp-declare-queue", "amqp-publish", "amqp-get", "amqp-consume", "amqp-delete-queue")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} not found: install amqp-tools to run these"
)


def run(broker: leveret.Broker, tool: str, *arguments: str, text: str = "") -> str:
    finished = subprocess.run(
        [tool, f"--url=amqp://guest:guest@{broker.host}:{broker.port}/%2f", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, f"{tool}: {finished.stderr}"
    return finished.stdout


def test_the_tools_declare_publish_get_consume_and_delete(broker: leveret.Broker) -> None:
    assert run(broker, "amqp-declare-queue", "--queue=q", "--durable") == "q\n"
    for body in ("one", "two", "three"):
        run(broker, "amqp-publish", "--routing-key=q", "--persistent", f"--body={body}")
    assert run(broker, "amqp-get", "--queue=q") == "one"
    assert run(broker, "amqp-consume", "--queue=q", "--count=2", "cat") == "twothree"
    run(broker, "amqp-publish", "--routing-key=q", text="from standard input")
    assert run(broker, "amqp-delete-queue", "--queue=q") == "1\n"


def test_the_tools_bind_and_publish_through_an_exchange(broker: leveret.Broker) -> None:
    run(broker, "amqp-declare-queue", "--queue=q")
    run(broker, "amqp-publish", "--exchange=amq.topic", "--routing-key=a.b", "--body=lost")
    consumer = subprocess.Popen(
        [
            "amqp-consume",
            f"--url=amqp://guest:guest@{broker.host}:{broker.port}/%2f",
            "--exchange=amq.topic",
            "--routing-key=a.*",
            "--count=1",
            "cat",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert consumer.stderr is not None
    # It says so when its own queue is bound.
    assert "amq.gen-" in consumer.stderr.readline()
    run(broker, "amqp-publish", "--exchange=amq.topic", "--routing-key=a.b", "--body=seen")
    output, errors = consumer.communicate(timeout=TIMEOUT_SECONDS)
    assert (consumer.returncode, output) == (0, "seen"), errors


def test_get_of_an_empty_queue_says_so_by_its_exit_code(broker: leveret.Broker) -> None:
    run(broker, "amqp-declare-queue", "--queue=q")
    finished = subprocess.run(
        ["amqp-get", f"--url=amqp://{broker.host}:{broker.port}", "--queue=q"],
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert finished.returncode == 2
