"""The parts of a queue with `x-max-length` or `x-max-length-bytes`, one for each overflow rule.

Ready messages count, as in RabbitMQ, and deferred ones. Messages in flight do not, nor do those
that a consumer gets at once; and of a message only its body counts. Over the limit
- with drop-head, which is the default, the oldest ready messages leave, and behind them the
  deferred message with the latest due time (`DropHead`). They are confirmed all the same. A requeue
  can exceed the limit, too, and the requeued messages are then the oldest;
- with reject-publish the new message does not enter (`RejectPublish`): its publisher gets a nack.
  Nothing that is in the queue is ever dropped, so a requeue may exceed the limit;
- with reject-publish-dlx the same, and the message goes to the queue's dead-letter exchange.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Final, NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.values.field_table import Table
from .columns import body_sizes, sizes_of
from .parts import MAXLEN, Bound, Contents, Gate, Tally
from .span import Span


class Limits(NamedTuple):
    """The limits of a queue; None: no limit."""

    # Ready and deferred messages, and bytes of the bodies of these.
    ready_max: int | None = None
    ready_bytes_max: int | None = None
    # Over the limit, new messages are rejected; else the oldest are dropped.
    rejects: bool = False
    # Rejected messages go to the dead-letter exchange.
    dead_letters_rejected: bool = False


def limits_of(arguments: Table) -> Limits:
    """The limits in a declaration's arguments, which are valid."""
    ready_max = _number(arguments, "x-max-length")
    ready_bytes_max = _number(arguments, "x-max-length-bytes")
    overflow = arguments.get("x-overflow")
    rule = "drop-head" if overflow is None else overflow.value
    return Limits(ready_max, ready_bytes_max, rule != "drop-head", rule == "reject-publish-dlx")


def length_part(arguments: Table) -> DropHead | RejectPublish:
    """The part that `x-max-length` and `x-max-length-bytes` ask for."""
    limits = limits_of(arguments)
    return RejectPublish(limits) if limits.rejects else DropHead(limits)


def _number(arguments: Table, name: str) -> int | None:
    argument = arguments.get(name)
    if argument is None:
        return None
    assert isinstance(argument.value, int)
    return argument.value


# Above every count and size: no limit.
_UNLIMITED: Final = 1 << 62


class _ReadyLength(Tally, ABC):
    """The limits, and the bytes of ready and deferred messages if these are limited."""

    __slots__ = ("_ready_bytes", "_ready_bytes_max", "_ready_max", "counts_bytes")

    name: ClassVar[str] = "length"

    def __init__(self, limits: Limits) -> None:
        ready_max, ready_bytes_max = limits.ready_max, limits.ready_bytes_max
        self._ready_max = _UNLIMITED if ready_max is None else ready_max
        self._ready_bytes_max = _UNLIMITED if ready_bytes_max is None else ready_bytes_max
        # Sizes are looked at only if they are limited.
        self.counts_bytes = ready_bytes_max is not None
        self._ready_bytes = 0

    def joined(self, span: Span) -> None:
        """Count bodies in."""
        if self.counts_bytes:
            self._ready_bytes += sum(sizes_of(span))

    def left(self, span: Span) -> None:
        """Count bodies out."""
        if self.counts_bytes:
            self._ready_bytes -= sum(sizes_of(span))

    def sized(self, span: Span) -> None:
        """Count bodies that were counted as empty."""
        self.joined(span)

    def cleared(self) -> None:
        """Nothing is ready or deferred."""
        self._ready_bytes = 0


class DropHead(_ReadyLength, Bound):
    """Over the limit the oldest messages leave."""

    __slots__ = ()

    reason: ClassVar[str] = MAXLEN

    def excess(self, contents: Contents) -> int:
        """How many messages must leave from the head: of the head row if bytes are too many."""
        if contents.message_count > self._ready_max:
            return contents.message_count - self._ready_max
        ready_bytes = self._ready_bytes
        if ready_bytes <= self._ready_bytes_max:
            return 0
        head = contents.head()
        assert head is not None
        for count, size in enumerate(sizes_of(head), 1):
            ready_bytes -= size
            if ready_bytes <= self._ready_bytes_max:
                return count
        return len(head)


class RejectPublish(_ReadyLength, Gate):
    """Over the limit new messages do not enter."""

    __slots__ = ("letter_reason",)

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.letter_reason = MAXLEN if limits.dead_letters_rejected else None

    def admit(
        self, batch: Batch, indexes: Indexes, position: int, count: int, message_count: int
    ) -> int:
        """As many as there is room for; if there is none for the first, it is refused.

        A smaller message behind a message with too many bytes may still fit. When the queue is full
        by number, all are refused.
        """
        fitting = min(count, self._ready_max - message_count)
        if fitting <= 0:
            return -count
        if self.counts_bytes:
            ready_bytes = self._ready_bytes
            row = indexes[position : position + fitting]
            for admitted, size in enumerate(body_sizes(batch, row)):
                ready_bytes += size
                if ready_bytes > self._ready_bytes_max:
                    return admitted or -1
        return fitting
