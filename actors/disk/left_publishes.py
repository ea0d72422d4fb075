"""Counts the publishes of channels that have ended, until the journal has written them.

A channel counts down what its queues have confirmed; once it has ended nobody does. Its bytes are
in memory all the same, and a client that opens channels, publishes and ends them, over and over,
would fill the memory in spite of every window. So the node's window keeps them until the journal
has committed all that it was told before.
"""

from __future__ import annotations

from ..messages import Absorbed, AskJournal, ChannelLeft, LeftAbsorbed
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell


class LeftPublishes(LoopActor):
    """One per node. Its turn comes after those of the queues that the ended channel has told."""

    def __init__(self, context: NodeContext) -> None:
        super().__init__()
        self._context = context

    def on_receive(self, message: object) -> None:
        """Ask the journal, or open the node's window when it has answered."""
        if isinstance(message, ChannelLeft):
            answer = LeftAbsorbed(message.unabsorbed_bytes)
            tell(self._context.journal, AskJournal(self.actor_ref, answer))
        elif isinstance(message, LeftAbsorbed):
            for reader in self._context.node_window.remove(message.absorbed_bytes):
                tell(reader, Absorbed())

    def on_failure(self, *exception: object) -> None:
        """The node's window might stay closed for ever: the node ends."""
        assert isinstance(exception[1], BaseException)
        self._context.on_fatal("left publishes", exception[1])
