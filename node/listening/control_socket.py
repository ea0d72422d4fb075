"""The control socket of a running node: `control.sock` in its data directory, the owner's alone.

`control_path` gives the path under which the socket of a data directory can be opened.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..actors.control.control import Control, ControlConnection, ControlLimits
from ..actors.control.definition_transfer import DefinitionSettings
from ..actors.node_context import NodeContext
from ..amqp_frames.compiled import FORM
from ..configuration import Configuration
from ..errors import StartError
from ..version import VERSION
from .listening import Listening

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


_OWNER_ONLY = 0o600
# From Python 3.13 on the loop would look at the socket's file, and remove it when it closes, by the
# path that it was bound to: another file by then, since that path names a descriptor.
_FILE_IS_OURS: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


class ControlSocket:
    """Open from `open` to `close`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server: asyncio.AbstractServer | None = None

    async def open(self, control: Control) -> None:
        """Listen; OSError if the socket cannot be made. The directory is locked: it is ours."""
        self._remove()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with control_path(self._directory) as path:
                listening.bind(path)
                # Before it listens: nobody has opened it meanwhile.
                os.chmod(self._directory / CONTROL_SOCKET_NAME, _OWNER_ONLY)
                listening.setblocking(False)
            self._server = await asyncio.get_running_loop().create_unix_server(
                lambda: ControlConnection(control), sock=listening, **_FILE_IS_OURS
            )
        except BaseException:
            listening.close()
            raise

    def close(self) -> None:
        """Listen no more; pending requests get no answer any more."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self._remove()

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._directory / CONTROL_SOCKET_NAME)


async def open_control(
    context: NodeContext,
    configuration: Configuration,
    directory: Path,
    listening: Listening,
    addresses: Mapping[str, str],
) -> ControlSocket:
    """Start the actor that answers, and its socket; StartError if that cannot be made."""
    tls_port = listening.tls_port
    about: dict[str, object] = {
        "version": VERSION,
        "codec": FORM,
        "pid": os.getpid(),
        "data_dir": str(directory.absolute()),
        "address": f"{listening.host}:{listening.port}",
        "tls_address": "" if tls_port is None else f"{listening.host}:{tls_port}",
        **addresses,
        "started": datetime.now(UTC).isoformat(" ", "seconds"),
    }
    limits = ControlLimits(
        configuration.control_connections_max, configuration.control_idle_timeout_ms / 1000
    )
    definitions = DefinitionSettings(
        configuration.definitions_bytes_max,
        configuration.server_version,
        configuration.server_product,
        VERSION,
    )
    control = Control(context, about, limits, definitions)
    control.start_prepared(context.runtime)
    control_socket = ControlSocket(directory)
    try:
        await control_socket.open(control)
    except OSError as error:
        text = f"cannot make {CONTROL_SOCKET_NAME} in {directory}: {error.strerror}"
        raise StartError(text) from error
    return control_socket
