"""The shared context of one node's actors: settings, the routing table, the actors above them.

It also defines the entry of an open connection, for reports and for closing it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..amqp_frames.decoder import Decoder
from ..core.alarms import Alarms, MemoryLevel
from ..core.connection.draining import Draining
from ..core.connection.handshake import ClientIdentity, Limits, ServerNames
from ..core.connection.outlet import NodeOutlet
from ..core.connection.peer import Peer, Subject
from ..core.connection.publish_window import NodeWindow
from ..core.connection.reading_time import ReadingTime
from ..core.connection.waiting_peers import Crowds, WaitingPeers
from ..core.publishing.reply_consumers import ReplyConsumers
from ..core.publishing.vhost_users import VhostUsers
from ..core.queue.memory_budget import MemoryBudget
from ..core.statistics.channel_counts import ChannelCounts
from ..core.statistics.confirm_latency import ConfirmLatency
from ..core.statistics.journal_figures import JournalFigures
from ..core.statistics.message_sizes import MessageSizes
from ..core.statistics.node_counts import NodeCounts
from ..core.statistics.traffic import Traffic
from ..core.topology.topology import Vhosts
from ..core.users.access import Access
from ..core.users.accounts import Accounts
from ..logs.trace.trace import Trace
from .messages import Ref
from .queue.shared_runs import SharedRuns
from .runtime.read_rounds import ReadRounds
from .runtime.routing_turns import RoutingTurns
from .runtime.runtime import Runtime


@dataclass(slots=True, eq=False)
class OpenConnection:
    """From its vhost's opening to its socket's end. `channels` is its reader's own dictionary.

    A channel whose close has not been answered is None.
    """

    peer: Peer
    handshake: ClientIdentity
    access: Access
    channels: Mapping[int, Ref | None]
    traffic: Traffic = field(default_factory=Traffic)
    # Of its channels that are open, by number.
    channel_counts: dict[int, ChannelCounts] = field(default_factory=dict)
    # Its reader's: is the socket read?
    reading: ReadingTime = field(default_factory=ReadingTime)
    opened_seconds: float = field(default_factory=time.time)


# Until frame_max is agreed: the offered value applies only after the login. RabbitMQ takes 4096
# octets, which long properties of a client may exceed.
OPENING_FRAME_BYTES_MAX: Final = 131_072


@dataclass(slots=True)
class NodeContext:
    """Made by the node before its actors; the references are filled in as they start."""

    runtime: Runtime
    # Exchanges and queues: changed by the broker's actor, read by all.
    vhosts: Vhosts
    limits: Limits
    server_names: ServerNames
    # Users, vhosts and permissions: read by all, changed by the broker's actor.
    accounts: Accounts
    # Whom a client certificate's subject names, for the mechanism EXTERNAL.
    certificate_name: Callable[[Subject], str]
    trace: Trace
    # The nanoseconds from the trace's clock to the wall clock; for any thread.
    wall_distance_ns: Callable[[], int]
    next_batch_number: Callable[[], int]
    message_size_max_bytes: int
    unfinished_publishes_bytes_max: int
    publish_window_bytes_max: int
    # Of all connections together.
    node_window: NodeWindow
    delivery_window_bytes_max: int
    # Of all connections together.
    node_outlet: NodeOutlet
    sweep_interval_bytes: int
    write_buffer_bytes_max: int
    transaction_bytes_max: int
    timed_out_ranges_max: int
    touched_timeout_ms_max: int
    reply_window_bytes_max: int
    # How much memory the messages of all queues may hold.
    memory_budget: MemoryBudget[Ref]
    # So much a queue has read at once, and ahead of its consumers, at most.
    read_ahead_bytes_max: int
    stranded_letters_max: int
    stranded_letters_bytes_max: int
    handshake_timeout_seconds: float
    close_timeout_seconds: float
    silent_close_delay_seconds: float
    # Connections that are closed and whose clients have not closed their sockets yet.
    draining: Draining[Ref]
    # Readers whose vhost is not open yet, and which of them gives way to a new one.
    unopened: WaitingPeers[Ref]
    unopened_connections_max: int
    connections_max: int
    sockets_above_connections_max: int
    file_descriptors_kept: int
    consumers_per_channel_max: int
    # An actor that the node cannot do without has failed.
    on_fatal: Callable[[str, BaseException], None]
    reply_consumers: ReplyConsumers
    # Connected users by vhost, with what they may do and where their publishes lead.
    vhost_users: VhostUsers
    # Who routes what takes long.
    routing_turns: RoutingTurns
    # How much each connection may bring until the others have been read.
    read_rounds: ReadRounds
    # Of all queues.
    shared_runs: SharedRuns
    broker: Ref
    ticker: Ref
    dead_letters: Ref
    left_publishes: Ref
    # Copies what traced vhosts publish and deliver.
    firehose: Ref
    journal: Ref
    # Does background work on the journal's closed segments.
    maintenance: Ref
    # Reads back what queues do not hold in memory.
    page_reader: Ref
    catalog: Ref
    logins: Ref
    memory_watch: Ref
    # Whether the queues' messages take too much, although they page.
    memory_level: MemoryLevel
    # Why publishers are not read, if they are not.
    alarms: Alarms = field(default_factory=Alarms)
    # Whose exchanges and queues are NSQ's topics and channels; "" if nobody listens for NSQ.
    nsq_vhost: str = ""
    # A write has met a full disk, and there is no room since: dead letters wait for some, too.
    is_disk_full: bool = False
    # Of the data directory's disk, as the disk watch has seen it last, for all who show it.
    disk_free_bytes: int = 0
    # The clients have gone: paged messages that are to be dead letters stay where they are.
    is_stopping: bool = False
    # Read what deleted queues owe their dead-letter exchanges: no start would find it.
    last_letters: set[Ref] = field(default_factory=set)
    # Movers of messages of NSQ's topics that have published some and not settled them yet: a start
    # would publish these again.
    moving: set[Ref] = field(default_factory=set)
    # Of messages, connections, channels and queues; the event loop's alone.
    counts: NodeCounts = field(default_factory=NodeCounts)
    # Channels tell it of confirms.
    confirm_latency: ConfirmLatency = field(default_factory=ConfirmLatency)
    # And of what they get.
    message_sizes: MessageSizes = field(default_factory=MessageSizes)
    # The journal's thread writes them.
    journal_figures: JournalFigures = field(default_factory=JournalFigures)
    # Of all listeners.
    crowds: Crowds = field(default_factory=Crowds)
    # Readers whose vhost is open: what connections_max counts.
    open_connections: dict[Ref, OpenConnection] = field(default_factory=dict)

    def new_decoder(self) -> Decoder:
        """For what a new connection brings."""
        return Decoder(
            min(self.limits.frame_max_bytes, OPENING_FRAME_BYTES_MAX),
            self.message_size_max_bytes,
            self.unfinished_publishes_bytes_max,
        )
