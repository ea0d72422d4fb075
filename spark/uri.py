"""Where the brokers are: `amqp://user:password@host:5672,other:5672/vhost`.

Several addresses, in one URI or as several URIs with commas between, are brokers that hold the same
queues, and partitions are spread over them. Login, vhost and TLS are said once, in the first URI: a
second one may repeat them, and is refused if it says otherwise. As RabbitMQ reads URIs
(https://www.rabbitmq.com/docs/uri-spec), but `amqp://host/` is the vhost `/`, as most clients have
it. Nothing here shows a password.

A `Secret` hides the password on the way from the options to the broker: no output of it shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

MASK = "***"


class Secret:
    """A text that only `reveal` gives; it is pickled as it is, for the workers log in with it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def reveal(self) -> str:
        """Give the text, for the login and nothing else."""
        return self._text


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


class _Uri(NamedTuple):
    """One URI; None: it does not say."""

    scheme: str
    addresses: tuple[Address, ...]
    vhost: str | None
    user: str | None
    password: Secret | None
    files: dict[str, str] | None


def parse_uri(text: str) -> Brokers:
    """Read one URI, or several with commas between; UriError if it cannot be."""
    first, *others = map(_parse_one, _split(text))
    addresses = list(first.addresses)
    user = first.user or "guest"
    password = first.password or Secret("" if first.user else "guest")
    vhost = first.vhost or "/"
    files = first.files or {}
    for place, other in enumerate(others, 2):
        if other.scheme != first.scheme:
            raise UriError(f"uri number {place} is of another scheme than the first")
        for what, said, expected in (
            ("another user", other.user, user),
            ("another password", other.password, password),
            ("another vhost", other.vhost, vhost),
            ("other files for TLS", other.files, files),
        ):
            if said is not None and said != expected:
                raise UriError(
                    f"uri number {place} says {what} than the first: all brokers of one "
                    "source or sink are logged in to alike, so leave it out there"
                )
        addresses += other.addresses
    tls = Tls(**files) if first.scheme == "amqps" else None
    return Brokers(tuple(dict.fromkeys(addresses)), vhost, user, password, tls)


def _split(text: str) -> list[str]:
    """Cut at the commas that a scheme follows; other commas part the hosts of one URI."""
    parts: list[str] = []
    for piece in text.split(","):
        if "://" in piece or not parts:
            parts.append(piece.strip())
        else:
            parts[-1] += "," + piece.strip()
    return parts


def _parse_one(text: str) -> _Uri:
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in PORTS:
        raise UriError("uri must begin with amqp:// or amqps://")
    rest, _, query = rest.partition("?")
    authority, has_path, path = rest.partition("/")
    login, _, hosts = authority.rpartition("@")
    user, has_password, password = login.partition(":")
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
    return _Uri(
        scheme.lower(),
        addresses,
        (unquote(path) or "/") if has_path else None,
        unquote(user) or None,
        Secret(unquote(password)) if user and has_password else None,
        given or None,
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
