"""Where the control socket of a data directory is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTROL_SOCKET_NAME = "control.sock"
_DESCRIPTORS = "/proc/self/fd"


@contextmanager
def control_path(directory: Path) -> Iterator[str]:
    """The socket's path, for as long as it is needed.

    By way of an open descriptor where the system has that: a Unix socket's path holds some hundred
    octets, and a data directory's may be longer.
    """
    if not os.path.isdir(_DESCRIPTORS):
        yield str(directory / CONTROL_SOCKET_NAME)
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"{_DESCRIPTORS}/{descriptor}/{CONTROL_SOCKET_NAME}"
    finally:
        os.close(descriptor)
