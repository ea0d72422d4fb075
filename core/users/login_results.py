"""Why a client may not log in, or not open its vhost: said in the log, not to the client.

A client that is told whether the user or the password was wrong can find out names of users, so the
client hears what RabbitMQ says, "Login was refused". The administrator reads the reason in the
log's line `connection.refused` or `http.refused`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ...amqp_frames.errors import HardError


class LoginResult(StrEnum):
    """Whether a user may log in; if not, the value is the reason in the log."""

    ALLOWED = "allowed"
    UNKNOWN_USER = "unknown user"
    WRONG_PASSWORD = "wrong password"
    EMPTY_PASSWORD = "empty password"
    LOOPBACK_ONLY = "loopback only: a user in loopback_users may log in from this machine only"
    NO_CERTIFICATE = "no client certificate, or none that names a user"
    # Nobody has looked at the password.
    TOO_LONG = "user name or password too long"
    TOO_MANY_CHECKS = "too many logins wait for their check: password_checks_waiting_max"
    USER_CHANGED = "user changed during the check"


NO_SUCH_VHOST: Final = "no such vhost"
NOT_PERMITTED: Final = "not permitted: the user has no permission in the vhost"


class RefusedError(HardError):
    """Closes a connection whose vhost is not open yet; `reason` is for the log alone."""

    def __init__(
        self, reason: str, reply_code: int, explanation: str, class_id: int = 0, method_id: int = 0
    ) -> None:
        super().__init__(reply_code, explanation, class_id, method_id)
        self.reason = reason


class LoginRefusedError(RefusedError):
    """The login failed: told only to clients that announced authentication_failure_close."""
