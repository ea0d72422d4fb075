"""What keeps a broker from starting, said in one line for the person who started it."""

from __future__ import annotations

import os
import socket


class StartError(Exception):
    """The broker cannot start: port in use, data directory locked or newer, too few files."""


class ConfigurationError(StartError):
    """A setting is unknown, of the wrong type or out of its range."""


def listening_fault(error: OSError) -> str:
    """Why a socket cannot listen, without the address, which asyncio puts into its text."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)
