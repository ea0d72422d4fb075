"""What a trace event is, and what the fields are that events have."""

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
    "vhost": "the virtual host",
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
    "prefetch": "how many messages the consumer may have unacked, 0 for any number",
    "no_ack": "does the consumer take messages without acks?",
    "active": "what the client asked for",
    "durable": "does the queue outlive a restart?",
    "publishes": "how many publishes waited in the transaction",
    "acks": "how many acknowledgements waited in it",
    "held_bytes": "what the connection has published that the broker has not absorbed, in bytes",
    "free_bytes": "free bytes on the data directory's disk",
    "free_bytes_min": "the least that is wanted there",
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
