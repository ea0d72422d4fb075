"""All messages that actors send each other.

Immutable, and in batches: one message per socket read and target, never one per AMQP message. In
the order of a publish's life, then of a delivery's, then the commands. Each docstring begins with
sender -> receiver. Messages name a queue by its QueueDefinition, a channel by its actor reference.
docs/ARCHITECTURE.md shows the way of a publish, a delivery, an ack and a declare through them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pykka import ActorRef

from ..amqp_frames.errors import AmqpError
from ..amqp_frames.messages.batch import Batch, Indexes
from ..amqp_frames.methods import Method
from ..amqp_frames.values.field_table import Table
from ..core.channel.transaction import Part
from ..core.connection.channel_credit import ChannelCredit
from ..core.connection.outlet import Outlet, OutletShare, RepliesShare
from ..core.connection.reading_time import ReadingTime
from ..core.dead_letters.letters import Dead
from ..core.definitions import QueueDefinition
from ..core.nsq.session import State
from ..core.nsq.topics import TopicAction
from ..core.queue.consumers import Consumer
from ..core.queue.deferral import Delays
from ..core.queue.in_flight import Delivery
from ..core.queue.sizing import SizedRow
from ..core.users.access import Access
from ..core.users.login_attempts import LoginCounts
from ..core.users.login_checks import PasswordCheck
from ..core.users.login_results import LoginResult
from ..storage.journal.identity_runs import Identities
from ..storage.journal.reading import ReadRow

Ref = ActorRef[Any]

# --- Transport -> Reader; the bytes of a socket read are a message of their own


class ConnectionLost(NamedTuple):
    """Transport -> Reader: the socket is closed, whoever closed it."""

    reason: str


class InputEnded(NamedTuple):
    """Transport -> NSQ connection: the client sends nothing more, and may still read."""


class WriteBuffer(NamedTuple):
    """Transport -> Reader -> Writer: the write buffer is over its high mark, or has room again."""

    is_full: bool


# --- Logins


class LogIn(NamedTuple):
    """Reader or an HTTP request -> Logins: may this user log in from this address?

    Answered with LoginAnswer.
    """

    reader: Ref
    host: str
    user: str
    # None: a certificate has said who it is.
    password: str | None
    # Where it is counted (core/users/login_attempts.py); "": nowhere.
    protocol: str = ""

    def __repr__(self) -> str:
        """Without the password, wherever it is shown."""
        return f"LogIn(host={self.host!r}, user={self.user!r})"


class LoginAnswer(NamedTuple):
    """Logins -> Reader or an HTTP request."""

    result: LoginResult


class AskLoginAttempts(NamedTuple):
    """HTTP request -> Logins: answered with LoginAttemptsAnswer; `forget` begins again at none."""

    reply_to: Ref
    forget: bool = False


class LoginAttemptsAnswer(NamedTuple):
    """Logins -> HTTP request."""

    counts: dict[str, LoginCounts]


class PasswordChecked(NamedTuple):
    """A thread of Logins' -> Logins."""

    check: PasswordCheck
    is_right: bool
    # A new hash to store in place of the checked one; empty: the checked one stays.
    new_hash: str = ""


class WriteStalled(NamedTuple):
    """Writer -> Reader: the client has taken nothing for two heartbeat intervals."""


class AlarmCleared(NamedTuple):
    """DiskWatch, MemoryWatch -> Listener, Readers: there is no alarm any more.

    DiskWatch -> DeadLetterPublisher, Broker: there is room on the disk again.
    """


class LookAtMemory(NamedTuple):
    """Queue -> MemoryWatch: what all queues hold has become too much, or is no longer."""

    held_bytes: int


# --- Reader -> Channel


class Command(NamedTuple):
    """Reader -> Channel: a method. `window_bytes` return to the window when it is carried out."""

    method: Method
    window_bytes: int = 0


class OversizedPublish(NamedTuple):
    """Reader -> Channel: a publish above the size limit, whose body the decoder has dropped."""

    body_bytes: int
    is_immediate: bool


# --- Channel -> Queue -> Journal, and the confirm back


class Publish(NamedTuple):
    """Channel, DeadLetterPublisher -> Queue: messages, as a batch and the queue's own indexes."""

    channel: Ref
    batch: Batch
    indexes: Indexes
    # For how long they are deferred, in milliseconds, 0 for not at all: all of them, or by their
    # index in the batch.
    delays_ms: Delays = 0
    # Other queues get messages of the batch, too.
    is_shared: bool = False


class Append(NamedTuple):
    """Queue -> Journal: persistent messages of a durable queue, confirmed when on the disk."""

    queue: Ref
    queue_id: int
    # Who published these messages, as in Publish: whom to answer.
    publishes: Sequence[tuple[Ref, Batch, Indexes]]
    batch: Batch
    indexes: Indexes
    entry_ids: range | array[int]
    # When they expire, in milliseconds since the epoch: all of them, or aligned; 0 is never.
    deadlines: int | array[int] = 0
    # Of a queue with a dedup window.
    identities: Identities | None = None
    # Until when they are deferred, as the deadlines; 0: they are ready at once.
    due_times: int | array[int] = 0


class Persisted(NamedTuple):
    """Journal, Disk -> Queue: these appends of the queue have been through fdatasync."""

    appends: Sequence[Append]


class Unstored(NamedTuple):
    """Journal -> Queue: there is no room on the disk for these appends, and nothing of them there.

    Their publishers are nacked, and the queue takes the messages out again.
    """

    appends: Sequence[Append]


# --- Messages that a queue does not hold in memory: read back from the journal, or from spill files


class ReadEntries(NamedTuple):
    """Queue -> Journal: read these entries back; answered with EntriesRead by the PageReader.

    `ranges` ascend, and Persisted has told of the entries. About `bytes_max` of messages are read
    at once, one at least. `only_sizes`: the answer is EntriesSized instead.
    """

    queue: Ref
    queue_id: int
    ranges: Sequence[tuple[int, int]]
    bytes_max: int
    only_sizes: bool = False


class EntriesRead(NamedTuple):
    """PageReader -> Queue, Journal: of the entries asked for, those up to the id `through`.

    `rows` ascend. `lost`: these are live, and no record that verifies holds them. Entries asked for
    that are in neither, up to `through`, are not there: they were settled before.
    """

    rows: Sequence[ReadRow]
    lost: Sequence[tuple[int, int]]
    through: int


class EntriesSized(NamedTuple):
    """PageReader -> Queue: as EntriesRead, with the sizes of the bodies and nothing else."""

    rows: Sequence[SizedRow]
    lost: Sequence[tuple[int, int]]
    through: int


class SpillEntries(NamedTuple):
    """Queue -> PageReader: write these messages to spill files; answered with EntriesSpilled.

    The rows ascend. Of an entry that is spilled again the last time counts. Nothing is synced: a
    start removes the files.
    """

    queue: Ref
    queue_id: int
    rows: Sequence[ReadRow]


class EntriesSpilled(NamedTuple):
    """PageReader -> Queue: the answer to one SpillEntries, in order; `ranges` are all its entries.

    `failed`: they are in no file, so the queue goes on to hold them.
    """

    ranges: Sequence[tuple[int, int]]
    failed: bool


class ReadSpilled(NamedTuple):
    """Queue -> PageReader: as ReadEntries, of spilled entries, with the same answers."""

    queue: Ref
    queue_id: int
    ranges: Sequence[tuple[int, int]]
    bytes_max: int
    only_sizes: bool = False


class DropSpilled(NamedTuple):
    """Queue -> PageReader: these entries are settled; None: the queue is no more."""

    queue_id: int
    ranges: Sequence[tuple[int, int]] | None


class PageOut(NamedTuple):
    """Queue -> Queue: all queues hold too much; page, but for so many bytes at the head."""

    kept_bytes: int


# --- Room on the disk


class WatchedBy(NamedTuple):
    """DiskWatch -> Journal, Catalog: this actor learns of the state of the disk."""

    watch: Ref


class ReportsTo(NamedTuple):
    """Broker -> Journal, Journal -> Maintenance: damage is to be told to this actor, too."""

    listener: Ref


class SegmentDamaged(NamedTuple):
    """Maintenance -> Journal: something in this closed segment does not verify."""

    segment: int


class EntriesLost(NamedTuple):
    """Journal -> Broker -> Queue: no record that verifies holds these, whose ranges ascend.

    The log has them already.
    """

    queue_id: int
    ranges: Sequence[tuple[int, int]]


class LookAtDisk(NamedTuple):
    """Journal -> DiskWatch: much was written since the last look, or segments were removed."""


class DiskFull(NamedTuple):
    """Journal, Catalog -> DiskWatch: a write has met a full disk. `reason` names the file."""

    reason: str


class SeekRoom(NamedTuple):
    """DiskWatch -> Journal: so much is free; refill the reserve, and write the records that wait
    for room.

    `full_count`: how often a full disk had been met by then.
    """

    free_bytes: int
    full_count: int = 0


class DiskHasRoom(NamedTuple):
    """Journal -> DiskWatch: the reserve has what there is room for, and nothing waits.

    `full_count` is that of the SeekRoom: a result from before the disk was full proves nothing.
    """

    full_count: int = 0


# --- Queue -> Channel


class Confirm(NamedTuple):
    """Queue -> Channel, DeadLetterPublisher: it has these messages, as (batch, indexes) pairs."""

    queue: QueueDefinition
    items: Sequence[tuple[Batch, Indexes]]


class Reject(NamedTuple):
    """Queue -> Channel, DeadLetterPublisher: it refuses these messages.

    Its limits say so, it failed or was deleted.

    `reason` is for the trace: AMQP cannot carry it. `is_for_now`: the queue has no objection, and
    would take them once there is room on the disk.
    """

    queue: QueueDefinition
    items: Sequence[tuple[Batch, Indexes]]
    reason: str = ""
    is_for_now: bool = False


class Absorbed(NamedTuple):
    """Channel, LeftPublishes -> Reader: a publish window has room again, the connection's or the
    node's."""


class RoundOver(NamedTuple):
    """ReadRounds -> Reader: the round in which the connection has had its share is over."""


# --- Queue -> Channel -> Writer, and the ack back


class TimedOut(NamedTuple):
    """Queue -> Channel: these parts were not answered in time, and are the queue's again.

    Or they have gone from the queue, which `was_emptied`.
    """

    parts: list[Part]
    was_emptied: bool = False


class Deliver(NamedTuple):
    """Queue -> Channel: messages for one consumer."""

    consumer: Consumer
    deliveries: Sequence[Delivery]


class DeliverReplies(NamedTuple):
    """Channel -> Channel: direct replies for the reply consumer of this name, if it still is."""

    name: str
    batch: Batch
    indexes: Sequence[int]


class WriteDeliveries(NamedTuple):
    """Channel -> Writer: frames that windows count until the socket takes them.

    Then `window_bytes` of the outlet are given back, and of the `consumer` that got them; its
    `queue` is told if it waits for that. None for basic.get and for direct replies.
    """

    frames: Sequence[bytes]
    outlet: Outlet | OutletShare | RepliesShare
    window_bytes: int
    queue: Ref | None
    consumer: Consumer | None


class Sent(NamedTuple):
    """Writer -> Queue: the socket took what kept the consumer from getting more."""

    consumer: Consumer


class Settle(NamedTuple):
    """Channel -> Queue: acked; or for another reason, which is for the trace."""

    channel: Ref
    parts: Sequence[Part]
    reason: str = "acked"


class Requeue(NamedTuple):
    """Channel -> Queue: given back undone."""

    channel: Ref
    parts: Sequence[Part]
    # For how long they are deferred; None: as the queue's arguments say; 0: not at all.
    delay_ms: int | None = None


class Touch(NamedTuple):
    """Channel -> Queue: its client works on these parts still; their time in flight begins anew."""

    channel: Ref
    parts: Sequence[Part]
    # How far behind the delivery it ends at the latest; None: the setting touched_timeout_ms_max.
    timeout_ms_max: int | None = None


class Discard(NamedTuple):
    """Channel -> Queue: rejected for good."""

    channel: Ref
    parts: Sequence[Part]


class RecordDeliveries(NamedTuple):
    """Queue -> Journal: ranges of entry ids delivered and settled; nobody waits for them."""

    queue_id: int
    delivered: Sequence[tuple[int, int]]
    settled: Sequence[tuple[int, int]]
    # First and last entry id, and until when they are deferred, in milliseconds since the epoch.
    deferred: Sequence[tuple[int, int, int]] = ()


class ForgetIdentities(NamedTuple):
    """Queue -> Journal: its dedup window remembers no entry with an id below this.

    `for_good`: it has no window any more, and one that it gets later begins with nothing.
    """

    queue_id: int
    below: int
    for_good: bool = False


class CommitMore(NamedTuple):
    """Channel -> itself: go on with a tx.commit, after others have had a turn."""


class RouteMore(NamedTuple):
    """RoutingTurns -> Channel, NSQ connection, DeadLetterPublisher: go on with begun routing."""


# --- Dead letters: the publisher of them tells queues Publish and is told Confirm and Reject


class PublishDead(NamedTuple):
    """Queue -> DeadLetterPublisher: messages that left the queue, and why; not settled yet."""

    queue: QueueDefinition
    dead: Sequence[Dead]


class DeadLettersSafe(NamedTuple):
    """DeadLetterPublisher -> Queue: these entries, as ranges, are to be settled now.

    `traced`: the traced messages among them, those that the journal does not know included, and
    why each may go.
    """

    ranges: Sequence[tuple[int, int]]
    traced: Sequence[tuple[Batch, Indexes, str]] = ()


# --- Consumers


class AddConsumer(NamedTuple):
    """Channel -> Queue: answered with ConsumerAdded or Refused."""

    consumer: Consumer
    channel: Ref


class ConsumerAdded(NamedTuple):
    """Queue -> Channel: deliveries may follow."""

    consumer: Consumer


class RemoveConsumer(NamedTuple):
    """Channel -> Queue: basic.cancel; answered with ConsumerRemoved."""

    channel: Ref
    consumer_tag: bytes


class SetReadyCount(NamedTuple):
    """NSQ connection -> Queue: RDY; so many messages may be in flight to the consumer from now on.

    NOTHING of core/queue/consumers.py: none.
    """

    consumer: Consumer
    ready_count: int


class ConsumerRemoved(NamedTuple):
    """Queue -> Channel: nothing more will be delivered to it."""

    consumer_tag: bytes


class ConsumerCancelled(NamedTuple):
    """Queue -> Channel: the queue is gone, and the consumer with it."""

    queue: QueueDefinition
    consumer_tag: bytes


class Get(NamedTuple):
    """Channel -> Queue: basic.get; answered with GetAnswer. `reading`: the connection's."""

    channel: Ref
    no_ack: bool
    reading: ReadingTime


class GetAnswer(NamedTuple):
    """Queue -> Channel: the message, if there is one, and how many are left."""

    delivery: Delivery | None
    message_count: int


class CreditOffered(NamedTuple):
    """Channel or Queue -> Queue: the channel's credit has room for the queue, which waited for it.

    The queue returns what it does not use, for the next queue that waits.
    """

    channel: Ref
    credit: ChannelCredit


class OutletOpened(NamedTuple):
    """Writer or Channel -> Queue or Channel: a connection's outlet has room again.

    To a channel because its basic.get has waited for it.
    """


class ChannelDown(NamedTuple):
    """Channel -> Queue: the channel is gone; its consumers go, its messages in flight return."""

    channel: Ref


# --- Questions to a queue, each answered to `reply_to`


class ReportStatus(NamedTuple):
    """Channel, Control, Broker -> Queue: how many messages and consumers? Answered with Status.

    `holds`: a delete depends on the counts. From the answer on, the queue holds back new messages
    until Delete or Resume, so that it confirms nothing that the counts do not know.
    """

    reply_to: Ref
    holds: bool = False


class Status(NamedTuple):
    """Queue -> Channel, Control, Broker: its counts."""

    queue: QueueDefinition
    message_count: int
    consumer_count: int
    unacked_count: int = 0
    # Has a queue with x-expires been unused for too long?
    is_lease_over: bool = False
    deferred_count: int = 0


class Purge(NamedTuple):
    """Channel -> Queue: drop the ready messages; answered with Purged, once that is on disk."""

    reply_to: Ref


class Empty(NamedTuple):
    """Broker -> Queue: drop all messages that NSQ's clients see, those in flight, too.

    Answered with TopicAnswer, once that is on disk.
    """

    reply_to: Ref
    token: object


class Purged(NamedTuple):
    """Queue, or for it Journal or Disk -> Channel: so many messages were dropped."""

    message_count: int


class SettleSynced(NamedTuple):
    """Queue -> Journal: settle these entries and sync; then `answer` is told to `reply_to`.

    Not by way of the queue, which may be gone by then.
    """

    queue_id: int
    ranges: Sequence[tuple[int, int]]
    reply_to: Ref
    answer: object


class ChannelLeft(NamedTuple):
    """Channel -> LeftPublishes: it has ended; so many bytes that it was handed may be on their way
    to the disk."""

    unabsorbed_bytes: int


class LeftAbsorbed(NamedTuple):
    """Journal -> LeftPublishes: so many bytes of ended channels are on the disk."""

    absorbed_bytes: int


class AskJournal(NamedTuple):
    """HTTP requests, LeftPublishes -> Journal: tell `answer` to `reply_to` behind the next
    commit."""

    reply_to: Ref
    answer: object


class JournalAnswers(NamedTuple):
    """Journal -> an HTTP request: it has written all that it was told before it was asked."""


class Resume(NamedTuple):
    """Broker -> Queue: it is not deleted; go on."""


class Delete(NamedTuple):
    """Broker -> Queue: nack the owed confirms, cancel the consumers, stop."""


class DropQueue(NamedTuple):
    """Queue -> Journal: nothing of this queue is needed any more."""

    queue_id: int


# --- Topology


class TopologyCommand(NamedTuple):
    """Channel -> Broker: declare, delete, bind or unbind; answered with TopologyAnswer."""

    channel: Ref
    connection: Ref
    access: Access
    method: Method


class TopologyAnswer(NamedTuple):
    """Broker -> Channel: the -ok method, or why not."""

    answer: Method | AmqpError
    # The queue that a queue.declare found or made; `asks_queue`: it was there, so it is asked
    # for its counts before the answer is written.
    queue: QueueDefinition | None = None
    asks_queue: bool = False


class TopicCommand(NamedTuple):
    """NSQ connection, HTTP -> Broker: change a topic or a channel; answered with TopicAnswer.

    No answer follows if the connection has ended. `channel` is "" where the action needs none;
    names are valid ones of NSQ's.
    """

    reply_to: Ref
    connection: Ref
    access: Access
    action: TopicAction
    topic: str
    channel: str = ""
    token: object = None


class TopicAnswer(NamedTuple):
    """Broker -> NSQ connection, HTTP: it is done, and on disk where it is durable; or why not.

    Queue, or for it Journal or Disk -> the same, if it was emptied. `queue` is the channel's.
    """

    token: object
    error: AmqpError | None = None
    queue: QueueDefinition | None = None


class StopMoving(NamedTuple):
    """Broker -> TopicMover: the topic keeps its messages again, or they have gone with it."""


class QueueUnused(NamedTuple):
    """Queue -> Broker: the last consumer of an auto-delete queue has gone, or its lease is over.

    TopicMover -> Broker: a topic's hidden queue is empty.
    """

    queue: QueueDefinition
    has_expired: bool = False


class RenewLease(NamedTuple):
    """Broker -> Queue: it has been declared again."""


class NextSlice(NamedTuple):
    """Broker -> Broker: go on with a task that has let the event loop do other work."""


class QueueFailed(NamedTuple):
    """Queue -> Broker: its actor died of an exception."""

    queue: QueueDefinition


class ConnectionDown(NamedTuple):
    """Reader -> Broker: delete the connection's exclusive queues; answered with QueuesDeleted."""

    connection: Ref
    reader: Ref


class QueuesDeleted(NamedTuple):
    """Broker -> Reader: the connection's exclusive queues are gone."""


class Commit(NamedTuple):
    """Broker -> Catalog: make these changes durable; answered with Committed or Refused."""

    reply_to: Ref
    changes: Sequence[Any]


class Committed(NamedTuple):
    """Catalog -> Broker: the changes are on disk."""


# --- Accounts and reports


class NsqReport(NamedTuple):
    """What nsqd's figures show of a client. `queue` is its channel's name, "" before a SUB."""

    # As IDENTIFY calls them; empty before one.
    client_names: Mapping[str, str]
    queue: str
    state: State
    sample_rate: int
    deflate: bool
    snappy: bool


class ReportChannel(NamedTuple):
    """Control -> Channel: answered with ChannelReport."""

    reply_to: Ref


class ChannelReport(NamedTuple):
    """Channel -> Control: its counts, by their names; `nsq` is what only an NSQ connection has."""

    channel: Ref
    counts: dict[str, object]
    nsq: NsqReport | None = None


class AccountRequest(NamedTuple):
    """Control -> Broker: change users, vhosts or permissions; answered with ControlAnswer."""

    reply_to: Ref
    token: object
    name: str
    arguments: Mapping[str, object]


class PauseRequest(NamedTuple):
    """Control, HTTP -> Broker: pause or resume a queue; answered with ControlAnswer."""

    reply_to: Ref
    token: object
    vhost: str
    queue: str
    is_paused: bool


class ImportRequest(NamedTuple):
    """Control, HTTP -> Broker: carry out a definitions file; answered with ControlAnswer.

    With `vhost` all that the file has is that vhost's.
    """

    reply_to: Ref
    token: object
    text: str
    vhost: str | None = None


class SetPaused(NamedTuple):
    """Broker -> Queue: deliver nothing from now on, or deliver again."""

    is_paused: bool


class Renamed(NamedTuple):
    """Broker -> Queue: the definition has another name from now on; for the trace."""

    name_before: str


class SetArguments(NamedTuple):
    """Broker -> Queue: these arguments, which were checked, are in effect from now on.

    All of them: a name that is missing is no longer in effect. `QueueDefinition.effective` has them
    already.
    """

    arguments: Table


class ControlAnswer(NamedTuple):
    """Broker -> Control, HTTP: it is done, and on disk where it is durable; or why not.

    `is_missing`: the request names something that is not there.
    """

    token: object
    error: str = ""
    is_missing: bool = False


# --- Closing and failing


class Refused(NamedTuple):
    """Queue -> Channel, Broker; Catalog -> Broker: the command cannot be carried out."""

    error: AmqpError


class ChannelClosed(NamedTuple):
    """Channel -> Reader: the client closed it, or its connection; its number is free."""

    channel_number: int


class ChannelFailed(NamedTuple):
    """Channel -> Reader: close the channel, or for a HardError the connection, for this."""

    channel_number: int
    error: AmqpError


class Down(NamedTuple):
    """Any actor -> its parent: it died of an exception of ours."""

    actor: Ref
    what: str


class Release(NamedTuple):
    """Reader -> Channel: the connection is ending."""


class Finish(NamedTuple):
    """Reader -> Channel: the client has closed its connection; end behind all earlier messages."""


class Shutdown(NamedTuple):
    """Node -> Listener and Readers: say 320 to the client, with this reason, and end."""

    reason: str = "broker forced connection closure with reason 'shutdown'"


class Abandon(NamedTuple):
    """Node -> Listener and Readers: drop the connection without a word."""


class Evict(NamedTuple):
    """Listener -> Reader: another client needs the place, unless the vhost is open by now."""

    limit: str


# --- Writer and Ticker


class CloseTransport(NamedTuple):
    """Reader -> Writer: write the rest, then close the socket."""


class Flush(NamedTuple):
    """NSQ connection -> Writer: write what you have; answered with Flushed."""


class Flushed(NamedTuple):
    """Writer -> NSQ connection: all that it was told before is with the transport."""


class Upgraded(NamedTuple):
    """A task of the event loop -> NSQ connection: TLS's handshake is over; None: it has failed."""

    transport: object


class StartHeartbeats(NamedTuple):
    """Reader -> Writer: write a heartbeat in each interval in which nothing else is written.

    An interval of 0 writes none from now on.
    """

    interval_seconds: float


class WakeAt(NamedTuple):
    """Any actor -> Ticker: tell `token` back as Woken at `when`, on the scheduler's clock.

    It takes the place of one that the actor has made for the token before.
    """

    when: float
    actor: Ref
    token: object


class Woken(NamedTuple):
    """Ticker -> actor: the time has come."""

    token: object
