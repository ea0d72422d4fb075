"""Values as RabbitMQ's error texts print them: Erlang terms.

Clients and their tests look for these words, so "{value_negative,-1}" it is.
"""

from __future__ import annotations

from ..amqp_frames.field_table import FieldValue, Table


def erlang_term(value: FieldValue) -> str:
    """Erlang's ~p for a field's value, as RabbitMQ holds it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | bytes):
        return f'<<"{as_text(value)}">>'
    if isinstance(value, tuple):
        return "{" + ",".join(map(str, value)) + "}"
    if isinstance(value, dict):
        return "[" + ",".join(_named_term(value)) + "]"
    if isinstance(value, list):
        return "[" + ",".join(f"{{{kind},{erlang_term(item)}}}" for kind, item in value) + "]"
    return "undefined" if value is None else str(value)


def _named_term(table: Table) -> list[str]:
    return [
        f'{{<<"{name}">>,{kind},{erlang_term(value)}}}' for name, (kind, value) in table.items()
    ]


def erlang_plain(value: FieldValue) -> str:
    """The same, but text stands bare, as in Erlang's ~s."""
    return as_text(value) if isinstance(value, str | bytes) else erlang_term(value)


def as_text(value: str | bytes) -> str:
    """Text that is not UTF-8 has surrogate escapes, which AmqpError shows as "?"."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
