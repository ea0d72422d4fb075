"""Asks a running broker through its control socket. Blocking: for the command line."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import StartError
from ..listening.control_socket import control_path

TIMEOUT_SECONDS = 30.0


class NoBrokerError(StartError):
    """No broker runs on the data directory."""


class RequestError(StartError):
    """The broker says that it cannot be."""


def ask_broker(directory: Path, request: str, arguments: Mapping[str, object]) -> Any:
    """The result; NoBrokerError or RequestError."""
    line = json.dumps({"request": request, "arguments": arguments}).encode() + b"\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            with control_path(directory) as path:
                connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise NoBrokerError(
                f"no broker runs on data directory {directory.absolute()}"
            ) from None
        except OSError as fault:
            raise RequestError(f"data directory {directory}: {fault.strerror}") from None
        try:
            connection.sendall(line)
            with connection.makefile("rb") as answers:
                text = answers.readline()
        except OSError as fault:
            raise RequestError(f"the broker does not answer: {fault}") from None
    if not text.endswith(b"\n"):
        raise RequestError("the broker has closed the connection without an answer")
    answer = json.loads(text)
    if "error" in answer:
        raise RequestError(answer["error"])
    return answer.get("result")
