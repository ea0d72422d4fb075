"""The broker's properties in connection.start, its first frame."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from leveret.version import VERSION
from wire import Client


def test_connection_start_says_who_the_broker_is_and_what_it_can(
    connect: Callable[..., Client],
) -> None:
    start = connect().start
    assert start is not None
    assert (start.version_major, start.version_minor) == (0, 9)
    assert (start.mechanisms, start.locales) == (b"PLAIN AMQPLAIN", b"en_US")
    properties = {name: field.value for name, field in start.server_properties.items()}
    assert (properties["product"], properties["version"]) == ("RabbitMQ", "3.13.7")
    assert properties["leveret"] == VERSION
    platform = properties["platform"]
    assert isinstance(platform, str)
    assert platform.startswith(f"Leveret {VERSION}, Python 3.")
    capabilities = properties["capabilities"]
    assert isinstance(capabilities, dict)
    # What is not built yet is not announced.
    assert {name: field.value for name, field in capabilities.items()} == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }


@pytest.mark.parametrize("settings", [{"server_product": "Hare", "server_version": "7.1"}])
def test_a_setting_gives_the_broker_other_names(
    connect: Callable[..., Client], settings: dict[str, object]
) -> None:
    start = connect().start
    assert start is not None
    properties = {name: field.value for name, field in start.server_properties.items()}
    assert (properties["product"], properties["version"]) == ("Hare", "7.1")
    assert properties["leveret"] == VERSION
