"""A client that is dead or hangs while much is written to it: found out, over TLS as well."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import leveret
import pytest
from certificates import Certificates, Stranger
from insides import readers, transport_of, wait_until
from leveret.actors.connection.transport import acknowledged_bytes
from leveret.amqp_frames.constants import HEARTBEAT_FRAME
from leveret.amqp_frames.methods import BasicDeliver
from log_lines import LogLines
from wire import Client

BODY_BYTES = 50_000
COUNT = 400
STALLED = "client does not take what is written"

Start = Callable[[int], Client]


@pytest.fixture
def settings(certificates: Certificates, log: LogLines) -> dict[str, object]:
    return certificates.settings(
        log_level="info",
        log_format="json",
        delivery_window_bytes_max=65_536,
        write_buffer_bytes_max=65_536,
    )


@pytest.fixture(params=["plain", "TLS"])
def start(
    request: pytest.FixtureRequest,
    connect: Callable[..., Client],
    stranger: Stranger,
    certificates: Certificates,
) -> Start:
    """Makes a client that consumes from "q", and reads nothing yet."""

    def started(heartbeat_seconds: int) -> Client:
        if request.param == "plain":
            client = connect(heartbeat_seconds=heartbeat_seconds)
        else:
            client = stranger(certificates.client()).log_in(heartbeat_seconds=heartbeat_seconds)
        client.open_channel()
        client.consume("q", no_ack=True)
        return client

    return started


def fill(client: Client, consumer: Client) -> None:
    """Publish more than the consumer's socket takes; it reads nothing, but says that it lives."""
    for number in range(COUNT):
        client.publish_all("q", b"%08d" % number + bytes(BODY_BYTES - 8))
        with suppress(OSError):
            consumer.send(HEARTBEAT_FRAME)


def test_a_client_that_takes_nothing_for_two_heartbeat_intervals_is_dropped(
    client: Client, start: Start, log: LogLines, broker: leveret.Broker
) -> None:
    client.declare("q")
    stuck = start(1)
    fill(client, stuck)
    wait_until(lambda: log.reasons("connection.closed")[:1] == [STALLED])
    wait_until(lambda: len(readers(broker)) == 1)
    # Of what it had been handed nothing is kept for it; the rest is for others.
    assert client.counts("q")[1] == 0
    stuck.drop()


def test_a_client_that_reads_again_in_time_gets_all(
    client: Client, start: Start, broker: leveret.Broker
) -> None:
    client.declare("q")
    # The interval is longer than the test.
    slow = start(3600)
    fill(client, slow)
    transport = transport_of(readers(broker)[1])
    before = acknowledged_bytes(transport, 0)
    for number in range(COUNT):
        body = b"%08d" % number + bytes(BODY_BYTES - 8)
        slow.expect_delivery(BasicDeliver("c", number + 1, False, "", "q"), body)
    client.wait_for_counts("q", (0, 1))
    # The kernel counts what the client has taken, behind TLS, too.
    wait_until(lambda: acknowledged_bytes(transport, 0) > before + COUNT * BODY_BYTES // 2)


def test_what_the_client_has_taken_is_what_left_the_buffer_where_the_kernel_does_not_say() -> None:
    class Transport:
        def get_extra_info(self, name: str) -> Any:
            return None

        def get_write_buffer_size(self) -> int:
            return 30

    assert acknowledged_bytes(Transport(), 100) == 70  # type: ignore[arg-type]
