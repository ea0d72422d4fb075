"""TLS for both sides of a run: one certificate for the brokers, and the generator's sockets.

Both brokers are given the same certificate and key, and the load believes its authority only, so
that both do the same work. The load sends and reads as it does without TLS; here a socket is
wrapped to look like a plain one, with `sendmsg`, and BlockingIOError where TLS has nothing to say.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import trustme

# A write is made of pieces up to this size; TLS cuts it into records of 16 KiB anyway.
_WRITE_BYTES_MAX = 1 << 18


class CertificateFiles(NamedTuple):
    """PEM files: a broker's certificate and key, and the authority that issued it."""

    certificate: Path
    key: Path
    authority: Path


def issue(directory: Path) -> CertificateFiles:
    """Write a new authority's certificate for 127.0.0.1 into the directory."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    files = CertificateFiles(*(directory / f"{name}.pem" for name in CertificateFiles._fields))
    issued.cert_chain_pems[0].write_to_path(str(files.certificate))
    issued.private_key_pem.write_to_path(str(files.key))
    authority.cert_pem.write_to_path(str(files.authority))
    return files


def context_of(authority: Path) -> ssl.SSLContext:
    """Make a client's context that believes this authority only."""
    return ssl.create_default_context(cafile=str(authority))


class TlsSocket:
    """A socket behind TLS's handshake, as far as the load needs one."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = context.wrap_socket(connected, server_hostname="127.0.0.1")
        # What TLS was given and could not write: it must be given the same again.
        self._unwritten = b""

    @property
    def cipher(self) -> str:
        """Name the protocol and the cipher that were agreed on."""
        agreed = self._socket.cipher()
        return f"{self._socket.version()} {agreed[0] if agreed else 'nothing'}"

    def fileno(self) -> int:
        """Give what a selector waits for."""
        return self._socket.fileno()

    def setblocking(self, blocking: bool) -> None:
        """Wait for the peer from now on, or do not."""
        self._socket.setblocking(blocking)

    def sendall(self, data: bytes) -> None:
        """Send all, on a blocking socket."""
        self._socket.sendall(data)

    def recv(self, size: int) -> bytes:
        """Read some, on a blocking socket."""
        return self._socket.recv(size)

    def recv_into(self, view: memoryview) -> int:
        """Read everything available, record after record; 0 at the end."""
        received = 0
        try:
            while received < len(view):
                count = self._socket.recv_into(view[received:])
                received += count
                if not count:
                    break
        except ssl.SSLWantReadError:
            if not received:
                raise BlockingIOError from None
        return received

    def sendmsg(self, pieces: Sequence[memoryview]) -> int:
        """Send as much of the pieces as the socket takes; at least one octet."""
        if not self._unwritten:
            chosen, size = [], 0
            for piece in pieces:
                chosen.append(piece[: _WRITE_BYTES_MAX - size])
                size += len(chosen[-1])
                if size == _WRITE_BYTES_MAX:
                    break
            self._unwritten = b"".join(chosen)
        try:
            sent = self._socket.send(self._unwritten)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None
        self._unwritten = b""
        return sent

    def close(self) -> None:
        """Close the socket without a word."""
        self._socket.close()
