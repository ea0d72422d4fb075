"""Values as RabbitMQ's error texts print them: Erlang terms.

Clients and their tests look for these words, so "{value_negative,-1}" it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..amqp_frames.values.field_table import FieldValue, Table

_ESCAPES: Final = str.maketrans(
    {
        "\b": r"\b",
        "\t": r"\t",
        "\n": r"\n",
        "\v": r"\v",
        "\f": r"\f",
        "\r": r"\r",
        "\x1b": r"\e",
        '"': r"\"",
        "\\": r"\\",
    }
)
# As io_lib:printable_latin1_list has it.
_PRINTABLE: Final = frozenset(b"\b\t\n\v\f\r\x1b") | {*range(32, 127), *range(160, 256)}


def erlang_term(value: FieldValue) -> str:
    """Erlang's ~p for a field's value, as RabbitMQ holds it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | bytes):
        return _binary_term(value)
    if isinstance(value, tuple):
        return "{" + ",".join(map(str, value)) + "}"
    if isinstance(value, dict):
        return "[" + ",".join(_named_term(value)) + "]"
    if isinstance(value, list):
        return "[" + ",".join(f"{{{kind},{erlang_term(item)}}}" for kind, item in value) + "]"
    return "undefined" if value is None else str(value)


def _binary_term(value: str | bytes) -> str:
    """Octets that are all printable in Latin-1 as text, others as numbers."""
    octets = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    if not octets:
        return "<<>>"
    if all(octet in _PRINTABLE for octet in octets):
        return f'<<"{as_text(value).translate(_ESCAPES)}">>'
    return f"<<{','.join(map(str, octets))}>>"


def _named_term(table: Table) -> list[str]:
    return [
        f"{{{_binary_term(name)},{kind},{erlang_term(value)}}}"
        for name, (kind, value) in table.items()
    ]


def erlang_plain(value: FieldValue) -> str:
    """The same, but text stands bare, as in Erlang's ~s."""
    return as_text(value) if isinstance(value, str | bytes) else erlang_term(value)


def as_text(value: str | bytes) -> str:
    """Text that is not UTF-8 has surrogate escapes, which AmqpError shows as "?"."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def json_term(value: Any) -> str:
    """The same for a value that came as JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool | str):
        return erlang_term(value)
    if isinstance(value, Mapping):
        pairs = (f"{json_term(key)} => {json_term(each)}" for key, each in value.items())
        return f"#{{{','.join(pairs)}}}"
    if isinstance(value, int | float):
        return str(value)
    return f"[{','.join(map(json_term, value))}]"
