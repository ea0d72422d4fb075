"""Ends of NSQ connections: by the client, by the broker, and for a client that is silent."""

from __future__ import annotations

import socket
from collections.abc import Callable

import leveret
import pytest
from held_clock import HeldClock
from insides import context_of, in_flight_count, wait_until
from leveret.amqp_frames.methods import QueueDelete, QueueDeleteOk
from nsq_wire import ERROR, NsqClient, identify, pub
from wire import Client

Nsq = Callable[[], NsqClient]


@pytest.mark.parametrize("magic", [b"  V1", b"GET ", b"\0\0\0\0"])
def test_another_protocol_is_refused(broker: leveret.Broker, magic: bytes) -> None:
    assert broker.nsq_port
    with NsqClient(broker.nsq_port, magic) as client:
        assert client.receive() == (ERROR, b"E_BAD_PROTOCOL")
        assert client.receive() is None


def test_the_magic_may_come_in_pieces(broker: leveret.Broker) -> None:
    assert broker.nsq_port
    with NsqClient(broker.nsq_port, b"  ") as client:
        client.send(b"V").send(b"2NO").send(b"P\n", pub("t", b"x")).ok()


def test_a_silent_client_is_told_so_by_heartbeats_and_then_disconnected(
    nsq: Nsq, broker: leveret.Broker
) -> None:
    clock = HeldClock(broker)
    other = nsq().subscribe("t", "c")
    client = nsq()
    client.send(identify(heartbeat_interval=1000)).ok()
    # It is looked at twice an interval, and heard of in the first half.
    for _ in range(5):
        clock.advance(0.5)
        # The broker has gone through all that fell due.
        other.nothing()
        other.nothing()
    frames = [client.receive_any() for _ in range(3)]
    assert frames == [(0, b"_heartbeat_"), (0, b"_heartbeat_"), None]


def test_a_client_that_publishes_only_may_do_without_heartbeats(nsq: Nsq) -> None:
    client = nsq()
    client.send(identify(heartbeat_interval=-1)).ok()
    client.send(pub("t", b"x")).ok()
    client.send(b"SUB t c\n")
    assert client.error() == b"E_INVALID cannot SUB with heartbeats disabled"


def test_a_channel_that_is_deleted_disconnects_its_clients(
    nsq: Nsq, connect: Callable[..., Client]
) -> None:
    client = nsq().subscribe("t", "c", 10)
    other = nsq().subscribe("t", "d", 10)
    by_amqp = connect()
    by_amqp.open_channel(1)
    by_amqp.send_methods(1, QueueDelete(queue="t:c"))
    by_amqp.expect(1, QueueDeleteOk(0))
    assert client.receive() is None
    nsq().send(pub("t", b"x")).ok()
    assert other.message().body == b"x"


def test_a_stop_closes_connections(broker: leveret.Broker, nsq: Nsq) -> None:
    client = nsq().subscribe("t", "c", 10)
    broker.stop()
    assert client.receive() is None


def test_nothing_of_a_connection_is_left(nsq: Nsq, broker: leveret.Broker) -> None:
    context = context_of(broker)
    client = nsq().subscribe("t", "c", 10)
    client.send(pub("t", b"x"))
    assert {client.receive(), client.receive()} >= {(0, b"OK")}
    assert len(context.open_connections) == 1
    [opened] = context.open_connections.values()
    assert opened.handshake.protocol == "NSQ V2"
    client.socket.close()
    wait_until(lambda: not context.open_connections)
    wait_until(lambda: in_flight_count(broker, "t:c") == 0)
    assert len(context.vhost_users) == 0
    assert len(context.unopened) == 0
    assert context.node_outlet.used_bytes == 0
    wait_until(lambda: context.node_window.used_bytes == 0)


class TestFull:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"nsq_port": 0, "connections_max": 1}

    def test_a_client_above_the_maximum_is_refused(self, nsq: Nsq) -> None:
        nsq().send(pub("t", b"x")).ok()
        client = nsq().send(pub("t", b"x"))
        text = b"E_UNAUTHORIZED connection refused: node connection limit (1) is reached"
        assert client.error() == text
        assert client.receive() is None


def test_a_publish_that_a_queue_refuses_is_an_error(
    nsq: Nsq, connect: Callable[..., Client]
) -> None:
    by_amqp = connect()
    by_amqp.open_channel(1)
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    by_amqp.declare("t:c", durable=True, auto_delete=False, arguments=full)
    client = nsq().subscribe("t", "c")
    client.send(pub("t", b"1"), pub("t", b"2"), pub("t", b"3")).ok()
    assert client.error().startswith(b"E_PUB_FAILED PUB failed ")
    assert client.receive() is None


@pytest.mark.parametrize("channel", ["c", "c#ephemeral"])
@pytest.mark.parametrize("end", [b"BOGUS\n", b""])
def test_publishes_to_the_own_channel_are_answered_before_the_end(
    nsq: Nsq, channel: str, end: bytes
) -> None:
    client = nsq().subscribe("t", channel)
    client.send(pub("t", b"x") * 3, end)
    client.socket.shutdown(socket.SHUT_WR)
    client.ok(3)
    if end:
        assert client.error() == b"E_INVALID invalid command BOGUS"
    assert client.receive() is None
