"""Many clients that do not read hold no more together than a few would."""

from __future__ import annotations

import socket
from collections.abc import Callable

import leveret
import pytest
from insides import context_of, wait_until
from leveret.amqp_frames.methods import BasicDeliver
from leveret.core.connection.outlet import KEPT_OPEN_BYTES
from wire import Client

Connect = Callable[..., Client]

NODE_WINDOW_BYTES = 1_000_000
CLIENTS = 8
BODY_BYTES = 10_000
# Far more than the sockets' buffers and the windows of all clients take.
COUNT = 8_000


@pytest.fixture
def settings() -> dict[str, object]:
    return {
        "node_delivery_window_bytes_max": NODE_WINDOW_BYTES,
        # A delivery is what one read brought, so small reads make small deliveries.
        "node_publish_window_bytes_max": 1,
        "write_buffer_bytes_max": 65_536,
    }


def test_what_is_on_its_way_to_many_clients_is_bounded_and_others_go_on(
    client: Client, connect: Connect, broker: leveret.Broker
) -> None:
    node = context_of(broker).node_outlet
    client.declare("q")
    consumers = [connect() for _ in range(CLIENTS)]
    for consumer in consumers:
        # So much less that the system takes by itself.
        consumer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        consumer.open_channel()
        consumer.consume("q", no_ack=True)
    client.publish_all("q", *[bytes(BODY_BYTES)] * COUNT)
    assert client.counts("q")[0] > 0
    # Each may have one delivery more than fits: here, one message.
    each = KEPT_OPEN_BYTES + 2 * BODY_BYTES
    assert node.used_bytes < NODE_WINDOW_BYTES + CLIENTS * each
    for consumer in consumers:
        consumer.socket.close()
    reader = connect()
    reader.open_channel()
    left = client.counts("q")[0]
    reader.consume("q", no_ack=True)
    for _ in range(left):
        reader.expect_type(1, BasicDeliver)
        reader.read_content(1)
    wait_until(lambda: node.used_bytes == 0)
