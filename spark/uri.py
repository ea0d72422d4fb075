"""Where the brokers are: `amqp://user:password@host:5672,other:5672/vhost`.

Several addresses, in one URI or as several URIs with commas between, are brokers that hold the same
queues: partitions are spread over them, and whoever cannot be reached is passed over. Login, vhost
and TLS are those of the first. As RabbitMQ reads URIs (https://www.rabbitmq.com/docs/uri-spec), but
`amqp://host/` is the vhost `/`, as most clients have it. Nothing here shows a password.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from .secret import Secret

PORTS: Final = {"amqp": 5672, "amqps": 5671}
PORT_MAX: Final = 0xFFFF
# What may follow the question mark, in RabbitMQ's words, and what it is called here.
_QUERY: Final = {"cacertfile": "ca_file", "certfile": "cert_file", "keyfile": "key_file"}

_ESCAPES: Final = "special characters in user, password and vhost are written as %40"


class UriError(ValueError):
    """A URI that cannot be; says why, and nothing of the URI but its place."""


@dataclass(frozen=True)
class Address:
    """One broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Tls:
    """Files on every worker; without a `ca_file` the system's authorities are trusted."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True)
class Brokers:
    """Who to connect to, and as whom."""

    addresses: tuple[Address, ...]
    vhost: str = "/"
    user: str = "guest"
    password: Secret = field(default=Secret("guest"))
    tls: Tls | None = None

    def in_turn(self, first: int) -> tuple[Address, ...]:
        """All addresses in the order in which partition number `first` tries them."""
        start = first % len(self.addresses)
        return self.addresses[start:] + self.addresses[:start]

    def __str__(self) -> str:
        """For logs: everything but the password."""
        scheme = "amqp" if self.tls is None else "amqps"
        listed = ",".join(map(str, self.addresses))
        return f"{scheme}://{self.user}@{listed}/{'' if self.vhost == '/' else self.vhost}"


def parse_uri(text: str) -> Brokers:
    """Read one URI, or several with commas between; UriError if it cannot be."""
    parts = _split(text)
    first = _parse_one(parts[0])
    addresses = list(first.addresses)
    for place, part in enumerate(parts[1:], 2):
        other = _parse_one(part)
        if (other.tls is None) != (first.tls is None):
            raise UriError(f"uri number {place} is of another scheme than the first")
        addresses += other.addresses
    return Brokers(
        tuple(dict.fromkeys(addresses)), first.vhost, first.user, first.password, first.tls
    )


def _split(text: str) -> list[str]:
    """Cut at the commas that a scheme follows; other commas part the hosts of one URI."""
    parts: list[str] = []
    for piece in text.split(","):
        if "://" in piece or not parts:
            parts.append(piece.strip())
        else:
            parts[-1] += "," + piece.strip()
    return parts


def _parse_one(text: str) -> Brokers:
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in PORTS:
        raise UriError("uri must begin with amqp:// or amqps://")
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    login, _, hosts = authority.rpartition("@")
    user, _, password = login.partition(":")
    if "@" in path + query:
        # Most likely the end of a login, whose password has a / or ? in it: it is not repeated.
        raise UriError(f"uri has an @ behind a / or ? ({_ESCAPES})")
    if "/" in path:
        raise UriError("uri has more than one path segment: a / in a vhost is written %2f")
    port = PORTS[scheme.lower()]
    addresses = tuple(_address(each, port) for each in hosts.split(","))
    given = _parse_query(query)
    if given and scheme.lower() == "amqp":
        raise UriError("uri has files for TLS, but its scheme is amqp, not amqps")
    return Brokers(
        addresses,
        unquote(path) or "/",
        unquote(user) or "guest",
        Secret(unquote(password) if user else "guest"),
        Tls(**given) if scheme.lower() == "amqps" else None,
    )


def _address(text: str, port: int) -> Address:
    if text.startswith("["):
        host, closed, after = text[1:].partition("]")
        if not closed or (after and not after.startswith(":")):
            raise UriError("uri has an IPv6 address whose bracket is not closed")
        port_text = after[1:]
    else:
        host, _, port_text = text.partition(":")
    return Address(unquote(host) or "localhost", parse_port(port_text) if port_text else port)


def parse_port(text: str) -> int:
    """Read a port; UriError if it is none."""
    # isdecimal alone takes other scripts' digits, which int reads, but nobody means.
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= PORT_MAX):
        # What stands there may be the end of a password with an @ or : in it.
        raise UriError(f"a port must be a number from 1 to {PORT_MAX} ({_ESCAPES})")
    return int(text)


def _parse_query(query: str) -> dict[str, str]:
    given = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _QUERY:
            raise UriError(f"uri parameter {name!r} is none of: {', '.join(_QUERY)}")
        given[_QUERY[name]] = value
    return given
