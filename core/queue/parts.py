"""The places where a part may join the rules of a queue, one small interface each.

A part is a piece of one queue's behaviour that an argument asks for: a limit, a time to live, a
window for duplicates. It keeps its own state, sees columns of batches (`columns.py`) and the
queue's clock, and answers with what the rules are to do; it knows neither the rules nor another
part. `rules.py` calls the places in one fixed order. `construction.py` makes the parts that a
queue's arguments ask for. A queue without parts holds empty tuples, which cost it nothing.

A part inherits from each place that it wants to be called at:
- `Gate`: may new messages enter?
- `Tally`: counts messages that are ready or deferred, as they come and go;
- `Bound`: must messages at the head of the queue leave?
- `Judge`: may messages that come back stay?

Some parts have places of their own because a queue has at most one of each: `Deduplication`
(`dedup.py`), before every gate, `Deadlines` (`expiry.py`), at the head of the queue, `Deferral`
(`deferral.py`), before messages become ready, and `InFlightTimeouts`
(`in_flight_timeouts.py`). The order
of ready messages and the choice of consumers are parts that every queue has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Final, Protocol

from ...amqp_frames.messages.batch import Batch, Indexes
from .span import Span

# Why a message leaves its queue other than by an ack, as the `reason` of x-death.
REJECTED: Final = "rejected"
MAXLEN: Final = "maxlen"
EXPIRED: Final = "expired"
DELIVERY_LIMIT: Final = "delivery_limit"


class Contents(Protocol):
    """The messages that limits are about: the ready ones and the deferred ones."""

    @property
    def message_count(self) -> int:
        """How many they are."""

    def head(self) -> Span | None:
        """The row that leaves first; None if there is none."""

    def dequeue(self, count: int) -> Span:
        """Remove up to `count` messages of that row; IndexError if there is none."""


class Part(ABC):
    """A piece of a queue's behaviour. Of parts with the same name a queue has one."""

    __slots__ = ()

    name: ClassVar[str]

    def succeed(self, before: Part, now_ms: int) -> None:  # noqa: B027 (most have nothing to adopt)
        """Adopt the state of the part of this name that the queue had; counts are made anew."""

    def remainder(self, _rows: Iterable[Span]) -> Part | None:
        """The part that must stay in the queue when this one is removed; None for nothing.

        `_rows`: all that the queue holds.
        """
        return None


class Gate(Part):
    """Decides whether new messages enter."""

    __slots__ = ()

    # As what the refused messages go to the dead-letter exchange; None if they do not.
    letter_reason: str | None = None

    @abstractmethod
    def admit(
        self, batch: Batch, indexes: Indexes, position: int, count: int, message_count: int
    ) -> int:
        """How many of the `count` messages from this position on may enter now.

        `message_count`: how many are ready or deferred by now.
        If the first of them may not: minus the number of messages that are refused. Never 0.
        """


class Tally(Part):
    """Counts messages that are ready or deferred, in whatever unit."""

    __slots__ = ()

    # Must it know the sizes of bodies?
    counts_bytes: bool = False

    @abstractmethod
    def joined(self, span: Span) -> None:
        """These messages are ready or deferred now."""

    @abstractmethod
    def left(self, span: Span) -> None:
        """These messages are neither any more."""

    def sized(self, span: Span) -> None:
        """The sizes of these, which have joined without, are known now."""

    @abstractmethod
    def cleared(self) -> None:
        """No message is ready or deferred."""


class Bound(Part):
    """Decides whether messages at the head must leave so that a bound is kept."""

    __slots__ = ()

    # Why they leave, as in x-death.
    reason: ClassVar[str]

    @abstractmethod
    def excess(self, contents: Contents) -> int:
        """How many messages must leave from the head, at most; 0 if the bound is kept."""


class Judge(Part):
    """Decides whether messages that were delivered may come back."""

    __slots__ = ()

    # Why they leave if they may not, as in x-death.
    reason: ClassVar[str]

    @abstractmethod
    def refuses(self, attempts: int) -> bool:
        """Must messages leave that were delivered so often?"""
