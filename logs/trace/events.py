"""The events of the actors' trace and their fields: a closed set.

`EVENTS` has one event for every hop of a message; a step that an actor does for many messages at
once is one event with ranges. `LIFECYCLE` has the others: connections, channels, consumers, queues,
and the reasons why publishers are not read. They are not sampled: while the trace is on, actors
write them unless the filter excludes their connection, user or queue.

Tests compare docs/TRACE.md and `kinds.py`, which has the fields in the same order, with this table,
and every line that a broker writes with it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class TraceEvent(NamedTuple):
    """Who writes the event, what it has beside `COMMON`, and what it says."""

    actor: str
    fields: tuple[str, ...]
    meaning: str


# What every line has.
COMMON: Final = {
    "t_ns": "nanoseconds on the machine's monotonic clock, for differences between two events",
    "time": "the same moment on the wall clock, UTC, ISO 8601",
    "boot": "the broker's run: every start has an id of its own",
    "event": "its name",
    "actor": "the actor that wrote it",
}
# What may be in an event's fields, and means the same in all of them.
FIELDS: Final = {
    "connection": "the client's address and port",
    "channel": "the channel's number on that connection",
    "user": "the user who is logged in there",
    "vhost": "the virtual host, of a queue its own",
    "client": "the name that the client gave its connection (`connection_name`), empty if none",
    "batch": "broker-wide number of what one channel published in one socket read; with the place "
    "in it, the message's id: `<boot>-<batch>-<place>`",
    "batches": "numbers of batches",
    "messages": "places in the batch: a list of [first, last]",
    "seq_no": "the channel's publish sequence numbers: a list of [first, last]",
    "queue": "a queue's name",
    "queues": "names of queues",
    "exchanges": "names of exchanges",
    "exchange": "an exchange's name, empty for the default exchange",
    "routing_key": "the routing key",
    "mandatory": "was the publish mandatory?",
    "batch_messages": "how many messages came with the batch, those that are not traced included",
    "bytes": "how many bytes the whole batch, or the commit, has",
    "appends": "how many batches and queues were in it, those that are not traced included",
    "records": "how many journal records",
    "duration_ns": "how long it took, in nanoseconds",
    "unconfirmed_before": "how many publishes of the channel were unconfirmed before this step",
    "unconfirmed_after": "how many were behind it",
    "smallest_unconfirmed": "the smallest unconfirmed seq_no behind it, 0 if there is none",
    "queue_id": "the queue's number in catalog and journal",
    "ready_before": "how many messages were ready in the queue before this step",
    "unacked_before": "how many messages of the queue were in flight before this step",
    "ready_after": "how many messages are ready in the queue behind this step",
    "waits_for_sync": "which of the messages the queue confirms only after a sync",
    "cumulative": "the tag of the basic.ack or basic.nack with multiple=true, 0 if there is none",
    "singles": "the tags answered one by one: a list of [first, last]",
    "consumer_tag": "the consumer's tag",
    "prefetch": "how many messages the consumer may have unacked, 0 for any number",
    "no_ack": "does the consumer take messages without acks?",
    "active": "the value that the client sent",
    "durable": "does the queue outlive a restart?",
    "publishes": "how many publishes waited in the transaction",
    "acks": "how many acknowledgements waited in it",
    "held_bytes": "bytes that the connection has published and the broker has not absorbed",
    "free_bytes": "free bytes on the data directory's disk",
    "free_bytes_min": "the least that is wanted there",
    "memory_bytes": "bytes that all queues hold in memory",
    "memory_bytes_max": "above so many there is an alarm",
    "delivery_tag": "the channel's delivery tags: a list of [first, last]",
    "letter_batch": "the batch of the dead letters: with the place in it, their ids",
    "letters": "their places in that batch, in the order of `messages`: a list of [first, last]",
    "transaction": "true if it was published in a transaction, which is being committed",
    "attempt": "how many times it has been delivered, this time included",
    "until": "the moment on the wall clock, UTC, ISO 8601, that the event is about",
    "reason": "why, in words",
    "late": "true where a message that is not among those chosen is traced from here on, because "
    "of this; what it did before is not in the trace",
    "reply_code": "AMQP's code of the error",
    "one_of": "one of this many messages is traced",
    "users": "only publishes of these users are traced; empty: of all",
    "connections": "only publishes of these connections are traced; empty: of all",
    "format": "the version of the trace's form; traces without it are of version 1",
    "dropped": "how many events could not be kept",
    "skipped": "how many messages",
    "salvaged": "how many events were read back from the ring of the killed broker",
    "damaged_bytes": "damaged bytes of that ring, which are no events",
}


_PLACE: Final = ("connection", "channel")
_QUEUE: Final = ("vhost", "queue")
_CLIENT: Final = ("connection", "user")
_CHOSEN: Final = ("one_of", "queues", "users", "connections")
_TRANSACTION: Final = (*_PLACE, "user", "batches", "publishes", "acks", "reason")

LIFECYCLE: Final[dict[str, TraceEvent]] = {
    "connection.opened": TraceEvent(
        "reader",
        (*_CLIENT, "vhost", "client"),
        "a client is logged in, and its virtual host is open",
    ),
    "connection.refused": TraceEvent(
        "reader", (*_CLIENT, "reason"), "it was not let in: protocol, password or virtual host"
    ),
    "connection.error": TraceEvent(
        "reader",
        (*_CLIENT, "reason"),
        "the broker closes it, because of its client's mistake or because the broker stops",
    ),
    "connection.failed": TraceEvent(
        "reader", (*_CLIENT, "reason"), "a fault of the broker's own has ended it"
    ),
    "connection.closed": TraceEvent("reader", (*_CLIENT, "reason"), "its socket is closed"),
    "connection.blocked": TraceEvent(
        "reader",
        (*_CLIENT, "reason"),
        "its client publishes while there is an alarm, and got connection.blocked",
    ),
    "connection.unblocked": TraceEvent(
        "reader", (*_CLIENT, "reason"), "its client got connection.unblocked"
    ),
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
        "the broker does not read publishers from here on",
    ),
    "alarm.cleared": TraceEvent(
        "disk watch",
        ("reason", "free_bytes", "free_bytes_min"),
        "the broker reads publishers again, if there is no other alarm",
    ),
    "memory.high": TraceEvent(
        "memory watch",
        ("memory_bytes", "memory_bytes_max"),
        "the queues hold too much, so the broker does not read publishers from here on",
    ),
    "memory.enough": TraceEvent(
        "memory watch", ("memory_bytes", "memory_bytes_max"), "they hold enough less"
    ),
    "channel.opened": TraceEvent(
        "channel", (*_PLACE, "vhost", "user", "client"), "a channel is open"
    ),
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
        "its user lacks the permission, and the channel is closed",
    ),
    "consumer.added": TraceEvent(
        "channel",
        (*_PLACE, *_QUEUE, "consumer_tag", "prefetch", "no_ack"),
        "a queue has accepted a consumer",
    ),
    "consumer.removed": TraceEvent(
        "channel", (*_PLACE, *_QUEUE, "consumer_tag", "reason"), "a consumer is gone"
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
    "queue.declared": TraceEvent("broker", (*_QUEUE, "queue_id", "durable"), "a queue was made"),
    "queue.paused": TraceEvent(
        "queue",
        (*_QUEUE, "queue_id", "ready_before", "unacked_before"),
        "somebody has paused the queue, or it was when its broker started: it delivers nothing "
        "from here on",
    ),
    "queue.resumed": TraceEvent(
        "queue",
        (*_QUEUE, "queue_id", "ready_before", "unacked_before"),
        "the queue delivers again",
    ),
    "queue.purged": TraceEvent(
        "queue",
        (*_QUEUE, "queue_id", "ready_before", "unacked_before"),
        "all ready and deferred messages are gone",
    ),
    "queue.deleted": TraceEvent(
        "queue",
        (*_QUEUE, "queue_id", "ready_before", "unacked_before"),
        "the queue is gone, with all that was in it; what it owed is nacked",
    ),
    "queue.failed": TraceEvent(
        "queue",
        (*_QUEUE, "queue_id", "ready_before", "unacked_before"),
        "a fault of the broker's own: what it owed is nacked, what is in the journal comes back "
        "at the next start",
    ),
    "trace.started": TraceEvent(
        "trace", ("reason", *_CHOSEN, "format"), "from here on events are written"
    ),
    "trace.continued": TraceEvent(
        "trace",
        (*_CHOSEN, "format", "dropped"),
        "a file's begin repeats what is traced, and how many events of the run were lost before",
    ),
    "trace.stopped": TraceEvent(
        "trace",
        ("reason",),
        "no more events: somebody asked for that, or the broker stops; earlier versions do not say",
    ),
    "trace.lost": TraceEvent(
        "trace",
        ("dropped",),
        "this many events, here, found the ring full, because the disk was too slow",
    ),
    "trace.limited": TraceEvent(
        "trace",
        ("skipped",),
        "so many messages went wrong that are not traced: more than "
        "`trace_failures_per_second_max`",
    ),
    "trace.cut": TraceEvent(
        "trace",
        ("salvaged", "damaged_bytes"),
        "the trace is cut here: the broker ended without stopping it; written at the next start",
    ),
}


_MESSAGES: Final = ("batch", "messages")
# Fields of events that report a fault: such a message is traced from there on, chosen or not.
_WRONG: Final = ("reason", "late")
_ANSWERED: Final = (
    *("seq_no", "cumulative", "singles"),
    *("unconfirmed_before", "unconfirmed_after", "smallest_unconfirmed"),
)

EVENTS: Final[dict[str, TraceEvent]] = {
    "frame.received": TraceEvent(
        "reader",
        (*_PLACE, *_MESSAGES, "batch_messages", "bytes"),
        "the publishes came with one read of the socket",
    ),
    "command.assembled": TraceEvent(
        "channel",
        (*_PLACE, "vhost", "client", *_MESSAGES, "user", "seq_no", "transaction"),
        "the channel has whole publishes and numbered them (not outside confirm mode)",
    ),
    "permission.granted": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "user", "exchanges"),
        "its user may write these exchanges",
    ),
    "message.refused": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "seq_no", "reply_code", "reason"),
        "a mistake: it is not published, nor is what came behind it, and the channel is closed",
    ),
    "message.routed": TraceEvent(
        "channel",
        (*_PLACE, "vhost", *_MESSAGES, "exchange", "routing_key", "mandatory", "queues"),
        "the exchange table gave these queues, maybe none",
    ),
    "message.returned": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "seq_no", *_WRONG),
        "basic.return was written, and behind it the publish's own ack",
    ),
    "message.replied": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "seq_no", "reason"),
        "a direct reply: it went to the channel of its reply consumer, past every queue",
    ),
    "message.dropped": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "seq_no", "reason"),
        "no queue gets it and it was not mandatory",
    ),
    "command.carried_out": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "seq_no", "reason"),
        "a touch or a requeue: no queue gets it, because it is no message",
    ),
    "unconfirmed.inserted": TraceEvent(
        "channel",
        (
            *(*_PLACE, *_MESSAGES, "seq_no", "queues"),
            *("unconfirmed_before", "unconfirmed_after"),
        ),
        "the channel recorded that these queues owe a confirm",
    ),
    "message.enqueued": TraceEvent(
        "queue",
        (*_QUEUE, "queue_id", *_MESSAGES, "ready_after", "waits_for_sync"),
        "the queue has it in memory",
    ),
    "message.duplicate": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES),
        "the queue has accepted a message of that producer and id before: it confirms this "
        "one without enqueuing it",
    ),
    "journal.appended": TraceEvent(
        "journal", ("queue_id", *_MESSAGES), "the journal has it in its buffer for the next commit"
    ),
    "journal.synced": TraceEvent(
        "journal",
        ("batches", "appends", "records", "bytes", "duration_ns"),
        "one write and one fdatasync for all of these batches",
    ),
    "message.persisted": TraceEvent(
        "queue", (*_QUEUE, *_MESSAGES), "the journal reported to the queue that it is on the disk"
    ),
    "confirm.queued": TraceEvent(
        "queue", (*_QUEUE, *_MESSAGES), "the queue confirmed it to the channel"
    ),
    "confirm.rejected": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, *_WRONG),
        "a queue refused it",
    ),
    "confirm.received": TraceEvent(
        "channel",
        (*_PLACE, *_QUEUE, *_MESSAGES),
        "the queue's confirm reached the channel",
    ),
    "rejection.received": TraceEvent(
        "channel",
        (*_PLACE, *_QUEUE, *_MESSAGES, "seq_no", *_WRONG),
        "the queue's refusal reached the channel",
    ),
    "confirm.recorded": TraceEvent(
        "channel",
        (*_PLACE, "seq_no"),
        "no queue owes it any more: the answer waits until the channel's mailbox is empty, so that "
        "few frames answer many",
    ),
    "confirm.sent": TraceEvent(
        "channel",
        (*_PLACE, *_ANSWERED),
        "basic.ack frames were written",
    ),
    "confirm.nacked": TraceEvent(
        "channel",
        (*_PLACE, *_ANSWERED, "reason"),
        "basic.nack frames were written; the reason, if it is one for all, is what AMQP cannot "
        "carry",
    ),
    "confirm.slow": TraceEvent(
        "channel",
        (*_PLACE, "client", *_MESSAGES, "seq_no", "batch_messages", "duration_ns", "late"),
        "the batch took `trace_slow_ms` or longer from its read to the last confirm of its queues",
    ),
    "message.delivered": TraceEvent(
        "channel",
        (
            *(*_PLACE, "client", *_QUEUE, *_MESSAGES),
            *("consumer_tag", "delivery_tag", "attempt", "until"),
        ),
        "basic.deliver or basic.get-ok was written; `until` is when its in-flight time-out passes, "
        "if it has one",
    ),
    "ack.received": TraceEvent(
        "channel",
        (*_PLACE, *_QUEUE, *_MESSAGES, "delivery_tag", "reason"),
        "the consumer's basic.ack (`acked`), reject (`rejected`) or return to the queue (`given "
        "back`) came in",
    ),
    "ack.late": TraceEvent(
        "channel",
        (*_PLACE, *_QUEUE, "delivery_tag", "reason"),
        "the consumer's answer came when the in-flight time-out had passed: it gives credit back, "
        "and has no other effect",
    ),
    "message.touched": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, "until"),
        "its client works on it still, and has its in-flight time-out begin anew: `until` is when "
        "that passes",
    ),
    "message.requeued": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, *_WRONG, "attempt"),
        "it came back, and is ready again at its old place unless it is deferred",
    ),
    "message.deferred": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, "until", "attempt"),
        "it is not ready before `until`: its queue defers returned messages, or its publisher or "
        "consumer asked for a delay",
    ),
    "message.due": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, "ready_after", "attempt"),
        "the time for which it was deferred is over: it is ready",
    ),
    "message.expired": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, *_WRONG, "ready_after"),
        "its time to live was over when it came to the head of the queue",
    ),
    "message.evicted": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, *_WRONG, "ready_after"),
        "it had to go: `maxlen`, the queue is too long; `delivery_limit`, it came back too often",
    ),
    "message.rejected": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, *_WRONG, "ready_after"),
        "a consumer rejected it for good",
    ),
    "message.dead_lettered": TraceEvent(
        "dead letters",
        (*_QUEUE, *_MESSAGES, "reason", "letter_batch", "letters", "queues"),
        "new messages were made of those that left the queue, and go to these queues; they are "
        "traced, too",
    ),
    "letter.dropped": TraceEvent(
        "dead letters",
        (*_QUEUE, *_MESSAGES, "reason"),
        "no dead letter: no such exchange, no queue for the key, or it went round between queues",
    ),
    "message.settled": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, "reason", "attempt"),
        "it is gone from the queue: acked, purged, deleted with it, or why it left; with a "
        "dead-letter exchange when its dead letter is safe",
    ),
    "message.recovered": TraceEvent(
        "queue",
        (*_QUEUE, *_MESSAGES, "attempt"),
        "the journal gave it back at the start, or a topic's first channel has taken its queue",
    ),
} | LIFECYCLE
