"""The other end of a connection, as far as the network and its certificate identify it."""

from __future__ import annotations

from typing import NamedTuple

# A certificate's subject as Python's ssl gives it: relative names, of (attribute, value)s each.
Subject = tuple[tuple[tuple[str, str], ...], ...]

# OpenSSL's long names, and RFC 4514's and RabbitMQ's short ones (rabbit_cert_info).
_SHORT_NAMES = {
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "streetAddress": "STREET",
    "userId": "UID",
}
_ESCAPED = '"+,;<>\\'


class Peer(NamedTuple):
    """`name` is address and port; `user` whom a verified certificate names, "" if nobody.

    With `asks_certificate` the connection may use the mechanism EXTERNAL. One that `is_internal` is
    the management API's own, for one command: it is not logged, not listed and not counted.
    """

    name: str
    asks_certificate: bool = False
    user: str = ""
    is_internal: bool = False
    # The broker's own end.
    local_host: str = ""
    local_port: int = 0
    # Version and cipher of TLS; "" without.
    tls_protocol: str = ""
    tls_cipher: str = ""

    @property
    def connection_name(self) -> str:
        """RabbitMQ's name of the connection: both ends of it."""
        return f"{self.name} -> {self.local_host}:{self.local_port}"

    @property
    def host(self) -> str:
        """The address alone."""
        return self.name.rsplit(":", 1)[0]


def common_name(subject: Subject) -> str:
    """The common name; several joined by commas, as in RabbitMQ; "" if there is none."""
    pairs = [pair for relative_name in subject for pair in relative_name]
    return ",".join(value for attribute, value in pairs if attribute == "commonName")


def distinguished_name(subject: Subject) -> str:
    """The whole name in RFC 4514's form, the last part first, as RabbitMQ writes it."""
    return ",".join(
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in relative)
        for relative in reversed(subject)
    )


def _escaped(value: str) -> str:
    """RFC 4514, and everything beyond printable ASCII as the octets of its UTF-8."""
    shown = []
    last = len(value) - 1
    for at, character in enumerate(value):
        is_edge = (at == 0 and character in " #") or (at == last and character == " ")
        if is_edge or character in _ESCAPED:
            shown.append("\\" + character)
        elif " " <= character < "~":
            shown.append(character)
        else:
            shown += [f"\\{octet:02X}" for octet in character.encode("utf-8", "surrogateescape")]
    return "".join(shown)


def is_loopback(host: str) -> bool:
    """Whether the address is one of this machine's own."""
    return host.startswith("127.") or host == "::1"
