"""AMQP clients whose connection the management API closes recover as they do with RabbitMQ."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pika
import pytest
from insides import wait_until
from management_calls import ask
from timeouts import TIMEOUT_SECONDS

Ports = tuple[tuple[int, int], ...]
PROGRAM = Path(__file__).parents[1] / "clients" / "Recovering.java"
# Of Debian's packages librabbitmq-client-java and libslf4j-java.
JARS = [Path("/usr/share/java") / f"{name}.jar" for name in ("amqp-client", "slf4j-api")]
REASON = {"X-Reason": "moved to another machine"}


def close_all(port: int, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Close the connections that the API lists, once there are any."""
    names: list[str] = []

    def are_seen() -> bool:
        meanwhile()
        rows = ask(port, "GET", "connections").content
        # RabbitMQ lists a connection that has closed for a while.
        names[:] = [row["name"] for row in rows if row.get("state") == "running"]
        return bool(names)

    wait_until(are_seen)
    for name in names:
        path = f"connections/{quote(name, '')}"
        assert ask(port, "DELETE", path, headers=REASON).status == 204


def test_a_pika_consumer_connects_again_and_its_message_comes_again(api_ports: Ports) -> None:
    def script(port: int, amqp_port: int) -> list[object]:
        parameters = pika.ConnectionParameters("127.0.0.1", amqp_port, heartbeat=0)
        found: list[object] = []
        for attempt in range(2):
            connection = pika.BlockingConnection(parameters)
            channel = connection.channel()
            channel.queue_declare("closed.q", durable=True)
            if not attempt:
                channel.confirm_delivery()
                persistent = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("", "closed.q", b"kept", persistent, mandatory=True)
            try:
                messages = channel.consume("closed.q", inactivity_timeout=TIMEOUT_SECONDS)
                method, _, body = next(messages)
                found.append((method.redelivered, body))
                if not attempt:
                    # The message is not acknowledged.
                    close_all(port, lambda at=connection: at.process_data_events(0.01))
                    next(messages)
                channel.basic_ack(method.delivery_tag)
                channel.queue_delete("closed.q")
                connection.close()
            except pika.exceptions.ConnectionClosedByBroker as closed:
                found.append((closed.reply_code, closed.reply_text))
        return found

    theirs, ours = (script(*ports) for ports in api_ports)
    assert ours == theirs
    forced = 320, "CONNECTION_FORCED - moved to another machine"
    assert theirs == [(False, b"kept"), forced, (True, b"kept")]


@pytest.fixture(scope="module")
def java_command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    missing = [str(jar) for jar in JARS if not jar.exists()]
    if shutil.which("javac") is None or missing:
        needed = "default-jdk-headless librabbitmq-client-java libslf4j-java"
        pytest.skip(f"the Java client is not installed: apt-get install {needed}")
    directory, path = tmp_path_factory.mktemp("java"), ":".join(map(str, JARS))
    compiler = ["javac", "-cp", path, "-d", str(directory), str(PROGRAM)]
    done = subprocess.run(compiler, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ["java", "-cp", f"{path}:{directory}", PROGRAM.stem]


def test_the_java_client_recovers_its_topology_and_its_consumer(
    java_command: list[str], api_ports: Ports
) -> None:
    def lines_of(port: int, amqp_port: int) -> list[str]:
        program = subprocess.Popen(
            [*java_command, str(amqp_port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with program:
            try:
                assert program.stdout is not None
                lines = [program.stdout.readline(), program.stdout.readline()]
                assert lines[-1] == "open\n", lines
                close_all(port)
                rest, errors = program.communicate(timeout=TIMEOUT_SECONDS)
                assert program.returncode == 0, errors
                return [*lines, *rest.splitlines(keepends=True)]
            finally:
                program.kill()

    theirs, ours = (lines_of(*ports) for ports in api_ports)
    assert ours == theirs
    assert "".join(theirs) == (
        "consumed before\n"
        "open\n"
        "closed 320 CONNECTION_FORCED - moved to another machine\n"
        "consumed after\n"
        "kept kept\n"
    )
