"""Out of memory is the end of the node, wherever it comes up.

Nothing can be relied on once an allocation has failed: a message may be in half of an actor's
structures, a wake-up lost, a lock never released. A broker that goes on is a zombie: it fails each
connection, fills its log, and hears no signal. So a MemoryError is as final as a failed sync, and
goes the same way, through the node's `on_fatal`: from an actor's turn, from a callback of the event
loop, from any thread. It is not logged on that way, because that takes memory.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any, Final

OnFatal = Callable[[str, BaseException], None]

REASON: Final = "out of memory"


def is_out_of_memory(error: object) -> bool:
    """Whether the error says that the interpreter, or the kernel, has no memory left."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno == errno.ENOMEM
    )


def watch_event_loop(loop: asyncio.AbstractEventLoop, on_fatal: OnFatal) -> None:
    """Have `on_fatal` called for an error in a callback of the loop, or in a transport of it.

    The event loop would log such an error and go on; and where waking it is what fails, for ever.
    """

    def failed(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException) and is_out_of_memory(error):
            on_fatal("event loop", error)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(failed)
