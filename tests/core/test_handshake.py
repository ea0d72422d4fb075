"""The opening of a connection, method by method, and what a client is told that errs."""

from __future__ import annotations

import struct

import pytest
from leveret.amqp_frames.errors import HardError
from leveret.amqp_frames.methods import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from leveret.amqp_frames.values.field_table import encode_table, table_of
from leveret.core.connection.handshake import (
    Handshake,
    Limits,
    MalformedLoginError,
    ServerNames,
)
from leveret.core.connection.peer import Peer
from leveret.core.connection.phase import ConnectionPhase, Phase
from leveret.core.users.login_results import LoginRefusedError, LoginResult

LIMITS = Limits(131_072, 2047, 60)
NAMES = ServerNames("RabbitMQ", "3.13.7", "1.2.3")
GUEST = b"\0guest\0secret"
PEER = Peer("127.0.0.1:1")


def new(limits: Limits = LIMITS, peer: Peer = PEER) -> Handshake:
    def authenticate(user: str, password: str | None) -> LoginResult:
        if password is None:
            return LoginResult.ALLOWED if user == "CN=guest" else LoginResult.UNKNOWN_USER
        is_right = (user, password) in {("guest", "secret"), ("gäst", "schlüssel"), ("", "")}
        return LoginResult.ALLOWED if is_right else LoginResult.WRONG_PASSWORD

    def may_open(user: str, vhost: str) -> None:
        if vhost != "/":
            raise HardError(530, f"vhost {vhost} not found", 10, 40)

    phase = ConnectionPhase()
    phase.start()
    return Handshake(limits, NAMES, authenticate, may_open, peer, phase)


def start_ok(
    mechanism: str = "PLAIN", response: bytes = GUEST, **properties: object
) -> ConnectionStartOk:
    return ConnectionStartOk(table_of(properties), mechanism, response, "en_US")


def amqplain(**fields: object) -> bytes:
    return encode_table(table_of(fields))[4:]


def refusal(handshake: Handshake, method: Method) -> tuple[int, str, int, int]:
    with pytest.raises(HardError) as caught:
        handshake.receive(method)
    error = caught.value
    return error.reply_code, error.reply_text, error.class_id, error.method_id


def tuning(limits: Limits = LIMITS) -> Handshake:
    handshake = new(limits)
    handshake.receive(start_ok())
    return handshake


def opening() -> Handshake:
    handshake = tuning()
    handshake.receive(ConnectionTuneOk(2047, 131_072, 60))
    return handshake


def test_a_connection_is_opened_in_three_steps() -> None:
    handshake = new()
    assert handshake.phase.now is Phase.STARTING
    assert handshake.receive(start_ok(product="pika")) == ConnectionTune(2047, 131_072, 60)
    assert handshake.phase.now is Phase.TUNING
    assert handshake.user == "guest"
    assert handshake.client_properties["product"].value == "pika"
    assert handshake.receive(ConnectionTuneOk(10, 4096, 5)) is None
    assert handshake.phase.now is Phase.OPENING
    assert handshake.limits == Limits(4096, 10, 5)
    assert handshake.receive(ConnectionOpen("/")) == ConnectionOpenOk()
    assert handshake.phase.now is Phase.RUNNING
    assert handshake.vhost == "/"


def test_start_announces_the_capabilities_that_are_built() -> None:
    start = new().start()
    properties = start.server_properties
    assert properties["product"].value == "RabbitMQ"
    assert properties["version"].value == "3.13.7"
    assert properties["leveret"].value == "1.2.3"
    capabilities = properties["capabilities"].value
    assert isinstance(capabilities, dict)
    assert {name for name, field in capabilities.items() if field.value is True} == {
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    }
    assert (start.version_major, start.version_minor) == (0, 9)
    assert (start.mechanisms, start.locales) == (b"PLAIN AMQPLAIN", b"en_US")


@pytest.mark.parametrize(
    ("mechanism", "response", "user"),
    [
        ("PLAIN", GUEST, "guest"),
        ("PLAIN", b"\0g\xc3\xa4st\0schl\xc3\xbcssel", "gäst"),
        ("PLAIN", b"\0\0", ""),
        ("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="secret"), "guest"),
        ("AMQPLAIN", amqplain(PASSWORD="secret", other=1, LOGIN="guest"), "guest"),
        ("AMQPLAIN", amqplain(LOGIN="gäst", PASSWORD="schlüssel"), "gäst"),
        ("AMQPLAIN", amqplain(LOGIN=b"guest", PASSWORD=b"secret"), "guest"),
    ],
)
def test_a_user_may_log_in_by_either_mechanism(mechanism: str, response: bytes, user: str) -> None:
    handshake = new()
    assert isinstance(handshake.receive(start_ok(mechanism, response)), ConnectionTune)
    assert handshake.user == user


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"\0guest\0wrong"),
        ("PLAIN", b"\0nobody\0secret"),
        ("PLAIN", b"\0g\xff\0secret"),
        ("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="")),
    ],
)
def test_a_wrong_login_is_refused(mechanism: str, response: bytes) -> None:
    with pytest.raises(LoginRefusedError) as caught:
        new().receive(start_ok(mechanism, response))
    assert (caught.value.reply_code, caught.value.reply_text) == (
        403,
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile.",
    )


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"guest\0secret"),
        # RabbitMQ lets nobody act for another.
        ("PLAIN", b"who acts\0guest\0secret"),
        ("PLAIN", b"\0guest\0secret\0"),
        ("AMQPLAIN", b""),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\xffguest"),
        ("AMQPLAIN", amqplain(LOGIN="guest")),
        ("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD=7)),
    ],
)
def test_a_response_that_makes_no_sense_is_a_syntax_error_that_nobody_is_told(
    mechanism: str, response: bytes
) -> None:
    handshake = new()
    with pytest.raises(MalformedLoginError) as caught:
        handshake.receive(
            start_ok(mechanism, response, capabilities={"authentication_failure_close": True})
        )
    assert caught.value.reply_code == 502
    assert caught.value.reply_text == f"SYNTAX_ERROR - {mechanism} response is malformed"
    assert handshake.hides(caught.value)


CERTIFIED = Peer("127.0.0.1:1", asks_certificate=True, user="CN=guest")


def test_a_certificate_s_user_may_log_in_by_external_whatever_the_response() -> None:
    handshake = new(peer=CERTIFIED)
    assert handshake.start().mechanisms == b"PLAIN AMQPLAIN EXTERNAL"
    assert isinstance(handshake.receive(start_ok("EXTERNAL", b"\0other\0")), ConnectionTune)
    assert handshake.user == "CN=guest"


@pytest.mark.parametrize("user", ["", "CN=nobody"])
def test_external_is_refused_to_a_certificate_that_names_no_user(user: str) -> None:
    with pytest.raises(LoginRefusedError) as caught:
        new(peer=CERTIFIED._replace(user=user)).receive(start_ok("EXTERNAL", b""))
    assert caught.value.reply_text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
        "For details see the broker logfile."
    )


def test_external_is_unknown_without_client_certificates() -> None:
    assert refusal(new(), start_ok("EXTERNAL", b"")) == (
        503,
        "COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'",
        10,
        11,
    )


def test_another_mechanism_is_unknown() -> None:
    assert refusal(new(), start_ok("CRAM-MD5")) == (
        503,
        "COMMAND_INVALID - unknown authentication mechanism 'CRAM-MD5'",
        10,
        11,
    )


@pytest.mark.parametrize(
    ("tune_ok", "text"),
    [
        (
            ConnectionTuneOk(4096, 131_072, 0),
            "negotiated channel_max = 4096 is higher than the maximum allowed value (2047)",
        ),
        (
            ConnectionTuneOk(0, 131_072, 0),
            "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
        (
            ConnectionTuneOk(1, 131_073, 0),
            "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
        ),
        (
            ConnectionTuneOk(1, 0, 0),
            "negotiated frame_max = 0 is higher than the maximum allowed value (131072)",
        ),
        (
            ConnectionTuneOk(1, 4095, 0),
            "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)",
        ),
    ],
)
def test_tuning_outside_the_offer_is_refused(tune_ok: ConnectionTuneOk, text: str) -> None:
    code, reply_text, class_id, method_id = refusal(tuning(), tune_ok)
    assert (code, reply_text) == (530, f"NOT_ALLOWED - {text}")
    assert (class_id, method_id) == (10, 30)


def test_without_a_limit_offered_any_is_taken() -> None:
    for tune_ok in (ConnectionTuneOk(0, 0, 0), ConnectionTuneOk(65_535, 1 << 30, 600)):
        handshake = tuning(Limits(0, 0, 0))
        assert handshake.receive(tune_ok) is None
        assert handshake.limits == Limits(tune_ok.frame_max, tune_ok.channel_max, tune_ok.heartbeat)


def test_there_is_no_other_vhost() -> None:
    assert refusal(opening(), ConnectionOpen("foo")) == (
        530,
        "NOT_ALLOWED - vhost foo not found",
        10,
        40,
    )


@pytest.mark.parametrize(
    ("handshake", "method", "state"),
    [
        (new, ConnectionTuneOk(0, 0, 0), "starting"),
        (new, ConnectionSecureOk(b""), "starting"),
        (new, ConnectionClose(), "starting"),
        (tuning, start_ok(), "tuning"),
        (tuning, ConnectionOpen("/"), "tuning"),
        (opening, ConnectionTuneOk(1, 4096, 0), "opening"),
    ],
)
def test_a_method_out_of_turn_is_a_channel_error(
    handshake: type[Handshake], method: Method, state: str
) -> None:
    assert refusal(handshake(), method) == (  # type: ignore[call-arg]
        504,
        f"CHANNEL_ERROR - unexpected method in connection state {state}",
        method.class_id,
        method.method_id,
    )


def test_a_capability_is_one_that_the_client_announced_as_true() -> None:
    handshake = new()
    assert not handshake.capability("basic.nack")
    handshake.receive(
        start_ok(capabilities={"basic.nack": True, "connection.blocked": False, "other": 1})
    )
    assert handshake.capability("basic.nack")
    for name in ("connection.blocked", "other", "missing"):
        assert not handshake.capability(name)
    odd = new()
    odd.receive(start_ok(capabilities="basic.nack"))
    assert not odd.capability("basic.nack")


def test_an_amqplain_response_of_any_octets_is_refused_and_no_more() -> None:
    for size in range(20):
        response = struct.pack(">I", 0xFFFFFF00) * 5
        assert refusal(new(), start_ok("AMQPLAIN", response[:size]))[0] == 502
