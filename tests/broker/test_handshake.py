"""From the protocol header to open-ok, and every way in which that can go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import leveret
import pytest
from holding import parts
from insides import inside, on_loop, readers
from leveret.actors.node_context import OPENING_FRAME_BYTES_MAX
from leveret.amqp_frames.constants import FRAME_ERROR, HEARTBEAT_FRAME, PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    BasicAck,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from leveret.amqp_frames.values.field_table import encode_table
from wire import Client, methods_of, publish

SOON_CLOSED = pytest.mark.parametrize("settings", [{"silent_close_delay_ms": 50}])

REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. "
    "For details see the broker logfile."
)
TUNE = ConnectionTune(2047, 131_072, 60)


@contextmanager
def stranger(broker: leveret.Broker) -> Iterator[Client]:
    """A client that has not said a word."""
    with Client(broker.host, broker.port) as client:
        yield client


def test_a_client_may_send_everything_at_once(broker: leveret.Broker) -> None:
    with stranger(broker) as client:
        client.send(PROTOCOL_HEADER)
        client.expect_type(0, ConnectionStart)
        client.drop()
    with stranger(broker) as client:
        client.offer()
        client.expect(0, TUNE)
        client.send(
            methods_of(0, ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen()),
            methods_of(1, ChannelOpen()),
        )
        client.expect(0, ConnectionOpenOk())
        client.read_method(1)


def test_the_header_may_come_octet_by_octet(broker: leveret.Broker) -> None:
    with stranger(broker) as client:
        for octet in PROTOCOL_HEADER:
            client.send(bytes((octet,)))
        client.expect_type(0, ConnectionStart)


def test_the_header_of_0_9_is_near_enough(broker: leveret.Broker) -> None:
    with stranger(broker) as client:
        client.send(b"AMQP\x01\x01\x00\x09")
        client.expect_type(0, ConnectionStart)


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x02",
        b"AMQP\x01\x01\x08\x00",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1",
        bytes(8),
    ],
)
def test_another_protocol_header_is_answered_with_the_right_one_and_a_close(
    broker: leveret.Broker, header: bytes
) -> None:
    with stranger(broker) as client:
        client.send(header)
        assert client.read_bytes(8) == PROTOCOL_HEADER
        client.expect_closed()


# --- Logging in


def test_amqplain_is_a_table_without_its_length(broker: leveret.Broker) -> None:
    with stranger(broker) as client:
        table = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})
        client.offer(mechanism="AMQPLAIN", response=table[4:])
        client.expect(0, TUNE)


@pytest.mark.parametrize(
    ("user", "password"), [("guest", "wrong"), ("nobody", "guest"), ("", ""), ("guest", "\xff")]
)
def test_a_refused_login_is_told_to_a_client_that_announced_authentication_failure_close(
    broker: leveret.Broker, user: str, password: str
) -> None:
    with stranger(broker) as client:
        client.offer(user=user, password=password, capabilities=("authentication_failure_close",))
        client.expect(0, ConnectionClose(403, REFUSED.format("PLAIN"), 0, 0))
        client.send_methods(0, ConnectionCloseOk())
        client.expect_closed()


def test_a_refused_login_names_the_mechanism(broker: leveret.Broker) -> None:
    with stranger(broker) as client:
        table = encode_table({"LOGIN": "guest", "PASSWORD": "wrong"})
        client.offer(
            mechanism="AMQPLAIN",
            response=table[4:],
            capabilities=("authentication_failure_close",),
        )
        client.expect(0, ConnectionClose(403, REFUSED.format("AMQPLAIN"), 0, 0))


@SOON_CLOSED
def test_a_refused_login_closes_the_socket_of_any_other_client_without_a_word_after_a_while(
    broker: leveret.Broker,
) -> None:
    with stranger(broker) as client:
        client.offer(password="wrong")
        client.expect_closed()


@pytest.mark.parametrize(
    "response", [b"", b"guest", b"\0guest", b"\0guest\0guest\0guest", b"a\0guest\0guest"]
)
@SOON_CLOSED
def test_a_malformed_plain_response_closes_the_socket_without_a_word_after_a_while(
    broker: leveret.Broker, response: bytes
) -> None:
    with stranger(broker) as client:
        client.offer(response=response, capabilities=("authentication_failure_close",))
        client.expect_closed()


def test_an_unknown_mechanism_is_refused(broker: leveret.Broker) -> None:
    with stranger(broker) as client:
        client.offer(mechanism="X")
        text = "COMMAND_INVALID - unknown authentication mechanism 'X'"
        client.expect(0, ConnectionClose(503, text, 10, 11))


# --- Tuning


HIGHER = "NOT_ALLOWED - negotiated {} = {} is higher than the maximum allowed value ({})"
LOWER = "NOT_ALLOWED - negotiated {} = {} is lower than the minimum allowed value ({})"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ConnectionTuneOk(4096, 131_072, 0), HIGHER.format("channel_max", 4096, 2047)),
        (ConnectionTuneOk(0, 131_072, 0), HIGHER.format("channel_max", "0 (no limit)", 2047)),
        (ConnectionTuneOk(2047, 131_073, 0), HIGHER.format("frame_max", 131_073, 131_072)),
        (ConnectionTuneOk(2047, 0, 0), HIGHER.format("frame_max", 0, 131_072)),
        (ConnectionTuneOk(2047, 4095, 0), LOWER.format("frame_max", 4095, 4096)),
    ],
)
def test_limits_outside_the_offer_are_refused(
    broker: leveret.Broker, answer: ConnectionTuneOk, text: str
) -> None:
    with stranger(broker) as client:
        client.offer()
        client.expect(0, TUNE)
        client.send_methods(0, answer)
        client.expect(0, ConnectionClose(530, text, 10, 30))
        client.send_methods(0, ConnectionCloseOk())
        client.expect_closed()


@pytest.mark.parametrize("settings", [{"frame_max_bytes": 1 << 20}])
def test_large_frames_are_for_those_who_have_logged_in(broker: leveret.Broker) -> None:
    with stranger(broker) as client:
        client.offer(password="x" * OPENING_FRAME_BYTES_MAX)
        assert client.expect_type(0, ConnectionClose).reply_code == FRAME_ERROR
    with stranger(broker) as client:
        client.log_in()
        client.open_channel(1, confirms=True)
        client.declare("q")
        client.send(publish("q", bytes(1_000_000), frame_max_bytes=1 << 20))
        client.expect(1, BasicAck(1, False))


def test_a_connection_does_not_keep_the_read_that_its_header_came_in(
    broker: leveret.Broker,
) -> None:
    with stranger(broker) as client:
        client.send(PROTOCOL_HEADER, HEARTBEAT_FRAME * 10_000)
        client.expect_type(0, ConnectionStart)
        [reader_ref] = readers(broker)
        kept: list[bytes] = []
        # Between two turns: in the midst of one it has what it reads.
        on_loop(broker, lambda: kept.extend(parts(inside(reader_ref), bytes)))
        assert max(map(len, kept), default=0) < 1000


# --- Opening


@pytest.mark.parametrize("vhost", ["foo", "", "//"])
def test_a_vhost_that_is_not_there_is_not_found(broker: leveret.Broker, vhost: str) -> None:
    with stranger(broker) as client:
        client.offer()
        client.expect(0, TUNE)
        client.send_methods(
            0, ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen(virtual_host=vhost)
        )
        client.expect(0, ConnectionClose(530, f"NOT_ALLOWED - vhost {vhost} not found", 10, 40))


def test_a_method_out_of_turn_is_a_channel_error(broker: leveret.Broker) -> None:
    with stranger(broker) as client:
        client.offer()
        client.expect(0, TUNE)
        client.send_methods(0, ConnectionOpen())
        text = "CHANNEL_ERROR - unexpected method in connection state tuning"
        client.expect(0, ConnectionClose(504, text, 10, 40))


def test_a_method_of_the_handshake_on_an_open_connection_is_a_channel_error(
    client: Client,
) -> None:
    client.send_methods(0, ConnectionOpen())
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    client.expect(0, ConnectionClose(504, text, 10, 40))


def test_any_new_secret_is_taken(client: Client) -> None:
    update = ConnectionUpdateSecret(b"fresh", "the old one expires")
    assert client.ask(0, update) == ConnectionUpdateSecretOk()
    client.nothing_more()


def test_a_new_secret_before_the_vhost_is_open_is_a_channel_error(broker: leveret.Broker) -> None:
    with stranger(broker) as client:
        client.offer()
        client.expect(0, TUNE)
        client.send_methods(0, ConnectionUpdateSecret(b"fresh", "early"))
        text = "CHANNEL_ERROR - unexpected method in connection state tuning"
        client.expect(0, ConnectionClose(504, text, 10, 70))


def test_a_client_that_closes_is_answered_and_its_socket_closed(
    connect: Callable[..., Client],
) -> None:
    connect().close()


def test_frames_behind_a_connection_error_are_ignored_until_close_ok(client: Client) -> None:
    client.send_methods(0, ConnectionOpen())
    assert client.expect_type(0, ConnectionClose).reply_code == 504
    client.send_methods(1, ChannelOpen())
    client.send_methods(5, ChannelOpen())
    client.send_methods(0, ConnectionCloseOk())
    client.expect_closed()
