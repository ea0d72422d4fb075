"""The trace events beside the hops of messages: what begins and ends, and what stops publishers.

They are not sampled: while the trace is on they are written, if the filter does not leave out their
connection, user or queue.
"""

from __future__ import annotations

from typing import Final

from .trace_fields import TraceEvent

_PLACE: Final = ("connection", "channel")
_CLIENT: Final = ("connection", "user")
_TRANSACTION: Final = (*_PLACE, "user", "batches", "publishes", "acks", "reason")

LIFECYCLE: Final[dict[str, TraceEvent]] = {
    "connection.opened": TraceEvent(
        "reader", (*_CLIENT, "vhost"), "a client is logged in, and its virtual host is open"
    ),
    "connection.refused": TraceEvent(
        "reader", (*_CLIENT, "reason"), "it was not let in: protocol, password or virtual host"
    ),
    "connection.error": TraceEvent(
        "reader",
        (*_CLIENT, "reason"),
        "the broker closes it, for its client's mistake or its own end",
    ),
    "connection.failed": TraceEvent(
        "reader", (*_CLIENT, "reason"), "a fault of the broker's own has ended it"
    ),
    "connection.closed": TraceEvent("reader", (*_CLIENT, "reason"), "its socket is closed"),
    "connection.blocked": TraceEvent(
        "reader",
        (*_CLIENT, "reason"),
        "its client, which publishes while there is an alarm, was told so",
    ),
    "connection.unblocked": TraceEvent("reader", (*_CLIENT, "reason"), "and that it may go on"),
    "flow.paused": TraceEvent(
        "reader",
        (*_CLIENT, "reason", "held_bytes"),
        "its socket is not read, so what it has sent waits there; pauses of one round of the event "
        "loop are not told of",
    ),
    "flow.resumed": TraceEvent(
        "reader", (*_CLIENT, "reason", "held_bytes"), "its socket is read again"
    ),
    "alarm.raised": TraceEvent(
        "disk watch",
        ("reason", "free_bytes", "free_bytes_min"),
        "whoever publishes is not read from here on",
    ),
    "alarm.cleared": TraceEvent(
        "disk watch",
        ("reason", "free_bytes", "free_bytes_min"),
        "publishers are read again",
    ),
    "channel.opened": TraceEvent("channel", _PLACE, "a channel is open"),
    "channel.closed": TraceEvent(
        "channel",
        (*_PLACE, "seq_no", "reply_code", "reason"),
        "the channel ended; what it had not confirmed by then is never answered",
    ),
    "channel.flow": TraceEvent(
        "channel", (*_PLACE, "active"), "the client has sent channel.flow, which changes nothing"
    ),
    "permission.refused": TraceEvent(
        "channel",
        (*_PLACE, "user", "reply_code", "reason"),
        "its user may not do what was asked for, and the channel is closed",
    ),
    "consumer.added": TraceEvent(
        "channel",
        (*_PLACE, "queue", "consumer_tag", "prefetch", "no_ack"),
        "a queue has taken a consumer",
    ),
    "consumer.removed": TraceEvent(
        "channel", (*_PLACE, "queue", "consumer_tag", "reason"), "a consumer is gone"
    ),
    "transaction.committed": TraceEvent(
        "channel",
        _TRANSACTION,
        "all that was published in it is safe in its queues; tx.commit-ok was written",
    ),
    "transaction.rolled_back": TraceEvent(
        "channel", _TRANSACTION, "its publishes never were, its acknowledgements are undone"
    ),
    "transaction.failed": TraceEvent(
        "channel", _TRANSACTION, "a queue has refused a part: what others took stays"
    ),
    "queue.declared": TraceEvent(
        "broker", ("queue", "queue_id", "vhost", "durable"), "a queue was made"
    ),
    "queue.purged": TraceEvent(
        "queue",
        ("queue", "queue_id", "ready_before", "unacked_before"),
        "all that was ready is gone",
    ),
    "queue.deleted": TraceEvent(
        "queue",
        ("queue", "queue_id", "ready_before", "unacked_before"),
        "the queue is gone, with all that was in it; what it owed is nacked",
    ),
    "queue.failed": TraceEvent(
        "queue",
        ("queue", "queue_id", "ready_before", "unacked_before"),
        "a fault of the broker's own: what it owed is nacked, what is in the journal comes back "
        "at the next start",
    ),
    "trace.started": TraceEvent(
        "trace", ("reason", "one_of", "queues"), "from here on events are written"
    ),
    "trace.stopped": TraceEvent("trace", (), "no more events"),
    "trace.lost": TraceEvent(
        "trace", ("dropped",), "so many events found the buffer full: the disk was too slow"
    ),
}
