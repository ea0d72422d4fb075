"""The owner of the topology: declares, deletes and binds, one command at a time.

Each command is a small generator: it plans (core/topology/topology.py), yields what it must wait
for (a queue's counts, the catalog's commit), and only then changes the routing table and answers,
so that nothing is routed, or said to be there, that a crash could take away. Parent of the queues.

A change of accounts goes the same way: check, commit to the catalog, change the shared accounts,
then put the change into effect (of policies: policies.py). A long task lets the event loop do other
work in between, and the next one begins behind it. Channels look up their routes anew, and the
broker closes the connections of a deleted user or vhost with 320, in RabbitMQ's words. The queues
of a deleted vhost are deleted with it, and nack what they owe.

A definitions file is one task, too: it is read, checked and planned as a whole, and committed in
one transaction, so that a crash leaves all of it or nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import AmqpError, SoftError
from ...amqp_frames.methods import QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk
from ...core.definition_files.document import DocumentError, read_document
from ...core.definition_files.planning import ImportPlan, plan_import
from ...core.definitions import (
    AddExchange,
    AddQueue,
    PauseQueue,
    QueueDefinition,
    RemoveQueue,
    RenameQueue,
    ReplaceQueueArguments,
    resource,
)
from ...core.nsq.topics import (
    EMPTYING,
    TopicAction,
    hidden_queue_name,
    plan_topic,
    plan_unused,
    topic_of,
)
from ...core.parameters.limits import vhost_limits
from ...core.queue.construction import make_queue, refill, refill_paged
from ...core.queue.dedup import RememberedRow
from ...core.queue.rules import MessageQueue
from ...core.topology.topology import (
    Plan,
    Topology,
    is_durable,
    make_plan,
    plan_method,
    queue_gone_error,
)
from ...core.users.access import Access
from ...core.users.account_requests import prepare_request
from ...core.users.accounts import (
    AccountChange,
    AccountError,
    AddVhost,
    ChangeVhost,
    MissingError,
    RemoveUser,
    RemoveVhost,
    VhostMetadata,
)
from ...logs.events import DEFINITIONS_PASSED_OVER
from ...storage.journal.recovery import Recovered
from ..messages import (
    AccountRequest,
    AlarmCleared,
    Commit,
    Committed,
    ConnectionDown,
    ControlAnswer,
    Delete,
    DropQueue,
    Empty,
    EntriesLost,
    ForgetIdentities,
    ImportRequest,
    NextSlice,
    PauseRequest,
    QueueFailed,
    QueuesDeleted,
    QueueUnused,
    RecordDeliveries,
    Ref,
    Refused,
    Renamed,
    RenewLease,
    ReportStatus,
    ReportsTo,
    Resume,
    SetArguments,
    SetPaused,
    Shutdown,
    Status,
    TopicAnswer,
    TopicCommand,
    TopologyAnswer,
    TopologyCommand,
)
from ..node_context import NodeContext
from ..queue.queue import Queue
from ..runtime.runtime import LoopActor, tell
from ..tracing.queue import queue_declared, recovered_deferrals, recovered_run
from .moving import TopicMoves
from .policies import PoliciesInEffect

# A queue whose messages must be read at a start pages them when it holds so much.
_REFILLED_BYTES_MAX = 1024 * 1024

# So many items of a definitions file are read, planned or made in a round of the event loop: some
# tenths of a millisecond.
_SLICE_ITEMS: Final = 16
# So many bindings that lack an end are named in the log.
_PASSED_OVER_SHOWN_MAX: Final = 5

# Yields (actor, question), gets the answer, or None to let the event loop do other work; returns
# what to tell the channel.
Answer = TopologyAnswer | TopicAnswer | ControlAnswer
Steps = Generator[tuple[Ref, object] | None, Any, Answer | None]
Result = TypeVar("Result")
ControlRequest = AccountRequest | PauseRequest | ImportRequest
Task = TopologyCommand | TopicCommand | QueueUnused | ConnectionDown | ControlRequest


class BrokerActor(LoopActor):
    """Carries out topology commands in the order in which they come."""

    def __init__(self, context: NodeContext) -> None:
        super().__init__()
        self._context = context
        self._vhosts = context.vhosts
        self._waiting: deque[Task] = deque()
        self._task: Task | None = None
        self._steps: Steps | None = None
        self._policies = PoliciesInEffect(context)
        self._moves = TopicMoves(context)
        self._failed: set[QueueDefinition] = set()
        # Unused queues that could not be deleted because the disk was full.
        self._postponed: list[QueueUnused] = []
        # Connections that have ended; the broker ignores later requests of their channels.
        self._down: set[Ref] = set()

    def restore(self, recovered: Recovered) -> None:
        """Start an actor for every queue of the catalog; before anything is told."""
        context = self._context
        trace = context.trace
        tell(context.journal, ReportsTo(self.actor_ref))
        for topology in self._vhosts:
            _put_metadata_in_effect(topology, context.accounts.vhosts[topology.vhost])
            self._policies.restore(topology)
        made: dict[int, tuple[QueueDefinition, MessageQueue]] = {}
        # Queues whose messages must be read; the others are paged until somebody needs them.
        read: set[int] = set()
        for queue in self._vhosts.queues():
            messages = self._new_messages(queue)
            # Deferred messages wait for the rest of their time.
            messages.now_ms = context.runtime.wall_clock.now_ms()
            messages.uptime_ms = int(context.runtime.scheduler.time() * 1000)
            made[queue.queue_id] = queue, messages
            entries = recovered.queues.get(queue.queue_id)
            if entries is None:
                continue
            if messages.needs_columns or trace.is_on:
                read.add(queue.queue_id)
            else:
                refill_paged(messages, entries)
        for queue_id, run in recovered.messages_of(read):
            queue, messages = made[queue_id]
            if trace.is_on:
                recovered_run(trace, queue, run)
            refill(messages, (run,))
            if messages.held_bytes > _REFILLED_BYTES_MAX and not trace.is_on:
                messages.page_out(0, synced_below=run.first_entry_id + len(run.indexes))
        for queue_id, ranges in recovered.losses.entries.items():
            # As of entries that are lost later, nothing of them stays.
            tell(context.journal, RecordDeliveries(queue_id, (), ranges))
        for queue_id, (queue, messages) in made.items():
            if queue_id in read:
                messages.sweep_all()
                if trace.is_on:
                    recovered_deferrals(trace, queue, messages)
            self._restore_rest(queue, messages, recovered)
        for topology in self._vhosts:
            self._moves.look_at(topology.table.hidden_queues())

    def _restore_rest(
        self, queue: QueueDefinition, messages: MessageQueue, recovered: Recovered
    ) -> None:
        """Start the queue, with what the journal says of it besides its messages."""
        first_free = recovered.next_entry_ids.get(queue.queue_id, 1)
        messages.next_entry_id = max(messages.next_entry_id, first_free)
        kept = recovered.identities.get(queue.queue_id, ())
        rows = (RememberedRow(run.first_entry_id, run.until_ms, run.identities) for run in kept)
        if messages.deduplication is not None:
            messages.deduplication.window.restore(rows, messages.now_ms)
        elif kept:
            # It has lost deduplication, and the broker died before the journal heard of it.
            below = messages.next_entry_id
            tell(self._context.journal, ForgetIdentities(queue.queue_id, below, for_good=True))
        self._start(queue, messages)

    def _new_messages(self, queue: QueueDefinition) -> MessageQueue:
        context = self._context
        return make_queue(
            queue,
            queue.durable,
            queue.effective,
            context.delivery_window_bytes_max,
            context.sweep_interval_bytes,
        )

    def _start(self, queue: QueueDefinition, messages: MessageQueue) -> None:
        """Give the queue an actor, its `handle` from now on."""
        messages.is_paused = queue.is_paused
        self._context.counts.add_queue(queue, self._vhosts[queue.vhost])
        queue.rules = messages
        queue.handle = Queue.start_on(self._context.runtime, self._context, queue, messages)

    def on_receive(self, message: object) -> None:
        """Take a task, or the answer that the task at hand waits for."""
        if isinstance(message, Task):
            self._waiting.append(message)
        elif isinstance(message, (Committed, Status, Refused)):
            self._advance(message)
        elif isinstance(message, NextSlice):
            self._advance(None)
        elif isinstance(message, QueueFailed):
            self._queue_failed(message.queue)
        elif isinstance(message, EntriesLost):
            self._entries_lost(message)
        elif isinstance(message, AlarmCleared):
            self._waiting.extend(self._postponed)
            self._postponed.clear()
        while self._steps is None and self._waiting:
            self._begin(self._waiting.popleft())

    def _begin(self, task: Task) -> None:
        if isinstance(task, (TopologyCommand, TopicCommand)) and self._is_late(task):
            return
        self._task = task
        if isinstance(task, TopologyCommand):
            self._steps = self._command(task)
        elif isinstance(task, TopicCommand):
            self._steps = self._topic_command(task)
        elif isinstance(task, QueueUnused):
            self._steps = self._delete_unused(task)
        elif isinstance(task, AccountRequest):
            self._steps = self._change_accounts(task)
        elif isinstance(task, PauseRequest):
            self._steps = self._pause(task)
        elif isinstance(task, ImportRequest):
            self._steps = self._import(task)
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
        result: Answer | None = None
        try:
            while True:
                asked = steps.send(answer)
                if asked is None:
                    # Not in this round: other actors and sockets come first.
                    self.runtime.scheduler.call_soon(partial(tell, self.actor_ref, NextSlice()))
                    return
                if tell(*asked):
                    return
                # The queue is gone: it has no messages and no consumers.
                answer = None
        except StopIteration as stop:
            result = stop.value
        except AmqpError as error:
            refusal = error.with_traceback(None)
            if isinstance(task, TopicCommand):
                result = TopicAnswer(task.token, refusal)
            else:
                result = TopologyAnswer(refusal)
        self._task = self._steps = None
        if isinstance(task, TopologyCommand) and result is not None:
            tell(task.channel, result)
        elif isinstance(task, TopicCommand):
            if result is not None:
                tell(task.reply_to, result)
        elif isinstance(task, ControlRequest):
            tell(task.reply_to, result)
        elif isinstance(task, ConnectionDown):
            tell(task.reader, QueuesDeleted())

    def _is_late(self, task: TopologyCommand | TopicCommand) -> bool:
        """Has its connection gone, or the vhost, and with that soon the connection?

        Its channel needs no answer, and an exclusive queue made now would never go.
        """
        connection = task.connection
        is_down = connection in self._down or not connection.is_alive()
        return is_down or task.access.topology.is_deleted

    # --- Commands

    def _command(self, task: TopologyCommand) -> Steps:
        topology, method, connection = task.access.topology, task.method, task.connection
        if isinstance(method, QueueDeclare):
            return (yield from self._declare_queue(task.access, method, connection))
        if isinstance(method, QueueDelete):
            return (yield from self._delete_queue(topology, method, connection))
        plan, answer = plan_method(topology, method, connection)
        for needed in plan.needed:
            task.access.check(*needed)
        yield from self._commit(topology, plan)
        return TopologyAnswer(answer)

    def _declare_queue(self, access: Access, method: QueueDeclare, connection: object) -> Steps:
        plan = access.topology.prepare_declare_queue(
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
            raise queue_gone_error(queue, has_crashed=True)
        for needed in plan.needed:
            access.check(*needed)
        if plan.changes:
            self._prepare_new_queue(access.topology, queue)
        if not plan.changes and "x-expires" in queue.effective:
            # Before it can be asked whether it is unused.
            tell(self._handle(queue), RenewLease())
        yield from self._commit(access.topology, plan)
        if not method.passive:
            self._context.counts.churned("queue_declared")
        return TopologyAnswer(QueueDeclareOk(queue.name, 0, 0), queue, not plan.changes)

    def _topic_command(self, task: TopicCommand) -> Steps:
        topology = task.access.topology
        plan = plan_topic(topology, task.action, task.topic, task.channel)
        for needed in plan.needed:
            task.access.check(*needed)
        if plan.queue is not None and plan.queue in self._failed:
            raise queue_gone_error(plan.queue, has_crashed=True)
        if task.action in EMPTYING and plan.queue is not None:
            # It has the answer: this actor does not wait for a disk that may be full.
            emptying = Empty(task.reply_to, task.token)
            if not tell(self._handle(plan.queue), emptying):
                raise queue_gone_error(plan.queue, has_crashed=True)
            return None
        further: list[ReplaceQueueArguments] = []
        for change in plan.changes:
            if isinstance(change, RenameQueue):
                further.append(self._arguments_of_renamed(topology, change))
            elif isinstance(change, AddQueue) and not change.queue.is_hidden:
                self._prepare_new_queue(topology, change.queue)
            elif isinstance(change, AddQueue) and task.action is TopicAction.ENSURE_TOPIC:
                self._check_topic_limit(topology, task.topic)
        yield from self._commit(topology, plan._replace(changes=(*plan.changes, *further)))
        self._follow_topic(topology, task.topic)
        return TopicAnswer(task.token, queue=plan.queue)

    def _follow_topic(self, topology: Topology, topic: str) -> None:
        """What its hidden queue holds moves on to its channels, or stays."""
        hidden = topology.table.find_hidden_queue(hidden_queue_name(topic))
        if hidden is not None:
            self._moves.look_at((hidden,))

    def _arguments_of_renamed(
        self, topology: Topology, renaming: RenameQueue
    ) -> ReplaceQueueArguments:
        """What policies say of the queue under its new name, under which it counts as new."""
        queue = renaming.queue
        renamed = replace(queue, name=renaming.name)
        self._prepare_new_queue(topology, renamed)
        return ReplaceQueueArguments(queue, renamed.effective, renamed.policies)

    def _prepare_new_queue(self, topology: Topology, queue: QueueDefinition) -> None:
        """Have its policies' arguments in effect; 406 if limits forbid the queue."""
        self._check_queue_limit(topology, queue)
        queue.put_in_effect(*self._policies.of(topology).queue_arguments(queue))
        topology.check_dedup_identities(queue)

    def _check_queue_limit(self, topology: Topology, queue: QueueDefinition) -> None:
        """406 if the vhost has as many queues as it may."""
        limit = vhost_limits(self._context.accounts.parameters, topology.vhost).queues_max
        if limit is not None and len(topology.table.queues()) >= limit:
            text = (
                f"cannot declare queue '{queue.name}': "
                f"queue limit in vhost '{topology.vhost}' ({limit}) is reached"
            )
            raise SoftError(PRECONDITION_FAILED, text)

    def _check_topic_limit(self, topology: Topology, topic: str) -> None:
        """406 if the vhost has as many queues as it may, those that topics keep theirs in counted.

        To publish to ever more topics is no way around the limit.
        """
        table = topology.table
        limit = vhost_limits(self._context.accounts.parameters, topology.vhost).queues_max
        if limit is not None and len(table.queues()) + len(table.hidden_queues()) >= limit:
            text = (
                f"cannot create topic '{topic}': "
                f"queue limit in vhost '{topology.vhost}' ({limit}) is reached"
            )
            raise SoftError(PRECONDITION_FAILED, text)

    def _delete_queue(self, topology: Topology, method: QueueDelete, connection: object) -> Steps:
        queue = topology.find_queue(method.queue, connection)
        message_count = deferred_count = consumer_count = 0
        if queue is not None:
            status = yield self._handle(queue), ReportStatus(self.actor_ref, holds=True)
            if isinstance(status, Status):
                message_count, consumer_count = status.message_count, status.consumer_count
                deferred_count = status.deferred_count
            elif method.if_empty or method.if_unused:
                # It has failed: its messages are in the journal, and nobody can say how many.
                raise queue_gone_error(queue, has_crashed=True)
        try:
            plan = topology.prepare_delete_queue(
                method.queue,
                connection,
                if_unused=method.if_unused,
                if_empty=method.if_empty,
                message_count=message_count + deferred_count,
                consumer_count=consumer_count,
            )
            yield from self._commit(topology, plan)
        except AmqpError:
            if queue is not None:
                tell(self._handle(queue), Resume())
            raise
        return TopologyAnswer(QueueDeleteOk(message_count + deferred_count))

    def _change_accounts(self, request: AccountRequest) -> Steps:
        try:
            changes = prepare_request(self._context.accounts, request.name, request.arguments)
            replaced = yield from self._policies.plan(changes)
        except AccountError as error:
            is_missing = isinstance(error, MissingError)
            return ControlAnswer(request.token, str(error), is_missing)
        if not changes:
            return ControlAnswer(request.token)
        committed = yield self._context.catalog, Commit(self.actor_ref, changes)
        if isinstance(committed, Refused):
            return ControlAnswer(request.token, committed.error.reply_text)
        assert isinstance(committed, Committed), committed
        put_in_effect(self._context, changes)
        for vhost in [change.name for change in changes if isinstance(change, RemoveVhost)]:
            topology = self._vhosts[vhost]
            table = topology.table
            plan = topology.prepare_remove_queues((*table.queues(), *table.hidden_queues()))
            # The catalog has dropped them with the vhost.
            yield from self._commit(topology, plan._replace(catalog=()))
            self._vhosts.remove(vhost)
        for vhost in [change.name for change in changes if isinstance(change, AddVhost)]:
            # Its policies may have come with it.
            self._policies.restore(self._vhosts[vhost])
        yield from self._policies.put_in_effect(replaced)
        return ControlAnswer(request.token)

    def _pause(self, request: PauseRequest) -> Steps:
        topology = self._vhosts.find(request.vhost)
        if topology is None:
            text = f"there is no vhost '{request.vhost}'"
            return ControlAnswer(request.token, text, is_missing=True)
        try:
            plan = topology.prepare_pause_queue(request.queue, request.is_paused)
        except AmqpError:
            text = f"there is no {resource('queue', request.queue, request.vhost)}"
            return ControlAnswer(request.token, text, is_missing=True)
        try:
            yield from self._commit(topology, plan)
        except AmqpError as error:
            return ControlAnswer(request.token, error.reply_text)
        return ControlAnswer(request.token)

    # --- Definitions

    def _import(self, request: ImportRequest) -> Steps:
        context = self._context
        if request.vhost is not None and self._vhosts.find(request.vhost) is None:
            text = f"there is no vhost '{request.vhost}'"
            return ControlAnswer(request.token, text, is_missing=True)
        try:
            document = yield from _in_slices(read_document(request.text))
            planning = plan_import(document, context.accounts, self._vhosts, request.vhost)
            plan = yield from _in_slices(planning)
            replaced = yield from self._policies.plan(plan.accounts, plan.dedup_identities)
        except (DocumentError, AccountError) as fault:
            return ControlAnswer(request.token, str(fault))
        changes = [each for of_vhost in plan.topology.values() for each in of_vhost]
        durable = [*plan.accounts, *filter(is_durable, changes)]
        if durable:
            committed = yield context.catalog, Commit(self.actor_ref, tuple(durable))
            if isinstance(committed, Refused):
                return ControlAnswer(request.token, committed.error.reply_text)
            assert isinstance(committed, Committed), committed
        if plan.accounts:
            put_in_effect(context, plan.accounts)
        yield from self._policies.put_in_effect(replaced)
        for vhost, some in plan.topology.items():
            topology = self._vhosts[vhost]
            for part in _slices(some):
                # It is in the catalog already.
                made = make_plan(topology.table, part)._replace(catalog=())
                yield from self._commit(topology, made)
                yield None
        self._log_passed_over(plan)
        return ControlAnswer(request.token)

    def _log_passed_over(self, plan: ImportPlan) -> None:
        if plan.passed_over:
            shown = [f"{each.source} -> {each.destination}" for each in plan.passed_over]
            self.runtime.log.warning(
                DEFINITIONS_PASSED_OVER,
                bindings=len(shown),
                first=shown[:_PASSED_OVER_SHOWN_MAX],
                reason="one of their ends is not there",
            )

    # --- The broker's own doing

    def _delete_unused(self, task: QueueUnused) -> Steps:
        queue = task.queue
        topology = self._vhosts.find(queue.vhost)
        if topology is None or not topology.table.has_queue(queue):
            return None
        status = yield self._handle(queue), ReportStatus(self.actor_ref, holds=True)
        if isinstance(status, Status):
            # It may have been used meanwhile.
            if status.consumer_count or (task.has_expired and not status.is_lease_over):
                tell(self._handle(queue), Resume())
                return None
            if queue.is_hidden and not self._has_moved(topology, status):
                tell(self._handle(queue), Resume())
                self._moves.look_at((queue,))
                return None
            try:
                yield from self._commit(topology, plan_unused(topology, queue))
            except AmqpError:
                self._postponed.append(task)
                tell(self._handle(queue), Resume())
            else:
                self._follow_topic(topology, topic_of(queue))
        return None

    @staticmethod
    def _has_moved(topology: Topology, status: Status) -> bool:
        """Is a hidden queue empty, and nothing more published to it?"""
        is_bound = bool(topology.table.bindings_to(status.queue))
        return not (is_bound or status.message_count or status.deferred_count)

    def _delete_exclusive(self, connection: object) -> Steps:
        for topology in self._vhosts:
            queues = topology.queues_of(connection)
            if queues:
                yield from self._remove_queues(topology.vhost, queues)
        return None

    def _remove_queues(
        self, vhost: str, queues: Iterable[QueueDefinition]
    ) -> Generator[tuple[Ref, object], Any, None]:
        topology = self._vhosts.find(vhost)
        if topology is not None:
            yield from self._commit(topology, topology.prepare_remove_queues(queues))

    def _commit(self, topology: Topology, plan: Plan) -> Generator[tuple[Ref, object], Any, None]:
        """Catalog first, then the table, then the actors."""
        if plan.catalog:
            committed = yield self._context.catalog, Commit(self.actor_ref, plan.catalog)
            if isinstance(committed, Refused):
                raise committed.error
            # Without the catalog nothing is answered: this actor fails, and the node ends.
            assert isinstance(committed, Committed), committed
        for change in plan.changes:
            if isinstance(change, AddExchange):
                definition = change.exchange
                effective, policies = self._policies.of(topology).exchange_arguments(definition)
                definition.effective, definition.policies = effective, policies
            elif isinstance(change, AddQueue):
                self._start(change.queue, self._new_messages(change.queue))
                self._context.counts.churned("queue_created")
                if self._context.trace.is_on:
                    queue_declared(self._context.trace, change.queue)
            elif isinstance(change, RenameQueue):
                # It looks at this when the definition has the new name, before new arguments.
                tell(self._handle(change.queue), Renamed(change.queue.name))
        topology.apply(plan)
        for change in plan.changes:
            if isinstance(change, RemoveQueue):
                self._failed.discard(change.queue)
                self._context.counts.churned("queue_deleted")
                self._context.counts.remove_queue(change.queue)
                change.queue.rules = None
                if not tell(self._handle(change.queue), Delete()) and change.queue.durable:
                    # Its actor failed before: it cannot tell the journal itself.
                    tell(self._context.journal, DropQueue(change.queue.queue_id))
            elif isinstance(change, PauseQueue):
                # A queue whose actor has failed is paused when the node starts it anew.
                tell(self._handle(change.queue), SetPaused(change.is_paused))
            elif isinstance(change, ReplaceQueueArguments):
                tell(self._handle(change.queue), SetArguments(change.arguments))

    def _queue_failed(self, queue: QueueDefinition) -> None:
        """A queue's actor died: it stays down, and its messages in the journal, until a restart.

        Publishes to it are nacked, because telling it fails; other use of it is refused.
        """
        self.runtime.log.error("queue.failed", queue=queue.name, durable=queue.durable)
        if self._vhosts.table_of(queue) is not None:
            self._failed.add(queue)

    def _entries_lost(self, message: EntriesLost) -> None:
        """Tell their queue, unless it has gone."""
        for queue in self._vhosts.queues():
            if queue.queue_id == message.queue_id:
                tell(self._handle(queue), message)

    def _handle(self, queue: QueueDefinition) -> Ref:
        handle: Ref = queue.handle
        return handle

    def on_failure(self, *exception: Any) -> None:
        """Without its owner the topology is lost: the node ends."""
        self._context.on_fatal("broker", exception[1])


def _in_slices(steps: Iterator[Result]) -> Generator[None, None, Result]:
    """The last of what the steps yield."""
    result: Result | None = None
    for some in _slices(steps):
        result = some[-1]
        yield
    assert result is not None
    return result


def _slices(items: Iterable[Result]) -> Iterator[tuple[Result, ...]]:
    iterator = iter(items)
    while some := tuple(islice(iterator, _SLICE_ITEMS)):
        yield some


def put_in_effect(context: NodeContext, changes: Iterable[AccountChange]) -> None:
    """Change the shared accounts, as the catalog has them by now, and what follows from them."""
    context.accounts.apply(changes)
    for topology in context.vhosts:
        topology.table.forget_routes()
    for change in changes:
        _follow(context, change)


def _put_metadata_in_effect(topology: Topology, metadata: VhostMetadata) -> None:
    topology.default_queue_type = metadata.default_queue_type
    topology.is_traced = metadata.is_traced


def _follow(context: NodeContext, change: AccountChange) -> None:
    match change:
        case AddVhost(name, metadata):
            _put_metadata_in_effect(context.vhosts.add(name), metadata)
        case ChangeVhost(name, metadata):
            _put_metadata_in_effect(context.vhosts[name], metadata)
        case RemoveVhost(name):
            reason = f"vhost '{name}' is deleted"
            for reader, opened in context.open_connections.items():
                if opened.access.topology.vhost == name:
                    tell(reader, Shutdown(reason))
        case RemoveUser(name):
            reason = f"user '{name}' is deleted"
            for reader, opened in context.open_connections.items():
                if opened.access.user == name:
                    tell(reader, Shutdown(reason))
