"""The actors of a broker in this process, found from outside, and the way to make one fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import leveret
from leveret.actors.messages import (
    ChannelFailed,
    Confirm,
    Down,
    Persisted,
    Ref,
    StartHeartbeats,
    TopologyCommand,
    WakeAt,
)
from leveret.actors.node_context import NodeContext
from leveret.actors.runtime import tell
from leveret.core.definitions import QueueDefinition

TIMEOUT_SECONDS = 15.0

_nothing: Any = None
# For each kind of actor, a message of its own that it cannot handle.
MALFORMED: dict[str, Any] = {
    "Queue": Persisted(_nothing),
    "QueueByPriority": Persisted(_nothing),
    "DedupQueue": Persisted(_nothing),
    "Channel": Confirm(_nothing, _nothing),
    "Reader": ChannelFailed([], _nothing),  # type: ignore[arg-type]
    "Writer": StartHeartbeats(_nothing),
    "DeadLetterPublisher": Confirm(_nothing, _nothing),
    "Ticker": WakeAt(_nothing, _nothing, _nothing),
    "Listener": Down([], ""),  # type: ignore[arg-type]
    "BrokerActor": TopologyCommand(_nothing, _nothing, _nothing, _nothing),
}


def fail(actor: Ref) -> None:
    """Make the actor raise in its next turn, as a mistake of ours would."""
    assert tell(actor, MALFORMED[actor.actor_class.__name__])


def wait_until(is_so: Callable[[], bool]) -> None:
    """Look again and again: for what the broker does without sending a frame."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never was"


def on_loop(broker: leveret.Broker, *calls: Callable[[], object]) -> None:
    """Make these calls in one go on the broker's event loop: no actor has a turn in between."""
    done = Future[None]()

    def run() -> None:
        try:
            for call in calls:
                call()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    context_of(broker).runtime.scheduler.call_soon_threadsafe(run)
    done.result(TIMEOUT_SECONDS)


def context_of(broker: leveret.Broker) -> NodeContext:
    assert broker.node is not None
    assert broker.node.context is not None
    return broker.node.context


def queue_definition(broker: leveret.Broker, name: str) -> QueueDefinition:
    queue = context_of(broker).vhosts["/"].table.find_queue(name)
    assert queue is not None
    return queue


def queue_actor(broker: leveret.Broker, name: str) -> Ref:
    return queue_definition(broker, name).handle  # type: ignore[return-value]


def in_flight_count(broker: leveret.Broker, name: str) -> int:
    """How many messages the queue has out."""
    inside: Any = queue_actor(broker, name).actor_inbox.actor
    return int(inside._messages.in_flight.message_count)


def readers(broker: leveret.Broker) -> list[Ref]:
    """The readers of all connections, oldest first."""
    assert broker.node is not None
    listener: Any = broker.node._listener.actor_inbox.actor
    return list(listener._readers)


def channel_actor(reader: Ref, channel_number: int = 1) -> Ref:
    inside: Any = reader.actor_inbox.actor
    actor = inside._channels._channels[channel_number]
    assert actor is not None
    return actor


def writer_actor(reader: Ref) -> Ref:
    inside: Any = reader.actor_inbox.actor
    return inside._writer
