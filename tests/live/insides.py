"""The actors of a broker in this process, found from outside, and the way to make one fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import leveret
import pykka
import pytest
from holding import part, parts
from leveret.actors.channel.channel import Channel
from leveret.actors.connection.flow import ReadingGate
from leveret.actors.connection.listener import Listener
from leveret.actors.connection.reader import Reader
from leveret.actors.connection.writer import Writer
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
from leveret.actors.runtime.runtime import tell
from leveret.core.connection.publish_window import PublishWindow
from leveret.core.definitions import QueueDefinition
from leveret.core.queue.in_flight import InFlight
from leveret.core.queue.rules import MessageQueue
from timeouts import TIMEOUT_SECONDS

# Between two looks: the broker is in this process, and needs the interpreter to get on.
PAUSE_SECONDS = 0.001

_nothing: Any = None
# For each kind of actor, a message of its own that it cannot handle.
MALFORMED: dict[str, Any] = {
    "Queue": Persisted(_nothing),
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
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, "it never was"
        pause.wait(PAUSE_SECONDS)


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
    return queue_definition(broker, name).handle


def inside(actor: Ref) -> Any:
    """The actor behind a reference, for tests that look at its parts."""
    # private: the one way behind a reference, for all tests.
    return actor.actor_inbox.actor  # type: ignore[attr-defined]


def refs_of(owner: object, kind: type[pykka.Actor]) -> list[Ref]:
    """The references that the owner holds of actors of this class, the nearest first."""
    return [each for each in parts(owner, pykka.ActorRef) if each.actor_class is kind]  # type: ignore[misc]


def in_flight_count(broker: leveret.Broker, name: str) -> int:
    """How many messages the queue has delivered and not got back."""
    return part(inside(queue_actor(broker, name)), InFlight).message_count


def deferred_count(broker: leveret.Broker, name: str) -> int:
    """How many messages of the queue are not ready before they are due."""
    return part(inside(queue_actor(broker, name)), MessageQueue).deferred_count


def listener_of(broker: leveret.Broker) -> Ref:
    return refs_of(broker.node, Listener)[0]


def readers(broker: leveret.Broker) -> list[Ref]:
    """The readers of all connections, oldest first."""
    return refs_of(inside(listener_of(broker)), Reader)


def channel_actor(reader: Ref, channel_number: int = 1) -> Ref:
    for numbered in parts(inside(reader), dict):
        actor = numbered.get(channel_number)
        if isinstance(actor, pykka.ActorRef) and actor.actor_class is Channel:
            return actor  # type: ignore[return-value]
    raise AssertionError(f"no channel {channel_number}")


def writer_actor(reader: Ref) -> Ref:
    return refs_of(inside(reader), Writer)[0]


def publish_window(reader: Ref) -> PublishWindow:
    return part(inside(reader), PublishWindow)


def reading_gate(reader: Ref) -> ReadingGate:
    return part(inside(reader), ReadingGate)


def transport_of(reader: Ref) -> Any:
    # private: event loops have transports of classes of their own, so no type finds one.
    return inside(reader)._transport


def failure_of(broker: leveret.Broker) -> BaseException:
    """Why the broker has ended by itself, which its stop says."""
    with pytest.raises(leveret.BrokerFailedError) as said:
        broker.stop()
    failure = broker.failure
    assert failure is not None
    assert said.value.__cause__ is failure
    return failure
