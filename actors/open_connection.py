"""What is known of an open connection by all, for reports and for who must close it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.access import Access
from ..core.handshake import Handshake
from ..core.peer import Peer
from .messages import Ref


@dataclass(slots=True, eq=False)
class OpenConnection:
    """From its vhost's opening to its socket's end. `channels` is its reader's own dictionary.

    A channel whose close has not been answered is None.
    """

    peer: Peer
    handshake: Handshake
    access: Access
    channels: Mapping[int, Ref | None]
    opened_seconds: float = field(default_factory=time.time)
