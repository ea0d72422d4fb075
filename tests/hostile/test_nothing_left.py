"""Actors of clients that misbehaved end, all of them: counted inside a broker of this process."""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import frames_by_hand as wire
import leveret
from broker_watch import until
from leveret.actors.runtime.runtime import LoopActor
from mutations import mutated
from socket_client import EndedError, RefusedError, SocketClient
from test_broken_frames import BROKEN

CONSUME = wire.method(1, wire.CHANNEL_OPEN, b"\0") + b"".join(
    (
        wire.method(1, wire.QUEUE_DECLARE, b"\0\0" + wire.short("") + b"\4" + wire.long(b"")),
        wire.publish(1, "", "", b"x" * 1000) * 50,
        wire.consume(1, "", "tag"),
    )
)


def running_actors() -> Counter[str]:
    """How many actors of each kind there are in this process that have not stopped."""
    gc.collect()
    actors = [each for each in gc.get_objects() if isinstance(each, LoopActor)]
    return Counter(type(each).__name__ for each in actors if not each.actor_stopped.is_set())


def broken(port: int, data: bytes) -> None:
    """A client that is refused, and goes without an answer."""
    client = SocketClient(port)
    client.open_channel()
    client.send(data)
    try:
        client.expect(wire.CLOSE_OK)
    except RefusedError:
        client.abandon()


def send_and_leave(port: int, data: bytes) -> None:
    """A client that says something and goes."""
    client = SocketClient(port, opens=False)
    with suppress(EndedError):
        client.send(wire.handshake() + data)
    client.abandon()


def test_no_actor_of_a_misbehaving_client_is_left(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    with leveret.Broker(data_dir=tmp_path, port=0, log_level="error") as broker:
        keeper = SocketClient(broker.port)
        keeper.open_channel(confirm=True)
        keeper.declare("queue")
        before = running_actors()
        clients: list[Callable[[], None]] = [
            lambda data=data: broken(broker.port, data) for data, _, _ in BROKEN.values()
        ]
        clients += [lambda: send_and_leave(broker.port, CONSUME)] * 50
        behind_login = len(wire.handshake())
        clients += [lambda: send_and_leave(broker.port, mutated(chance, 2)[behind_login:])] * 200
        chance.shuffle(clients)
        for client in clients:
            client()
        until(lambda: running_actors()["Reader"] == before["Reader"], "readers are left")
        until(lambda: keeper.declare("queue", passive=True) >= 0, "the keeper is not served")
        left = running_actors()
        # Queues that a mutation has made durable or shared are meant to stay.
        left["Queue"] = min(left["Queue"], before["Queue"])
        print(f"\n{len(clients)} clients; actors before {dict(before)}, after {dict(left)}")
        assert left == before
        keeper.close()
