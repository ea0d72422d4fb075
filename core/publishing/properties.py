"""Reads the properties of a publish that concern the broker: checks, and further routing keys.

Only messages that the batch lists as flagged come here. The checks come in RabbitMQ's order, with
its words (rabbit_channel, basic.publish; rabbit_basic, header_routes). The headers CC and BCC, each
an array of strings, add routing keys; BCC is taken out before the message is stored or delivered,
so that no receiver sees who else was meant. A `reply_to` that asks for a direct reply becomes the
name of the channel's reply consumer (reply_consumers.py).

The check of `expiration` is here, too, with the fault as RabbitMQ prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import AmqpError, SoftError
from ...amqp_frames.properties import (
    DELIVERY_MODES,
    Properties,
    decode_properties,
    encode_properties,
)
from ...amqp_frames.values.field_table import Field
from ..definitions import EXPIRY_MS_MAX
from ..erlang_terms import as_text
from .reply_consumers import REPLY_TO

# As Erlang's string:to_integer.
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def expiration_fault(expiration: str) -> str | None:
    """Why a message with this expiration cannot be published; None: it is milliseconds, as text."""
    found = _INTEGER.match(expiration)
    if found is None:
        return "no_integer"
    rest = expiration[found.end() :]
    if rest:
        return f'{{leftover_string,"{rest}"}}'
    milliseconds = int(found[0])
    if milliseconds < 0:
        return f"{{value_negative,{milliseconds}}}"
    if milliseconds > EXPIRY_MS_MAX:
        return f"{{value_too_large,{milliseconds}}}"
    return None


PUBLISH: Final = (60, 40)
_ROUTING_HEADERS: Final = ("CC", "BCC")
_DELETED_HEADER: Final = "BCC"


class Looked(NamedTuple):
    """The result: why it cannot be published, or what must be done about it."""

    error: AmqpError | None = None
    # Beside the publish's own routing key.
    routing_keys: tuple[str, ...] = ()
    # Flags and values to be put in place of the message's own.
    rewritten: bytes | None = None
    # How long it may live, in milliseconds.
    ttl_ms: int | None = None


class PublishProperties:
    """Looks into properties for one channel, whose connection logged in as `user`.

    `may_impersonate` says whether messages may name another.
    """

    def __init__(self, user: str, may_impersonate: Callable[[], bool]) -> None:
        self._user = user
        self._may_impersonate = may_impersonate
        self._reply_name = ""
        # Looked into last, and sound: publishers repeat themselves.
        self._known_octets = b""
        self._known = Looked()

    def set_reply_name(self, name: str) -> None:
        """The secret name of the channel's reply consumer; "" if it has none."""
        self._reply_name = name
        self._known_octets = b""

    def look(self, octets: bytes) -> Looked:
        """Look into the flags and values of one message."""
        if octets != self._known_octets:
            looked = self._look(decode_properties(octets, 0, len(octets)))
            if looked.error is not None:
                return looked
            self._known_octets, self._known = octets, looked
        return self._known

    def _look(self, properties: Properties) -> Looked:
        ttl_ms = None
        rewritten = False
        if properties.reply_to == REPLY_TO:
            if not self._reply_name:
                return _refused("fast reply consumer does not exist")
            properties = properties._replace(reply_to=self._reply_name)
            rewritten = True
        if properties.expiration is not None:
            fault = expiration_fault(properties.expiration)
            if fault is not None:
                return _refused(f"invalid expiration '{properties.expiration}': {fault}")
            ttl_ms = int(properties.expiration)
        mode = properties.delivery_mode
        if mode is not None and mode not in DELIVERY_MODES:
            return _refused(f"invalid message: {{delivery_mode_unknown,{mode}}}")
        headers = properties.headers or {}
        routing_keys: list[str] = []
        for name in _ROUTING_HEADERS:
            field = headers.get(name)
            if field is None:
                continue
            if not isinstance(field.value, list):
                reason = f'{{unacceptable_type_in_header,"{name}",{field.kind}}}'
                return _refused(f"invalid message: {reason}")
            routing_keys += longstrs(field.value)
        is_foreign = properties.user_id is not None and properties.user_id != self._user
        if is_foreign and not self._may_impersonate():
            return _refused(
                f"user_id property set to '{properties.user_id}' "
                f"but authenticated user was '{self._user}'"
            )
        if _DELETED_HEADER in headers:
            properties = properties._replace(headers=_without_deleted(headers))
            rewritten = True
        octets = encode_properties(properties) if rewritten else None
        return Looked(None, tuple(dict.fromkeys(routing_keys)), octets, ttl_ms)


def longstrs(fields: list[Field]) -> list[str]:
    """The strings of an array; a value that is none is ignored, as in RabbitMQ."""
    return [
        as_text(field.value)
        for field in fields
        if field.kind == "longstr" and isinstance(field.value, str | bytes)
    ]


def _without_deleted(headers: Mapping[str, Field]) -> dict[str, Field]:
    return {name: field for name, field in headers.items() if name != _DELETED_HEADER}


def _refused(text: str) -> Looked:
    return Looked(SoftError(PRECONDITION_FAILED, text, *PUBLISH))
