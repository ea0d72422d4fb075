"""The product's parts that a simulation is built of; a broken variant takes the place of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from leveret.core.channel.outstanding import Outstanding
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import PART_MAKERS, PartMakers
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import InFlight
from leveret.core.queue.rules import MessageQueue
from leveret.storage.journal.journal import Journal


def unchanged(journal: Journal) -> Journal:
    return journal


@dataclass(frozen=True)
class Kit:
    """By default all of it is the product's own."""

    queue: type[MessageQueue] = MessageQueue
    part_makers: PartMakers = PART_MAKERS
    in_flight: type[InFlight] = InFlight
    consumer: type[Consumer] = Consumer
    credit: type[ChannelCredit] = ChannelCredit
    outstanding: type[Outstanding] = Outstanding
    journal: Callable[[Journal], Journal] = unchanged
