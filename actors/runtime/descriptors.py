"""File descriptors are for files first: a socket with one of the last is not kept.

Every client that connects takes one before it logs in. The journal needs one for every new segment,
and a journal that cannot begin it ends the node, so clients must not be able to take them all.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Final

REFUSAL: Final = "too few file descriptors"


def is_one_of_the_last(descriptor: int, kept: int) -> bool:
    """Would fewer than `kept`, or than half of what the process may have, be left behind it?

    The kernel gives out the lowest number that is free.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return False
    return descriptor >= allowed - min(kept, allowed // 2)


def has_one_of_the_last(transport: asyncio.BaseTransport, kept: int) -> bool:
    """The same of a connection's socket."""
    connection = transport.get_extra_info("socket")
    return connection is not None and is_one_of_the_last(connection.fileno(), kept)
