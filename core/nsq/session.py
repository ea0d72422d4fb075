"""The states of one NSQ connection, what it may do in each, and IDENTIFY. Sans-IO.

Rules and words are those of nsqd 1.3.0 (protocol_v2.go, client_v2.go), in its order of checks.
Times are milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from ...amqp_frames.errors import AmqpError
from ...nsq_frames.commands import (
    AUTH,
    CLS,
    FIN,
    IDENTIFY,
    NOP,
    RDY,
    REQ,
    SUB,
    TOUCH,
    base10,
)
from ...nsq_frames.deliveries import ID_BYTES
from ...nsq_frames.errors import NsqError
from ...nsq_frames.names import is_valid_name, quoted

# The version of nsqd whose protocol this is: clients and tools choose by it what they do.
NSQD_VERSION: Final = "1.3.0"
# nsqd's, which are no settings of ours: each only bounds what a client may ask for.
HEARTBEAT_MS_MIN: Final = 1_000
MESSAGE_TIMEOUT_MS_MIN: Final = 1_000
OUTPUT_BUFFER_BYTES: Final = 16_384
OUTPUT_BUFFER_BYTES_MIN: Final = 64
OUTPUT_BUFFER_BYTES_MAX: Final = 65_536
OUTPUT_BUFFER_TIMEOUT_MS: Final = 250
OUTPUT_BUFFER_TIMEOUT_MS_MIN: Final = 25
OUTPUT_BUFFER_TIMEOUT_MS_MAX: Final = 30_000
SAMPLE_RATE_MAX: Final = 99
DEFLATE_LEVEL: Final = 6
# What of a client's names is kept.
CLIENT_NAME_CHARACTERS_MAX: Final = 100


class SessionLimits(NamedTuple):
    """Bounds of the values that clients may ask for; nsqd's flags have the same meaning."""

    ready_count_max: int
    message_timeout_ms: int
    message_timeout_ms_max: int
    requeue_delay_ms_max: int
    heartbeat_ms: int
    heartbeat_ms_max: int
    deflate_level_max: int


class Features(NamedTuple):
    """The streams that the broker can offer on this connection."""

    tls: bool = False
    deflate: bool = True
    snappy: bool = False


class State(Enum):
    """Where the connection is; `CLOSING` is behind CLS."""

    INIT = "init"
    SUBSCRIBED = "subscribed"
    CLOSING = "closing"


class Negotiated(NamedTuple):
    """The answer to IDENTIFY: fields of a JSON response, or None for a plain OK; and upgrades."""

    fields: Mapping[str, object] | None
    tls: bool = False
    # The level; 0: none.
    deflate_level: int = 0
    snappy: bool = False


class Requeueing(NamedTuple):
    """A REQ: the message's id, and for how long it is deferred."""

    message_id: bytes
    delay_ms: int


_FIELD_KINDS: Final[Mapping[str, type]] = {
    "client_id": str,
    "hostname": str,
    "heartbeat_interval": int,
    "output_buffer_size": int,
    "output_buffer_timeout": int,
    "feature_negotiation": bool,
    "tls_v1": bool,
    "deflate": bool,
    "deflate_level": int,
    "snappy": bool,
    "sample_rate": int,
    "user_agent": str,
    "msg_timeout": int,
}
_INT_MAX: Final = {"sample_rate": 2**31}


class Session:
    """One connection's state. Methods raise NsqError, in nsqd's words."""

    __slots__ = (
        "_is_identified",
        "client_names",
        "heartbeat_ms",
        "is_authorised",
        "limits",
        "message_timeout_ms",
        "output_buffer_bytes",
        "output_buffer_timeout_ms",
        "sample_rate",
        "state",
    )

    def __init__(self, limits: SessionLimits) -> None:
        self.limits = limits
        self.state = State.INIT
        # Has an AUTH named the user?
        self.is_authorised = False
        # As IDENTIFY calls them.
        self.client_names: dict[str, str] = {}
        # 0: none.
        self.heartbeat_ms = limits.heartbeat_ms
        self.message_timeout_ms = limits.message_timeout_ms
        self.output_buffer_bytes = OUTPUT_BUFFER_BYTES
        self.output_buffer_timeout_ms = OUTPUT_BUFFER_TIMEOUT_MS
        # In percent; 0: all messages.
        self.sample_rate = 0

    def check_state(self, command: bytes) -> None:
        """E_INVALID if this command may not come now, whatever it says."""
        state = self.state
        if command in (IDENTIFY, AUTH, SUB):
            is_wrong = state is not State.INIT
        elif command in (FIN, REQ, TOUCH):
            is_wrong = state is State.INIT
        elif command in (RDY, CLS):
            is_wrong = state is not State.SUBSCRIBED
        else:
            is_wrong = False
        if is_wrong:
            raise NsqError("E_INVALID", b"cannot " + command + b" in current state")

    def identify(self, body: bytes, features: Features, *, auth_required: bool) -> Negotiated:
        """Note what the client asks for; the answer."""
        self.check_state(IDENTIFY)
        asked = _decoded(body)
        try:
            self._negotiate(asked)
        except ValueError as fault:
            raise NsqError("E_BAD_BODY", f"IDENTIFY {fault}") from None
        for name in ("client_id", "hostname", "user_agent"):
            self.client_names[name] = asked.get(name, "")[:CLIENT_NAME_CHARACTERS_MAX]
        if not asked.get("feature_negotiation"):
            return Negotiated(None)
        deflate = features.deflate and asked.get("deflate", False)
        snappy = features.snappy and asked.get("snappy", False)
        level = DEFLATE_LEVEL
        if deflate and asked.get("deflate_level", 0) > 0:
            level = asked["deflate_level"]
        level = min(level, self.limits.deflate_level_max)
        if deflate and snappy:
            text = "cannot enable both deflate and snappy compression"
            raise NsqError("E_IDENTIFY_FAILED", text)
        tls = features.tls and asked.get("tls_v1", False)
        fields = {
            "max_rdy_count": self.limits.ready_count_max,
            "version": NSQD_VERSION,
            "max_msg_timeout": self.limits.message_timeout_ms_max,
            "msg_timeout": self.message_timeout_ms,
            "tls_v1": tls,
            "deflate": deflate,
            "deflate_level": level,
            "max_deflate_level": self.limits.deflate_level_max,
            "snappy": snappy,
            "sample_rate": self.sample_rate,
            "auth_required": auth_required,
            "output_buffer_size": self.output_buffer_bytes,
            "output_buffer_timeout": self.output_buffer_timeout_ms,
        }
        return Negotiated(fields, tls, level if deflate else 0, snappy)

    def _negotiate(self, asked: Mapping[str, Any]) -> None:
        limits = self.limits
        interval = asked.get("heartbeat_interval", 0)
        if interval == -1:
            self.heartbeat_ms = 0
        elif interval:
            _check_between(
                "heartbeat interval", interval, HEARTBEAT_MS_MIN, limits.heartbeat_ms_max
            )
            self.heartbeat_ms = interval
        timeout_ms = asked.get("output_buffer_timeout", 0)
        if timeout_ms == -1:
            self.output_buffer_timeout_ms = 0
        elif timeout_ms:
            low, high = OUTPUT_BUFFER_TIMEOUT_MS_MIN, OUTPUT_BUFFER_TIMEOUT_MS_MAX
            _check_between("output buffer timeout", timeout_ms, low, high)
            self.output_buffer_timeout_ms = timeout_ms
        size = asked.get("output_buffer_size", 0)
        if size == -1:
            self.output_buffer_bytes, self.output_buffer_timeout_ms = 1, 0
        elif size:
            low, high = OUTPUT_BUFFER_BYTES_MIN, OUTPUT_BUFFER_BYTES_MAX
            _check_between("output buffer size", size, low, high)
            self.output_buffer_bytes = size
        rate = asked.get("sample_rate", 0)
        _check_between("sample rate", rate, 0, SAMPLE_RATE_MAX)
        self.sample_rate = rate
        timeout_ms = asked.get("msg_timeout", 0)
        if timeout_ms:
            low, high = MESSAGE_TIMEOUT_MS_MIN, limits.message_timeout_ms_max
            _check_between("msg timeout", timeout_ms, low, high)
            self.message_timeout_ms = timeout_ms

    def check_auth(self) -> None:
        """E_INVALID if there is no place for an AUTH now."""
        self.check_state(AUTH)
        if self.is_authorised:
            raise NsqError("E_INVALID", "AUTH already set")

    def check_subscription(self, params: list[bytes]) -> tuple[str, str]:
        """Topic and channel of a SUB; it is not subscribed yet."""
        self.check_state(SUB)
        if not self.heartbeat_ms:
            raise NsqError("E_INVALID", "cannot SUB with heartbeats disabled")
        if len(params) < 3:
            raise NsqError("E_INVALID", "SUB insufficient number of parameters")
        topic, channel = params[1:3]
        if not is_valid_name(topic):
            text = b"SUB topic name " + quoted(topic) + b" is not valid"
            raise NsqError("E_BAD_TOPIC", text)
        if not is_valid_name(channel):
            text = b"SUB channel name " + quoted(channel) + b" is not valid"
            raise NsqError("E_BAD_CHANNEL", text)
        return topic.decode(), channel.decode()

    def subscribe(self) -> None:
        """The channel has taken the consumer."""
        self.state = State.SUBSCRIBED

    def ready_count(self, params: list[bytes]) -> int | None:
        """How many messages the client is ready for; None: a RDY that does not count."""
        if self.state is State.CLOSING:
            return None
        self.check_state(RDY)
        count = 1
        if len(params) > 1:
            number = base10(params[1])
            if number is None:
                raise NsqError("E_INVALID", b"RDY could not parse count " + params[1])
            # As Go's int64.
            count = number - 2**64 if number >= 2**63 else number
        if not 0 <= count <= self.limits.ready_count_max:
            text = f"RDY count {count} out of range 0-{self.limits.ready_count_max}"
            raise NsqError("E_INVALID", text)
        return count

    def message_id(self, params: list[bytes], least: int = 2) -> bytes:
        """The message that FIN, REQ or TOUCH names; it has so many words at least."""
        self.check_state(params[0])
        if len(params) < least:
            raise NsqError("E_INVALID", params[0] + b" insufficient number of params")
        if len(params[1]) != ID_BYTES:
            raise NsqError("E_INVALID", "invalid message ID")
        return params[1]

    def requeueing(self, params: list[bytes]) -> Requeueing:
        """The message and delay of a REQ; a delay above the maximum is cut without a word."""
        message_id = self.message_id(params, 3)
        delay_ms = base10(params[2])
        if delay_ms is None:
            raise NsqError("E_INVALID", b"REQ could not parse timeout " + params[2])
        return Requeueing(message_id, min(delay_ms, self.limits.requeue_delay_ms_max))

    def close(self) -> None:
        """CLS: nothing is delivered any more."""
        self.check_state(CLS)
        self.state = State.CLOSING


def unknown_command(name: bytes) -> NsqError:
    """There is no such command."""
    return NsqError("E_INVALID", b"invalid command " + name)


def not_in_flight(command: bytes, message_id: bytes) -> NsqError:
    """The message is not the client's: it has answered, or its time is over. Not fatal."""
    text = command + b" " + message_id + b" failed ID not in flight"
    return NsqError(f"E_{command.decode()}_FAILED", text, is_fatal=False)


def auth_first(command: bytes) -> NsqError:
    """Nobody has said who the client is."""
    return NsqError("E_AUTH_FIRST", b"AUTH required before " + command)


def unauthorised(command: bytes, topic: str, channel: str = "") -> NsqError:
    """The user's permissions do not allow it."""
    names = quoted(topic.encode()) + b" " + quoted(channel.encode())
    return NsqError("E_UNAUTHORIZED", b"AUTH failed for " + command + b" on " + names)


def reason_of(error: AmqpError) -> str:
    """Why something could not be done, without AMQP's name of the code."""
    return error.reply_text.partition(" - ")[2]


def entry_id_of(message_id: bytes) -> int:
    """The entry that the client calls so; -1 if the broker gives no such id."""
    if message_id.strip(b"0123456789abcdef"):
        return -1
    return int(message_id, 16)


def is_nop(params: list[bytes]) -> bool:
    """Does the command do nothing?"""
    return params[0] == NOP


def _check_between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        msg = f"{name} ({value}) is invalid"
        raise ValueError(msg)


def _decoded(body: bytes) -> dict[str, Any]:
    """The known fields of IDENTIFY's body, as Go decodes them: by kind, null is no value."""
    try:
        decoded = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        decoded = 0
    if decoded is None:
        return {}
    fields: dict[str, Any] = {}
    is_sound = isinstance(decoded, dict)
    if is_sound:
        for name, value in decoded.items():
            kind = _FIELD_KINDS.get(name.lower())
            if kind is None or value is None:
                continue
            is_sound = is_sound and _is_kind(name.lower(), kind, value)
            fields[name.lower()] = value
    if not is_sound:
        raise NsqError("E_BAD_BODY", "IDENTIFY failed to decode JSON body")
    return fields


def _is_kind(name: str, kind: type, value: object) -> bool:
    # A bool is an int to Python, and no number to Go.
    if type(value) is not kind:
        return False
    if kind is int:
        assert isinstance(value, int)
        limit = _INT_MAX.get(name, 2**63)
        return -limit <= value < limit
    return True
