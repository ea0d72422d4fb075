"""Asks a running broker by HTTP, as any of its users. Blocking: for the command line.

The password comes from a file, the environment or a prompt, never from the command's arguments,
which every user of the machine can read.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import sys
import warnings
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ..configuration import PASSWORD_VARIABLE
from .control_client import TIMEOUT_SECONDS, RequestError

_TRACE_METHODS: Final = {"on": "PUT", "off": "DELETE", "status": "GET"}


def password_of(user: str, file: Path | None) -> str:
    """The user's password: the first line of `file`, else LEVERET_PASSWORD, else asked for."""
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").partition("\n")[0]
        except (OSError, UnicodeDecodeError) as fault:
            raise RequestError(f"{file}: cannot be read: {fault}") from None
    if PASSWORD_VARIABLE in os.environ:
        return os.environ[PASSWORD_VARIABLE]
    try:
        return _asked_for(user)
    except EOFError:
        text = f"nobody gives {user}'s password: {PASSWORD_VARIABLE} or --password-file can"
        raise RequestError(text) from None


def _asked_for(user: str) -> str:
    """The password from a terminal; without one the first line of standard input, or EOFError."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass(f"Password of {user}: ")
        except getpass.GetPassWarning:
            # There is no terminal, so nothing is echoed that a person types.
            line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def ask_trace(
    url: str, user: str, password: str, action: str, arguments: Mapping[str, object]
) -> dict[str, Any]:
    """How the trace stands behind `action`: on, off or status; RequestError with one line."""
    method = _TRACE_METHODS[action]
    body = json.dumps(arguments).encode() if method == "PUT" else None
    connection = HTTPConnection(*_address(url), timeout=TIMEOUT_SECONDS)
    # An answer that is not UTF-8 comes from some other server, not from this broker.
    octets = f"{user}:{password}".encode("utf-8", "surrogateescape")
    credentials = base64.b64encode(octets).decode()
    try:
        connection.request(method, "/api/trace", body, {"Authorization": f"Basic {credentials}"})
        response = connection.getresponse()
        answer = json.loads(response.read() or b"{}")
    except OSError as fault:
        raise RequestError(f"no broker answers at {url}: {fault.strerror or fault}") from None
    except (HTTPException, ValueError):
        raise RequestError(f"what answers at {url} is no broker") from None
    finally:
        connection.close()
    if response.status != 200 or not isinstance(answer, dict):
        # "error" is the kind, "reason" is for people.
        said = answer.get("reason", "") if isinstance(answer, dict) else ""
        raise RequestError(f"{url}: {response.status} {said or response.reason}")
    return answer


def _address(url: str) -> tuple[str, int]:
    """Host and port. Without user and password: they would be in the list of processes."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.scheme != "http" or parts.path not in ("", "/"):
        raise RequestError(f"{url!r} is no address of a broker, as in http://127.0.0.1:15672")
    if parts.username is not None or parts.password is not None:
        raise RequestError("a URL of a broker has no user: --login gives it, and never a password")
    return host, port or 15672
