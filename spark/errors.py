"""Describes pika's exceptions in one line, and says whether another connection could help.

An outage passes: a broker that is not there, or that goes down (reply codes 320 and 541). A broker
that closes with any other reply code gives its verdict on what it was asked for, such as 403 for a
login and 530 for a vhost, and would give it again. So do certificates that cannot be verified.

Errors for people are shown without a traceback. Spark sends an exception to the driver as the text
of its traceback, in which the error's own words are the last line of some fifty. It leaves the
traceback out where `spark.sql.execution.pyspark.udf.hideTraceback.enabled` is set, which its Python
processes read from an environment variable when they send an exception. Each of them ends with the
exception it sends, so that setting the variable on the way out concerns nothing else.
"""

from __future__ import annotations

import ast
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pika import exceptions

# Read by pyspark.util.handle_worker_exception.
HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
# How Spark marks its own Python processes; in a user's nothing is changed.
_RUNTIME: Final = ("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")


class PlainError(Exception):
    """An error whose message is one line for people, without any secret."""


@contextmanager
def plainly() -> Iterator[None]:
    """Let a PlainError that leaves the block be shown without its traceback."""
    try:
        yield
    except PlainError:
        name, value = _RUNTIME
        if os.environ.get(name) == value:
            os.environ[HIDE_TRACEBACK] = "1"
        raise


# connection-forced (a broker that goes down) and internal-error.
_PASSING: Final = frozenset({320, 541})
# While a connection opens, pika wraps a close by the broker into an exception that carries only
# the repr of the original.
_WHILE_OPENING: Final = (
    exceptions.ProbableAuthenticationError,
    exceptions.ProbableAccessDeniedError,
    exceptions.IncompatibleProtocolError,
)
_CLOSED_BY_BROKER: Final = re.compile(r"ConnectionClosedByBroker: \((\d+)\) (.+)", re.DOTALL)


class SourceError(PlainError):
    """Reading cannot go on; one line for people, without any secret."""


class UnreachableError(Exception):
    """There is no connection now; another try may have one. One line for people, as above."""


def describe(address: str, error: BaseException) -> str:
    """Describe the fault of the connection to this address; SourceError if it will not pass."""
    text = text_of(error)
    if is_final(error):
        raise SourceError(f"{address} {verdict(error)}: {text}") from None
    return text


def verdict(error: BaseException) -> str:
    """Say what the broker has done, as the middle of a sentence; for errors that are final."""
    if isinstance(error, exceptions.ChannelClosed):
        return "closed the channel"
    if isinstance(error, _WHILE_OPENING):
        return "refuses the login"
    return "closed the connection" if _close(error) else "cannot be connected to"


def is_final(error: BaseException) -> bool:
    """Would the next connection end in the same way?"""
    if isinstance(error, exceptions.ConnectionClosedByClient | exceptions.ChannelClosedByClient):
        return False
    close = _close(error)
    if close is not None:
        return close[0] not in _PASSING
    return isinstance(_root(error), ssl.SSLCertVerificationError | exceptions.AuthenticationError)


def text_of(error: BaseException) -> str:
    """Say what it is about, down to the broker's or the socket's own words."""
    close = _close(error)
    if close is not None:
        return f"{close[0]} {close[1]}"
    if isinstance(error, exceptions.IncompatibleProtocolError):
        return (
            "the connection was closed before a broker answered: no broker listens there, "
            "or it wants TLS (amqps://)"
        )
    if isinstance(error, _WHILE_OPENING):
        return "the connection was lost in the middle of the login"
    root = _root(error)
    return f"{type(root).__name__}: {root}" if str(root) else type(root).__name__


def _close(error: BaseException) -> tuple[int, str] | None:
    """The reply code and text of a close, if the broker or we have closed."""
    if isinstance(error, exceptions.ConnectionClosed | exceptions.ChannelClosed):
        return error.reply_code, error.reply_text
    if isinstance(error, _WHILE_OPENING) and error.args:
        found = _CLOSED_BY_BROKER.fullmatch(str(error.args[0]))
        if found is not None:
            return int(found[1]), str(ast.literal_eval(found[2]))
    return None


def _root(error: BaseException) -> BaseException:
    """The innermost error: a failed connect carries the socket's own one, twice wrapped."""
    # A host with several addresses has the error of each.
    causes = getattr(error, "exceptions", None) or error.args
    cause = causes[-1] if causes else None
    cause = getattr(cause, "exception", cause)
    return _root(cause) if isinstance(cause, BaseException) else error
