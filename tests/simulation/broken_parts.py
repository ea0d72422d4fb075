"""Parts of the product with a fault each, which the simulation must find."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kit import Kit
from leveret.amqp_frames.values.field_table import Table
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.connection.reading_time import ReadingTime
from leveret.core.queue.construction import PART_MAKERS, PartMakers
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.deferral import Deferral
from leveret.core.queue.in_flight import Delivery, InFlight
from leveret.core.queue.in_flight_timeouts import InFlightTimeouts
from leveret.core.queue.parts import Part
from leveret.core.queue.span import Span
from leveret.storage.journal.journal import Journal


def made_as(name: str, make: Callable[[Table], Part | None]) -> PartMakers:
    """The makers of all parts, this one for the part that the argument asks for."""
    others = tuple((names, maker) for names, maker in PART_MAKERS if name not in names)
    return (*others, (frozenset({name}), make))


def number_in(arguments: Table, name: str) -> int:
    value = arguments[name].value
    assert isinstance(value, int)
    return value


def timeouts_of(kind: type[InFlightTimeouts]) -> PartMakers:
    """With in-flight time-outs of this kind."""
    name = "x-in-flight-timeout"
    return made_as(name, lambda arguments: kind(number_in(arguments, name)))


def deferral_of(kind: type[Deferral]) -> PartMakers:
    """With deferral of this kind, as the arguments want it."""
    name = "x-requeue-delay"

    def make(arguments: Table) -> Deferral:
        delay_max = "x-requeue-delay-max"
        if delay_max in arguments:
            return kind(number_in(arguments, name), number_in(arguments, delay_max))
        return kind(number_in(arguments, name))

    return made_as(name, make)


class ForgettingJournal:
    """Attempt forgotten: a delivery of several messages is written as one of the first."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.append = journal.append
        self.settle = journal.settle
        self.deferred = journal.deferred
        self.begin_commit = journal.begin_commit
        self.close = journal.close

    def delivered(self, queue_id: int, ranges: Sequence[tuple[int, int]]) -> None:
        self._journal.delivered(queue_id, [(first, first) for first, _ in ranges])


class HastyTimeouts(InFlightTimeouts):
    """Due too early: a deadline goes on while its connection is not read."""

    def note(
        self, channel: object, delivery: Delivery, reading: ReadingTime, uptime_ms: int
    ) -> None:
        super().note(channel, delivery, ReadingTime(), uptime_ms)


class HastyDeferral(Deferral):
    """Due too early: messages that are due soon are ready with the first of them."""

    def due(self, uptime_ms: int) -> list[Span]:
        return super().due(uptime_ms + 25)


class LosingTimeouts(InFlightTimeouts):
    """Timer lost: of deliveries that are due together, only the first comes back."""

    def due(self, uptime_ms: int, count_max: int) -> list[tuple[object, Delivery, int, int]]:
        return super().due(uptime_ms, count_max)[:1]


class LosingDeferral(Deferral):
    """Timer lost: only the first row that is due becomes ready."""

    def due(self, uptime_ms: int) -> list[Span]:
        rows = super().due(uptime_ms)
        for row in rows[1:]:
            self.add(row, uptime_ms + 3_600_000)
        return rows[:1]


class CredulousInFlight(InFlight):
    """Double return: whoever gives back what it has held is believed once more."""

    def held_of(
        self, channel: object, delivery: Delivery, low: int, high: int
    ) -> list[tuple[int, int]]:
        return [(low, high)] if len(delivery.span) >= high else []

    def remove(self, channel: object, delivery: Delivery, low: int, high: int) -> bool:
        return super().remove(channel, delivery, low, high) or len(delivery.span) >= high


class LeakingConsumer(Consumer):
    """Credit leaked: of several messages answered together, one keeps its credit."""

    def get_back(self, count: int) -> None:
        super().get_back(count - (count > 1))


class LeakingCredit(ChannelCredit):
    """Credit leaked, of a channel."""

    def release(self, count: int) -> Sequence[object]:
        return super().release(count - (count > 1))


BROKEN = {
    "attempt forgotten": Kit(journal=ForgettingJournal),  # type: ignore[arg-type]
    "due too early": Kit(part_makers=timeouts_of(HastyTimeouts)),
    "deferred message due too early": Kit(part_makers=deferral_of(HastyDeferral)),
    "timer lost": Kit(part_makers=timeouts_of(LosingTimeouts)),
    "timer of deferred messages lost": Kit(part_makers=deferral_of(LosingDeferral)),
    "double return": Kit(in_flight=CredulousInFlight),
    "credit leaked": Kit(consumer=LeakingConsumer),
    "credit of a channel leaked": Kit(credit=LeakingCredit),
}
