"""The setting `definitions_file`: a definitions file that is carried out at every start.

Before anybody can connect: an error keeps the broker from its start. What an earlier start has
carried out is there already, so that only changes of the file, or of what it names, have an effect.
"""

from __future__ import annotations

import asyncio

from .actors.messages import ControlAnswer, ImportRequest
from .actors.node_context import NodeContext
from .errors import StartError
from .management.asking import GoneError, ask


async def import_at_start(context: NodeContext, path: str, bytes_max: int) -> None:
    """Have the broker actor carry the file out; StartError if it cannot be."""
    text = await asyncio.to_thread(read_definitions, path, bytes_max)
    try:
        answer = await ask(
            context.runtime, context.broker, lambda me: ImportRequest(me, None, text)
        )
    except GoneError:
        raise StartError(f"definitions_file {path}: the broker has failed") from None
    assert isinstance(answer, ControlAnswer)
    if answer.error:
        raise StartError(f"definitions_file {path}: {answer.error}; nothing of it is carried out")


def read_definitions(path: str, bytes_max: int) -> str:
    """The text of a definitions file; StartError if it cannot be read, or is too large."""
    try:
        with open(path, "rb") as file:
            octets = file.read(bytes_max + 1)
        text = octets.decode()
    except OSError as fault:
        raise StartError(f"cannot read definitions file {path}: {fault.strerror}") from None
    except UnicodeDecodeError:
        raise StartError(f"definitions file {path} is not UTF-8") from None
    if len(octets) > bytes_max:
        raise StartError(
            f"definitions file {path} has more than {bytes_max} bytes (definitions_bytes_max)"
        )
    return text
