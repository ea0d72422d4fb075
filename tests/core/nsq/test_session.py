"""What may come when, and what IDENTIFY settles, in nsqd's words and order."""

from __future__ import annotations

import pytest
from leveret.core.nsq.session import Features, Session, SessionLimits, State
from leveret.nsq_frames.errors import NsqError

LIMITS = SessionLimits(2500, 60_000, 900_000, 3_600_000, 30_000, 60_000, 6)
ALL = Features(tls=True, deflate=True, snappy=True)


def identified(body: bytes, features: Features = ALL) -> dict[str, object] | None:
    fields = Session(LIMITS).identify(body, features, auth_required=False).fields
    return None if fields is None else dict(fields)


def refusal(body: bytes) -> bytes:
    with pytest.raises(NsqError) as refused:
        identified(body)
    assert refused.value.is_fatal
    return refused.value.text


def test_without_negotiation_the_answer_is_ok() -> None:
    for body in (b"{}", b" {} ", b"null", b'{"client_id":"\xff"}', b'{"user_agent":null}'):
        assert identified(body) is None


def test_the_answer_has_nsqds_fields_in_nsqds_order() -> None:
    assert list((identified(b'{"feature_negotiation":true}') or {}).items()) == [
        ("max_rdy_count", 2500),
        ("version", "1.3.0"),
        ("max_msg_timeout", 900_000),
        ("msg_timeout", 60_000),
        ("tls_v1", False),
        ("deflate", False),
        ("deflate_level", 6),
        ("max_deflate_level", 6),
        ("snappy", False),
        ("sample_rate", 0),
        ("auth_required", False),
        ("output_buffer_size", 16_384),
        ("output_buffer_timeout", 250),
    ]


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("MSG_TIMEOUT", 3000, {"msg_timeout": 3000}),
        ("msg_timeout", 0, {"msg_timeout": 60_000}),
        ("msg_timeout", 900_000, {"msg_timeout": 900_000}),
        ("sample_rate", 99, {"sample_rate": 99}),
        ("output_buffer_timeout", -1, {"output_buffer_timeout": 0}),
        ("output_buffer_size", -1, {"output_buffer_size": 1, "output_buffer_timeout": 0}),
        ("output_buffer_size", 64, {"output_buffer_size": 64}),
        ("deflate_level", 9, {"deflate_level": 6}),
    ],
)
def test_what_is_asked_for_is_what_is_answered(
    field: str, value: int, shown: dict[str, object]
) -> None:
    body = f'{{"feature_negotiation":true,"{field}":{value}}}'.encode()
    answer = identified(body)
    assert answer is not None
    assert {name: answer[name] for name in shown} == shown


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("heartbeat_interval", -2, "heartbeat interval (-2) is invalid"),
        ("heartbeat_interval", 999, "heartbeat interval (999) is invalid"),
        ("heartbeat_interval", 60_001, "heartbeat interval (60001) is invalid"),
        ("output_buffer_timeout", 24, "output buffer timeout (24) is invalid"),
        ("output_buffer_timeout", 30_001, "output buffer timeout (30001) is invalid"),
        ("output_buffer_size", 63, "output buffer size (63) is invalid"),
        ("output_buffer_size", 65_537, "output buffer size (65537) is invalid"),
        ("sample_rate", -1, "sample rate (-1) is invalid"),
        ("sample_rate", 100, "sample rate (100) is invalid"),
        ("msg_timeout", -1, "msg timeout (-1) is invalid"),
        ("msg_timeout", 999, "msg timeout (999) is invalid"),
        ("msg_timeout", 900_001, "msg timeout (900001) is invalid"),
    ],
)
def test_a_value_out_of_range_is_refused(field: str, value: int, reason: str) -> None:
    assert refusal(f'{{"{field}":{value}}}'.encode()) == f"E_BAD_BODY IDENTIFY {reason}".encode()


@pytest.mark.parametrize(
    "body",
    [
        b"x",
        b"[]",
        b"1",
        b'"a"',
        b"{",
        b"{} x",
        b'{"heartbeat_interval":"5000"}',
        b'{"heartbeat_interval":5000.0}',
        b'{"heartbeat_interval":5e3}',
        b'{"heartbeat_interval":99999999999999999999}',
        b'{"sample_rate":3000000000}',
        b'{"feature_negotiation":"true"}',
        b'{"feature_negotiation":1}',
        b'{"msg_timeout":true}',
        b'{"client_id":1}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_go_does_not_decode_is_refused(body: bytes) -> None:
    assert refusal(body) == b"E_BAD_BODY IDENTIFY failed to decode JSON body"


def test_who_asks_for_no_heartbeats_cannot_subscribe() -> None:
    session = Session(LIMITS)
    session.identify(b'{"heartbeat_interval":-1}', ALL, auth_required=False)
    with pytest.raises(NsqError) as refused:
        session.check_subscription([b"SUB", b"t", b"c"])
    assert refused.value.text == b"E_INVALID cannot SUB with heartbeats disabled"


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        (State.INIT, {b"IDENTIFY", b"AUTH", b"SUB", b"PUB", b"NOP"}),
        (State.SUBSCRIBED, {b"FIN", b"REQ", b"TOUCH", b"RDY", b"CLS", b"PUB", b"NOP"}),
        (State.CLOSING, {b"FIN", b"REQ", b"TOUCH", b"PUB", b"NOP"}),
    ],
)
def test_a_command_has_its_states(state: State, allowed: set[bytes]) -> None:
    session = Session(LIMITS)
    session.state = state
    names = b"IDENTIFY AUTH SUB RDY FIN REQ TOUCH CLS PUB NOP".split()
    for name in names:
        if name in allowed:
            session.check_state(name)
        else:
            with pytest.raises(NsqError) as refused:
                session.check_state(name)
            assert refused.value.text == b"E_INVALID cannot " + name + b" in current state"


def test_a_delay_above_the_maximum_is_cut() -> None:
    session = Session(LIMITS)
    session.state = State.SUBSCRIBED
    asked = session.requeueing([b"REQ", b"0" * 16, b"99999999"])
    assert asked.delay_ms == 3_600_000
