"""The opening of a connection: start, tune, open. Sans-IO.

Takes the client's methods, returns the server's, and raises what must be told to a client that
errs, in RabbitMQ's words (rabbit_reader, rabbit_auth_mechanism_*).
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from ..amqp_frames.constants import (
    ACCESS_REFUSED,
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_BYTES_MIN,
    NOT_ALLOWED,
)
from ..amqp_frames.errors import AmqpError, HardError
from ..amqp_frames.field_table import Table, table_of
from ..amqp_frames.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from .mechanisms import EXTERNAL, PASSWORD_MECHANISMS, MalformedLoginError, credentials_of
from .peer import Peer

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

# Of a client's properties, what anybody asks for. The rest may be a hundred times its octets in
# memory, and comes before the login.
_CLIENT_CAPABILITIES = (*CAPABILITIES, "return_delivery_tag")
_CLIENT_NAMES = ("product", "version", "connection_name")


class State(Enum):
    """What the server waits for."""

    START_OK = "starting"
    # Whether the user may log in, which the caller has found out elsewhere.
    LOGIN = "securing"
    TUNE_OK = "tuning"
    OPEN = "opening"
    DONE = "running"


class Limits(NamedTuple):
    """What connection.tune offers; 0 is no limit, the heartbeat is in seconds."""

    frame_max_bytes: int
    channel_max: int
    heartbeat_seconds: int


class LoginRefusedError(HardError):
    """Wrong user or password: told only to clients that announced authentication_failure_close."""


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
        version: str,
        authenticate: Callable[[str, str | None], bool | None],
        may_open: Callable[[str, str], None],
        peer: Peer,
    ) -> None:
        self.state = State.START_OK
        self._offered = limits
        self._version = version
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
    def peer_name(self) -> str:
        """The client's address and port."""
        return self._peer.name

    def start(self) -> ConnectionStart:
        """The first method of all."""
        mechanisms = PASSWORD_MECHANISMS
        if self._peer.asks_certificate:
            mechanisms += b" " + EXTERNAL.encode()
        return ConnectionStart(
            server_properties=table_of(
                {
                    "capabilities": dict.fromkeys(CAPABILITIES, True),
                    "product": "Leveret",
                    "version": self._version,
                    "platform": f"Python {platform.python_version()}",
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

    def hides(self, error: AmqpError) -> bool:
        """Is the client not told of this error? As in RabbitMQ: who logs in wrongly waits."""
        says_why = self.capability("authentication_failure_close")
        if isinstance(error, LoginRefusedError):
            return not says_why
        return isinstance(error, MalformedLoginError)

    def receive(self, method: Method) -> Method | None:
        """Take the client's next method; return the answer."""
        if isinstance(method, ConnectionStartOk) and self.state is State.START_OK:
            return self._start_ok(method)
        if isinstance(method, ConnectionTuneOk) and self.state is State.TUNE_OK:
            self._tune_ok(method)
            self.state = State.OPEN
            return None
        if isinstance(method, ConnectionOpen) and self.state is State.OPEN:
            self._may_open(self.user, method.virtual_host)
            self.vhost = method.virtual_host
            self.state = State.DONE
            return ConnectionOpenOk()
        raise HardError(
            CHANNEL_ERROR,
            f"unexpected method in connection state {self.state.value}",
            method.class_id,
            method.method_id,
        )

    def logged_in(self, is_allowed: bool) -> ConnectionTune:
        """The answer to the login: the next method, or LoginRefusedError."""
        if not is_allowed:
            raise LoginRefusedError(
                ACCESS_REFUSED,
                f"Login was refused using authentication mechanism {self._mechanism}. "
                "For details see the broker logfile.",
            )
        self.state = State.TUNE_OK
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
                return self.logged_in(False)
            return self._log_in(self._peer.user, None)
        raise HardError(
            COMMAND_INVALID,
            f"unknown authentication mechanism '{method.mechanism}'",
            method.class_id,
            method.method_id,
        )

    def _log_in(self, user: str, password: str | None) -> Method | None:
        self.user = user
        self.state = State.LOGIN
        is_allowed = self._authenticate(user, password)
        return None if is_allowed is None else self.logged_in(is_allowed)

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
    capabilities = properties.get("capabilities")
    if capabilities is not None and isinstance(capabilities.value, dict):
        announced = capabilities.value
        known = {name: announced[name] for name in _CLIENT_CAPABILITIES if name in announced}
        flags = {name: field for name, field in known.items() if isinstance(field.value, bool)}
        kept["capabilities"] = capabilities._replace(value=flags)
    return kept


def _check(name: str, value: int, offered: int, lowest: int) -> None:
    """Refuse what is outside the offer (rabbit_reader, validate_negotiated_integer_value)."""
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
