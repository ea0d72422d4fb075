"""A channel's way to its client, by the writer of its connection."""

from __future__ import annotations

from ...amqp_frames.methods import Method, encode_method
from ..messages import Ref
from ..runtime.runtime import tell


class ClientSide:
    """Sends methods on the channel `number`; frames are told to the `writer` as they are."""

    def __init__(self, number: int, writer: Ref) -> None:
        self._number = number
        self.writer = writer

    def write(self, method: Method) -> None:
        """Send a method."""
        tell(self.writer, encode_method(self._number, method))

    def answer(self, method: Method, answer: Method) -> None:
        """Send the answer to `method`, if its client asked for one."""
        if not getattr(method, "no_wait", False):
            self.write(answer)
