"""The user guest may log in from this machine's loopback only, unless a setting says otherwise."""

from __future__ import annotations

import socket
from pathlib import Path

import leveret
import psutil
import pytest
from leveret.amqp_frames.methods import ConnectionClose, ConnectionTune
from wire import Client


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
