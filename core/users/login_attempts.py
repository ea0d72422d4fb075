"""How many have tried to log in, by protocol, since the start or since somebody reset the counts.

The management API shows them as RabbitMQ does (`/api/auth/attempts`): each HTTP request with a
login counts, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# RabbitMQ's words.
AMQP: Final = "amqp091"
HTTP: Final = "http"
# Ours.
NSQ: Final = "nsq"


class LoginCounts(NamedTuple):
    """Of one protocol."""

    succeeded: int = 0
    failed: int = 0


class LoginAttempts:
    """Of one node."""

    def __init__(self) -> None:
        self.counts: dict[str, LoginCounts] = {}

    def note(self, protocol: str, is_allowed: bool) -> None:
        """Count a login that is decided; "" is no protocol and not counted."""
        if not protocol:
            return
        succeeded, failed = self.counts.get(protocol, LoginCounts())
        self.counts[protocol] = LoginCounts(succeeded + is_allowed, failed + (not is_allowed))

    def forget(self) -> None:
        """Begin again at none."""
        self.counts = {}
