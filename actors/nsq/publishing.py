"""The publishing half of an NSQ connection: what an AMQP channel in confirm mode does.

Runs inside the connection's actor. A run of PUB, MPUB or DPUB is one batch of AMQP publishes; the
rules of routes, numbers and owed confirms are core/publishing/publisher.py's.
"""

from __future__ import annotations

from typing import Final

from ...amqp_frames.messages.batch import Batch
from ...core.connection.publish_window import WindowShare
from ...core.exchanges.exchange import Steps
from ...core.nsq.answers import Answers, PublishedRun
from ...core.nsq.session import reason_of, unauthorised
from ...core.nsq.topics import is_ready
from ...core.publishing.publisher import Publisher, Routed
from ...core.publishing.vhost_users import VhostUser
from ...core.statistics.channel_counts import ChannelCounts
from ...core.users.access import AccessRefusedError
from ...nsq_frames.body_bytes import body_bytes
from ...nsq_frames.errors import NsqError
from ...nsq_frames.publishes import CHANNEL_NUMBER, PublishRun
from ..channel.firehose import FirehoseTap
from ..channel.handover import Handover
from ..messages import Absorbed, ChannelLeft, Confirm, Ref, Reject
from ..node_context import NodeContext
from ..runtime.runtime import tell
from ..tracing.trace import ChannelTracing

_NO_REASON: Final = "the message was refused"


def failed(command: bytes, reason: str) -> NsqError:
    """The broker could not keep the messages of this command."""
    name = command.decode()
    return NsqError(f"E_{name}_FAILED", f"{name} failed {reason}")


class Publishing:
    """State of the publishing half of the actor `connection`."""

    def __init__(
        self,
        context: NodeContext,
        connection: Ref,
        vhost_user: VhostUser,
        share: WindowShare,
        counts: ChannelCounts,
        tracing: ChannelTracing,
        tap: FirehoseTap,
        answers: Answers,
    ) -> None:
        self._context = context
        self._connection = connection
        self._access = vhost_user.access
        self._share = share
        self._counts = counts
        self._tracing = tracing
        self._answers = answers
        self.publisher = Publisher(
            vhost_user.routes,
            context.next_batch_number,
            CHANNEL_NUMBER,
            0,
            vhost_user.access.user,
            False,
            vhost_user.access.may_impersonate,
        )
        self.publisher.confirm_mode = True
        self._unconfirmed = self.publisher.unconfirmed
        counts.confirm_mode(self._unconfirmed)
        self._handover = Handover(context, connection, self.publisher, counts, tracing, tap)
        # Topics that may be published to, until the topology changes.
        self._ready: set[bytes] = set()
        self._ready_version = -1
        # Of the run whose routing takes several turns.
        self._routing: tuple[Steps[Routed], PublishRun] | None = None
        # Why the last publish was refused.
        self.reason = _NO_REASON

    def unready_topic(self, batch: Batch) -> str | None:
        """A topic of the batch that must be made, or mended, before the batch is routed."""
        table = self._access.topology.table
        if self._ready_version != table.version:
            self._ready.clear()
            self._ready_version = table.version
        for key in batch.distinct:
            if key not in self._ready:
                topic = key[1:-2].decode()
                if not is_ready(table, topic):
                    return topic
                self._ready.add(key)
        return None

    def publish_to_one(self, run: PublishRun) -> bool:
        """Publish a run that goes to one queue by a kept route; False, and nothing is done, if
        there is more to it.

        As `publish`. So it is with nearly all lone publishes.
        """
        batch = run.batch
        if run.delays_ms is not None or self.unready_topic(batch) is not None:
            return False
        first_seq_no = self.publisher.next_seq_no
        if not self._handover.pass_to_one(batch):
            return False
        self._came_in(batch)
        self._owe(run, first_seq_no, len(batch.starts))
        return True

    def publish(self, run: PublishRun) -> bool:
        """Publish a run whose topics are ready; False if its routing goes on with RouteMore.

        NsqError for a topic that the user may not write to; commands before it are published.
        """
        if self.publish_to_one(run):
            return True
        batch = run.batch
        self._came_in(batch)
        routed = self.publisher.route_known(batch)
        if routed is None:
            steps = self.publisher.route(batch)
            routed = self._context.routing_turns.start(steps, self._connection)
            if routed is None:
                self._routing = steps, run
                return False
        self._pass_on(routed, run)
        return True

    def _came_in(self, batch: Batch) -> None:
        self._share.add(batch.wire_bytes)
        self._context.message_sizes.published(batch)
        for key, size_bytes in body_bytes(batch).items():
            self._counts.came_in(key, size_bytes)

    def route_more(self) -> bool:
        """RouteMore has come; as `publish`."""
        if self._routing is None:
            return True
        steps, run = self._routing
        routed = self._context.routing_turns.go_on(steps, self._connection)
        if routed is None:
            return False
        self._routing = None
        self._pass_on(routed, run)
        return True

    @property
    def is_routing(self) -> bool:
        """Is a run's routing not finished?"""
        return self._routing is not None

    def _owe(self, run: PublishRun, first_seq_no: int, message_count: int) -> None:
        self._answers.published(PublishedRun(run.command, first_seq_no, message_count, run.counts))

    def _pass_on(self, routed: Routed, run: PublishRun) -> None:
        # State before effects: owed answers are noted before the queues are told.
        batch = routed.batch
        if routed.message_count:
            self._owe(run, routed.first_seq_no, routed.message_count)
        self._handover.pass_to_queues(routed, 0 if run.delays_ms is None else run.delays_ms)
        error = routed.error
        if error is not None:
            key = batch.distinct[batch.keys[routed.message_count]]
            if isinstance(error, AccessRefusedError):
                raise unauthorised(run.command, key[1:-2].decode())
            raise failed(run.command, reason_of(error))

    def answered(self, message: Confirm | Reject) -> None:
        """A queue has these messages, or refuses them."""
        if isinstance(message, Reject):
            self.reason = message.reason or _NO_REASON
        self._handover.answered(message)

    @property
    def is_answered(self) -> bool:
        """Have queues answered anything since `due` was asked?"""
        return self._unconfirmed.are_answers_due()

    def due(self) -> tuple[bytes, bool]:
        """The answers that can be written now, and whether the last refuses a publish.

        Fsync before OK: a publish counts as answered when every queue has confirmed it.
        """
        unconfirmed = self._unconfirmed
        if self._tracing.answers.open and unconfirmed.are_answers_due():
            self._tracing.answers.answering(unconfirmed)
        unconfirmed.forget_confirmed()
        return self._answers.due(unconfirmed.smallest(), unconfirmed.rejected)

    def absorb(self) -> None:
        """Give back to the window what queues have confirmed."""
        released_bytes = self._unconfirmed.released_bytes
        if released_bytes:
            self._unconfirmed.released_bytes = 0
            for reader in self._share.remove(released_bytes):
                tell(reader, Absorbed())

    def counts(self) -> dict[str, object]:
        """For a report."""
        return {"mode": "confirm", "unconfirmed": len(self._unconfirmed)}

    def release(self) -> None:
        """The connection ends; queues keep what they were told."""
        self._routing = None
        released = self._share.release()
        for reader in released.readers:
            tell(reader, Absorbed())
        if released.unabsorbed_bytes:
            tell(self._context.left_publishes, ChannelLeft(released.unabsorbed_bytes))
