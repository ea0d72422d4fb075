"""The user guest may log in from this machine's loopback only, unless a setting says otherwise."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import leveret
import psutil
import pytest
from insides import context_of, on_loop, wait_until
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
)
from log_lines import LogLines
from wire import Client, methods_of

# A whole session, sent ahead of every answer.
AHEAD = (
    PROTOCOL_HEADER
    + methods_of(
        0,
        ConnectionStartOk(response=b"\0guest\0guest"),
        ConnectionTuneOk(2047, 131_072, 0),
        ConnectionOpen("/"),
    )
    + methods_of(1, ChannelOpen(), QueueDeclare(queue="theirs", durable=True))
)
RESET_AT_CLOSE = struct.pack("ii", 1, 0)


def other_addresses() -> list[str]:
    """This machine's addresses that are not loopback: who comes from there is not local."""
    return [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]


ADDRESSES = other_addresses()
needs_network = pytest.mark.skipif(not ADDRESSES, reason="there is no address but loopback")


def broker_for_all(tmp_path: Path, **settings: object) -> leveret.Broker:
    return leveret.Broker(
        data_dir=tmp_path / "data", host="0.0.0.0", port=0, log_level="error", **settings
    )


@needs_network
def test_guest_is_refused_from_elsewhere_as_with_a_wrong_password(tmp_path: Path) -> None:
    with broker_for_all(tmp_path) as broker:
        with Client(ADDRESSES[0], broker.port) as client:
            client.offer(capabilities=("authentication_failure_close",))
            assert client.expect_type(0, ConnectionClose).reply_code == 403
        with Client("127.0.0.1", broker.port) as client:
            client.log_in()


@needs_network
@pytest.mark.parametrize("settings", [{"host": "0.0.0.0", "log_level": "info"}])
def test_guest_is_refused_from_elsewhere_even_if_nobody_can_say_from_where(
    log: LogLines, broker: leveret.Broker
) -> None:
    """A socket that was reset has no address any more, but what was sent through it can be read."""

    def come_and_go() -> None:
        with socket.create_connection((ADDRESSES[0], broker.port)) as connection:
            connection.sendall(AHEAD)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)

    with Client("127.0.0.1", broker.port) as client:
        client.log_in()  # So that a login with this password is decided at once.
    # The loop, which makes this call, accepts only when it is made.
    on_loop(broker, come_and_go)
    wait_until(lambda: "unknown" in [line["peer"] for line in log.of("connection.closed")])
    assert "unknown" not in [line["peer"] for line in log.of("connection.opened")]
    assert context_of(broker).vhosts["/"].table.find_queue("theirs") is None


@needs_network
@pytest.mark.parametrize(
    "settings", [{"loopback_users": ()}, {"default_user": "me", "default_password": "secret"}]
)
def test_a_user_that_is_not_listed_may_come_from_elsewhere(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    with (
        broker_for_all(tmp_path, **settings) as broker,
        Client(ADDRESSES[0], broker.port) as client,
    ):
        client.offer(
            user=str(settings.get("default_user", "guest")),
            password=str(settings.get("default_password", "guest")),
        )
        client.expect_type(0, ConnectionTune)


def test_ipv6_loopback_is_loopback(tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("there is no IPv6")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 loopback")
    with (
        leveret.Broker(data_dir=tmp_path, host="::1", port=0, log_level="error") as broker,
        Client("::1", broker.port) as client,
    ):
        client.log_in()
