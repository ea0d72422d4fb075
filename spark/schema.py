"""The columns: what the sink takes and what the source gives.

The names are the same, so that rows that were read can be written. Only `body` must be there.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from .errors import PlainError
from .options import OptionError, closest

_PROPERTIES: dict[str, DataType] = {
    "content_type": StringType(),
    "content_encoding": StringType(),
    "correlation_id": StringType(),
    "reply_to": StringType(),
    "type": StringType(),
    "app_id": StringType(),
    "user_id": StringType(),
    "expiration": StringType(),
    "priority": IntegerType(),
    "delivery_mode": IntegerType(),
}


def _struct(columns: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


# `_seq` counts what one source has read.
_READ_COLUMNS: dict[str, DataType] = {
    "body": BinaryType(),
    "exchange": StringType(),
    "routing_key": StringType(),
    "queue": StringType(),
    "redelivered": BooleanType(),
    "delivery_count": LongType(),
    "message_id": StringType(),
    "timestamp": TimestampType(),
    "headers": MapType(StringType(), StringType()),
    "header_types": MapType(StringType(), StringType()),
    "properties": _struct(_PROPERTIES),
    "_seq": LongType(),
}

# What only reading knows; the sink takes these columns and looks at none of them.
READ_ONLY_COLUMNS = frozenset({"queue", "redelivered", "delivery_count", "_seq", "properties"})

_TEXT = (StringType,)
_INTEGER = (ByteType, ShortType, IntegerType, LongType)
_WRITE_COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "body": (BinaryType, StringType),
    "exchange": _TEXT,
    "routing_key": _TEXT,
    "mandatory": (BooleanType,),
    "message_id": _TEXT,
    "headers": (MapType, ArrayType),
    "header_types": (MapType,),
    "content_type": _TEXT,
    "content_encoding": _TEXT,
    "correlation_id": _TEXT,
    "reply_to": _TEXT,
    "type": _TEXT,
    "app_id": _TEXT,
    "priority": _INTEGER,
    "delivery_mode": _INTEGER,
    "expiration_ms": _INTEGER,
    "timestamp": (TimestampType,),
}


class SchemaError(PlainError, ValueError):
    """Columns that cannot be written; one line for people."""


def read_schema() -> StructType:
    """Return the columns that reading gives, in their order."""
    return _struct(_READ_COLUMNS)


def check_read_schema(schema: StructType) -> None:
    """Raise if a user's `.schema()` differs from the schema of reading."""
    expected = {field.name: field.dataType for field in read_schema()}
    given = {field.name: field.dataType for field in schema}
    if list(given.items()) != list(expected.items()):
        names = [*given, *expected]
        wrong = next(name for name in names if given.get(name) != expected.get(name))
        kind = expected[wrong].simpleString() if wrong in expected else "not there"
        raise SchemaError(
            f'what is read has its own columns, and "{wrong}" is {kind}: leave out schema(), '
            "and select and cast what was read"
        )


def check_write_schema(schema: StructType, has_routing_key: bool, ignore_unknown: bool) -> None:
    """Raise if these columns cannot be written; in the planner, before any task.

    `has_routing_key`: an option gives it for all rows.
    """
    columns = {field.name: field.dataType for field in schema.fields}
    if "body" not in columns:
        raise SchemaError(f'there is no column "body" to write; there are: {_listed(columns)}')
    for name, kind in columns.items():
        if name not in _WRITE_COLUMNS:
            if name not in READ_ONLY_COLUMNS and not ignore_unknown:
                known = [*_WRITE_COLUMNS, *sorted(READ_ONLY_COLUMNS)]
                raise SchemaError(
                    f'unknown column "{name}"{closest(name, known)}; '
                    "the option ignoreUnknownColumns=true writes the rest"
                )
        elif not isinstance(kind, _WRITE_COLUMNS[name]):
            raise SchemaError(
                f'column "{name}" is {kind.simpleString()}, not {_kinds(_WRITE_COLUMNS[name])}'
            )
    if "headers" in columns:
        _check_headers(columns["headers"])
    if "header_types" in columns:
        _check_header_types(columns)
    # Without an exchange it is the default one, whose routing keys are the names of queues.
    if not has_routing_key and "routing_key" not in columns:
        raise OptionError(
            'there is neither an option "routingKey" nor a column "routing_key": without an '
            "exchange it is the name of the queue, and for a fanout exchange an empty one will do"
        )


def _check_headers(kind: DataType) -> None:
    if isinstance(kind, MapType):
        fine = isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    else:
        element = kind.elementType
        fine = (
            isinstance(element, StructType)
            and element.names == ["key", "value"]
            and isinstance(element["key"].dataType, StringType)
            and isinstance(element["value"].dataType, BinaryType)
        )
    if not fine:
        raise SchemaError(
            f'column "headers" is {kind.simpleString()}, not map<string,string> '
            "or array<struct<key:string,value:binary>>"
        )


def _check_header_types(columns: dict[str, DataType]) -> None:
    kind = columns["header_types"]
    assert isinstance(kind, MapType)
    if not (isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)):
        raise SchemaError(f'column "header_types" is {kind.simpleString()}, not map<string,string>')
    if not isinstance(columns.get("headers"), MapType):
        raise SchemaError(
            'column "header_types" says of what types the texts in "headers" are, which must be '
            "map<string,string>"
        )


def _kinds(kinds: tuple[type[DataType], ...]) -> str:
    return " or ".join(dict.fromkeys(kind.typeName() for kind in kinds))


def _listed(columns: dict[str, DataType]) -> str:
    return ", ".join(columns) or "none"
