"""Reads a definitions file: RabbitMQ's JSON, as its versions from 3.10 to 4.x export it.

    {"rabbit_version": "3.13.7",
     "users": [...], "vhosts": [...], "permissions": [...], "topic_permissions": [...],
     "parameters": [...], "global_parameters": [...], "policies": [...],
     "queues": [...], "exchanges": [...], "bindings": [...]}

Each list is a section of items. All sections may be missing; other fields, such as the name of the
cluster, are passed over. A file of one vhost has no vhosts and users in it, and its items need not
name a vhost.

`read_document` reads one item after the other and yields between them, because a file may have
megabytes and its reader other work. What each item must be is checked by planning.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from ..json_depth import check_depth

SECTIONS: Final = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "global_parameters",
    "parameters",
    "policies",
    "exchanges",
    "queues",
    "bindings",
)
# The fields that name an item to a person, in this order.
_NAMING: Final = ("name", "user", "exchange", "source", "destination", "vhost")

Item = Mapping[str, Any]


class DocumentError(Exception):
    """The file cannot be carried out; says which item is wrong, and why."""


@dataclass(slots=True)
class Document:
    """A file as it was read: its items by section, each a JSON object."""

    # Of the RabbitMQ that wrote it; empty if the file does not say.
    version: str = ""
    sections: dict[str, list[Item]] = field(
        default_factory=lambda: {section: [] for section in SECTIONS}
    )


def item_name(section: str, number: int, item: Item) -> str:
    """How a person finds an item: its section, its number from 0, and its names."""
    names = [f"{key} '{item[key]}'" for key in _NAMING if isinstance(item.get(key), str)]
    return f"{section}[{number}] ({', '.join(names)})" if names else f"{section}[{number}]"


def read_document(text: str) -> Iterator[Document]:
    """Read the file; yields the document after each item, and complete at last; DocumentError."""
    document = Document()
    try:
        yield from _read(text, document)
    except json.JSONDecodeError as fault:
        raise DocumentError(
            f"not JSON: {fault.msg}: line {fault.lineno} column {fault.colno}"
        ) from None
    except ValueError as fault:
        # A constant, a number with thousands of digits, or nested too deeply.
        raise DocumentError(f"not JSON: {fault}") from None
    except RecursionError:
        raise DocumentError("not JSON: nested too deeply") from None


def _read(text: str, document: Document) -> Iterator[Document]:
    cursor = _Cursor(text)
    cursor.begin("{", "a definitions file is a JSON object")
    while not cursor.skip("}"):
        name = cursor.value()
        if not isinstance(name, str):
            raise cursor.fault("expecting the name of a section")
        cursor.expect(":", "expecting ':'")
        items = document.sections.get(name)
        if items is None:
            value = cursor.value()
            if name in ("rabbitmq_version", "rabbit_version") and isinstance(value, str):
                document.version = value
        else:
            cursor.begin("[", f"{name} must be a list")
            while not cursor.skip("]"):
                item = cursor.value()
                if not isinstance(item, dict):
                    raise DocumentError(f"{name}[{len(items)}] must be an object")
                items.append(item)
                yield document
                cursor.separator("]")
        cursor.separator("}")
    cursor.end()
    yield document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} does not fit 64 bits")
    return number


class _Cursor:
    """A place in the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
        self._blank()

    def fault(self, words: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(words, self._text, self._at)

    def value(self) -> Any:
        value, self._at = self._decoder.raw_decode(self._text, self._at)
        check_depth(value)
        self._blank()
        return value

    def skip(self, mark: str) -> bool:
        """Is this mark next? Then go on behind it."""
        if not self._text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        self._blank()
        return True

    def expect(self, mark: str, words: str) -> None:
        if not self.skip(mark):
            raise self.fault(words)

    def begin(self, mark: str, words: str) -> None:
        """DocumentError if another value is there, and is right JSON."""
        if not self.skip(mark):
            self.value()
            raise DocumentError(words)

    def separator(self, closing: str) -> None:
        """A comma and something behind it, or the mark that closes the list."""
        if self._text.startswith(closing, self._at):
            return
        self.expect(",", f"expecting ',' or '{closing}'")
        if self._text.startswith(closing, self._at):
            raise self.fault("expecting a value behind ','")

    def end(self) -> None:
        if self._at != len(self._text):
            raise self.fault("expecting the end of the file")

    def _blank(self) -> None:
        text, at = self._text, self._at
        while text[at : at + 1] in _BLANKS and at < len(text):
            at += 1
        self._at = at


_BLANKS: Final = (" ", "\t", "\n", "\r")
