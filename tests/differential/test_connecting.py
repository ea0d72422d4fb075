"""The handshake and the ends of connections and channels, as they should be and otherwise."""

from __future__ import annotations

import re

import pytest
from both_brokers import BothBrokers, Script, Transcripts, compared
from client_frames import frame, methods_of, publish
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicGet,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    Method,
    QueueDeclare,
)
from leveret.amqp_frames.values.field_table import encode_table, table_of
from scripted_session import Session
from transcript import shown_field

GUEST = b"\0guest\0guest"
HEARTBEAT = frame(8, 0, b"")


def start_ok(
    response: bytes = GUEST, mechanism: str = "PLAIN", locale: str = "en_US", told: bool = True
) -> ConnectionStartOk:
    capabilities = {"authentication_failure_close": told}
    properties = table_of({"capabilities": capabilities})
    return ConnectionStartOk(properties, mechanism, response, locale)


def long_start_ok(octets: int) -> ConnectionStartOk:
    return ConnectionStartOk(table_of({"mine": "x" * octets}), "PLAIN", GUEST, "en_US")


def amqplain(**login: str) -> ConnectionStartOk:
    return start_ok(encode_table(login)[4:], "AMQPLAIN")


def tuned(
    channel_max: int = 2047, frame_max: int = 131_072, vhost: str = "/"
) -> tuple[Method, Method]:
    return ConnectionTuneOk(channel_max, frame_max, 0), ConnectionOpen(virtual_host=vhost)


# What is sent at once and has one answer, after the protocol header and its connection.start.
Steps = list[tuple[Method | bytes, ...]]
LOGIN = (start_ok(),)
HANDSHAKES: dict[str, Steps] = {
    "login with PLAIN": [LOGIN, tuned()],
    "login with an authorization identity": [(start_ok(b"somebody\0guest\0guest"),), tuned()],
    "login with AMQPLAIN": [(amqplain(LOGIN="guest", PASSWORD="guest"),), tuned()],
    "wrong password": [(start_ok(b"\0guest\0wrong"),)],
    "wrong password of one that is not to be told": [(start_ok(b"\0guest\0wrong", told=False),)],
    "wrong password with AMQPLAIN": [(amqplain(LOGIN="guest", PASSWORD="wrong"),)],
    "no such user": [(start_ok(b"\0nobody\0guest"),)],
    "empty password": [(start_ok(b"\0guest\0"),)],
    "unknown mechanism": [(start_ok(GUEST, "SMOKE"),)],
    "half a response": [(start_ok(b"\0guest"),)],
    "no response": [(start_ok(b""),)],
    "AMQPLAIN without password": [(amqplain(LOGIN="guest"),)],
    "another locale": [(start_ok(locale="fr_FR"),), tuned()],
    "no such vhost": [LOGIN, tuned(vhost="nowhere")],
    "no name of a vhost": [LOGIN, tuned(vhost="")],
    "channel_max of 1": [LOGIN, tuned(channel_max=1)],
    "channel_max without limit": [LOGIN, tuned(channel_max=0)],
    "channel_max too high": [LOGIN, tuned(channel_max=2048)],
    "frame_max without limit": [LOGIN, tuned(frame_max=0)],
    "frame_max too high": [LOGIN, tuned(frame_max=131_073)],
    "frame_max too low": [LOGIN, tuned(frame_max=4095)],
    "open before tune-ok": [LOGIN, (ConnectionOpen(virtual_host="/"),)],
    "start-ok twice": [LOGIN, LOGIN],
    "secure-ok that nobody asked for": [(ConnectionSecureOk(b""),)],
    "a method of channels before the login": [(QueueDeclare(queue="q"),)],
    "close before the login": [(ConnectionClose(200, "Goodbye"),)],
    "close before the vhost is open": [LOGIN, (ConnectionClose(200, "Goodbye"),)],
    "open twice": [LOGIN, tuned(), (ConnectionOpen(virtual_host="/"),)],
    "client properties of 5000 octets": [(long_start_ok(5000),)],
    "client properties of 4000 octets": [(long_start_ok(4000),), tuned()],
    "a channel before the vhost is open": [
        LOGIN,
        (ConnectionTuneOk(2047, 131_072, 0), methods_of(1, ChannelOpen())),
    ],
    "tune-ok twice": [LOGIN, tuned(), (ConnectionTuneOk(0, 0, 0),)],
}


def handshake(steps: Steps) -> Script:
    def script(session: Session) -> None:
        connection = session.raw_connection()
        connection.send(PROTOCOL_HEADER)
        connection.next_command(0)
        for step in steps:
            connection.ask(*step)

    return script


@pytest.fixture(scope="module")
def handshakes(both: BothBrokers) -> Transcripts:
    """All at once: RabbitMQ lets whom it refuses wait for three seconds."""
    return both.transcripts_at_once({claim: handshake(HANDSHAKES[claim]) for claim in HANDSHAKES})


@pytest.mark.parametrize("claim", HANDSHAKES)
def test_a_handshake(both: BothBrokers, handshakes: Transcripts, claim: str) -> None:
    both.judge(f"handshake: {claim}", handshakes[claim])


@compared
def test_the_first_method(session: Session) -> None:
    connection = session.raw_connection()
    connection.ask(PROTOCOL_HEADER)


@compared
def test_the_server_s_properties(session: Session) -> None:
    """Their names and types, and in full the values by which client libraries choose."""
    connection = session.raw_connection()
    connection.send(PROTOCOL_HEADER)
    start = connection.next_command(0).method
    assert isinstance(start, ConnectionStart)
    for name, field in sorted(start.server_properties.items()):
        value = shown_field(field.value) if name in ("capabilities", "product") else ""
        if name == "version":
            # kombu, for one, compares it with 3.3 and 4.0.
            value = re.sub(r"^'3\.1\d\.\d+'$", "3.10 to 3.19", shown_field(field.value))
        session.record("server property", f"{name}: {field.kind} {value}")


PROTOCOLS = {
    "AMQP 0-9-2": b"AMQP\x00\x00\x09\x02",
    "AMQP 0-10": b"AMQP\x01\x01\x00\x0a",
    "AMQP 1.0": b"AMQP\x00\x01\x00\x00",
    "SASL of AMQP 1.0": b"AMQP\x03\x01\x00\x00",
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303"),
    "noise": bytes(range(200, 216)),
}


def protocol(header: bytes) -> Script:
    def script(session: Session) -> None:
        connection = session.raw_connection()
        connection.send(header)
        session.record("answer", repr(connection.read_bytes(8)))
        connection.end()

    return script


@pytest.mark.parametrize("claim", PROTOCOLS)
def test_another_protocol(both: BothBrokers, claim: str) -> None:
    both.compare(f"protocol: {claim}", protocol(PROTOCOLS[claim]))


@compared
def test_amqp_0_9_is_near_enough(session: Session) -> None:
    session.raw_connection().ask(b"AMQP\x01\x01\x00\x09")


@compared
def test_channels_open_and_close(session: Session) -> None:
    connection = session.connect()
    for number in (1, 2047, 7):
        channel = connection.channel(number)
        channel.ask(QueueDeclare(queue="q"), ChannelClose(200, "bye"))


@compared
def test_a_channel_closes_by_its_client_and_is_opened_again(session: Session) -> None:
    channel = session.channel()
    channel.ask(QueueDeclare(queue="q"), ChannelClose(200, "bye"), ChannelOpen())
    # What was declared last is the channel's own and has gone with it.
    channel.ask(BasicGet(), BasicGet(queue="q"))


@compared
def test_what_is_sent_to_a_channel_that_the_broker_has_closed_is_ignored(session: Session) -> None:
    channel = session.channel()
    channel.send(
        BasicGet(queue="missing"),
        QueueDeclare(queue="q"),
        BasicAck(77),
    )
    channel.read()
    channel.ask(QueueDeclare(queue="q", passive=True))


@compared
def test_closes_that_cross(session: Session) -> None:
    channel = session.channel()
    channel.send(BasicGet(queue="missing"), ChannelClose(200, "bye"))
    channel.connection.next_command(1)
    channel.read()
    session.connect().ask(ConnectionClose(200, "Goodbye"))


@compared
def test_what_is_sent_behind_close_ok_is_read_and_dropped(session: Session) -> None:
    connection = session.channel().connection
    connection.ask(ConnectionClose(200, "Goodbye"))
    for _ in range(10):
        connection.send(publish("nowhere", bytes(100_000)) * 10)
    # Read to the end: a second close is answered, too.
    connection.ask(ConnectionClose(200, "Goodbye"))


@compared
def test_channel_0_takes_methods_of_the_connection_only(session: Session) -> None:
    connection = session.connect()
    connection.ask(QueueDeclare(queue="q"))
    connection.end()


@compared
def test_more_channels_than_were_agreed_on(session: Session) -> None:
    connection = session.connect(channel_max=2)
    connection.channel(1)
    connection.channel(2)
    connection.ask(methods_of(3, ChannelOpen()))


@compared
def test_a_number_above_those_that_were_agreed_on(session: Session) -> None:
    session.connect(channel_max=2).channel(3).ask(QueueDeclare(queue="q"))


@compared
def test_a_new_secret_is_taken_and_the_connection_goes_on(session: Session) -> None:
    connection = session.connect()
    connection.ask(ConnectionUpdateSecret(b"fresh", "the old one expires"))
    connection.ask(ConnectionUpdateSecret(b"", ""))
    connection.channel(1).ask(QueueDeclare(queue="q"))
