"""How a client says who it is: the mechanisms of connection.start, as RabbitMQ reads them.

PLAIN and AMQPLAIN carry a user and a password (rabbit_auth_mechanism_plain, _amqplain). EXTERNAL
carries nothing: the user is whom the client's certificate names (rabbit_auth_mechanism_ssl).
"""

from __future__ import annotations

from typing import Final

from ..amqp_frames.constants import SYNTAX_ERROR
from ..amqp_frames.errors import AmqpError, HardError
from ..amqp_frames.field_table import decode_fields
from ..amqp_frames.methods import ConnectionStartOk

PASSWORD_MECHANISMS: Final = b"PLAIN AMQPLAIN"
EXTERNAL: Final = "EXTERNAL"
# What a name or a password may be in an AMQPLAIN response.
_STRING_KINDS = ("longstr", "binary")


class MalformedLoginError(HardError):
    """A response that makes no sense. As in RabbitMQ the client hears of it by silence alone.

    The response may hold a password, so the text does not show it.
    """


def credentials_of(method: ConnectionStartOk) -> tuple[str, str] | None:
    """User and password; None if the mechanism is not one that has them. MalformedLoginError."""
    if method.mechanism == "PLAIN":
        credentials = _plain(method.response)
    elif method.mechanism == "AMQPLAIN":
        credentials = _amqplain(method.response)
    else:
        return None
    if credentials is None:
        text = f"{method.mechanism} response is malformed"
        raise MalformedLoginError(SYNTAX_ERROR, text, method.class_id, method.method_id)
    return credentials


def _plain(response: bytes) -> tuple[str, str] | None:
    """NUL, user, NUL, password; nobody may act for another, so nothing stands before the first."""
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        return None
    return _text(parts[1]), _text(parts[2])


def _amqplain(response: bytes) -> tuple[str, str] | None:
    """A field table without its length: LOGIN and PASSWORD."""
    try:
        table = decode_fields(response, 0, len(response))
    except AmqpError:
        return None
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None:
        return None
    if login.kind not in _STRING_KINDS or password.kind not in _STRING_KINDS:
        return None
    return _either(login.value), _either(password.value)


def _either(value: object) -> str:
    return _text(value) if isinstance(value, bytes) else str(value)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
