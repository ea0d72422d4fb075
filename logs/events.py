"""The events of the service log; a test checks that no other name is logged.

A name is the thing, a dot, and what happened to it. What else is known goes into the line's other
fields, so that a name can be searched for, counted and alarmed on.
"""

from __future__ import annotations

from typing import Final

# A variable of the environment that is named like a setting and is none.
CONFIGURATION_PASSED_OVER: Final = "configuration.passed_over"

# The node. `broker.listening` is the line that tools wait for: it has the address.
BROKER_STARTING: Final = "broker.starting"
BROKER_LISTENING: Final = "broker.listening"
BROKER_STOPPING: Final = "broker.stopping"
BROKER_STOPPED: Final = "broker.stopped"
# What a stop waits for; `timeout`: it does not wait for that any longer.
BROKER_STOP_WAITS: Final = "broker.stop_waits"
BROKER_STOP_TIMEOUT: Final = "broker.stop_timeout"
BROKER_FAILED: Final = "broker.failed"
# A signal that means nothing to the broker: it goes on.
BROKER_SIGNAL_IGNORED: Final = "broker.signal_ignored"
# Another signal to stop, later than a repeat of the first: it ends the process at once.
BROKER_SIGNAL_ENDS: Final = "broker.signal_ends"
# The line on standard output that says where it listens could not be written.
BROKER_UNHEARD: Final = "broker.unheard"

# A change of accounts or of the trace that a person has asked for.
CONTROL_REQUEST: Final = "control.request"
# Bindings of a definitions file that lack an end.
DEFINITIONS_PASSED_OVER: Final = "definitions.passed_over"
# One over HTTP that was not carried out: a wrong password, a tag that lacks, a broken request.
HTTP_REFUSED: Final = "http.refused"
HTTP_FAILED: Final = "http.failed"
# The API cannot be imported, or not be served; it is tried again.
HTTP_UNAVAILABLE: Final = "http.unavailable"

# Connections and channels. `refused`: before the vhost is open, with a `reason` if the login failed
# or the vhost may not be opened; `error`: the client broke a rule.
CONNECTION_OPENED: Final = "connection.opened"
CONNECTION_SECRET_UPDATED: Final = "connection.secret_updated"
CONNECTION_CLOSED: Final = "connection.closed"
CONNECTION_REFUSED: Final = "connection.refused"
CONNECTION_ERROR: Final = "connection.error"
CONNECTION_FAILED: Final = "connection.failed"
CHANNEL_CLOSED: Final = "channel.closed"

# A signal has had the files of TLS read again; `refused`: they cannot be used, the old ones stay.
CERTIFICATES_RENEWED: Final = "certificates.renewed"
CERTIFICATES_REFUSED: Final = "certificates.refused"

# The TLS port cannot accept: no more file descriptors.
LISTENER_FAILING: Final = "listener.failing"

# A direct reply for a channel that has ended, or does not read: nobody keeps it.
REPLY_DROPPED: Final = "reply.dropped"

# The disk's free space is below disk_free_bytes_min, or no longer, or could not be asked for.
# `full`: a write has found no space, and its publishes are nacked.
DISK_LOW: Final = "disk.low"
DISK_FULL: Final = "disk.full"
# No room can be kept for the day on which there is no other.
DISK_NO_RESERVE: Final = "disk.no_reserve"
DISK_ENOUGH: Final = "disk.enough"
DISK_UNKNOWN: Final = "disk.unknown"

# The queues hold more in memory than memory_alarm_bytes, or no longer.
MEMORY_HIGH: Final = "memory.high"
MEMORY_ENOUGH: Final = "memory.enough"

# The disk is full, also for the catalog: changes of durable topology or of accounts are refused.
CATALOG_REFUSED: Final = "catalog.refused"

# Our own faults: an actor died, and what it owed was nacked or closed.
ACTOR_FAILED: Final = "actor.failed"
QUEUE_FAILED: Final = "queue.failed"

# Messages are dropped because they would go round between queues for ever; told once.
QUEUE_DEAD_LETTER_CYCLE: Final = "queue.dead_letter_cycle"

# A start reads the journal, and it takes long: so many bytes of so many.
JOURNAL_READING: Final = "journal.reading"
# What the journal's recovery found, at every start; all but `recovered` name a place, and a cost in
# entries of queues where it is known. `torn` and `truncated`: a crash came while it was written.
# `ignored`: a file that is none of ours. `undiscarded`: a file that nobody needs cannot be removed.
JOURNAL_RECOVERED: Final = "journal.recovered"
JOURNAL_TRUNCATED: Final = "journal.truncated"
JOURNAL_DAMAGED: Final = "journal.damaged"
JOURNAL_MISSING: Final = "journal.missing"
JOURNAL_LOST: Final = "journal.lost"
JOURNAL_DROPPED: Final = "journal.dropped"
JOURNAL_TORN: Final = "journal.torn"
JOURNAL_IGNORED: Final = "journal.ignored"
JOURNAL_UNDISCARDED: Final = "journal.undiscarded"

# A segment was rewritten without its dead entries; or stays, and why.
JOURNAL_COMPACTED: Final = "journal.compacted"
JOURNAL_NOT_COMPACTED: Final = "journal.not_compacted"

# The trace could not be written, or can again; events are dropped and counted until it can.
TRACE_FAILED: Final = "trace.failed"
TRACE_RESUMED: Final = "trace.resumed"
# Somebody has removed the file of the ring: there is another one.
TRACE_RING_REPLACED: Final = "trace.ring_replaced"

# A killed broker left events in its trace's ring: they are in its trace now; `damaged`: so many
# bytes there are no events, as a loss of power may leave them.
TRACE_SALVAGED: Final = "trace.salvaged"
TRACE_DAMAGED: Final = "trace.damaged"

# So many events of the trace are dropped: its disk is too slow, stalled or full.
TRACE_LOST: Final = "trace.lost"

# Reading with Spark, in the driver and its source process. `waits`: a batch waits for a broker that
# cannot be reached; `unacked_lost`: a connection went while a batch was processed, whose rows will
# come again; `replayed`: a batch that another process began is empty here, its messages come back;
# `not_drained`: fewer messages came than there were; `passed_over`: a broker could not be reached
# for reconnectTimeoutMs, and the others are read; `spool_torn`: a file that the process before did
# not finish writing is removed, the broker has its messages; `spool_resumed`: a range is in the
# spool that Spark has not committed, and is read from there.
SPARK_SOURCE_WAITS: Final = "spark.source.waits"
SPARK_SOURCE_CONNECTION_LOST: Final = "spark.source.connection_lost"
SPARK_SOURCE_UNACKED_LOST: Final = "spark.source.unacked_lost"
SPARK_SOURCE_REPLAYED: Final = "spark.source.replayed"
SPARK_SOURCE_NOT_DRAINED: Final = "spark.source.not_drained"
SPARK_SOURCE_PASSED_OVER: Final = "spark.source.passed_over"
SPARK_SOURCE_SMALL_PREFETCH: Final = "spark.source.small_prefetch"
SPARK_SOURCE_SPOOL_TORN: Final = "spark.source.spool_torn"
SPARK_SOURCE_SPOOL_RESUMED: Final = "spark.source.spool_resumed"

# Spark's sink, on the driver: what became of a batch's rows; of one that failed, as far as known.
# In a worker: a task waits for a broker that cannot be reached; a task's try fails, with the rows
# that it had published.
SPARK_SINK_BATCH: Final = "spark.sink.batch"
SPARK_SINK_ABORTED: Final = "spark.sink.aborted"
SPARK_SINK_WAITS: Final = "spark.sink.waits"
SPARK_SINK_TRY_FAILED: Final = "spark.sink.try_failed"

# The firehose: copies of traced messages wait for more than firehose_backlog_bytes_max, so further
# ones are dropped; so many were dropped.
FIREHOSE_DROPPING: Final = "firehose.dropping"
FIREHOSE_DROPPED: Final = "firehose.dropped"

# The log itself: so many lines could not be written.
LOG_LOST: Final = "log.lost"

EVENTS: Final = frozenset(
    value for name, value in list(globals().items()) if name.isupper() and isinstance(value, str)
)
