"""Clients that send without end what costs a broker more than it costs them."""

from __future__ import annotations

import struct
from pathlib import Path

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from broker_watch import MIB, memory_bounded, until
from socket_client import RefusedError, SocketClient

pytestmark = pytest.mark.usefixtures("bystander")

GROWTH_BYTES_MAX = 12 * MIB


def test_empty_body_frames_without_end_cost_nothing(attacked: BrokerProcess) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "2,000,000 empty body frames"):
        client = SocketClient(attacked.port)
        client.open_channel(confirm=True)
        client.send(wire.publish_method(1, "", "nowhere") + wire.content_header(1, 5))
        block = wire.frame(3, 1, b"") * 10_000
        for _ in range(200):
            client.send(block)
        # The body is still awaited, and taken.
        client.send(wire.frame(3, 1, b"hello"))
        assert client.expect(wire.ACK) == struct.pack(">QB", 1, 0)
        client.close()


def test_heartbeats_without_end_cost_nothing(attacked: BrokerProcess) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "1,000,000 heartbeats"):
        client = SocketClient(attacked.port)
        block = wire.frame(8, 0, b"") * 10_000
        for _ in range(100):
            client.send(block)
        client.close()


def test_commands_faster_than_they_are_answered_are_not_collected(attacked: BrokerProcess) -> None:
    count = 100_000
    command = wire.queue_declare(1, "bystander", passive=True)
    with memory_bounded(attacked, GROWTH_BYTES_MAX, f"{count} declares, all read"):
        client = SocketClient(attacked.port)
        client.open_channel()
        sent = answered = 0
        while answered < count:
            while sent < count and sent - answered < 20_000:
                client.send(command * 1_000)
                sent += 1_000
            client.expect(wire.QUEUE_DECLARE_OK)
            answered += 1
        client.close()


def test_publishes_begun_on_channels_never_opened_are_refused(attacked: BrokerProcess) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "2,000 begun publishes without channels"):
        client = SocketClient(attacked.port)
        begun = wire.publish_method(2, "", "x") + wire.content_header(2, 10**6)
        client.send(begun + wire.frame(3, 2, bytes(70_000)))
        with pytest.raises(RefusedError, match=r"504 CHANNEL_ERROR - expected 'channel\.open'"):
            client.expect(wire.CLOSE_OK)
        for channel in range(3, 2_000):
            begun = wire.publish_method(channel, "", "x") + wire.content_header(channel, 10**6)
            client.send(begun + wire.frame(3, channel, b"x" * 50_000))
        client.send(wire.method(0, wire.CLOSE_OK))
        assert client.rest() == []


def test_routing_keys_without_end_are_kept_within_a_limit_whoever_sends_them(
    attacked: BrokerProcess,
) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "120,000 routing keys on 30 channels"):
        for _connection in range(3):
            client = SocketClient(attacked.port)
            for channel in range(1, 11):
                client.send(wire.method(channel, wire.CHANNEL_OPEN, b"\0"))
                client.expect(wire.CHANNEL_OPEN_OK)
                keys = (f"{number:0100}.{channel}" for number in range(4_000))
                client.send(b"".join(wire.publish(channel, "amq.topic", key, b"") for key in keys))
            client.close()


def test_a_body_above_the_limit_is_refused_and_not_kept(attacked: BrokerProcess) -> None:
    size = 200 * MIB
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "a body of 200 MiB, of 128 allowed"):
        client = SocketClient(attacked.port)
        client.open_channel()
        client.send(wire.publish_method(1, "", "nowhere") + wire.content_header(1, size))
        chunk = wire.frame(3, 1, bytes(MIB // 16))
        for _ in range(size // (MIB // 16)):
            client.send(chunk)
        with pytest.raises(RefusedError, match="406 PRECONDITION_FAILED - message size"):
            client.expect(wire.CLOSE_OK)
        client.abandon()


def test_channels_that_fail_again_and_again_leave_nothing(attacked: BrokerProcess) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "5,000 channel exceptions"):
        client = SocketClient(attacked.port)
        # What is published behind the mistake is dropped, and counts for nothing.
        behind = wire.publish(1, "", "bystander", b"x" * 4_000)
        for _ in range(5_000):
            client.open_channel()
            client.send(wire.queue_declare(1, "none", passive=True) + behind)
            with pytest.raises(RefusedError, match="404 NOT_FOUND - no queue 'none'"):
                client.expect(wire.QUEUE_DECLARE_OK)
            client.send(wire.method(1, wire.CHANNEL_CLOSE_OK))
        client.close()


def test_connections_that_come_and_go_leave_nothing(attacked: BrokerProcess) -> None:
    exclusive = b"\0\0" + wire.short("") + b"\4" + wire.long(b"")
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "2,000 connections"):
        for number in range(2_000):
            client = SocketClient(attacked.port)
            client.open_channel()
            client.ask(wire.method(1, wire.QUEUE_DECLARE, exclusive), wire.QUEUE_DECLARE_OK)
            client.send(wire.consume(1, "", "tag"))
            if number % 2:
                client.close()
            else:
                client.abandon()


def test_the_memory_that_a_password_is_checked_in_is_given_back(tmp_path: Path) -> None:
    # Its library would be imported meanwhile.
    broker = BrokerProcess(tmp_path, http_listener="off").listening()
    before = broker.resident_bytes()
    SocketClient(broker.port).close()
    # A check takes 16 MiB.
    until(lambda: broker.resident_bytes() - before < 4 * MIB, "it is not given back")
    broker.kill()
