"""The states in which a channel holds back its client's next message, with their transitions.

A channel handles its client's messages one after the other. While an answer is awaited, a
basic.get waits for the socket, publishes are routed in steps or a commit is carried out, the
channel holds back all that its client sends. The state says which of these it is; the methods of
`Waiting` are the only transitions, and `_TRANSITIONS` lists them all. Any other transition is a
mistake of ours: it ends the channel's actor, which gives back all that it holds.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ...amqp_frames.methods import Method
from ..transitions import Transitions


class State(Enum):
    """The event that the channel waits for."""

    # For nothing: it handles the next message.
    FREE = "free"
    # The broker or a queue has been asked on behalf of a command.
    ANSWER = "answer"
    # A basic.get is answered, and the socket has not taken enough for another.
    OUTLET = "outlet"
    # Publishes are routed in several turns.
    ROUTING = "routing"
    # A commit is told to the queues, and not all of them have confirmed.
    COMMIT = "commit"
    # A part of the commit is routed in several turns.
    COMMIT_ROUTING = "commit routing"
    # The channel has ended, or ends for a mistake: it drops all further input.
    ENDED = "ended"


_TRANSITIONS: Final = Transitions(
    "the channel is in state",
    {
        ("ask", State.FREE): State.ANSWER,
        # The broker's answer to a declare leads to a question to the queue.
        ("ask", State.ANSWER): State.ANSWER,
        ("answered", State.ANSWER): State.FREE,
        ("wait_for_outlet", State.ANSWER): State.OUTLET,
        ("outlet_opened", State.OUTLET): State.FREE,
        ("route_in_steps", State.FREE): State.ROUTING,
        ("route_in_steps", State.COMMIT): State.COMMIT_ROUTING,
        ("routed", State.ROUTING): State.FREE,
        ("routed", State.COMMIT_ROUTING): State.COMMIT,
        ("commit", State.FREE): State.COMMIT,
        ("committed", State.COMMIT): State.FREE,
    },
)


class Waiting:
    """A channel's `state`, and the command `method` whose answer it awaits in State.ANSWER.

    `end` leads from every state to State.ENDED.
    """

    __slots__ = ("method", "state")

    def __init__(self) -> None:
        self.state = State.FREE
        self.method: Method | None = None

    def is_routing(self) -> bool:
        """Are publishes routed in several turns?"""
        return self.state is State.ROUTING or self.state is State.COMMIT_ROUTING

    def ask(self, method: Method) -> None:
        """An actor has been asked, and its answer is the answer to `method`."""
        self._go("ask")
        self.method = method

    def answered(self) -> None:
        """The command is answered."""
        self._go("answered")
        self.method = None

    def wait_for_outlet(self) -> None:
        """The basic.get is answered; but the next must wait until the socket has taken more."""
        self._go("wait_for_outlet")
        self.method = None

    def outlet_opened(self) -> None:
        """The socket has taken enough."""
        self._go("outlet_opened")

    def route_in_steps(self) -> None:
        """Routing a batch takes more than this turn."""
        self._go("route_in_steps")

    def routed(self) -> None:
        """The batch is routed."""
        self._go("routed")

    def commit(self) -> None:
        """A tx.commit begins."""
        self._go("commit")

    def committed(self) -> None:
        """The commit is done, well or not."""
        self._go("committed")

    def end(self) -> None:
        """The channel has ended; from here on it stays so."""
        self.state = State.ENDED
        self.method = None

    def _go(self, event: str) -> None:
        self.state = _TRANSITIONS[event, self.state]
