"""However many connections publish, what waits for the disk stays below one bound."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import leveret
import pytest
from gated_files import GatedFiles
from insides import context_of, wait_until
from leveret.actors.connection.listener import READ_BYTES_MAX
from leveret.actors.runtime.read_rounds import SHARE_BYTES_MIN
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
)
from wire import PERSISTENT, Client, publish

Connect = Callable[..., Client]

NODE_WINDOW_BYTES = 1_000_000
BODY = bytes(10_000)
PUBLISHERS = 20
EACH = 100


@pytest.fixture
def settings() -> dict[str, object]:
    return {"node_publish_window_bytes_max": NODE_WINDOW_BYTES}


def publisher(connect: Connect) -> Client:
    client = connect()
    client.open_channel(1, confirms=True)
    return client


def test_publishers_together_are_read_no_further_than_the_node_s_window_and_then_to_the_end(
    connect: Connect, broker: leveret.Broker, files: GatedFiles
) -> None:
    window = context_of(broker).node_window
    publishers = [publisher(connect) for _ in range(PUBLISHERS)]
    publishers[0].declare("durable", durable=True)
    files.hold()
    # 20 MB, of which each connection's own window would let all in.
    with ExitStack() as sending:
        for client in publishers:
            sending.enter_context(client.sending(publish("durable", BODY, PERSISTENT) * EACH))
        files.wait_until_syncing()
        wait_until(lambda: window.waiting_count == PUBLISHERS)
        # One full read passes the bound; the others bring a narrow one each, with a message's rest.
        narrow = PUBLISHERS * (SHARE_BYTES_MIN + len(BODY) + 1000)
        assert window.used_bytes < NODE_WINDOW_BYTES + READ_BYTES_MAX + narrow
        files.release()
    for client in publishers:
        acked = 0
        while acked < EACH:
            acked = client.expect_type(1, BasicAck).delivery_tag
    assert publishers[0].counts("durable") == (PUBLISHERS * EACH, 0)
    wait_until(lambda: window.used_bytes == 0)
    assert not window.is_closed


def test_consumers_go_on_while_publishers_wait_for_the_disk(
    connect: Connect, broker: leveret.Broker, files: GatedFiles
) -> None:
    window = context_of(broker).node_window
    client, consumer = publisher(connect), publisher(connect)
    client.declare("durable", durable=True)
    client.declare("q")
    client.publish_all("q", *(b"%d" % number for number in range(10)))
    files.hold()
    with client.sending(publish("durable", BODY, PERSISTENT) * 300):
        files.wait_until_syncing()
        wait_until(lambda: window.waiting_count == 1)
        consumer.consume("q")
        for number in range(10):
            expected = BasicDeliver("c", number + 1, False, "", "q")
            consumer.expect_delivery(expected, b"%d" % number)
        consumer.send_methods(1, BasicAck(10, True))
        wait_until(lambda: consumer.counts("q") == (0, 1))
        files.release()


def test_a_client_that_ends_its_channels_does_not_get_round_the_node_s_window(
    connect: Connect, broker: leveret.Broker, files: GatedFiles
) -> None:
    window = context_of(broker).node_window
    client = connect()
    client.open_channel(1)
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", BODY, PERSISTENT))
    files.wait_until_syncing()
    for _ in range(5):
        client.send(publish("durable", BODY, PERSISTENT) * 10)
        client.send_methods(1, ChannelClose(200, "", 0, 0))
        client.expect(1, ChannelCloseOk())
        client.send_methods(1, ChannelOpen())
        client.expect(1, ChannelOpenOk())
        client.send_methods(1, ConfirmSelect())
        client.expect(1, ConfirmSelectOk())
    assert window.used_bytes > 50 * len(BODY)
    files.release()
    wait_until(lambda: window.used_bytes == 0)


def test_a_connection_that_is_lost_while_it_waits_leaves_the_node_s_window(
    connect: Connect, broker: leveret.Broker, files: GatedFiles
) -> None:
    window = context_of(broker).node_window
    client, other = publisher(connect), publisher(connect)
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", BODY, PERSISTENT) * 200)
    files.wait_until_syncing()
    wait_until(lambda: window.waiting_count == 1)
    client.socket.close()
    files.release()
    wait_until(lambda: window.used_bytes == 0 and not window.is_closed)
    other.publish_all("durable", b"next", properties=PERSISTENT)
