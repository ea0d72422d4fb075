"""Asks a running broker through its control socket. Blocking: for the command line."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from ..errors import StartError
from ..listening.control_socket import control_path

TIMEOUT_SECONDS = 30.0


class NoBrokerError(StartError):
    """No broker runs on the data directory."""


class RequestError(StartError):
    """The broker says that it cannot be."""


class ControlSession:
    """One connection, for requests of which the broker remembers the earlier ones."""

    def __init__(self, directory: Path) -> None:
        """NoBrokerError or RequestError if it cannot be opened."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(TIMEOUT_SECONDS)
        try:
            with control_path(directory) as path:
                self._socket.connect(path)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            self._socket.close()
            raise NoBrokerError(
                f"no broker runs on data directory {directory.absolute()}"
            ) from None
        except OSError as fault:
            self._socket.close()
            raise RequestError(f"data directory {directory}: {fault.strerror}") from None
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._answers.close()
        self._socket.close()

    def ask(
        self,
        request: str,
        arguments: Mapping[str, object],
        seconds_max: float = TIMEOUT_SECONDS,
    ) -> Any:
        """The result; RequestError."""
        self._socket.settimeout(seconds_max)
        line = json.dumps({"request": request, "arguments": arguments}).encode() + b"\n"
        try:
            self._socket.sendall(line)
            text = self._answers.readline()
        except OSError as fault:
            raise RequestError(f"the broker does not answer: {fault}") from None
        if not text.endswith(b"\n"):
            raise RequestError("the broker has closed the connection without an answer")
        answer = json.loads(text)
        if "error" in answer:
            raise RequestError(answer["error"])
        return answer.get("result")


def ask_broker(directory: Path, request: str, arguments: Mapping[str, object]) -> Any:
    """The result; NoBrokerError or RequestError."""
    with ControlSession(directory) as session:
        return session.ask(request, arguments)
