"""The client properties that the broker keeps."""

from __future__ import annotations

from leveret.amqp_frames.methods import ConnectionStartOk
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.handshake import Handshake, Limits, ServerNames
from leveret.core.connection.peer import Peer
from leveret.core.connection.phase import ConnectionPhase


def test_the_broker_keeps_only_the_client_properties_that_it_uses() -> None:
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
    said = {
        "product": "a client",
        "version": [1],
        "platform": "any",
        "capabilities": {
            "basic.nack": True,
            "connection.blocked": False,
            "publisher_confirms": "yes",
            "of its own": True,
        },
    }
    handshake.receive(ConnectionStartOk(table_of(said), "PLAIN", b"\0guest\0guest", "en_US"))
    assert handshake.client_properties == table_of(
        {"product": "a client", "capabilities": {"basic.nack": True, "connection.blocked": False}}
    )
    assert handshake.capability("basic.nack")
    assert not handshake.capability("connection.blocked")
