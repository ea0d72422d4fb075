"""Actors of a simulation on one thread, the order of whose turns is drawn, and their clocks.

An actor is anything with `receive` and `on_idle`. Messages of one sender to one actor keep their
order, as in the broker; whose turn is next is drawn. Two clocks: `uptime_ms` only goes forward,
`wall_ms` goes with it, and is also set.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from random import Random
from typing import Final, Protocol

# More turns than this without a change of the clock, and they never end.
TURNS_MAX: Final = 20_000
# What an actor is woken with.
WOKEN: Final = "woken"


class Actor(Protocol):
    """What the loop needs of an actor. `is_stopped`: it gets no turn, and its messages wait."""

    is_stopped: bool

    def receive(self, message: object) -> None:
        """Handle one message."""

    def on_idle(self) -> None:
        """No message is left."""


class EventLoop:
    """The mailboxes and clocks of one life of a broker, and of its clients."""

    def __init__(self, random: Random, uptime_ms: int, wall_ms: int) -> None:
        self._random = random
        self.uptime_ms = uptime_ms
        self.wall_ms = wall_ms
        self._inboxes: dict[Actor, deque[object]] = {}
        self._runnable: list[Actor] = []
        self._wakes: list[tuple[int, int, Actor]] = []
        self._order = count()

    def tell(self, actor: Actor, message: object) -> None:
        """Put a message into the actor's mailbox."""
        inbox = self._inboxes.get(actor)
        if inbox is None:
            inbox = self._inboxes[actor] = deque()
        if not inbox and not actor.is_stopped:
            self._runnable.append(actor)
        inbox.append(message)

    def stop(self, actor: Actor) -> None:
        """Give the actor no turns for now."""
        actor.is_stopped = True
        if actor in self._runnable:
            self._runnable.remove(actor)

    def go_on(self, actor: Actor) -> None:
        """Give the actor turns again."""
        actor.is_stopped = False
        if self._inboxes.get(actor) and actor not in self._runnable:
            self._runnable.append(actor)

    def gather(self, actor: Actor) -> list[object]:
        """The rest of the actor's messages, which it handles together."""
        inbox = self._inboxes.get(actor, ())
        messages = list(inbox)
        if inbox:
            inbox.clear()
        return messages

    @property
    def is_idle(self) -> bool:
        """Has every actor that gets turns handled all that it was told?"""
        return not self._runnable

    def turn(self) -> None:
        """One actor, drawn, handles one message."""
        runnable = self._runnable
        place = int(self._random.random() * len(runnable))
        actor = runnable[place]
        inbox = self._inboxes[actor]
        actor.receive(inbox.popleft())
        if not inbox:
            # Its place may have changed: handling may stop an actor.
            if actor in runnable:
                runnable.remove(actor)
            actor.on_idle()

    def run(self) -> bool:
        """Turns until nothing is left to do without a change of the clock; false if for ever."""
        for _ in range(TURNS_MAX):
            if not self._runnable:
                return True
            self.turn()
        return False

    def wake_at(self, when_ms: int, actor: Actor) -> None:
        """Have the actor woken when `uptime_ms` has come to this."""
        heapq.heappush(self._wakes, (when_ms, next(self._order), actor))
        self._ring()

    def advance(self, milliseconds: int) -> None:
        """Let time pass, in one jump, and wake those whose time has come."""
        self.uptime_ms += milliseconds
        self.wall_ms += milliseconds
        self._ring()

    def next_wake_ms(self) -> int | None:
        """When the next actor is to be woken; None if nobody waits for it."""
        return self._wakes[0][0] if self._wakes else None

    def _ring(self) -> None:
        while self._wakes and self._wakes[0][0] <= self.uptime_ms:
            self.tell(heapq.heappop(self._wakes)[2], WOKEN)
