"""The owner of the topology: declares, deletes and binds, one command at a time.

Each command is a small generator: it plans (core/topology.py), yields what it must wait for (a
queue's counts, the catalog's commit), and only then changes the routing table and answers, so that
nothing is routed, or said to be there, that a crash could take away. Parent of the queues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

from ..amqp_frames.errors import AmqpError
from ..amqp_frames.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from ..core.declaration_checks import gone
from ..core.definitions import AddQueue, QueueDefinition, RemoveQueue
from ..core.message_queue import MessageQueue
from ..core.plan import Plan
from ..core.queue_structures import make_queue
from ..core.ready_by_priority import ReadyByPriority
from ..storage.recovery import Recovered
from .catalog_changes import catalog_changes
from .messages import (
    Commit,
    Committed,
    ConnectionDown,
    Delete,
    DropQueue,
    PrepareDelete,
    QueueFailed,
    QueuesDeleted,
    QueueUnused,
    Ref,
    Refused,
    Resume,
    Status,
    TopologyAnswer,
    TopologyCommand,
)
from .node_context import NodeContext
from .queue import Queue
from .queue_by_priority import QueueByPriority
from .runtime import LoopActor, tell

# Yields (actor, question), gets the answer; returns what to tell the channel.
Steps = Generator[tuple[Ref, object], Any, TopologyAnswer | None]
Task = TopologyCommand | QueueUnused | ConnectionDown


class BrokerActor(LoopActor):
    """Carries out topology commands in the order in which they come."""

    def __init__(self, context: NodeContext) -> None:
        super().__init__()
        self._context = context
        self._topology = context.topology
        self._waiting: deque[Task] = deque()
        self._task: Task | None = None
        self._steps: Steps | None = None
        self._failed: set[QueueDefinition] = set()
        # Connections that have ended; what their channels still ask for is not done.
        self._down: set[Ref] = set()

    def restore(self, recovered: Recovered) -> None:
        """Start an actor for every queue of the catalog; before anything is told."""
        for queue in self._topology.table.queues():
            messages = self._new_messages(queue)
            for run in recovered.queues.get(queue.queue_id, ()):
                messages.restore(run.batch, run.indexes, run.first_entry_id, run.attempts)
            first_free = recovered.next_entry_ids.get(queue.queue_id, 1)
            messages.next_entry_id = max(messages.next_entry_id, first_free)
            self._start_queue(queue, messages)

    def on_receive(self, message: object) -> None:
        """Take a task, or the answer that the task at hand waits for."""
        if isinstance(message, (TopologyCommand, QueueUnused, ConnectionDown)):
            self._waiting.append(message)
        elif isinstance(message, (Committed, Status, Refused)):
            self._advance(message)
        elif isinstance(message, QueueFailed):
            self._queue_failed(message.queue)
        while self._steps is None and self._waiting:
            self._begin(self._waiting.popleft())

    def _begin(self, task: Task) -> None:
        if isinstance(task, TopologyCommand) and self._is_down(task.connection):
            # Its channel is gone, and an exclusive queue made now would never go.
            return
        self._task = task
        if isinstance(task, TopologyCommand):
            self._steps = self._command(task.method, task.connection)
        elif isinstance(task, QueueUnused):
            self._steps = self._delete_unused(task.queue)
        else:
            self._down = {each for each in self._down if each.is_alive()}
            self._down.add(task.connection)
            self._steps = self._delete_exclusive(task.connection)
        self._advance(None)

    def _advance(self, answer: object) -> None:
        """Go on with the task at hand until it waits again or is done."""
        task, steps = self._task, self._steps
        assert task is not None
        assert steps is not None
        result: TopologyAnswer | None = None
        try:
            while True:
                target, question = steps.send(answer)
                if tell(target, question):
                    return
                # The queue is gone: it has no messages and no consumers.
                answer = None
        except StopIteration as stop:
            result = stop.value
        except AmqpError as error:
            result = TopologyAnswer(error)
        self._task = self._steps = None
        if isinstance(task, TopologyCommand) and result is not None:
            tell(task.channel, result)
        elif isinstance(task, ConnectionDown):
            tell(task.reader, QueuesDeleted())

    def _is_down(self, connection: Ref) -> bool:
        return connection in self._down or not connection.is_alive()

    # --- Commands

    def _command(self, method: Method, connection: object) -> Steps:
        topology = self._topology
        if isinstance(method, QueueDeclare):
            return (yield from self._declare_queue(method, connection))
        if isinstance(method, QueueDelete):
            return (yield from self._delete_queue(method, connection))
        if isinstance(method, QueueBind):
            plan = topology.prepare_bind(
                method.queue, method.exchange, method.routing_key, method.arguments, connection
            )
            answer: Method = QueueBindOk()
        elif isinstance(method, QueueUnbind):
            plan = topology.prepare_unbind(
                method.queue, method.exchange, method.routing_key, method.arguments, connection
            )
            answer = QueueUnbindOk()
        elif isinstance(method, ExchangeBind):
            plan = topology.prepare_bind_exchange(
                method.destination, method.source, method.routing_key, method.arguments
            )
            answer = ExchangeBindOk()
        elif isinstance(method, ExchangeUnbind):
            plan = topology.prepare_unbind_exchange(
                method.destination, method.source, method.routing_key, method.arguments
            )
            answer = ExchangeUnbindOk()
        elif isinstance(method, ExchangeDeclare):
            plan = topology.prepare_declare_exchange(
                method.exchange,
                method.type,
                passive=method.passive,
                durable=method.durable,
                auto_delete=method.auto_delete,
                internal=method.internal,
                arguments=method.arguments,
            )
            answer = ExchangeDeclareOk()
        else:
            assert isinstance(method, ExchangeDelete)
            plan = topology.prepare_delete_exchange(method.exchange, if_unused=method.if_unused)
            answer = ExchangeDeleteOk()
        yield from self._commit(plan)
        return TopologyAnswer(answer)

    def _declare_queue(self, method: QueueDeclare, connection: object) -> Steps:
        plan = self._topology.prepare_declare_queue(
            method.queue,
            connection,
            passive=method.passive,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=method.arguments,
        )
        queue = plan.queue
        assert queue is not None
        if queue in self._failed:
            raise gone(queue, has_crashed=True)
        yield from self._commit(plan)
        return TopologyAnswer(QueueDeclareOk(queue.name, 0, 0), queue, not plan.changes)

    def _delete_queue(self, method: QueueDelete, connection: object) -> Steps:
        queue = self._topology.find_queue(method.queue, connection)
        message_count = consumer_count = 0
        if queue is not None:
            status = yield self._handle(queue), PrepareDelete(self.actor_ref)
            if isinstance(status, Status):
                message_count, consumer_count = status.message_count, status.consumer_count
        try:
            plan = self._topology.prepare_delete_queue(
                method.queue,
                connection,
                if_unused=method.if_unused,
                if_empty=method.if_empty,
                message_count=message_count,
                consumer_count=consumer_count,
            )
        except AmqpError:
            if queue is not None:
                tell(self._handle(queue), Resume())
            raise
        yield from self._commit(plan)
        return TopologyAnswer(QueueDeleteOk(message_count))

    # --- The broker's own doing

    def _delete_unused(self, queue: QueueDefinition) -> Steps:
        status = yield self._handle(queue), PrepareDelete(self.actor_ref)
        if isinstance(status, Status):
            if status.consumer_count:
                tell(self._handle(queue), Resume())
            else:
                yield from self._commit(self._topology.prepare_remove_queues([queue]))
        return None

    def _delete_exclusive(self, connection: object) -> Steps:
        queues = self._topology.queues_of(connection)
        if queues:
            yield from self._commit(self._topology.prepare_remove_queues(queues))
        return None

    def _commit(self, plan: Plan) -> Generator[tuple[Ref, object], Any, None]:
        """Catalog first, then the table, then the actors."""
        if plan.catalog:
            changes = catalog_changes(plan.catalog)
            committed = yield self._context.catalog, Commit(self.actor_ref, changes)
            # Without the catalog nothing is answered: this actor fails, and the node ends.
            assert isinstance(committed, Committed), committed
        for change in plan.changes:
            if isinstance(change, AddQueue):
                self._start_queue(change.queue, self._new_messages(change.queue))
        self._topology.apply(plan)
        for change in plan.changes:
            if isinstance(change, RemoveQueue):
                self._failed.discard(change.queue)
                if not tell(self._handle(change.queue), Delete()) and change.queue.durable:
                    # Its actor failed before: it cannot tell the journal itself.
                    tell(self._context.journal, DropQueue(change.queue.queue_id))

    def _new_messages(self, queue: QueueDefinition) -> MessageQueue:
        window_bytes_max = self._context.delivery_window_bytes_max
        return make_queue(queue, queue.durable, queue.arguments, window_bytes_max)

    def _start_queue(self, queue: QueueDefinition, messages: MessageQueue) -> None:
        # Limits are kept in the order in which messages came, so a batch stays as it is.
        divides = type(messages) is MessageQueue and isinstance(messages.ready, ReadyByPriority)
        kind = QueueByPriority if divides else Queue
        queue.handle = kind.start_on(self.runtime, self._context, queue, messages)

    def _queue_failed(self, queue: QueueDefinition) -> None:
        """A queue's actor died: it stays down, and its messages in the journal, until a restart.

        Publishes to it are nacked, because telling it fails; other use of it is refused.
        """
        self.runtime.log.error("queue.failed", queue=queue.name, durable=queue.durable)
        if self._topology.table.find_queue(queue.name) is queue:
            self._failed.add(queue)

    def _handle(self, queue: QueueDefinition) -> Ref:
        handle: Ref = queue.handle  # type: ignore[assignment]
        return handle

    def on_failure(self, *exception: Any) -> None:
        """Without its owner the topology is lost: the node ends."""
        self._context.on_fatal("broker", exception[1])
