"""What pika raises, as one line for people, and whether another connection would mend it."""

from __future__ import annotations

from typing import Final

from pika import exceptions

# Closes that may pass: connection-forced (a broker that goes down), internal-error.
_PASSING: Final = (320, 541)
_LOGIN_REFUSED: Final = (
    exceptions.ProbableAuthenticationError,
    exceptions.ProbableAccessDeniedError,
    exceptions.AuthenticationError,
    exceptions.IncompatibleProtocolError,
)


class SourceError(Exception):
    """Reading cannot go on; one line for people, without any secret."""


def told(address: str, error: BaseException) -> str:
    """Say what is wrong with the connection to this address; SourceError if it will not pass."""
    text = text_of(error)
    if isinstance(error, _LOGIN_REFUSED):
        raise SourceError(f"{address} refuses the login: {text}") from None
    if isinstance(error, exceptions.ChannelClosedByBroker):
        raise SourceError(f"{address} closed the channel: {text}") from None
    if isinstance(error, exceptions.ConnectionClosedByBroker) and error.reply_code not in _PASSING:
        raise SourceError(f"{address} closed the connection: {text}") from None
    return text


def text_of(error: BaseException) -> str:
    """Say what it is about, down to the socket's own words; pika's are empty there."""
    if isinstance(error, exceptions.ConnectionClosed | exceptions.ChannelClosed):
        return f"{error.reply_code} {error.reply_text}"
    # What failed to connect carries the socket's own error, twice wrapped; a host with several
    # addresses, the error of each.
    causes = getattr(error, "exceptions", None) or error.args
    cause = causes[-1] if causes else None
    cause = getattr(cause, "exception", cause)
    if isinstance(cause, BaseException):
        return text_of(cause)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
