"""Which logins are let in at once, which wait for a slow password check, and in what order.

A password that was found right is remembered, by a keyed digest and never itself, together with the
stored hash that it was right for: the remembered login of a user ends when his password changes or
he is deleted. So a thousand clients that come back at once cost one check. Several who ask the same
while it is checked share the answer. Checks take turns between the addresses they come from, and
when too many wait the address that most of them come from makes room: so one who tries passwords
delays his own address's logins and not those of others.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from .accounts import User
from .login_results import LoginResult
from .password_hash import is_imported

# Remembered logins; past this the oldest is forgotten and costs a check again.
LOGINS_REMEMBERED_MAX: Final = 10_000
DIGEST_KEY_BYTES: Final = 32
# A longer password is wrong without a check: those that wait for one are kept in memory. The
# command line sets none that is longer.
PASSWORD_BYTES_MAX: Final = 1024
# As a short string on the wire; no user has a longer name.
_USER_BYTES_MAX: Final = 255


@dataclass(slots=True, eq=False)
class PasswordCheck:
    """One user and password to check, and the logins that wait for the result."""

    digest: bytes
    user: str
    password: str = field(repr=False)
    host: str
    # What it is checked against; a decoy where there is no such user.
    password_hash: str = field(default="", repr=False)
    # Checked besides, if that one is quick to check: the answer takes as long for every user.
    decoy_hash: str = field(default="", repr=False)
    askers: list[object] = field(default_factory=list)


class LoginChecks:
    """Logins of one node. Users are read, never changed.

    running_max: checks at once, each of which takes a processor
    waiting_max: checks that wait their turn; beyond it the address with the most is refused one
    decoy_hash: checked for an unknown user, so that the answer takes as long
    key: secret of this process, for the digests
    """

    def __init__(
        self,
        users: Mapping[str, User],
        *,
        running_max: int,
        waiting_max: int,
        decoy_hash: str,
        key: bytes,
    ) -> None:
        self._users = users
        self._running_max = running_max
        self._waiting_max = waiting_max
        self._decoy_hash = decoy_hash
        self._key = key
        # Digest -> the stored hash that the password was right for; the oldest first.
        self._remembered: dict[bytes, str] = {}
        self._pending: dict[bytes, PasswordCheck] = {}
        # Waiting checks by the address they come from; the address whose turn is next first.
        self._waiting: dict[str, deque[PasswordCheck]] = {}
        self._waiting_count = 0
        self._running_count = 0
        # Askers that had to make room; who calls `ask` tells them, and clears it.
        self.refused: list[object] = []

    def find(self, user: str) -> LoginResult:
        """Is there such a user? Enough for a user whom a certificate names."""
        return LoginResult.ALLOWED if user in self._users else LoginResult.UNKNOWN_USER

    def ask(self, asker: object, host: str, user: str, password: str) -> LoginResult | None:
        """Is it the user's password? None: `asker` is told when it has been checked."""
        if not password:
            # It lets nobody in, whatever is stored, as in RabbitMQ.
            return LoginResult.EMPTY_PASSWORD
        if len(_octets(password)) > PASSWORD_BYTES_MAX or len(_octets(user)) > _USER_BYTES_MAX:
            return LoginResult.TOO_LONG
        digest = self._digest(user, password)
        known = self._users.get(user)
        if known is not None and self._remembered.get(digest) == known.password_hash:
            return LoginResult.ALLOWED
        pending = self._pending.get(digest)
        if pending is not None:
            pending.askers.append(asker)
            return None
        if self._waiting_count >= self._waiting_max and not self._made_room_for(host):
            return LoginResult.TOO_MANY_CHECKS
        check = PasswordCheck(digest, user, password, host, askers=[asker])
        self._pending[digest] = check
        self._waiting.setdefault(host, deque()).append(check)
        self._waiting_count += 1
        return None

    def _made_room_for(self, host: str) -> bool:
        """Refuse the last of the address that most wait from; false if it would be `host`."""
        most = max(self._waiting.values(), key=len)
        if len(most) <= len(self._waiting.get(host, ())) + 1:
            return False
        check = most.pop()
        del self._pending[check.digest]
        self._waiting_count -= 1
        self.refused += check.askers
        return True

    def start_next(self, is_there: Callable[[object], bool]) -> PasswordCheck | None:
        """The next check to run, if one may; those whose askers have all gone are dropped."""
        while self._waiting and self._running_count < self._running_max:
            host = next(iter(self._waiting))
            checks = self._waiting.pop(host)
            check = checks.popleft()
            if checks:
                # Behind all others.
                self._waiting[host] = checks
            self._waiting_count -= 1
            if not any(map(is_there, check.askers)):
                del self._pending[check.digest]
                continue
            known = self._users.get(check.user)
            check.password_hash = self._decoy_hash if known is None else known.password_hash
            check.decoy_hash = self._decoy_hash if is_imported(check.password_hash) else ""
            self._running_count += 1
            return check
        return None

    def finished(self, check: PasswordCheck, is_right: bool) -> LoginResult:
        """A check has run; may its askers log in? Remembered if so."""
        self._running_count -= 1
        del self._pending[check.digest]
        known = self._users.get(check.user)
        if known is None:
            return LoginResult.UNKNOWN_USER
        if known.password_hash != check.password_hash:
            return LoginResult.USER_CHANGED
        if not is_right:
            return LoginResult.WRONG_PASSWORD
        if len(self._remembered) >= LOGINS_REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[check.digest] = check.password_hash
        return LoginResult.ALLOWED

    def _digest(self, user: str, password: str) -> bytes:
        digest = hashlib.blake2b(key=self._key, digest_size=32)
        encoded = _octets(user)
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
        digest.update(_octets(password))
        return digest.digest()


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
