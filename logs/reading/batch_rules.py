"""The rules of queues, the journal and channels for the messages of a batch.

A queue confirms, delivers and settles only messages that it has, each once, confirms a persistent
message only after its sync, and delivers a deferred one only after it is due. A consumer acks,
rejects or gives back only messages that were delivered to it. A channel confirms a publish when
every queue that it was routed to has confirmed it.

Places of messages are kept as ranges (`spans.Spans`), whose number a trace's events bound, however
many messages they name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from ..spans import Pair, Pairs, Spans
from ..trace.parsing import Line
from .channel_rules import OnFault
from .views import View

# A virtual host, empty in traces that do not say it, and a name.
Queue = tuple[str, str]

# The messages of a finished batch that a queue had, and that it knew as duplicates.
Past = tuple[Queue, list[Pair], list[Pair]]

# Why messages are settled or come back, as `actors` write it: the reason of a settling that comes
# before its delivery; the reasons that only a consumer with a delivery can give.
NO_ACK: Final = "no ack wanted"
_ACKED: Final = "acked"
_GIVEN_BACK: Final = "given back"


class _InQueue:
    """The messages of one batch in one queue."""

    __slots__ = (
        *("deferred", "going", "had", "held", "out", "owed"),
        *("queue_id", "repeats", "waiting"),
    )

    def __init__(self) -> None:
        self.queue_id = 0
        # Routed to it, and not answered by it.
        self.owed = Spans()
        # The messages that were ever in it, that it still has, and that it knows as duplicates.
        self.had = Spans()
        self.held = Spans()
        self.repeats = Spans()
        # Those that wait for a sync before they may be confirmed.
        self.waiting = Spans()
        # Not due yet, by how often they had been delivered: the event of a delivery that timed out
        # may be written behind those of its end.
        self.deferred: dict[int, Spans] = {}
        # With a consumer; and gone with a delivery that wants no ack and is not written yet.
        self.out = Spans()
        self.going = Spans()

    def end_deferral(self, attempts: int, places: Pairs) -> None:
        """Those of these that had been delivered so often are deferred no more."""
        deferred = self.deferred.get(attempts)
        if deferred is not None:
            deferred.remove(places)
            if not deferred:
                del self.deferred[attempts]

    def end_deferrals(self, places: Pairs) -> None:
        """None of these is deferred any more."""
        for attempts in list(self.deferred):
            self.end_deferral(attempts, places)


class BatchRules:
    """One batch of one boot."""

    def __init__(self, view: View, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._view = view
        # Steps of queues with messages whose earlier events the trace lacks.
        self.unjudged = 0
        self._begin()

    def _begin(self) -> None:
        self._queues: defaultdict[Queue, _InQueue] = defaultdict(_InQueue)
        # Places whose begin is seen: they were published, made or recovered.
        self._begun = Spans()
        # Places that are traced only since something went wrong with them.
        self._late = Spans()
        # Queues, by number, whose part is in the journal's buffer, not synced yet.
        self._appended: set[int] = set()

    def finished(self) -> list[Past] | None:
        """The facts to remember of a batch to which nothing more can happen; None if more can."""
        if self._appended or self._late:
            return None
        for queue in self._queues.values():
            if queue.held or queue.owed or queue.waiting or queue.going or queue.out:
                return None
        return [(key, list(queue.had), list(queue.repeats)) for key, queue in self._queues.items()]

    def recall(self, past: Iterable[Past]) -> None:
        """Something happens with it all the same."""
        for key, had, repeats in past:
            queue = self._queues[key]
            queue.had.add(had)
            queue.repeats.add(repeats)
            self._begun.add(had)
            self._begun.add(repeats)

    def feed(self, line: Line, view: View) -> None:
        """Take one of BATCH_EVENTS, in which the batch is named."""
        self._look(view)
        if line.get("late"):
            self._late.add(line["messages"])
        _HANDLERS[line["event"]](self, line)

    def confirmed(self, line: Line, messages: Pairs, seq_no: int, view: View) -> None:
        """The channel has confirmed these places with `line`; their first number is `seq_no`."""
        self._look(view)
        for (_vhost, name), queue in self._queues.items():
            if not queue.owed:
                continue
            early = queue.owed.common(messages)
            if early and self._view.is_sure:
                self._on_fault(
                    line,
                    f"{line['connection']} channel {line['channel']}: publish "
                    f"{seq_no + early.smallest() - min(first for first, _last in messages)} was "
                    f"confirmed before queue {name!r} had confirmed it",
                )

    def _look(self, view: View) -> None:
        if view.gaps != self._view.gaps:
            # The trace may lack earlier hops.
            self._begin()
        self._view = view

    def _queue(self, line: Line) -> _InQueue:
        return self._queues[line.get("vhost", ""), line["queue"]]

    def _fault(self, line: Line, places: Spans, did: str, why: str) -> None:
        """A fault about those of the places whose begin is seen, or must have been."""
        places.remove(self._late)
        if not places:
            return
        if not self._view.is_sure:
            self.unjudged += places.count()
            return
        if not self._view.is_complete:
            unseen = self._begun.missing(places)
            self.unjudged += unseen.count()
            places.remove(unseen)
        if places:
            others = places.count() - 1
            more = f" and {others} others of its batch" if others else ""
            self._on_fault(
                line,
                f"queue {line['queue']!r} {did} message {line['boot']}-{line['batch']}-"
                f"{places.smallest()}{more} {why}",
            )

    # --- What begins

    def _begins(self, line: Line) -> None:
        self._begun.add(line["messages"])

    def _letters(self, line: Line) -> None:
        """Dead letters are made, which are this batch."""
        self._begun.add(line["letters"])

    def _routed(self, line: Line) -> None:
        for name in line["queues"]:
            self._queues[line.get("vhost", ""), name].owed.add(line["messages"])

    def _enqueued(self, line: Line) -> None:
        queue = self._queue(line)
        queue.queue_id = line.get("queue_id", 0)
        queue.had.add(line["messages"])
        queue.held.add(line["messages"])
        queue.waiting.add(line.get("waits_for_sync", ()))

    def _recovered(self, line: Line) -> None:
        self._begun.add(line["messages"])
        # Deferred ones are named again.
        self._queue(line).end_deferrals(line["messages"])
        self._enqueued(line)

    def _repeated(self, line: Line) -> None:
        self._queue(line).repeats.add(line["messages"])

    # --- The disk, and confirms

    def _append(self, line: Line) -> None:
        self._appended.add(line["queue_id"])

    def _synced(self, _line: Line) -> None:
        for queue in self._queues.values():
            if queue.queue_id in self._appended:
                queue.waiting = Spans()
        self._appended.clear()

    def _slow(self, _line: Line) -> None:
        """The messages may be traced only from here on, which is all that this says of them."""

    def _confirm(self, line: Line) -> None:
        queue, places = self._queue(line), line["messages"]
        if not queue.had.covers(places):
            unknown = queue.repeats.missing(queue.had.missing(places))
            self._fault(line, unknown, "confirmed", "that it never had")
        if queue.waiting:
            self._fault(line, queue.waiting.common(places), "confirmed", "before its sync")
        queue.owed.remove(places)

    def _refuse(self, line: Line) -> None:
        self._queue(line).owed.remove(line["messages"])

    # --- Consumers

    def _deliver(self, line: Line) -> None:
        queue, places = self._queue(line), line["messages"]
        for attempts in [each for each in queue.deferred if each < line["attempt"]]:
            early = queue.deferred[attempts].common(places)
            queue.end_deferral(attempts, places)
            self._fault(line, early, "delivered", "before it was due")
        if not queue.going and queue.held.covers(places):
            queue.out.add(places)
            return
        going = queue.going.common(places)
        unknown = going.missing(queue.held.missing(places))
        self._fault(line, unknown, "delivered", "that it did not have")
        queue.going.remove(going)
        queue.out.add(going.missing(places))

    def _requeue(self, line: Line) -> None:
        queue, places = self._queue(line), line["messages"]
        if line["reason"] == _GIVEN_BACK:
            self._fault(line, queue.out.missing(places), "took back", "that was not delivered")
        queue.out.remove(places)

    def _defer(self, line: Line) -> None:
        queue, places = self._queue(line), line["messages"]
        self._fault(line, queue.held.missing(places), "deferred", "that it did not have")
        queue.deferred.setdefault(line["attempt"], Spans()).add(places)

    def _end_deferral(self, line: Line) -> None:
        queue, places = self._queue(line), line["messages"]
        deferred = queue.deferred.get(line["attempt"], Spans())
        self._fault(line, deferred.missing(places), "called due", "that was not deferred")
        queue.end_deferral(line["attempt"], places)

    def _reject(self, line: Line) -> None:
        queue, places = self._queue(line), line["messages"]
        self._fault(line, queue.out.missing(places), "rejected", "that was not delivered")
        queue.out.remove(places)

    def _leave(self, line: Line) -> None:
        queue = self._queue(line)
        self._fault(line, queue.held.missing(line["messages"]), "dropped", "that it did not have")

    def _settle(self, line: Line) -> None:
        queue, places = self._queue(line), line["messages"]
        if not queue.held.covers(places):
            absent = queue.held.missing(places)
            self._fault(line, queue.had.common(absent), "settled", "twice")
            self._fault(line, queue.had.missing(absent), "settled", "that it never had")
        if line["reason"] == _ACKED and not queue.out.covers(places):
            unsent = queue.out.missing(queue.held.common(places))
            self._fault(line, unsent, "settled as acked", "that was not delivered")
        if line["reason"] == NO_ACK:
            # Without acks it is gone before its delivery is written.
            queue.going.add(places)
        queue.held.remove(places)
        queue.out.remove(places)
        queue.end_deferrals(places)


_HANDLERS: Final = {
    "command.assembled": BatchRules._begins,
    "message.refused": BatchRules._begins,
    "message.routed": BatchRules._routed,
    "message.enqueued": BatchRules._enqueued,
    "message.dead_lettered": BatchRules._letters,
    "message.recovered": BatchRules._recovered,
    "message.duplicate": BatchRules._repeated,
    "journal.appended": BatchRules._append,
    "journal.synced": BatchRules._synced,
    "confirm.queued": BatchRules._confirm,
    "confirm.rejected": BatchRules._refuse,
    "confirm.slow": BatchRules._slow,
    "message.delivered": BatchRules._deliver,
    "message.requeued": BatchRules._requeue,
    "message.deferred": BatchRules._defer,
    "message.due": BatchRules._end_deferral,
    "message.rejected": BatchRules._reject,
    "message.expired": BatchRules._leave,
    "message.evicted": BatchRules._leave,
    "message.settled": BatchRules._settle,
}
BATCH_EVENTS: Final = frozenset(_HANDLERS)
# Behind which a batch may be done.
ENDING_EVENTS: Final = frozenset(
    ("message.settled", "message.delivered", "confirm.queued", "confirm.rejected", "confirm.slow")
)


def batches_of(line: Line) -> list[int]:
    """The batches whose rules one of BATCH_EVENTS is for."""
    if line["event"] == "journal.synced":
        batches: list[int] = line["batches"]
        return batches
    # Where dead letters are made, their own batch begins.
    return [line["letter_batch" if line["event"] == "message.dead_lettered" else "batch"]]
