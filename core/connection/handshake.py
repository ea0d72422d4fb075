"""The opening of a connection: start, tune, open. Sans-IO.

Takes the client's methods, returns the server's, and raises what must be told to a client that
errs, in RabbitMQ's words (rabbit_reader, rabbit_auth_mechanism_*).

How a client says who it is: the mechanisms of connection.start, as RabbitMQ reads them.

PLAIN and AMQPLAIN carry a user and a password (rabbit_auth_mechanism_plain, _amqplain). EXTERNAL
carries nothing: the user is whom the client's certificate names (rabbit_auth_mechanism_ssl).

The eight octets that a client begins with: what it wants to speak.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ...amqp_frames.constants import (
    ACCESS_REFUSED,
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_BYTES_MIN,
    NOT_ALLOWED,
    PROTOCOL_HEADER,
    SYNTAX_ERROR,
)
from ...amqp_frames.errors import AmqpError, HardError
from ...amqp_frames.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from ...amqp_frames.values.field_table import Table, decode_fields, table_of
from ..users.login_results import LoginRefusedError, LoginResult
from .peer import Peer
from .phase import ConnectionPhase, Phase

# Asks for 0-9; near enough to 0-9-1 that RabbitMQ takes it for it.
_HEADER_0_9 = b"AMQP\x01\x01\x00\x09"
# How TLS's handshake begins.
_TLS_RECORD = b"\x16\x03"


def refusal(header: bytes) -> str | None:
    """Why a connection that begins so is refused, for the log; None if it is not."""
    if header.startswith((PROTOCOL_HEADER, _HEADER_0_9)):
        return None
    return "TLS on the plain port" if header.startswith(_TLS_RECORD) else "bad protocol header"


PASSWORD_MECHANISMS: Final = b"PLAIN AMQPLAIN"
EXTERNAL: Final = "EXTERNAL"
# What a name or a password may be in an AMQPLAIN response.
_STRING_KINDS = ("longstr", "binary")


class MalformedLoginError(HardError):
    """A response that makes no sense. As in RabbitMQ the client hears of it by silence alone.

    The response may hold a password, so the text does not show it.
    """


def credentials_of(method: ConnectionStartOk) -> tuple[str, str] | None:
    """User and password; None if the mechanism carries none. Raises MalformedLoginError."""
    if method.mechanism == "PLAIN":
        credentials = _plain(method.response)
    elif method.mechanism == "AMQPLAIN":
        credentials = _amqplain(method.response)
    else:
        return None
    if credentials is None:
        text = f"{method.mechanism} response is malformed"
        raise MalformedLoginError(SYNTAX_ERROR, text, method.class_id, method.method_id)
    return credentials


def _plain(response: bytes) -> tuple[str, str] | None:
    """NUL, user, NUL, password; nobody may act for another, so nothing stands before the first."""
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        return None
    return _text(parts[1]), _text(parts[2])


def _amqplain(response: bytes) -> tuple[str, str] | None:
    """A field table without its length: LOGIN and PASSWORD."""
    try:
        table = decode_fields(response, 0, len(response))
    except AmqpError:
        return None
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None:
        return None
    if login.kind not in _STRING_KINDS or password.kind not in _STRING_KINDS:
        return None
    return _either(login.value), _either(password.value)


def _either(value: object) -> str:
    return _text(value) if isinstance(value, bytes) else str(value)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)

# Of a client's properties: its name, the capabilities that the broker acts on, and as many others,
# for the management API, as clients send. Tables may be a hundred times their octets in memory, and
# all this comes before the login.
_CLIENT_CAPABILITIES = (*CAPABILITIES, "return_delivery_tag")
# A name is for people; the trace repeats it in many events.
CONNECTION_NAME_CHARACTERS_MAX = 100
_CLIENT_NAMES = ("product", "version", "connection_name")
OTHER_CLIENT_PROPERTIES_MAX = 16


class Limits(NamedTuple):
    """The limits that connection.tune offers; 0 is no limit, the heartbeat is in seconds."""

    frame_max_bytes: int
    channel_max: int
    heartbeat_seconds: int


class ServerNames(NamedTuple):
    """The names in connection.start by which clients choose what they do.

    Client libraries look for `product` RabbitMQ and its `version`: kombu, for one, raises a
    consumer's prefetch count by basic.qos global with RabbitMQ 3.3 to 3.13 only, and without that
    a Celery worker that holds delayed tasks gets no others. So the broker names the version whose
    protocol it speaks, as MariaDB does for MySQL's clients; `platform` and the property `leveret`
    name the broker itself.
    """

    product: str
    version: str
    leveret_version: str


class ClientIdentity(Protocol):
    """Who a client is: what logs, lists and the trace know of a connection."""

    @property
    def protocol(self) -> str:
        """What it speaks, as lists call it."""

    @property
    def peer_name(self) -> str:
        """The client's address and port."""

    @property
    def user(self) -> str:
        """Once that is known."""

    @property
    def vhost(self) -> str:
        """Once it is open."""

    @property
    def connection_name(self) -> str:
        """What the client calls the connection."""

    @property
    def mechanism(self) -> str:
        """How the client has logged in."""

    @property
    def limits(self) -> Limits:
        """The values that client and broker agree on."""

    @property
    def client_properties(self) -> Table:
        """What the client says of itself."""


class Handshake:
    """The server's side until connection.open-ok.

    `authenticate(user, password)` says whether the user may log in from where the client is; the
    password is None if a certificate has said who it is. None says that the answer comes later,
    through `logged_in`. `may_open(user, vhost)` raises what a client must be told that may not use
    the vhost.
    """

    def __init__(
        self,
        limits: Limits,
        names: ServerNames,
        authenticate: Callable[[str, str | None], LoginResult | None],
        may_open: Callable[[str, str], None],
        peer: Peer,
        phase: ConnectionPhase,
    ) -> None:
        self.phase = phase
        self._offered = limits
        self._names = names
        self._authenticate = authenticate
        self._may_open = may_open
        self._peer = peer
        self._mechanism = ""
        # Settled by the client's answers.
        self.limits = limits
        self.user = ""
        self.vhost = ""
        self.client_properties: Table = {}

    @property
    def protocol(self) -> str:
        """What the client speaks."""
        return "AMQP 0-9-1"

    @property
    def peer_name(self) -> str:
        """The client's address and port."""
        return self._peer.name

    def start(self) -> ConnectionStart:
        """The first method of all."""
        mechanisms = PASSWORD_MECHANISMS
        if self._peer.asks_certificate:
            mechanisms += b" " + EXTERNAL.encode()
        names = self._names
        return ConnectionStart(
            server_properties=table_of(
                {
                    "capabilities": dict.fromkeys(CAPABILITIES, True),
                    "product": names.product,
                    "version": names.version,
                    "platform": f"Leveret {names.leveret_version}, "
                    f"Python {platform.python_version()}",
                    "leveret": names.leveret_version,
                    "copyright": "The Leveret developers",
                    "information": "Licensed under the Apache License 2.0",
                }
            ),
            mechanisms=mechanisms,
            locales=b"en_US",
        )

    def capability(self, name: str) -> bool:
        """Did the client announce this capability?"""
        capabilities = self.client_properties.get("capabilities")
        if capabilities is None or not isinstance(capabilities.value, dict):
            return False
        field = capabilities.value.get(name)
        return field is not None and field.value is True

    @property
    def connection_name(self) -> str:
        """The name that the client gave its connection, cut to a readable length; empty if none."""
        named = self.client_properties.get("connection_name")
        if named is None:
            return ""
        name = named.value
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        return text[:CONNECTION_NAME_CHARACTERS_MAX]

    def hides(self, error: AmqpError) -> bool:
        """Is the client not told of this error? As in RabbitMQ: who logs in wrongly waits."""
        says_why = self.capability("authentication_failure_close")
        if isinstance(error, LoginRefusedError):
            return not says_why
        return isinstance(error, MalformedLoginError)

    @property
    def mechanism(self) -> str:
        """The mechanism that the client has logged in with; "" before."""
        return self._mechanism

    def receive(self, method: Method) -> Method | None:
        """Take the client's next method; return the answer."""
        if isinstance(method, ConnectionStartOk) and self.phase.now is Phase.STARTING:
            return self._start_ok(method)
        if isinstance(method, ConnectionTuneOk) and self.phase.now is Phase.TUNING:
            self._tune_ok(method)
            self.phase.settle_limits()
            return None
        if isinstance(method, ConnectionOpen) and self.phase.now is Phase.OPENING:
            self._may_open(self.user, method.virtual_host)
            self.vhost = method.virtual_host
            self.phase.open()
            return ConnectionOpenOk()
        raise HardError(
            CHANNEL_ERROR,
            f"unexpected method in connection state {self.phase.now.value}",
            method.class_id,
            method.method_id,
        )

    def logged_in(self, result: LoginResult) -> ConnectionTune:
        """The answer to the login: the next method, or LoginRefusedError."""
        if result is not LoginResult.ALLOWED:
            raise LoginRefusedError(
                result.value,
                ACCESS_REFUSED,
                f"Login was refused using authentication mechanism {self._mechanism}. "
                "For details see the broker logfile.",
            )
        self.phase.tune()
        return ConnectionTune(
            self._offered.channel_max,
            self._offered.frame_max_bytes,
            self._offered.heartbeat_seconds,
        )

    def _start_ok(self, method: ConnectionStartOk) -> Method | None:
        self.client_properties = _kept(method.client_properties)
        self._mechanism = method.mechanism
        credentials = credentials_of(method)
        if credentials is not None:
            user, password = credentials
            return self._log_in(user, password)
        if method.mechanism == EXTERNAL and self._peer.asks_certificate:
            # Nobody is named: there was no certificate, or no such name in it.
            if not self._peer.user:
                return self.logged_in(LoginResult.NO_CERTIFICATE)
            return self._log_in(self._peer.user, None)
        raise HardError(
            COMMAND_INVALID,
            f"unknown authentication mechanism '{method.mechanism}'",
            method.class_id,
            method.method_id,
        )

    def _log_in(self, user: str, password: str | None) -> Method | None:
        self.user = user
        self.phase.log_in()
        result = self._authenticate(user, password)
        return None if result is None else self.logged_in(result)

    def _tune_ok(self, method: ConnectionTuneOk) -> None:
        _check("frame_max", method.frame_max, self._offered.frame_max_bytes, FRAME_BYTES_MIN)
        _check("channel_max", method.channel_max, self._offered.channel_max, 1)
        self.limits = Limits(method.frame_max, method.channel_max, method.heartbeat)


def _kept(properties: Table) -> Table:
    kept = {}
    for name in _CLIENT_NAMES:
        field = properties.get(name)
        if field is not None and isinstance(field.value, (str, bytes)):
            kept[name] = field
    room = len(kept) + OTHER_CLIENT_PROPERTIES_MAX
    for name, field in properties.items():
        if len(kept) == room:
            break
        if name not in _CLIENT_NAMES and isinstance(field.value, (str, bytes, bool, int)):
            kept[name] = field
    capabilities = properties.get("capabilities")
    if capabilities is not None and isinstance(capabilities.value, dict):
        announced = capabilities.value
        known = {name: announced[name] for name in _CLIENT_CAPABILITIES if name in announced}
        flags = {name: field for name, field in known.items() if isinstance(field.value, bool)}
        kept["capabilities"] = capabilities._replace(value=flags)
    return kept


def _check(name: str, value: int, offered: int, lowest: int) -> None:
    """Refuse a value outside the offer (rabbit_reader, validate_negotiated_integer_value)."""
    if value and value < lowest:
        raise HardError(
            NOT_ALLOWED,
            f"negotiated {name} = {value} is lower than the minimum allowed value ({lowest})",
            ConnectionTune.class_id,
            ConnectionTune.method_id,
        )
    if offered and (value == 0 or value > offered):
        shown = "0 (no limit)" if name == "channel_max" and not value else value
        raise HardError(
            NOT_ALLOWED,
            f"negotiated {name} = {shown} is higher than the maximum allowed value ({offered})",
            ConnectionTune.class_id,
            ConnectionTune.method_id,
        )
