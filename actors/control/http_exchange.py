"""One HTTP request and its answer, as bytes and without a socket; h11 knows the protocol.

A connection carries one request: health checks are rare. The request is bounded in its head and its
body; a fault in it is an HttpError, which has the answer. The header `authorization` has the login,
by the scheme Basic (RFC 7617), in UTF-8.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from email.utils import formatdate
from itertools import chain
from typing import Final, NamedTuple

import h11

# Request line and headers.
HEAD_BYTES_MAX: Final = 16_384
# Each costs as much to read as a small request, and a body of its largest size may be chunks of an
# octet: a second of the event loop, for a client that has not even sent a password yet.
CHUNKS_MAX: Final = 256
REALM: Final = 'Basic realm="leveret", charset="UTF-8"'
_HEAD_TOO_LARGE: Final = f"a request's head has at most {HEAD_BYTES_MAX} bytes"

_REASONS: Final = {
    200: b"OK",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    413: b"Content Too Large",
    431: b"Request Header Fields Too Large",
    501: b"Not Implemented",
    503: b"Service Unavailable",
}


class HttpError(Exception):
    """A request that cannot be carried out: its status, and the headers that go with it."""

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


class HttpRequest(NamedTuple):
    """A request and its login."""

    method: str
    path: str
    user: str
    password: str
    body: bytes

    def __repr__(self) -> str:
        """Without the password, wherever it is shown."""
        return f"HttpRequest({self.method} {self.path}, user={self.user!r})"


class HttpExchange:
    """Feed it the received bytes until it returns the request; then write the one answer."""

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._head: h11.Request | None = None
        self._credentials = "", ""
        self._body = bytearray()
        self._chunk_count = 0
        # Is all of the request here?
        self.is_whole = False

    def feed(self, data: bytes) -> HttpRequest | None:
        """The request when it is whole; HttpError if it is none that can be carried out."""
        try:
            self._http.receive_data(data)
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    return None
                if isinstance(event, h11.Request):
                    self._read_head(event)
                elif isinstance(event, h11.Data):
                    self._read_data(event)
                elif isinstance(event, h11.EndOfMessage):
                    return self._request()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            text = _HEAD_TOO_LARGE if status == 431 else f"bad request: {error}"
            raise HttpError(status, text) from None

    def _read_head(self, head: h11.Request) -> None:
        self._head = head
        # h11 bounds only what it has to wait for.
        if len(head.target) + sum(map(len, chain(*head.headers))) > HEAD_BYTES_MAX:
            raise HttpError(431, _HEAD_TOO_LARGE)
        headers = {name.decode(): value for name, value in head.headers}
        self._credentials = _credentials(headers.get("authorization", b""))
        length = headers.get("content-length", b"")
        if length:
            # h11 has seen to it that it is a number.
            self._check_size(int(length))

    def _read_data(self, data: h11.Data) -> None:
        self._body += data.data
        self._check_size(len(self._body))
        self._chunk_count += data.chunk_end
        if self._chunk_count > CHUNKS_MAX:
            raise HttpError(413, f"a request's body comes in at most {CHUNKS_MAX} chunks")

    def _check_size(self, size: int) -> None:
        if size > self._body_bytes_max:
            raise HttpError(413, f"a request's body has at most {self._body_bytes_max} bytes")

    def _request(self) -> HttpRequest:
        self.is_whole = True
        assert self._head is not None
        path = self._head.target.partition(b"?")[0].decode("ascii", "replace")
        return HttpRequest(self._head.method.decode(), path, *self._credentials, bytes(self._body))

    def go_on(self) -> bytes:
        """The interim response 100, if the client waits for it before it sends the body."""
        if not self._http.they_are_waiting_for_100_continue:
            return b""
        return self._send(h11.InformationalResponse(status_code=100, headers=[]))

    def answer(
        self, status: int, content: Mapping[str, object], headers: Mapping[str, str]
    ) -> bytes:
        """The one answer, a JSON object."""
        body = json.dumps(content).encode() + b"\n"
        all_headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "cache-control": "no-store",
            "connection": "close",
            "date": formatdate(usegmt=True),
            **headers,
        }
        response = h11.Response(
            status_code=status, headers=list(all_headers.items()), reason=_REASONS.get(status, b"")
        )
        data = self._send(response)
        if self._head is None or self._head.method != b"HEAD":
            data += self._send(h11.Data(data=body))
        return data + self._send(h11.EndOfMessage())

    def _send(self, event: h11.Event) -> bytes:
        return self._http.send(event) or b""


def _credentials(header: bytes) -> tuple[str, str]:
    """User and password; 401 if there are none, or not in this scheme."""
    scheme, _, encoded = header.partition(b" ")
    if scheme.lower() == b"basic":
        try:
            decoded = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
        except ValueError:
            decoded = ""
        user, colon, password = decoded.partition(":")
        if colon:
            return user, password
    raise HttpError(
        401, "a user's name and password are needed, by basic authentication", **CHALLENGE
    )


# The header of every 401.
CHALLENGE: Final = {"www-authenticate": REALM}
