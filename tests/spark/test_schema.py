from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from leveret.spark.options import OptionError
from leveret.spark.schema import SchemaError, check_write_schema, read_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TEXT = StringType()
TYPES: dict[str, DataType] = {
    "array<string>": ArrayType(TEXT),
    "array<struct<key:string,value:binary>>": ArrayType(
        StructType([StructField("key", TEXT), StructField("value", BinaryType())])
    ),
    "bigint": LongType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "map<string,int>": MapType(TEXT, IntegerType()),
    "map<string,string>": MapType(TEXT, TEXT),
    "string": TEXT,
    "timestamp": TimestampType(),
    "tinyint": ByteType(),
}


def struct(columns: str) -> StructType:
    """Spark parses such a text in its JVM, which these tests do without."""
    pairs = (column.split(" ") for column in columns.split(", "))
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


def refusal(schema: StructType, key: bool = True, ignore: bool = False) -> str | None:
    """Why these columns cannot be written; None if they can."""
    try:
        check_write_schema(schema, key, ignore)
    except (SchemaError, OptionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize(
    "columns",
    [
        "body binary",
        "body string",
        "routing_key string, body binary, exchange string, mandatory boolean",
        "body binary, priority tinyint, delivery_mode int, expiration_ms bigint",
        "body binary, headers map<string,string>, timestamp timestamp",
        "body binary, headers array<struct<key:string,value:binary>>",
        "body binary, headers map<string,string>, header_types map<string,string>",
    ],
)
def test_columns_may_be_any_of_those_that_are_known(columns: str) -> None:
    assert refusal(struct(columns)) is None


def test_rows_that_were_read_can_be_written() -> None:
    assert refusal(read_schema(), key=False) is None


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("value binary", 'there is no column "body" to write; there are: value'),
        ("body int", 'column "body" is int, not binary or string'),
        ("body binary, routingkey string", 'unknown column "routingkey" (did you mean routing_key'),
        ("body binary, zzz int", 'unknown column "zzz"; the option ignoreUnknownColumns=true'),
        ("body binary, priority string", 'column "priority" is string, not'),
        ("body binary, headers map<string,int>", 'column "headers" is map<string,int>, not map'),
        ("body binary, headers array<string>", 'column "headers" is array<string>, not map'),
        ("body binary, timestamp bigint", 'column "timestamp" is bigint, not timestamp'),
        ("body binary, header_types string", 'column "header_types" is string, not map'),
        ("body binary, header_types map<string,int>", "map<string,int>, not map<string,string>"),
        ("body binary, header_types map<string,string>", 'the texts in "headers" are, which must'),
    ],
)
def test_columns_that_cannot_be_written_are_named(columns: str, said: str) -> None:
    text = refusal(struct(columns))
    assert text is not None
    assert text.startswith("SchemaError: ")
    assert said in text


def test_unknown_columns_are_passed_over_when_asked_for() -> None:
    assert refusal(struct("body binary, zzz int")) is not None
    assert refusal(struct("body binary, zzz int"), ignore=True) is None


def test_a_routing_key_is_an_option_or_a_column_and_alone_means_the_default_exchange() -> None:
    for columns in (
        "body binary, exchange string, routing_key string",
        "body binary, routing_key string",
    ):
        assert refusal(struct(columns), key=False) is None
    assert refusal(struct("body binary")) is None
    for columns in ("body binary", "body binary, exchange string"):
        text = refusal(struct(columns), key=False)
        assert text is not None
        assert text.startswith('OptionError: there is neither an option "routingKey" nor a column')
