"""The reasons why a broker cannot start, each in one line for the person who started it."""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from .storage.errors import StorageError

PORT_MAX: Final = 65_535


class StartError(Exception):
    """The broker cannot start: port in use, data directory locked or newer, too few files."""


class ConfigurationError(StartError):
    """A setting is unknown, of the wrong type or out of its range."""


class BrokerFailedError(Exception):
    """An embedded broker has ended by itself, or could not be stopped in order.

    Its cause is the error that ended it, if there is one. Confirmed messages are on the disk.
    """


def listening_fault(error: OSError, setting: str, port: int) -> str:
    """Why a socket cannot listen, and the way out if another program has the port.

    `setting` is the one that the port comes from. The text is without the address, which asyncio
    puts into an error's own.
    """
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    text = os.strerror(error.errno)
    if error.errno == errno.EADDRINUSE:
        free = port + 1 if port < PORT_MAX else port - 1
        text += (
            "; stop the program that has this port, or take another port: put "
            f"LEVERET_{setting.upper()}={free} in front of the command "
            f"(in a program, {setting}={free}; 0 takes a free one)"
        )
    return text


def error_words(error: Exception) -> str:
    """The error's text; of an OSError that names a file, without its number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def failure_text(error: BaseException) -> str:
    """How the log names the error that ends a broker; errors of the disk are sentences already."""
    is_sentence = isinstance(error, StorageError | OSError)
    return fault_text(error) if is_sentence else repr(error)


def fault_text(error: BaseException) -> str:
    """One line for people; with its type where the text alone does not speak for itself."""
    speaks = isinstance(error, OSError | StorageError | StartError | BrokerFailedError)
    return " ".join((str(error) if speaks and str(error) else repr(error)).split())
