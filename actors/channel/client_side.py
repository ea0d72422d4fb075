"""A channel's way to its client, by the writer of its connection."""

from __future__ import annotations

from ...amqp_frames.methods import Method, encode_method
from ..messages import Ref
from ..runtime.runtime import tell


class ClientSide:
    """Sends methods and frames on the channel `number`."""

    def __init__(self, number: int, writer: Ref) -> None:
        self._number = number
        self._writer = writer

    def write(self, method: Method) -> None:
        """Send a method."""
        tell(self._writer, encode_method(self._number, method))

    def write_frames(self, frames: object) -> None:
        """Send frames: bytes, or WriteDeliveries."""
        tell(self._writer, frames)

    def answer(self, method: Method, answer: Method) -> None:
        """Send the answer to `method`, if its client asked for one."""
        if not getattr(method, "no_wait", False):
            self.write(answer)
