"""The events of the actors' trace: a closed set, one for every hop of a message.

docs/TRACE.md is written from this table, and a test compares the two and every line that a broker
writes with it. A step that an actor does for many messages at once is one event with ranges.
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
    "t_ns": "nanoseconds on the machine's monotonic clock: what lies between two events",
    "time": "the same moment on the wall clock, UTC, ISO 8601",
    "boot": "the broker's run: every start has an id of its own",
    "event": "its name",
    "actor": "who did it",
}
# What may be in an event's fields, and means the same in all of them.
FIELDS: Final = {
    "connection": "the client's address and port",
    "channel": "the channel's number on that connection",
    "user": "who is logged in there",
    "batch": "broker-wide number of what one channel published in one socket read; with the place "
    "in it, the message's id: `<boot>-<batch>-<place>`",
    "batches": "numbers of batches",
    "messages": "places in the batch: a list of [first, last]",
    "seq_no": "the channel's publish sequence numbers: a list of [first, last]",
    "queue": "a queue's name",
    "queues": "names of queues",
    "exchange": "an exchange's name, empty for the default exchange",
    "routing_key": "the routing key",
    "mandatory": "was the publish mandatory?",
    "bytes": "how many bytes",
    "appends": "how many batches and queues were in it, those that are not traced included",
    "records": "how many journal records",
    "duration_ns": "how long it took, in nanoseconds",
    "unconfirmed_before": "how many publishes of the channel were unconfirmed before this step",
    "unconfirmed_after": "how many were behind it",
    "smallest_unconfirmed": "the smallest unconfirmed seq_no behind it, 0 if there is none",
    "queue_id": "the queue's number in catalog and journal",
    "ready_before": "how many messages were ready in the queue before this step",
    "unacked_before": "how many messages the queue had out with consumers before this step",
    "ready_after": "how many messages are ready in the queue behind this step",
    "waits_for_sync": "which of the messages the queue confirms only after a sync",
    "cumulative": "the tag of the basic.ack or basic.nack with multiple=true, 0 if there is none",
    "singles": "the tags answered one by one: a list of [first, last]",
    "consumer_tag": "the consumer's tag",
    "delivery_tag": "the channel's delivery tags: a list of [first, last]",
    "letter_batch": "the batch of the dead letters: with the place in it, their ids",
    "letters": "their places in that batch, in the order of `messages`: a list of [first, last]",
    "transaction": "true if it was published in a transaction, which is being committed",
    "attempt": "how many times it has been delivered, this time included",
    "reason": "why, in words",
    "reply_code": "AMQP's code of the error",
    "one_of": "one of so many messages is traced",
    "dropped": "how many events could not be kept",
}
_PLACE: Final = ("connection", "channel")
_MESSAGES: Final = ("batch", "messages")

EVENTS: Final[dict[str, TraceEvent]] = {
    "frame.received": TraceEvent(
        "reader", (*_PLACE, *_MESSAGES, "bytes"), "the publishes came with one read of the socket"
    ),
    "command.assembled": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "user", "seq_no", "transaction"),
        "the channel has whole publishes and numbered them (not outside confirm mode)",
    ),
    "message.routed": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "exchange", "routing_key", "mandatory", "queues"),
        "the exchange table gave these queues, maybe none",
    ),
    "message.returned": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "seq_no", "reason"),
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
    "unconfirmed.inserted": TraceEvent(
        "channel",
        (*_PLACE, *_MESSAGES, "seq_no", "queues", "unconfirmed_before", "unconfirmed_after"),
        "the channel noted what its queues owe",
    ),
    "message.enqueued": TraceEvent(
        "queue",
        ("queue", "queue_id", *_MESSAGES, "ready_after", "waits_for_sync"),
        "the queue has it in memory",
    ),
    "message.duplicate": TraceEvent(
        "queue",
        ("queue", *_MESSAGES),
        "the queue has taken one of that producer and id before: it is confirmed, not enqueued",
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
        "queue", ("queue", *_MESSAGES), "the queue heard that it is on the disk"
    ),
    "confirm.queued": TraceEvent(
        "queue", ("queue", *_MESSAGES), "the queue told the channel that it has it"
    ),
    "confirm.rejected": TraceEvent(
        "queue",
        ("queue", *_MESSAGES, "reason"),
        "a queue will never have it",
    ),
    "confirm.sent": TraceEvent(
        "channel",
        (
            *_PLACE,
            "seq_no",
            "cumulative",
            "singles",
            "unconfirmed_before",
            "unconfirmed_after",
            "smallest_unconfirmed",
        ),
        "basic.ack frames were written",
    ),
    "confirm.nacked": TraceEvent(
        "channel",
        (
            *_PLACE,
            "seq_no",
            "cumulative",
            "singles",
            "unconfirmed_before",
            "unconfirmed_after",
            "smallest_unconfirmed",
        ),
        "basic.nack frames were written",
    ),
    "transaction.committed": TraceEvent(
        "channel",
        (*_PLACE, "batches"),
        "all that was published in it is safe in its queues; tx.commit-ok was written",
    ),
    "message.delivered": TraceEvent(
        "channel",
        (*_PLACE, "queue", *_MESSAGES, "consumer_tag", "delivery_tag", "attempt"),
        "basic.deliver or basic.get-ok was written",
    ),
    "message.requeued": TraceEvent(
        "queue", ("queue", *_MESSAGES, "reason", "attempt"), "it is ready again, at its old place"
    ),
    "message.expired": TraceEvent(
        "queue",
        ("queue", *_MESSAGES, "reason", "ready_after"),
        "its time to live was over when it came to the head of the queue",
    ),
    "message.evicted": TraceEvent(
        "queue",
        ("queue", *_MESSAGES, "reason", "ready_after"),
        "it had to go: `maxlen`, the queue is too long; `delivery_limit`, it came back too often",
    ),
    "message.rejected": TraceEvent(
        "queue",
        ("queue", *_MESSAGES, "reason", "ready_after"),
        "a consumer rejected it for good",
    ),
    "message.dead_lettered": TraceEvent(
        "dead letters",
        ("queue", *_MESSAGES, "reason", "letter_batch", "letters", "queues"),
        "new messages were made of those that left the queue, and go to these queues; they are "
        "traced, too",
    ),
    "letter.dropped": TraceEvent(
        "dead letters",
        ("queue", *_MESSAGES, "reason"),
        "no dead letter: no such exchange, no queue for the key, or it went round between queues",
    ),
    "message.settled": TraceEvent(
        "queue",
        ("queue", *_MESSAGES, "reason", "attempt"),
        "it is gone from the queue: acked, purged, deleted with it, or why it left; with a "
        "dead-letter exchange when its dead letter is safe",
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
    "message.recovered": TraceEvent(
        "queue", ("queue", *_MESSAGES, "attempt"), "the journal gave it back at the start"
    ),
    "channel.closed": TraceEvent(
        "channel",
        (*_PLACE, "seq_no", "reply_code", "reason"),
        "the channel ended; what it had not confirmed by then is never answered",
    ),
    "trace.started": TraceEvent(
        "trace", ("reason", "one_of", "queues"), "from here on events are written"
    ),
    "trace.stopped": TraceEvent("trace", (), "no more events"),
    "trace.lost": TraceEvent(
        "trace", ("dropped",), "so many events found the buffer full: the disk was too slow"
    ),
}
