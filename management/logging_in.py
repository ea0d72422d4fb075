"""The login of a request, checked where AMQP's are, off the event loop.

With the same protection against clients that try many (actors/connection/logins.py).
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from ..actors.messages import LogIn, LoginAnswer
from ..actors.node_context import NodeContext
from ..core.users.accounts import User
from ..core.users.login_attempts import HTTP
from ..core.users.login_results import LoginResult
from .asking import ask


class Login(NamedTuple):
    """A name and a password as a client sent them."""

    user: str
    password: str

    def __repr__(self) -> str:
        """Without the password, wherever it is shown."""
        return f"Login(user={self.user!r})"


class WrongLoginError(Exception):
    """The login is refused; the text says why, which is for the log only."""


async def checked(context: NodeContext, login: Login, host: str) -> User:
    """The user whose login it is; WrongLoginError."""
    answer = await ask(
        context.runtime,
        context.logins,
        lambda me: LogIn(me, host, login.user, login.password, HTTP),
    )
    assert isinstance(answer, LoginAnswer)
    user = context.accounts.users.get(login.user)
    result = answer.result
    if result is LoginResult.ALLOWED and user is None:
        # Deleted since its password was found right.
        result = LoginResult.UNKNOWN_USER
    if user is None or result is not LoginResult.ALLOWED:
        raise WrongLoginError(result.value)
    return user


def login_of(authorization: str | None) -> Login | None:
    """What the header `authorization` says, by the scheme Basic (RFC 7617), in UTF-8.

    None if it says nothing that could be a login.
    """
    scheme, _, encoded = (authorization or "").strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    user, colon, password = text.partition(":")
    return Login(user, password) if colon else None
