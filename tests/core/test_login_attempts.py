"""Logins are counted by protocol."""

from __future__ import annotations

from leveret.core.users.login_attempts import AMQP, HTTP, LoginAttempts, LoginCounts


def test_each_protocol_has_its_own_counts() -> None:
    attempts = LoginAttempts()
    for protocol, is_allowed in ((AMQP, True), (HTTP, False), (AMQP, True), ("", True)):
        attempts.note(protocol, is_allowed)
    assert attempts.counts == {AMQP: LoginCounts(2, 0), HTTP: LoginCounts(0, 1)}
    attempts.forget()
    assert attempts.counts == {}
