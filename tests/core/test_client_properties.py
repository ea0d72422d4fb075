"""The client properties that the broker keeps."""

from __future__ import annotations

from leveret.amqp_frames.methods import ConnectionStartOk
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.handshake import (
    OTHER_CLIENT_PROPERTIES_MAX,
    Handshake,
    Limits,
    ServerNames,
)
from leveret.core.connection.peer import Peer
from leveret.core.connection.phase import ConnectionPhase


def received(said: dict[str, object]) -> Handshake:
    phase = ConnectionPhase()
    phase.start()
    handshake = Handshake(
        Limits(131_072, 2047, 60),
        ServerNames("RabbitMQ", "3.13.7", "1.2.3"),
        lambda _user, _password: None,
        lambda _user, _vhost: None,
        Peer("127.0.0.1:1"),
        phase,
    )
    handshake.receive(ConnectionStartOk(table_of(said), "PLAIN", b"\0guest\0guest", "en_US"))
    return handshake


def test_the_broker_keeps_plain_client_properties_and_capabilities_that_it_knows() -> None:
    said: dict[str, object] = {
        "product": "a client",
        "version": [1],
        "platform": "any",
        "retries": 3,
        "nested": {"a": "b"},
        "capabilities": {
            "basic.nack": True,
            "connection.blocked": False,
            "publisher_confirms": "yes",
            "of its own": True,
        },
    }
    handshake = received(said)
    assert handshake.client_properties == table_of(
        {
            "product": "a client",
            "platform": "any",
            "retries": 3,
            "capabilities": {"basic.nack": True, "connection.blocked": False},
        }
    )
    assert handshake.capability("basic.nack")
    assert not handshake.capability("connection.blocked")


def test_of_many_client_properties_the_first_are_kept_and_all_that_the_broker_uses() -> None:
    names = [f"p{number}" for number in range(2 * OTHER_CLIENT_PROPERTIES_MAX)]
    capabilities = {"basic.nack": True}
    said = dict.fromkeys(names, "x") | {"connection_name": "n", "capabilities": capabilities}
    kept = received(said).client_properties
    others = names[:OTHER_CLIENT_PROPERTIES_MAX]
    assert kept.keys() == {"connection_name", "capabilities", *others}
