"""The firehose: channels of traced vhosts report their publishes and deliveries, one actor copies.

The rules are core/publishing/firehose.py's. A vhost is traced while its metadata say so; a channel
of another pays one test for a batch.
"""

from __future__ import annotations

from ...core.publishing.firehose import (
    DeliveryReport,
    FirehoseBacklog,
    Origin,
    PublishReport,
)
from ...core.publishing.publisher import Routed
from ...core.queue.span import Span
from ...core.topology.topology import Topology
from ...logs.events import FIREHOSE_DROPPED, FIREHOSE_DROPPING
from ..messages import Publish, Ref
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell


class FirehoseTap:
    """Reports what one channel publishes and delivers, while its `topology.is_traced`."""

    __slots__ = ("_context", "_number", "_origin", "_reader", "_user", "topology")

    def __init__(
        self, context: NodeContext, reader: Ref, number: int, user: str, topology: Topology
    ) -> None:
        self.topology = topology
        self._context = context
        self._reader = reader
        self._number = number
        self._user = user
        self._origin: Origin | None = None

    def published(self, routed: Routed) -> None:
        """These messages are about to be told to their queues."""
        report = PublishReport(
            self._known_origin(),
            routed.batch,
            routed.message_count,
            routed.by_queue,
            routed.further,
        )
        tell(self._context.firehose, report)

    def delivered(self, queue: str, span: Span) -> None:
        """These messages are about to be sent to the client."""
        tell(self._context.firehose, DeliveryReport(self._known_origin(), queue, span))

    def _known_origin(self) -> Origin:
        origin = self._origin
        if origin is None:
            opened = self._context.open_connections.get(self._reader)
            # The API's own connections are not listed, and have no name.
            name = "" if opened is None else opened.peer.connection_name
            origin = Origin(self.topology.vhost, name, self._number, self._user)
            self._origin = origin
        return origin


class FirehoseActor(LoopActor):
    """One for the node. If it fails, there are no copies until the next start."""

    def __init__(self, context: NodeContext, node_name: str, backlog_bytes_max: int) -> None:
        super().__init__()
        self._backlog = FirehoseBacklog(
            context.vhosts.tables.get, context.next_batch_number, node_name, backlog_bytes_max
        )
        self._is_scheduled = False
        # Since the backlog was empty last.
        self._dropped_count = 0

    def on_receive(self, message: object) -> None:
        """Take reports, and go on with the copies at None; the answers of queues mean nothing."""
        if isinstance(message, (PublishReport, DeliveryReport)):
            if not self._backlog.add(message):
                self._drop(message.message_count())
            elif not self._is_scheduled:
                self._go_on_later()
        elif message is None:
            self._is_scheduled = False
            self._copy_some()

    def _copy_some(self) -> None:
        made = self._backlog.make()
        if made is not None:
            for queue, indexes in made.by_queue.items():
                # To a queue that has gone since: nobody listens any more.
                tell(queue.handle, Publish(self.actor_ref, made.batch, indexes))
        if self._backlog:
            self._go_on_later()
        elif self._dropped_count:
            self.runtime.log.warning(FIREHOSE_DROPPED, messages=self._dropped_count)
            self._dropped_count = 0

    def _drop(self, message_count: int) -> None:
        if not self._dropped_count:
            self.runtime.log.warning(FIREHOSE_DROPPING, waiting_bytes=self._backlog.waiting_bytes)
        self._dropped_count += message_count

    def _go_on_later(self) -> None:
        self._is_scheduled = True
        self.runtime.scheduler.call_soon(self._go_on)

    def _go_on(self) -> None:
        self.runtime.tell_now(self.actor_ref, None)
