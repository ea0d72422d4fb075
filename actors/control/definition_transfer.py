"""A definitions file on its way over the control socket, in parts, because a line is bounded.

To the broker, where the last request carries out all parts together:

    definitions part    {"text": "..."}                         null
    definitions import  {"vhost": "shop"}                       null

From the broker, where the client asks for each part, so that no more than one is in memory:

    definitions export  {"vhost": "shop", "for_rabbitmq": true} {"users_without_hash": ["ann"]}
    definitions next    {}                                      "...", and null after the last part

The vhost may be missing in both. Each connection has a transfer of its own, which ends with it.
The broker actor carries an import out (`actors/topology/broker.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ...core.definition_files.writing import DefinitionsWriter
from ..node_context import NodeContext
from .arguments import Arguments, optional_text, text_argument

# Characters of an exported part, which the last item of a part may exceed. To encode as many takes
# less than a millisecond, in which the event loop has no other work.
PART_CHARACTERS: Final = 48 * 1024


class DefinitionSettings(NamedTuple):
    """The limit of a file, and what an exported one says of its broker."""

    bytes_max: int
    # RabbitMQ's, which readers of a file decide by.
    server_version: str
    product: str
    version: str


class DefinitionTransfer:
    """The import and the export of one connection."""

    def __init__(self, context: NodeContext, settings: DefinitionSettings) -> None:
        self._context = context
        self._settings = settings
        self._gathered: list[str] = []
        self._gathered_bytes = 0
        self._pieces: Iterator[str] = iter(())

    def add_part(self, arguments: Arguments) -> None:
        """Keep a part of a file; ValueError if the file has too many bytes, then and from then on.

        No part is kept then, so that a later import cannot carry out some of a file.
        """
        text = text_argument(arguments, "text")
        self._gathered_bytes += len(text.encode("utf-8", "surrogatepass"))
        if self._gathered_bytes > self._settings.bytes_max:
            self._gathered.clear()
            bytes_max = self._settings.bytes_max
            raise ValueError(f"it has more than {bytes_max} bytes (definitions_bytes_max)")
        self._gathered.append(text)

    def gathered(self) -> str:
        """All parts together; the next part begins another file."""
        text = "".join(self._gathered)
        self._gathered.clear()
        self._gathered_bytes = 0
        return text

    def start_export(self, arguments: Arguments) -> dict[str, object]:
        """Begin a file, in place of an unfinished one."""
        vhost = optional_text(arguments, "vhost")
        for_rabbitmq = arguments.get("for_rabbitmq", False)
        if not isinstance(for_rabbitmq, bool):
            raise ValueError("'for_rabbitmq' must be true or false")
        if vhost is not None and self._context.vhosts.find(vhost) is None:
            raise ValueError(f"there is no vhost '{vhost}'")
        context = self._context
        writer = DefinitionsWriter(
            context.accounts, context.vhosts, vhost=vhost, for_rabbitmq=for_rabbitmq
        )
        self._pieces = self._written(writer)
        return {"users_without_hash": writer.users_without_hash() if vhost is None else []}

    def next_part(self, _arguments: Arguments) -> str | None:
        """The next part of the file; None after the last."""
        part: list[str] = []
        characters = 0
        for piece in self._pieces:
            part.append(piece)
            characters += len(piece)
            if characters >= PART_CHARACTERS:
                break
        return "".join(part) or None

    def _written(self, writer: DefinitionsWriter) -> Iterator[str]:
        """The file, with each item on a line of its own, in pieces that have at most one item."""
        _, server_version, product, version = self._settings
        yield json.dumps(writer.head(server_version, product, version))[:-1]
        for section in writer.sections:
            yield f',\n"{section}":['
            separator = "\n"
            for row in writer.rows(section):
                yield separator + json.dumps(row)
                separator = ",\n"
            yield "]"
        yield "}\n"


TRANSFER_REQUESTS: Final[dict[str, Callable[[DefinitionTransfer, Arguments], object]]] = {
    "definitions part": DefinitionTransfer.add_part,
    "definitions export": DefinitionTransfer.start_export,
    "definitions next": DefinitionTransfer.next_part,
}
