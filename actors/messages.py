"""The whole vocabulary of the actors: what they tell each other.

Immutable, and in batches: one message per socket read and target, never one per AMQP message. In
the order of a publish's life, then of a delivery's, then the commands. Queues are named by their
QueueDefinition, channels by their actor reference.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pykka import ActorRef

from ..amqp_frames.batch import Batch, ChannelInput, Indexes
from ..amqp_frames.errors import AmqpError
from ..amqp_frames.methods import Method
from ..core.access import Access
from ..core.consumers import Consumer
from ..core.definitions import QueueDefinition
from ..core.in_flight import Delivery
from ..core.login_checks import PasswordCheck
from ..core.outlet import OutletShare
from ..core.pending_letters import Dead
from ..core.unacked import Part
from ..storage.identity_runs import Identities

Ref = ActorRef[Any]

# --- Transport -> Reader; the bytes of a socket read are told as they are


class ConnectionLost(NamedTuple):
    """The socket is closed, whoever closed it."""

    reason: str


class WriteBuffer(NamedTuple):
    """The transport's write buffer has run over its high mark, or is empty enough again."""

    is_full: bool


# --- Logins


class LogIn(NamedTuple):
    """Reader, HttpConnection -> Logins: may this user log in from this address?

    Answered with LoginAnswer.
    """

    reader: Ref
    host: str
    user: str
    # None: a certificate has said who it is.
    password: str | None

    def __repr__(self) -> str:
        """Without the password, wherever it is shown."""
        return f"LogIn(host={self.host!r}, user={self.user!r})"


class LoginAnswer(NamedTuple):
    """Logins -> Reader, HttpConnection."""

    is_allowed: bool


class PasswordChecked(NamedTuple):
    """A thread of Logins' -> Logins."""

    check: PasswordCheck
    is_right: bool


class WriteStalled(NamedTuple):
    """Writer -> Reader: the client has taken nothing for two heartbeat intervals."""


class AlarmCleared(NamedTuple):
    """DiskWatch -> Listener and Readers: publishers may be read again."""


# --- Reader -> Channel


class Input(NamedTuple):
    """What one read brought: publishes, then acks."""

    channel_input: ChannelInput


class Command(NamedTuple):
    """A method for the channel; `window_bytes` are given back when it is carried out."""

    method: Method
    window_bytes: int = 0


class OversizedPublish(NamedTuple):
    """A publish above the size limit, whose body was not kept."""

    body_bytes: int
    is_immediate: bool


# --- Channel -> Queue -> Journal, and the confirm back


class Publish(NamedTuple):
    """Messages for a queue: the batch and the indexes that are the queue's."""

    channel: Ref
    batch: Batch
    indexes: Indexes


class Append(NamedTuple):
    """Persistent messages of a durable queue, to be on disk before they are confirmed."""

    queue: Ref
    queue_id: int
    channel: Ref
    batch: Batch
    indexes: Indexes
    entry_ids: range | array[int]
    # When they expire, in milliseconds since the epoch: all of them, or aligned; 0 is never.
    deadlines: int | array[int] = 0
    # Of a queue with a dedup window.
    identities: Identities | None = None


class Persisted(NamedTuple):
    """These appends of one queue have been through fdatasync."""

    appends: Sequence[Append]


class Confirm(NamedTuple):
    """A queue has these messages: (batch, indexes) pairs."""

    queue: QueueDefinition
    items: Sequence[tuple[Batch, Indexes]]


class Reject(NamedTuple):
    """A queue will not have these messages: its limits say so, it failed or was deleted.

    `reason` is for the trace: AMQP cannot carry it.
    """

    queue: QueueDefinition
    items: Sequence[tuple[Batch, Indexes]]
    reason: str = ""


class Absorbed(NamedTuple):
    """Channel -> Reader: the publish window has room again; after a burst, from the event loop."""


# --- Queue -> Channel -> Writer, and the ack back


class Deliver(NamedTuple):
    """Messages for one consumer."""

    consumer: Consumer
    deliveries: Sequence[Delivery]


class DeliverReplies(NamedTuple):
    """Channel -> Channel: direct replies for the reply consumer of this name, if it still is."""

    name: str
    batch: Batch
    indexes: Sequence[int]


class WriteDeliveries(NamedTuple):
    """Channel -> Writer: frames that windows count until the socket takes them.

    Then `window_bytes` of the outlet are given back, and `answer` is told to the queue that a
    consumer got them from; None for basic.get and for direct replies.
    """

    frames: Sequence[bytes]
    outlet: OutletShare
    window_bytes: int
    queue: Ref | None
    answer: Sent | None


class Sent(NamedTuple):
    """Writer -> Queue: the socket took what the consumer was handed."""

    consumer: Consumer
    window_bytes: int


class Settle(NamedTuple):
    """Channel -> Queue: acked."""

    channel: Ref
    parts: Sequence[Part]


class Requeue(NamedTuple):
    """Channel -> Queue: given back undone."""

    channel: Ref
    parts: Sequence[Part]


class Discard(NamedTuple):
    """Channel -> Queue: rejected for good."""

    channel: Ref
    parts: Sequence[Part]


class RecordDeliveries(NamedTuple):
    """Queue -> Journal: ranges of entry ids delivered and settled; nobody waits for them."""

    queue_id: int
    delivered: Sequence[tuple[int, int]]
    settled: Sequence[tuple[int, int]]


class ForgetIdentities(NamedTuple):
    """Queue -> Journal: its dedup window remembers no entry with an id below this."""

    queue_id: int
    below: int


class CommitMore(NamedTuple):
    """Channel -> itself: go on with a tx.commit, after others have had a turn."""


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


class ConsumerRemoved(NamedTuple):
    """Queue -> Channel: nothing more will be delivered to it."""

    consumer_tag: bytes


class ConsumerCancelled(NamedTuple):
    """Queue -> Channel: the queue is gone, and the consumer with it."""

    consumer_tag: bytes


class Get(NamedTuple):
    """Channel -> Queue: basic.get; answered with GetAnswer."""

    channel: Ref
    no_ack: bool


class GetAnswer(NamedTuple):
    """Queue -> Channel: the message, if there is one, and how many are left."""

    delivery: Delivery | None
    message_count: int


class CreditChanged(NamedTuple):
    """Channel or Writer -> Queue: the channel's global prefetch, or the outlet, has room again.

    To a channel, whose basic.get has waited for it, too. None: it is the outlet, of all channels.
    """

    channel: Ref | None = None


class ChannelDown(NamedTuple):
    """Channel -> Queue: the channel is gone; its consumers go, what it held comes back."""

    channel: Ref


# --- Questions to a queue, each answered to `reply_to`


class ReportStatus(NamedTuple):
    """How many messages are ready, how many consumers there are; answered with Status."""

    reply_to: Ref


class Status(NamedTuple):
    """A queue's counts."""

    queue: QueueDefinition
    message_count: int
    consumer_count: int
    unacked_count: int = 0
    # Has a queue with x-expires been unused for too long?
    is_lease_over: bool = False


class Purge(NamedTuple):
    """Drop what is ready; answered with Purged, once that is on disk."""

    reply_to: Ref


class Purged(NamedTuple):
    """So many messages were dropped."""

    message_count: int


class SettleSynced(NamedTuple):
    """Queue -> Journal: settle these entries and sync; then `answer` is told to `reply_to`.

    Not by way of the queue, which may be gone by then.
    """

    queue_id: int
    ranges: Sequence[tuple[int, int]]
    reply_to: Ref
    answer: object


class AskJournal(NamedTuple):
    """HttpConnection -> Journal: `answer` is told to `reply_to` behind the next commit."""

    reply_to: Ref
    answer: object


class JournalAnswers(NamedTuple):
    """Journal -> HttpConnection: it has written all that it was told before it was asked."""


class PrepareDelete(NamedTuple):
    """Broker -> Queue: a delete depends on the counts; answered with Status.

    From the answer on, what comes is held back until Delete or Resume: nothing is confirmed that
    the counts do not know.
    """

    reply_to: Ref


class Resume(NamedTuple):
    """Broker -> Queue: it is not deleted; go on."""


class Delete(NamedTuple):
    """Broker -> Queue: nack what is owed, cancel the consumers, stop."""


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


class QueueUnused(NamedTuple):
    """Queue -> Broker: the last consumer of an auto-delete queue has gone, or its lease is over."""

    queue: QueueDefinition
    has_expired: bool = False


class RenewLease(NamedTuple):
    """Broker -> Queue: it has been declared again."""


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
    """Broker -> Catalog: make these changes durable; answered with Committed."""

    reply_to: Ref
    changes: Sequence[Any]


class Committed(NamedTuple):
    """Catalog -> Broker: the changes are on disk."""


# --- Accounts and reports


class ReportChannel(NamedTuple):
    """Control -> Channel: answered with ChannelReport."""

    reply_to: Ref


class ChannelReport(NamedTuple):
    """A channel's counts, by their names."""

    channel: Ref
    counts: dict[str, object]


class AccountRequest(NamedTuple):
    """Control -> Broker: change users, vhosts or permissions; answered with AccountAnswer."""

    reply_to: Ref
    token: object
    name: str
    arguments: Mapping[str, object]


class AccountAnswer(NamedTuple):
    """Broker -> Control: it is done, and on disk; or why not."""

    token: object
    error: str = ""


# --- Closing and failing


class Refused(NamedTuple):
    """Queue -> Channel: the command cannot be carried out."""

    error: AmqpError


class ChannelClosed(NamedTuple):
    """Channel -> Reader: the client closed it; its number is free."""

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


class Shutdown(NamedTuple):
    """Node -> Listener and Readers: say 320 to the client, with this reason, and end."""

    reason: str = "broker forced connection closure with reason 'shutdown'"


class Abandon(NamedTuple):
    """Node -> Listener and Readers: drop the connection without a word."""


# --- Writer and Ticker


class CloseTransport(NamedTuple):
    """Reader -> Writer: write what is left, then close the socket."""


class StartHeartbeats(NamedTuple):
    """Reader -> Writer: write a heartbeat in each interval in which nothing else is written."""

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
