"""Field tables and properties as JSON has them, as RabbitMQ's API writes and reads them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus, unquote_plus

from ..amqp_frames.constants import SHORT_STRING_BYTES_MAX
from ..amqp_frames.properties import Properties
from ..amqp_frames.values.field_table import Field, Table
from ..core.json_tables import plain_table, table_of_json
from .request import bad_request
from .text import encoded

_HASH_BYTES: Final = 4


def table_from(given: object) -> Table:
    """The field table for a JSON object: whole numbers are longs, as in RabbitMQ; 400."""
    try:
        return table_of_json(given)
    except ValueError as fault:
        raise bad_request(str(fault)) from None


_INTEGERS: Final = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}


def properties_from(given: object) -> Properties:
    """The properties that a JSON object names; others are passed over, as in RabbitMQ; 400."""
    if given == [] or given is None:
        return Properties()
    if not isinstance(given, dict):
        raise bad_request("properties must be an object")
    values: dict[str, Any] = {}
    for name in Properties._fields:
        value = given.get(name)
        if value is None:
            continue
        if name == "headers":
            values[name] = table_from(value)
        elif name in _INTEGERS:
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if not is_number or not 0 <= value <= _INTEGERS[name]:
                raise bad_request(["not_int", name])
            values[name] = value
        else:
            values[name] = value if isinstance(value, str) else str(value)
            if len(values[name].encode("utf-8", "surrogateescape")) > SHORT_STRING_BYTES_MAX:
                raise bad_request(f"{name} has at most {SHORT_STRING_BYTES_MAX} bytes")
    return Properties(**values)


def plain_properties(properties: Properties) -> dict[str, Any] | list[Any]:
    """The properties that are there; none at all are an empty list, as in RabbitMQ."""
    found = {
        name: plain_table(value) if name == "headers" else value
        for name, value in properties._asdict().items()
        if value is not None
    }
    return found or []


def properties_key(routing_key: str, arguments: Mapping[str, Field]) -> str:
    """The name of a binding in paths: its quoted key, and a hash of its arguments if it has any.

    As RabbitMQ's in form; its hash is Erlang's own, this one CRC-32 of the arguments' JSON.
    """
    quoted = _quoted(routing_key)
    if not arguments:
        return quoted or "~"
    octets = encoded(sorted(plain_table(dict(arguments)).items()))
    hashed = zlib.crc32(octets).to_bytes(_HASH_BYTES, "big")
    return f"{quoted}~{base64.urlsafe_b64encode(hashed).rstrip(b'=').decode()}"


def key_from_path(name: str) -> str:
    """A properties key as a path has it, which may have quoted it once more."""
    key, tilde, hashed = name.partition("~")
    return _quoted(unquote_plus(key, errors="surrogateescape")) + tilde + hashed


def _quoted(key: str) -> str:
    """As a form is encoded: a space is '+', and a '~' is quoted too, for it ends the key."""
    return quote_plus(key, safe="-_.", errors="surrogateescape").replace("~", "%7E")
