"""The touches and requeues of the publishes that a channel routes in one go.

A command acts on the channel's deliveries in the order of its publish: a message that is given back
cannot be touched behind that. The queues are told when all publishes of the read are routed, each
once for all its touches and once for all requeues with one delay.

In tx mode a requeue waits for the commit, as other acknowledgements do. A touch acts at once, and a
rollback does not undo it, because it is about time.
"""

from __future__ import annotations

from typing import NamedTuple

from ..publishing.delivery_commands import DeliveryCommand
from .outstanding import Outstanding
from .transaction import Part


class CommandEffects(NamedTuple):
    """The parts of deliveries whose time begins anew, and those that come back."""

    touched: list[Part]
    # By delay in milliseconds.
    returned: dict[int, list[Part]]


class DeliveryCommands:
    """Carries out commands about the deliveries in `outstanding`, and collects what they touch."""

    __slots__ = ("_outstanding", "_returned", "_touched", "is_empty")

    def __init__(self, outstanding: Outstanding) -> None:
        self._outstanding = outstanding
        self._begin()

    def _begin(self) -> None:
        self.is_empty = True
        self._touched: list[Part] = []
        self._returned: dict[int, list[Part]] = {}

    def carry_out(self, command: DeliveryCommand) -> None:
        """Carry the command out; SoftError 406 for a tag that is not held.

        A delivery whose time-out has passed is not touched, which is no error: its client learns of
        it when the message comes again.
        """
        if command.is_touch:
            part = self._outstanding.find(command.delivery_tag)
            if part is not None:
                self.is_empty = False
                _append(self._touched, part)
            return
        parts = self._outstanding.remove(command.delivery_tag)
        self.is_empty = False
        collected = self._returned.setdefault(command.delay_ms, [])
        for part in parts:
            _append(collected, part)

    def drain(self) -> CommandEffects:
        """Return the parts since the last call, and forget them."""
        commands = CommandEffects(self._touched, self._returned)
        self._begin()
        return commands


def _append(parts: list[Part], part: Part) -> None:
    """Add a part; neighbours become one, as consumers work through their deliveries in order."""
    if parts:
        delivery, low, high = parts[-1]
        if delivery is part[0] and high == part[1]:
            parts[-1] = (delivery, low, part[2])
            return
    parts.append(part)
