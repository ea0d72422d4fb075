"""What may come when, and what IDENTIFY settles.

The answers that a client of nsqd sees are in tests/nsq/exchanges.py.
"""

from __future__ import annotations

import pytest
from leveret.core.nsq.session import Features, Session, SessionLimits, State
from leveret.nsq_frames.errors import NsqError

LIMITS = SessionLimits(2500, 60_000, 900_000, 3_600_000, 30_000, 60_000, 6)
ALL = Features(tls=True, deflate=True, snappy=True)


def identified(body: bytes, features: Features = ALL) -> dict[str, object] | None:
    fields = Session(LIMITS).identify(body, features, auth_required=False).fields
    return None if fields is None else dict(fields)


def test_a_level_above_the_maximum_is_cut() -> None:
    answer = identified(b'{"feature_negotiation":true,"deflate_level":9}')
    assert answer is not None
    assert answer["deflate_level"] == 6


@pytest.mark.parametrize("body", [b'{"msg_timeout":true}', b"[" * 100_000])
def test_what_python_would_decode_and_go_would_not_is_refused(body: bytes) -> None:
    with pytest.raises(NsqError) as refused:
        identified(body)
    assert refused.value.is_fatal
    assert refused.value.text == b"E_BAD_BODY IDENTIFY failed to decode JSON body"


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
