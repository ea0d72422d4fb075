"""What one connection has begun to publish and not finished, over all its channels.

A body may be as large as the largest message, and each of a connection's channels may have one
under way: nothing of them is in any window yet, for a window closes when the reader has handed over
what it has read, and to stop reading would be to wait for an end that cannot come.
"""

from __future__ import annotations

from typing import Final

from .constants import RESOURCE_ERROR
from .errors import HardError
from .methods import BasicPublish

_IDS: Final = (BasicPublish.class_id, BasicPublish.method_id)


class UnfinishedPublishes:
    """Counts their wire bytes; `message_size_max_bytes` limits the body of each.

    One alone is never refused for being larger than `bytes_max`, which is no less than the largest
    message: its frames take up more than its body, the more the smaller they are.
    """

    __slots__ = ("_bytes_max", "message_size_max_bytes", "used_bytes")

    def __init__(self, message_size_max_bytes: int, bytes_max: int) -> None:
        self.message_size_max_bytes = message_size_max_bytes
        self._bytes_max = bytes_max
        self.used_bytes = 0

    def take(self, byte_count: int, held_bytes: int) -> None:
        """One has so many bytes more, `held_bytes` with these; 506 if that is too much.

        An error of the connection, not of the channel: the protocol knows 506 as nothing else, the
        memory is the connection's, and whose frame was the last says nothing of whose are many.
        RabbitMQ, which collects without a limit, has no words for it.
        """
        self.used_bytes += byte_count
        if self.used_bytes > self._bytes_max and self.used_bytes > held_bytes:
            text = (
                "unfinished publishes of the connection are larger than "
                f"configured max size {self._bytes_max}"
            )
            raise HardError(RESOURCE_ERROR, text, *_IDS)

    def give_back(self, byte_count: int) -> None:
        """So many are part of a whole message now, or dropped."""
        self.used_bytes -= byte_count
        assert self.used_bytes >= 0
