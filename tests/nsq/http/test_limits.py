"""What bounds the calls' clients, and what they are told while the broker takes nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable

import leveret
import pytest
from gated_files import GatedFiles
from insides import context_of, on_loop, wait_until
from leveret.core.alarms import Resource
from nsq_calls import call, get, post
from timeouts import TIMEOUT_SECONDS

Alarm = Callable[[bool], object]


@pytest.fixture
def alarm(broker: leveret.Broker) -> Alarm:
    """Raises or clears the alarm of memory, in which no publish is taken."""
    alarms = context_of(broker).alarms
    return lambda is_low: on_loop(broker, lambda: alarms.change(Resource.MEMORY, is_low))


def test_during_an_alarm_publishes_are_refused_and_health_says_why(
    broker: leveret.Broker, alarm: Alarm
) -> None:
    post(broker, "/pub?topic=t", b"x")
    alarm(True)
    for path in ("/pub?topic=t", "/mpub?topic=t"):
        called = call(broker, "POST", path, b"x")
        assert (called.status, called.json) == (
            503,
            {"message": "UNAVAILABLE", "reason": "low on memory"},
        )
    ping = call(broker, "GET", "/ping")
    assert (ping.status, ping.body) == (500, b"NOK - low on memory")
    assert get(broker, "/stats?format=json")["health"] == "NOK - low on memory"
    alarm(False)
    post(broker, "/pub?topic=t", b"x")
    assert call(broker, "GET", "/ping").status == 200


class TestOneConnection:
    @pytest.fixture
    def settings(self, settings: dict[str, object]) -> dict[str, object]:
        return settings | {"nsq_http_connections_max": 1, "http_loopback_connections_kept": 0}

    def test_a_silent_connection_gives_way(self, broker: leveret.Broker) -> None:
        assert broker.nsq_http_port
        address = "127.0.0.1", broker.nsq_http_port
        with socket.create_connection(address, TIMEOUT_SECONDS) as silent:
            post(broker, "/topic/create?topic=t")
            assert silent.recv(1) == b""


class TestShortTime:
    @pytest.fixture
    def settings(self, settings: dict[str, object]) -> dict[str, object]:
        return settings | {"http_request_timeout_ms": 300}

    def test_a_publish_that_is_not_on_the_disk_in_time_is_answered_503(
        self, broker: leveret.Broker, files: GatedFiles
    ) -> None:
        # The first call waits for the import of the site.
        while call(broker, "POST", "/pub?topic=t", b"x").status != 200:
            pass
        files.hold()
        called = call(broker, "POST", "/pub?topic=t", b"x")
        assert (called.status, called.json["message"]) == (503, "TIMEOUT")
        files.release()
        # It may be there all the same, and the call's connection is gone.
        while call(broker, "POST", "/pub?topic=t", b"x").status != 200:
            pass
        wait_until(lambda: not len(context_of(broker).vhost_users))
