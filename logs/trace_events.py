"""The events of the actors' trace: a closed set, one for every hop of a message.

docs/TRACE.md is written from this table, and a test compares the two and every line that a broker
writes with it. A step that an actor does for many messages at once is one event with ranges.
"""

from __future__ import annotations

from typing import Final

from .trace_fields import TraceEvent
from .trace_lifecycle import LIFECYCLE

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
            "reason",
        ),
        "basic.nack frames were written; the reason is what AMQP cannot carry",
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
    "message.recovered": TraceEvent(
        "queue", ("queue", *_MESSAGES, "attempt"), "the journal gave it back at the start"
    ),
} | LIFECYCLE
