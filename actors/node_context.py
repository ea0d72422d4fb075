"""What every actor of one node may ask for: settings, the shared table, the actors above it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ..amqp_frames.decoder import Decoder
from ..core.accounts import Accounts
from ..core.handshake import Limits
from ..core.peer import Subject
from ..core.reply_consumers import ReplyConsumers
from ..core.vhosts import Vhosts
from ..logs.trace import Trace
from .messages import Ref
from .open_connection import OpenConnection
from .runtime import Runtime

# Until frame_max is agreed: what is offered counts for those only who have logged in. RabbitMQ
# takes 4096 octets, which long properties of a client may exceed.
OPENING_FRAME_BYTES_MAX: Final = 131_072


@dataclass(slots=True)
class NodeContext:
    """Made by the node before its actors; the references are filled in as they start."""

    runtime: Runtime
    # Exchanges and queues: changed by the broker's actor, read by all.
    vhosts: Vhosts
    limits: Limits
    version: str
    # Users, vhosts and permissions: read by all, changed by the broker's actor.
    accounts: Accounts
    # Whom a client certificate's subject names, for the mechanism EXTERNAL.
    certificate_name: Callable[[Subject], str]
    trace: Trace
    next_batch_number: Callable[[], int]
    message_size_max_bytes: int
    unfinished_publishes_bytes_max: int
    publish_window_bytes_max: int
    delivery_window_bytes_max: int
    sweep_interval_bytes: int
    write_buffer_bytes_max: int
    transaction_bytes_max: int
    reply_window_bytes_max: int
    stranded_letters_max: int
    stranded_letters_bytes_max: int
    handshake_timeout_seconds: float
    close_timeout_seconds: float
    connections_max: int
    file_descriptors_kept: int
    consumers_per_channel_max: int
    # An actor that the node cannot do without has failed.
    on_fatal: Callable[[str, BaseException], None]
    reply_consumers: ReplyConsumers
    broker: Ref
    ticker: Ref
    dead_letters: Ref
    journal: Ref
    catalog: Ref
    logins: Ref
    # Why publishers are not read, in RabbitMQ's words; "" while they are.
    alarm: str = ""
    # Readers whose vhost is open: what connections_max counts.
    open_connections: dict[Ref, OpenConnection] = field(default_factory=dict)

    def new_decoder(self) -> Decoder:
        """For what a new connection brings."""
        return Decoder(
            min(self.limits.frame_max_bytes, OPENING_FRAME_BYTES_MAX),
            self.message_size_max_bytes,
            self.unfinished_publishes_bytes_max,
        )
