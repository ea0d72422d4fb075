"""Decides on logins: password checks run in a few threads of their own, never on the event loop.

core/users/login_checks.py has the rules and the remembered results. A check takes a processor for
some 40 ms by intent, so the threads have a low priority, and no more run than a setting allows:
a client that tries passwords waits, and nobody else does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from ...core.connection.peer import is_loopback
from ...core.users.login_attempts import LoginAttempts
from ...core.users.login_checks import LoginChecks, PasswordCheck
from ...core.users.login_results import LoginResult
from ...core.users.password_hash import is_right_password
from ..messages import (
    AskLoginAttempts,
    LogIn,
    LoginAnswer,
    LoginAttemptsAnswer,
    PasswordChecked,
    Ref,
)
from ..runtime.out_of_memory import is_out_of_memory
from ..runtime.runtime import LoopActor, tell

# Of 19. A check gives way to the broker's own threads, and still gets a third of what another
# process does: with a twenty-eighth of it, at 15, no login was decided in time on a machine that
# was busy with other things.
_NICENESS = 5


def login_threads(count: int) -> ThreadPoolExecutor:
    """The threads for so many password checks at once."""
    return ThreadPoolExecutor(count, "leveret-login", initializer=_lower_priority)


def _lower_priority() -> None:
    # To Linux a thread's own niceness is that of a process; elsewhere it may not be set so.
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


class Logins(LoopActor):
    """One per node. `loopback_users` may log in from this machine only."""

    def __init__(
        self,
        checks: LoginChecks,
        threads: Executor,
        loopback_users: tuple[str, ...],
        on_fatal: Callable[[str, BaseException], None],
        rehash: Callable[[str], str] | None = None,
        on_rehashed: Callable[[Ref, PasswordCheck, str], object] | None = None,
    ) -> None:
        """`rehash` makes the hash that replaces an imported one at a right login; None: it stays.

        `on_rehashed` has it stored, unless the user has changed meanwhile.
        """
        super().__init__()
        self._checks = checks
        self._threads = threads
        self._loopback_users = loopback_users
        self._on_fatal = on_fatal
        self._rehash = rehash
        self._on_rehashed = on_rehashed
        self._attempts = LoginAttempts()

    def on_receive(self, message: object) -> None:
        """Take a login, or what a thread has found."""
        if isinstance(message, LogIn):
            result = self._decide(message)
            if result is not None:
                self._answer([message], result)
            self._answer(self._checks.refused, LoginResult.TOO_MANY_CHECKS)
            self._checks.refused.clear()
        elif isinstance(message, PasswordChecked):
            result = self._checks.finished(message.check, message.is_right)
            self._answer(message.check.askers, result)
            is_replaced = result is LoginResult.ALLOWED and message.new_hash
            if is_replaced and self._on_rehashed is not None:
                self._on_rehashed(self.actor_ref, message.check, message.new_hash)
        elif isinstance(message, AskLoginAttempts):
            if message.forget:
                self._attempts.forget()
            tell(message.reply_to, LoginAttemptsAnswer(dict(self._attempts.counts)))
        self._start_checks()

    def _answer(self, askers: Sequence[object], result: LoginResult) -> None:
        for asker in askers:
            assert isinstance(asker, LogIn)
            self._attempts.note(asker.protocol, result is LoginResult.ALLOWED)
            tell(asker.reader, LoginAnswer(result))

    def _decide(self, message: LogIn) -> LoginResult | None:
        if not is_loopback(message.host) and message.user in self._loopback_users:
            return LoginResult.LOOPBACK_ONLY
        if message.password is None:
            return self._checks.find(message.user)
        return self._checks.ask(message, message.host, message.user, message.password)

    def _start_checks(self) -> None:
        while (check := self._checks.start_next(_is_alive)) is not None:
            future = self._threads.submit(_check, check, self._rehash)
            future.add_done_callback(partial(self._done, check))

    def _done(self, check: PasswordCheck, future: Future[tuple[bool, str]]) -> None:
        """In the thread of the check."""
        if future.cancelled():
            return
        error = future.exception()
        if error is not None and is_out_of_memory(error):
            self._on_fatal("password check", error)
        # A hash that the catalog should not have lets nobody in.
        is_right, new_hash = (False, "") if error is not None else future.result()
        tell(self.actor_ref, PasswordChecked(check, is_right, new_hash))

    def on_failure(self, *exception: Any) -> None:
        """Nobody could log in any more: the node ends."""
        self._on_fatal("logins", exception[1])


def _check(check: PasswordCheck, rehash: Callable[[str], str] | None) -> tuple[bool, str]:
    """In a thread: is it right, and the hash to store instead, if it was quick to check."""
    is_right = is_right_password(check.password, check.password_hash)
    if not check.decoy_hash:
        return is_right, ""
    if is_right and rehash is not None:
        return True, rehash(check.password)
    is_right_password(check.password, check.decoy_hash)
    return is_right, ""


def _is_alive(asker: object) -> bool:
    assert isinstance(asker, LogIn)
    return asker.reader.is_alive()
